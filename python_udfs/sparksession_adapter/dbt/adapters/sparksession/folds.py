"""Folds: how the rows that a keyed table got make up its rows, in any order and any batching.

A folded table is stored as runs of state rows, of which several may have one key. `combined` makes
one state row of them, `finished` the row that a reader sees. Combining is commutative and
associative, so neither order nor batching counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.sparksession.connections import literal, quoted
from dbt.adapters.sparksession.transforms import Transform

LEVEL = "run_level"  # column of a run's size class
HIDDEN = "fold__"  # names of state columns that no reader sees
UPSERT, TIE, ORDER, STATE = (f"{HIDDEN}{name}__" for name in ("upsert", "tie", "order", "state"))
DELETED = f"{HIDDEN}deleted__"
FOLDED_ROWS = "folded_rows"  # what derived rows are made of
OTHERS = "other"  # name of the group of all columns that no declared group rules
ON_DELETE = ("ignore", "retract", "remove_row")
OTHER_COLUMNS = ("last", "last_non_null")
FUNCTIONS = (
    "sum",
    "count",
    "max",
    "min",
    "bool_and",
    "bool_or",
    "first_value",
    "last_value",
    "last_non_null_value",
    "listagg",
    "collect",
    "bitmap_or",
)
RETRACTING = ("sum", "count", "last_value", "last_non_null_value")  # by themselves
NETTED = ("max", "min", "collect")  # where they keep the net count of each value
ORDERED = ("first_value", "last_value", "last_non_null_value", "listagg")
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
UNORDERED = ("map<", "variant")
TIMES = ("date", "timestamp", "timestamp_ntz")
# of how the runs lie, whatever they hold
RUN_SETTINGS = {
    "buckets": 4,
    "bucket_by": None,
    "partition_by": None,
    "tier_runs": 8,
    "tier_rows": 100_000,
}
SETTINGS = {
    "sequence": (),
    "tie_break": (),
    "sequence_groups": {},
    "aggregates": {},
    "other_columns": "last",
    "row_kind": None,
    "on_delete": None,
    "keep_when": None,
    "not_null": (),
    "derived": None,
    **RUN_SETTINGS,
    "tombstone_days": None,
    "tombstone_time": None,
}
EXAMPLE = (
    "config(materialized='folded', unique_key=['order_id'], "
    "fold={'sequence': ['binlog_file_number', 'binlog_position', 'row_number']})"
)


class FoldConfigError(ValueError):
    """The config of a folded model; the text lists every problem of it."""

    what, example = "fold", EXAMPLE

    def __init__(self, model: str, problems: Iterable[str]) -> None:
        lines = "".join(f"\n  - {one}" for one in problems)
        super().__init__(
            f"{model}: its {self.what} can't be built:{lines}\nExample: {self.example}"
        )


@dataclass(frozen=True)
class Aggregate:
    """How the values of one column become one.

    Attributes:
        function: one of FUNCTIONS.
        ignore_retract: whether rows that retract pass it by.
        netted: whether it keeps the net count of each value, so that it retracts.
        delimiter: between the values of listagg.
    """

    function: str
    ignore_retract: bool = False
    netted: bool = False
    delimiter: str = ","


@dataclass(frozen=True)
class Derived:
    """Rows that readers see instead of the folded ones, made of them.

    Attributes:
        by: columns of the key; the rows of one value of them are made of its folded rows alone.
        key: columns that tell the derived rows apart.
        sql: query of them from `folded_rows`.
    """

    by: tuple[str, ...]
    key: tuple[str, ...]
    sql: str


@dataclass(frozen=True)
class Group:
    """Columns that one sequence rules.

    Attributes:
        sequence: columns; a row where all are null says nothing of the group, one that is lower
            than what is known changes nothing.
        tie_break: columns that decide between equal sequences.
        columns: columns that hold the values of the row of the highest sequence.
        on_delete: what a retracting row does, one of ON_DELETE.
    """

    name: str
    sequence: tuple[str, ...] = ()
    tie_break: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    on_delete: str = "retract"

    @property
    def keeps_tie(self) -> bool:
        """Whether its tie break is kept in a column of its own; that of the others is in theirs."""
        return self.name != OTHERS and bool(self.tie_break)

    @property
    def order(self) -> tuple[str, ...]:
        """State columns that order the rows, the first ones first."""
        if self.keeps_tie:
            return (*self.sequence, TIE + self.name)
        return (*self.sequence, *self.tie_break)

    @property
    def is_there(self) -> str:
        """SQL condition: a row has something to say of the group."""
        return _any_known(self.sequence or self.order)


def _any_known(names: Iterable[str]) -> str:
    """SQL condition: one of the columns isn't null; true where there are none."""
    return " or ".join(f"{quoted(one)} is not null" for one in names) or "true"


def is_ordered(kind: str) -> bool:
    """Whether Spark compares values of a type, given as text."""
    return not any(word in kind for word in UNORDERED)


