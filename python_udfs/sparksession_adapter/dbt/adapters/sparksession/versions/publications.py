"""Publishing: what a store outside has to receive so that it holds a version's rows.

An exposure with `meta.publish` maps a model to a table of a target. The
environment has the targets, and a module in python_udfs/targets what its kind understands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

from dbt.adapters.sparksession.clock import goes_by_clock
from dbt.adapters.sparksession.keyed.keys import declared_key
from dbt.adapters.sparksession.keyed.tables import FOLDED, KeyedTables, stored_table_of
from dbt.adapters.sparksession.project_code import project_module
from dbt.adapters.sparksession.reading.changes import ChangeReads
from dbt.adapters.sparksession.reading.relations_named import moving_reads, relations_named
from dbt.adapters.sparksession.reading.retract_sql import ROW_KIND
from dbt.adapters.sparksession.secrets import redacted
from dbt.adapters.sparksession.session import message_of
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.stop_signals import is_stop
from dbt.adapters.sparksession.versions.arguments import a_name, a_version
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.publication_records import PublicationRecords
from dbt.adapters.sparksession.versions.row_keys import keyed_changes, row_key_hash
from dbt.adapters.sparksession.versions.store import Version, VersionStore
from dbt.adapters.sparksession.versions.targets import (
    ROW_KEY,
    SIGN,
    Publication,
    PublishError,
    Stores,
    StoreState,
    TableUpdate,
    UpdateResult,
)
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt.adapters.sparksession.yaml_fields import Fields, field_errors, known_fields
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from pydantic import BeforeValidator, Field, StrictStr


def _or(default: Any) -> BeforeValidator:
    """A field that is null or empty has its default."""
    return BeforeValidator(lambda value: value or default)


class Publish(Fields):
    """`meta.publish` of an exposure."""

    target: Annotated[
        StrictStr, Field(pattern=r"^[a-z][a-z0-9_]*$", description="be a lower case name")
    ]
    table: Annotated[str, _or(""), Field(description="be a name")] = ""
    key: Annotated[
        list[StrictStr],
        BeforeValidator(lambda value: [value] if value and isinstance(value, str) else value or []),
        Field(description="be names of columns"),
    ] = []
    types: Annotated[
        dict[str, Any], _or({}), Field(description="be a mapping of columns to types")
    ] = {}
    mode: Annotated[str, _or(""), Field(description="be a name")] = ""


KEYS_OF_PUBLISH = set(known_fields(Publish))


def publication_of(exposure: Mapping[str, Any], nodes: Mapping[str, Any]) -> Publication | None:
    """What an exposure declares of publishing, or None.

    Raises:
        CompilationError: with all that is wrong with it.
    """
    declared = ((exposure.get("config") or {}).get("meta") or {}).get("publish")
    if declared is None:
        return None
    name = f"exposure {exposure['name']}"
    example = "Example: publish: {target: serving, table: user_status, key: [user_id, biz_status]}"
    if not isinstance(declared, Mapping):
        raise CompilationError(f"{name}: publish must be a mapping, got {declared!r}. {example}")
    models = [node for node in exposure["depends_on"]["nodes"] if node in nodes]
    node = nodes[models[0]] if models else {"config": {}, "name": "", "resource_type": "model"}
    problems = [
        f"unknown key {field}"
        if wanted is None
        else f"{field} must {wanted}, got {declared.get(field)!r}"
        for field, wanted in field_errors(Publish, declared).items()
    ]
    if len(models) != 1:
        problems.append(f"it must depend on one model, got {len(models)}")
    if not declared.get("key") and not declared_key(node):
        problems.append("it needs the key: columns that distinguish the model's rows")
    if problems:
        raise CompilationError(f"{name}: {'; '.join(problems)}. {example}")
    publish = Publish.model_validate(declared)
    return Publication(
        exposure["name"],
        publish.target,
        publish.table or node["name"],
        models[0],
        tuple(publish.key or declared_key(node)),
        publish.types,
        publish.mode,
    )


class Publications:
    """Publishes versions to stores outside of the warehouse."""

    def __init__(
        self,
        warehouse: Warehouse,
        keyed: KeyedTables,
        changes: ChangeReads,
        *,
        store: VersionStore,
        lease: HeldLease,
        writer: OneWriter,
        place: Place,
    ) -> None:
        self._warehouse = warehouse
        self._keyed = keyed
        self._changes = changes
        self._store = store
        self._lease = lease
        self._writer = writer
        self._place = place

    def publish_to(self, target: str | None, number: Any, context: dict[str, Any]) -> list[str]:
        """Let stores hold a version; lines that tell what was done.

        Args:
            target: one store's name; None for all that the environment names.
            number: the version's number or tag; None for the newest.

        Raises:
            PublishError: with a sentence for each target that doesn't hold it now.
        """
        target = a_name("target", target)
        number = number if number is None else a_version("version", number)
        known = self._stores.targets()
        wanted = [target] if target is not None else list(known)
        if not known or any(model not in known for model in wanted):
            raise PublishError(
                f"Target {target or '(none)'} isn't known: PUBLISH_TARGETS names "
                f"{', '.join(known) or 'none'}. Example: PUBLISH_TARGETS=serving=mysql"
            )
        lines, problems = [], []
        # what one that was killed still writes must not come behind what this one writes
        with self._writer.writing() if self._lease.lease is None else nullcontext():
            version = self._store.known_version(number)
            for name in wanted:
                try:
                    lines += self._publish_to(name, version, context)
                except Exception as exc:  # the other targets get it all the same
                    if is_stop(exc):
                        raise KeyboardInterrupt from exc
                    problem = redacted(" ".join(_message(exc).split())).rstrip(".")
                    problems.append(
                        f"Target {name}: {problem}; version {version.version} is not published "
                        "there."
                    )
        if problems:
            raise PublishError("\n".join([*lines, *problems]))
        return lines

    def publish_after_build(self, context: dict[str, Any]) -> dict[str, Any]:
        """The same at the end of a build, where the environment names targets.

        Returns:
            {"lines": what was done, "problem": what was not, or None}.
        """
        if not os.environ.get("PUBLISH_TARGETS") or self._store.version() is None:
            return {"lines": [], "problem": None}
        try:
            return {"lines": self.publish_to(None, None, context), "problem": None}
        except Exception as exc:  # the run has to end in order, whatever it was
            return {"lines": [], "problem": redacted(_message(exc))}

    @property
    def _stores(self) -> Stores:
        """The project's module of stores, which the profile names.

        Raises:
            PublishError: the profile names none.
        """
        name = self._warehouse.credentials.stores
        if not name:
            raise PublishError("`stores` of the profile names no module that opens stores.")
        stores: Any = project_module(self._warehouse.config.project_root, name, "stores")
        return stores

    def _publish_to(self, target: str, version: Version, context: dict[str, Any]) -> list[str]:
        nodes, exposures = context["graph"]["nodes"], context["graph"]["exposures"]
        declared = [publication_of(exposure, nodes) for exposure in exposures.values()]
        ours = [
            publication
            for publication in declared
            if publication is not None and publication.target == target
        ]
        ours.sort(key=lambda publication: publication.table)
        if not ours:
            raise PublishError("no exposure names it in meta.publish, so there is nothing for it")
        twice = {
            publication.table
            for publication in ours
            if [other.table for other in ours].count(publication.table) > 1
        }
        if twice:
            raise PublishError(f"several exposures publish to {', '.join(sorted(twice))}")
        names = {
            publication.table: self._warehouse.relation_of_node(nodes[publication.model]).render()
            for publication in ours
        }
        missing = sorted(name for name in names.values() if name not in version.queries)
        if missing:
            raise PublishError(f"version {version.version} doesn't hold {', '.join(missing)}")
        warehouse = self._place.warehouse_id(self._lease.table)
        records = PublicationRecords(self._warehouse)
        recorded = records.of(target)
        store = self._stores.open_store(self._warehouse.session(), target, warehouse)
        taken: list[UpdateResult] = []
        try:
            # tables that no exposure names any more, whose readers have to know
            left = sorted((recorded or {}).keys() - names.keys())
            held = store.held([*names, *left])
            steps = [
                list(
                    self._parts(
                        publication,
                        names[publication.table],
                        held.get(publication.table, StoreState()),
                        version,
                        context,
                    )
                )
                for publication in ours
            ]
            parts = [part for step in steps for part in step]
            for batch in [parts] if store.together and parts else [[part] for part in parts]:
                # a store may have no lock that keeps another run out while this one sleeps
                self._lease.confirm()
                taken += store.take(batch)
        finally:
            store.close()
        records.write(target, version, names, taken, recorded)
        lines = [
            f"  {result.part.publication.table}: {result.written:,} rows written, "
            f"{result.removed:,} removed{', compared as a whole' if result.part.whole else ''}"
            for result in taken
            if result.part.rows is not None
        ]
        lines += [
            f"  {table}: no exposure publishes it any more; it stays as of version "
            f"{held[table].version} until it is dropped there."
            for table in left
            if table in held
        ]
        return [f"Target {target} holds version {version.version}.", *lines]

    def _parts(
        self,
        publication: Publication,
        name: str,
        held: StoreState,
        version: Version,
        context: dict[str, Any],
    ) -> Iterator[TableUpdate]:
        """What a table has to receive, in order: nothing where it holds the version.

        All rows each time where they may be others while the version stays: a store has those of
        the time of its publication, which the version doesn't give again.
        """
        key = self._row_key(publication, self._kinds(version.queries[name]))
        before = self._version_of_mark(name, key, held.version, held.mark)
        if held.is_half:
            begun = self._version_of_mark(name, key, held.begun_version, held.begun_mark)
            if before is None or begun is None:
                yield self._part(publication, name, None, version, context)
                return
            yield self._part(publication, name, before, begun, context)
            before, held = begun, StoreState(begun.version, _mark(begun, name, key))
        if held.mark in _marks(version, name, key) and not self._moves(version.queries[name]):
            if held.version != version.version:
                yield TableUpdate(publication, version.version, held.mark, None, False, {})
            return
        yield self._part(publication, name, before, version, context)

    @staticmethod
    def _row_key(publication: Publication, kinds: dict[str, str]) -> str:
        """SQL of what rows are known again by in a store, see row_key_hash.

        Args:
            kinds: column -> type of the model's rows.

        Raises:
            PublishError: the rows can't have that key.
        """
        try:
            return row_key_hash(publication.key, kinds)
        except ValueError as exc:
            raise PublishError(f"exposure {publication.name}, key: {exc}") from exc

    def _kinds(self, text: str) -> dict[str, str]:
        """Column -> type of a query's rows."""
        fields = self._warehouse.session().sql(text).schema
        return {field.name: field.dataType.simpleString() for field in fields}

    def _part(
        self,
        publication: Publication,
        name: str,
        before: Version | None,
        version: Version,
        context: dict[str, Any],
    ) -> TableUpdate:
        session, text = self._warehouse.session(), version.queries[name]
        node = context["graph"]["nodes"][publication.model]
        kinds = self._kinds(text)
        taken = sorted(kinds.keys() & {ROW_KIND, SIGN, ROW_KEY})
        if taken:
            raise PublishError(
                f"{name} can't be published: a publication has columns {', '.join(taken)} itself"
            )
        key = self._row_key(publication, kinds)
        changes = None
        if before is not None:
            changes = self._published_changes(node, name, before, version, publication.key)
        rows = keyed_changes(changes or f"(select *, 1 as {SIGN} from ({text}))", list(kinds), key)
        return TableUpdate(
            publication,
            version.version,
            _mark(version, name, key),
            session.sql(rows),
            before is None,
            kinds,
        )

    def _published_changes(
        self,
        node: Mapping[str, Any],
        name: str,
        before: Version,
        after: Version,
        key: Sequence[str],
    ) -> str:
        """SQL text for a `from`: retract rows of where a model differs in a version.

        A table or a folded model is read where its commits touched it; a view, or a model that is
        declared differently by now, is compared as a whole.
        """
        table = stored_table_of(node)
        history = self._warehouse.history(table)
        first, last = (version.snapshots.get(table) for version in (before, after))
        old, new = (version.queries[name] for version in (before, after))
        reader = f"publish.{name}"
        self._warehouse.inputs.forget(reader)
        self._warehouse.inputs.note_news(reader, asks_ranges=True)

        def is_read_as(snapshot: int | None, text: str) -> bool:
            return (
                snapshot is not None
                and snapshot in history.snapshots
                and _plain(self._text_at(node, history, snapshot)) == _plain(text)
            )

        kind = node["config"].get("materialized")
        same = kind != "view" and is_read_as(first, old) and is_read_as(last, new)
        if not same or last is None:
            return f"(\n{self._changes.compared(f'({old})', f'({new})', key)}\n)"
        if kind == FOLDED:
            return f"(\n{self._changes.folded_changes(reader, node, history, first, last)}\n)"
        return f"(\n{self._changes.table_changes(reader, table, history, first, last, key)}\n)"

    def _text_at(self, node: Mapping[str, Any], history: Any, snapshot: int) -> str:
        """Query of a stored model's rows at a snapshot, as it is declared now."""
        reading = f"{stored_table_of(node)} version as of {snapshot}"
        if node["config"].get("materialized") == FOLDED:
            reading = self._keyed.folded_sql(node, history.at(snapshot), reading)
        return f"select * from {reading}"

    def _version_of_mark(self, name: str, key: str, number: int, mark: str) -> Version | None:
        """The version of that number, where it has that mark; None where it isn't known, or
        another warehouse's, its rows have another key, or may be others by now."""
        if not mark:
            return None
        try:
            version = self._store.known_version(int(number))
        except DbtRuntimeError:
            return None
        fits = version.version == int(number) and mark in _marks(version, name, key)
        return version if fits and not self._moves(version.queries[name]) else None

    def _moves(self, text: str) -> bool:
        """Whether a query may give other rows while its version stays: it asks the clock, or reads
        what no snapshot holds, as a view of another project."""
        if goes_by_clock(text):
            return True
        session = self._warehouse.session()
        # a name of one part is that of a CTE
        names_relation = any(len(parts) > 1 for parts in relations_named(session, text))
        return names_relation or bool(moving_reads(session, text))


def _mark(version: Version, name: str, key: str) -> str:
    """What a store records of the rows that it holds: a hash of the model's query in a version, and
    of what its rows are known again by. By another key no row would be known again.

    Args:
        name: of the model's relation, which the version holds.
        key: see row_key_hash.
    """
    return mark_of(f"{version.query_hashes[name]} {key}")


def _marks(version: Version, name: str, key: str) -> tuple[str, ...]:
    """The marks of rows that a version has; none where it doesn't hold the relation. A store that
    was published to before keys were recorded has the query's hash."""
    if name not in version.query_hashes:
        return ()
    return _mark(version, name, key), version.query_hashes[name]


def _message(exc: Exception) -> str:
    return exc.msg if isinstance(exc, DbtRuntimeError) else message_of(exc)


def _plain(text: str) -> str:
    return "".join(text.split())
