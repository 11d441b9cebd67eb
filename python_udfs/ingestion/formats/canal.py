"""Canal's flat messages: https://github.com/alibaba/canal/wiki

    {"database", "table", "type", "es" ms, "ts" ms, "isDdl", "data": [{...}], "old": [{...}],
     "mysqlType": {...}, "sql"}

What they mean, as seen from a real producer:
- One message holds all rows of a statement; `data` and `old` go side by side.
- Every value is text. A decimal loses zeros at its end, an enum is its index, a set its bits, a
  blob the Latin-1 characters of its bytes.
- `old` holds the columns that changed in any row of the statement: a column that is null there
  was null, one that is absent has the value that it has in `data`.
- A TIMESTAMP is the time of UTC, a DATETIME what stands in the row, and both read alike: which it
  is, the type in the message shows.
- `es` is the time of the statement. There is no xid and no binlog position. A change is identified
  by its place in the topic: (topic, partition, offset, number within the message). So a message
  that is read again counts once; one that the producer *sends* again, at a new offset, is a change
  of its own, for nothing in it distinguishes them (equal changes within a second do happen), and
  so is a TRUNCATE, which takes away what was inserted in between. Let Canal produce with
  idempotence, keep a table's rows and statements in one partition, and compare with the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.ddl import made_table, moves, table_op, too_long
from python_udfs.ingestion.formats.exact_numbers import bare_value, exact_decimal
from python_udfs.ingestion.formats.json_lines import (
    LATEST_TS,
    absent_columns_text,
    as_list,
    no_single_object,
    text_kind,
)
from python_udfs.ingestion.formats.several_names import names_if_several, of_column
from python_udfs.ingestion.formats.statements import body_of, text_in
from python_udfs.ingestion.tables.types import OF_DAYS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.formats.ddl import Move, Table
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

OPS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "TRUNCATE": "truncate",
    "ERASE": "drop",
    "RENAME": "rename",
    "CREATE": "ddl",
    "ALTER": "ddl",
    "CINDEX": "ddl",
    "DINDEX": "ddl",
    "QUERY": "ddl",
}
# a message's place in its topic stands for a position: comparable within one partition only
POSITION_IS_PLACE = True
OPTIONS = {"enum": ("index", "label")}  # how the values of enum and set columns are written
_HEAD = (
    "struct<database string, `table` string, type string, es bigint, isDdl boolean, "
    "data array<string>, old array<string>>"
)
_LISTS = ("data", "old", "mysqlType", "sqlType", "pkNames")  # names of lists in a message
# of enum('new','used'), a quote within them doubled. Possessive: an enum may be of any length, and
# Java would take a part of its stack for each character
_LABELS = "'((?:[^']++|'')*+)'"
SET_LABELS = 64  # that a set has at most: one a bit
LABELLED = ("enum", "set")  # types whose values are numbers of labels, or of bits
# types whose texts are the Latin-1 characters of their bytes, and those whose texts are texts
_OF_BYTES = r"(?i)^(?:(?:var)?binary|(?:tiny|medium|long)?blob)\b"
_OF_TEXT = r"(?i)^(?:(?:var)?char|(?:tiny|medium|long)?text|enum|set|json)\b"
_ASCII = r"^[\x00-\x7F]*\z"  # what has the same bytes as a text of MySQL's usual character sets
OF_UTC = "timestamp"  # the type of a day whose texts are of UTC; those of others are local


def envelope(messages: DataFrame) -> DataFrame:
    """`messages` with the envelope's columns, from their `payload`.

    The binlog position is the message's own place: file "<topic>/<partition>", number 0, the
    offset as position. Rows of one message share it; `images` numbers them.
    """
    from pyspark.sql import functions as F

    frame = messages.withColumn("_listed", as_list(F.col("payload"), _HEAD))
    frame = frame.withColumn("_head", F.when(F.size("_listed") == 1, F.col("_listed")[0]))
    kind = F.col("_head.type")
    op = F.lit(None).cast("string")
    for name, letter in OPS.items():
        op = F.when(kind == name, F.lit(letter)).otherwise(op)
    # the statement itself only where it matters: Canal writes DROP DATABASE as it does any other,
    # and what it can't read itself
    sql = F.get_json_object("payload", "$.sql")
    op_of_statement = F.when(op == "ddl", table_op(sql))
    frame = frame.withColumn("_op", F.coalesce(op_of_statement, op))
    op = F.col("_op")
    is_row = op.isin("insert", "update", "delete")
    unnamed = F.col("_head.database").isNull() | F.col("_head.table").isNull()
    rows, old = F.col("_head.data"), F.col("_head.old")
    no_object = no_single_object(F.col("_listed"), "Canal")
    reason = (
        F.when(no_object.isNotNull(), no_object)
        .when(
            F.col("_head").isNull() | kind.isNull(),
            F.lit("JSON, but no Canal message: no `type`"),
        )
        .when(op.isNull(), F.concat(F.lit("unknown Canal type "), F.substring(kind, 1, 40)))
        .when(is_row & F.col("_head.database").isNull(), F.lit("no `database`"))
        .when(is_row & F.col("_head.table").isNull(), F.lit("no `table`"))
        .when(
            F.col("_head.es").isNull() | ~F.col("_head.es").between(0, LATEST_TS * 1000),
            F.lit("`es` is missing or not a time"),
        )
        .when(
            is_row & (rows.isNull() | (F.size(rows) == 0)), F.lit("no `data`, or one without rows")
        )
        .when(
            (op == "update") & (old.isNull() | (F.size(old) != F.size(rows))),
            F.lit("an update whose `old` has not one row for each of `data`"),
        )
        .when(
            kind.isin("TRUNCATE", "ERASE", "RENAME")
            & (F.coalesce(sql, F.lit("")) == "")
            & (unnamed | (kind == "RENAME")),
            F.lit("a statement without `sql`, nor with `database` and `table` that it was on"),
        )
        .when(~is_row & (text_kind("sql") == "other"), F.lit("`sql` is no text"))
        .when(~is_row, too_long(sql))
    )
    place = F.concat_ws("/", "topic", "partition_number")
    return (
        frame.withColumn("envelope_reason", reason)
        .withColumn("op", op)
        .withColumn("event_time", F.when(reason.isNull(), F.timestamp_millis(F.col("_head.es"))))
        .withColumn("binlog_file", place)
        .withColumn("binlog_file_number", F.lit(0).cast("bigint"))
        .withColumn("binlog_position", F.col("message_offset"))
        .withColumn("row_number", F.lit(0).cast("bigint"))
        .withColumn("xid", F.lit(None).cast("bigint"))
        .withColumn("database_name", F.col("_head.database"))
        .withColumn("table_name", F.col("_head.table"))
        .drop("_listed", "_head", "_op")
    )


def table_moves(payload: str, database: str | None, table: str | None, op: str) -> list[Move]:
    """Which table's rows a DDL message took where, see ddl.moves."""
    body = body_of(payload)
    sql = text_in(body, "sql")
    if not sql and op in ("truncate", "drop"):
        return [((database or "", table or ""), None)]
    found = moves(sql or "", database or "")
    if not found and body.get("type") == "TRUNCATE":
        raise ValueError("its type is TRUNCATE, its `sql` empties no table")
    return found


