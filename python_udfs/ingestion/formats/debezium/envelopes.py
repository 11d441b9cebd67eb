"""The envelope of Debezium's messages: operation, table, position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.ddl import made_table, moves, table_op, too_long
from python_udfs.ingestion.formats.exact_numbers import with_marked_numbers
from python_udfs.ingestion.formats.json_lines import LATEST_TS, as_list, no_single_object
from python_udfs.ingestion.formats.statements import body_of, object_in, text_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Move, Table

OPS = {
    "c": "insert",
    "u": "update",
    "d": "delete",
    "r": "snapshot",
    "t": "truncate",
    "m": "control",  # a text that was written into PostgreSQL's log
}
MADE_BY_LOG = "false"  # source.snapshot of what doesn't come from one
POSTGRES = "postgres"  # binlog_file of all that has an lsn
HASH_BITS = 61
_BODY = (
    "op string, ts_ms bigint, status string, ddl string, databaseName string, "
    "tableChanges array<struct<type string>>, source struct<connector string, db string, "
    "schema string, `table` string, snapshot string, ts_us bigint, ts_ms bigint, file string, "
    "pos bigint, `row` bigint, lsn bigint, txId bigint>"
)
_HEAD = f"struct<{_BODY}, payload struct<{_BODY}>>"


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload`."""
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _HEAD))
    first = F.when(F.size("_listed") == 1, F.col("_listed")[0])
    frame = frame.withColumn("_outer", first)
    payload = F.col("_outer.payload")
    head = F.when(payload.isNotNull(), payload).otherwise(
        F.when(F.col("_outer").isNotNull(), F.col("_outer").dropFields("payload"))
    )
    frame = frame.withColumn("_head", head)
    origin = F.col("_head.source")
    is_null = (F.size("_listed") == 1) & F.col("_outer").isNull()
    op = F.when(is_null, F.lit("control"))
    for kind, name in OPS.items():
        op = op.when(F.col("_head.op") == kind, F.lit(name))
    no_op = F.col("_head").isNotNull() & F.col("_head.op").isNull()
    op = (
        op.when(no_op & F.col("_head.ddl").isNotNull(), _ddl_op())
        .when(no_op & F.col("_head.status").isin("BEGIN", "END"), F.lit("control"))
        .when(no_op & _is_heartbeat(), F.lit("control"))
    )
    file_number = F.regexp_extract(origin["file"], r"(?:^|\D)(\d{1,18})$", 1)
    of_binlog = origin["file"].isNotNull()
    frame = frame.select(
        *messages.columns,
        "_listed",
        "_head",
        op.alias("op"),
        F.coalesce(
            F.nullif(origin["db"], F.lit("")), F.nullif(F.col("_head.databaseName"), F.lit(""))
        ).alias("database_name"),
        F.when(origin["table"].isNotNull(), F.concat_ws(".", origin["schema"], origin["table"]))
        .otherwise(F.lit(None))
        .alias("table_name"),
        _event_time().alias("event_time"),
        F.when(of_binlog, origin["file"])
        .when(origin["lsn"].isNotNull(), F.lit(POSTGRES))
        .alias("binlog_file"),
        F.when(of_binlog, file_number.try_cast("bigint"))
        .when(origin["lsn"].isNotNull(), F.lit(0).cast("bigint"))
        .alias("binlog_file_number"),
        F.when(of_binlog, F.when(origin["pos"] >= 0, origin["pos"]))
        .otherwise(F.when(origin["lsn"] >= 0, origin["lsn"]))
        .alias("binlog_position"),
        F.when(F.col("_head.op").isin("c", "u", "d", "r"), _row_number()).alias("row_number"),
        origin["txId"].alias("xid"),
    )
    return frame.withColumn("envelope_reason", _envelope_reason()).drop("_listed", "_head")


def has_lsn() -> Column:
    """Condition on changes: they are PostgreSQL's, of whatever log, see log_resets.placed."""
    from pyspark.sql import functions as F

    return F.substring_index("binlog_file", "@", 1).eqNullSafe(POSTGRES)


def _is_heartbeat() -> Column:
    """Condition: nothing but a time, or a null that the schema is written with."""
    from pyspark.sql import functions as F

    inner = F.get_json_object("payload", "$.payload")
    keys = F.json_object_keys(F.coalesce(inner, F.col("payload")))
    times = F.array(*map(F.lit, ("ts_ms", "ts_us", "ts_ns")))
    wrapper = F.array(F.lit("schema"), F.lit("payload"))
    only_times = F.array_contains(keys, "ts_ms") & (F.size(F.array_except(keys, times)) == 0)
    null_payload = F.array_contains(keys, "payload") & (F.size(F.array_except(keys, wrapper)) == 0)
    return only_times | (inner.isNull() & null_payload)


def _ddl_op() -> Column:
    """What a schema change does to its table; those that a snapshot makes up do nothing."""
    from pyspark.sql import functions as F

    drops = F.exists("_head.tableChanges", lambda change: change["type"] == "DROP")
    made_up = F.coalesce(F.col("_head.source.snapshot"), F.lit("false")) != MADE_BY_LOG
    kind = F.coalesce(table_op(F.col("_head.ddl")), F.when(drops, "drop"), F.lit("ddl"))
    return F.when(made_up, F.lit("ddl")).otherwise(kind)


