"""Which versions and snapshots stay: tags, and the expiry of what nobody needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from dbt.adapters.sparksession.iceberg.history import (
    TABLE_PROPERTY,
    History,
    Snapshot,
    pinned_reads,
)
from dbt.adapters.sparksession.keyed.tables import COMPACTED_PROPERTY, REBUILDING_PROPERTY
from dbt.adapters.sparksession.read_plans import ASKED_PROPERTY, INPUT_PROPERTY, REQUEST_PROPERTY
from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.versions.arguments import a_name, a_version, days_back, whole_number
from dbt.adapters.sparksession.versions.lease import utc_now
from dbt.adapters.sparksession.versions.nodes import all_tables
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.rollback import Rollback
from dbt.adapters.sparksession.versions.store import CANDIDATE, LATEST, VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

# what Iceberg and Spark say of a commit by themselves has no dot, or begins so
ICEBERGS_OWN = ("partitions.", "spark.", "iceberg.", "engine.")
# properties of a single commit: the last value isn't looked up
OF_ONE_COMMIT = {
    *(
        "dbt.run",
        "dbt.model",
        TABLE_PROPERTY,
        "dbt.code",
        ASKED_PROPERTY,
        REQUEST_PROPERTY,
        COMPACTED_PROPERTY,
        REBUILDING_PROPERTY,
    ),
    "ods.changes_by_day",
}
NO_HISTORY = History(None, {})


def expired_snapshots(history: History, named: set[int], read: set[int]) -> list[int]:
    """Snapshots that nobody needs any more.

    What a kept version names stays, and what a branch or tag of the table does. So does the line
    from the newest commit back to the oldest that a reader's record names or that speaks last of
    some property: incremental reads go along it.

    Args:
        named: by versions that are kept; of other tables too.
        read: recorded as read by the newest commits of other tables; of any table.
    """
    line = history.ancestry(history.head)
    needed = {history.head} | read
    spoken: set[str] = set()
    for commit in line:
        own = _kept_properties(commit) - spoken
        if own:
            spoken |= own
            needed |= {commit.id, commit.parent}
    last = max((place for place, snapshot in enumerate(line) if snapshot.id in needed), default=-1)
    kept = named | history.refs | {snapshot.id for snapshot in line[: last + 1]}
    return sorted(history.snapshots.keys() - kept)


def _kept_properties(commit: Snapshot) -> set[str]:
    """Properties of a commit whose last value counts for those behind it."""
    return {
        key
        for key in commit.summary.keys() - OF_ONE_COMMIT
        if "." in key and not key.startswith(ICEBERGS_OWN)
    }


def needed_to_go_back(
    snapshots: Mapping[str, int], histories: Mapping[str, History]
) -> Iterator[int]:
    """Snapshots that runs go by once a version has been gone back to: the line of each table back
    to the commits that speak last of some property, and that its readers in the version had read.
    A compaction, say, makes a commit that speaks of nothing.

    Args:
        snapshots: table -> snapshot of the version.
    """
    read: set[int] = set()
    for table, snapshot in snapshots.items():
        for commit in histories.get(table, NO_HISTORY).ancestry(snapshot):
            inputs = {key for key in commit.summary if key.startswith(INPUT_PROPERTY)}
            if inputs and commit.summary.get(TABLE_PROPERTY, table) == table:
                read |= {int(commit.summary[key]) for key in inputs}
                break  # it names all that the rows are made of
    for table, snapshot in snapshots.items():
        history = histories.get(table, NO_HISTORY)
        yield from _line_back(history, snapshot, read & history.snapshots.keys())


def needed_to_read_on(read: Iterable[int], histories: Iterable[History]) -> Iterator[int]:
    """Snapshots that show how readers have read a table: from each that they record the line back
    to the commits that speak last of some property by then.

    Args:
        read: recorded as read; of any table.
    """
    for history in histories:
        for snapshot in history.snapshots.keys() & set(read):
            yield from _line_back(history, snapshot, set())


def _line_back(history: History, snapshot: int, waiting: set[int]) -> Iterator[int]:
    """The line of a table from a snapshot back to the commits that speak last of some property by
    then, and to those that are waited for."""
    unspoken = set().union(*map(_kept_properties, history.snapshots.values()))
    passed: list[int] = []
    for commit in history.ancestry(snapshot):
        passed.append(commit.id)
        spoken = _kept_properties(commit) & unspoken
        if spoken or commit.id in waiting:
            yield from passed
            passed.clear()
        unspoken -= spoken
        waiting.discard(commit.id)
        if not unspoken and not waiting:
            break


def read_snapshots(history: History) -> set[int]:
    """Snapshots of other tables that the newest commits of a table record as read."""
    found: dict[str, int] = {}
    for commit in history.ancestry(history.head):
        for key, value in commit.summary.items():
            if key.startswith(INPUT_PROPERTY):
                found.setdefault(key, int(value))
    return set(found.values())


class Retention:
    """The operations that keep and expire versions."""

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        writer: OneWriter,
        place: Place,
        rollback: Rollback,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._writer = writer
        self._place = place
        self._rollback = rollback

    def keep_version(self, number: Any, tag: str | None) -> list[str]:
        """Give a version a tag, which keeps it from being expired; none takes the tag away."""
        number, tag = a_version("version", number), a_name("tag", tag)
        if tag is not None and (tag in (LATEST, CANDIDATE) or re.fullmatch(r"\d+", tag)):
            raise DbtRuntimeError(
                f"A tag must not be a number, {LATEST} or {CANDIDATE}, by which versions are asked "
                f"for already, got {tag!r}: give it another name."
            )
        with self._writer.writing():
            version = self._store.known_version(number)
            session, table = self._warehouse.session(), self._store.version_table
            tagged = session.sql(
                f"select version from {table} "
                f"where tag = {literal(tag)} and version <> {version.version}"
            ).first()
            if tagged is not None:
                raise DbtRuntimeError(
                    f"Version {tagged.version} has the tag {tag!r}, by which it is asked for: take "
                    f"it away first, keep_version --args '{{version: {tagged.version}}}', or "
                    f"give version {version.version} another tag."
                )
            session.sql(
                f"update {table} set tag = {literal(tag)} where version = {version.version}"
            )
        outcome = f"is kept as {tag}" if tag is not None else "has no tag any more"
        return [f"Version {version.version} {outcome}."]

    def expire_versions(self, keep: int, days: float, context: dict[str, Any]) -> list[str]:
        """Forget versions, and expire the snapshots that they alone held.

        Args:
            keep: how many of the newest stay.
            days: how old those that stay may be; what has a tag stays.
        """
        session = self._warehouse.session()
        keep, days = whole_number("keep", keep), days_back("days", days)
        with self._writer.writing():
            newest = self._store.known_version()
            self._place.check_delete(self._store.version_table)
            oldest = utc_now() - timedelta(days=days)
            session.sql(
                f"delete from {self._store.version_table} where tag is null and version <= "
                f"{newest.version - max(keep, 1)} and published_at < timestamp '{oldest}'"
            )
            kept = session.sql(
                f"select snapshots, inputs, queries from {self._store.version_table}"
            ).collect()
            candidate = self._store.version(CANDIDATE)
            held = kept if candidate is None else [*kept, candidate]
            # by snapshots alone, which no two tables share: a table may have got another name
            named: set[int] = set()
            for version in held:
                # what a view reads outside of the version stands in its query alone
                reads = set().union(*map(pinned_reads, version.queries.values()))
                named |= {*version.snapshots.values(), *(snapshot for _, snapshot in reads)}
            going_back = self._rollback.read_after_going_back(held, context)
            histories = {
                table: self._warehouse.history(table) for table in all_tables(self._warehouse)
            }
            for version in held:
                named.update(needed_to_go_back(version.snapshots, histories))
            read = set().union(*map(read_snapshots, histories.values()), *going_back.values())
            named.update(needed_to_read_on(read, histories.values()))
            gone = 0
            for table, history in histories.items():
                expired = expired_snapshots(history, named, read)
                if expired:
                    self._place.check_delete(table)
                    session.sql(
                        f"call {self._warehouse.credentials.catalog}.system.expire_snapshots("
                        f"table => {literal(table)}, older_than => timestamp '1970-01-02', "
                        f"snapshot_ids => array({', '.join(f'{number}L' for number in expired)}))"
                    ).collect()
                    gone += len(expired)
        return [f"{len(kept)} versions are kept; {gone} snapshots were expired."]
