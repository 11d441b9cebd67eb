"""What `make new-table` is made of: columns as the log has them, and the files of a typed model."""
