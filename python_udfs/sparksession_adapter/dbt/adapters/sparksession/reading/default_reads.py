"""What a bare `ref` or `source` of a model reads: the run's pinned snapshot, like `pinned(..)`.

A table is written into the model's SQL as its pinned snapshot. A view has no snapshot: the SQL
names it with a mark behind it, see view_marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.sparksession.reading.definitions import used_macros
from dbt.adapters.sparksession.reading.view_marks import Readings, compiled_readings

# resource types whose SQL makes rows that are stored
STORED = ("model", "snapshot")
LIVE_KINDS = ("view", "materialized_view")
# macros that read what came since the model's last commit
READS_OF_NEWS = {"new_rows", "new_changes", "changed_partitions", "closed_periods"}


def as_named(relation: Any, read: Any, into: Readings) -> Any:
    """The relation `read`, which stands for `relation`, with a mark where it is a query."""
    if read.reading is None or not read.reading.startswith("("):
        return read
    return relation.replace(reading=into.marked(relation.render(), read.reading))


def unrecorded_reads(node: Any, macros: Mapping[str, Any]) -> str | None:
    """Error text for an ephemeral model that asks for what is new, else None.

    Such a model has no commits that could record what it has read: each run would read all rows.

    Args:
        node: a model of the manifest.
        macros: id -> macro of the manifest.
    """
    if node.config.get("materialized") != "ephemeral":
        return None
    used = used_macros(node.depends_on.macros, macros)
    asked = sorted({one.name for one in used} & READS_OF_NEWS)
    if not asked:
        return None
    return (
        f"{node.name} ({node.original_file_path}) is ephemeral, so no commit records what it has "
        f"read and {asked[0]} would read all rows in each run. Call {asked[0]} in the model that "
        "is stored, or store this one."
    )


class DefaultReads(metaclass=AdapterMeta):
    """The part of the adapter that bare references go through."""

    @available
    def read_by_default(self, model: Mapping[str, Any], relation: Any, context: dict) -> Any:
        """`relation` as the model reads it where its SQL asks for nothing else.

        Args:
            model: the context's.
            relation: what dbt's own ref(..) or source(..) gives.

        Returns:
            The relation, whose text is a read of its pinned snapshot, noted among the model's
            inputs once the text is wanted; the relation itself where nothing is stored of what is
            read (a view, a test, an operation), in a unit test, in a hook, and where a version is
            read.
        """
        if (
            self.config.credentials.offline
            or getattr(relation, "is_cte", False)
            or getattr(relation, "as_of", None) is not None
            or getattr(relation, "reading", None) is not None
            or model.get("resource_type") not in STORED
            or model.get("language") == "python"  # it reads them by dbt.ref(..)
            or model["config"].get("materialized") in LIVE_KINDS
            or context.get("sql") is not None  # a hook: the model is compiled by now
        ):
            return relation

        def text() -> str:
            read = self._read(model, relation, "all", context, explicit=False)
            return as_named(relation, read, compiled_readings).render()

        return relation.replace(read_by_default=text)
