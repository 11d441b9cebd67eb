"""Deletes whose condition may be null of a row: such a row stays. A `replace where` has to name its
rows by a condition that is null of none.

Iceberg takes whole files off where their metrics, or their partition, show that a condition holds
of all rows. A condition that denies something (`<>`, `not`) counts there as true of a null, and a
null as lower than any text. A prefix ends in a Java stack where it meets a null, or where it is
asked of what is computed.
"""

from __future__ import annotations

import re

from dbt.adapters.sparksession.sql_texts import QUOTED, without_comments
from dbt_common.exceptions import DbtRuntimeError
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

DELETES = re.compile(r"\s*delete\s+from\b", re.IGNORECASE)
REPLACES = re.compile(r"\breplace\s+where\b", re.IGNORECASE)
CONNECTIVES = (exp.And, exp.Or, exp.Not, exp.Paren)
PREFIXES = (exp.Like, exp.ILike, exp.StartsWith)
COMPARED = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
PLAIN_TEXT = re.compile(r"[\w .:+-]*+", re.ASCII)  # the same in all writings of SQL
# how Iceberg ends where it can't look for a prefix: at a null, in what is computed
OF_PREFIX = ('Cannot invoke "String.startsWith(String)"', "java.lang.ClassCastException")
CONDITION = re.compile(QUOTED + r"|(?P<where>\bwhere\b)", re.IGNORECASE | re.DOTALL)


def null_safe_delete(sql: str) -> str:
    """A statement as it is, and a DELETE whose condition denies something, or asks for a prefix, as
    one that Spark decides row by row.

    >>> null_safe_delete("delete from dw.a where k <> 1")
    'delete from dw.a where (k <> 1) and coalesce((k <> 1), false)'
    >>> null_safe_delete("delete from dw.a where day < date '2026-03-01'")
    "delete from dw.a where day < date '2026-03-01'"
    >>> null_safe_delete("delete from dw.a where k < 'b'")
    "delete from dw.a where (k < 'b') and k is not null"
    """
    text = without_comments(sql) if "delete" in sql.lower() else ""
    if not DELETES.match(text):
        return sql
    places = (found for found in CONDITION.finditer(text) if found["where"])
    where, denied = next(places, None), _denied_parts(text)
    if where is None or not denied:
        return sql
    condition = text[where.end() :].strip()
    if all(_is_below(part) and _stands_alone(part) for part in denied):
        names = {
            column.sql("spark"): None for part in denied for column in part.find_all(exp.Column)
        }
        guards = "".join(f" and {name} is not null" for name in names)
        return f"{text[: where.end()].strip()} ({condition}){guards}"
    # by the condition itself files are left out; where it has a prefix, by its parts without one
    plain = [f"({condition})"]
    if any(map(_has_prefix, denied)):
        plain = _plain_parts(denied[0].root().args["where"])
    return f"{text[: where.end()].strip()} " + " and ".join(
        [*plain, f"coalesce(({condition}), false)"]
    )


def _denied_parts(delete: str) -> list[exp.Expr]:
    """Parts of the condition of a DELETE that may hold of a null. None where it asks another table:
    that Spark decides row by row as it is."""
    try:
        tree = parse_one(delete, dialect="spark")
    except (SqlglotError, RecursionError):
        return []
    where = tree.args.get("where") if isinstance(tree, exp.Delete) else None
    if where is None or where.find(exp.Query):
        return []
    return [
        part
        for part in where.walk()
        if _denies(part) or _is_below(part) or isinstance(part, PREFIXES)
    ]


def _has_prefix(part: exp.Expr) -> bool:
    return part.find(*PREFIXES) is not None


def _plain_parts(where: exp.Where) -> list[str]:
    """Parts of a condition, all of which have to hold, that compare a column with a value."""
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    return [part.sql("spark") for part in parts if _compares_value(part)]


def _compares_value(part: exp.Expr) -> bool:
    if not isinstance(part, COMPARED) or not isinstance(part.this, exp.Column):
        return False
    value = part.expression
    if isinstance(value, exp.Cast) and value.to.is_type("date"):
        value = value.this
    return isinstance(value, exp.Literal) and PLAIN_TEXT.fullmatch(value.this) is not None


def _denies(part: exp.Expr) -> bool:
    if isinstance(part, exp.Not):
        denied = part.this.unnest()
        return not (isinstance(denied, exp.Is) and isinstance(denied.expression, exp.Null))
    # Spark makes `not k` of `k = false`
    return isinstance(part, (exp.NEQ, exp.Boolean)) or bool(part.args.get("negate"))


