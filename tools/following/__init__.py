"""What `make follow` is made of: looks for news, builds, reports how fresh the warehouse is."""
