"""Benchmarks of the warehouse and the generators of their input."""
