"""The real project, end to end."""
