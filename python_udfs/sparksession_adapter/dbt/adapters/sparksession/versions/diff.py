"""Compare two versions, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any

from dbt.adapters.sparksession.edges import Graph
from dbt.adapters.sparksession.keyed.keys import key_of, keys_by_test
from dbt.adapters.sparksession.sql import quoted
from dbt.adapters.sparksession.versions.arguments import a_name, a_version, is_given, whole_number
from dbt.adapters.sparksession.versions.nodes import is_published
from dbt.adapters.sparksession.versions.store import VersionStore, differing_relations
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

UNKNOWN = partial(key_of, None)  # of a relation that no node makes any more


# to_json's own forms of times end at milliseconds
TIMES = "yyyy-MM-dd HH:mm:ss.SSSSSS"
JSON_OPTIONS = (
    f"map('ignoreNullFields', 'false', 'timestampFormat', '{TIMES}XXX', "
    f"'timestampNTZFormat', '{TIMES}')"
)


def row_text(columns: Iterable[str]) -> str:
    """SQL of a row's columns as one text that is the same for the same values."""
    names = ", ".join(quoted(column) for column in columns)
    return f"to_json(struct({names}), {JSON_OPTIONS})"


def compared(old: str, new: str, columns: list[str], keys: list[str]) -> str:
    """Query of the rows that two queries don't share: kind (added, removed, changed), row, was.

    Args:
        columns: those that both have.
        keys: the key columns; without any, equal rows are counted.
    """
    value = row_text(columns)
    if not keys:
        return (
            "with counted as (select row, sum(n) as n from ("
            f"select {value} as row, 1 as n from ({new}) union all "
            f"select {value} as row, -1 as n from ({old})) group by row having sum(n) != 0) "
            "select if(n > 0, 'added', 'removed') as kind, if(n > 0, row, null) as row, "
            "if(n > 0, null, row) as was from counted "
            "lateral view explode(sequence(1, abs(n))) as place"
        )
    key = row_text(keys)
    return (
        f"with before as (select {key} as key, {value} as row from ({old})), "
        f"after as (select {key} as key, {value} as row from ({new})) "
        "select case when before.key is null then 'added' when after.key is null then 'removed' "
        "else 'changed' end as kind, after.row, before.row as was "
        "from before full join after on before.key = after.key "
        "where not before.row <=> after.row"
    )


