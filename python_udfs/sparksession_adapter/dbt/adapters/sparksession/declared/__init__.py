"""What a macro of joins, windows, streams or key filters declares: its problems and its plan.

It may import `reading` and what lies below.
"""
