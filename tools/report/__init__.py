"""The report: one page about the state of the warehouse."""
