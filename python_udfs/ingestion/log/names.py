"""The names of a table's columns in the log, compared with the declared names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from python_udfs.ingestion.formats.registry import FORMATS
from python_udfs.ingestion.formats.several_names import has_numbered_letters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource

# names of this kind JSON writes as they are, or a letter of them by its number
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
# where a row stands in a message
_ROWS = {
    "maxwell": ("$.data",),
    "canal": ("$.data[0]",),
    "debezium": ("$.after", "$.before", "$.payload.after", "$.payload.before"),
}
# the same where a row need not have all columns, and a name with dots goes into nested objects
_DOCUMENTS = {
    "events": ("$",),
    "mongodb": tuple(
        f"$.{within}{part}"
        for within in ("", "payload.")
        for part in (
            "fullDocument",
            "fullDocumentBeforeChange",
            "updateDescription.updatedFields",
            "documentKey",
            "after",
            "before",
        )
    ),
}


def has_all_columns(format_name: str) -> bool:
    """Whether each message of the format names all columns of its table."""
    return format_name in _ROWS


def has_exact_names(source: TableSource) -> bool:
    """Whether columns of the table may differ in upper and lower case alone.

    MySQL's can't. PostgreSQL's can, by Debezium: the name of such a table holds its schema.
    """
    if getattr(FORMATS[source.format], "EXACT_NAMES", False) or source.format == "events":
        return True
    return source.format == "debezium" and "." in source.table


def _is_asked_by_case(source: TableSource) -> bool:
    """Whether a row's names are compared with those that are declared, in all cases."""
    return has_all_columns(source.format) and not has_exact_names(source)


def names_in(messages: Iterable[tuple[str, str | None]]) -> set[str]:
    """The names of the columns in messages of rows; of those that can't be read none.

    Args:
        messages: format and payload of each.
    """
    found: set[str] = set()
    for format_name, payload in messages:
        message = _json(payload)
        for path in (_ROWS | _DOCUMENTS)[format_name]:
            row: Any = message
            for step in path.removeprefix("$").removesuffix("[0]").split(".")[1:]:
                row = row.get(step) if isinstance(row, dict) else None
            row = row[0] if isinstance(row, list) and row else row
            row = _json(row) if isinstance(row, str) else row
            found |= set(row) if isinstance(row, dict) else set()
            if format_name in _DOCUMENTS:
                found |= set(_nested_names(row))
    return found


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def _nested_names(row: Any, within: str = "", depth: int = 5) -> Iterator[str]:
    if depth and isinstance(row, dict):
        for name, value in row.items():
            yield f"{within}{name}"
            yield from _nested_names(value, f"{within}{name}.", depth - 1)


def all_names(messages: DataFrame) -> set[str]:
    """The names of the columns in all messages of rows: reads them whole."""
    from pyspark.sql import functions as F

    names = messages.select(F.explode(row_names()).alias("name"))
    return {row.name for row in names.distinct().collect()}


def row_names() -> Column:
    """The names that stand in a message's row, an array, by its columns format and payload."""
    from pyspark.sql import functions as F

    found = F.lit(None).cast("array<string>")
    for format_name, paths in _ROWS.items():
        row = F.coalesce(*[F.get_json_object("payload", path) for path in paths])
        is_format = F.col("format") == format_name
        found = F.when(is_format, F.json_object_keys(row)).otherwise(found)
    for format_name, paths in _DOCUMENTS.items():
        none = F.array().cast("array<string>")
        rows = [F.get_json_object("payload", path) for path in paths]
        names = F.flatten(F.array(*[F.coalesce(F.json_object_keys(row), none) for row in rows]))
        found = F.when(F.col("format") == format_name, names).otherwise(found)
    return found


def columns_without_message(
    messages: DataFrame, source: TableSource, columns: Iterable[str]
) -> tuple[set[str], set[str]]:
    """Those of the columns whose name, and aliases, stand in no row of the messages: reads them.

    And those among them whose names stand nowhere in the messages in another case, either; none
    where unread_by_case asks for no names.
    """
    columns = list(columns)
    if not _is_asked_by_case(source):
        return _without(messages, source, columns, _has_name), set()
    # a cheap look first: mostly it leaves no column for which the names have to be parsed
    unnamed = _without(messages, source, columns, _may_be_in_another_case)
    near = [column for column in columns if column not in unnamed]
    return unnamed | _without(messages, source, near, _has_name), unnamed


def _without(
    messages: DataFrame,
    source: TableSource,
    columns: Sequence[str],
    condition: Callable[[str], Column],
) -> set[str]:
    """Those of the columns of which no message fulfils the condition on their names."""
    from pyspark.sql import functions as F

    if not columns:
        return set()
    asked = [F.bool_or(reduce(or_, map(condition, source.names(column)))) for column in columns]
    named = dict(zip(columns, messages.agg(*asked).first() or (), strict=True))
    return {column for column in columns if not named[column]}


