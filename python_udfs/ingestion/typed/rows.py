"""Decoded messages as rows of a typed ODS model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES, IDENTITY
from python_udfs.ingestion.formats.json_lines import misfit_texts, not_null
from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.log.names import unread_by_case
from python_udfs.ingestion.tables.types import OF_DAYS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType
    from python_udfs.ingestion.typed.business_date import BusinessDay

REPEATED, REFUSED, CORRECTION = (
    "repeated",
    "refused",
    "correction",
)  # verdicts of classify_duplicates
ZERO_DATE = "0000-00-00"
OTHER_CHANGE = (
    "another change was taken before that has the same place in the log and other values "
    "(did the server begin its binlog again, by RESET MASTER or a failover?)"
)


def decoded(
    messages: DataFrame,
    source: TableSource,
    day: BusinessDay,
    verdicts: DataFrame | None = None,
    kept: Sequence[str] = (),
) -> DataFrame:
    """A table's messages of changes, in the format of its log, as rows of a typed model.

    Args:
        verdicts: rows that are left out or refused, see classify_duplicates; messages that are
            repeated as a whole aren't among them.
        kept: columns of the messages that the rows have, too.
    """
    images = FORMATS[source.format].images(messages, source)
    if verdicts is not None:
        row = [*COORDINATES, "row_number"]
        images = images.join(verdicts.select(*row, "verdict"), row, "left")
        images = images.where(~F.col("verdict").eqNullSafe(REPEATED))
        other = F.when(F.col("verdict") == REFUSED, OTHER_CHANGE)
        images = images.withColumn("image_reason", F.coalesce("image_reason", other))
    return typed_rows(images, source, day, kept)


def refused_statements(
    messages: DataFrame,
    reasons: Mapping[tuple[Any, ...], str],
    source: TableSource,
    day: BusinessDay,
) -> DataFrame:
    """Messages of statements on whole tables as refused rows of a typed model.

    Args:
        messages: rows of ods_binlog, those among them.
        reasons: COORDINATES of each -> why.
    """
    schema = "batch_id string, topic string, partition_number int, message_offset bigint"
    reasons_by_place = [(*coordinates, reason) for coordinates, reason in reasons.items()]
    refused = messages.sparkSession.createDataFrame(reasons_by_place, f"{schema}, reason string")
    named = messages.join(F.broadcast(refused), COORDINATES)
    return refused_rows(named, F.col("reason"), source, day)


def refused_rows(
    messages: DataFrame, reason: Column, source: TableSource, day: BusinessDay
) -> DataFrame:
    """Messages as refused rows of a typed model, unread.

    Args:
        reason: of each.
    """
    row = ", ".join(f"`{name}` {kind.parsed}" for name, kind in source.columns.items())
    extra = getattr(FORMATS[source.format], "EXTRA", {})
    nothing = {"data": f"struct<{row}>", "before": f"struct<{row}>", **extra}
    images = messages.select(
        "*",
        reason.alias("image_reason"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()],
    )
    return typed_rows(images, source, day)


def typed_rows(
    images: DataFrame, source: TableSource, day: BusinessDay, kept: Sequence[str] = ()
) -> DataFrame:
    """Rows with images (see formats.maxwell.images) as rows of a typed ODS model.

    The EXTRA columns of the table's format stand behind `before`. Where `before` isn't known,
    which only some formats let pass, it is null and so is metadata_changes.

    Args:
        kept: columns of `images` that the rows have, too.
    """
    typed = images.select(
        "*",
        _typed_image("data", source, day.zone).alias("_after"),
        _typed_image("before", source, day.zone).alias("_before"),
    )
    reason = F.coalesce(
        F.col("image_reason"),
        _value_misfits(source),
        unread_by_case(source, "data"),
        _no_key(source, day.zone),
    )
    judged = typed.withColumn("reject_reason", reason)
    good = F.col("reject_reason").isNull()
    changes = F.when(
        good & (F.col("op") == "update") & F.col("before").isNotNull(),
        not_null(
            F.when(~F.col("_after")[name].eqNullSafe(F.col("_before")[name]), F.lit(name))
            for name in source.columns
        ),
    )
    changed = (F.col("op") != "insert") & F.col("before").isNotNull()
    extra = getattr(FORMATS[source.format], "EXTRA", {})
    # a refused message is none of the change's own: it may come again whole
    message = F.concat_ws(":", F.lit("refused"), *COORDINATES, "row_number")
    unique_key = F.when(good, change_key()).otherwise(message)
    return judged.select(
        *[F.when(good, F.col("_after")[name]).alias(name) for name in source.columns],
        F.when(good, F.col("_after")["raw_values"]).alias("raw_values"),
        F.when(good & changed, F.col("_before")).alias("before"),
        *[F.when(good, F.col(name)).cast(kind).alias(name) for name, kind in extra.items()],
        F.col("op").alias("op_type"),
        unique_key.alias("unique_key"),
        F.when(good, day.cut_date(F.col("_after"), F.col("op"), F.col("event_time"))).alias(
            "cut_date"
        ),
        "event_time",
        *IDENTITY,
        "xid",
        F.lit(source.schema_version).alias("schema_version"),
        "batch_id",
        F.concat_ws(".", "database_name", "table_name").alias("metadata_table"),
        changes.alias("metadata_changes"),
        F.col("op").alias("metadata_op_type"),
        F.col("event_time").alias("metadata_commit_ts"),
        *COORDINATES[1:],
        "load_id",
        "reject_reason",
        F.when(~good, F.col("payload")).alias("reject_payload"),
        *kept,
    )


def change_key() -> Column:
    """The unique_key of a change that isn't refused."""
    return F.concat_ws(":", "binlog_file", "binlog_position", "row_number")


