"""Column lineage: which source columns every column of every model comes from."""
