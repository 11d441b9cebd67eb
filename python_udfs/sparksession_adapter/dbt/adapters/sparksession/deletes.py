"""Deletes whose condition may be null of a row: such a row stays.

Iceberg takes whole files off where their metrics, or their partition, show that a condition holds
of all rows. A condition that denies something (`<>`, `not`) counts there as true of a null.
"""

from __future__ import annotations

import re

from dbt.adapters.sparksession.sql_texts import QUOTED, without_comments
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

DELETES = re.compile(r"\s*delete\s+from\b", re.IGNORECASE)
CONDITION = re.compile(QUOTED + r"|(?P<where>\bwhere\b)", re.IGNORECASE | re.DOTALL)


def null_safe_delete(sql: str) -> str:
    """A statement as it is, and a DELETE whose condition denies something as one that Spark decides
    row by row.

    >>> null_safe_delete("delete from dw.a where k <> 1")
    'delete from dw.a where (k <> 1) and coalesce((k <> 1), false)'
    >>> null_safe_delete("delete from dw.a where day < date '2026-03-01'")
    "delete from dw.a where day < date '2026-03-01'"
    """
    text = without_comments(sql) if "delete" in sql.lower() else ""
    if not DELETES.match(text):
        return sql
    places = (found for found in CONDITION.finditer(text) if found["where"])
    where, denied = next(places, None), _denied_parts(text)
    if where is None or not denied:
        return sql
    condition = text[where.end() :].strip()
    # by the condition itself files are left out; but a prefix that is denied ends in a Java stack
    # where a partition is null
    has_prefix = any(part.find(exp.Like, exp.StartsWith) for part in denied)
    plain = "" if has_prefix else f"({condition}) and "
    return f"{text[: where.end()].strip()} {plain}coalesce(({condition}), false)"


def _denied_parts(delete: str) -> list[exp.Expr]:
    """Parts of the condition of a DELETE that deny something. None where it asks another table:
    that Spark decides row by row as it is."""
    try:
        tree = parse_one(delete, dialect="spark")
    except (SqlglotError, RecursionError):
        return []
    where = tree.args.get("where") if isinstance(tree, exp.Delete) else None
    if where is None or where.find(exp.Query):
        return []
    return [part for part in where.walk() if _denies(part)]


def _denies(part: exp.Expr) -> bool:
    if isinstance(part, exp.Not):
        denied = part.this.unnest()
        return not (isinstance(denied, exp.Is) and isinstance(denied.expression, exp.Null))
    # Spark makes `not k` of `k = false`
    return isinstance(part, (exp.NEQ, exp.Boolean)) or bool(part.args.get("negate"))
