"""A table's snapshots: who descends from whom, and what was appended between two of them."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ADDING_OR_NEUTRAL = ("append", "replace")  # `replace` is a compaction: same rows, other files
PARTITION_KEY = "partitions."
HISTORIES_KEPT = 128  # a run asks for each table's several times, and they grow with its commits
NESTED = ("element", "key", "value")  # parts of arrays and maps in Iceberg's schemas
MODEL_PROPERTY = "dbt.model"
SNAPSHOT_READ = re.compile(r" version as of (\d+)")  # behind a table in SQL
PINNED_READ = re.compile(r"(?<![^\s(),])(?P<table>[^\s(),]++)" + SNAPSHOT_READ.pattern)
# types that Iceberg reads the values of an older type as, each as it was; by Iceberg's names and by
# Spark's
WIDENED = frozenset({("int", "long"), ("int", "bigint"), ("float", "double")})
DECIMAL = re.compile(r"decimal\((?P<digits>\d+), ?(?P<scale>\d+)\)")
TABLE_PROPERTY = "dbt.table"  # schema.name of the table that holds the rows of the run's node


def pinned_reads(sql: str) -> set[tuple[str, int]]:
    """The tables that a query reads as of a snapshot, with it.

    >>> pinned_reads("select * from (dw.a version as of 4), dw.b")
    {('dw.a', 4)}
    """
    return {(table.replace("`", ""), int(at)) for table, at in PINNED_READ.findall(sql)}


def pinned_at(sql: str, snapshots: Mapping[str, int]) -> str:
    """A query that reads tables as of snapshots, with other snapshots of some of them.

    >>> pinned_at("select * from dw.a version as of 4", {"dw.a": 3})
    'select * from dw.a version as of 3'
    """

    def read(found: re.Match[str]) -> str:
        snapshot = snapshots.get(found["table"].replace("`", ""), found[2])
        return f"{found['table']} version as of {snapshot}"

    return PINNED_READ.sub(read, sql)


def appended(table: str, first: int | None, last: int | None) -> str:
    """SQL text, for a `from`, of the rows appended after snapshot `first` up to `last`."""
    return (
        f"(select * from {table} with "
        f"(`start-snapshot-id` = '{first}', `end-snapshot-id` = '{last}'))"
    )


@dataclass(frozen=True)
class Snapshot:
    """One commit.

    Attributes:
        id, parent: snapshot ids; parent is None for a table's first and for a replaced table.
        operation: Iceberg's word: append, overwrite, delete, replace.
        summary: Iceberg's counters and the properties that the writer gave the commit.
        schema: number of the columns that the table had then; None where that isn't known.
    """

    id: int
    parent: int | None
    operation: str
    summary: dict[str, str] = field(default_factory=dict)
    schema: int | None = None

    def count(self, key: str) -> int:
        return int(self.summary.get(key, 0))

    @property
    def adds_only(self) -> bool:
        """Whether an incremental read over this commit gives all that it changed.

        Such a read passes an overwrite's rows over without a word, the added rows too.
        """
        return self.operation in ADDING_OR_NEUTRAL or not self.changes_rows

    @property
    def only_removes(self) -> bool:
        """Whether it took whole files of rows away, as a retention does, and wrote none."""
        written = ("added-records", "added-delete-files", "added-data-files")
        return self.operation == "delete" and not any(map(self.count, written))

    @property
    def changes_rows(self) -> bool:
        """Whether the table may have other rows after this commit."""
        touched = ("added-records", "deleted-records", "added-delete-files", "removed-delete-files")
        return self.operation != "replace" and any(self.count(key) for key in touched)

    def partitions(self) -> set[str] | None:
        """Changed partitions as Iceberg writes them (`cut_date=2026-03-01`).

        None where the commit doesn't list them: it was written with
        write.summary.partition-limit too low.
        """
        changed = {
            key.removeprefix(PARTITION_KEY) for key in self.summary if key.startswith(PARTITION_KEY)
        }
        if len(changed) < self.count("changed-partition-count"):
            return None
        return changed


@dataclass(frozen=True)
class Columns:
    """The columns of a table by one of its schemas, fields of structs too.

    Attributes:
        ids: name -> Iceberg's number, which a column keeps when it is renamed.
        filled: numbers of the columns that rows written before them have a value in.
        types: name and a point -> Iceberg's type, of a nested column the kind of it alone.
    """

    ids: Mapping[str, int]
    filled: frozenset[int] = frozenset()
    types: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Columns:
        """Those of a schema in Iceberg's metadata."""
        found: dict[str, int] = {}
        filled, types = set(), {}
        waiting: list[tuple[str, Any]] = [("", schema)]
        while waiting:
            path, kind = waiting.pop()
            if not isinstance(kind, Mapping):
                types[path] = str(kind)
                continue
            types[path] = str(kind.get("type"))
            for item in kind.get("fields", []):
                found[path + item["name"]] = item["id"]
                filled |= {item["id"]} if item.get("initial-default") is not None else set()
                waiting.append((f"{path}{item['name']}.", item["type"]))
            waiting += [(f"{path}{part}.", kind[part]) for part in NESTED if part in kind]
        return cls(found, frozenset(filled), types)

    def moved_since(self, then: Columns) -> bool:
        """Whether a name of one of the columns is of another column than it was, or of values of
        another type: compared as values of one type, '01' would be 1.

        >>> then = Columns({"id": 1, "v": 2})
        >>> [Columns(ids).moved_since(then) for ids in ({"id": 1}, {"id": 1, "v": 3}, {"u": 2})]
        [False, True, True]
        """
        shared = self.types.keys() & then.types.keys()
        if any(not is_widened(then.types[name], self.types[name]) for name in shared):
            return True
        names = {number: name for name, number in then.ids.items()}
        return any(
            then.ids.get(name, number) != number
            or names.get(number, name) != name
            or (number not in names and number in self.filled)
            for name, number in self.ids.items()
        )