def _has_name(name: str) -> Column:
    """Condition: the message's row has a column of that name; a path, where there are nested."""
    from pyspark.sql import functions as F

    parts = name.split(".")
    prefixes = {".".join(parts[:size]) for size in range(1, len(parts) + 1)}
    # a name of the envelope stands in each message: only the row's own names count. Before them
    # what is cheap, and false of most messages; a document may be JSON within a text
    text = F.col("payload").contains(parts[-1])
    text = text & F.col("payload").rlike(rf'[".]{re.escape(parts[-1])}\\?"\s*+:')
    is_document = F.col("format").isin(*_DOCUMENTS)
    wanted = F.when(is_document, F.array(*map(F.lit, sorted(prefixes))))
    return text & F.arrays_overlap(row_names(), wanted.otherwise(F.array(F.lit(name))))


def with_names_of(source: TableSource, names: Iterable[str]) -> TableSource:
    """The declaration with aliases for names of the log that differ in upper and lower case alone.

    MySQL's names of columns have no case; a column may be renamed by it (CHANGE v V).
    """
    if has_exact_names(source):
        return source
    owners = {
        source_name.lower(): name for name in source.columns for source_name in source.names(name)
    }
    aliases = dict(source.aliases)
    for source_name in sorted(names):
        owner = owners.get(source_name.lower())
        if owner is not None and source_name not in (owner, *aliases.get(owner, ())):
            aliases[owner] = (*aliases.get(owner, ()), source_name)
    return source if aliases == source.aliases else replace(source, aliases=aliases)


def differ_by_case(source: TableSource) -> bool:
    """Whether some of a table's names in the log differ in upper and lower case alone."""
    names = list(source.names_in_log())
    return len({name.lower() for name in names}) < len(names)


def unread_by_case(source: TableSource, image: str) -> Column:
    """Text naming what the row calls by a name in another case than all that are read; else null.

    The names that the log has are looked up in a few messages. Where a column was renamed by its
    case and back between them, without an ALTER in the log, its values would be lost.

    Args:
        image: the struct that was read of the row, a column beside its message's.
    """
    from pyspark.sql import functions as F

    nothing = F.lit(None).cast("string")
    if not _is_asked_by_case(source):
        return nothing
    payload = F.col("payload")
    gone = F.lit(False)
    for column in (name for name in source.columns if name not in source.unnamed):
        names = source.names(column)
        named = reduce(or_, [payload.contains(f'"{name}":') for name in names])
        near = reduce(or_, [_may_be_in_another_case(name) for name in names])
        is_gone = F.col(image)[column].isNull() & ~named
        gone = gone | F.when(is_gone, near)
    known = sorted(source.names_in_log())
    others = F.array_except(row_names(), F.array(*map(F.lit, known)))
    lowered = sorted({name.lower() for name in known})
    found = F.array_join(F.filter(others, lambda name: F.lower(name).isin(lowered)), ", ")
    text = F.concat(
        F.lit("the row image names a declared column in another case than is read: "),
        found,
        F.lit(" (renamed and back? declare it in `aliases`, run the model with --full-refresh)"),
    )
    return F.when(F.col(image).isNotNull() & gone, F.when(found != "", text))


def _may_be_in_another_case(name: str) -> Column:
    """Condition: the payload may have the name in some case; true too often, never too seldom.

    It spares the rows of a table that lacks a declared column a look at all their names.
    """
    from pyspark.sql import functions as F

    payload = F.col("payload")
    if not _PLAIN.fullmatch(name):
        return F.lit(True)
    return F.lower(payload).contains(f'"{name.lower()}"') | has_numbered_letters(payload)


def absent_columns(source: TableSource, names: set[str]) -> dict[str, list[str]]:
    """Declared columns that are not among the names -> the nearest names that nobody declares."""
    known = set(source.names_in_log())
    others = sorted(names - known)
    return {
        name: get_close_matches(name, others, n=3, cutoff=0.5)
        for name in source.columns
        if not names & set(source.names(name))
    }


def text_of_absent(
    model: str, source: TableSource, absent: dict[str, list[str]], sampled: bool
) -> str:
    """A sentence that names the columns.

    Args:
        sampled: whether the first and the last message alone were looked at.
    """
    listed = "; ".join(
        f"{name} (near it: {', '.join(near)})" if near else name for name, near in absent.items()
    )
    messages = "neither the first nor the last message" if sampled else "no message"
    return (
        f"{model}: {messages} of {source.database}.{source.table} in this run has the declared "
        f"column {listed}, which is null in all {'rows without it' if sampled else 'its rows'}. Is "
        "it declared by its right name, or does it need an alias?"
    )
