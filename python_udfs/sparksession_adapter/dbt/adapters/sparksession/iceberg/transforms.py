"""Partition transforms of a key's columns, as a model's config writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dbt.adapters.sparksession.sql import quoted, unquoted

_HASHED = ("int", "bigint", "decimal", "string", "date", "timestamp", "timestamp_ntz", "binary")
_TIMES = ("timestamp", "timestamp_ntz")
# transform -> types that it takes. No float: 0.0 and -0.0 are one key, but not one partition
TYPES = {
    "bucket": _HASHED,
    "truncate": ("int", "bigint", "decimal", "string", "binary"),
    "years": ("date", *_TIMES),
    "months": ("date", *_TIMES),
    "days": ("date", *_TIMES),
    "hours": _TIMES,
    "": (*_HASHED, "tinyint", "smallint", "boolean"),
}
NUMBERED = ("bucket", "truncate")
EXAMPLES = "bucket(8, id), truncate(1000, id), days(time), id"
ODD = re.compile(r"[^\w.]", re.ASCII)  # in a name that Spark takes in backticks alone
_TEXT = re.compile(r"(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?([^(),]+?)\s*\)|([^(),]+))", re.ASCII)


@dataclass(frozen=True)
class Transform:
    """What of a column makes the partition.

    Attributes:
        function: one of TYPES; "": the column as it is.
        number: how many buckets, or the width of what is cut off; None of the others.
    """

    function: str
    column: str
    number: int | None = None

    @classmethod
    def read(cls, text: Any) -> Transform:
        """A transform from its text.

        Raises:
            ValueError: it is none.
        """
        found = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is not None:
            function, number, column, plain = found.groups()
            named = unquoted((plain or column).strip())
            transform = cls(function or "", named, int(number) if number else None)
            # a width or a count of 0 is refused like a missing number
            if transform.function in TYPES and bool(transform.number) == (
                transform.function in NUMBERED
            ):
                return transform
        raise ValueError(f"must be transforms such as {EXAMPLES}, got {text!r}")

    @classmethod
    def read_all(cls, partition_by: str | list[str]) -> list[Transform]:
        """The transforms of a model's `partition_by`, see `read`."""
        given = [partition_by] if isinstance(partition_by, str) else partition_by
        return [cls.read(text) for text in given]

    def takes(self, kind: str) -> bool:
        """Whether it is for columns of a Spark type."""
        return kind.split("(")[0] in TYPES[self.function]

    def __str__(self) -> str:
        return self._text(self.function, self.column)

    @property
    def partition(self) -> str:
        """The text for a table's `partitioned by`."""
        return self._text(self.function, quoted(self.column))

    @property
    def value(self) -> str:
        """SQL expression of a row's partition."""
        return self._text(self.function and f"system.{self.function}", quoted(self.column))

    def _text(self, function: str, column: str) -> str:
        number = f"{self.number}, " if self.number else ""
        return f"{function}({number}{column})" if function else column


def partition_text(text: Any) -> str:
    """An entry of a model's `partition_by` as it stands in `partitioned by`: as it is, with
    backticks where the name of its column needs them.

    >>> partition_text("a-b"), partition_text("bucket(8, my id)"), partition_text("s.field")
    ('`a-b`', 'bucket(8, `my id`)', 's.field')
    """
    try:
        transform = Transform.read(text)
    except ValueError:
        return str(text)
    return transform.partition if ODD.search(transform.column) else str(text)


def partition_column(name: str) -> str:
    """A partition column, or a struct's field, as SQL: in backticks where it needs them.

    >>> partition_column("day"), partition_column("a-b"), partition_column("`a-b`")
    ('day', '`a-b`', '`a-b`')
    """
    return quoted(unquoted(name)) if ODD.search(name) else name
