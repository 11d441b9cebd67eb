"""Columns of one query of Spark SQL, each with the columns of tables that its values come from.

Only values count: what filters, joins, groups or orders the rows is no input of a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

DIALECT = "spark"
CONSTANT, COUNT, RUN = "constant", "count", "run"
UNKNOWN = "unknown"  # an input that couldn't be found


@dataclass(frozen=True, order=True)
class Leaf:
    """A column of a table, as a query reads it.

    Attributes:
        table: the table's name in parts, e.g. ("dw", "orders"); of a metadata table three.
        column: the column's name.
        field: the field of the column, where the query reads one field of a struct.
    """

    table: tuple[str, ...]
    column: str
    field: str | None = None


@dataclass(frozen=True)
class Origin:
    """Where the values of one column come from.

    Attributes:
        leaves: columns of tables.
        reasons: CONSTANT, COUNT, RUN or UNKNOWN, for the parts that no column gives.
    """

    leaves: frozenset[Leaf] = frozenset()
    reasons: frozenset[str] = frozenset()

    def __or__(self, other: Origin) -> Origin:
        return Origin(self.leaves | other.leaves, self.reasons | other.reasons)


class QueryError(ValueError):
    """A query that can't be parsed."""


def columns_of(sql: str, schema: Mapping[tuple[str, str], list[str]]) -> dict[str, Origin]:
    """Column of a query -> where its values come from, in the query's order.

    Args:
        sql: one select statement in Spark's SQL.
        schema: (schema, table) -> names of the table's columns.

    Raises:
        QueryError: sqlglot can't parse or qualify the statement.
    """
    nested: dict[str, object] = {}
    for database in {database for database, _ in schema}:
        nested[database] = {
            table: dict.fromkeys(names, "string")
            for (of, table), names in schema.items()
            if of == database
        }
    try:
        tree = qualify(
            parse_one(sql, dialect=DIALECT),
            schema=nested,
            dialect=DIALECT,
            validate_qualify_columns=False,
        )
    except SqlglotError as exc:
        raise QueryError(str(exc)) from exc
    scope = build_scope(tree)
    if scope is None:
        raise QueryError("The statement is no select.")
    found = _Columns()
    return {name: found.of(scope, name) for name in _query(scope).named_selects}


class _Columns:
    """Follows columns through the scopes of one statement; each is followed once."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str, str | None], Origin] = {}

    def of(self, scope: Scope, name: str, field: str | None = None) -> Origin:
        """The origin of a column that a scope gives, or of one field of it."""
        key = id(scope), name, field
        if key not in self.known:
            self.known[key] = Origin()  # a recursive CTE adds nothing by reading itself
            self.known[key] = self._of(scope, name, field)
        return self.known[key]

    def _of(self, scope: Scope, name: str, field: str | None) -> Origin:
        names = _query(scope).named_selects
        if name not in names:
            return Origin(reasons=frozenset({UNKNOWN}))
        if scope.set_operation_scopes:
            origin = Origin()
            for part in scope.set_operation_scopes:
                origin |= self.of(part, _query(part).named_selects[names.index(name)], field)
            return origin
        value = _query(scope).selects[names.index(name)].unalias()
        if isinstance(value, exp.Column):
            return self._column(scope, value, field)
        if field is not None and (choices := _choices(value, field)) is not None:
            origin = Origin()
            for choice, of_choice in choices:
                if isinstance(choice, exp.Column):
                    origin |= self._column(scope, choice, of_choice)
                else:
                    origin |= self._expression(scope, choice)
            return origin
        return self._expression(scope, value)

    def _expression(self, scope: Scope, value: exp.Expr) -> Origin:
        """What all columns of an expression come to, those of its subqueries as well."""
        origin = Origin()
        for column in _columns_in(value):
            origin |= self._column(scope, column, _field_of(column))
        for part in scope.subquery_scopes:
            if any(node is part.expression for node in value.walk()):
                for name in _query(part).named_selects:
                    origin |= self.of(part, name)
        if not origin.leaves and not origin.reasons:
            return Origin(reasons=frozenset({_reason(value)}))
        if not origin.leaves and origin.reasons == {CONSTANT} and value.find(exp.AggFunc):
            return Origin(reasons=frozenset({COUNT}))  # a sum of units
        return origin

    def _column(self, scope: Scope, column: exp.Column, field: str | None) -> Origin:
        source = scope.sources.get(column.table) if column.table else _only_source(scope)
        if isinstance(source, exp.Table):
            parts = tuple(part.name for part in source.parts)
            return Origin(leaves=frozenset({Leaf(parts, column.name, field)}))
        if source is None:
            return Origin(reasons=frozenset({UNKNOWN}))
        if isinstance(source.expression, exp.UDTF):
            # columns of an explode come from all that it is given
            return self._expression(scope, source.expression)
        return self.of(source, column.name, field)


def _query(scope: Scope) -> exp.Query:
    """The query of a scope that gives columns; those of an explode aren't asked for it."""
    query = scope.expression
    assert isinstance(query, exp.Query)
    return query


