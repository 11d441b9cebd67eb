"""What a model reads in a run, how, and what its commit records of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.sparksession.iceberg.history import TABLE_PROPERTY, History, Snapshot
from dbt.adapters.sparksession.iceberg.partitions import PartitionReading

INPUT_PROPERTY = "dbt.input."  # and an input's schema.name: the snapshot that was read of it
UUID_PROPERTY = "dbt.input_uuid."  # the same: the uuid of that table
ASKED_PROPERTY = "asked.partitions"  # partitions that a run was asked to rewrite
REQUEST_PROPERTY = "asked.request"  # and why
CLOSED_PROPERTY = "level.closed_before"  # first day behind the periods that a level holds
INDEX_PROPERTY = "join.index"  # of a commit of an index of joins: what it is of
COUNTED_PROPERTY = "count.declared"  # the counts that a model's rows are of
# whether a model's rows were looked up in other rows of a table than its newest rows
LOOKUPS_PROPERTY = "looked_up.changed"
SnapshotRange = tuple[int | None, int | None]  # after the first snapshot, up to and with the last


@dataclass(frozen=True)
class Read:
    """An input of a model in this run.

    Attributes:
        table: schema.name of the input.
        uuid: the table's own; None where a remote session doesn't give it.
        recorded: snapshot that the model's last commit read; None when it never did.
        pinned: snapshot that this run reads.
        rows: rows read, where the snapshots' counters tell; else None.
        commits: the input's commits after `recorded`, newest first; None where the table was
            never read or was replaced since, or a name of its columns is another column's.
    """

    table: str
    recorded: int | None
    pinned: int
    rows: int | None = None
    commits: Sequence[Snapshot] | None = None
    uuid: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        """What a commit records of the read."""
        found = {INPUT_PROPERTY + self.table: str(self.pinned)}
        return found | ({UUID_PROPERTY + self.table: self.uuid} if self.uuid else {})

    @property
    def same_rows(self) -> bool:
        """Whether the input has the rows that it had then; a compaction changes none."""
        if self.recorded == self.pinned:
            return True
        commits = self.commits or []
        return bool(commits) and all(commit.operation == "replace" for commit in commits)

    @property
    def changes_nothing(self) -> bool:
        """The same, where commits say only what their writer had read: of these the model has to
        take note, or nobody could ever expire them."""
        known = self.commits is not None and not any(commit.changes_rows for commit in self.commits)
        return self.same_rows or known


@dataclass(frozen=True)
class OwnCommits:
    """A model's own commits as they were when it was compiled.

    Attributes:
        table: schema.name of the table that holds its rows; None of a query that no table holds.
        history: its commits.
    """

    table: str | None
    history: History

    @property
    def newest_reads(self) -> Mapping[str, tuple[int, str | None]]:
        """schema.name of each input that the model's rows are made of -> snapshot, table's uuid.

        The newest commit that names inputs names all of them: what an older one read has given way
        to these, as where a source named another table for a while, or a run read another schema
        by --defer.
        """
        for commit in self.history.ancestry(self.history.head):
            names = [key for key in commit.summary if key.startswith(INPUT_PROPERTY)]
            if names and commit.summary.get(TABLE_PROPERTY, self.table) == self.table:
                tables = (key.removeprefix(INPUT_PROPERTY) for key in names)
                return {
                    table: (
                        int(commit.summary[INPUT_PROPERTY + table]),
                        commit.summary.get(UUID_PROPERTY + table),
                    )
                    for table in tables
                }
        return {}

    def last_read(self, table: str, uuid: str | None) -> int | None:
        """The snapshot of an input that the model's rows are made of; None if they aren't made of
        it.

        Args:
            table: schema.name of the input.
            uuid: the table's own, None where it isn't known.
        """
        for name, (snapshot, recorded) in self.newest_reads.items():
            if is_same_table(name, recorded, table, uuid):
                return snapshot
        return None

    def reads_no_more(self, reads: Iterable[Read]) -> list[str]:
        """Inputs that the model's rows are made of and that aren't among these reads."""
        now = [(read.table, read.uuid) for read in reads]
        return [
            name
            for name, (_, uuid) in self.newest_reads.items()
            if not any(is_same_table(name, uuid, *current) for current in now)
        ]


def gives_new_rows(commits: Sequence[Snapshot] | None, keeps: bool) -> bool:
    """Whether the rows that commits added are all that a reader has to know of them.

    Args:
        commits: of an input; None where they aren't known.
        keeps: whether the reader keeps what it has of rows that are gone.
    """
    return commits is not None and all(
        commit.adds_only or (keeps and commit.only_removes) for commit in commits
    )


def is_same_table(name: str, uuid: str | None, other_name: str, other_uuid: str | None) -> bool:
    """Whether two names mean one table: by their uuids; by the names where either has none."""
    return name == other_name if None in (uuid, other_uuid) else uuid == other_uuid


@dataclass(frozen=True)
class GivenRows:
    """Rows that a macro gives a model's query, and makes right by itself: of a join, a stream, or
    extracts. They are those of a single run.

    Attributes:
        text: the part of the query.
        macro: the macro's name.
        key: columns by which the macro looks into the model's own table; none where it doesn't.
    """

    text: str
    macro: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class News:
    """How a model reads what is new in its inputs.

    Attributes:
        is_asked: whether it asks for new rows or changes of anything.
        reads_whole: whether new rows were asked for and all rows of an input are read instead.
        is_replayed: whether changes are read again that the model has read before.
        tolerates_replay: whether its query leaves out by itself what it has read before.
        is_repaired: whether a macro in its query makes right what single runs read a part of.
        asks_ranges: whether its query shall name the ranges of what it touches.
        texts: the parts of its query that read what is new.
        removals: those of them that may hold rows that have gone.
        of_tables: those of them that are what became of a table's rows, not the rows of a log.
        of_views: views outside of the project that it asks what is new of: no commit records what
            was read of them.
        unseen_by: key by which unseen_rows leaves out what the model's own table holds.
        given: the parts of its query that macros make right by themselves.
    """

    is_asked: bool = False
    reads_whole: bool = False
    is_replayed: bool = False
    tolerates_replay: bool = False
    is_repaired: bool = False
    asks_ranges: bool = False
    texts: frozenset[str] = frozenset()
    removals: frozenset[str] = frozenset()
    of_tables: frozenset[str] = frozenset()
    of_views: frozenset[str] = frozenset()
    unseen_by: tuple[str, ...] = ()
    given: frozenset[GivenRows] = frozenset()


@dataclass(frozen=True)
class ReplacedPartitions:
    """The partitions that a model rewrites.

    Attributes:
        predicate: SQL condition on its rows; None for all, `false` for none of them.
        read_predicate: the same in terms of the inputs' columns, where those differ.
    """

    predicate: str | None = None
    read_predicate: str | None = None


@dataclass(frozen=True)
class TouchedWindows:
    """The windows that a model rewrites.

    Attributes:
        view: name of the temporary view of them.
        predicate: SQL condition on the stored rows: the days in which they begin.
        same: SQL condition between `held` and `touched`: a stored row lies in such a window.
    """

    view: str
    predicate: str
    same: str


@dataclass(frozen=True)
class MergedRows:
    """How a Python model's rows take the place of those that are there.

    Attributes:
        by: columns that are equal in both.
        within: further SQL conditions on the rows that may give way.
        gone_when: SQL condition on the model's rows that only take away; None where no row does.
    """

    by: Sequence[str]
    within: Sequence[str] = ()
    gone_when: str | None = None


@dataclass(frozen=True)
class PythonAnswer:
    """What a Python model's code decided.

    Attributes:
        nothing_new: there is nothing to add.
        merged: how its rows take the place of others; None where they are added.
        asks_itself: whether it asked for what the model holds, so that it may find by itself what
            is new.
    """

    nothing_new: bool = False
    asks_itself: bool = False
    merged: MergedRows | None = None


@dataclass(frozen=True)
class ReadPlan:
    """What a model reads in this run, how, and what its commit will record.

    Attributes:
        own: the model's own commits; None until it has read a table.
        reads: table -> Read.
        relations: names (schema.name) of the tables and views that it asks a macro to read.
        unpinned: names of what it reads that has no snapshots: a view of another project, a table
            of another format or without a commit. Whether that has changed can't be known.
        ranges: table -> the range of snapshots whose appended rows its query reads.
        news: how it reads what is new.
        rebuilds: whether it reads as if it were built for the first time.
        by_partition: which of its inputs it reads by their changed partitions.
        replaced: the partitions that it rewrites; None unless it asked for changed partitions.
        windows: the windows that it rewrites; None unless it noted some.
        window_zones: zones in which the windows of its rows lie, of strategy replace_windows.
        asked_in: time zone of the session in which its macros asked for rows, or cut windows, as
            it was compiled; None where they didn't.
        python: of a Python model, what its code decided.
        batch_rows: about how many rows its run has; None for as many as it reads.
        counts: the counts that its rows are of, see record_count.
        properties: what its next commit records beside run, code and inputs.
    """

    own: OwnCommits | None = None
    reads: Mapping[str, Read] = field(default_factory=dict)
    relations: frozenset[str] = frozenset()
    unpinned: frozenset[str] = frozenset()
    ranges: Mapping[str, SnapshotRange] = field(default_factory=dict)
    news: News = field(default_factory=News)
    rebuilds: bool = False
    by_partition: PartitionReading = field(default_factory=PartitionReading)
    replaced: ReplacedPartitions | None = None
    windows: TouchedWindows | None = None
    window_zones: frozenset[str] = frozenset()
    asked_in: str | None = None
    python: PythonAnswer = field(default_factory=PythonAnswer)
    batch_rows: int | None = None
    counts: tuple[Mapping[str, Any], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def unchanged(self) -> bool:
        """Every input has the rows that the model's last commit read, and nothing else is asked."""
        return (
            bool(self.reads)
            and not self.unpinned
            and ASKED_PROPERTY not in self.properties
            and all(read.same_rows for read in self.reads.values())
        )

    @property
    def changes_nothing(self) -> bool:
        """No input has other rows than when the model last read it."""
        return bool(self.reads) and all(read.changes_nothing for read in self.reads.values())

    @property
    def lookups_differ(self) -> bool:
        """Whether rows that the model holds may have been looked up in other rows of a table, which
        is read as a whole, than the run looks new rows up in."""
        if self.own is None or self.own.history.head is None:
            return False
        others = [read for name, read in self.reads.items() if name not in self.by_partition.added]
        return (
            bool(self.unpinned)
            or self.own.history.recorded(LOOKUPS_PROPERTY) == "true"
            or not all(read.changes_nothing for read in others)
        )

    def noted_lookups(self, makes_all: bool) -> dict[str, str]:
        """What a commit records of them: nothing where no look-up has changed.

        Args:
            makes_all: whether all rows are made again.
        """
        if self.own is None or not self.lookups_differ:
            return {}
        return {LOOKUPS_PROPERTY: "false" if makes_all else "true"}

    def makes_all_rows(self, incremental: bool) -> bool:
        """Whether all rows are to be made, not those that changes touch.

        Args:
            incremental: whether the model's run is.
        """
        return self.rebuilds or self.news.reads_whole or not incremental

    @property
    def commit_properties(self) -> dict[str, str]:
        """What the commit of the model's rows records beside run and code."""
        found = dict(self.properties)
        for read in self.reads.values():
            found |= read.properties
        return found

    def with_news(self, **changes: Any) -> ReadPlan:
        """The plan with other values of `news`."""
        return replace(self, news=replace(self.news, **changes))

    def with_properties(self, properties: Mapping[str, str]) -> ReadPlan:
        """The plan whose commit records more."""
        return replace(self, properties={**self.properties, **properties})


NOTHING_READ = ReadPlan()
