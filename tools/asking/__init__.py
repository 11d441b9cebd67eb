"""What `make sql` is made of: statements as they are typed, and tables as people expect them."""
