"""Views that stand as they would be written: writing one again takes Spark an analysis of its
query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyspark
from dbt.adapters.sparksession.iceberg.catalog_file import metadata_at
from dbt.adapters.sparksession.reading.named_reads import named_in
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.warehouse import Warehouse

MARK = "dbt.written_as"  # property of a view: JSON of what it was written by, see ViewMark
# what a view's columns depend on beside its query and its inputs
SETTINGS, NOT_SETTINGS = "spark.sql.", "spark.sql.catalog."


class Views:
    """Sees whether a view has to be written."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._texts: dict[str, str] = {}  # relation -> the text that it is about to be written by

    def stands(self, model: Mapping[str, Any], relation: Any, sql: str) -> bool:
        """Whether a view is there, was written by this query and description, and each table and
        view that its query names has the columns that it had then.

        Args:
            relation: the view.
            sql: its query.
        """
        name, text = relation.render(), self._text(model, sql)
        self._texts[name] = text
        metadata = self._metadata_of(name, "VIEW")
        if metadata is None:
            return False
        try:
            written = json.loads(metadata.get("properties", {}).get(MARK) or "null")
        except ValueError:
            return False
        if not isinstance(written, dict) or written.get("text") != text:
            return False
        # somebody may have replaced its query, which keeps its properties
        if _spaceless(_query_of(metadata)) != _spaceless(sql):
            return False
        reads = written.get("reads")
        return isinstance(reads, dict) and all(
            columns is not None and self._columns_of(read) == columns
            for read, columns in reads.items()
        )

    def mark(self, relation: Any, sql: str) -> str | None:
        """What a view that is about to be written shall keep in the property MARK; None of a view
        that `stands` was not asked for, and where it can't be known what its query names."""
        text = self._texts.get(relation.render())
        session = self._warehouse.session()
        if text is None or self._warehouse.catalog_file is None or is_remote(session):
            return None
        names = named_in(session, sql)
        if names is None:
            return None
        reads = {}
        for parts in names:
            named = parts[1:] if parts[0] == self._warehouse.credentials.catalog else parts
            if len(named) == 1 and _is_cte(named[0], sql):
                continue
            name = ".".join(named)
            columns = self._columns_of(name) if len(named) == 2 else None
            if columns is None:
                return None
            reads[name] = columns
        return json.dumps({"text": text, "reads": reads}, sort_keys=True, separators=(",", ":"))

    def _text(self, model: Mapping[str, Any], sql: str) -> str:
        """A hash of all that a view is written by, but for what its query names."""
        settings = {
            key: value
            for key, value in self._warehouse.credentials.spark_settings().items()
            if key.startswith(SETTINGS) and not key.startswith(NOT_SETTINGS)
        }
        config = {key: model["config"].get(key) for key in ("persist_docs", "contract")}
        columns = model.get("columns") or {}
        described = {
            name: [column.get("description"), column.get("data_type")]
            for name, column in columns.items()
        }
        parts = [sql, model.get("description"), config, described, settings, pyspark.__version__]
        return mark_of(json.dumps(parts, sort_keys=True, default=str))

    def _metadata_of(self, name: str, kind: str) -> dict[str, Any] | None:
        """The content of a table's or view's metadata file; None where it can't be read here."""
        file = self._warehouse.catalog_file
        if file is None or is_remote(self._warehouse.session()):
            return None
        try:
            location = file.location_of(name, kind)
            return None if location is None else metadata_at(location)
        except (LookupError, OSError, ValueError):
            return None

    def _columns_of(self, name: str) -> str | None:
        """A hash of which table or view that is, and of its columns; None where neither is."""
        table = self._metadata_of(name, "TABLE")
        if table is not None:
            return _columns_mark(table, "table-uuid", table.get("current-schema-id"))
        view = self._metadata_of(name, "VIEW")
        if view is None:
            return None
        return _columns_mark(view, "view-uuid", _version_of(view).get("schema-id"))


def _columns_mark(metadata: Mapping[str, Any], uuid: str, schema_id: Any) -> str | None:
    for schema in metadata.get("schemas", []):
        if schema.get("schema-id") == schema_id:
            return mark_of(json.dumps([metadata.get(uuid), schema["fields"]], sort_keys=True))
    return None


def _version_of(view: Mapping[str, Any]) -> Mapping[str, Any]:
    """The current version in a view's metadata; {} without any."""
    current = view.get("current-version-id")
    return next((found for found in view["versions"] if found["version-id"] == current), {})


def _query_of(view: Mapping[str, Any]) -> str:
    """The query of a view's current version; empty where it has none of Spark's."""
    for text in _version_of(view).get("representations", []):
        if text.get("type") == "sql" and text.get("dialect") == "spark":
            return text["sql"]
    return ""


def _spaceless(sql: str) -> str:
    return "".join(sql.split())


def _is_cte(name: str, sql: str) -> bool:
    """Whether a query names a part of itself so.

    >>> _is_cte("b", "with a as (select 1), b as (select 2) select * from b")
    True
    """
    return re.search(rf"(?i)(?<![\w.`]){re.escape(name)}\s+as\s*\(", sql) is not None
