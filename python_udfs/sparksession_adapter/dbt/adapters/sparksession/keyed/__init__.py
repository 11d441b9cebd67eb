"""Tables with a key: folds and zippers by key, the sorted runs that store them, keys of a node.

It may import `iceberg` and what lies below.
"""