def _value_misfits(source: TableSource) -> Column:
    """Text naming the values that are read but are none of their column's type; else null."""
    wrong_names, messages = [], []
    for part in ("data", "before"):
        wrong, texts = [], []
        for name, kind in source.columns.items():
            value = F.col(part)[name]
            misfit = kind.misfit(value)
            if misfit is None:
                continue
            if part == "before":  # mostly it is the value of `data`, which has been looked at
                misfit = ~value.eqNullSafe(F.col("data")[name]) & misfit
            wrong.append(F.when(misfit, F.lit(name)))
            texts += [F.lit(name), value.cast("string")]
        if wrong:
            # as a text: cheaper than an array, of which each row would need one
            names = F.concat_ws("`", *wrong)
            listed = F.when(names != "", F.split(names, "`"))
            wrong_names.append(names)
            messages.append(misfit_texts(source.columns, part, F.create_map(*texts), listed))
    if not messages:
        return F.lit(None).cast("string")
    return F.when(F.concat(*wrong_names) != "", F.concat_ws("; ", *messages))


def _no_key(source: TableSource, zone: str) -> Column:
    """Why the key isn't known; null where it is.

    Where the clocks of a zone are put forward, local times that they skip become later times, which
    other keys may have. Dates that the calendar doesn't have become null: that is left to MySQL's
    zero date, so that no two keys are the same.
    """
    reason = F.lit(None).cast("string")
    # a format that needs a before image has refused the row by now where there is none
    changed = (F.col("op") != "insert") & F.col("before").isNotNull()
    for name in source.primary_key:
        gone = F.col("data")[name].isNull() | (changed & F.col("before")[name].isNull())
        reason = F.coalesce(reason, F.when(gone, F.lit(f"the key column {name} is null")))
        kind = source.columns[name]
        if kind.kind == "datetime" and zone[0] not in "+-":
            skipped = kind.is_skipped(F.col("data")[name], zone)
            skipped |= changed & kind.is_skipped(F.col("before")[name], zone)
            text = f"the key column {name} is a time that the clocks of {zone} skip"
            reason = F.coalesce(reason, F.when(skipped, F.lit(text)))
        if kind.kind in OF_DAYS:
            unknown = _is_unknown_day(kind, F.col("data")[name], zone)
            unknown |= changed & _is_unknown_day(kind, F.col("before")[name], zone)
            text = f"the key column {name} is a date that the calendar doesn't have"
            reason = F.coalesce(reason, F.when(unknown, F.lit(text)))
    return reason


def _is_unknown_day(kind: SourceType, raw: Column, zone: str) -> Column:
    """Condition on a time's text: its day is none, and not the zero date."""
    # a time of day behind the zero date makes it another value
    is_zero = F.startswith(raw, F.lit(ZERO_DATE)) & (F.translate(raw, "0-: .", "") == "")
    is_zero = F.coalesce(is_zero, F.lit(False))
    return raw.isNotNull() & kind.value(raw, zone).isNull() & ~is_zero


def _typed_image(image: str, source: TableSource, zone: str) -> Column:
    """A row image's values in their types; what a type can't hold stands in `raw_values`."""
    values, raw_values, unread = [], [], F.lit(False)
    for name, kind in source.columns.items():
        raw = F.col(image)[name]
        value = kind.value(raw, zone)
        values.append(value.alias(name))
        if kind.kind in OF_DAYS:
            lost = raw.isNotNull() & value.isNull()
            entry = F.struct(F.lit(name).alias("key"), raw.alias("value"))
            raw_values.append(F.when(lost, entry))
            unread = unread | lost
    texts = F.lit(None)
    if raw_values:
        # array_compact is interpreted: only where there is an entry
        texts = F.when(unread, F.map_from_entries(F.array_compact(F.array(*raw_values))))
    typed = F.struct(*values, texts.cast("map<string, string>").alias("raw_values"))
    return F.when(F.col(image).isNotNull(), typed)
