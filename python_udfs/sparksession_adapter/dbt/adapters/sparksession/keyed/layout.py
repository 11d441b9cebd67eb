"""How the runs of a keyed table lie, whatever their rows hold: levels, partitions, merges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from dbt.adapters.sparksession.edges import Foreign, Given, Json
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.sql import literal, quoted

LEVEL = "run_level"  # column of a run's size class
HIDDEN = "fold__"  # names of state columns that no reader sees
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
UNORDERED = ("map<", "variant")
COLLATED = "string collate "  # in a type's name
TIMES = ("date", "timestamp", "timestamp_ntz")
EXAMPLE = (
    "config(materialized='folded', unique_key=['order_id'], "
    "fold={'sequence': ['binlog_file_number', 'binlog_position', 'row_number']})"
)


class FoldConfigError(ValueError):
    """The config of a folded model; the text lists every problem of it."""

    what, example = "fold", EXAMPLE

    def __init__(self, model: str, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(
            f"{model}: its {self.what} can't be built:{lines}\nExample: {self.example}"
        )


def is_ordered_type_name(kind: str) -> bool:
    """Whether Spark compares values of a type, given as text."""
    return not any(word in kind for word in UNORDERED)


def column_names(value: Given) -> tuple[str, ...] | None:
    """Column names from a config's name or list of names; None where it is neither."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)) and all(
        isinstance(entry, str) and entry for entry in value
    ):
        return tuple(value)
    return None


