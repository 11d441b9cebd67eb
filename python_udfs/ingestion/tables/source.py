"""One source table, as its typed ODS model declares it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from python_udfs.ingestion.tables.log_resets import LogReset
    from python_udfs.ingestion.tables.types import SourceType


@dataclass(frozen=True)
class TableSource:
    """One source table, as its model's `meta.source` declares it.

    Attributes:
        database, table: as the log names them.
        columns: name -> type of the columns to take, in the typed row's order.
        primary_key: names of the key's columns; () for a table without key, whose rows are
            identified by their position only.
        cut_column: column whose date is the cut_date of inserts and updates; without it the binlog
            time dates them.
        columns_of_interest: columns that downstream counts by.
        required_columns: others that a row image must have.
        aliases: name -> names that the column had or will have in the log.
        schema_version: number of the declaration; stands in every row.
        topics: names of the topics, shell patterns among them, that the table's changes come by;
            () for any.
        format: key of envelope.FORMATS.
        options: what the format's module lets one say of the producer's settings, see its OPTIONS.
        log_resets: where the server's binlog restarted, oldest first.
        unnamed: columns of which is known that no message of a run names them, in whatever case:
            no row is searched for them.
        written: hash of a message's own schema -> its columns that it gives another scale or unit
            than they are declared with -> which, see debezium.values.column_value.
    """

    database: str
    table: str
    columns: dict[str, SourceType]
    primary_key: tuple[str, ...]
    cut_column: str | None
    columns_of_interest: tuple[str, ...]
    required_columns: tuple[str, ...]
    aliases: dict[str, tuple[str, ...]]
    schema_version: int
    topics: tuple[str, ...]
    format: str
    options: dict[str, str]
    log_resets: tuple[LogReset, ...] = ()
    unnamed: frozenset[str] = frozenset()
    written: dict[str, dict[str, str]] = field(default_factory=dict)

    def names(self, column: str) -> tuple[str, ...]:
        """The names that a column may have in the log, its own first."""
        return (column, *self.aliases.get(column, ()))

    def names_in_log(self) -> dict[str, SourceType]:
        """Each name that a column may have in the log, and the column's type."""
        return {
            source_name: kind
            for name, kind in self.columns.items()
            for source_name in self.names(name)
        }

    @property
    def watched(self) -> tuple[str, ...]:
        """Columns that a row image must hold: without one of them a count could go wrong."""
        names = [*self.primary_key, *self.columns_of_interest, *self.required_columns]
        if self.cut_column:
            names.append(self.cut_column)
        return tuple(dict.fromkeys(names))
