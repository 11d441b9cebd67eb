"""Partitions as texts in Iceberg's snapshot summaries, and as SQL conditions; months and years."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from urllib.parse import unquote_plus

from dbt.adapters.sparksession.edges import Settings
from dbt.adapters.sparksession.iceberg.history import Snapshot
from dbt.adapters.sparksession.sql import literal, quoted

PERIODS = ("month", "year")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
TEXTS = ("string", "char", "varchar")
UNNAMED = ("float", "double")  # types of which a text names no partition: NaN, -0.0, 0.1 of a float
NULL = "null"  # what Iceberg writes for a null, and for the text `null` as well


@dataclass(frozen=True)
class PartitionReading:
    """Which inputs a model reads by their changed partitions, and which in other ways.

    Attributes:
        calls: macro and its arguments that have to be the same wherever a model calls it.
        tables: relation that is read by its changed partitions -> tables (schema.name) below it.
        others: tables that are read in another way, whole or as new rows.
        added: tables of which only what was added or changed since the last commit is read.
        relation: the relation that is being read by its partitions, None between such reads.
        decided: whether `values` are those that the model writes.
        values: partition texts that the model writes, None for all partitions.
        kind: Spark type of the partition column in the inputs read so far, None while it is not
            needed.
        texts: the parts of its query that read changed partitions.
    """

    calls: frozenset[tuple[str, ...]] = frozenset()
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    relation: str | None = None
    decided: bool = False
    values: frozenset[str] | None = None
    kind: str | None = None
    texts: frozenset[str] = frozenset()

    def of_relation(self, relation: str) -> PartitionReading:
        """From now on `relation` is being read by its partitions."""
        tables = {relation: frozenset[str](), **self.tables}
        return replace(self, tables=tables, relation=relation)

    def with_read(self, table: str, mode: str) -> PartitionReading:
        """With a read of `table`; `mode` is `all`, or how its new rows are asked for."""
        added = self.added if mode == "all" else self.added | {table}
        if self.relation is None:
            return replace(self, others=self.others | {table}, added=added)
        tables = {**self.tables, self.relation: self.tables[self.relation] | {table}}
        return replace(self, tables=tables, added=added)

    def with_added(self, table: str) -> PartitionReading:
        """With a table of which only what was added or changed is read."""
        return replace(self, added=self.added | {table})


def asked_partitions(column: str, days: Iterable[str]) -> set[str]:
    """Partitions of the days that a run is asked to rewrite, as Iceberg's summaries write them.

    >>> asked_partitions("cut_date", ["2026-03-01"])
    {'cut_date=2026-03-01'}

    Raises:
        ValueError: something else than days, and `null` for the rows without a day.
    """
    wrong: list[Any] = [days]
    if _is_list(days):
        wrong = [day for day in days if day != NULL and not DAY.fullmatch(str(day))]
    if wrong:
        raise ValueError(
            f"the days to rewrite must be a list of days ('{NULL}' for the rows without one), "
            f"got {wrong[0]!r}. Example: ['2026-03-01']"
        )
    return {f"{column}={day}" for day in days}


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def partition_names(path: str) -> list[str]:
    """Names of the partition columns in a path, as Iceberg's summaries write it.

    >>> partition_names("cut_date=2026-03-01/a+b=7")
    ['cut_date', 'a b']
    """
    return [unquote_plus(part.partition("=")[0]) for part in path.split("/") if part]


def partition_values(column: str, partitions: set[str]) -> set[str]:
    """Values of one partition column, as texts; "null" for null.

    Args:
        column: the partition column; identity transform.
        partitions: as Iceberg's summaries write them, values URL-encoded, e.g.
            {"cut_date=2026-03-01"}. Parts of other partition columns are passed over.

    Raises:
        ValueError: a partition isn't by this column.
    """
    name, values = column.strip("`"), set()
    for path in partitions:
        parts = (part.partition("=") for part in path.split("/"))
        found = {unquote_plus(value) for key, _, value in parts if unquote_plus(key) == name}
        if not found:
            raise ValueError(f"no partition column {column!r} in {path!r}")
        values |= found
    return values


def partition_predicate(column: str, values: AbstractSet[str], kind: str | None = None) -> str:
    """SQL condition for the rows of changed partitions, see partition_values.

    Args:
        kind: Spark type of the column; None where the values are days, or it has no texts and no
            bytes. In such a column "null" may be null or that text: both are taken.

    Returns:
        e.g. "cut_date in ('2026-03-01')"; "false" for no partitions. Spark casts the texts to
        the column's type: a text that looks like a number or a date stays right for a text
        column too. Beside decimals it would cast both to doubles. Bytes are written in base64.
    """
    kind = (kind or "").partition("(")[0]
    plain = sorted(value for value in values if value != NULL or kind in ("binary", *TEXTS))
    literals = [_literal_of(value, kind) for value in plain]
    conditions = [f"{column} in ({', '.join(literals)})"] if literals else []
    if literals and kind == "boolean":
        # Spark makes `not column` of it, which Iceberg takes for `column <> true`, nulls too
        conditions = [f"({column} is not null and {conditions[0]})"]
    if NULL in values:
        conditions.append(f"{column} is null")
    return " or ".join(conditions) if conditions else "false"


def _literal_of(text: str, kind: str) -> str:
    """A partition's text as SQL, of a column of a type without its arguments."""
    if kind == "binary":
        return f"X'{base64.b64decode(text).hex().upper()}'"
    return f"{text}BD" if kind == "decimal" else literal(text)


