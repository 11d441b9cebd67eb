"""Decoding in the workers, column by column, of the messages that it can prove to read exactly."""
