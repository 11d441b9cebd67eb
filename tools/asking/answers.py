"""The rows of one statement, each value as the text that Spark makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.asking.screen import Row


@dataclass(frozen=True)
class Answer:
    """What a statement gives.

    Attributes:
        names: of the columns.
        types: Spark's name of each column's type.
        frame: a pyspark frame of texts, one column for each of the names.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    frame: Any

    def first(self, count: int) -> list[Row]:
        """The first rows."""
        return [tuple(row) for row in self.frame.limit(count).collect()]

    def all(self) -> Iterator[Row]:
        """All rows, a partition at a time in memory."""
        return (tuple(row) for row in self.frame.toLocalIterator())


def ask(session: Any, statement: str) -> Answer:
    """Run a statement.

    Raises:
        PySparkException: Spark refuses it.
    """
    from pyspark.sql import functions as F

    frame = session.sql(statement)
    fields = frame.schema.fields
    numbered = frame.toDF(*(f"c{number}" for number in range(len(fields))))
    texts = [
        F.hex(f"c{number}").alias(f"c{number}")
        if field.dataType.typeName() == "binary"
        else F.col(f"c{number}").cast("string").alias(f"c{number}")
        for number, field in enumerate(fields)
    ]
    return Answer(
        names=tuple(field.name for field in fields),
        types=tuple(field.dataType.simpleString() for field in fields),
        frame=numbered.select(*texts),
    )
