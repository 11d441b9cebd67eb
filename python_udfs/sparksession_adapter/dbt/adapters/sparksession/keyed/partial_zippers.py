"""Zippers of partial rows: a change gives values to some columns, the others keep theirs.

A version then holds the last known value of each column at its time. What a change gives values to
is stored with it, so changes may come late, in any order and any batches, as in other zippers.

With sequence groups the changes of several inputs make one history of a wide row. Each group of
columns follows its own sequence. What the groups have in common is the time of their changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.keyed.layout import (
    HIDDEN,
    listed,
    named_struct,
    select_text,
)
from dbt.adapters.sparksession.keyed.settings import ZipperSettings
from dbt.adapters.sparksession.keyed.zipper_groups import (
    REMOVE_ROW,
    ZipperGroup,
    declared_groups,
)
from dbt.adapters.sparksession.keyed.zipper_places import KIND, UPSERT_RANK
from dbt.adapters.sparksession.keyed.zippers import AT, NEXT, Zipper, ZipperConfigError
from dbt.adapters.sparksession.sql import literal, quoted
from dbt.adapters.sparksession.yaml_fields import read_fields

KNOWN = f"{HIDDEN}known__"  # names of the columns that a change gives values to; null: all
LIFE, GROUP, CHANGE = (f"{HIDDEN}{name}__" for name in ("life", "group", "change"))
GONE_RANK = 2  # of a change that ends a version
SETTINGS = ("sequence_groups", "known_columns", "ignore_nulls", "keep_when")


def is_partial(config: Given) -> bool:
    """Whether the config of a zipper has a setting of partial rows."""
    return isinstance(config, Mapping) and any(config.get(name) for name in SETTINGS)


@dataclass(frozen=True)
class PartialZipper(Zipper):
    """The zipper of one model whose rows may be partial.

    Attributes:
        groups: the declared sequence groups; empty where one sequence orders all columns.
        known_columns: column, an array<string>, with the names of the columns that a row gives
            values to; null in a row that gives values to all. None where each row does.
        ignored_nulls: columns in which a null keeps the last known value. None means all columns.
        keep_when: SQL condition on the columns of a version: others aren't shown, the key is gone
            for their time.
    """

    groups: tuple[ZipperGroup, ...] = ()
    known_columns: str | None = None
    ignored_nulls: tuple[str, ...] | None = ()
    keep_when: str | None = None

    # ---- what an author declared ---------------------------------------------------------

    @classmethod
    def read(cls, model: str, unique_key: Given, config: Given) -> Self:
        """The zipper that a model's config declares.

        Raises:
            ZipperConfigError: with every problem of the config.
        """
        problems: list[str] = []
        setting = read_fields(ZipperSettings, config, "zipper.", [])  # the base class reports them
        groups = declared_groups(setting.sequence_groups, setting.row_kind, problems)
        common = dict(config)
        if groups:
            if "sequence" in config:
                problems.append("zipper.sequence and sequence_groups exclude each other")
            common["sequence"] = [name for group in groups for name in group.sequence] or [
                "sequence"
            ]
        try:
            zipper = super().read(model, unique_key, common)
        except ZipperConfigError as exc:
            raise ZipperConfigError(model, [*exc.problems, *problems]) from exc
        taken = {*zipper.key, *zipper.sequence, zipper.time}
        if groups and zipper.keep_time:
            problems.append(
                "zipper.keep_time isn't for sequence_groups, of which each has a time of its own"
            )
        problems += [
            f"zipper.sequence_groups.{group.name}.columns: {name} is a column of the key, the "
            "time or a sequence"
            for group in groups
            for name in group.columns
            if name in taken
        ]
        if problems:
            raise ZipperConfigError(model, problems)
        return replace(
            zipper,
            groups=groups,
            known_columns=setting.known_columns,
            ignored_nulls=_ignored(setting.ignore_nulls),
            keep_when=setting.keep_when,
        )

    @property
    def unseen_columns(self) -> dict[str, str]:
        known = {self.known_columns: "array<string>"} if self.known_columns else {}
        return {**super().unseen_columns, **known}

    @property
    def reading(self) -> Json:
        groups = {group.name: [group.columns, group.on_delete] for group in self.groups}
        return {**super().reading, "groups": groups, "keep_when": self.keep_when}

    def named_columns(self) -> set[str]:
        grouped = {name for group in self.groups for name in group.columns}
        return super().named_columns() | grouped | set(self.ignored_nulls or ())

    def without(self, names: set[str]) -> Self:
        def kept(columns: Iterable[str]) -> tuple[str, ...]:
            return tuple(column for column in columns if column not in names)

        zipper = super().without(names)
        return replace(
            zipper,
            groups=tuple(replace(group, columns=kept(group.columns)) for group in self.groups),
            ignored_nulls=None if self.ignored_nulls is None else kept(self.ignored_nulls),
        )

    def bound(self, columns: Sequence[tuple[str, str]]) -> Self:
        spelled = {name.lower(): name for name, _ in columns}
        kinds = dict(columns)
        problems: list[str] = []

        def there(names: Iterable[str], where: str) -> tuple[str, ...]:
            problems.extend(
                f"{where}: the model has no column {name}; it has {listed(spelled.values())}"
                for name in names
                if name.lower() not in spelled
            )
            return tuple(spelled.get(name.lower(), name) for name in names)

        known = self.known_columns
        if known:
            (known,) = there((known,), "zipper.known_columns")
            if kinds.get(known, "array<string>") != "array<string>":
                problems.append(
                    f"zipper.known_columns: {known} is {kinds[known]}, no array<string>"
                )
        groups = []
        for group in self.groups:
            where = f"zipper.sequence_groups.{group.name}"
            groups.append(
                replace(
                    group,
                    sequence=there(group.sequence, f"{where}.sequence"),
                    columns=there(group.columns, f"{where}.columns"),
                )
            )
        ignored = self.ignored_nulls
        if ignored is not None:
            ignored = there(ignored, "zipper.ignore_nulls")
        try:
            zipper = super().bound([pair for pair in columns if pair[0] != known])
        except ZipperConfigError as exc:
            # a group's sequence that isn't there is named once
            own = [
                problem for problem in exc.problems if not problem.startswith("zipper.sequence:")
            ]
            raise ZipperConfigError(self.model, own + problems) from exc
        grouped = {name for group in groups for name in group.columns}
        if groups:
            problems += [
                f"zipper.sequence_groups: {name} is in no group"
                for name in zipper._held
                if name not in grouped
            ]
        if problems:
            raise ZipperConfigError(self.model, problems)
        return replace(zipper, groups=tuple(groups), known_columns=known, ignored_nulls=ignored)

    # ---- what a batch is refused for -----------------------------------------------------

    @property
    def never_null(self) -> tuple[str, ...]:
        if not self.groups:
            return super().never_null
        return (*self.key, self.time)

    @property
    def _is_of_no_group(self) -> str:
        """SQL condition: a row is of no group, or the sequence of a group is null in part."""
        in_part = " or ".join(
            f"({quoted(group.sequence[0])} is null) <> ({quoted(name)} is null)"
            for group in self.groups
            for name in group.sequence[1:]
        )
        in_none = " and ".join(f"not ({group.has_rows})" for group in self.groups)
        return f"({in_none}){f' or {in_part}' if in_part else ''}"

    def refused_counts(self, rows: str) -> str:
        counts = super().refused_counts(rows)
        if not self.groups:
            return counts
        of_none = f"(select count_if({self._is_of_no_group}) as of_no_group from {rows})"
        return f"select * from ({counts}) as zipper__counts cross join {of_none} as zipper__groups"

    def refusal(self, counts: Iterable[int]) -> str | None:
        if not self.groups:
            return super().refusal(counts)
        *others, of_no_group = counts
        problem = super().refusal(others)
        if problem or not of_no_group:
            return problem
        sequences = "; ".join(f"{group.name}: {', '.join(group.sequence)}" for group in self.groups)
        return (
            f"{self.model}: {of_no_group} rows have null in the sequence of every group, or in a "
            f"part of it ({sequences}), so their place among the changes is unknown. Nothing was "
            "written. Leave such rows out of the model, or give them a value."
        )

    @property
    def _orders(self) -> list[tuple[tuple[str, ...], Sequence[str]]]:
        if not self.groups:
            return super()._orders
        return [(group.sequence, group.columns) for group in self.groups]

    @property
    def _is_whole(self) -> bool:
        return not any(map(self._is_partial, self._held))

    # ---- SQL: what is stored -------------------------------------------------------------

    def _is_partial(self, column: str) -> bool:
        return self.known_columns is not None or self._ignores_null(column)

    def _ignores_null(self, column: str) -> bool:
        return self.ignored_nulls is None or column in self.ignored_nulls

    def _knows(self, column: str) -> str:
        """SQL condition: a state row gives a value to a column."""
        conditions = [f"{quoted(KIND)} = {UPSERT_RANK}"]
        if self.known_columns is not None:
            known = quoted(KNOWN)
            # as the column is spelled: of states that were stored before names were in lower case
            spellings = dict.fromkeys((column.lower(), column))
            is_listed = " or ".join(
                f"array_contains({known}, {literal(name)})" for name in spellings
            )
            conditions.append(f"({known} is null or {is_listed})")
        if self._ignores_null(column):
            conditions.append(f"{quoted(column)} is not null")
        return " and ".join(conditions)

    @property
    def _more_state(self) -> dict[str, str]:
        if self.known_columns is None:
            return {}
        # the names of columns are the same in any case, as everywhere in Spark
        known = f"transform({quoted(self.known_columns)}, name -> lower(name))"
        if self.row_kind is None:
            return {KNOWN: known}
        # of a row that is gone nothing is known
        return {KNOWN: f"if({quoted(self.row_kind)} in ('+I', '+U'), {known}, array())"}

    def merge_states(self, rows: str) -> str:
        last = f"{HIDDEN}last__"
        ranked = named_struct({name: quoted(name) for name in (KIND, self.time)})
        made = {name: quoted(name) for name in self.row_key}
        made[last] = f"max({ranked})"
        columns = {name: quoted(name) for name in self.row_key}
        columns |= {name: f"{quoted(last)}.{quoted(name)}" for name in (KIND, self.time)}
        if self.known_columns is not None:
            known = quoted(KNOWN)
            made[KNOWN] = (
                f"case when not bool_or({quoted(KIND)} = {UPSERT_RANK} and {known} is null) "
                f"then array_sort(array_distinct(flatten(collect_list({known})))) end"
            )
            columns[KNOWN] = known
        for name in self._held:
            made[name] = f"max(if({self._knows(name)}, {_wrapped(name)}, null))"
            columns[name] = f"{quoted(name)}.{quoted(name)}"
        keys = ", ".join(map(quoted, self.row_key))
        return select_text(columns, f"({select_text(made, rows)}\ngroup by {keys}) as fold__made")

    def _merged_in_order(self, rows: str) -> str:
        return self.merge_states(rows)  # several rows of a place give one row its values

    # ---- SQL: what readers see -----------------------------------------------------------

    @property
    def _order(self) -> tuple[str, ...]:
        return (AT,) if self.groups else self.sequence

    @property
    def _untouched(self) -> tuple[str, ...]:
        return self.key if self.groups else super()._untouched

    @property
    def _valued(self) -> list[str]:
        return [*self._held, *self.sequence] if self.groups else self._held

    def _changes_by_time(self, rows: str) -> str:
        changes = self._changes_of_groups(rows) if self.groups else self._changes_of_all(rows)
        if self.keep_when is None:
            return changes
        is_kept = f"{quoted(KIND)} = {UPSERT_RANK} and not coalesce(({self.keep_when}), false)"
        return (
            f"select * except ({quoted(KIND)}), if({is_kept}, {GONE_RANK}, {quoted(KIND)}) as "
            f"{quoted(KIND)}\nfrom ({changes}) as zipper__any"
        )

    def _changes_of_all(self, rows: str) -> str:
        """The changes of a zipper without groups, with the last known values of all columns."""
        if not any(map(self._is_partial, self._held)):
            return super()._changes_by_time(rows)
        columns = {name: quoted(name) for name in dict.fromkeys((*self._untouched, KIND))}
        columns |= self._last_known(self._held, self.sequence)
        lives = f"select *, {self._life(self._window)} as {quoted(LIFE)}\nfrom {rows}"
        completed = select_text(columns, f"({lives}) as zipper__lives")
        return super()._changes_by_time(f"({completed}) as zipper__completed")

    def _life(self, window: str) -> str:
        """SQL: how often the row of a key, or of its group, was gone up to a change."""
        return (
            f"sum(if({quoted(KIND)} = {UPSERT_RANK}, 0, 1)) over ({window} "
            "rows between unbounded preceding and current row)"
        )

    def _last_known(
        self, columns: Iterable[str], sequence: Sequence[str], group: ZipperGroup | None = None
    ) -> dict[str, str]:
        """Column -> SQL: its last known value at a change, none of before the row was gone."""
        life = quoted(group.own(LIFE) if group else LIFE)
        parts = [*map(quoted, self.key), *([group.has_rows] if group else []), life]
        window = f"partition by {', '.join(parts)} order by {', '.join(map(quoted, sequence))}"
        frame = f"({window} rows between unbounded preceding and current row)"
        return {
            name: (
                f"last(if({self._knows(name)}, {_wrapped(name)}, null), true) over {frame}"
                f".{quoted(name)}"
                if self._is_partial(name)
                else quoted(name)
            )
            for name in columns
        }

    def _changes_of_groups(self, rows: str) -> str:
        """The changes of a zipper with groups: at each time at which a group changed, the values
        of all groups as of it."""
        keys = {name: quoted(name) for name in self.key}
        change = quoted(CHANGE)
        exploded = select_text(
            keys | {CHANGE: f"explode(array({', '.join(self._entries())}))"},
            f"({self._placed(rows)}) as zipper__placed",
        )
        # a group has one change at a time
        at_times = select_text(
            {**keys, AT: f"{change}.{quoted(AT)}"}
            | {
                group.own(GROUP): f"max({change}.{quoted(group.own(GROUP))})"
                for group in self.groups
            },
            f"({exploded}) as zipper__entries\nwhere {change}.counts\n"
            f"group by {', '.join([*keys.values(), f'{change}.{quoted(AT)}'])}",
        )
        frame = f"({self._window} rows between unbounded preceding and current row)"
        as_of = select_text(
            {**keys, AT: quoted(AT)}
            | {
                group.own(GROUP): f"last({quoted(group.own(GROUP))}, true) over {frame}"
                for group in self.groups
            },
            f"({at_times}) as zipper__at_times",
        )
        columns = {**keys, AT: quoted(AT)}
        columns[KIND] = f"if({self._is_there}, {UPSERT_RANK}, {GONE_RANK})"
        for group in self.groups:
            columns |= {
                name: f"{quoted(group.own(GROUP))}.{quoted(name)}"
                for name in (*group.columns, *group.sequence)
            }
        return select_text(columns, f"({as_of}) as zipper__as_of")

    @property
    def _is_there(self) -> str:
        """SQL condition on the states of the groups at a time: the key has a row."""
        there = {group.name: f"{quoted(group.own(GROUP))}.{quoted(KIND)}" for group in self.groups}
        in_one = " or ".join(f"coalesce({state}, false)" for state in there.values())
        not_removed = [
            f"coalesce({there[group.name]}, true)"
            for group in self.groups
            if group.on_delete == REMOVE_ROW
        ]
        return " and ".join([f"({in_one})", *not_removed])

    def _placed(self, rows: str) -> str:
        """Query of state rows with, for each group, the times of the row's change and of the next
        change, and the last known values of the group's columns."""
        columns = {name: quoted(name) for name in (*self.key, *self.sequence, KIND)}
        for group in self.groups:
            names, order = (", ".join(map(quoted, part)) for part in (self.key, group.sequence))
            window = f"partition by {names}, {group.has_rows} order by {order}"
            # each group has a log of its own, whose order is right where its clock steps back
            frame = f"({window} rows between unbounded preceding and current row)"
            at, life = quoted(group.own(AT)), quoted(group.own(LIFE))
            rows = (
                f"(select *, max({quoted(self.time)}) over {frame} as {at}, "
                f"{self._life(window)} as {life}\nfrom {rows}) as zipper__dated"
            )
            columns[group.own(AT)] = at
            columns[group.own(NEXT)] = f"lead({at}) over ({window})"
            columns |= self._last_known(group.columns, group.sequence, group)
        return select_text(columns, rows)

    def _entries(self) -> list[str]:
        """A struct for each group: whether a row's change of it counts, its time and the group's
        state from then on; the states of the other groups are null."""
        states = {}
        for group in self.groups:
            values = {name: quoted(name) for name in (*group.columns, *group.sequence)}
            is_there = {KIND: f"{quoted(KIND)} = {UPSERT_RANK}"}
            states[group.own(GROUP)] = named_struct(is_there | values)
        entries = []
        for group in self.groups:
            at, following = quoted(group.own(AT)), quoted(group.own(NEXT))
            # of several changes at one time the last one counts
            counts = f"{group.has_rows} and ({following} is null or {following} > {at})"
            own = {
                name: state if name == group.own(GROUP) else f"if(false, {state}, null)"
                for name, state in states.items()
            }
            entries.append(named_struct({"counts": counts, AT: at} | own))
        return entries

    # ---- what is stored ------------------------------------------------------------------

    def signature(self) -> str:
        whole = json.loads(super().signature())
        if self.known_columns is not None:
            whole["known_columns"] = True
        if self.ignored_nulls != ():
            ignored = self.ignored_nulls
            whole["ignore_nulls"] = True if ignored is None else sorted(ignored)
        if self.groups:
            whole["sequence"] = {group.name: group.sequence for group in self.groups}
        return json.dumps(whole, separators=(",", ":"))


def _ignored(setting: bool | tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns that `ignore_nulls` names, None for all."""
    if isinstance(setting, bool):
        return None if setting else ()
    return setting


def _wrapped(column: str) -> str:
    """A column's value in a struct: a null that is known differs from no value."""
    return named_struct({column: quoted(column)})