def _only_source(scope: Scope) -> exp.Table | Scope | None:
    """The source of a column without a table's name, where a scope has just one that is a table:
    of a table that the schema doesn't list sqlglot can't say which columns it has."""
    sources = [source for _, source in scope.selected_sources.values()]
    tables = [source for source in sources if isinstance(source, exp.Table)]
    return sources[0] if len(sources) == 1 else tables[0] if len(tables) == 1 else None


def _columns_in(value: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression: not those of its subqueries, no parameters of functions."""
    for node in value.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Column) and not _is_parameter(node):
            yield node


def _is_parameter(column: exp.Column) -> bool:
    """Whether it is the parameter of an anonymous function around it: x in (x, y) -> x + y."""
    if column.table and column.table not in _parameters(column):
        return False
    return (column.table or column.name) in _parameters(column)


def _parameters(node: exp.Expr) -> set[str]:
    names = set()
    while (node := node.find_ancestor(exp.Lambda)) is not None:  # type: ignore[assignment]
        names |= {expression.name for expression in node.expressions}
    return names


def _choices(value: exp.Expr, field: str) -> list[tuple[exp.Expr, str | None]] | None:
    """What a field of a struct may be the value of: columns with the name of their field, and
    whole expressions with None. None where the struct isn't followed."""
    if isinstance(value, exp.Null):
        return []
    if isinstance(value, exp.Column):
        return [(value, field)]
    if isinstance(value, exp.Struct):
        fields = {part.name: part.expression for part in value.expressions}
        return [(fields[field], None)] if field in fields else None
    parts: list[exp.Expr | None]
    if isinstance(value, (exp.Window, exp.IgnoreNulls, exp.FirstValue, exp.LastValue, exp.Paren)):
        parts = [value.this]
    elif isinstance(value, exp.If):
        parts = [value.args["true"], value.args.get("false")]
    elif isinstance(value, exp.Case):
        parts = [*(branch.args["true"] for branch in value.args["ifs"]), value.args.get("default")]
    else:
        return None
    found = []
    for part in parts:
        choices = [] if part is None else _choices(part, field)
        if choices is None:
            return None
        found += choices
    return found


def _field_of(column: exp.Column) -> str | None:
    parent = column.parent
    return parent.name if isinstance(parent, exp.Dot) and parent.this is column else None


NOW = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentDatetime)
NUMBERING = (exp.RowNumber, exp.AggFunc)


def _reason(value: exp.Expr) -> str:
    """Why an expression has no column."""
    if value.find(*NOW):
        return RUN
    # an aggregate of nothing but constants is a number of rows: count(*), sum(1)
    return COUNT if value.find(*NUMBERING) else CONSTANT
