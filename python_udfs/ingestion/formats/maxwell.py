"""Maxwell's messages: https://maxwells-daemon.io/dataformat

    {"database", "table", "type", "ts", "xid", "xoffset" | "commit": true, "position": "file:n",
     "data": {...}, "old": {...}}

What they mean, as seen from a real producer:
- `ts` is the second of the statement; in DDL rows it is milliseconds.
- A renamed table is a table-alter row whose `old` and `def` name different tables. A TRUNCATE
  leaves no trace.
- `position` is shared by the rows of one statement. The last row of a transaction has
  commit: true and no xoffset: (position, xoffset, commit) identifies rows and orders them.
- With bootstrapper=async (the default) a table's changes are held back while it is bootstrapped,
  and come afterwards without xid and with an xoffset that counts them from the process's start:
  of such a change sent again it is unknown whether it is the same.
- `old` holds changed columns only. A column that is null there was null; one that is absent has
  the value it has in `data`. A key change is one update with the old key in `old`.
- A SET is a list of its labels. It becomes the text that MySQL writes, as with all formats: a,b.
- A row image that isn't FULL leaves columns out of `data`, and usually has no `old`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.ddl import moves, moves_beside, table_op, too_long
from python_udfs.ingestion.formats.exact_numbers import (
    AMBIGUOUS,
    is_ambiguous,
    may_be_reprinted,
    may_be_rounded,
    narrow_decimals,
    rounded_decimals,
    with_marked_numbers,
    without_number_marks,
)
from python_udfs.ingestion.formats.json_lines import (
    JSON_ONLY,
    LATEST_TS,
    absent_columns_text,
    as_list,
    half_character,
    misfit_texts,
    no_single_object,
    text_kind,
    unread_names,
)
from python_udfs.ingestion.formats.several_names import names_if_several, of_column
from python_udfs.ingestion.formats.statements import body_of, name_in, object_in, text_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Move, Table
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

LAST_ROW = 2**31 - 1  # row_number of a transaction's last row, which has no xoffset
OPS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "bootstrap-insert": "snapshot",
    "bootstrap-start": "control",
    "bootstrap-complete": "control",
}
# where a message names the server that made its change, if Maxwell writes it (output_server_id,
# output_gtid_position); a format without such has no binlog, see log_resets
SERVER_PATHS = {"server_id": ("$.server_id",), "server_uuid": ("$.gtid",)}
DDL = r"^(database|table)-(create|alter|drop)$"
_HEAD = (
    "struct<database string, `table` string, type string, ts bigint, xid bigint, "
    "xoffset bigint, `commit` boolean, position string>"
)


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload`."""
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _HEAD))
    head = F.when(F.size("_listed") == 1, F.col("_listed")[0])
    frame = frame.withColumn("_head", head)
    of_row = F.col("_head.type").isin(list(OPS))
    op = F.when(F.col("_head.type").rlike(DDL), _table_op())
    for kind, name in OPS.items():
        op = op.when(F.col("_head.type") == kind, F.lit(name))
    place = F.regexp_extract(F.col("_head.position"), r"^(.+):(\d{1,18})$", 1)
    number = F.regexp_extract(F.col("_head.position"), r"^.+:(\d{1,18})$", 1).try_cast("bigint")
    # the whole number: the end of a longer one would be another file's
    file_number = F.regexp_extract(F.col("_head.position"), r"(?:^|\D)(\d{1,18}):\d{1,18}$", 1)
    # below LAST_ROW, which a transaction's last row has
    xoffset = F.when(F.col("_head.xoffset").between(0, LAST_ROW - 1), F.col("_head.xoffset"))
    frame = frame.select(
        *messages.columns,
        "_listed",
        "_head",
        op.alias("op"),
        F.when(place != "", place).alias("binlog_file"),
        F.when(file_number != "", file_number.try_cast("bigint")).alias("binlog_file_number"),
        number.alias("binlog_position"),
        F.when(F.col("_head.commit"), F.coalesce(xoffset, F.lit(LAST_ROW)))
        .otherwise(xoffset)
        .cast("bigint")
        .alias("row_number"),
    )
    in_range = F.col("_head.ts").between(0, LATEST_TS)
    in_range_ms = F.col("_head.ts").between(0, LATEST_TS * 1000)
    is_ddl = F.col("op").isin("ddl", "truncate", "drop", "rename")
    is_change = F.col("op").isin("insert", "update", "delete")
    time = F.when(is_ddl & in_range_ms, F.timestamp_millis(F.col("_head.ts"))).when(
        ~is_ddl & in_range, F.timestamp_seconds(F.col("_head.ts"))
    )
    head_type = F.col("_head.type")
    no_object = no_single_object(F.col("_listed"), "Maxwell")
    reason = (
        F.when(no_object.isNotNull(), no_object)
        .when(
            F.col("_head").isNull() | head_type.isNull(),
            F.lit("JSON, but no Maxwell message: no `type`"),
        )
        .when(
            F.col("op").isNull(),
            F.concat(F.lit("unknown Maxwell type "), F.substring(head_type, 1, 40)),
        )
        .when(of_row & F.col("_head.database").isNull(), F.lit("no `database`"))
        .when(of_row & F.col("_head.table").isNull(), F.lit("no `table`"))
        .when(F.col("event_time").isNull(), F.lit("`ts` is missing or not a time"))
        .when(
            is_change & (F.col("binlog_file_number").isNull() | F.col("binlog_position").isNull()),
            F.lit(
                "no binlog position, or a malformed one: "
                "run Maxwell with output_binlog_position=true"
            ),
        )
        .when(
            is_change & F.col("row_number").isNull(),
            F.lit("`xoffset` is missing or not a row number: run Maxwell with output_xoffset=true"),
        )
        .when(is_ddl, _unread_statement())
    )
    return (
        frame.withColumn("event_time", time)
        .withColumn("envelope_reason", reason)
        .withColumn("database_name", F.col("_head.database"))
        .withColumn("table_name", F.col("_head.table"))
        .withColumn("xid", F.col("_head.xid"))
        .drop("_listed", "_head")
    )


