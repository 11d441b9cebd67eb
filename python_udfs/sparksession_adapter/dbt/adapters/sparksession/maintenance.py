"""What is done to versions and tables between runs: compare, go back, keep, expire, compact."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote, urlparse

from dbt.adapters.base.meta import AdapterMeta, available
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.connections import literal, mark_of, quoted
from dbt.adapters.sparksession.folded import (
    COMPACTED_PROPERTY,
    FOLDED,
    RUNS_SUFFIX,
    stored_table_of,
)
from dbt.adapters.sparksession.iceberg import is_remote
from dbt.adapters.sparksession.inputs import ASKED_PROPERTY, INPUT_PROPERTY, REQUEST_PROPERTY
from dbt.adapters.sparksession.lease import Holder, LeaseRefusedError, utc_now
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.snapshots import (
    MODEL_PROPERTY,
    TABLE_PROPERTY,
    History,
    pinned_reads,
)
from dbt.adapters.sparksession.versions import (
    CANDIDATE,
    Version,
    differing,
    is_published,
)
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

# what Iceberg and Spark say of a commit by themselves has no dot, or begins so
ICEBERGS_OWN = ("partitions.", "spark.", "iceberg.", "engine.")
# what a model says of the one commit alone: nobody asks for the last word on it
OF_ONE_COMMIT = {
    *(
        "dbt.run",
        "dbt.model",
        TABLE_PROPERTY,
        "dbt.code",
        ASKED_PROPERTY,
        REQUEST_PROPERTY,
        COMPACTED_PROPERTY,
    ),
    "ods.changes_by_day",
}
SAMPLE_ROWS = 5
VIEW_FILES_STAY = 600  # seconds
CLOCKS_DIFFER = 3600  # seconds that two machines' clocks may be apart
SMALL_FILES = 5  # in one partition, from which on they are made one

logger = AdapterLogger("Spark")


def _java_texts(session: Any, texts: list[str]) -> Any:
    array = session.sparkContext._gateway.new_array(session._jvm.java.lang.String, len(texts))
    for place, text in enumerate(texts):
        array[place] = text
    return array


def _file_name(location: str) -> str:
    return location.rpartition("/")[2]


def declared_key(node: Mapping[str, Any]) -> list[str]:
    """Columns that a node itself says tell its rows apart; none where it doesn't say.

    A snapshot's unique_key is its source's: it has a row for each version of it.
    """
    config = node["config"]
    if node["resource_type"] == "snapshot":
        return [(config.get("snapshot_meta_column_names") or {}).get("dbt_scd_id") or "dbt_scd_id"]
    given = config.get("unique_key")
    return [given] if isinstance(given, str) else list(given or [])


def key_of(
    node: Mapping[str, Any] | None, columns: Iterable[str], tested: Sequence[str] = ()
) -> list[str]:
    """Columns that tell the rows of a node apart; none where it doesn't say.

    Args:
        columns: of its rows.
        tested: columns that a test says are unique together; see keys_by_test.
    """
    columns = list(columns)
    keys = declared_key(node) if node is not None else []
    if not keys and "unique_key" in columns:
        keys = ["unique_key"]
    keys = keys or list(tested)
    return keys if set(keys) <= set(columns) else []


def keys_by_test(nodes: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Node id -> columns that one of its tests, `unique_combination` or `unique`, says are unique
    in all of its rows."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        test = node.get("test_metadata") or {}
        if test.get("name") not in ("unique_combination", "unique") or node["config"].get("where"):
            continue
        given = test["kwargs"].get("columns") or [test["kwargs"].get("column_name")]
        if node.get("attached_node") and all(isinstance(one, str) for one in given):
            found.setdefault(node["attached_node"], list(given))
    return found


def is_put_back(node: Mapping[str, Any]) -> bool:
    """Whether roll_back and drop_candidate put a node's table back.

    `meta: {put_back: false}` is for what can't be made again: messages whose files are gone.
    """
    return node["config"].get("meta", {}).get("put_back", True)


UNKNOWN = partial(key_of, None)  # of a relation that no node makes any more


def row_text(columns: Iterable[str]) -> str:
    """SQL of a row's columns as one text that is the same for the same values."""
    names = ", ".join(quoted(one) for one in columns)
    return f"to_json(struct({names}), map('ignoreNullFields', 'false'))"