def _is_below(part: exp.Expr) -> bool:
    """Whether a part of a condition takes what is lower than a text."""
    if isinstance(part, exp.Between):
        texts = [part.args.get("high")]
    elif isinstance(part, (exp.LT, exp.LTE)):
        texts = [part.expression]
    else:
        texts = [part.this] if isinstance(part, (exp.GT, exp.GTE)) else []
    return any(isinstance(text, exp.Literal) and text.is_string for text in texts)


def _stands_alone(part: exp.Expr) -> bool:
    """Whether all of a condition has to hold beside a part of it."""
    while not isinstance(part.parent, (exp.Where, type(None))):
        part = part.parent
        if not isinstance(part, (exp.And, exp.Paren)):
            return False
    return True


def check_replaced(sql: str) -> None:
    """Refuse an INSERT whose `replace where` may be null of rows: Spark lets Iceberg alone find the
    rows that go.

    Raises:
        DbtRuntimeError: its condition denies something of a column that may be null there, or takes
            what is lower than a text.
    """
    where = _replaced_rows(sql)
    if where is None:
        return
    for part in where.walk():
        if not (_denies(part) or _is_below(part)):
            continue
        # a boolean by itself is null of no row; else it is denied by what it is compared with
        if isinstance(part, exp.Boolean) and isinstance(part.parent, CONNECTIVES):
            continue
        denied = part.parent if isinstance(part, exp.Boolean) and part is not where else part
        asks = denied.this.unnest() if isinstance(denied, exp.Not) else denied
        is_true = isinstance(part, exp.Boolean) and part.this
        # `is` and `<=>` are null of no row
        if denied is None or is_true or isinstance(asks, (exp.Is, exp.NullSafeEQ)):
            continue
        if _has_prefix(denied):
            raise DbtRuntimeError(
                f"replace where {where.sql('spark')}: Iceberg can't look for rows without a prefix "
                "where a column is null; name the rows by ranges, (s < 'a' or s >= 'b') and s is "
                "not null for s not like 'a%'."
            )
        names = {column.sql("spark") for column in denied.find_all(exp.Column)}
        unknown = sorted(name for name in names if name.lower() not in _known(denied, where))
        if unknown:
            text, name = denied.sql("spark"), unknown[0]
            raise DbtRuntimeError(
                f"replace where {where.sql('spark')}: it is null of rows in which {name} is null, "
                f"and Iceberg would take such rows along; write ({text} and {name} is not null), "
                f"or, where they shall go, ({text} or {name} is null)."
            )


def _replaced_rows(sql: str) -> exp.Expr | None:
    """The condition of `replace where`; None of another statement."""
    text = without_comments(sql) if "replace" in sql.lower() else ""
    if not REPLACES.search(text):
        return None
    try:
        tree = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError):
        return None
    insert = tree.find(exp.Insert)
    where = insert.args.get("where") if insert is not None else None
    return where if isinstance(where, exp.Expr) else None


def problem_of_prefix(sql: str, error: str) -> str | None:
    """What is wrong with the prefix that a failed `replace where` asks for, by the error of Java's
    that it ended in; None where that isn't the reason."""
    if not any(reason in error for reason in OF_PREFIX):
        return None
    where = _replaced_rows(sql)
    if where is None or not _has_prefix(where):
        return None
    return (
        f"replace where {where.sql('spark')}: Iceberg can't look for a prefix where a column of "
        "the partitions is null, nor in what is computed; name the rows by ranges of columns, "
        "s >= 'a' and s < 'b' for s like 'a%'."
    )


def _known(part: exp.Expr, condition: exp.Expr) -> set[str]:
    """Columns of which a null decides a condition by itself, whatever a part of it comes to: those
    that it asks for beside the part by `is not null`, or by `or .. is null`; in lower case."""
    found: set[str] = set()
    while part is not condition and part.parent is not None:
        part = part.parent
        if isinstance(part, exp.Not):
            break
        if isinstance(part, (exp.And, exp.Or)):
            found |= {_asked(item, isinstance(part, exp.And)) for item in part.flatten()}
    return found


def _asked(part: exp.Expr, is_not_null: bool) -> str:
    """The column of `column is (not) null`, in lower case; "" of anything else."""
    asks = part.unnest()
    if is_not_null:
        asks = asks.this.unnest() if isinstance(asks, exp.Not) else part
    asks_null = isinstance(asks, exp.Is) and isinstance(asks.expression, exp.Null)
    return asks.this.sql("spark").lower() if asks_null else ""
