"""Debezium's change events of MySQL, MariaDB and PostgreSQL: https://debezium.io/documentation

    {"before": {...} | null, "after": {...} | null, "op": "c|u|d|r|t", "ts_ms",
     "source": {"db", "table", "ts_ms", "snapshot", "file", "pos", "row" | "schema", "lsn", "txId"}}

or {"schema": {...}, "payload": <the same>}, by the converter's `schemas.enable`.

What they mean, as seen from a real producer (3.5, on MariaDB) and documented for PostgreSQL:
- A key change is a delete of the old key, a tombstone and a create of the new key, all at one
  (file, pos, row) or lsn.
- MySQL: (file, pos, row) is a row of the binlog. `row_number` is 2 * row, and one more for a
  create: so the parts of a key change differ, the delete first.
- PostgreSQL: each change has an lsn, but the rows of one COPY share theirs, and the rows of a
  snapshot share one position in every database (old versions on MySQL write them as op c). These
  are distinguished by a hash of their images as `row_number`; a create's is above any other's. Rows
  that are equal in every column, so of a table without key, count once there. `sequence` doesn't
  distinguish them: it depends on where the connector started. Of a table with a key the lsn and
  the row's key identify a change, whatever the images. An lsn orders the changes of one row, for
  its lock is held until the commit, but not those of different rows.
- The names of PostgreSQL's tables hold their schema: `database: shop, table: public.orders`.
- `source.ts_ms` may be 0 in a snapshot; then the time of Debezium's processing counts.
- Every snapshot begins with made-up schema changes, DROP TABLE among them: those are op ddl.
- Both images are whole if binlog_row_image is FULL, or the table's REPLICA IDENTITY. By
  PostgreSQL's default an update has no `before`, and that of a delete may hold null in all
  columns but the key: it is refused, though a row could really be so.
- How a value is encoded depends on the column's type and the connector's settings, which OPTIONS
  names with Debezium's own names. A message doesn't tell them: 1234 may be a decimal, or the
  base64 of three bytes; a number of milliseconds may be one of microseconds. Where a schema stands
  beside it, a message of another scale or unit than is declared is read by its schema, see
  schema_blocks. Where the converter has decimal.format=NUMERIC, decimals read as those of
  `decimal.handling.mode: string` do.
- A DATETIME is the epoch time that its digits would have in UTC; a TIMESTAMP is ISO text. Zero
  dates are null, or 1970-01-01 in a column that is NOT NULL.
- A large value of PostgreSQL that an update left alone may be absent: PLACEHOLDER stands there.
"""

from __future__ import annotations

from python_udfs.ingestion.formats.debezium.envelopes import (
    envelope,
    has_lsn,
    new_table,
    table_moves,
)
from python_udfs.ingestion.formats.debezium.row_images import images
from python_udfs.ingestion.formats.debezium.schema_blocks import by_own_schemas

__all__ = [
    "OPTIONS",
    "SERVER_PATHS",
    "by_own_schemas",
    "envelope",
    "has_lsn",
    "images",
    "new_table",
    "table_moves",
]


# the connector's settings that the encoding of values depends on; PostgreSQL's default of the
# first is adaptive
OPTIONS = {
    "time.precision.mode": (
        "adaptive_time_microseconds",
        "adaptive",
        "connect",
        "microseconds",
        "nanoseconds",
        "isostring",
    ),
    "decimal.handling.mode": ("precise", "string", "double"),
    "bigint.unsigned.handling.mode": ("long", "precise"),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
}
# where a message names the server that made its change, see log_resets
SERVER_PATHS = {
    "server_id": ("$.source.server_id", "$.payload.source.server_id"),
    "server_uuid": ("$.source.gtid", "$.payload.source.gtid"),
}