def compared(old: str, new: str, columns: list[str], keys: list[str]) -> str:
    """Query of the rows that two queries don't share: kind (added, removed, changed), row, was.

    Args:
        columns: those that both have.
        keys: columns that tell rows apart; none: equal rows are counted.
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


def expired_snapshots(history: History, named: set[int], read: set[int]) -> list[int]:
    """Snapshots that nobody needs any more.

    What a kept version names stays. So does the line from the newest commit back to the oldest
    that a reader's record names or that speaks last of some property: incremental reads go along
    it.

    Args:
        named: by versions that are kept.
        read: recorded as read by the newest commits of other tables.
    """
    line = history.ancestry(history.head)
    needed = {history.head} | read
    spoken: set[str] = set()
    for commit in line:
        said = {
            key
            for key in commit.summary.keys() - spoken - OF_ONE_COMMIT
            if "." in key and not key.startswith(ICEBERGS_OWN)
        }
        if said:
            spoken |= said
            needed |= {commit.id, commit.parent}
    last = max((place for place, one in enumerate(line) if one.id in needed), default=-1)
    kept = named | {one.id for one in line[: last + 1]}
    return sorted(history.snapshots.keys() - kept)


class Maintenance(metaclass=AdapterMeta):
    """The operations, as macros of the same names call them."""

    @contextmanager
    def _writing(self, is_recovery: bool = False) -> Iterator[None]:
        """Within it this process is the warehouse's one writer, and all tables are its own."""
        note = self.take_lease(is_recovery)
        if note:
            logger.info(note)
        try:
            for table in [] if is_recovery else self._tables():
                self.let_write(table)
            yield
        except BaseException:
            with suppress(LeaseRefusedError):  # what went wrong first is what counts
                self.give_back_lease()
            raise
        self.give_back_lease()

    @available
    def list_versions(self, limit: int) -> list[str]:
        """A line for each of the newest versions, newest first."""
        self.known_version()
        rows = self._session().sql(
            "select version, cast(published_at as timestamp_ntz) as at, made_by, tag, run_id, "
            "code_version, size(changed) as changed, size(behind) as behind "
            f"from {self._version_table} order by version desc limit {int(limit)}"
        )
        return [
            f"{one.version:>7}  {one.at:%Y-%m-%d %H:%M:%S} UTC  {one.changed:>4} changed  "
            f"{one.made_by}{f' [{one.tag}]' if one.tag else ''}  code {one.code_version}  "
            f"run {one.run_id}" + (f"  {one.behind} behind" if one.behind else "")
            for one in rows.collect()
        ]

    @available
    def diff_versions(
        self, first: Any, last: Any, select: str | None, rows: int, context: dict
    ) -> list[str]:
        """What a version says otherwise than another: per table rows added, removed and changed,
        and some of them.

        Args:
            select: one relation's name; None: all that differ.
            rows: how many rows of each are shown.
        """
        old, new = self.known_version(first), self.known_version(last)
        keys = self._keys_by_name(context)
        lines = [f"version {old.version} -> version {new.version}"]
        for name in differing(old.marks, new.marks):
            if select is not None and name.rpartition(".")[2] != select.rpartition(".")[2]:
                continue
            if name not in old.texts or name not in new.texts:
                lines.append(f"  {name}: {'new' if name in new.texts else 'gone'}")
                continue
            lines += self._difference(
                name, old.texts[name], new.texts[name], keys.get(name, UNKNOWN), int(rows)
            )
        return lines if len(lines) > 1 else [*lines, "  nothing differs"]

    def _difference(
        self,
        name: str,
        old: str,
        new: str,
        keys: Callable[[list[str]], list[str]],
        rows: int,
        kept: dict[str, dict[str, int]] | None = None,
    ) -> list[str]:
        """Lines that tell what one query of a relation says otherwise than another.

        Args:
            keys: of its columns those that tell its rows apart.
            kept: relation -> counts by kind, to be added to.
        """
        session = self._session()
        before, after = (session.sql(one).columns for one in (old, new))
        both = [one for one in after if one in before]
        sql = compared(old, new, both, keys(both))
        counts = {
            one.kind: one.n
            for one in session.sql(
                f"select kind, count(*) as n from ({sql}) group by kind"
            ).collect()
        }
        if kept is not None:
            kept[name] = counts
        told = ", ".join(f"{counts.get(one, 0):,} {one}" for one in ("added", "removed", "changed"))
        lines = [f"  {name}: {told}"]
        for kind, names in (("new", after), ("gone", before)):
            other = [one for one in names if one not in both]
            if other:
                lines.append(f"    {kind} columns: {', '.join(other)}")
        shown = f"select * from ({sql}) order by kind, row, was limit {rows}"
        for one in session.sql(shown).collect() if rows and counts else []:
            if one.was is not None:
                lines.append(f"    - {one.was}")
            if one.row is not None:
                lines.append(f"    + {one.row}")
        return lines

    def _keys_by_name(self, context: dict) -> dict[str, Callable[[list[str]], list[str]]]:
        """Relation -> what tells of its columns those by which its rows are told apart."""
        nodes = context["graph"]["nodes"]
        tested = keys_by_test(nodes.values())
        return {
            self._relation_of_node(node).render(): partial(
                key_of, node, tested=tested.get(unique_id, ())
            )
            for unique_id, node in nodes.items()
        }

    def compare_candidate(self, old: Version, new: Version, context: dict) -> list[str]:
        """Compare the build that is held back (`new`) with the newest version, row by row; lines
        that tell it. What each table and view came to is kept in meta_quality."""
        keys = self._keys_by_name(context)
        lines = [f"Held back: what the candidate says otherwise than version {old.version}"]
        kept: dict[str, dict[str, int]] = {}
        for name in new.changed:
            if name in old.texts and name in new.texts:
                texts = old.texts[name], new.texts[name]
                lines += self._difference(name, *texts, keys.get(name, UNKNOWN), SAMPLE_ROWS, kept)
        for table, snapshot in sorted(new.snapshots.items()):
            before = old.snapshots.get(table)
            commits = self.history(table).between(before, snapshot) if before != snapshot else []
            changed = [commit.partitions() or set() for commit in commits or []]
            written = sorted(set().union(*changed))
            if written:
                shown = ", ".join(written[:SAMPLE_ROWS])
                more = f" and {len(written) - SAMPLE_ROWS} more" * (len(written) > SAMPLE_ROWS)
                lines.append(f"  {table} was written in {shown}{more}")
        self._keep_comparison(old, new, kept)
        return [
            *lines,
            "dbt run-operation publish_candidate publishes it, dbt run-operation drop_candidate "
            "puts the tables back.",
        ]

    def _keep_comparison(
        self, old: Version, new: Version, kept: Mapping[str, Mapping[str, int]]
    ) -> None:
        table = f"{self.config.credentials.schema}.meta_quality"
        columns = (
            "check_name string, run_id string, checked_at timestamp, verdict string, "
            "threshold bigint, groups_compared bigint, groups_differing bigint, count_got bigint, "
            "count_expected bigint, count_difference bigint, sum_difference decimal(38, 4)"
        )
        session = self._session()
        session.sql(f"create table if not exists {table} ({columns}) using iceberg")
        names = ", ".join(one.split()[0] for one in columns.replace("(38, 4)", "").split(", "))
        for name, counts in kept.items():
            got, expected = (
                session.sql(f"select count(*) as n from ({one.texts[name]})").first().n
                for one in (new, old)
            )
            rows = sum(counts.values())
            added, removed = counts.get("added", 0), counts.get("removed", 0)
            session.sql(
                f"insert into {table} ({names}) select "
                f"{literal(f'{name}: candidate as version {old.version}')}, "
                f"{literal(get_invocation_id())}, current_timestamp(), "
                f"'{'differs' if rows else 'passed'}', 0, {max(got, expected)}, {rows}, "
                f"{got}, {expected}, {added + removed}, 0"
            )

    @available
    def publish_candidate(self) -> list[str]:
        """Publish the build that is held back as the next version."""
        with self._writing():
            newest, candidate = self.known_version(), self.known_version(CANDIDATE)
            version = replace(candidate, version=newest.version + 1, published_at=utc_now())
            self._publish(version, newest)
            self._drop_candidate_table()
        return [f"Published as version {version.version}."]

    @available
    def drop_candidate(self, context: dict) -> list[str]:
        """Put the tables back to the newest version, and forget the build that is held back."""
        with self._writing():
            self.known_version(CANDIDATE)
            newest = self.known_version()
            histories = {table: self.history(table) for table in newest.snapshots}
            lines = self._put_back(newest, histories, context)
            self._drop_candidate_table()
        return [*lines, f"The candidate is gone; the tables are version {newest.version} again."]

    def _drop_candidate_table(self) -> None:
        self.check_delete(self._candidate_table)
        self._session().sql(f"drop table if exists {self._candidate_table} purge")

    @available
    def roll_back(self, number: Any, context: dict) -> list[str]:
        """Publish a version again, and put the tables back to it.

        Readers of the newest version see it in one commit. Then the tables follow one by one: a
        run that comes later goes on from there, and reads again what came after. The log itself
        stays as it is; see is_put_back.
        """
        with self._writing():
            newest, wanted = self.known_version(), self.known_version(number)
            histories = {table: self.history(table) for table in wanted.snapshots}
            lost = [
                table
                for table, snapshot in wanted.snapshots.items()
                if snapshot not in histories[table].snapshots
            ]
            if lost:
                raise DbtRuntimeError(
                    f"Version {wanted.version} can't be gone back to: its rows of {lost[0]} have "
                    "expired."
                )
            changed = differing(newest.marks, wanted.marks)
            self._publish(
                replace(
                    wanted,
                    version=newest.version + 1,
                    published_at=utc_now(),
                    run_id=get_invocation_id(),
                    made_by=f"roll back to {wanted.version}",
                    tag=None,
                    changed=changed,
                ),
                newest,
            )
            lines = [f"Published version {wanted.version} anew, as version {newest.version + 1}."]
            lines += self._put_back(wanted, histories, context)
            lines += self._readers_of_expired(wanted, context)
        return lines

    def _readers_of_expired(self, version: Version, context: dict) -> list[str]:
        """Lines that name the tables of a version that can't read on from where they had read: an
        input that is not put back was replaced since, or its commits have expired."""
        lines = []
        for table, snapshots in self._read_after_going_back([version], context).items():
            history = self.history(table)
            if all(history.between(one, history.head) is not None for one in snapshots):
                continue
            readers = sorted(
                one.rpartition(".")[2].removesuffix(RUNS_SUFFIX)
                for one, reads in version.inputs.items()
                if table in reads
            )
            lines.append(
                f"{table} was replaced since, or its commits have expired: build what reads it "
                f"again before anything else, dbt build -s "
                f"{' '.join(f'{one}+' for one in readers)} "
                "--full-refresh."
            )
        return lines

    def _put_back(
        self, version: Version, histories: Mapping[str, History], context: dict
    ) -> list[str]:
        """Put the tables back to a version, with the views over them; a line for each table."""
        session, lines = self._session(), []
        nodes = [one for one in context["graph"]["nodes"].values() if is_published(one)]
        folded = {
            stored_table_of(one): one
            for one in nodes
            if one["config"].get("materialized") == FOLDED
        }
        kept = {stored_table_of(one) for one in nodes if not is_put_back(one)}
        for table, snapshot in sorted(version.snapshots.items()):
            if histories[table].head == snapshot:
                continue
            if table in kept:
                lines.append(f"{table} stays as it is: what came in is kept, and read again.")
                continue
            self.confirm_lease()
            now = session.sql(f"select * from {table}").schema
            then = session.sql(f"select * from {table} version as of {snapshot}").schema
            if now != then:
                name = table.rpartition(".")[2].removesuffix(RUNS_SUFFIX)
                lines.append(
                    f"{table} had other columns then and stays as it is: build it anew "
                    f"(dbt build -s {name}+ --full-refresh)."
                )
                continue
            if table in folded:  # its view may know of a single run only
                node = folded[table]
                fold = self._stored_fold(node, histories[table])
                self._write_live_view(node, fold.folded(table, 2))
            session.sql(
                f"call {self.config.credentials.catalog}.system.set_current_snapshot("
                f"{literal(table)}, {snapshot})"
            ).collect()
            lines.append(f"{table} is at snapshot {snapshot} again.")
        for node in nodes:
            if self._relation_of_node(node).render() not in version.texts:
                continue  # nobody has built it, or not yet then
            if node["config"].get("materialized") == FOLDED:
                self.inputs.forget(node["unique_id"])
                self._write_live_view(node, self.stored_sql(node))
            elif node["config"].get("materialized") == "view":
                # over the tables as they are
                sql = self._rendered(node, context, self._relation_of_node)
                self._write_live_view(node, sql)
        return lines

    def _write_live_view(self, node: Mapping[str, Any], sql: str) -> None:
        name = self._relation_of_node(node).render()
        self._session().sql(f"create or replace view {name} as {sql}")

    @available
    def keep_version(self, number: Any, tag: str | None) -> list[str]:
        """Give a version a tag, which keeps it from being expired; none takes the tag away."""
        with self._writing():
            version = self.known_version(number)
            if tag is not None and re.fullmatch(r"\d+|latest", str(tag)):
                raise DbtRuntimeError(f"A tag must not look like a version's number, got {tag!r}.")
            self._session().sql(
                f"update {self._version_table} set tag = {literal(tag)} "
                f"where version = {version.version}"
            )
        said = f"is kept as {tag}" if tag is not None else "has no tag any more"
        return [f"Version {version.version} {said}."]

    @available
    def expire_versions(self, keep: int, days: float, context: dict) -> list[str]:
        """Forget versions, and let go of the rows that they alone held.

        Args:
            keep: how many of the newest stay.
            days: how old those that stay may be; what has a tag stays.
        """
        session = self._session()
        with self._writing():
            newest = self.known_version()
            self.check_delete(self._version_table)
            oldest = utc_now() - timedelta(days=float(days))
            session.sql(
                f"delete from {self._version_table} where tag is null and version <= "
                f"{newest.version - max(int(keep), 1)} and published_at < timestamp '{oldest}'"
            )
            kept = session.sql(
                f"select snapshots, inputs, texts from {self._version_table}"
            ).collect()
            named: dict[str, set[int]] = {}
            for version in kept:
                # what a view reads outside of the version stands in its query alone
                reads = set().union(*map(pinned_reads, version.texts.values()))
                for table, snapshot in {*version.snapshots.items(), *reads}:
                    named.setdefault(table, set()).add(snapshot)
            going_back = self._read_after_going_back(kept, context)
            histories = {table: self.history(table) for table in self._tables()}
            gone = 0
            for table, history in histories.items():
                read = {
                    int(one)
                    for reader in histories.values()
                    if (one := reader.recorded(INPUT_PROPERTY + table)) is not None
                }
                read |= going_back.get(table, set())
                expired = expired_snapshots(history, named.get(table, set()), read)
                if expired:
                    self.check_delete(table)
                    session.sql(
                        f"call {self.config.credentials.catalog}.system.expire_snapshots("
                        f"table => {literal(table)}, older_than => timestamp '1970-01-02', "
                        f"snapshot_ids => array({', '.join(f'{one}L' for one in expired)}))"
                    ).collect()
                    gone += len(expired)
        return [f"{len(kept)} versions are kept; {gone} snapshots were let go."]

    def _read_after_going_back(self, versions: Iterable[Any], context: dict) -> dict[str, set[int]]:
        """Table -> snapshots that runs read on from once a version has been gone back to, of
        tables that are not put back with it.

        Args:
            versions: each with snapshots and inputs.
        """
        nodes = [one for one in context["graph"]["nodes"].values() if is_published(one)]
        stay = {stored_table_of(one) for one in nodes if not is_put_back(one)}
        found: dict[str, set[int]] = {}
        for version in versions:
            for reads in version.inputs.values():
                for table, snapshot in reads.items():
                    if table in stay or table not in version.snapshots:
                        found.setdefault(table, set()).add(snapshot)
        return found

    @available
    def compact(self, select: str | None, merge_runs: bool, context: dict) -> list[str]:
        """Make few files of many small ones, and publish the tables as they lie then.

        Args:
            select: one table's name; None: all.
            merge_runs: whether all runs of a folded model become one before.
        """
        lines: list[str] = []
        nodes = context["graph"]["nodes"].values()
        stored = {stored_table_of(one): one for one in nodes if one["resource_type"] != "test"}
        with self._writing():
            moved: dict[str, tuple[int, int]] = {}
            readings: dict[str, str] = {}
            for table in self._tables():
                names = {table, table.rpartition(".")[2], table.removesuffix(RUNS_SUFFIX)}
                names |= {one.rpartition(".")[2] for one in names}
                before = self.history(table)
                if (select is not None and select not in names) or before.head is None:
                    continue
                self.check_delete(table)
                node, merged = stored.get(table), ""
                if merge_runs and node is not None and table.endswith(RUNS_SUFFIX):
                    self.inputs.forget(node["unique_id"])
                    if self.is_declared_otherwise(node):
                        lines.append(
                            f"{table} keeps its runs: its model is declared otherwise by now; run "
                            "it first."
                        )
                    else:
                        merged = self._merged(table, node)
                made = ", ".join(filter(None, [merged, self._compacted(table, node)]))
                after = self.history(table)
                if made and after.head != before.head:
                    moved[table] = before.head, after.head
                    lines.append(f"{table}: {made}")
                if merged:
                    old, new = (
                        self._folded_sql(node, one, f"{table} version as of {one.head}")
                        for one in (before, after)
                    )
                    readings[old] = new
            newest = self.version()
            if newest is not None and moved:
                lines += self._publish_moved(newest, moved, readings)
        return lines or ["There was nothing to compact."]

    def _merged(self, table: str, node: Mapping[str, Any]) -> str:
        """Make one run of all that a folded model has; what was done."""
        own, model = own_session(self.config.credentials), node["unique_id"]
        merge = self.announce_compaction(node, everything=True)
        if merge is None:
            return ""
        count = self.run_count(node)
        self.set_snapshot_property("dbt.run", get_invocation_id())
        self.set_snapshot_property(MODEL_PROPERTY, model)
        self.set_snapshot_property(TABLE_PROPERTY, table)
        self.group_reads()
        own.session.sql(self.merge_statement(merge, self._relation_of(table)))
        own.reset()
        self.inputs.forget(model)
        self._write_live_view(node, self.stored_sql(node))
        return f"{count} runs became 1"

    def _compacted(self, table: str, node: Mapping[str, Any] | None) -> str:
        session, system = self._session(), f"{self.config.credentials.catalog}.system"
        config = node["config"] if node is not None else {}
        by = config.get("sort_by") or (
            config.get("unique_key") if config.get("materialized") == FOLDED else None
        )
        sort = ""
        if by:
            order = ", ".join([by] if isinstance(by, str) else by)
            sort = f", strategy => 'sort', sort_order => {literal(order)}"
        (done,) = session.sql(
            f"call {system}.rewrite_data_files(table => {literal(table)}{sort}, "
            f"options => map('min-input-files', '{SMALL_FILES}'))"
        ).collect()
        manifests = session.sql(f"select count(*) as n from {table}.manifests").collect()[0].n
        if manifests > SMALL_FILES:
            session.sql(f"call {system}.rewrite_manifests({literal(table)})").collect()
        told = []
        if done.rewritten_data_files_count:
            told.append(
                f"{done.rewritten_data_files_count} files became {done.added_data_files_count}"
            )
        if manifests > SMALL_FILES:
            told.append(f"{manifests} manifests were rewritten")
        return ", ".join(told)

    def _publish_moved(
        self,
        newest: Version,
        moved: Mapping[str, tuple[int, int]],
        readings: Mapping[str, str],
    ) -> list[str]:
        """Publish the newest version's rows as they lie after a compaction.

        Args:
            moved: table -> its snapshots before and after.
            readings: text of how a folded model was read -> how it is now.
        """
        texts, snapshots = dict(newest.texts), dict(newest.snapshots)
        inputs = {table: dict(read) for table, read in newest.inputs.items()}
        for table, (before, after) in moved.items():
            if snapshots.get(table) != before:  # rows that no version holds are among them
                continue
            snapshots[table] = after
            for read in inputs.values():
                if read.get(table) == before:
                    read[table] = after
            for name, text in texts.items():
                for old, new in readings.items():
                    text = text.replace(old, new)
                texts[name] = text.replace(
                    f"{table} version as of {before}", f"{table} version as of {after}"
                )
        marks = {name: mark_of(text) for name, text in texts.items()}
        changed = differing(newest.marks, marks)
        if not changed:
            return []
        self._publish(
            replace(
                newest,
                version=newest.version + 1,
                published_at=utc_now(),
                run_id=get_invocation_id(),
                made_by="compact",
                tag=None,
                changed=changed,
                snapshots=snapshots,
                inputs=inputs,
                texts=texts,
                marks=marks,
            ),
            newest,
        )
        return [f"Published as version {newest.version + 1}: the same rows."]

    @available
    def remove_orphans(self) -> list[str]:
        """Delete files in the tables' folders that no snapshot knows: what dead runs left."""
        with self._writing():
            tables = self._tables()
            self.check_own_folders(tables)
            files = sum(self._remove_orphans(table) for table in tables)
            files += self._remove_old_view_files()
        return [f"{files} files that no table knows were deleted."]

    def _remove_old_view_files(self) -> int:
        """Delete what views said before: each time one is written anew it gets a file of its own,
        and Iceberg keeps them all. How many it were; none on a remote session."""
        session, credentials = self._session(), self.config.credentials
        tables = self._tables()
        if not tables or is_remote(session):
            return 0
        io, jvm, files = self._loaded(tables[0]).io(), session._jvm, 0
        now = jvm.java.lang.System.currentTimeMillis()
        catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
            session._jsparkSession, credentials.catalog
        )
        for schema in (credentials.schema, credentials.published_schema):
            namespace = jvm.org.apache.iceberg.catalog.Namespace.of(_java_texts(session, [schema]))
            for name in self._listed(schema, "view"):
                known = jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, name)
                view = catalog.loadView(known)
                self.check_location(f"View {schema}.{name}", view.location())
                self.confirm_lease()
                current = view.operations().current().metadataFileLocation()
                for one in list(io.listPrefix(f"{view.location()}/metadata").iterator()):
                    # a reader that has just been told of it may still open it
                    old = now - one.createdAtMillis() > 1000 * VIEW_FILES_STAY
                    if old and _file_name(one.location()) != _file_name(current):
                        io.deleteFile(one.location())
                        files += 1
        return files

    def tidy_after(self, dead: Holder) -> None:
        """Delete the files that a dead run wrote and never committed."""
        tables = self._tables()
        self.tidy_tables(one for one in tables if self._has_files_since(one, dead.started_at))

    def tidy_tables(self, tables: Iterable[str]) -> None:
        """Delete the files of tables that no snapshot knows; those that aren't there have none."""
        wanted, left = set(tables), 0
        if wanted:
            known = self._tables()
            self.check_own_folders(known)
            left = sum(self._remove_orphans(one) for one in known if one in wanted)
        if left:
            logger.info(f"deleted {left} files that had not been committed")

    def _tables(self) -> list[str]:
        """schema.name of the warehouse's tables."""
        schema = self.config.credentials.schema
        return sorted(f"{schema}.{name}" for name in self._listed(schema, "table"))

    def _listed(self, schema: str, kind: str) -> list[str]:
        """Names of the tables or views that a schema has now; none where there is no schema."""
        found = self.list_relations_without_caching(self.Relation.create(schema=schema))
        return [one.identifier for one in found if one.type == kind]

    def _has_files_since(self, table: str, since: datetime | None) -> bool:
        """Whether a table's folder has a file newer than that; True where nobody can tell."""
        loaded = self._loaded(table)
        place = urlparse(loaded.location()) if loaded is not None else None
        if since is None or place is None or place.scheme not in ("", "file"):
            return True
        oldest = (since - timedelta(minutes=1) - datetime(1970, 1, 1)).total_seconds()
        for folder, _, files in os.walk(unquote(place.path)):
            if any(os.stat(os.path.join(folder, one)).st_mtime >= oldest for one in files):
                return True
        return False

    def _remove_orphans(self, table: str) -> int:
        self.check_delete(table)
        loaded = self._loaded(table)
        if loaded is None:  # Iceberg's procedure leaves what is younger than a day alone
            rows = self._session().sql(
                f"call {self.config.credentials.catalog}.system.remove_orphan_files("
                f"table => {literal(table)})"
            )
            return len(rows.collect())
        jvm = self._session()._jvm
        actions = jvm.org.apache.iceberg.spark.actions.SparkActions
        action = actions.get(self._session()._jsparkSession).deleteOrphanFiles(loaded)
        # nobody else writes: a file that no snapshot knows is nobody's
        until = jvm.java.lang.System.currentTimeMillis() + 1000
        if self._took_over is not None and not self._lease.saw_end:
            # but the run before may wake up, and commit the files that it wrote
            begun = self._took_over.started_at or datetime(1970, 1, 1)
            until = int((begun - datetime(1970, 1, 1)).total_seconds() - CLOCKS_DIFFER) * 1000
        result = action.olderThan(until).execute()
        return sum(1 for _ in result.orphanFileLocations())
