"""Values and names as Spark SQL, and Spark's errors for a table that isn't there."""

from __future__ import annotations

import hashlib
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)  # a name that needs no backticks
NO_SCHEMA = ("SCHEMA_NOT_FOUND", "NoSuchNamespaceException", "Namespace does not exist")
NO_TABLE = ("TABLE_OR_VIEW_NOT_FOUND", "NoSuchTableException", "VIEW_NOT_FOUND")


def literal(value: Any) -> str:
    """A Python value as a Spark SQL literal; text comes out exactly as it is.

    Raises:
        DbtRuntimeError: a text that is no Unicode. Sent to Java it would break the connection.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f"timestamp '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"date '{value.isoformat()}'"
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise DbtRuntimeError(
            f"{value!r} holds half of a character of two parts; write the whole character."
        ) from None
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def is_absent(exc: BaseException) -> bool:
    """Whether it is Spark's error for a table, a view or a schema that isn't there."""
    return any(word in str(exc) for word in NO_TABLE + NO_SCHEMA)


def mark_of(text: str) -> str:
    """A short hash that distinguishes texts.

    >>> mark_of("select 1")
    '822ae07d4783158b'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def quoted(name: str) -> str:
    """A column's name as SQL."""
    return f"`{name.replace('`', '``')}`"


def unquoted(name: str) -> str:
    """A column's name from SQL, where it may stand in backticks.

    >>> unquoted("id"), unquoted("`my ``id`")
    ('id', 'my `id')
    """
    is_quoted = len(name) > 2 and name.startswith("`") and name.endswith("`")
    return name[1:-1].replace("``", "`") if is_quoted else name


def column_sql(name: str) -> str:
    """A column's name as SQL: as it is, in backticks where it needs them.

    >>> column_sql("at"), column_sql("at it"), column_sql("`at it`")
    ('at', '`at it`', '`at it`')
    """
    return name if PLAIN.fullmatch(name) else quoted(unquoted(name))