def new_table(payload: str, database: str | None) -> Table | None:
    """The table that a DDL message makes."""
    return made_table(text_in(body_of(payload), "sql") or "", database or "")


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with their images: one row for each row of a message, as maxwell.images."""
    from pyspark.sql import functions as F

    texts = "map<string, string>"
    schema = f"struct<data array<{texts}>, old array<{texts}>, mysqlType {texts}>"
    frame = messages.withColumn("_parsed", F.from_json(F.col("payload"), schema))
    frame = frame.select(
        *[name for name in messages.columns if name != "row_number"],
        F.col("_parsed.old").alias("_olds"),
        F.col("_parsed.mysqlType").alias("_types"),
        bare_value(source.names_in_log(), F.col("payload"), _LISTS).alias("_bare"),
        # of a list in which entry is no object nothing is parsed: one row then has the reason
        F.posexplode_outer("_parsed.data").alias("_number", "_data"),
    )
    frame = frame.withColumn("_number", F.coalesce("_number", F.lit(0)))
    frame = frame.withColumn("row_number", F.col("_number").cast("bigint")).withColumn(
        "_old", F.get("_olds", F.col("_number"))
    )
    is_update = F.col("op") == "update"
    several = names_if_several(source, F.col("payload"), F.map_keys("_data"))
    frame = frame.withColumn("_names", several)

    def after(name: str) -> Column:
        return _named(source, name, "_data")

    def overlaid(source_name: str, value: Column) -> Column:
        was_old = is_update & F.map_contains_key("_old", source_name)
        return F.when(was_old, F.col("_old")[source_name]).otherwise(value)

    def previous(name: str) -> Column:
        # of a delete the row is what was deleted: it has no `old`
        usual = after(name)
        for source_name in source.names(name):
            usual = overlaid(source_name, usual)
        return of_column(
            source.names(name),
            F.col("_names"),
            lambda found: overlaid(found, F.col("_data")[found]),
            usual,
        )

    data, wrong_data = _struct(source, after, "data")
    before, wrong_before = _struct(source, previous, "before")
    frame = frame.withColumn("data", data).withColumn(
        "before", F.when(F.col("op") != "insert", before)
    )
    wrong = F.concat_ws("; ", *wrong_data, *wrong_before)
    reason = (
        F.when(F.col("_data").isNull(), F.lit("a row of `data` is no object"))
        .when(
            F.col("_bare"),
            F.lit(
                "a value is a number with a point, or a document, where Canal writes texts: its "
                "digits can't be read as they are written"
            ),
        )
        .when(
            is_update & F.col("_old").isNull(),
            F.lit("an update without `old`: the server's binlog_row_image must be FULL"),
        )
        .when(wrong != "", wrong)
        .otherwise(absent_columns_text(source, F.map_keys("_data")))
    )
    dropped = ("_olds", "_types", "_bare", "_number", "_data", "_old", "_names")
    return frame.withColumn("image_reason", reason).drop(*dropped)


def _named(source: TableSource, name: str, part: str) -> Column:
    """What a map holds of a column, under the name that it has in the row."""
    from pyspark.sql import functions as F

    names, of_row = source.names(name), F.col(part)
    usual = F.coalesce(*[of_row[source_name] for source_name in names])
    return of_column(names, F.col("_names"), lambda found: of_row[found], usual)


def _struct(
    source: TableSource, text_of: Callable[[str], Column], part: str
) -> tuple[Column, list[Column]]:
    """The columns, whose texts `text_of` gives, in their `parsed` types; and what doesn't fit."""
    from pyspark.sql import functions as F

    fields, wrong = [], []
    for name, kind in source.columns.items():
        raw = text_of(name)
        declared = _named(source, name, "_types")
        value = _value(raw, declared, kind, source.options["enum"])
        fields.append(value.alias(name))
        text = F.concat(
            F.lit(f"{part}.{name} = "),
            F.substring(raw, 1, 80),
            F.lit(f" is no {kind.declared}"),
            F.when(
                _is_of_other_zone(declared, kind) | _is_other_text(raw, declared, kind),
                F.concat(F.lit(", it is a "), declared, F.lit(" by its message")),
            ).otherwise(F.lit("")),
        )
        wrong.append(F.when(raw.isNotNull() & value.isNull(), text))
    return F.struct(*fields), wrong