class Differences:
    """Where a version differs from another."""

    def __init__(self, warehouse: Warehouse, store: VersionStore) -> None:
        self._warehouse = warehouse
        self._store = store

    def diff_versions(
        self, first: Any, last: Any, select: str | None, rows: int, context: dict[str, Any]
    ) -> list[str]:
        """Where a version differs from another: per table rows added, removed and changed,
        and some of them.

        Args:
            select: one relation's name; None for all that differ.
            rows: how many rows of each are shown.

        Raises:
            DbtRuntimeError: neither version has what is to be compared.
        """
        select, rows = a_name("select", select), whole_number("rows", rows)
        old, new = (
            self._store.known_version(a_version(name, given, may_be_held_back=True))
            for name, given in (("first", first), ("last", last))
        )
        chosen = {
            name
            for name in old.queries.keys() | new.queries.keys()
            if select is None or name.rpartition(".")[2] == select.rpartition(".")[2]
        }
        if not chosen:
            raise DbtRuntimeError(
                f"select must name a table or view of version {old.version} or {new.version}, "
                f"got {select!r}: look for its name in diff_versions without select."
            )
        keys = self.keys_by_name(context)
        lines = [f"version {old.version} -> version {new.version}"]
        for name in differing_relations(old.query_hashes, new.query_hashes):
            if name not in chosen:
                continue
            if name not in old.queries or name not in new.queries:
                lines.append(f"  {name}: {'new' if name in new.queries else 'gone'}")
                continue
            lines += self.difference(
                name, old.queries[name], new.queries[name], keys.get(name, UNKNOWN), rows
            )
        return lines if len(lines) > 1 else [*lines, "  nothing differs"]

    def another_schema(self, schema: object) -> str:
        """The name of a schema that isn't the target's own.

        Raises:
            DbtRuntimeError: it is, or holds the published views, or is no name.
        """
        given = schema if is_given(schema) else None
        name, own = a_name("schema", given), self._warehouse.credentials
        if name is None or name in (own.schema, own.published_schema):
            raise DbtRuntimeError(
                f"schema must be another schema than {own.schema} and {own.published_schema}, in "
                f"which something was built to be compared with them, got {given!r}."
            )
        return name

    def diff_built(self, schema: object, rows: object, context: Graph) -> list[str]:
        """What a schema's tables and views have otherwise than the newest version: per table rows
        added, removed and changed, and some of them.

        Args:
            schema: where they were built; a clone there isn't compared.
            rows: how many rows of each are shown.

        Raises:
            DbtRuntimeError: nothing has been published yet.
        """
        place, shown = self.another_schema(schema), whole_number("rows", rows)
        newest, keys = self._store.known_version(), self.keys_by_name(context)
        found = self._warehouse.relations_in(place)
        built = {
            relation.identifier: relation.render()
            for relation in found
            if self._warehouse.cloned(relation) is None
        }
        lines = [f"version {newest.version} -> schema {place}"]
        for node in sorted(context["graph"]["nodes"].values(), key=itemgetter("name")):
            if node.get("alias") not in built or not is_published(node):
                continue
            name = self._warehouse.relation_of_node(node).render()
            relation = built[node["alias"]]
            if name not in newest.queries:
                lines.append(f"  {name}: new")
                continue
            lines += self.difference(
                name, newest.queries[name], f"select * from {relation}", keys[name], shown
            )
        return lines if len(lines) > 1 else [*lines, "  nothing was built there"]

    def difference(
        self,
        name: str,
        old: str,
        new: str,
        keys: Callable[[list[str]], list[str]],
        rows: int,
        kept: dict[str, dict[str, int]] | None = None,
    ) -> list[str]:
        """Lines that show where two queries of a relation differ.

        Args:
            keys: function that returns the key columns among its columns.
            kept: relation -> counts by kind, to be added to.
        """
        session = self._warehouse.session()
        before, after = (dict(session.sql(query).dtypes) for query in (old, new))
        both = [column for column in after if column in before]
        sql = compared(old, new, both, keys(both))
        counts = {
            row.kind: row.n
            for row in session.sql(
                f"select kind, count(*) as n from ({sql}) group by kind"
            ).collect()
        }
        if kept is not None:
            kept[name] = counts
        summary = ", ".join(
            f"{counts.get(kind, 0):,} {kind}" for kind in ("added", "removed", "changed")
        )
        lines = [f"  {name}: {summary}"]
        for kind, names in (("new", after), ("gone", before)):
            other = [name for name in names if name not in both]
            if other:
                lines.append(f"    {kind} columns: {', '.join(other)}")
        for name in both:
            if before[name] != after[name]:
                lines.append(f"    {name} was {before[name]}, is {after[name]}")
        shown = f"select * from ({sql}) order by kind, row, was limit {rows}"
        for row in session.sql(shown).collect() if rows and counts else []:
            if row.was is not None:
                lines.append(f"    - {row.was}")
            if row.row is not None:
                lines.append(f"    + {row.row}")
        return lines

    def keys_by_name(self, context: dict[str, Any]) -> dict[str, Callable[[list[str]], list[str]]]:
        """Relation -> function that returns its key columns."""
        nodes = context["graph"]["nodes"]
        tested = keys_by_test(nodes.values())
        return {
            self._warehouse.relation_of_node(node).render(): partial(
                key_of, node, tested=tested.get(unique_id, ())
            )
            for unique_id, node in nodes.items()
        }
