"""What the tests share: an independent oracle, random histories, sample data tools."""
