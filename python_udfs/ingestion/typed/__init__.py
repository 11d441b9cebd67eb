"""Messages of one table as rows of its typed ODS model, each change once."""
