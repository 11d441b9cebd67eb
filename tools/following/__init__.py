"""What `make follow` is made of: looks for news, builds, says how fresh the warehouse is."""
