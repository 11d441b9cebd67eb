"""What the source database is asked itself: counts, and the rows of a full load."""
