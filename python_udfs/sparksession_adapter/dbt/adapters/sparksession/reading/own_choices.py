"""Whether new rows that choose rows of their own table choose themselves.

`from x where id in (select id from new_rows)` has each new row, however long ago the other rows of
its id came. A choice by a part of the new rows, or by another column, hasn't: a new row that only
an old row would choose never gets into the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from dbt.adapters.sparksession.reading.query_parts import (
    NEWS,
    conditions_of,
    in_tables,
    label_of,
    names_in_query,
    query_behind,
    sources_of,
    without_cast,
)
from sqlglot import exp

NAME = re.compile(r"[\w.]+")
Pair = tuple[exp.Expr, exp.Expr]  # two expressions that have to be equal


class OwnChoices:
    """Choices of rows by new rows.

    Args:
        news: the texts by which a statement reads what is new.
    """

    def __init__(self, news: Collection[str]) -> None:
        texts = " ".join(news).replace("`", "").lower()
        # schema and name of each table, and whatever else is written so
        self._named = {".".join(name.split(".")[-2:]) for name in NAME.findall(texts)}

    def reads_own(self, source: exp.Expr) -> bool:
        """Whether what stands in a `from` reads a table whose new rows the statement reads."""
        query = query_behind(source)[0]
        return any(
            f"{table.db}.{table.name}".lower() in self._named
            for part in (source, query)
            if part is not None
            for table in part.find_all(exp.Table)
        )


def holds_by_in(asks: exp.In, inner: exp.Expr, sources: Sequence[exp.Expr]) -> bool:
    """Whether `values in (select ..)` holds for each new row.

    Args:
        sources: of the query that asks.
    """
    given = asks.this.expressions if isinstance(asks.this, exp.Tuple) else [asks.this]
    chosen_by = [exp.column(name) for name in _names_of_all(inner)]
    if len(given) != len(chosen_by):
        return False
    return _chooses_itself(zip(given, chosen_by, strict=True), sources, inner)


def holds_by_exists(inner: exp.Expr, sources: Sequence[exp.Expr]) -> bool:
    """Whether `exists (select ..)` holds for each new row.

    Args:
        sources: as above.
    """
    if not isinstance(inner, exp.Select) or len(sources_of(inner)) != 1:
        return False
    chooser = sources_of(inner)[0]
    pairs = _pairs(conditions_of(inner.args.get("where")), label_of(chooser))
    return pairs is not None and _chooses_itself(pairs, sources, chooser)


def holds_by_join(query: exp.Select, join: exp.Join, chooser: exp.Expr) -> bool:
    """Whether each new row finds itself by a join.

    Args:
        chooser: the side of new rows.
    """
    conditions = [*conditions_of(join.args.get("on")), *conditions_of(query.args.get("where"))]
    name = label_of(chooser)
    about = [
        item
        for item in conditions
        if any(column.table.lower() == name for column in item.find_all(exp.Column))
    ]
    pairs = _pairs(about, name)
    if pairs is None:
        return False
    using = [exp.column(item.name.lower()) for item in join.args.get("using") or ()]
    others = [item for item in sources_of(query) if item is not chooser]
    return _chooses_itself([*((item, item) for item in using), *pairs], others, chooser)


def _names_of_all(query: exp.Expr) -> list[str]:
    """Names of a query's columns, also where it takes all columns of another."""
    found = query_behind(query)[0]
    while found is not None and names_in_query(found) == ["*"] and isinstance(found, exp.Select):
        sources = sources_of(found)
        following = query_behind(sources[0])[0] if len(sources) == 1 else None
        if following is None:
            return []
        found = following
    return names_in_query(found) if found is not None else []


def _pairs(conditions: Iterable[exp.Expr], chooser: str) -> list[Pair] | None:
    """What conditions ask to be equal, of the rows that are chosen and of what chooses them; None
    where one of them asks for more.

    Args:
        chooser: name of the side that chooses.
    """
    pairs = []
    for item in conditions:
        if not isinstance(item, (exp.EQ, exp.NullSafeEQ)):
            return None
        left, right = item.left, item.right
        is_left = any(column.table.lower() == chooser for column in left.find_all(exp.Column))
        pairs.append((right, left) if is_left else (left, right))
    return pairs


def _chooses_itself(pairs: Iterable[Pair], sources: Sequence[exp.Expr], chooser: exp.Expr) -> bool:
    """Whether each new row is among what chooses rows, by the same expressions of its columns as
    it is chosen by."""
    found = [
        (without_cast(in_tables(chosen, sources)), without_cast(in_tables(by, [chooser])))
        for chosen, by in pairs
    ]
    by_all = [by for _, by in found]
    return bool(found) and _has_all(chooser, by_all) and all(chosen == by for chosen, by in found)


def _has_all(source: exp.Expr, by: Sequence[exp.Expr]) -> bool:
    """Whether each new row is among the rows of what stands in a `from`, but for those in which an
    expression of `by` is null: they choose no row."""
    if isinstance(source, exp.Table) and source.name.lower() == NEWS:
        return True
    query = query_behind(source)[0]
    if isinstance(query, exp.Union):
        return _has_all(query.left, by) or _has_all(query.right, by)
    if not isinstance(query, exp.Select):
        return False
    is_cut = any(query.args.get(part) for part in ("having", "limit", "offset", "qualify"))
    sources = sources_of(query)
    if is_cut or len(sources) != 1 or not _has_all(sources[0], by):
        return False
    return all(
        isinstance(item, exp.Not)
        and isinstance(item.this, exp.Is)
        and isinstance(item.this.expression, exp.Null)
        and without_cast(in_tables(item.this.this, sources)) in by
        for item in conditions_of(query.args.get("where"))
    )
