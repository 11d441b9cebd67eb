"""Debezium's change events of MySQL, MariaDB and PostgreSQL: https://debezium.io/documentation

    {"before": {...} | null, "after": {...} | null, "op": "c|u|d|r|t", "ts_ms",
     "source": {"db", "table", "ts_ms", "snapshot", "file", "pos", "row" | "schema", "lsn", "txId"}}

or {"schema": {...}, "payload": <the same>}, by the converter's `schemas.enable`.

What they mean, as seen from a real producer (3.5, on MariaDB) and documented for PostgreSQL:
- A key change is a delete of the old key, a tombstone and a create of the new one, all at one
  (file, pos, row) or lsn.
- MySQL: (file, pos, row) is a row of the binlog. `row_number` is 2 * row, and one more for a
  create: so the parts of a key change differ, the delete first.
- PostgreSQL: each change has an lsn, but the rows of one COPY share theirs, and the rows of a
  snapshot share one position in every database (old versions on MySQL write them as op c). These
  are told apart by a hash of their images as `row_number`; a create's is above any other's. Rows
  that are equal in every column, so of a table without key, count once there. `sequence` doesn't
  tell them apart: it depends on where the connector started. An lsn orders the changes of one
  row, for its lock is held until the commit, but not those of different rows.
- The names of PostgreSQL's tables hold their schema: `database: shop, table: public.orders`.
- `source.ts_ms` may be 0 in a snapshot; then the time of Debezium's processing counts.
- Every snapshot begins with made-up schema changes, DROP TABLE among them: those are op ddl.
- Both images are whole if binlog_row_image is FULL, or the table's REPLICA IDENTITY. By
  PostgreSQL's default an update has no `before`, and that of a delete may hold null in all
  columns but the key: it is refused, though a row could really be so.
- How a value is encoded depends on the column's type and the connector's settings, which OPTIONS
  names with Debezium's own names. A message doesn't tell them: 1234 may be a decimal, or the
  base64 of three bytes; a number of milliseconds may be one of microseconds. Where the converter
  has decimal.format=NUMERIC, decimals read as those of `decimal.handling.mode: string` do.
- A DATETIME is the epoch time that its digits would have in UTC; a TIMESTAMP is ISO text. Zero
  dates are null, or 1970-01-01 in a column that is NOT NULL.
- A large value of PostgreSQL that an update left alone may be absent: PLACEHOLDER stands there.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.ddl import made_table, moves, table_op, too_long
from python_udfs.ingestion.formats.exact_numbers import (
    AMBIGUOUS,
    is_ambiguous,
    may_be_printed_anew,
    may_be_rounded,
    narrow_decimals,
    rounded_texts,
    with_marked_numbers,
    without_marks,
)
from python_udfs.ingestion.formats.json_lines import (
    JSON_ONLY,
    LATEST_TS,
    absent_columns,
    as_list,
    half_character,
    no_single_object,
)
from python_udfs.ingestion.formats.statements import body_of, object_in, text_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.declared.table_source import TableSource
    from python_udfs.ingestion.formats.ddl import Move, Table
    from python_udfs.ingestion.tables.types import SourceType

OPS = {
    "c": "insert",
    "u": "update",
    "d": "delete",
    "r": "snapshot",
    "t": "truncate",
    "m": "control",  # a text that was written into PostgreSQL's log
}
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
# where a message tells which server made its change, see log_resets
SERVER_PATHS = {
    "server_id": ("$.source.server_id", "$.payload.source.server_id"),
    "server_uuid": ("$.source.gtid", "$.payload.source.gtid"),
}
MADE_BY_LOG = "false"  # source.snapshot of what doesn't come from one
POSTGRES = "postgres"  # binlog_file of all that has an lsn
PLACEHOLDER = "__debezium_unavailable_value"
PLACEHOLDER_BYTES = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
HASH_BITS = 61
_BODY = (
    "op string, ts_ms bigint, status string, ddl string, databaseName string, "
    "tableChanges array<struct<type string>>, source struct<connector string, db string, "
    "schema string, `table` string, snapshot string, ts_us bigint, ts_ms bigint, file string, "
    "pos bigint, `row` bigint, lsn bigint, txId bigint>"
)
_HEAD = f"struct<{_BODY}, payload struct<{_BODY}>>"
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"
_ISO_TIME = r"\d{2}:\d{2}:\d{2}(?:\.\d{1,6}0*)?"
_ISO_TIMESTAMP = rf"^\d{{4}}-\d{{2}}-\d{{2}}T{_ISO_TIME}(Z|[+-]\d{{2}}:\d{{2}})\z"
_UTC = r"(?:Z|\+00:00)?\z"
FIRST_DAY, LAST_DAY = -719528, 2932896  # 0000-01-01 and 9999-12-31 in epoch days
LONGEST_TIME = 3020399999999  # 838:59:59.999999 in microseconds


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload`."""
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _HEAD))
    one = F.when(F.size("_listed") == 1, F.col("_listed")[0])
    frame = frame.withColumn("_outer", one)
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
    told = F.coalesce(table_op(F.col("_head.ddl")), F.when(drops, "drop"), F.lit("ddl"))
    return F.when(made_up, F.lit("ddl")).otherwise(told)


