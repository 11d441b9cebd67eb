"""What `dbt docs` shows of tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.contracts.metadata import (
    CatalogTable,
    ColumnMetadata,
    StatsItem,
    TableMetadata,
)


class Catalog:
    """Rows of dbt's catalog."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def rows(self, relations: Iterable[Any]) -> list[dict[str, Any]]:
        """Rows of dbt's catalog for all columns of relations, each with the same keys: tables and
        views have other figures."""
        rows = [row for relation in relations for row in self.columns(relation)]
        keys = dict.fromkeys(key for row in rows for key in row)
        return [{key: row.get(key) for key in keys} for row in rows]

    def columns(self, relation: Any) -> Iterator[dict[str, Any]]:
        """Rows of dbt's catalog, one for each column of a relation."""
        stats, comments = self._stats(relation), self._warehouse.comments(relation)
        for column in self._warehouse.get_columns_in_relation(relation):
            yield {
                "table_database": None,
                "table_schema": relation.schema,
                "table_name": relation.identifier,
                "table_type": str(relation.type),
                "table_comment": comments.relation,
                "table_owner": None,
                "column_name": column.column,
                "column_index": column.column_index + 1,
                "column_type": column.dtype,
                "column_comment": comments.columns.get(column.column),
            } | stats

    def table(self, relation: Any) -> CatalogTable | None:
        """A relation as dbt's catalog has it; None where it has no columns, as it isn't there."""
        rows = list(self.columns(relation))
        if not rows:
            return None
        head = rows[0]
        return CatalogTable(
            metadata=TableMetadata(
                type=head["table_type"],
                schema=head["table_schema"],
                name=head["table_name"],
                comment=head["table_comment"],
            ),
            columns={
                row["column_name"]: ColumnMetadata(
                    type=row["column_type"],
                    index=row["column_index"],
                    name=row["column_name"],
                    comment=row["column_comment"],
                )
                for row in rows
            },
            stats={
                key: StatsItem(id=key, label=label, value=value, include=True)
                for key, (label, value) in self._figures(relation).items()
            },
        )

    def _figures(self, relation: Any) -> dict[str, tuple[str, Any]]:
        """Name -> label and value: of a table from its snapshot's counters, of a view its
        columns."""
        if relation.type == "view":
            return {"columns": ("Columns", len(self._warehouse.get_columns_in_relation(relation)))}
        history = self._warehouse.history(relation.name_only.render())
        head = history.newest
        figures: dict[str, tuple[str, Any]] = {"snapshots": ("Snapshots", len(history.snapshots))}
        if head is not None:
            figures |= {
                "rows": ("Rows", head.count("total-records")),
                "bytes": ("Bytes", head.count("total-files-size")),
                "files": ("Data files", head.count("total-data-files")),
            }
        return figures

    def _stats(self, relation: Any) -> dict[str, Any]:
        """dbt docs' figures, as columns of its catalog."""
        entries: dict[str, Any] = {}
        for key, (label, value) in self._figures(relation).items():
            entries |= {
                f"stats:{key}:label": label,
                f"stats:{key}:value": value,
                f"stats:{key}:description": "",
                f"stats:{key}:include": True,
            }
        return entries
