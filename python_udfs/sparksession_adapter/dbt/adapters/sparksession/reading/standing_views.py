"""Views that stand as they are: to make one again takes Spark two looks at its query, and changes
nothing where neither the query nor what it reads has other columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from dbt.adapters.sparksession.edges import Node
from dbt.adapters.sparksession.iceberg.views import columns_of_table, stored_view
from dbt.adapters.sparksession.reading.definitions import ENGINE
from dbt.adapters.sparksession.reading.relations_named import moving_reads, relations_named
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql import is_absent, mark_of
from dbt.adapters.sparksession.sql_texts import COMMENT
from dbt.adapters.sparksession.warehouse import Relation, Warehouse
from dbt_common.exceptions import CompilationError, DbtRuntimeError

# Spark looks for it before Iceberg has put a view's query in the view's place
NAMED_WINDOW = re.compile(r"\bwindow\s++(?:`[^`]*+`|\w++)\s++as\b", re.IGNORECASE)
CTE = re.compile(r"(?<!\w)(\w++)`?\s++as\s*+\(", re.IGNORECASE)
PROPERTY = "dbt.view_mark"  # of a view: what it was made of
# settings of the profile by which Spark takes a query
OF_SQL = ("spark.sql.ansi", "spark.sql.legacy", "spark.sql.session", "spark.sql.timestamp")
# Iceberg's metadata tables; their columns go by those of the table and its partitions
OF_METADATA = ("snapshots", "refs", "files", "partitions", "history", "manifests", "entries")


def _kept_name(found: re.Match[str]) -> str:
    """A name in backticks as it is, a blank for texts and comments."""
    return found[0] if found[0].startswith("`") else " "


class StandingViews:
    """Finds views that needn't be made again."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def mark(self, model: Node, sql: str) -> str:
        """A short hash of what a view is made of: its query, what is declared of it, the columns of
        all that the query reads. "" where that can't be known, so that the view is made each time.

        Args:
            sql: its query.

        Raises:
            CompilationError: nobody could read it.
        """
        if NAMED_WINDOW.search(COMMENT.sub(_kept_name, sql)):
            raise CompilationError(
                f"{model['name']} ({model['original_file_path']}) is a view with a named window "
                "(`window w as (..)`), which Spark doesn't find in a view of Iceberg's, so that "
                "nobody could read it; write each window into its `over (..)`, or store the model "
                "as a table."
            )
        session, config = self._warehouse.session(), model["config"]
        if is_remote(session) or config.get("sql_header") or moving_reads(session, sql):
            return ""
        read, ctes = {}, {name.lower() for name in CTE.findall(sql)}
        for name in sorted(relations_named(session, sql)):
            columns = self._columns(name, ctes)
            if columns is None:
                return ""
            read[".".join(name)] = columns
        declared = {
            name: [column.get(key) for key in ("name", "data_type", "description", "quote")]
            for name, column in model["columns"].items()
        }
        settings = [config.get(key) for key in ("contract", "persist_docs")]
        given = self._warehouse.credentials.server_side_parameters
        of_spark = {key: value for key, value in given.items() if key.startswith(OF_SQL)}
        made_of = [ENGINE, str(session.version), sql, read, model.get("description"), declared]
        return mark_of(json.dumps([*made_of, settings, of_spark], default=str, sort_keys=True))

    def stands(self, relation: Relation, model: Node, sql: str) -> bool:
        """Whether a view is there that is made of what it would be made of now."""
        found = stored_view(
            self._warehouse.session(),
            self._warehouse.credentials.catalog,
            relation.schema,
            relation.identifier,
        )
        # somebody may have given it another query by hand
        if found is None or found.sql.strip() != sql.strip():
            return False
        made_of = found.properties.get(PROPERTY)
        return bool(made_of) and made_of == self.mark(model, sql)

    def _columns(self, name: tuple[str, ...], ctes: Collection[str]) -> str | None:
        """The columns of what a query names, "" of a CTE; None where they can't be known."""
        session, catalog = self._warehouse.session(), self._warehouse.credentials.catalog
        if len(name) == 1:
            return "" if name[0].lower() in ctes else None
        if name[0] == catalog and len(name) > 2:
            name = name[1:]
        of_metadata = len(name) == 3 and name[2].lower() in OF_METADATA
        if len(name) > 2 and not of_metadata:
            return None
        try:
            table = self._warehouse.loaded(f"{name[0]}.{name[1]}")
        except DbtRuntimeError as exc:
            view = stored_view(session, catalog, name[0], name[1])
            if view is None or of_metadata or not is_absent(exc):
                return None
            return view.columns
        return columns_of_table(session, table, with_layout=of_metadata)
