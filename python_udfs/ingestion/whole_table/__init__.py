"""Changes of whole tables, as changes of rows: full loads, TRUNCATE, DROP, RENAME."""
