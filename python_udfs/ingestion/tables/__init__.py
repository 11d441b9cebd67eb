"""A source table as it is declared: columns and their types, names, beginnings of its log."""
