"""Keys of published rows: 32 bytes for a key's values, and what is to be done to each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.versions.targets import ROW_KEY, SIGN


def key_text(name: str, kind: str) -> str | None:
    """SQL of a key column's value as a text that no other value has, or None if its type has none.

    >>> key_text("id", "bigint")
    'cast(`id` as string)'
    """
    column = quoted(name)
    if kind == "timestamp":
        return f"cast(unix_micros({column}) as string)"
    if kind == "binary":
        return f"hex({column})"
    exact = ("string", "varchar", "char", "decimal", "date", "timestamp_ntz", "boolean")
    if kind.startswith(exact) or kind in ("tinyint", "smallint", "int", "bigint"):
        return f"cast({column} as string)"
    return None


def row_key_hash(key: Sequence[str], kinds: Mapping[str, str]) -> str:
    """SQL of 32 bytes that are the same for equal keys alone, null among them.

    A store's own unique key wouldn't do: to it no null equals another, and by a collation texts
    may be equal that differ.

    Raises:
        ValueError: columns that the rows lack, or whose type no key can have.
    """
    lacking = [column for column in key if column not in kinds]
    if lacking:
        raise ValueError(f"its rows have no column {', '.join(lacking)}")
    texts = {column: key_text(column, kinds[column]) for column in key}
    unfit = [f"{column} ({kinds[column]})" for column, text in texts.items() if text is None]
    if unfit:
        raise ValueError(f"these can't be columns of a key: {', '.join(unfit)}")
    # each with its length before it: no two keys give one text
    parts = ", ".join(
        f"coalesce(concat(length({text}), ':', {text}), '-')" for text in texts.values()
    )
    return f"unhex(sha2(concat({parts}), 256))"


def keyed_changes(changes: str, columns: Sequence[str], key: str) -> str:
    """Query of what has to be done to each key, of retract rows: row_key, the columns, sign.

    A key that has a row now gets it, whatever was taken back of it.

    Args:
        changes: SQL text for a `from`: the columns and sign.
        key: columns, as row_key_hash takes them.
    """
    names = ", ".join(map(quoted, columns))
    return f"""select {ROW_KEY}, {names}, {SIGN}
from (
    select *, max({SIGN}) over (partition by {ROW_KEY}) as last_sign
    from (select {key} as {ROW_KEY}, {names}, {SIGN} from {changes})
)
where {SIGN} = last_sign"""