def _value(raw: Column, declared: Column, kind: SourceType, enums: str) -> Column:
    """A text of Canal in the column's `parsed` type; null where it is none of it.

    Args:
        declared: the column's type as in the message, e.g. enum('new','used').
        enums: the option `enum`.
    """
    from pyspark.sql import functions as F

    if kind.kind in ("binary", "text"):
        raw = F.when(~_is_other_text(raw, declared, kind), raw)
    if kind.kind == "binary":
        latin = raw.rlike(r"^[\x00-\x{FF}]*\z")
        return F.when(latin, F.base64(F.encode(F.when(latin, raw), "ISO-8859-1")))
    if kind.kind == "text" and enums == "index":
        return _with_labels(raw, declared, kind)
    if kind.kind in OF_DAYS:
        return F.when(~_is_of_other_zone(declared, kind), raw)
    if kind.parsed.startswith("decimal"):
        return exact_decimal(raw, kind.parsed)
    return raw.try_cast(kind.parsed) if kind.parsed != "string" else raw


def is_of_other_zone(declared: str, kind: str) -> bool:
    """Whether a day of a message's type is of UTC where those of a column are local, or the other
    way round.

    Args:
        kind: of the column, one of OF_DAYS.
    """
    own = declared.lower()
    return own.startswith(OF_DAYS) and own.startswith(OF_UTC) != (kind == OF_UTC)