def _table_op() -> Column:
    """What a DDL row did: drop, rename (of one table; a swap is two rows), or any other ddl.

    The statement is asked for the rest: CREATE OR REPLACE, or an ALTER of partitions.
    """
    from pyspark.sql import functions as F

    names = _altered_names()
    renamed = (names[0] != names[1]) | (names[2] != names[3])
    op_of_statement = table_op(F.get_json_object("payload", "$.sql"))
    return (
        F.when(F.col("_head.type").isin("table-drop", "database-drop"), F.lit("drop"))
        .when((F.col("_head.type") == "table-alter") & renamed, F.lit("rename"))
        .otherwise(F.coalesce(F.when(op_of_statement != "rename", op_of_statement), F.lit("ddl")))
    )


def _altered_names() -> list[Column]:
    """Of a table-alter: the database before and after it, the table before and after it."""
    from pyspark.sql import functions as F

    return [
        F.get_json_object("payload", f"$.{part}.{name}")
        for name in ("database", "table")
        for part in ("old", "def")
    ]


def _unread_statement() -> Column:
    """Why a DDL row doesn't tell what it was on, or did; null where it does."""
    from pyspark.sql import functions as F

    unnamed = reduce(or_, [name.isNull() for name in _altered_names()])
    kind = F.col("_head.type")
    return (
        F.when(F.col("_head.database").isNull(), F.lit("no `database`"))
        .when(kind.like("table-%") & F.col("_head.table").isNull(), F.lit("no `table`"))
        .when(
            (kind == "table-alter") & unnamed,
            F.lit("a table-alter without database and table in its `old` and `def`"),
        )
        .when(text_kind("sql") == "other", F.lit("`sql` is no text"))
        .otherwise(too_long(F.get_json_object("payload", "$.sql")))
    )


def table_moves(payload: str, database: str | None, table: str | None, op: str) -> list[Move]:
    """Which table's rows a DDL row took where, see ddl.moves."""
    row = body_of(payload)
    kind = name_in(row, "type")
    if op == "rename":
        old, new = (
            (name_in(part, "database"), name_in(part, "table"))
            for part in (object_in(row, "old"), object_in(row, "def"))
        )
        # one of several tables that the statement renamed, each in a message of its own
        return moves_beside(text_in(row, "sql") or "", (old, new))
    if kind == "database-drop":
        return [((name_in(row, "database"), "*"), None)]
    if kind == "table-drop":
        return [((name_in(row, "database"), name_in(row, "table")), None)]
    return moves(name_in(row, "sql"), name_in(row, "database"))