class RunLayout:
    """How the runs of a table lie: what is the same whatever their rows say.

    Attributes:
        model: name of the model.
        key: columns of the key.
        row_kind: column of +I, -U, +U and -D, if there is one.
        partition_by: how the files of a run are split; by columns of the key alone.
        tier_runs: runs of one level that become one of a higher one.
        tier_rows: rows below which a run is of the lowest level.
    """

    model: str
    key: tuple[str, ...]
    row_kind: str | None
    partition_by: tuple[Transform, ...]
    tier_runs: int
    tier_rows: int

    @property
    def never_null(self) -> tuple[str, ...]:
        """Columns of the model's rows in which a null refuses the batch."""
        raise NotImplementedError

    @property
    def placing_columns(self) -> tuple[str, ...]:
        """Columns of the model's rows by which a row has its key and its place there."""
        return (*self.key, *self.never_null)

    @property
    def forgotten_by(self) -> str | None:
        """The condition by which a merge of all runs forgets keys that it hides; None where merges
        forget none by it."""
        return None

    @property
    def unseen_columns(self) -> dict[str, str]:
        """Columns of the model's rows that no reader sees -> their Spark types."""
        return {self.row_kind: "string"} if self.row_kind else {}

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that distinguish state rows."""
        return self.key

    @property
    def touched_key(self) -> tuple[str, ...]:
        """Columns whose values in a state row tell which rows that a reader sees may change."""
        return self.key

    @property
    def reader_key(self) -> tuple[str, ...]:
        """Columns that distinguish the rows that a reader sees."""
        return self.key

    @property
    def reading(self) -> Json:
        """What is declared of the rows that a reader sees, whatever the state rows hold."""
        raise NotImplementedError

    def signature(self) -> str:
        """What the stored state rows depend on, as JSON."""
        raise NotImplementedError

    @staticmethod
    def differences(old: str, new: str) -> list[str]:
        """How `new` differs from what stored state rows were made by, as texts.

        Args:
            old, new: see signature.
        """
        raise NotImplementedError

    def changed_since(self, signature: str) -> list[str]:
        """How the fold differs from that which stored state rows were made by; see differences."""
        return self.differences(signature, self.signature())

    @property
    def partitions(self) -> str:
        """Partitioning of the table of runs, as SQL."""
        return ", ".join([LEVEL, *(transform.partition for transform in self.partition_by)])

    def null_counts(self, rows: str) -> str:
        """Query of one row: how often each of `never_null` is null.

        Args:
            rows: SQL text for a `from`: the model's rows.
        """
        counts = ", ".join(f"count_if({quoted(column)} is null)" for column in self.never_null)
        return f"select {counts} from {rows}"

    def refused_counts(self, rows: str) -> str:
        """Query of one row: the counts that a batch may be refused for, see refusal.

        Args:
            rows: SQL text for a `from`: the model's rows.
        """
        return self.null_counts(rows)

    def refusal(self, counts: Iterable[int]) -> str | None:
        """The error text for a batch with these `refused_counts`, else None."""
        nulls = [
            f"{name} in {count}"
            for name, count in zip(self.never_null, counts, strict=True)
            if count
        ]
        if not nulls:
            return None
        return (
            f"{self.model}: rows have null where the key and the order of changes need a value: "
            f"{', '.join(nulls)}. Nothing was written. Leave such rows out of the model, or give "
            "them a value."
        )

    @property
    def _wrong_kind(self) -> str:
        """SQL that fails: a row's kind is none."""
        message = literal(f"{self.model}: {self.row_kind} must be +I, -U, +U or -D, got ")
        return f"raise_error(concat({message}, coalesce({quoted(self.row_kind or '')}, 'null')))"

    def _layout_problems(self, name: str, kind: str) -> list[str]:
        """What keeps a column of a type out of runs."""
        where = f"{name} ({kind})"
        if not is_ordered_type_name(kind):
            return [f"{where}: can't be compared, so no order of it is total; take to_json(..)"]
        if COLLATED in kind:
            # rows of one run would be of one key by it, and those of the next of another
            return [
                f"{where}: Iceberg keeps no collation, so that texts that are equal by it would "
                "differ once they are stored; take lower(..), or cast(.. as string)"
            ]
        for transform in self.partition_by:
            if transform.column == name and not transform.takes(kind):
                return [
                    f"{where}: {transform} can't be partitioned by; name another column of the "
                    "key, or another transform, in partition_by"
                ]
        return []

    def written(self, rows: str, level: int, columns: Iterable[Foreign]) -> str:
        """Query of a run as its files shall hold it: by partition, sorted by key in each.

        Args:
            rows: SQL text for a `from`: merged state rows.
            columns: the columns of the table of runs but for the level, in its order.
        """
        names = "".join(f",\n    {quoted(column.name)}" for column in columns)
        parts = ", ".join(transform.value for transform in self.partition_by)
        keys = ", ".join(map(quoted, self.row_key))
        return (
            f"select\n    cast({level} as int) as {LEVEL}{names}\nfrom {rows}\n"
            f"distribute by {parts}\nsort by {parts}, {keys}"
        )

    def merge_states(self, rows: str) -> str:
        """Query of state rows, one for each `row_key`, from state rows.

        Args:
            rows: SQL text for a `from`.
        """
        raise NotImplementedError

    def to_rows(self, rows: str) -> str:
        """Query of the rows that a reader sees, from state rows of which each `row_key` has one.

        Args:
            rows: SQL text for a `from`.
        """
        raise NotImplementedError

    def folded(self, rows: str, run_count: int) -> str:
        """Query of the rows that a reader sees, from the state rows of runs.

        Args:
            rows: SQL text for a `from`: the runs.
            run_count: how many there are; of a single one the rows are read as they are.
        """
        if run_count == 1:
            return self.to_rows(rows)
        return self.to_rows(f"({self._merged_in_order(rows)}) as fold__merged_states")

    def _merged_in_order(self, rows: str) -> str:
        """The rows of merge_states, in the way that to_rows is best served by."""
        return self.merge_states(rows)

    def drop_tombstones(self, rows: str, runs: str) -> str:
        """Query of the merged state rows of all runs that have to be kept: here all of them.

        Args:
            rows: query of the merged state rows.
            runs: SQL text for a `from`: the runs.
        """
        return rows

    def merged(self, runs: str, level: int, whole: bool) -> str:
        """Query of the state rows that the runs up to a level come to.

        Args:
            runs: SQL text for a `from`.
            whole: whether these are all runs: what no later row can need goes.
        """
        # a scan with a condition on the level is grouped by the level too: its fold is shuffled
        if whole:
            return self.drop_tombstones(self.merge_states(runs), runs)
        return self.merge_states(f"{runs} where {LEVEL} <= {level}")

    def level_of(self, rows: int) -> int:
        """Size class of a run: 0 below tier_rows, then one more for each factor tier_runs."""
        if rows < self.tier_rows:
            return 0
        return 1 + int(math.log(rows / self.tier_rows, self.tier_runs) + 1e-9)

    def level_to_compact(self, runs: Sequence[Sequence[int]]) -> int | None:
        """The highest level that holds too many runs: it and those below it become one.

        Args:
            runs: (level, rows) of each run.
        """
        levels = [level for level, _ in runs]
        full = [level for level in set(levels) if levels.count(level) >= self.tier_runs]
        return max(full, default=None)


def named_struct(parts: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {part}' for name, part in parts.items())})"


def select_text(columns: Mapping[str, str], rows: str) -> str:
    lines = ",\n".join(
        f"    {column}" if column == quoted(name) else f"    {column} as {quoted(name)}"
        for name, column in columns.items()
    )
    return f"select\n{lines}\nfrom {rows}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