def touched_partitions(commits: Sequence[Snapshot], kinds: Settings) -> tuple[str | None, str]:
    """The column that the partitions which commits changed go by first, and a SQL condition on the
    rows of those partitions; None and "true" where they can't be determined.

    Args:
        kinds: column of the table -> type, one of pyspark's.
    """
    changed: set[str] = set()
    for commit in commits:
        partitions = commit.partitions() if commit.operation != "replace" else set()
        if partitions is None:
            return None, "true"
        changed |= partitions
    first = {tuple(partition_names(partition)[:1]) for partition in changed}
    # the name of a transformed column isn't the column's
    if len(first) != 1 or not first <= {(name,) for name in kinds}:
        return None, "true"
    ((name,),) = first
    kind = kinds[name].simpleString()
    if kind in UNNAMED:
        return None, "true"
    return name, partition_predicate(quoted(name), partition_values(name, changed), kind)


def needs_kind(values: AbstractSet[str]) -> bool:
    """Whether the condition for these values depends on the column's type."""
    return not all(DAY.fullmatch(value) for value in values)


def period_start(day: date, period: str) -> date:
    """First day of the month or year that a day lies in.

    Raises:
        ValueError: another period.
    """
    if period not in PERIODS:
        raise ValueError(f"period must be one of {', '.join(PERIODS)}, got {period!r}")
    return day.replace(day=1) if period == "month" else day.replace(month=1, day=1)


def period_after(start: date, period: str) -> date:
    """First day of the period behind the period that begins at `start`."""
    if period == "year":
        return start.replace(year=start.year + 1)
    years, month = divmod(start.month, 12)
    return start.replace(year=start.year + years, month=month + 1)


def period_starts(first: date, end: date, period: str) -> list[date]:
    """First days of the periods that begin in [first, end); `first` is one of them."""
    starts = []
    while first < end:
        starts.append(first)
        first = period_after(first, period)
    return starts


def periods_predicate(column: str, starts: Iterable[date], period: str) -> str:
    """SQL condition for the days in `column` of whole periods, neighbours joined.

    Args:
        starts: the periods' first days, each once.

    Returns:
        e.g. "(cut_date >= date '2026-01-01' and cut_date < date '2026-03-01')"; "false" for none.
    """
    ranges: list[tuple[date, date]] = []
    for start in sorted(starts):
        end = period_after(start, period)
        if ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    conditions = [
        f"({column} >= date '{first}' and {column} < date '{last}')" for first, last in ranges
    ]
    return " or ".join(conditions) if conditions else "false"