def new_table(payload: str, database: str | None) -> Table | None:
    """The table that a DDL row makes."""
    row = body_of(payload)
    if name_in(row, "type") != "table-create":
        return None
    return name_in(row, "database"), name_in(row, "table")


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with their images.

    Args:
        messages: rows of ods_binlog of one table, ops insert, update and delete.
        source: the table's declaration.

    Returns:
        messages with
        data: struct of the row as the message carries it (after image; of a delete the deleted
            row), fields of each column's `parsed` type;
        before: struct like `data`, the row before an update or delete; null for an insert;
        image_reason: why the images can't be had; null when they can.
    """
    from pyspark.sql import functions as F

    row = ", ".join(f"`{name}` {kind.parsed}" for name, kind in source.names_in_log().items())
    schema = f"struct<data struct<{row}>, old struct<{row}>, _corrupt string>"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", **JSON_ONLY}
    frame = messages.withColumn("_parsed", F.from_json(F.col("payload"), schema, options))
    frame = frame.withColumn("_exact", _exact_texts(source))
    # a null field of `old` may be null or absent: its keys tell
    has_old = F.col("_parsed.old").isNotNull()
    keys = F.when((F.col("op") == "update") & has_old, F.map_keys(_raw("old")))
    frame = frame.withColumn("_old_keys", keys)
    several = names_if_several(source, F.col("payload"), F.map_keys(_raw("data")))
    frame = frame.withColumn("_names", several)

    def read(part: str, name: str, kind: SourceType) -> Column:
        value = F.col(f"_parsed.{part}")[name]
        if kind.kind != "text":
            return value
        exact = without_number_marks(F.col(f"_exact.{part}")[name])
        return F.when(F.col("_exact").isNotNull(), exact).otherwise(value)

    def value(part: str, name: str) -> Column:
        kind = source.columns[name]
        names = source.names(name)
        usual = F.coalesce(*[read(part, source_name, kind) for source_name in names])
        raw = of_column(names, F.col("_names"), lambda found: read(part, found, kind), usual)
        if not source.columns[name].declared.lower().startswith("set"):
            return raw
        return F.coalesce(F.array_join(F.from_json(raw, "array<string>"), ","), raw)

    def after(name: str) -> Column:
        return value("data", name)

    def previous(name: str) -> Column:
        was_old = F.lit(False)
        for source_name in source.names(name):
            was_old = was_old | F.array_contains("_old_keys", source_name)
        was_old = of_column(
            source.names(name),
            F.col("_names"),
            lambda found: F.array_contains("_old_keys", found),
            was_old,
        )
        return F.when(was_old, value("old", name)).otherwise(after(name))

    data = F.struct(*[after(name).alias(name) for name in source.columns])
    before = F.struct(*[previous(name).alias(name) for name in source.columns])
    data = F.when(F.col("_parsed.data").isNotNull(), data)
    is_update = (F.col("op") == "update") & F.col("_parsed").isNotNull()
    before = F.when(F.col("op") == "delete", data).when(is_update, before)
    frame = frame.select("*", data.alias("data"), before.alias("before"))
    # once more as maps, for the reasons: only where a value was not read, or a null field may be
    # an absent one
    unread = F.col("_parsed._corrupt").isNotNull()
    unsure = F.lit(False)
    for name in source.watched:
        unsure = unsure | F.col("data")[name].isNull()
    absent = absent_columns_text(source, F.map_keys(_raw("data")))
    reason = (
        F.when(F.col("data").isNull(), F.lit("no `data` object"))
        .when(unread, _misfits(source))
        .when(
            (F.col("op") == "update") & ~has_old,
            F.lit("an update without `old`: the server's binlog_row_image must be FULL"),
        )
        .when(F.col("_exact").isNotNull() & is_ambiguous(F.col("payload")), F.lit(AMBIGUOUS))
        .otherwise(
            F.coalesce(
                rounded_decimals(narrow_decimals(source.names_in_log()), ("data", "old")),
                half_character(source),
                F.when(unsure, absent),
            )
        )
    )
    return frame.withColumn("image_reason", reason).drop("_parsed", "_exact", "_old_keys", "_names")


def _exact_texts(source: TableSource) -> Column:
    """`data` and `old` as structs of marked texts, see exact_numbers; null where none is needed."""
    from pyspark.sql import functions as F

    payload, names = F.col("payload"), source.names_in_log()
    texts = {
        name: [F.col(f"_parsed.{part}")[name] for part in ("data", "old")]
        for name, kind in names.items()
        if kind.kind == "text"
    }
    decimals = narrow_decimals(names)
    if not texts and not decimals:
        return F.lit(None)
    row = ", ".join(f"`{name}` string" for name in (*texts, *decimals))
    needed = may_be_reprinted(texts, payload) | may_be_rounded(decimals.values(), payload)
    schema = f"struct<data struct<{row}>, old struct<{row}>>"
    return F.when(needed, F.from_json(with_marked_numbers(payload), schema))


def _raw(part: str) -> Column:
    from pyspark.sql import functions as F

    return F.from_json(F.col("payload"), f"struct<{part} map<string, string>>")[part]


def _misfits(source: TableSource) -> Column:
    """Text naming the values that could not be read as their column's type."""
    from pyspark.sql import functions as F

    found = []
    columns = source.names_in_log()
    for part in ("data", "old"):
        values = _raw(part)
        wrong = unread_names(columns, values, F.col("_parsed")[part])
        found.append(misfit_texts(columns, part, values, wrong))
    listed = F.concat_ws("; ", *found)
    return (
        F.when(listed != "", listed)
        .when(_raw("old").isNull(), F.lit("`old` is no object"))
        .otherwise(F.lit("a value doesn't fit its column's type"))
    )