def _event_time() -> Column:
    """The source's time of the change, or where it tells none, Debezium's."""
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
    """What tells changes of one position apart and orders them; see the module's head."""
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
            F.lit("no `source.ts_ms`, or one that is no time"),
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


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with their images, as maxwell.images; a snapshot's row is taken too."""
    from pyspark.sql import functions as F

    fields = ", ".join(
        f"`{name}` {_raw_type(kind, source.options)}"
        for name, kind in source.names_in_log().items()
    )
    both = f"before struct<{fields}>, after struct<{fields}>"
    schema = f"struct<{both}, payload struct<{both}>, _corrupt string>"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", **JSON_ONLY}
    frame = messages.withColumn("_parsed", F.from_json(F.col("payload"), schema, options))
    frame = frame.select(
        *messages.columns,
        F.coalesce("_parsed.payload.before", "_parsed.before").alias("_raw_before"),
        F.coalesce("_parsed.payload.after", "_parsed.after").alias("_raw_after"),
        F.col("_parsed._corrupt").isNotNull().alias("_unread"),
    )
    frame = frame.withColumn("_exact", _exact_texts(source))
    had = F.col("op").isin("update", "delete")
    frame = frame.select(
        *messages.columns,
        "_raw_before",
        "_raw_after",
        "_unread",
        "_exact",
        F.when(had, _decoded("before", source)).alias("before"),
        F.when(F.col("op") != "delete", _decoded("after", source)).alias("_after"),
    )
    frame = frame.withColumn(
        "data", F.when(F.col("op") == "delete", F.col("before")).otherwise(F.col("_after"))
    )
    # once more as maps of texts, for the reasons: only where a value was not read, or a null may
    # be an absent column
    doubtful = F.col("_unread")
    for name in source.columns:
        for part, raw in (("before", "_raw_before"), ("_after", "_raw_after")):
            there = F.coalesce(*[F.col(raw)[one].cast("string") for one in source.names(name)])
            lost = F.lit(True) if name in source.watched else there.isNotNull()
            known = F.col(part).isNotNull()
            doubtful = doubtful | (known & F.col(part)[name].isNull() & lost)
    texts = "before map<string, string>, after map<string, string>"
    as_maps = F.from_json(F.col("payload"), f"struct<{texts}, payload struct<{texts}>>")
    frame = frame.withColumn("_maps", F.when(doubtful, as_maps))
    frame = frame.select(
        *messages.columns,
        "data",
        "before",
        "_after",
        "_exact",
        *[
            F.coalesce(F.col("_maps.payload")[part], F.col("_maps")[part]).alias(f"_{part}_texts")
            for part in ("before", "after")
        ],
    )
    misfits = _misfits(source)
    is_delete = F.col("op") == "delete"
    reason = (
        F.when(~is_delete & F.col("_after").isNull(), F.lit("no `after` object"))
        .when(
            had & F.col("before").isNull(),
            F.concat(
                F.lit("no `before` object in a change of op "),
                F.col("op"),
                F.lit(
                    ": the server's binlog_row_image (MySQL) or the table's REPLICA IDENTITY "
                    "(PostgreSQL) must be FULL"
                ),
            ),
        )
        .when(misfits != "", misfits)
        .when(F.col("_exact").isNotNull() & is_ambiguous(F.col("payload")), F.lit(AMBIGUOUS))
        .when(had & _key_only(source), F.lit("`before` holds nothing but the key"))
        .otherwise(
            F.coalesce(
                _rounded(source),
                half_character(source),
                F.when(~is_delete, absent_columns(source, F.map_keys("_after_texts"))),
                F.when(had, absent_columns(source, F.map_keys("_before_texts"), "before")),
            )
        )
    )
    made = ("_after", "_exact", "_before_texts", "_after_texts")
    return frame.withColumn("image_reason", reason).drop(*made)


