"""What a model reads: pinned snapshots, new rows, changes, changed partitions, ranges of values.

It may import `keyed` and what lies below.
"""
