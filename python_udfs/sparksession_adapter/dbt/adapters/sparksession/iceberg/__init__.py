"""Tables as Iceberg keeps them: metadata, snapshots and their ancestry, partitions and transforms.

It may import the session and SQL texts.
"""