def _read_as_decimals(source: TableSource) -> dict[str, SourceType]:
    """Names in the log of the decimals that from_json reads, and may round."""
    return {
        name: kind
        for name, kind in narrow_decimals(source.names_in_log()).items()
        if _raw_type(kind, source.options) == kind.parsed
    }


def _exact_texts(source: TableSource) -> Column:
    """Both images as structs of marked texts, see exact_numbers; null where none is needed."""
    from pyspark.sql import functions as F

    payload = F.col("payload")
    texts = {
        name: [F.col(raw)[name] for raw in ("_raw_before", "_raw_after")]
        for name, kind in source.names_in_log().items()
        if kind.kind == "text"
    }
    decimals = _read_as_decimals(source)
    if not texts and not decimals:
        return F.lit(None)
    row = ", ".join(f"`{name}` string" for name in (*texts, *decimals))
    both = f"before struct<{row}>, after struct<{row}>"
    read = F.from_json(with_marked_numbers(payload), f"struct<{both}, payload struct<{both}>>")
    images = [F.coalesce(read["payload"][part], read[part]) for part in ("before", "after")]
    needed = may_be_printed_anew(texts, payload) | may_be_rounded(decimals.values(), payload)
    return F.when(needed, F.struct(images[0].alias("before"), images[1].alias("after")))


def _rounded(source: TableSource) -> Column:
    """Text naming the decimals with more places than they are read with; null without such."""
    from pyspark.sql import functions as F

    decimals = _read_as_decimals(source)
    if not decimals:
        return F.lit(None).cast("string")
    found = []
    for part in ("after", "before"):
        found += rounded_texts(decimals, part, F.col("_exact")[part])
    listed = F.concat_ws("; ", *found)
    return F.when(F.col("_exact").isNotNull() & (listed != ""), listed)


def _key_only(source: TableSource) -> Column:
    """Condition: the row before a change of PostgreSQL is null in all columns but the key."""
    from pyspark.sql import functions as F

    others = [F.col("before")[name] for name in source.columns if name not in source.primary_key]
    if not source.primary_key or not others:
        return F.lit(False)
    return (F.col("binlog_file") == POSTGRES) & F.coalesce(
        *[one.cast("string") for one in others]
    ).isNull()


def _misfits(source: TableSource) -> Column:
    """Text naming the values that are there but were not read; empty where there is none."""
    from pyspark.sql import functions as F

    found = []
    for name, kind in source.columns.items():
        for part, image in (("after", "_after"), ("before", "before")):
            raw = F.coalesce(*[F.col(f"_{part}_texts")[one] for one in source.names(name)])
            lost = F.col(image).isNotNull() & F.col(image)[name].isNull() & raw.isNotNull()
            value = F.substring(raw, 1, 80)
            text = F.concat(F.lit(f"{part}.{name} = "), value, F.lit(f" is no {kind.declared}"))
            found.append(F.when(lost, text))
    return F.concat_ws("; ", *found)


def _decoded(part: str, source: TableSource) -> Column:
    """An image's columns in their `parsed` types; a value that doesn't fit is null.

    Args:
        part: before or after.
    """
    from pyspark.sql import functions as F

    image = F.col(f"_raw_{part}")

    def read(name: str, kind: SourceType) -> Column:
        if kind.kind != "text":
            return image[name]
        exact = without_marks(F.col("_exact")[part][name])
        return F.when(F.col("_exact").isNotNull(), exact).otherwise(image[name])

    values = []
    for name, kind in source.columns.items():
        raw = F.coalesce(*[read(one, kind) for one in source.names(name)])
        values.append(_value(raw, kind, source.options).alias(name))
    return F.when(image.isNotNull(), F.struct(*values))


