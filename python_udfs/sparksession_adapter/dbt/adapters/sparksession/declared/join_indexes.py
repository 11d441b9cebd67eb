"""Indexes of joins: the left rows of which right rows are looked up, and of which they are looked
for among all that lie in their time."""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.declared.join_configs import config_problems
from dbt.adapters.sparksession.edges import Given, Node
from dbt.adapters.sparksession.keyed.layout import column_names

MOST_LOOKUPS = 1_000  # right rows whose left rows are looked up
EXAMPLE = "join_index(relation=ref('order'), key='order_id', by=['user_id', 'create_time'])"
LOOKUP_RANGES = 512  # of the keys that an index gives, see RANGE_COUNT: they lie wide apart


@dataclass(frozen=True)
class Lookup:
    """How a run finds the left rows of right rows that changed.

    Attributes:
        index: SQL text for a `from`: the index's rows, of which several may be the same.
        far: SQL condition on the right rows whose left rows are looked up in it.
        near: of the others.
        ranges: of keys that may be asked for.
    """

    index: str
    far: str
    near: str
    ranges: int = LOOKUP_RANGES


def index_columns(key: Given, by: Given) -> list[str]:
    """The columns of an index: those that it finds rows by, then those of the key that it finds.

    Raises:
        DeclarationError: an argument names no columns.
    """
    problems: list[str] = []
    found: list[str] = []
    for name, given in (("by", by), ("key", key)):
        columns = column_names(given)
        if not columns:
            problems.append(f"{name} must name columns, got {given!r}")
        found += columns or ()
    if problems:
        raise DeclarationError("join_index", problems, EXAMPLE)
    return list(dict.fromkeys(found))


def index_definition(table: str, columns: Sequence[str]) -> str:
    """What an index is of, as its commits say: JSON.

    Args:
        table: schema.name of the relation whose rows it finds.
        columns: its columns, see index_columns.
    """
    return json.dumps({"of": table, "columns": list(columns)}, separators=(",", ":"))


def index_problem(model: Node, columns: Sequence[str]) -> str | None:
    """What keeps a model from being an index with these columns; None where nothing does."""
    return "; ".join(config_problems(model["config"], columns, {})) or None


def lookups_wanted(
    begins: Sequence[Decimal | None],
    files: Sequence[tuple[Decimal | None, int]],
    lookup_bytes: int,
) -> int:
    """Of how many right rows, from the first on, the left rows are best looked up; those of the
    others are looked for in the files of their time. By it the fewest bytes have to be opened.

    Args:
        begins: since when the left rows of each right row may lie, lowest first, None (no bound)
            before all: of all right rows, or of the first MOST_LOOKUPS + 1.
        files: of each of the left side's files the last time that it holds, None where that is
            unknown, and its bytes.
        lookup_bytes: what a lookup is taken to open.

    >>> old, new = (Decimal(9), 100), (Decimal(99), 100)
    >>> begins = [Decimal(5), Decimal(50), Decimal(60)]
    >>> [lookups_wanted(begins, [old, new], size) for size in (20, 80, 200)]
    [3, 1, 0]
    """
    known = sorted((last, size) for last, size in files if last is not None)
    unknown = sum(size for last, size in files if last is None)
    lasts = [last for last, _ in known]
    # before[n]: bytes of the n files that end first
    before = list(itertools.accumulate((size for _, size in known), initial=0))

    def opened(number: int) -> int:
        """Bytes of the files that the right rows from this number on lie in."""
        if number == len(begins):
            return 0
        begin = begins[number]
        ended = 0 if begin is None else bisect.bisect_left(lasts, begin)
        return before[-1] - before[ended] + unknown

    numbers = [0]
    numbers += [at for at in range(1, len(begins)) if begins[at] != begins[at - 1]]
    if len(begins) <= MOST_LOOKUPS:
        numbers.append(len(begins))
    return min(numbers, key=lambda number: (number * lookup_bytes + opened(number), number))
