"""Folds: how the rows that a keyed table got make up its rows, in any order and any batching.

A folded table is stored as runs of state rows, of which several may have one key; see fold_sql.py.
Here stands what an author declares, and what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.keyed.descending import REVERSIBLE, is_reversible
from dbt.adapters.sparksession.keyed.fold_parts import (
    NETTED,
    declared_aggregates,
    declared_default,
    declared_derived,
    descending_of,
    names_of,
    sequence_groups_of,
)
from dbt.adapters.sparksession.keyed.fold_sql import FIRST
from dbt.adapters.sparksession.keyed.groups import OTHERS, Aggregate, Derived, Group
from dbt.adapters.sparksession.keyed.layout import (
    HIDDEN,
    LEVEL,
    TIMES,
    WHOLE_NUMBERS,
    FoldConfigError,
    column_names,
    listed,
)
from dbt.adapters.sparksession.keyed.settings import (
    FoldSettings,
    partition_problems,
    partition_setting,
)
from dbt.adapters.sparksession.keyed.taken_back_sql import TakenBackSql
from dbt.adapters.sparksession.yaml_fields import read_fields

RETRACTING = ("sum", "count", "last_value", "last_non_null_value")  # by themselves
ORDERED = (*FIRST, "last_value", "last_non_null_value", "listagg")


@dataclass(frozen=True)
class Fold(TakenBackSql):
    """The fold of one model.

    `read` takes it from the config, `bound` to the columns of the model's rows.

    Attributes:
        key: columns of unique_key.
        others: the group of all columns that no declared group rules.
        groups: the declared groups.
        count_rows: whether a key has a row only while the net count of its rows isn't 0.
        hidden_columns: those of the folded rows that no reader sees.
        default_aggregate: of columns that have no function of their own and order nothing.
        partition_by: how the files of a run are split; by columns of the key alone.
        types: column -> Spark type of the model's rows, in their order; empty until it is bound.
    """

    model: str
    key: tuple[str, ...]
    others: Group
    groups: tuple[Group, ...] = ()
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    default_aggregate: Aggregate | None = None
    last_non_null: bool = False
    row_kind: str | None = None
    count_rows: bool = False
    keep_when: str | None = None
    hidden_columns: tuple[str, ...] = ()
    never_null: tuple[str, ...] = ()
    derived: Derived | None = None
    partition_by: tuple[Transform, ...] = ()
    tier_runs: int = 8
    tier_rows: int = 100_000
    tombstone_days: int | None = None
    tombstone_time: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def placing_columns(self) -> tuple[str, ...]:
        """Columns of the model's rows by which a row has its key and its place there."""
        orders = [name for group in self.all_groups for name in (*group.sequence, *group.tie_break)]
        return (*super().placing_columns, *orders)

    @property
    def touched_key(self) -> tuple[str, ...]:
        """Columns whose values in a state row tell which rows that a reader sees may change."""
        return self.derived.by if self.derived else self.key

    @property
    def reader_key(self) -> tuple[str, ...]:
        """Columns that distinguish the rows that a reader sees."""
        return self.derived.key if self.derived else self.key

    @property
    def reading(self) -> Json:
        """What is declared of the rows that a reader sees, whatever the state rows hold."""
        derived, functions = self.derived, dict(self.aggregates)
        if self.default_aggregate is not None:
            functions["*"] = self.default_aggregate
        # tables that were made before columns could be hidden have the same hash as now
        hidden = {"hidden": sorted(self.hidden_columns)} if self.hidden_columns else {}
        return hidden | {
            "keep_when": self.keep_when,
            "derived": derived and [derived.by, derived.key, derived.sql],
            "delimiters": {
                name: aggregate.delimiter
                for name, aggregate in functions.items()
                if aggregate.function == "listagg"
            },
        }

    # ---- what an author declared ---------------------------------------------------------

    @classmethod
    def read(cls, model: str, unique_key: Given, config: Given) -> Fold:
        """The fold that a model's config declares.

        Raises:
            FoldConfigError: with every problem of the config.
        """
        problems: list[str] = []
        config = {} if config is None else config
        if not isinstance(config, Mapping):
            raise FoldConfigError(model, [f"fold must be a mapping, got {config!r}"])
        setting = read_fields(FoldSettings, config, "fold.", problems)
        key = column_names(unique_key) or ()
        if not key:
            problems.append(f"unique_key must name the key's columns, got {unique_key!r}")
        ordered = setting.sequence or setting.tie_break
        # without an order no change is the newest, so no change shows that the row is gone
        by_default = ("remove_row" if ordered else "retract") if setting.row_kind else "ignore"
        if (setting.tombstone_days is None) != (setting.tombstone_time is None):
            problems.append("fold.tombstone_days and fold.tombstone_time need each other")
        fold = cls(
            model=model,
            key=key,
            others=Group(
                OTHERS,
                sequence=names_of(setting.sequence),
                tie_break=names_of(setting.tie_break),
                on_delete=setting.on_delete or by_default,
                descending=descending_of(
                    (*setting.sequence, *setting.tie_break), "fold.sequence and tie_break", problems
                ),
            ),
            groups=sequence_groups_of(setting, problems),
            aggregates=declared_aggregates(setting.aggregates, problems),
            default_aggregate=declared_default(setting, problems),
            last_non_null=setting.other_columns == "last_non_null",
            row_kind=setting.row_kind,
            count_rows=setting.count_rows,
            keep_when=setting.keep_when,
            hidden_columns=setting.hidden_columns,
            never_null=setting.not_null,
            derived=declared_derived(setting.derived, key, problems),
            partition_by=partition_setting("fold", setting, key, problems),
            tier_runs=setting.tier_runs,
            tier_rows=setting.tier_rows,
            tombstone_days=setting.tombstone_days,
            tombstone_time=setting.tombstone_time,
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
        for name in self.hidden_columns:
            if name in self.key:
                problems.append(f"fold.hidden_columns: {name} is a column of the key")
        if self.hidden_columns and self.derived:
            problems.append(
                "fold.hidden_columns and fold.derived exclude each other: the query of derived "
                "rows names the columns that readers see"
            )
        sequences = {name for group in self.all_groups for name in group.order}
        for name, aggregate in self.aggregates.items():
            where = f"fold.aggregates.{name}"
            if name in self.key:
                problems.append(f"{where}: {name} is a column of the key")
            if name in sequences:
                problems.append(f"{where}: {name} is a sequence, which keeps its highest value")
            group = self._group_of(name)
            if aggregate.function in ORDERED and not group.order:
                problems.append(f"{where}: {aggregate.function} needs a sequence to go by")
            retracts = (
                aggregate.function in RETRACTING or aggregate.netted or aggregate.ignore_retract
            )
            if self.row_kind and group.on_delete != "ignore" and not retracts:
                way = " or `net: true`" if aggregate.function in NETTED else ""
                problems.append(
                    f"{where}: {aggregate.function} can't take a value back; "
                    f"set `ignore_retract: true`{way}, or on_delete: ignore for its group"
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
                "fold.on_delete: remove_row needs fold.sequence or tie_break, which decide whether "
                "a delete is the newest change; set retract or ignore"
            )
        if self.count_rows and not self.row_kind:
            problems.append("fold.count_rows needs fold.row_kind, the column of +I, -U, +U and -D")
        elif self.count_rows and self.others.on_delete == "ignore":
            problems.append(
                "fold.count_rows and fold.on_delete: ignore exclude each other: a delete that is "
                "ignored takes no row away"
            )
        if self.tombstone_days is not None and not self._removing():
            problems.append("fold.tombstone_days needs on_delete: remove_row somewhere")
        return problems

    # ---- bound to columns ----------------------------------------------------------------

    def named_columns(self) -> set[str]:
        """Columns that a group, a function or hidden_columns names."""
        of_groups = {name for group in self.groups for name in group.columns}
        return of_groups | {*self.aggregates, *self.hidden_columns}

    def without(self, names: set[str]) -> Fold:
        """The fold without columns that its table doesn't take."""
        groups = (
            replace(group, columns=tuple(n for n in group.columns if n not in names))
            for group in self.groups
        )
        aggregates = {n: aggregate for n, aggregate in self.aggregates.items() if n not in names}
        hidden = tuple(name for name in self.hidden_columns if name not in names)
        return replace(self, groups=tuple(groups), aggregates=aggregates, hidden_columns=hidden)

    def _with_default_on(self, columns: Sequence[tuple[str, str]], default: Aggregate) -> Fold:
        """The fold with its default function on each column that it is for.

        Raises:
            FoldConfigError: with every column that can't have it.
        """
        others = {*self.key, *self.aggregates, self.row_kind, self.tombstone_time}
        for group in self.all_groups:
            others |= {*group.sequence, *group.tie_break}
        defaults = {name: default for name, _ in columns if name not in others}
        fold = replace(self, aggregates={**self.aggregates, **defaults}, default_aggregate=None)
        problems = fold._clashes()
        if problems:
            raise FoldConfigError(self.model, problems)
        return fold

    def bound(self, columns: Sequence[tuple[str, str]]) -> Fold:
        """The fold over rows of these columns (name, Spark type).

        Raises:
            FoldConfigError: with every column that is missing or of a type that can't be folded.
        """
        if self.default_aggregate is not None:
            return self._with_default_on(columns, self.default_aggregate).bound(columns)
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
        for setting, names in {
            "hidden_columns": self.hidden_columns,
            "not_null": self.never_null,
        }.items():
            for name in names:
                asked.setdefault(name, f"fold.{setting}")
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
                "fold.aggregates; nothing decides which value counts"
            )
        elif self.last_non_null:
            aggregates |= {name: Aggregate("last_non_null_value") for name in rest}
        time = self.tombstone_time
        ruled_by = {
            n: group.name for group in self.groups for n in (*group.sequence, *group.columns)
        }
        removing = {group.name for group in self._removing()}
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
        for name in dict.fromkeys(n for group in self.all_groups for n in group.descending):
            if name in types and not is_reversible(types[name]):
                problems.append(
                    f"{asked[name]}: {name} is {types[name]}, which has no descending order here; "
                    f"cast it to one of {', '.join(REVERSIBLE)}"
                )
        # a last value that retracts is what a column holds without a function
        plain = {
            name
            for name, aggregate in aggregates.items()
            if aggregate.function == "last_value" and not aggregate.ignore_retract
        }
        if problems:
            raise FoldConfigError(self.model, problems)
        return replace(
            self,
            others=replace(self.others, columns=tuple(n for n in free if n not in order)),
            aggregates={n: aggregate for n, aggregate in aggregates.items() if n not in plain},
            types=types,
        )

    def _type_problems(self, name: str, kind: str, aggregate: Aggregate | None) -> list[str]:
        where = f"{name} ({kind})"
        problems = self._layout_problems(name, kind)
        if problems or aggregate is None:
            return problems
        if aggregate.function == "sum" and not (
            kind in WHOLE_NUMBERS or kind.startswith("decimal")
        ):
            return [f"{where}: a sum must not depend on the order; cast it to a decimal"]
        if aggregate.function in ("bool_and", "bool_or") and kind != "boolean":
            return [f"{where}: {aggregate.function} takes a boolean"]
        if aggregate.elements and not kind.startswith("array<"):
            return [f"{where}: elements takes an array"]
        if aggregate.function == "listagg" and kind != "string":
            return [f"{where}: listagg takes a string"]
        if aggregate.function == "bitmap_or" and kind != "binary":
            return [f"{where}: bitmap_or takes a binary, such as of bitmap_construct_agg"]
        if self.tombstone_time == name:
            return [f"{where}: tombstone_time can't be aggregated"]
        return []

    # ---- what stored rows were made by ---------------------------------------------------

    def signature(self) -> str:
        """What the stored state rows depend on, as JSON."""
        groups = {
            group.name: [
                group.directed(group.sequence),
                group.directed(group.tie_break),
                group.on_delete if self.row_kind else None,
            ]
            for group in self.all_groups
        }
        columns = {}
        for name in self.types:
            aggregate = self.aggregates.get(name)
            how = aggregate.stored_as if aggregate else None
            columns[name] = [self._group_of(name).name, how]
        whole: Json = {"count_rows": True} if self.count_rows else {}
        whole |= {
            "unique_key": self.key,
            "partition_by": list(map(str, self.partition_by)),
            "groups": groups,
            "columns": columns,
        }
        return json.dumps(whole, separators=(",", ":"))

    @staticmethod
    def differences(old: str, new: str) -> list[str]:
        """How `new` differs from what stored state rows were made by, as texts; new and
        dropped columns and groups are no difference.

        Args:
            old, new: see signature.
        """
        was, now = json.loads(old), json.loads(new)
        if "groups" not in was:
            return ["it was a zipper, is a fold"]
        found = [
            f"{name} was {json.dumps(was.get(name))}, is {json.dumps(now.get(name))}"
            for name in ("unique_key", "partition_by", "count_rows")
            if was.get(name) != now.get(name)
        ]
        for part, what in (("groups", "group"), ("columns", "column")):
            for name in was[part].keys() & now[part].keys():
                if was[part][name] != now[part][name]:
                    found.append(
                        f"{what} {name} was {json.dumps(was[part][name])}, "
                        f"is {json.dumps(now[part][name])}"
                    )
        return sorted(found)