def _is_of_other_zone(declared: Column, kind: SourceType) -> Column:
    """Condition: the same of a message's column; false where the message has no type of it."""
    from pyspark.sql import functions as F

    if kind.kind not in OF_DAYS:
        return F.lit(False)
    begin = F.lower(F.substring(declared, 1, len(OF_UTC)))
    is_utc = begin == OF_UTC
    is_other = ~is_utc if kind.kind == OF_UTC else is_utc
    return F.coalesce((is_utc | begin.startswith("date")) & is_other, F.lit(False))


def is_of_bytes(declared: str) -> bool:
    """Whether the texts of a message's type are the characters of bytes."""
    return re.match(_OF_BYTES, declared) is not None


def _is_other_text(raw: Column, declared: Column, kind: SourceType) -> Column:
    """Condition: a text that is of bytes by its message where the column has texts, or the other
    way round, and which would be another in the column; false where the message has no type of it.

    The column's character set, which decides what its bytes are, isn't in the log.
    """
    from pyspark.sql import functions as F

    if kind.kind == "text":
        is_other = declared.rlike(_OF_BYTES)
    elif kind.kind == "binary":
        is_other = declared.rlike(_OF_TEXT)
    else:
        return F.lit(False)
    return F.coalesce(is_other & ~raw.rlike(_ASCII), F.lit(False))


def _with_labels(raw: Column, declared: Column, kind: SourceType) -> Column:
    """A text, or the labels of an enum's index or a set's bits; null where there are none.

    The type in the message decides: a column of texts may be an enum, or have been such before an
    ALTER. The table's declaration decides where the message has no type of the column.
    """
    from pyspark.sql import functions as F

    begin, own = F.lower(F.substring(declared, 1, 4)), kind.declared.lower()
    is_enum, is_set = (
        F.coalesce(begin.startswith(name), F.lit(own.startswith(name))) for name in LABELLED
    )
    labels = F.regexp_extract_all(declared, F.lit(_LABELS), F.lit(1))
    index = raw.try_cast("int")
    place = F.when(index > 0, index) - 1
    label = F.replace(F.get(labels, place), F.lit("''"), F.lit("'"))
    # 0 is MySQL's mark of a value that the enum doesn't have
    label = F.when(index == 0, F.lit("")).otherwise(label)
    bits = raw.try_cast("bigint")
    known = F.slice(labels, 1, SET_LABELS)  # of further labels there is no bit to ask for
    chosen = F.filter(known, lambda _, place: F.getbit(bits, place) == 1)
    plain = F.transform(chosen, lambda label: F.replace(label, F.lit("''"), F.lit("'")))
    are_bits = bits.isNotNull() & (F.size(labels) <= SET_LABELS)
    listed = F.when(are_bits, F.array_join(plain, ","))
    return F.when(is_enum, label).when(is_set, listed).otherwise(raw)
