"""Columns, with what dbt asks of their types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dbt.adapters.base.column import Column
from dbt.adapters.spark import SparkColumn
from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.iceberg.history import is_widened
from dbt.adapters.sparksession.sql import quoted

NESTED = ("struct", "array", "map")
INTEGERS = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")
# what Spark would round to floats, or cut the time or the zone from, without a word. Of whole
# numbers and decimals it refuses those that are too large
ALTERED: dict[str, tuple[str, ...]] = {
    "float": ("double", "decimal", "int", "integer", "bigint", "long"),
    "double": ("decimal", "bigint", "long"),
    "date": ("timestamp", "timestamp_ntz"),
    "timestamp": ("timestamp_ntz",),
    "timestamp_ntz": ("timestamp",),
}


@dataclass
class SparkSessionColumn(SparkColumn):
    """A column of a Spark type: dbt's own class knows PostgreSQL's names alone."""

    @classmethod
    def described(cls, relation: Foreign, rows: Iterable[Sequence[Foreign]]) -> list[SparkColumn]:
        """Columns of a relation.

        Args:
            rows: of Spark's `describe table`: name and type; what else it has to report stands
                behind an empty name or a heading.
        """
        columns: list[SparkColumn] = []
        for index, row in enumerate(rows):
            if not row[0] or row[0].startswith("#"):
                break
            columns.append(
                cls(
                    table_schema=relation.schema,
                    table_name=relation.identifier,
                    table_type=relation.type,
                    column=row[0],
                    column_index=index,
                    dtype=row[1],
                )
            )
        return columns

    @property
    def quoted(self) -> str:
        return quoted(self.column)

    def is_string(self) -> bool:
        return self._head() in ("string", "varchar", "char")

    def is_integer(self) -> bool:
        return self._head() in INTEGERS

    def is_float(self) -> bool:
        return self._head() in ("float", "double")

    def is_numeric(self) -> bool:
        return self._head() == "decimal"

    def can_expand_to(self, other_column: Column) -> bool:
        """Never: a text of Spark has no length."""
        return False

    def alters(self, given: SparkSessionColumn) -> bool:
        """Whether the column would hold other values than those of a type that are written into it:
        rounded, cut, or in other fields, since Spark writes a struct's fields by their places."""
        own, other = self._head(), given._head()
        if own in INTEGERS or own == "decimal":
            return given.is_float() or given._scale() > self._scale()
        if own == other and own in NESTED:
            mine, others = self._parts(), given._parts()
            if [name.lower() for name, _ in mine] != [name.lower() for name, _ in others]:
                return True
            pairs = zip(mine, others, strict=True)
            return any(part.alters(other_part) for (_, part), (_, other_part) in pairs)
        return other in ALTERED.get(own, ())

    def widens_to(self, given: SparkSessionColumn) -> bool:
        """Whether Iceberg can make a table's column one of another type, its values as they are."""
        return is_widened(self.dtype, given.dtype)

    def _parts(self) -> list[tuple[str, SparkSessionColumn]]:
        """The fields of a struct with their names; what an array or a map holds, without names."""
        within = self.dtype.strip().partition("<")[2].removesuffix(">")
        found = []
        for text in (part.strip() for part in _listed(within)):
            name, kind = ("", text) if self._head() != "struct" else _field_of(text)
            found.append((name, type(self)(column=name, dtype=kind)))
        return found

    def _scale(self) -> int:
        """How many digits a decimal has behind the point; 0 of any other type."""
        if not self.is_numeric():
            return 0
        return int(self.dtype.rstrip(") ").partition(",")[2] or 0)

    def _head(self) -> str:
        """The type without its arguments: decimal(10,2) is a decimal."""
        return re.split("[(<]", self.dtype, maxsplit=1)[0].strip().lower()


def _field_of(text: str) -> tuple[str, str]:
    """Name and type of a field of a struct, whose name may be quoted.

    >>> _field_of("a:int"), _field_of("`a:b`: array<int>")
    (('a', 'int'), ('a:b', 'array<int>'))
    """
    if text.startswith("`"):
        name, _, kind = text[1:].partition("`:")
    else:
        name, _, kind = text.partition(":")
    return name, kind.strip()


def _listed(text: str) -> list[str]:
    """Parts of a list of types, which may hold lists.

    >>> _listed("a:decimal(10,2),b:map<int,string>")
    ['a:decimal(10,2)', 'b:map<int,string>']
    """
    parts, depth, is_quoted = [""], 0, False
    for letter in text:
        is_quoted ^= letter == "`"
        if not is_quoted:
            depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0 and not is_quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
