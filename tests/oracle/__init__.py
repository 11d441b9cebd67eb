"""Tests of the oracle: it must be right before anything is compared with it."""
