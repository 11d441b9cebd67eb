"""What a log says of a whole table, as changes of its rows: full loads, TRUNCATE, DROP, RENAME.

A typed ODS model holds the changes of single rows. What empties or fills a table at once, it holds
as rows too (op_type delete or insert, metadata_op_type what it was), so that nothing downstream
has to know:

- A table event (TRUNCATE, DROP, a RENAME away) deletes at its position every row that the table
  had then. A RENAME of another table to this name inserts the rows that the other one had.
- A full load has no position, and nobody has to align one: the row that a key had before the log
  is the row before its first change, and none if that is an insert. Only for a key without such a
  change does the load's own row count. So it doesn't matter when the load ran.

Both depend on changes that may come late. So these rows are not written once: `derived_rows`
works out what follows from all that is known of the keys that a run touches, compares it with
what the table holds, and appends the difference. A row that no longer holds is taken back by its
opposite at the same position, with the same cut_date.

A RENAME may bring rows that the log doesn't tell of: its table is older than the log, or came by
topics that the model doesn't read. Such a statement, and one whose effect on the table can't be
read, becomes a refused row with its reason. What is sure of it holds nevertheless: the rows that
the table had before are gone.

Where a change may be told in part (MongoDB's), the deletes at an event have the rows that are
known whole, and of the others the keys. Full loads stand before all changes there, as they are.
What a table got by a RENAME can't be worked out from changes in part, and is refused.

Positions: the rows before the log are in file number -1. At an event the deletes have row_number
0 (taken back: -1), and what fills the table 1 and up, of which the highest is right.
"""

from __future__ import annotations
