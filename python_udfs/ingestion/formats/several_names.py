"""Rows that hold several of a column's names: the table has columns of these names side by side.

A column that was renamed has one name in each message. But a table may get another column of the
old name later, or have both while programs move from the old to the new. Then the first name that
the row has is the column, with a value or null: its own, then its aliases in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from operator import and_, or_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

    from python_udfs.ingestion.tables.source import TableSource

_PLAIN = re.compile(r"[A-Za-z0-9_$. -]+")  # JSON writes these signs as they are
# or by their numbers: the last of these in a name, and what follows it there
_NUMBERED = r'\\u[0-9A-Fa-f]{4}[A-Za-z0-9_$. -]*+"[ \t\r\n]*+:'


def names_if_several(source: TableSource, payload: Column, names: Column) -> Column:
    """The names of a row, where it may hold several of a column; else null, and `names` isn't
    asked."""
    from pyspark.sql import functions as F

    may_be = F.lit(False)
    for column in source.columns:
        named = [_may_be_in(payload, name) for name in source.names(column)]
        may_be = reduce(or_, (reduce(and_, pair) for pair in combinations(named, 2)), may_be)
    return F.when(may_be, names)


def of_column(
    names: Sequence[str], of_row: Column, value: Callable[[str], Column], usual: Column
) -> Column:
    """What stands under the name that a column has in a row.

    Args:
        names: that the column may have.
        of_row: see names_if_several.
        value: what stands under a name.
        usual: the same where the row holds at most one of the names.
    """
    from pyspark.sql import functions as F

    if len(names) == 1:
        return usual
    first: Column | None = None
    for name in names:
        is_there = F.array_contains(of_row, name)
        first = (
            F.when(is_there, value(name)) if first is None else first.when(is_there, value(name))
        )
    times = F.size(F.array_intersect(of_row, F.array(*map(F.lit, names))))
    return F.when(of_row.isNotNull() & (times > 1), first).otherwise(usual)


def has_numbered_letters(payload: Column) -> Column:
    """Condition: a name of plain letters may have some of them written by their numbers."""
    # texts have such letters often, and are followed by no colon
    return payload.contains("\\u") & payload.rlike(_NUMBERED)


def _may_be_in(payload: Column, name: str) -> Column:
    from pyspark.sql import functions as F

    is_there = payload.contains(f'"{name}"') | has_numbered_letters(payload)
    return is_there if _PLAIN.fullmatch(name) else F.lit(True)