# Values


def _name_and_length(kind: SourceType) -> tuple[str, int]:
    """The declared type's name and its first number, 0 where there is none: datetime, 3."""
    match = re.match(r"\s*(\w+)\s*(?:\(\s*(\d+)\s*[,)])?", kind.declared)
    assert match is not None  # source_type() took it
    return match[1].lower(), int(match[2] or 0)


def _raw_type(kind: SourceType, options: dict[str, str]) -> str:
    """The Spark type that a value of JSON is first read as: text where it must be decoded."""
    name, _ = _name_and_length(kind)
    if kind.kind == "decimal" and options["decimal.handling.mode"] == "precise":
        return "string"
    is_bool = name in ("tinyint", "bit")
    if kind.kind in ("date", "datetime", "timestamp") or is_bool or kind.spark == "decimal(20,0)":
        return "string"
    return kind.parsed


def _value(raw: Column, kind: SourceType, options: dict[str, str]) -> Column:
    """A raw value as Maxwell would write it, in the column's `parsed` type; null if it is none."""
    from pyspark.sql import functions as F

    name, length = _name_and_length(kind)
    mode = options["time.precision.mode"]
    if kind.kind == "decimal" and options["decimal.handling.mode"] == "precise":
        return _scaled(raw, kind)
    if name == "bit":
        return (_boolean(raw) if length <= 1 else _bits(raw, length)).cast(kind.parsed)
    if name == "tinyint":
        return F.coalesce(_boolean(raw), raw.try_cast(kind.parsed))
    if kind.spark == "decimal(20,0)":
        precise = options["bigint.unsigned.handling.mode"] == "precise"
        return (_signed(raw) if precise else _unsigned(raw)).try_cast(kind.parsed)
    if kind.kind == "date":
        return _iso(raw, r"\d{4}-\d{2}-\d{2}") if mode == "isostring" else _date(raw)
    if kind.kind == "timestamp" or (kind.kind == "datetime" and mode == "isostring"):
        read = F.when(raw.rlike(_ISO_TIMESTAMP), raw.try_cast("timestamp"))
        return read.cast("string")
    if kind.kind == "datetime":
        return _datetime(_micros(raw, _digits(name, length, mode)))
    if name == "time":
        if mode == "isostring":
            return _iso(raw, _ISO_TIME)
        return _time(_micros(raw, _digits(name, length, mode)), length)
    if kind.kind == "binary":
        encoded = _base64(raw, options["binary.handling.mode"])
        return F.when(encoded != PLACEHOLDER_BYTES, encoded)
    if kind.kind == "text":
        return F.when(raw != PLACEHOLDER, raw)
    return raw


def _scaled(raw: Column, kind: SourceType) -> Column:
    """A decimal of its unscaled bytes; its scale is the declared one, or stands beside them."""
    from pyspark.sql import functions as F

    precision, scale = map(int, kind.spark[len("decimal(") : -1].split(","))
    variable = raw.startswith("{")
    unscaled = F.when(variable, F.get_json_object(raw, "$.value")).otherwise(raw)
    given = F.get_json_object(raw, "$.scale").try_cast("int")
    # more decimals than `parsed` has would be rounded
    places = F.when(variable, F.when(given.between(-precision, 38 - precision + scale), given))
    exponent = F.when(variable, (-places).cast("string")).otherwise(F.lit(str(-scale)))
    number = _signed(unscaled).cast("string")
    return F.concat(number, F.lit("E"), exponent).try_cast(kind.parsed)


def _signed(encoded: Column) -> Column:
    """The number of base64 of big-endian two's complement bytes; null beyond 38 digits."""
    from pyspark.sql import functions as F

    digits = F.hex(F.unbase64(F.when(encoded.rlike(_BASE64), encoded)))
    digits = F.when(F.length(digits).between(2, 32), digits)
    negative = digits >= "8"
    # of a negative number the complement: what it is below -1
    flipped = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    padded = F.lpad(F.when(negative, flipped).otherwise(digits), 32, "0")
    # conv() takes 64 bits
    high, low = (
        F.conv(F.substring(padded, start, 16), 16, 10).cast("decimal(20,0)") for start in (1, 17)
    )
    size = F.try_add(F.try_multiply(high, F.lit(Decimal(2**64))), low)
    # no unary minus: Spark's rounds to 34 digits
    return F.when(negative, F.try_subtract(F.lit(Decimal(-1)), size)).otherwise(size)


