"""Events of whole tables as changes of rows: full loads, TRUNCATE, DROP, RENAME.

A typed ODS model holds the changes of single rows. An event that empties or fills a whole table
becomes rows too (op_type delete or insert, the event in metadata_op_type), so that models
downstream see changes of rows alone:

- A table event (TRUNCATE, DROP, a RENAME away) deletes every row that the table had at that
  position. A RENAME of another table to this name inserts the rows of the other table.
- A full load has no position in the log, and needs none. The row that a key had before the log is
  the `before` image of its first change; if that is an insert, there was no row. The row of the
  load counts only for a key without such a change. So it doesn't matter when the load ran.

Both depend on changes that may come late, so these rows are not written once. `derived_rows`
works out the rows for the keys that a run touches, compares them with the rows that the table
holds, and appends the difference. A row that is no longer right is retracted by its opposite at
the same position, with the same cut_date.

A RENAME may bring rows that are missing in the log: the other table is older than the log, or came
by topics that the model doesn't read. Such a statement becomes a refused row with its reason, as
does a statement whose effect on the table can't be read. Its certain part still holds: the rows
that the table had before are deleted.

Changes of MongoDB may be partial, unless the option pre_images requires whole documents. There the
deletes at an event hold the whole row where it is known, else its key, and rows of full loads
stand before all changes, as they are. Rows that a collection got by a RENAME can't be worked out
from partial changes; the statement is refused.

Positions: rows from before the log have file number -1. At an event the deletes have row_number 0
(retracted: -1), inserts have row_number 1 and up, of which the highest is valid.
"""