def names_in(value: Any) -> tuple[str, ...] | None:
    """Column names from a config's name or list of names; None where it is neither."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    return None


class RunLayout:
    """How the runs of a table lie: what is the same whatever their rows say.

    Attributes:
        model: name of the model.
        key: columns of the key.
        never_null: columns of the model's rows in which a null refuses the batch.
        row_kind: column of +I, -U, +U and -D, if there is one.
        partition_by: how the files of a run are split; by columns of the key alone.
        tier_runs: runs of one level that become one of a higher one.
        tier_rows: rows below which a run is of the lowest level.
    """

    model: str
    key: tuple[str, ...]
    never_null: tuple[str, ...]
    row_kind: str | None
    partition_by: tuple[Transform, ...]
    tier_runs: int
    tier_rows: int

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that tell state rows apart."""
        return self.key

    @property
    def touched_key(self) -> tuple[str, ...]:
        """Columns whose values in a state row tell which rows that a reader sees may change."""
        return self.key

    @property
    def reader_key(self) -> tuple[str, ...]:
        """Columns that tell the rows that a reader sees apart."""
        return self.key

    @property
    def reading(self) -> dict[str, Any]:
        """What is declared of the rows that a reader sees, whatever the state rows hold."""
        raise NotImplementedError

    def signature(self) -> str:
        """What the stored state rows depend on, as JSON."""
        raise NotImplementedError

    @staticmethod
    def differences(old: str, new: str) -> list[str]:
        """How what `new` says differs from what stored state rows were made by, as texts.

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
        return ", ".join([LEVEL, *(one.partition for one in self.partition_by)])

    def null_counts(self, rows: str) -> str:
        """Query of one row: how often each of `never_null` is null.

        Args:
            rows: SQL text for a `from`: the model's rows.
        """
        counts = ", ".join(f"count_if({quoted(one)} is null)" for one in self.never_null)
        return f"select {counts} from {rows}"

    def refused_counts(self, rows: str) -> str:
        """Query of one row: the counts that a batch may be refused for, see refusal.

        Args:
            rows: SQL text for a `from`: the model's rows.
        """
        return self.null_counts(rows)

    def refusal(self, counts: Iterable[int]) -> str | None:
        """Why a batch with these `refused_counts` isn't taken; None: it is."""
        told = [
            f"{name} in {count}"
            for name, count in zip(self.never_null, counts, strict=True)
            if count
        ]
        if not told:
            return None
        return (
            f"{self.model}: rows have null where the key and the order of changes need a value: "
            f"{', '.join(told)}. Nothing was written. Leave such rows out of the model, or give "
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
        if not is_ordered(kind):
            return [f"{where}: can't be compared, so no order of it is total; take to_json(..)"]
        for transform in self.partition_by:
            if transform.column == name and not transform.takes(kind):
                return [
                    f"{where}: {transform} can't be partitioned by; name another column of the "
                    "key, or another transform, in partition_by"
                ]
        return []

    def written(self, rows: str, level: int, columns: Iterable[Any]) -> str:
        """Query of a run as its files shall hold it: by partition, sorted by key in each.

        Args:
            rows: SQL text for a `from`: combined state rows.
            columns: the columns of the table of runs but for the level, in its order.
        """
        names = "".join(f",\n    {quoted(one.name)}" for one in columns)
        parts = ", ".join(one.value for one in self.partition_by)
        keys = ", ".join(map(quoted, self.row_key))
        return (
            f"select\n    cast({level} as int) as {LEVEL}{names}\nfrom {rows}\n"
            f"distribute by {parts}\nsort by {parts}, {keys}"
        )

    def folded(self, rows: str, run_count: int) -> str:
        """Query of the rows that a reader sees, from the state rows of runs.

        Args:
            rows: SQL text for a `from`: the runs.
            run_count: how many there are; of a single one the rows are read as they are.
        """
        if run_count == 1:
            return self.finished(rows)
        return self.finished(f"({self.combined(rows)}) as fold__combined")

    def purged(self, rows: str, runs: str) -> str:
        """Query of the combined state rows of all runs that have to be kept: here all of them.

        Args:
            rows: query of the combined state rows.
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
            return self.purged(self.combined(runs), runs)
        return self.combined(f"{runs} where {LEVEL} <= {level}")

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
        full = [one for one in set(levels) if levels.count(one) >= self.tier_runs]
        return max(full, default=None)


@dataclass(frozen=True)
class Fold(RunLayout):
    """The fold of one model.

    `read` takes it from the config, `bound` to the columns of the model's rows.

    Attributes:
        key: columns of unique_key.
        others: the group of all columns that no declared group rules.
        groups: the declared groups.
        partition_by: how the files of a run are split; by columns of the key alone.
        types: column -> Spark type of the model's rows, in their order; empty until it is bound.
    """

    model: str
    key: tuple[str, ...]
    others: Group
    groups: tuple[Group, ...] = ()
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    last_non_null: bool = False
    row_kind: str | None = None
    keep_when: str | None = None
    never_null: tuple[str, ...] = ()
    derived: Derived | None = None
    partition_by: tuple[Transform, ...] = ()
    tier_runs: int = 8
    tier_rows: int = 100_000
    tombstone_days: int | None = None
    tombstone_time: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def touched_key(self) -> tuple[str, ...]:
        """Columns whose values in a state row tell which rows that a reader sees may change."""
        return self.derived.by if self.derived else self.key

    @property
    def reader_key(self) -> tuple[str, ...]:
        """Columns that tell the rows that a reader sees apart."""
        return self.derived.key if self.derived else self.key

    @property
    def reading(self) -> dict[str, Any]:
        """What is declared of the rows that a reader sees, whatever the state rows hold."""
        derived = self.derived
        return {
            "keep_when": self.keep_when,
            "derived": derived and [derived.by, derived.key, derived.sql],
            "delimiters": {
                name: one.delimiter
                for name, one in self.aggregates.items()
                if one.function == "listagg"
            },
        }

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The declared groups behind that of the other columns."""
        return (self.others, *self.groups)

    # ---- what an author declared ---------------------------------------------------------

    @classmethod
    def read(cls, model: str, unique_key: Any, config: Any) -> Fold:
        """The fold that a model's config declares.

        Raises:
            FoldConfigError: with every problem of the config.
        """
        problems: list[str] = []
        config = {} if config is None else config
        if not isinstance(config, Mapping):
            raise FoldConfigError(model, [f"fold must be a mapping, got {config!r}"])
        for name in config.keys() - SETTINGS.keys():
            problems.append(f"fold.{name} is no setting; there are {', '.join(SETTINGS)}")
        setting = {**SETTINGS, **config}
        key = names_in(unique_key) or ()
        if not key:
            problems.append(f"unique_key must name the key's columns, got {unique_key!r}")
        row_kind = setting["row_kind"]
        ordered = setting["sequence"] or setting["tie_break"]
        # without an order no change is the newest, so none says that the row is gone
        by_default = ("remove_row" if ordered else "retract") if row_kind else "ignore"
        on_delete = setting["on_delete"] or by_default
        others = _group(OTHERS, setting | {"on_delete": on_delete}, (), "fold", problems)
        declared = setting["sequence_groups"]
        if not isinstance(declared, Mapping):
            problems.append(
                "fold.sequence_groups must map names to {sequence, columns}, got " + repr(declared)
            )
            declared = {}
        groups = []
        for name, one in declared.items():
            where = f"fold.sequence_groups.{name}"
            if not isinstance(one, Mapping):
                problems.append(f"{where} must be {{sequence, columns}}, got {one!r}")
                continue
            for extra in one.keys() - {"sequence", "columns", "tie_break", "on_delete"}:
                problems.append(f"{where}.{extra} is no setting of a group")
            if name == OTHERS:
                problems.append(f"{where}: {OTHERS!r} names the columns of no group, take another")
            defaults = {"on_delete": "retract", "tie_break": setting["tie_break"]}
            group = _group(name, defaults | dict(one), one.get("columns", ()), where, problems)
            if not group.sequence:
                problems.append(f"{where}.sequence must name at least one column")
            groups.append(group)
        aggregates = _aggregates(setting["aggregates"], problems)
        if names_in(setting["not_null"]) is None:
            problems.append(f"fold.not_null must be a list of columns, got {setting['not_null']!r}")
        problems += run_setting_problems("fold", setting)
        if setting["tombstone_days"] is not None:
            problems += _whole_number_problems("fold", setting, "tombstone_days")
        for name in ("row_kind", "keep_when", "tombstone_time"):
            if setting[name] is not None and not isinstance(setting[name], str):
                problems.append(f"fold.{name} must be a text, got {setting[name]!r}")
        if (setting["tombstone_days"] is None) != (setting["tombstone_time"] is None):
            problems.append("fold.tombstone_days and fold.tombstone_time need each other")
        if setting["other_columns"] not in OTHER_COLUMNS:
            problems.append(
                f"fold.other_columns must be one of {', '.join(OTHER_COLUMNS)}, "
                f"got {setting['other_columns']!r}"
            )
        fold = cls(
            model=model,
            key=key,
            others=others,
            groups=tuple(groups),
            aggregates=aggregates,
            last_non_null=setting["other_columns"] == "last_non_null",
            row_kind=row_kind,
            keep_when=setting["keep_when"],
            never_null=names_in(setting["not_null"]) or (),
            derived=_derived(setting["derived"], key, problems),
            partition_by=partition_setting("fold", setting, key, problems),
            tier_runs=setting["tier_runs"],
            tier_rows=setting["tier_rows"],
            tombstone_days=setting["tombstone_days"],
            tombstone_time=setting["tombstone_time"],
        )
        problems += fold._clashes() + partition_problems("fold", fold.partition_by, key)
        if problems:
            raise FoldConfigError(model, problems)
        return fold

    def _clashes(self) -> list[str]:
        """Problems between the parts of the config."""
        problems = []
        ruled_by: dict[str, str] = {}
        default = dict.fromkeys(self.others.tie_break, "tie_break")
        default |= dict.fromkeys(self.others.sequence, "sequence")
        for group in self.groups:
            for name in (*group.sequence, *group.columns):
                if name in self.key:
                    problems.append(
                        f"fold.sequence_groups.{group.name}: {name} is a column of the key, "
                        "which no group may hold"
                    )
                elif name in ruled_by:
                    problems.append(
                        f"fold.sequence_groups.{group.name}: {name} is in "
                        + (
                            f"group {ruled_by[name]} as well"
                            if ruled_by[name] != group.name
                            else "it twice"
                        )
                    )
                ruled_by.setdefault(name, group.name)
                if name in default:  # a state row has one column of a name
                    problems.append(
                        f"fold.sequence_groups.{group.name}: {name} is in fold.{default[name]} as "
                        "well; give the group a copy of it under another name"
                    )
        for name in (*self.others.sequence, *self.others.tie_break):
            if name in self.key:
                problems.append(f"fold.sequence and tie_break: {name} is a column of the key")
        sequences = {name for group in self.all_groups for name in group.order}
        for name, one in self.aggregates.items():
            where = f"fold.aggregates.{name}"
            if name in self.key:
                problems.append(f"{where}: {name} is a column of the key")
            if name in sequences:
                problems.append(f"{where}: {name} is a sequence, which keeps its highest value")
            group = self._group_of(name)
            if one.function in ORDERED and not group.order:
                problems.append(f"{where}: {one.function} needs a sequence to go by")
            retracts = one.function in RETRACTING or one.netted or one.ignore_retract
            if self.row_kind and group.on_delete != "ignore" and not retracts:
                way = " or `net: true`" if one.function in NETTED else ""
                problems.append(
                    f"{where}: {one.function} can't take a value back; "
                    f"say `ignore_retract: true`{way}, or on_delete: ignore for its group"
                )
        if not self.row_kind:
            for group in self.all_groups:
                if group.on_delete == "remove_row":
                    problems.append(
                        "on_delete: remove_row needs fold.row_kind, the column of +I, -U, +U and -D"
                    )
                    break
        elif self.others.on_delete == "remove_row" and not self.others.order:
            problems.append(
                "fold.on_delete: remove_row needs fold.sequence or tie_break, which tell whether a "
                "delete is the newest change; say retract or ignore"
            )
        if self.tombstone_days is not None and not self._removing():
            problems.append("fold.tombstone_days needs on_delete: remove_row somewhere")
        return problems

    # ---- bound to columns ----------------------------------------------------------------

    def named_columns(self) -> set[str]:
        """Columns that a group or a function names."""
        return {n for one in self.groups for n in one.columns} | set(self.aggregates)

    def without(self, names: set[str]) -> Fold:
        """The fold without columns that its table doesn't take."""
        groups = (
            replace(one, columns=tuple(n for n in one.columns if n not in names))
            for one in self.groups
        )
        aggregates = {n: one for n, one in self.aggregates.items() if n not in names}
        return replace(self, groups=tuple(groups), aggregates=aggregates)

    def bound(self, columns: Sequence[tuple[str, str]]) -> Fold:
        """The fold over rows of these columns (name, Spark type).

        Raises:
            FoldConfigError: with every column that is missing or of a type that can't be folded.
        """
        types = {name: kind for name, kind in columns if name != self.row_kind}
        known = {name for name, _ in columns}
        problems = []
        asked: dict[str, str] = {}
        for name in self.key:
            asked.setdefault(name, "unique_key")
        for group in self.all_groups:
            where = "fold" if group.name == OTHERS else f"fold.sequence_groups.{group.name}"
            for part in ("sequence", "tie_break", "columns"):
                for name in getattr(group, part):
                    asked.setdefault(name, f"{where}.{part}")
        for name in self.aggregates:
            asked.setdefault(name, f"fold.aggregates.{name}")
        for name in self.never_null:
            asked.setdefault(name, "fold.not_null")
        for setting in ("row_kind", "tombstone_time"):
            if getattr(self, setting):
                asked.setdefault(getattr(self, setting), f"fold.{setting}")
        for name, where in asked.items():
            if name not in known:
                problems.append(f"{where}: the model has no column {name}; it has {listed(known)}")
        for name in known:
            if name == LEVEL or name.startswith(HIDDEN):
                problems.append(f"{name}: names of this kind are the fold's own")
        ruled = {name for group in self.groups for name in (*group.sequence, *group.columns)}
        free = [name for name in types if name not in ruled and name not in self.key]
        order = (*self.others.sequence, *self.others.tie_break)
        rest = tuple(name for name in free if name not in self.aggregates and name not in order)
        aggregates = dict(self.aggregates)
        if rest and not order:
            problems.append(
                f"{listed(rest)}: of no group, without fold.sequence, and without a function in "
                "fold.aggregates; nothing says which value counts"
            )
        elif self.last_non_null:
            aggregates |= {name: Aggregate("last_non_null_value") for name in rest}
        time = self.tombstone_time
        ruled_by = {n: one.name for one in self.groups for n in (*one.sequence, *one.columns)}
        removing = {one.name for one in self._removing()}
        if time in types and ruled_by.get(time, OTHERS) not in removing:
            problems.append(
                f"fold.tombstone_time: {time} must be a column of a group with "
                "on_delete: remove_row"
            )
        if time in types and types[time] not in TIMES:
            problems.append(
                f"fold.tombstone_time: {time} is {types[time]}, must be {' or '.join(TIMES)}"
            )
        for name, kind in types.items():
            problems += self._type_problems(name, kind, aggregates.get(name))
        # a last value that retracts is what a column holds without a function
        plain = {
            name
            for name, one in aggregates.items()
            if one.function == "last_value" and not one.ignore_retract
        }
        if problems:
            raise FoldConfigError(self.model, problems)
        return replace(
            self,
            others=replace(self.others, columns=tuple(n for n in free if n not in order)),
            aggregates={n: one for n, one in aggregates.items() if n not in plain},
            types=types,
        )

    def _type_problems(self, name: str, kind: str, one: Aggregate | None) -> list[str]:
        where = f"{name} ({kind})"
        problems = self._layout_problems(name, kind)
        if problems or one is None:
            return problems
        if one.function == "sum" and not (kind in WHOLE_NUMBERS or kind.startswith("decimal")):
            return [f"{where}: a sum must not depend on the order; cast it to a decimal"]
        if one.function in ("bool_and", "bool_or") and kind != "boolean":
            return [f"{where}: {one.function} takes a boolean"]
        if one.function == "listagg" and kind != "string":
            return [f"{where}: listagg takes a string"]
        if one.function == "bitmap_or" and kind != "binary":
            return [f"{where}: bitmap_or takes a binary, such as of bitmap_construct_agg"]
        if self.tombstone_time == name:
            return [f"{where}: tombstone_time can't be aggregated"]
        return []

    def _group_of(self, name: str) -> Group:
        return next((one for one in self.groups if name in one.columns), self.others)

    def _retracts(self, group: Group) -> bool:
        """Whether retracting rows reach a group."""
        return self.row_kind is not None and group.on_delete != "ignore"

    def _resets(self, group: Group) -> bool:
        """Whether a group has values that end with a delete though no later one is known."""
        return self._retracts(group) and any(
            one.function == "last_non_null_value" and not one.ignore_retract
            for name, one in self.aggregates.items()
            if self._group_of(name) is group
        )

    def _drops_deletes(self) -> bool:
        """Whether rows that retract reach nothing, so that they tell of no key either."""
        return self.row_kind is not None and not any(
            self._retracts(one) and (one.order or one.columns) for one in self.all_groups
        )

    def _removing(self) -> list[Group]:
        return [one for one in self.all_groups if self.row_kind and one.on_delete == "remove_row"]

    def _plain(self, group: Group) -> list[str]:
        """Columns of a group that hold what its newest row says."""
        return [name for name in group.columns if name not in self.aggregates]

    def plain_columns(self) -> Iterator[list[str]]:
        """Of each group its columns, beside the key's, that hold what one of its rows said."""
        for group in self.all_groups:
            yield [*self.key, *self._plain(group)]

    # ---- SQL -----------------------------------------------------------------------------

    def lifted(self, rows: str) -> str:
        """Query of state rows, one for each of the model's rows that count.

        Args:
            rows: SQL text for a `from`.
        """
        columns = {name: quoted(name) for name in self.key}
        for group in self.all_groups:
            columns |= self._lifted_group(group)
        for name, one in self.aggregates.items():
            columns |= self._lifted_aggregate(name, one)
        query = select_text(columns, rows)
        return f"{query}\nwhere {self._is_upsert}" if self._drops_deletes() else query

    @property
    def _is_upsert(self) -> str:
        kind = quoted(self.row_kind or "")
        return (
            f"case when {kind} in ('+I', '+U') then true when {kind} in ('-U', '-D') then false "
            f"else {self._wrong_kind} end"
        )

    def _takes(self, group: Group) -> str:
        """SQL condition on a model's row: it counts for the group."""
        there = _any_known(group.sequence or group.tie_break)
        if self.row_kind and not self._retracts(group):
            return f"({there}) and {self._is_upsert}"
        return there

    def _order(self, group: Group) -> str:
        """SQL struct that orders a model's rows within the group."""
        parts = {name: quoted(name) for name in group.sequence}
        if group.keeps_tie:
            parts[TIE + group.name] = named_struct({name: quoted(name) for name in group.tie_break})
        else:
            parts |= {name: quoted(name) for name in group.tie_break}
        return named_struct(parts)

    def _lifted_group(self, group: Group) -> dict[str, str]:
        takes = self._takes(group)
        columns = {}
        for name in (*group.sequence, *(() if group.keeps_tie else group.tie_break)):
            passed = self.row_kind and not self._retracts(group)
            columns[name] = f"case when {takes} then {quoted(name)} end" if passed else quoted(name)
        if group.keeps_tie:
            tie = named_struct({name: quoted(name) for name in group.tie_break})
            columns[TIE + group.name] = f"case when {takes} then {tie} end"
        if self._retracts(group):
            columns[UPSERT + group.name] = f"case when {takes} then {self._is_upsert} end"
        if self._resets(group):
            columns[DELETED + group.name] = (
                f"case when ({takes}) and not {self._is_upsert} then {self._order(group)} end"
            )
        return columns | {name: quoted(name) for name in self._plain(group)}

    def _lifted_aggregate(self, name: str, one: Aggregate) -> dict[str, str]:
        group, value = self._group_of(name), quoted(name)
        takes = f"({self._takes(group)})"
        signed = self._retracts(group) and not one.ignore_retract
        if self._retracts(group) and one.ignore_retract:
            takes += f" and {self._is_upsert}"
        sign = f"if({self._is_upsert}, 1L, -1L)" if signed else "1L"
        if one.function == "count":
            return {name: f"case when {takes} and {value} is not null then {sign} end"}
        if one.function == "sum":
            wide = f"cast({value} as {self._sum_type(name)})"
            signed_value = f"if({self._is_upsert}, {wide}, -{wide})" if signed else wide
            return {name: f"case when {takes} then {signed_value} end"}
        if one.netted:
            counted = f"array({named_struct({'value': value, 'net_count': sign})})"
            return {STATE + name: f"case when {takes} and {value} is not null then {counted} end"}
        if one.function == "collect":
            return {
                STATE + name: f"case when {takes} and {value} is not null then array({value}) end"
            }
        if one.function == "listagg":
            entry = named_struct({"place": self._order(group), "value": value})
            return {
                STATE + name: f"case when {takes} and {value} is not null then array({entry}) end"
            }
        if one.function == "first_value":
            entry = self._first_entry(group, value)
            return {STATE + name: f"case when {takes} then {entry} end"}
        if one.function in ("last_value", "last_non_null_value"):
            if signed:
                takes += f" and {self._is_upsert}"
            if one.function == "last_non_null_value":
                takes += f" and {value} is not null"
            return {
                name: f"case when {takes} then {value} end",
                ORDER + name: f"case when {takes} then {self._order(group)} end",
            }
        return {name: f"case when {takes} then {value} end"}

    def _first_entry(self, group: Group, value: str) -> str:
        sequence = group.sequence or group.tie_break
        parts = {"sequence": named_struct({name: quoted(name) for name in sequence})}
        if self._breaks_ties(group):
            parts["tie"] = named_struct({name: quoted(name) for name in group.tie_break})
        return named_struct(parts | {"value": value})

    @staticmethod
    def _breaks_ties(group: Group) -> bool:
        return bool(group.sequence and group.tie_break)

    def _sum_type(self, name: str) -> str:
        kind = self.types[name]
        if not kind.startswith("decimal"):
            return "bigint"
        return f"decimal(38, {kind.rstrip(')').split(',')[1].strip()})"

    def combined(self, rows: str) -> str:
        """Query of state rows, one for each key, from state rows.

        Args:
            rows: SQL text for a `from`.
        """
        made = {name: quoted(name) for name in self.key}
        columns = dict(made)
        for group in self.all_groups:
            if group.order:
                last = HIDDEN + "last__" + group.name
                fields = list(group.order)
                if self._retracts(group):
                    fields.append(UPSERT + group.name)
                fields += self._plain(group)
                newest = named_struct({name: quoted(name) for name in fields})
                made[last] = f"max(case when {group.is_there} then {newest} end)"
                for name in fields:
                    columns[name] = f"{quoted(last)}.{quoted(name)}"
                if self._retracts(group):
                    for name in self._plain(group):
                        if name == self.tombstone_time:  # a tombstone's age
                            continue
                        stays = f"{quoted(last)}.{quoted(UPSERT + group.name)}"
                        columns[name] = f"case when {stays} then {columns[name]} end"
            if self._resets(group):
                made[DELETED + group.name] = f"max({quoted(DELETED + group.name)})"
                columns[DELETED + group.name] = quoted(DELETED + group.name)
        for name, one in self.aggregates.items():
            inner, outer = self._combined_aggregate(name, one)
            made |= inner
            columns |= outer
        keys = ", ".join(map(quoted, self.key))
        return select_text(columns, f"({select_text(made, rows)}\ngroup by {keys}) as fold__made")

    def _combined_aggregate(
        self, name: str, one: Aggregate
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Columns of the grouping query, and of the query over it."""
        group, value, state = self._group_of(name), quoted(name), quoted(STATE + name)
        if one.netted or one.function in ("collect", "listagg"):
            gathered = f"flatten(collect_list({state}))"
            # of listagg by place, so in sequence; a repeated row adds nothing
            whole = _net(state) if one.netted else f"array_sort(array_distinct({state}))"
            return {STATE + name: gathered}, {
                STATE + name: f"case when cardinality({state}) > 0 then {whole} end"
            }
        if one.function == "first_value":
            if not self._breaks_ties(group):
                return {STATE + name: f"min({state})"}, {STATE + name: state}
            lower = "one.sequence < best.sequence"
            later = "one.sequence = best.sequence and (one.tie, one.value) > (best.tie, best.value)"
            best = (
                f"reduce({state}, {state}[0], (best, one) -> "
                f"case when {lower} or ({later}) then one else best end)"
            )
            return {STATE + name: f"collect_list({state})"}, {
                STATE + name: f"case when cardinality({state}) > 0 then {best} end"
            }
        if one.function in ("last_value", "last_non_null_value"):
            last, order = HIDDEN + "last__of__" + name, quoted(ORDER + name)
            entry = named_struct({"place": order, "value": value})
            stays = "true"
            if self._resets(group) and not one.ignore_retract:
                deleted = quoted(DELETED + group.name)
                stays = f"({deleted} is null or {quoted(last)}.place >= {deleted})"
            return {last: f"max(case when {order} is not null then {entry} end)"}, {
                name: f"case when {stays} then {quoted(last)}.value end",
                ORDER + name: f"case when {stays} then {quoted(last)}.place end",
            }
        if one.function in ("sum", "count"):
            kind = "bigint" if one.function == "count" else self._sum_type(name)
            return {name: f"cast(sum({value}) as {kind})"}, {name: value}
        function = "bitmap_or_agg" if one.function == "bitmap_or" else one.function
        return {name: f"{function}({value})"}, {name: value}

    def finished(self, rows: str) -> str:
        """Query of the rows that a reader sees, from state rows of which no two have one key.

        Args:
            rows: SQL text for a `from`.
        """
        columns = {
            name: self._finished(name) if name in self.aggregates else quoted(name)
            for name in self.types
        }
        removed = " or ".join(self._is_removed(group) for group in self._removing())
        query = select_text(columns, rows) + (f"\nwhere not ({removed})" if removed else "")
        if self.keep_when:
            query = f"select *\nfrom ({query}) as fold__finished\nwhere {self.keep_when}"
        if self.derived:
            query = f"with {FOLDED_ROWS} as (\n{query}\n)\n\n{self.derived.sql}"
        return query

    @staticmethod
    def _is_removed(group: Group) -> str:
        return f"not coalesce({quoted(UPSERT + group.name)}, true)"

    def _finished(self, name: str) -> str:
        one, state = self.aggregates[name], quoted(STATE + name)
        if one.netted:
            held = f"filter({state}, one -> one.net_count > 0).value"
            if one.function == "collect":
                return f"case when cardinality({held}) > 0 then {held} end"
            return f"array_{one.function}({held})"
        if one.function == "collect":
            return state
        if one.function == "listagg":
            return f"array_join({state}.value, {literal(one.delimiter)})"
        if one.function == "first_value":
            return f"{state}.value"
        return quoted(name)

    def purged(self, rows: str, runs: str) -> str:
        """Query of the combined state rows of all runs that have to be kept.

        Those go whose tombstone is past its declared life, and sums that came to nothing and that
        `keep_when` doesn't show: of a merge readers see nothing. What no sequence rules outlives a
        tombstone: rows that take it back may still come.

        Args:
            rows: query of the combined state rows.
            runs: SQL text for a `from`: the runs, whose newest time tells the age; a time that is
                ahead of the clock makes no tombstone older.
        """
        gone = []
        if self.tombstone_time is not None:
            time = quoted(self.tombstone_time)
            now = f"cast(current_timestamp() as {self.types[self.tombstone_time]})"
            ended = [
                f"not coalesce({quoted(UPSERT + one.name)}, "
                f"{'true' if one in self._removing() else 'false'})"
                if self._retracts(one)
                else f"not ({one.is_there})"
                for one in self.all_groups
                if one.order
            ]
            ended += [
                self._is_empty(name) for name in self.aggregates if not self._group_of(name).order
            ]
            gone.append(
                f"{' and '.join(ended)} and {time} < "
                f"(select least(max({time}), {now}) from {runs}) "
                f"- interval {self.tombstone_days} days"
            )
        ordered = any(one.order for one in self.all_groups)
        summed = all(one.function in ("sum", "count") for one in self.aggregates.values())
        if self.aggregates and summed and not ordered and self.keep_when:
            empty = " and ".join(map(self._is_empty, self.aggregates))
            gone.append(f"{empty} and not coalesce({self.keep_when}, false)")
        if not gone:
            return rows
        condition = " or ".join(f"coalesce({one}, false)" for one in gone)
        return f"select *\nfrom ({rows}) as fold__kept\nwhere not ({condition})"

    def _is_empty(self, name: str) -> str:
        """SQL condition: the state of an aggregate of no sequence is as if no row had come."""
        one = self.aggregates[name]
        if one.function in ("sum", "count"):
            return f"coalesce({quoted(name)}, 0) = 0"
        if one.netted or one.function == "collect":
            return f"coalesce(cardinality({quoted(STATE + name)}), 0) < 1"
        return f"{quoted(name)} is null"

    def signature(self) -> str:
        """What the stored state rows depend on, as JSON."""
        groups = {
            one.name: [one.sequence, one.tie_break, one.on_delete if self.row_kind else None]
            for one in self.all_groups
        }
        columns = {}
        for name in self.types:
            one = self.aggregates.get(name)
            how = [one.function, one.ignore_retract, one.netted] if one else None
            columns[name] = [self._group_of(name).name, how]
        whole = {
            "unique_key": self.key,
            "partition_by": list(map(str, self.partition_by)),
            "groups": groups,
            "columns": columns,
        }
        return json.dumps(whole, separators=(",", ":"))

    @staticmethod
    def differences(old: str, new: str) -> list[str]:
        """How what `new` says differs from what stored state rows were made by, as texts; new and
        dropped columns and groups are no difference.

        Args:
            old, new: see signature.
        """
        was, now = json.loads(old), json.loads(new)
        if "groups" not in was:
            return ["it was a zipper, is a fold"]
        told = [
            f"{name} was {json.dumps(was.get(name))}, is {json.dumps(now[name])}"
            for name in ("unique_key", "partition_by")
            if was.get(name) != now[name]
        ]
        for part, what in (("groups", "group"), ("columns", "column")):
            for name in was[part].keys() & now[part].keys():
                if was[part][name] != now[part][name]:
                    told.append(
                        f"{what} {name} was {json.dumps(was[part][name])}, "
                        f"is {json.dumps(now[part][name])}"
                    )
        return sorted(told)


def run_setting_problems(where: str, setting: Mapping[str, Any]) -> list[str]:
    """What is wrong with the settings of how the runs lie."""
    problems = []
    for name, least in (("buckets", 1), ("tier_runs", 2), ("tier_rows", 1)):
        problems += _whole_number_problems(where, setting, name, least)
    if not isinstance(setting["bucket_by"], (str, type(None))):
        problems.append(f"{where}.bucket_by must be a text, got {setting['bucket_by']!r}")
    return problems


def _whole_number_problems(
    where: str, setting: Mapping[str, Any], name: str, least: int = 1
) -> list[str]:
    value = setting[name]
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    return [f"{where}.{name} must be a whole number from {least}, got {value!r}"]


def partition_setting(
    where: str, setting: Mapping[str, Any], key: tuple[str, ...], problems: list[str]
) -> tuple[Transform, ...]:
    """How the runs are partitioned below their level, as partition_by or buckets say."""
    given = setting["partition_by"]
    if given is None:
        column = setting["bucket_by"] or (key[0] if key else "")
        return (Transform("bucket", column, setting["buckets"]),)
    if setting["bucket_by"] is not None or setting["buckets"] != SETTINGS["buckets"]:
        problems.append(
            f"{where}.partition_by says what buckets and bucket_by say; take one of them"
        )
    found = []
    for text in given if isinstance(given, (list, tuple)) and given else [given]:
        try:
            found.append(Transform.read(text))
        except ValueError as exc:
            problems.append(f"{where}.partition_by {exc}")
    return tuple(found)


def partition_problems(
    where: str, partition_by: Iterable[Transform], key: Sequence[str]
) -> list[str]:
    """Transforms of columns that aren't the key's."""
    return [
        f"{where}.partition_by: {one} must be of a column of the key, which are {', '.join(key)}"
        for one in partition_by
        if key and one.column not in key
    ]


def _group(
    name: str, setting: Mapping[str, Any], columns: Any, where: str, problems: list[str]
) -> Group:
    parts = {}
    given = {"sequence": setting.get("sequence", ()), "columns": columns}
    given["tie_break"] = setting.get("tie_break", ())
    for part, value in given.items():
        names = names_in(value)
        if names is None:
            problems.append(f"{where}.{part} must be a list of columns, got {value!r}")
        parts[part] = names or ()
    if setting["on_delete"] not in ON_DELETE:
        problems.append(
            f"{where}.on_delete must be one of {', '.join(ON_DELETE)}, got {setting['on_delete']!r}"
        )
    return Group(name, on_delete=setting["on_delete"], **parts)


def _derived(declared: Any, key: tuple[str, ...], problems: list[str]) -> Derived | None:
    if declared is None:
        return None
    given = declared if isinstance(declared, Mapping) else {}
    by, own_key = names_in(given.get("by", ())), names_in(given.get("key", ()))
    sql = given.get("sql")
    if given.keys() != {"by", "key", "sql"} or not by or not own_key or not isinstance(sql, str):
        problems.append(
            "fold.derived must be {by: columns of the key, key: columns of the derived rows, sql: "
            f"a query from {FOLDED_ROWS}}}, got {declared!r}"
        )
        return None
    for name in by:
        if name not in key:
            problems.append(f"fold.derived.by: {name} is no column of the key, {listed(key)} are")
    return Derived(by, own_key, sql.strip())


def _aggregates(declared: Any, problems: list[str]) -> dict[str, Aggregate]:
    if not isinstance(declared, Mapping):
        problems.append(f"fold.aggregates must map columns to functions, got {declared!r}")
        return {}
    found = {}
    for name, given in declared.items():
        where = f"fold.aggregates.{name}"
        one = {"function": given} if isinstance(given, str) else given
        if not isinstance(one, Mapping) or "function" not in one:
            problems.append(f"{where} must be a function or {{function, ..}}, got {given!r}")
            continue
        for extra in one.keys() - {"function", "ignore_retract", "net", "delimiter"}:
            problems.append(f"{where}.{extra} is no setting of a function")
        function = one["function"]
        if function not in FUNCTIONS:
            problems.append(
                f"{where}.function must be one of {', '.join(FUNCTIONS)}, got {function!r}"
            )
        if one.get("net") and function not in NETTED:
            problems.append(f"{where}.net is for {', '.join(NETTED)}, not for {function!r}")
        found[name] = Aggregate(
            str(function),
            bool(one.get("ignore_retract", False)),
            bool(one.get("net", False)),
            str(one.get("delimiter", ",")),
        )
    return found


def _net(state: str) -> str:
    """SQL array of each value with its net count, those with none left out."""
    count = (
        f"reduce({state}, 0L, (total, one) -> "
        "if(one.value <=> counted, total + one.net_count, total))"
    )
    each = f"named_struct('value', counted, 'net_count', {count})"
    whole = f"transform(array_sort(array_distinct({state}.value)), counted -> {each})"
    return f"filter({whole}, one -> one.net_count <> 0)"


def named_struct(parts: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {one}' for name, one in parts.items())})"


def select_text(columns: Mapping[str, str], rows: str) -> str:
    lines = ",\n".join(
        f"    {one}" if one == quoted(name) else f"    {one} as {quoted(name)}"
        for name, one in columns.items()
    )
    return f"select\n{lines}\nfrom {rows}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
