"""Names that the log has for the columns of a table, beside those that are declared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from python_udfs.deserialize.envelope import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from python_udfs.deserialize.table_source import TableSource

# where a row stands in a message; formats whose rows need not have all columns aren't among them
_ROWS = {
    "maxwell": ("$.data",),
    "canal": ("$.data[0]",),
    "debezium": ("$.after", "$.before", "$.payload.after", "$.payload.before"),
}


def has_all_columns(format_name: str) -> bool:
    """Whether each message of the format names all columns of its table."""
    return format_name in _ROWS


def names_in(payloads: Iterable[str | None], format_name: str) -> set[str]:
    """The names of the columns in messages of changes; of those that can't be read none."""
    found: set[str] = set()
    for payload in payloads:
        try:
            message = json.loads(payload or "null")
        except ValueError:
            continue
        for path in _ROWS[format_name]:
            row: Any = message
            for step in path.removeprefix("$.").removesuffix("[0]").split("."):
                row = row.get(step) if isinstance(row, dict) else None
            row = row[0] if isinstance(row, list) and row else row
            found |= set(row) if isinstance(row, dict) else set()
    return found


def all_names(messages: DataFrame, format_name: str) -> set[str]:
    """The names of the columns in all messages of changes: reads them whole."""
    from pyspark.sql import functions as F

    rows = [F.get_json_object("payload", path) for path in _ROWS[format_name]]
    names = messages.select(F.explode(F.json_object_keys(F.coalesce(*rows))).alias("name"))
    return {row.name for row in names.distinct().collect()}


def with_names_of(source: TableSource, names: Iterable[str]) -> TableSource:
    """The declaration with aliases for names of the log that differ in upper and lower case alone.

    MySQL's names of columns have no case; a column may be renamed by it (CHANGE v V).
    """
    if getattr(FORMATS[source.format], "EXACT_NAMES", False):
        return source
    owners = {one.lower(): name for name in source.columns for one in source.names(name)}
    aliases = dict(source.aliases)
    for one in sorted(names):
        owner = owners.get(one.lower())
        if owner is not None and one not in (owner, *aliases.get(owner, ())):
            aliases[owner] = (*aliases.get(owner, ()), one)
    return source if aliases == source.aliases else replace(source, aliases=aliases)


def differ_by_case(source: TableSource) -> bool:
    """Whether some of a table's names in the log differ in upper and lower case alone."""
    names = list(source.names_in_log())
    return len({one.lower() for one in names}) < len(names)


def absent_columns(source: TableSource, names: set[str]) -> dict[str, list[str]]:
    """Declared columns that are not among the names -> the nearest names that nobody declares."""
    known = set(source.names_in_log())
    others = sorted(names - known)
    return {
        name: get_close_matches(name, others, n=3, cutoff=0.5)
        for name in source.columns
        if not names & set(source.names(name))
    }


def text_of_absent(model: str, source: TableSource, absent: dict[str, list[str]]) -> str:
    """One sentence that names the columns."""
    listed = "; ".join(
        f"{name} (near it: {', '.join(near)})" if near else name for name, near in absent.items()
    )
    return (
        f"{model}: no message of {source.database}.{source.table} in this run has the declared "
        f"column {listed}, which is null in all its rows. Is it declared by its right name, or "
        "does it need an alias?"
    )
