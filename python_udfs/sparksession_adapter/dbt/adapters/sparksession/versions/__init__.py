"""Versions of the whole warehouse: one writer at a time, publication, and operations on versions.

It may import `declared` and what lies below.
"""
