"""What the rows of a typed ODS model were made by: its declaration and the vars that matter.

Each commit records it. A run whose declaration differs would leave rows of both in one table, so it
is refused with what differs, until --full-refresh.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from python_udfs.ingestion.tables.source import TableSource
    from python_udfs.ingestion.tables.types import SourceType

MADE_BY_PROPERTY = "ods.made_by"  # a declaration, see made_by
READER_PROPERTY = "ods.reading"  # what decides which messages are refused, see hash_of_reader
# of options that came later: commits of before have none of them
LATER_DEFAULTS = {("pre_images", "any")}
READING_ROOMS = ("formats", "tables")  # folders of the modules that read messages
# text types whose length nothing goes by
_PLAIN_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")


def made_by(source: TableSource, zone: str, max_ahead_hours: int) -> dict[str, Any]:
    """The declaration that a typed model's rows depend on, as JSON values.

    What only decides which messages are refused isn't part of it, see hash_of_reader; nor is
    schema_version, which each row has, nor are the batches, which have a property of their own.
    """
    return {
        "business_zone": zone,
        "cut_time_max_ahead_hours": max_ahead_hours,
        "database": source.database,
        "table": source.table,
        "topic": sorted(source.topics),
        "format": source.format,
        "options": {
            name: value
            for name, value in sorted(source.options.items())
            if (name, value) not in LATER_DEFAULTS
        },
        "primary_key": list(source.primary_key),
        "cut_column": source.cut_column,
        "aliases": {name: sorted(others) for name, others in sorted(source.aliases.items())},
        # of several names in a row the first counts; commits of before this was kept lack it
        "order_of_aliases": {
            name: list(others) for name, others in source.aliases.items() if len(others) > 1
        },
        "columns": {name: _type(kind) for name, kind in source.columns.items()},
    }


def hash_of_reader(source: TableSource) -> str:
    """A hash of what decides whether a message is refused: the code that reads it, and the columns
    that a row image must have."""
    watched = json.dumps(sorted(source.watched))
    return hashlib.md5(f"{code_of_reading()}{watched}".encode()).hexdigest()


@cache
def code_of_reading() -> str:
    """A hash of the modules that read messages."""
    rooms = Path(__file__).parents[1]
    files = sorted(file for name in READING_ROOMS for file in (rooms / name).rglob("*.py"))
    texts = [str(file.relative_to(rooms)).encode() + b"\0" + file.read_bytes() for file in files]
    return hashlib.md5(b"\0".join(texts)).hexdigest()


def check_made_by(
    model: str, recorded: Mapping[str, Any] | None, declared: Mapping[str, Any]
) -> None:
    """Compare the declaration of the model's last commit with the present one.

    Args:
        recorded: of the last commit, or None where it has none.

    Raises:
        ValueError: they differ; all differences in one message.
    """
    if recorded is None or recorded == declared:
        return
    differences = []
    for name, now in declared.items():
        before = recorded.get(name, now)
        if before == now:
            continue
        if isinstance(now, dict) and isinstance(before, dict):
            for key in [*before, *(file for file in now if file not in before)]:
                if before.get(key) != now.get(key):
                    differences.append(
                        f"{name}.{key} was {_text(before.get(key))} and is {_text(now.get(key))}"
                    )
            if list(before) != list(now) and before == now:
                continue
        else:
            differences.append(f"{name} was {_text(before)} and is {_text(now)}")
    if differences:
        raise ValueError(
            f"{model}: its rows were made by another declaration: {'; '.join(differences)}. Run it "
            f"with --full-refresh, which reads the log again (dbt run --full-refresh -s {model}), "
            "or set the declaration back."
        )


def check_batches(model: str, read: Sequence[str], batches: Sequence[str]) -> None:
    """The batches that were read must still be named in their order: the last one counts.

    Args:
        read: those of the last commit, in its order, without those that left no rows.

    Raises:
        ValueError: two of them have changed places.
    """
    kept = [batch for batch in batches if batch in read]
    was = [batch for batch in read if batch in batches]
    if kept != was:
        raise ValueError(
            f"{model}: its rows were made with the batches {', '.join(read)} in this order, where "
            f"the last one counts, and the var `batches` is now {', '.join(batches)}. Set the "
            "order back, or run the model with --full-refresh."
        )


def _text(value: Any) -> str:
    return "not declared" if value is None else json.dumps(value, ensure_ascii=False)


def _type(kind: SourceType) -> str:
    """The declared type, without what no value depends on."""
    declared = " ".join(kind.declared.lower().split())
    return "text" if declared.split("(")[0] in _PLAIN_TEXTS else declared
