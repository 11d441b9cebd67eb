"""The versions as they are stored: one row of meta_version each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from dbt.adapters.sparksession.sql import is_absent, literal
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

VERSION_TABLE = "meta_version"
CANDIDATE_TABLE, CANDIDATE = "meta_candidate", "candidate"  # a build that was held back
LATEST = "latest"
COLUMNS = {
    "version": "bigint",
    "published_at": "timestamp",
    "run_id": "string",
    "code_version": "string",
    "made_by": "string",
    "tag": "string",
    "changed": "array<string>",
    "stale": "array<string>",
    "snapshots": "map<string, bigint>",
    "inputs": "map<string, map<string, bigint>>",
    "queries": "map<string, string>",
    "query_hashes": "map<string, string>",
    "test_fingerprints": "map<string, string>",
}


@dataclass(frozen=True)
class Version:
    """One published version, a row of meta_version.

    Attributes:
        version: its number, from 1.
        published_at: UTC.
        run_id, code_version: the run, and the code that it ran.
        made_by: `build`, or the operation that published it.
        tag: a name that keeps it from being expired.
        changed: relations that say something else than in the version before.
        stale: relations that were made from an older snapshot of an input than the version's.
        snapshots: stored table -> snapshot id.
        inputs: stored table -> its inputs -> the snapshot that it was made from.
        queries: relation (schema.name) -> query of its rows as they are in this version.
        query_hashes: relation -> a hash of that query.
        test_fingerprints: data test -> a hash of all that it looked at when it passed; when it
            warned, with the number of rows that it found behind a space.
    """

    version: int
    published_at: datetime
    run_id: str
    code_version: str
    made_by: str
    tag: str | None = None
    changed: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    snapshots: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, dict[str, int]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    query_hashes: dict[str, str] = field(default_factory=dict)
    test_fingerprints: dict[str, str] = field(default_factory=dict)


def differing_relations(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Relations whose query hashes differ, or that only one side has.

    >>> differing_relations({"a": "1", "b": "1"}, {"b": "1", "c": "1"})
    ['a', 'c']
    """
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )


class VersionStore:
    """Reads versions and the snapshots that they hold."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.published: Version | None = None  # by this process's current command
        self._newest: Version | None = None
        self._newest_is_known = False
        self._versions_read: dict[str, Version] = {}
        self._version_lock = threading.RLock()
        self._written_for = threading.local()

    @property
    def version_table(self) -> str:
        return f"{self._warehouse.credentials.schema}.{VERSION_TABLE}"

    @property
    def candidate_table(self) -> str:
        return f"{self._warehouse.credentials.schema}.{CANDIDATE_TABLE}"

    def version(self, number: int | str | None = None) -> Version | None:
        """One version; the newest one without a number or with `latest`, with `candidate` the
        build that is held back; or None if there is none.

        Raises:
            DbtRuntimeError: there is no version of that number or tag.
        """
        condition, table = "", self.version_table
        if number == CANDIDATE:
            table = self.candidate_table
        elif number not in (None, LATEST):
            condition = f" where cast(version as string) = {literal(str(number))}"
            condition += f" or tag = {literal(str(number))}"
        # collected as they are, not in the zone of this process
        columns = ", ".join(COLUMNS).replace(
            "published_at", "cast(published_at as timestamp_ntz) as published_at"
        )
        order = "order by version desc limit 1"
        try:
            rows = (
                self._warehouse.session()
                .sql(f"select {columns} from {table}{condition} {order}")
                .collect()
            )
        except Exception as exc:
            if not is_absent(exc):
                raise
            rows = []
        if not rows and condition:
            raise DbtRuntimeError(
                f"There is no version {number!r}. dbt run-operation list_versions shows those "
                "that there are."
            )
        return Version(**rows[0].asDict(recursive=True)) if rows else None

    def known_version(self, number: int | str | None = None) -> Version:
        """The same; there has to be one.

        Raises:
            DbtRuntimeError: there is none.
        """
        version = self.version(number)
        if version is not None:
            return version
        if number == CANDIDATE:
            raise DbtRuntimeError(
                "No build is held back. dbt build --vars 'hold_back: true' makes a candidate."
            )
        raise DbtRuntimeError("No version has been published yet: dbt build does it.")

    @property
    def newest_version(self) -> Version | None:
        """The newest version when this run first asked."""
        with self._version_lock:
            if not self._newest_is_known:
                self._newest, self._newest_is_known = self.version(), True
        return self._newest

    def set_newest(self, version: Version) -> None:
        """Take note of a version that this run has published."""
        self._newest = self.published = version

    def text_as_of(self, number: str, name: str) -> str | None:
        """Query of a relation's rows in a version, or None if it has no such relation."""
        return self._version_read(number).queries.get(name)

    def snapshot_as_of(self, number: str, table: str) -> int | None:
        """A stored table's snapshot in a version, or None if it has no such table."""
        return self._version_read(number).snapshots.get(table)

    def _version_read(self, number: str) -> Version:
        with self._version_lock:
            if number not in self._versions_read:
                self._versions_read[number] = self.known_version(number)
            return self._versions_read[number]

    @contextmanager
    def writing_for(self, snapshots: Callable[[str], int | None] | None) -> Iterator[None]:
        """Within it the thread's macros ask for the commits of these snapshots."""
        before = getattr(self._written_for, "snapshots", None)
        self._written_for.snapshots = snapshots
        try:
            yield
        finally:
            self._written_for.snapshots = before

    def written_snapshot(self, table: str) -> int | None:
        """A stored table's snapshot in the version whose query this thread writes. None if it
        writes no version, or if the version has no such table."""
        snapshots = getattr(self._written_for, "snapshots", None)
        return snapshots(table) if snapshots is not None else None
