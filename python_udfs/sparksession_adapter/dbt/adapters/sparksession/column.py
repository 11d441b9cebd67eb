"""Columns, with what dbt asks of their types."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.base.column import Column
from dbt.adapters.spark import SparkColumn

INTEGERS = ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")


@dataclass
class SparkSessionColumn(SparkColumn):
    """A column of a Spark type: dbt's own class knows PostgreSQL's names alone."""

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

    def _head(self) -> str:
        """The type without its arguments: decimal(10,2) is a decimal."""
        return self.dtype.partition("(")[0].strip().lower()