def _unsigned(raw: Column) -> Column:
    """An unsigned bigint that was written as a signed one."""
    from pyspark.sql import functions as F

    whole = F.when(raw.rlike(r"^-?\d{1,20}\z"), raw.try_cast("decimal(20,0)"))
    wrapped = whole.between(F.lit(Decimal(-(2**63))), F.lit(Decimal(-1)))
    return F.when(wrapped, whole + F.lit(Decimal(2**64))).otherwise(whole)


def _boolean(raw: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(raw == "true", 1).when(raw == "false", 0).cast("bigint")


def _bits(raw: Column, length: int) -> Column:
    """The number of base64 of so many bits, in little-endian bytes."""
    from pyspark.sql import functions as F

    digits = F.hex(F.unbase64(F.when(raw.rlike(_BASE64), raw)))
    digits = F.when(F.length(digits).between(2, min(16, (length + 7) // 8 * 2)), digits)
    # the last byte first: reversed, and the two digits of a byte back in their order
    big_endian = F.regexp_replace(F.reverse(digits), "(.)(.)", "$2$1")
    return F.conv(big_endian, 16, 10).cast("decimal(20,0)")


def _base64(raw: Column, mode: str) -> Column:
    from pyspark.sql import functions as F

    if mode == "hex":
        digits = F.when(raw.rlike(r"^([0-9A-Fa-f]{2})*\z"), raw)
        return F.base64(F.unhex(digits))
    if mode == "base64-url-safe":
        raw = F.translate(raw, "-_", "+/")
    return F.when(raw.rlike(_BASE64), raw)


def _iso(raw: Column, pattern: str) -> Column:
    """The text before the zone, which must be UTC."""
    from pyspark.sql import functions as F

    return F.nullif(F.regexp_extract(raw, f"^({pattern}){_UTC}", 1), F.lit(""))


def _date(raw: Column) -> Column:
    from pyspark.sql import functions as F

    days = raw.try_cast("int")
    return F.when(days.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(days)).cast("string")


def _digits(name: str, length: int, mode: str) -> int:
    """Decimals of a second that a number counts: 3, 6 or 9."""
    if mode in ("microseconds", "nanoseconds"):
        return 6 if mode == "microseconds" else 9
    if name == "time" and mode == "adaptive_time_microseconds":
        return 6
    return 3 if mode == "connect" or length <= 3 else 6


def _micros(raw: Column, digits: int) -> Column:
    """Microseconds of a number's text; null where it has a part of one."""
    from pyspark.sql import functions as F

    whole = F.when(raw.rlike(r"^-?\d{1,19}\z"), raw)
    if digits == 3:
        whole = F.concat(whole, F.lit("000"))
    if digits == 9:
        whole = F.when(whole.rlike(r"000\z|^0\z"), F.regexp_replace(whole, r"000\z", ""))
    return whole.try_cast("bigint")


def _datetime(micros: Column) -> Column:
    from pyspark.sql import functions as F

    day = 86400 * 1000000
    known = micros.between(FIRST_DAY * day, (LAST_DAY + 1) * day - 1)
    return F.when(known, F.timestamp_micros(micros)).cast("string")


def _time(micros: Column, length: int) -> Column:
    """As MySQL writes a TIME of so many decimals: it may be negative, or longer than a day."""
    from pyspark.sql import functions as F

    size = F.abs(micros)
    fits = (size <= LONGEST_TIME) & (size % 10 ** (6 - length) == 0)
    size = F.when(fits, size)
    below_hour = "mm:ss" + ("." + "S" * length if length else "")
    return F.concat(
        F.when(micros < 0, F.lit("-")).otherwise(F.lit("")),
        F.format_string("%02d", F.floor(size / 36e8)),
        F.lit(":"),
        F.date_format(F.timestamp_micros(size), below_hour),
    )
