"""From landed messages to the rows of the ODS models."""