def _event_time() -> Column:
    """The source's time of the change; Debezium's time where the source has none."""
    from pyspark.sql import functions as F

    micros, millis = F.col("_head.source.ts_us"), F.col("_head.source.ts_ms")
    processed = F.col("_head.ts_ms")
    latest = LATEST_TS * 1000 + 999
    return (
        F.when(
            micros != 0, F.when(micros.between(1, latest * 1000 + 999), F.timestamp_micros(micros))
        )
        .when(millis != 0, F.when(millis.between(1, latest), F.timestamp_millis(millis)))
        .otherwise(F.when(processed.between(1, latest), F.timestamp_millis(processed)))
    )


def _row_number() -> Column:
    """Column that distinguishes and orders the changes of one position; see the module's head."""
    from pyspark.sql import functions as F

    origin = F.col("_head.source")
    create = F.when(F.col("_head.op") == "c", 1).otherwise(0).cast("bigint")
    row = F.when(origin["row"].between(0, 2**HASH_BITS), origin["row"])
    both = "before string, after string"
    texts = F.from_json(F.col("payload"), f"struct<{both}, payload struct<{both}>>")
    # what differs behind a double's digits is another row
    exact = F.from_json(
        with_marked_numbers(F.col("payload")), f"struct<{both}, payload struct<{both}>>"
    )
    long_number = F.col("payload").rlike(r"[0-9][0-9.]{15}")
    hashed = F.when(long_number, F.xxhash64(exact)).otherwise(F.xxhash64(texts))
    hashed = hashed.bitwiseAND(F.lit(2**HASH_BITS - 1))
    in_binlog = origin["file"].isNotNull() & (
        F.coalesce(origin["snapshot"], F.lit("false")) == "false"
    )
    return F.when(in_binlog, row * 2 + create).otherwise(hashed + create * F.lit(2**HASH_BITS))


def _envelope_reason() -> Column:
    from pyspark.sql import functions as F

    head, op = F.col("_head"), F.col("op")
    of_row = F.col("_head.op").isin("c", "u", "d", "r", "t")
    no_object = no_single_object(F.col("_listed"), "Debezium")
    keys = F.concat_ws(", ", F.json_object_keys("payload"))
    connector = F.coalesce(head["source"]["connector"], F.lit("?"))
    unplaced = F.when(
        F.col("binlog_file").isNull(),
        F.concat(
            F.lit("no position in the `source` of connector "),
            F.substring(connector, 1, 40),
            F.lit(": expected `file`, `pos` and `row` (MySQL, MariaDB) or `lsn` (PostgreSQL)"),
        ),
    ).when(
        F.col("binlog_file_number").isNull()
        | F.col("binlog_position").isNull()
        | ((op != "truncate") & F.col("row_number").isNull()),
        F.lit(
            "a malformed position: `source.file` must end in a number, "
            "`source.pos` and `source.row`, or `source.lsn`, be whole numbers"
        ),
    )
    return (
        F.when(no_object.isNotNull(), no_object)
        .when(
            op.isNull() & head["op"].isNull(),
            F.concat(
                F.lit("JSON, but no Debezium message: no `op`, but "),
                F.when(keys == "", F.lit("nothing")).otherwise(F.substring(keys, 1, 80)),
                F.lit(" (are the messages flattened?)"),
            ),
        )
        .when(
            op.isNull(),
            F.concat(
                F.lit("unknown Debezium op "),
                F.substring(head["op"], 1, 40),
                F.lit(f": expected one of {', '.join(OPS)}"),
            ),
        )
        .when(of_row & head["source"].isNull(), F.lit("no `source`"))
        .when(of_row & F.col("database_name").isNull(), F.lit("no `source.db`"))
        .when(of_row & F.col("table_name").isNull(), F.lit("no `source.table`"))
        .when(
            (op != "control") & F.col("event_time").isNull(),
            F.lit("`source.ts_ms` is missing or not a time"),
        )
        .when(of_row & (op != "snapshot"), unplaced)
        .when(head["op"].isNull(), too_long(head["ddl"]))
    )


def table_moves(payload: str, database: str | None, table: str | None, op: str) -> list[Move]:
    """Which table's rows a TRUNCATE or a schema change took where, see ddl.moves."""
    body = body_of(payload)
    body = object_in(body, "payload") or body
    if ddl := text_in(body, "ddl"):
        return moves(ddl, text_in(body, "databaseName") or database or "")
    return [((database or "", table or ""), None)]


def new_table(payload: str, database: str | None) -> Table | None:
    """The table that a schema change makes; None for one that a snapshot makes up."""
    body = body_of(payload)
    body = object_in(body, "payload") or body
    snapshot = object_in(body, "source").get("snapshot")
    if str(snapshot or MADE_BY_LOG).lower() != MADE_BY_LOG:
        return None
    named = text_in(body, "databaseName")
    return made_table(text_in(body, "ddl") or "", named or database or "")
