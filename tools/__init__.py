"""What `make` calls."""
