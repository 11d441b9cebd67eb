"""What `make` calls, behind one command line: `python -m tools`."""