def is_widened(then: str, now: str) -> bool:
    """Whether a column of type `then` gives the same values as one of type `now`.

    >>> [is_widened("decimal(9, 2)", now) for now in ("decimal(9, 2)", "decimal(12, 2)", "string")]
    [True, True, False]
    """
    old, new = DECIMAL.fullmatch(then), DECIMAL.fullmatch(now)
    if old is not None and new is not None:
        return old["scale"] == new["scale"] and int(old["digits"]) <= int(new["digits"])
    return then == now or (then, now) in WIDENED


@dataclass(frozen=True)
class History:
    """All known snapshots of a table.

    Attributes:
        head: the snapshot that its main branch stands at; None of a table without a commit.
        snapshots: id -> commit.
        uuid: the table's own, which it keeps whatever it is called; None where a session is
            remote, which doesn't give it.
        schemas: number of a schema -> its columns, of a table that has had several.
        schema: number of the columns that the table has now, whichever snapshot it stands at; None
            where that isn't known.
        refs: the snapshots that the table's branches and tags name, main among them; none where a
            session is remote.
    """

    head: int | None
    snapshots: dict[int, Snapshot]
    uuid: str | None = None
    schemas: Mapping[int, Columns] = field(default_factory=dict)
    schema: int | None = None
    refs: frozenset[int] = frozenset()

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any], before: History | None = None) -> History:
        """A history as Iceberg's metadata file has it, see iceberg.metadata.

        Args:
            before: an earlier history of the table: both share the commits that they have in
                common, which never change.
        """
        head = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
        known = {} if before is None else before.snapshots
        snapshots = {}
        for snapshot in metadata.get("snapshots", []):
            number = snapshot["snapshot-id"]
            if number in known:
                snapshots[number] = known[number]
                continue
            summary = dict(snapshot["summary"])
            operation, parent = summary.pop("operation"), snapshot.get("parent-snapshot-id")
            schema = snapshot.get("schema-id")
            snapshots[number] = Snapshot(number, parent, operation, summary, schema)
        schemas = metadata.get("schemas", [])
        # columns that have never changed needn't be compared
        changed = schemas if len(schemas) > 1 else []
        columns = {schema["schema-id"]: Columns.of(schema) for schema in changed}
        now = metadata.get("current-schema-id")
        refs = frozenset(ref["snapshot-id"] for ref in metadata.get("refs", {}).values())
        return cls(head, snapshots, metadata.get("table-uuid"), columns, now, refs)

    @property
    def rows(self) -> int | None:
        """How many rows its data files have, by the newest commit; None where that doesn't say."""
        newest = self.snapshots.get(self.head) if self.head is not None else None
        count = newest.summary.get("total-records") if newest is not None else None
        return None if count is None else int(count)

    def ancestry(self, last: int | None) -> list[Snapshot]:
        """`last` and its ancestors, newest first, as far as they are still known."""
        line = []
        while last is not None and last in self.snapshots:
            line.append(self.snapshots[last])
            last = line[-1].parent
        return line

    def at(self, head: int | None) -> History:
        """The same commits, as they were when `head` was the newest."""
        return replace(self, head=head)

    @property
    def newest(self) -> Snapshot | None:
        """The newest commit, or None if there is none."""
        return None if self.head is None else self.snapshots.get(self.head)

    def between(self, first: int | None, last: int | None) -> list[Snapshot] | None:
        """The commits after `first` up to and with `last`, newest first.

        None where `last` doesn't descend from `first` (the table was replaced or rolled back)
        or the line between them has expired.
        """
        if first is None:
            return None
        line: list[Snapshot] = []
        for snapshot in self.ancestry(last):
            if snapshot.id == first:
                return line
            line.append(snapshot)
        return None

    def has_moved_columns(self, first: int | None, last: int | None) -> bool:
        """Whether a row of snapshot `first` has, by some name, another value at `last` though no
        commit wrote it: a column got another's name or type, or a value that stands for all older
        rows."""
        then, now = self._columns_at(first), self._columns_at(last)
        return then is not None and now is not None and now.moved_since(then)

    def has_moved_columns_now(self, then: int | None) -> bool:
        """The same of the rows of snapshot `then` and the columns that the table has now, which it
        keeps when it goes back to that snapshot."""
        old, now = self._columns_at(then), self.schemas.get(self.schema or 0)
        return old is not None and now is not None and now.moved_since(old)

    def has_lost_columns(self, first: int | None, last: int | None) -> bool:
        """Whether rows had a column at snapshot `first` that they don't have at `last`."""
        then, now = self._columns_at(first), self._columns_at(last)
        return then is not None and now is not None and not then.ids.keys() <= now.ids.keys()

    def _columns_at(self, snapshot: int | None) -> Columns | None:
        known = None if snapshot is None else self.snapshots.get(snapshot)
        return None if known is None else self.schemas.get(known.schema or 0)

    def recorded(self, key: str, table: str | None = None) -> str | None:
        """The newest value of a snapshot property among the head's ancestors.

        Args:
            key: the property's name.
            table: schema.name of the table that these are the snapshots of. Commits that a node of
                another table made (one of its hooks wrote here) name that node's inputs: with
                `table` they are passed over. The node's own name doesn't matter: a model or a
                project may be renamed.
        """
        for snapshot in self.ancestry(self.head):
            by = snapshot.summary.get(TABLE_PROPERTY, table)
            if key in snapshot.summary and (table is None or by == table):
                return snapshot.summary[key]
        return None


class KeptHistories:
    """Histories by the metadata files that they were read from, which never change: of each table
    its newest, and of all tables those asked for last. Threads share it."""

    def __init__(self, count: int = HISTORIES_KEPT) -> None:
        self._count, self._lock = count, threading.Lock()
        self._kept: OrderedDict[str, History] = OrderedDict()
        self._places: dict[str | None, str] = {}  # uuid of a table -> its metadata file in _kept

    def of(self, location: str, read: Callable[[], Mapping[str, Any]]) -> History:
        """The history in the metadata file at `location`; `read` gives its content, where it isn't
        kept."""
        with self._lock:
            known = self._kept.get(location)
            if known is not None:
                self._kept.move_to_end(location)
                return known
        content = read()
        uuid = content.get("table-uuid")
        with self._lock:
            before = self._kept.pop(self._places.get(uuid, ""), None)
            known = History.of_metadata(content, before)
            self._kept[location], self._places[uuid] = known, location
            if len(self._kept) > self._count:
                _, dropped = self._kept.popitem(last=False)
                del self._places[dropped.uuid]
        return known


kept_histories = KeptHistories()
