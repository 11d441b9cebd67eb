"""Column lineage of a dbt project, from its compiled manifest.

| table | where its columns come from |
|---|---|
| model in SQL | its compiled query, see queries.py |
| typed model | `meta.source`: a column of the source table, the log itself |
| model of the log | the log itself |
| model that asks the source to count | `meta.source_count` |
| zipper | its query; `valid_from`, `valid_to`, `is_current` from the column `zipper.time` |
| beliefs | the same; `known_from`, `known_to`, `is_believed` from the run |
| keyed table | its query; with `derived`, the query of that over the folded rows |
| snapshot | its query; dbt's own columns from the column `updated_at`, else from the run |
| seed, and tables that runs write | they are sources |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dbt.adapters.sparksession.keyed.groups import FOLDED_ROWS
from dbt.adapters.sparksession.keyed.zippers import KNOWN_TIME, PERIODS, VALID_TIME

from tools.lineage.queries import (
    CONSTANT,
    COUNT,
    RUN,
    UNKNOWN,
    Leaf,
    Origin,
    QueryError,
    columns_of,
)

LOG, COMMITS, CHANGES = "log", "commits", "changes"
# by rank: of several the first names a column that no source column is in
REASONS = {
    LOG: "the log itself defines it: a place, a time, a kind of change, the text as it came",
    CHANGES: "what a keyed table's rows changed from and to, as its reader finds it",
    COMMITS: "the summaries of the tables' commits",
    RUN: "the run itself: its number, its id, its clock",
    COUNT: "a count or a number of rows, which reads no column",
    CONSTANT: "a constant of the query",
}
OF_CHANGES = ("row_kind", "sign")  # what new_rows adds to the rows of a keyed table
METADATA_TABLES = ("snapshots", "history", "refs", "files", "entries", "partitions", "manifests")
VERSION_COLUMNS = (
    "dbt_valid_from",
    "dbt_valid_to",
    "dbt_updated_at",
    "dbt_scd_id",
    "dbt_is_deleted",
)
# columns of a typed row that are made of the source row as a whole
WHOLE_ROW = ("before", "raw_values", "metadata_changes")


CONSTANT_ALONE = Origin(reasons=frozenset({CONSTANT}))


@dataclass(frozen=True, order=True)
class Input:
    """A column of another table of the project, or of a source.

    Attributes:
        table: the table's name in the lineage, e.g. `dwd_trade__order_latest`.
        column: the column's name.
        field: the field of the column, where one field of a struct is read.
    """

    table: str
    column: str
    field: str | None = None


@dataclass(frozen=True)
class TracedColumn:
    """A column and what it is made from directly.

    Attributes:
        inputs: columns of the tables that the model reads, in order.
        reasons: keys of REASONS; UNKNOWN where a part of it couldn't be followed.
        is_documented: whether the project's YAML describes it.
    """

    name: str
    inputs: tuple[Input, ...] = ()
    reasons: frozenset[str] = frozenset()
    is_documented: bool = False


@dataclass(frozen=True)
class TracedTable:
    """A model, seed, snapshot or source with its columns.

    Attributes:
        name: name within the lineage.
        kind: model, seed, snapshot, source (a table that runs write) or log (a source table whose
            changes are in the log).
        layer: the model's folder (ods, dwd, dws, meta, dqc); the kind where there is none.
        unique_id: dbt's id; "" for tables of the log.
        relation: name in the warehouse; "" for tables of the log.
        columns: name -> column, in order.
        is_keyed: whether it keeps a row per key, so that its readers see changes.
        problem: why the columns couldn't be followed, else "".
    """

    name: str
    kind: str
    layer: str
    unique_id: str = ""
    relation: str = ""
    columns: dict[str, TracedColumn] = field(default_factory=dict)
    is_keyed: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Roots:
    """What a column comes from in the end.

    Attributes:
        columns: (table, column) of seeds, of source tables, of tables that runs write.
        reasons: keys of REASONS, or UNKNOWN.
    """

    columns: frozenset[tuple[str, str]] = frozenset()
    reasons: frozenset[str] = frozenset()

    @property
    def verdict(self) -> str:
        """`resolved`, the reason where no source column is in it, or `unknown`."""
        if UNKNOWN in self.reasons or not (self.columns or self.reasons):
            return UNKNOWN
        if self.columns:
            return "resolved"
        return next(reason for reason in REASONS if reason in self.reasons)


class Lineage:
    """Column lineage of all tables of a project.

    Args:
        manifest: dbt's manifest of a project whose models were compiled.
    """

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.manifest = manifest
        self.tables: dict[str, TracedTable] = {}
        self._relations: dict[tuple[str, str], str] = {}  # (schema, identifier) -> name
        self._roots: dict[Input, Roots] = {}
        for node in manifest["sources"].values():
            self._add_source(node)
        for node in self._ordered():
            self._add(node)

    @classmethod
    def read(cls, target: Path) -> Lineage:
        """The lineage of the project that dbt compiled into a target folder.

        Raises:
            FileNotFoundError: there is no manifest.
        """
        return cls(json.loads((target / "manifest.json").read_text(encoding="utf-8")))

    # ---- questions -----------------------------------------------------------------------

    def roots(self, table: str, column: str, struct_field: str | None = None) -> Roots:
        """What a column comes from in the end, through all tables between."""
        key = Input(table, column, struct_field)
        if key not in self._roots:
            self._roots[key] = Roots()  # a table that reads itself adds nothing by that
            self._roots[key] = self._find_roots(key)
        return self._roots[key]

    @cached_property
    def figures(self) -> dict[str, int]:
        """Documented columns of models by verdict; `columns` is how many there are."""
        counted = dict.fromkeys(("columns", "resolved", *REASONS, UNKNOWN), 0)
        for table in self.tables.values():
            for column in table.columns.values():
                if table.kind == "model" and column.is_documented:
                    counted["columns"] += 1
                    counted[self.roots(table.name, column.name).verdict] += 1
        return counted

    def unknown(self) -> dict[str, str]:
        """model.column -> why it couldn't be followed, of the documented columns."""
        return {
            f"{table.name}.{column.name}": table.problem or "an input couldn't be found"
            for table in self.tables.values()
            for column in table.columns.values()
            if column.is_documented and self.roots(table.name, column.name).verdict == UNKNOWN
        }

    def _find_roots(self, key: Input) -> Roots:
        table = self.tables.get(key.table)
        column = table.columns.get(key.column) if table else None
        if table and table.is_keyed and key.column in OF_CHANGES:
            return Roots(reasons=frozenset({CHANGES}))
        if table is None or column is None:
            return Roots(reasons=frozenset({UNKNOWN}))
        if table.kind in ("seed", "source", "log"):
            return Roots(columns=frozenset({(key.table, key.column)}))
        columns: set[tuple[str, str]] = set()
        reasons = set(column.reasons)
        for source_column in column.inputs:
            passed = source_column.field
            if key.field and _is_whole_row(table, column):
                if source_column.column != key.field:
                    continue
            elif key.field and len(column.inputs) == 1 and not passed:
                passed = key.field
            found = self.roots(source_column.table, source_column.column, passed)
            columns |= found.columns
            reasons |= found.reasons
        return Roots(frozenset(columns), frozenset(reasons))

    # ---- tables --------------------------------------------------------------------------

    def _ordered(self) -> list[dict[str, Any]]:
        """Models, seeds and snapshots, each behind what it reads."""
        kinds = ("model", "seed", "snapshot")
        nodes = {
            key: node
            for key, node in self.manifest["nodes"].items()
            if node["resource_type"] in kinds
        }
        ordered: dict[str, dict[str, Any]] = {}

        def add(key: str) -> None:
            if key in nodes and key not in ordered:
                for parent in nodes[key].get("depends_on", {}).get("nodes", ()):
                    add(parent)
                ordered[key] = nodes[key]

        for key in sorted(nodes):
            add(key)
        return list(ordered.values())

    def _add_source(self, node: Mapping[str, Any]) -> None:
        place = node["schema"].lower(), node["identifier"].lower()
        if not node["columns"]:  # another name for a table of the project
            return
        self._keep(node, node["identifier"], "source", "source", place, _plain(node["columns"]))

    def _add(self, node: Mapping[str, Any]) -> None:
        place = node["schema"].lower(), (node.get("alias") or node["name"]).lower()
        kind, name = node["resource_type"], node["name"]
        folders = node["fqn"][1:-1]
        layer = folders[0] if kind == "model" and folders else kind
        problem = ""
        try:
            columns = self._columns(node)
        except QueryError as exc:
            columns, problem = {}, str(exc)
        documented = {column.lower(): column for column in node["columns"]}
        for lower, written in documented.items():
            columns.setdefault(lower, Origin(reasons=frozenset({UNKNOWN})))
            columns[written] = columns.pop(lower)
        found = {
            each: TracedColumn(
                each,
                tuple(sorted(self._inputs(origin), key=_order)),
                origin.reasons | self._reasons(origin),
                each.lower() in documented,
            )
            for each, origin in columns.items()
        }
        self._keep(node, name, kind, layer, place, found, problem=problem)

    def _keep(
        self,
        node: Mapping[str, Any],
        name: str,
        kind: str,
        layer: str,
        place: tuple[str, str],
        columns: dict[str, TracedColumn],
        *,
        problem: str = "",
    ) -> None:
        self._relations[place] = name
        is_keyed = node.get("config", {}).get("materialized") == "folded"
        self.tables[name] = TracedTable(
            name, kind, layer, node["unique_id"], ".".join(place), columns, is_keyed, problem
        )

    def _columns(self, node: Mapping[str, Any]) -> dict[str, Origin]:
        """Column in lower case -> origin, of a model, seed or snapshot.

        Raises:
            QueryError: its query can't be followed, or nothing describes its columns.
        """
        meta = node["config"].get("meta") or {}
        if node["resource_type"] == "seed":
            return dict.fromkeys((name.lower() for name in node["columns"]), Origin())
        if "source" in meta:
            return self._typed(node, meta["source"])
        if "source_count" in meta:
            return self._counted(meta["source_count"])
        if "landing" in meta:
            return {name.lower(): _of_log(name) for name in node["columns"]}
        if node["language"] != "sql":
            raise QueryError("A Python model of its own, whose code isn't followed.")
        if not node.get("compiled_code"):
            raise QueryError("The model wasn't compiled.")
        columns = columns_of(node["compiled_code"], self._schema())
        columns = {name.lower(): origin for name, origin in columns.items()}
        if node["resource_type"] == "snapshot":
            return columns | _of_versions(node["config"], columns)
        return self._of_config(node, columns)

    def _of_config(self, node: Mapping[str, Any], columns: dict[str, Origin]) -> dict[str, Origin]:
        """The columns that readers see, where a keyed table's config makes others of the query's.

        Raises:
            QueryError: the SQL of `derived` can't be followed.
        """
        config = node["config"]
        if config.get("zipper"):
            zipper = config["zipper"]
            time = zipper.get("time") or next(iter(_listed(zipper.get("sequence"))), "")
            origin = columns.get(time.lower(), Origin(reasons=frozenset({UNKNOWN})))
            unseen = [zipper.get("row_kind"), zipper.get("known_columns")]
            unseen += [] if zipper.get("keep_time") else [time]
            hidden = {name.lower() for name in unseen if name}
            columns = {name: column for name, column in columns.items() if name not in hidden}
            period = zipper.get("period", VALID_TIME)
            if period == KNOWN_TIME:
                origin = Origin(reasons=frozenset({RUN}))
            return columns | dict.fromkeys(PERIODS[period], origin)
        if config.get("incremental_strategy") == "replace_windows" and "window_start" in columns:
            columns = {"window_date": columns["window_start"]} | columns
        fold = config.get("fold") or {}
        if (
            fold.get("sequence") in ("commit_number", ["commit_number"])
            and "commit_number" in columns
        ):
            columns = columns | {"commit_number": Origin(reasons=frozenset({RUN}))}
        hidden = {name.lower() for name in _listed(fold.get("hidden_columns"))}
        hidden.add((fold.get("row_kind") or "").lower())
        columns = {name: column for name, column in columns.items() if name not in hidden}
        for name, aggregate in (fold.get("aggregates") or {}).items():
            function = aggregate if isinstance(aggregate, str) else aggregate.get("function")
            if function in ("sum", "count") and columns.get(name.lower()) == CONSTANT_ALONE:
                columns[name.lower()] = Origin(reasons=frozenset({COUNT}))
        derived = fold.get("derived")
        if not derived:
            return columns
        rows = {("", FOLDED_ROWS): list(columns)}
        found = columns_of(f"select * from ({derived['sql']})", rows)
        return {name.lower(): _through(origin, columns) for name, origin in found.items()}

    def _typed(self, node: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Origin]:
        """A typed model's columns; its source table becomes a table of the lineage."""
        name = f"{source['database']}.{source['table']}"
        names = list(source["columns"])
        known = {each: TracedColumn(each, is_documented=False) for each in names}
        before = self.tables.get(name)
        if before is None:
            self.tables[name] = TracedTable(name, "log", "log", columns=known)
        else:
            before.columns.update(known)
        place = tuple(name.split(".", 1))
        row = Origin(frozenset(Leaf(place, each) for each in names))
        columns = {each.lower(): _of_log(each) for each in node["columns"]}
        columns |= {each.lower(): Origin(frozenset({Leaf(place, each)})) for each in names}
        columns |= {each: row for each in WHOLE_ROW if each in columns}
        cut_column = source.get("cut_column")
        if cut_column:
            columns["cut_date"] = Origin(frozenset({Leaf(place, cut_column)}), frozenset({LOG}))
        columns["schema_version"] = Origin(reasons=frozenset({CONSTANT}))
        return columns

    def _counted(self, declared: Mapping[str, Any]) -> dict[str, Origin]:
        """Columns of a model that holds what the source database itself counts.

        Raises:
            QueryError: a measure's SQL can't be followed.
        """
        place = str(declared["database"]), str(declared["table"])
        table = self.tables.get(".".join(place))
        schema = {place: list(table.columns) if table else []}
        measures = [
            f"{measure['sql']} as `{name}`" for name, measure in declared["measures"].items()
        ]
        dimensions = [f"`{name}`" for name in declared["dimensions"]]
        columns = ", ".join([*dimensions, *measures])
        found = columns_of(f"select {columns} from `{place[0]}`.`{place[1]}`", schema)
        return {name.lower(): origin for name, origin in found.items()}

    def _schema(self) -> dict[tuple[str, str], list[str]]:
        return {place: list(self.tables[name].columns) for place, name in self._relations.items()}

    # ---- what a query reads --------------------------------------------------------------

    def _inputs(self, origin: Origin) -> Iterable[Input]:
        for leaf in origin.leaves:
            name = self._name(leaf.table)
            if name is not None:
                written = {each.lower(): each for each in self.tables[name].columns}
                yield Input(name, written.get(leaf.column.lower(), leaf.column), leaf.field)

    def _reasons(self, origin: Origin) -> frozenset[str]:
        """Reasons for what an origin reads that is no table of the project."""
        return frozenset(
            COMMITS if leaf.table[-1].lower() in METADATA_TABLES else UNKNOWN
            for leaf in origin.leaves
            if self._name(leaf.table) is None
        )

    def _name(self, parts: tuple[str, ...]) -> str | None:
        lower = tuple(part.lower() for part in parts)
        known = self._relations.get((lower[-2], lower[-1])) if len(parts) > 1 else None
        name = ".".join(parts)
        return known or (name if name in self.tables else None)


def _order(node: Input) -> tuple[str, str, str]:
    return node.table, node.column, node.field or ""


def _plain(columns: Mapping[str, Any]) -> dict[str, TracedColumn]:
    return {name: TracedColumn(name, is_documented=True) for name in columns}


def _is_whole_row(table: TracedTable, column: TracedColumn) -> bool:
    """Whether a column of a typed model holds the source row's columns as its fields."""
    return column.name in WHOLE_ROW and any(
        "." in source_column.table for source_column in column.inputs
    )


def _of_log(name: str) -> Origin:
    return Origin(reasons=frozenset({RUN if name.lower() == "load_id" else LOG}))


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _of_versions(config: Mapping[str, Any], columns: Mapping[str, Origin]) -> dict[str, Origin]:
    """The columns that dbt adds to a snapshot."""
    updated = columns.get(str(config.get("updated_at") or "").lower())
    origin = updated or Origin(reasons=frozenset({RUN}))
    names = config.get("snapshot_meta_column_names") or {}
    return {(names.get(name) or name).lower(): origin for name in VERSION_COLUMNS}


def _through(origin: Origin, columns: Mapping[str, Origin]) -> Origin:
    """An origin in folded rows as one in what the folded rows are made from."""
    found = Origin(reasons=origin.reasons)
    for leaf in origin.leaves:
        found |= columns.get(leaf.column.lower(), Origin(reasons=frozenset({UNKNOWN})))
    return found


__all__ = ["REASONS", "UNKNOWN", "Input", "Lineage", "Roots", "TracedColumn", "TracedTable"]
