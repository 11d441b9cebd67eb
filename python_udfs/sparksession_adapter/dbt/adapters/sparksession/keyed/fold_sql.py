"""The SQL of a fold: from a model's rows to state rows, to one of each key, to what readers see.

`to_state` makes state rows, `merge_states` one of those of a key, `to_rows` the row that a reader
sees. Merging is commutative and associative, so neither order nor batching counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dbt.adapters.sparksession.keyed.descending import reversed_value
from dbt.adapters.sparksession.keyed.groups import (
    DELETED,
    FOLDED_ROWS,
    ORDER,
    REVERSED,
    ROW_COUNT,
    STATE,
    TIE,
    UPSERT,
    VALUES,
    Aggregate,
    Derived,
    Group,
    any_known,
)
from dbt.adapters.sparksession.keyed.layout import HIDDEN, RunLayout, named_struct, select_text
from dbt.adapters.sparksession.sql import literal, quoted

FIRST = ("first_value", "first_non_null_value")
ELEMENT = f"{HIDDEN}element"


def _net(state: str) -> str:
    """SQL array of each value with its net count, those with none left out."""
    count = (
        f"reduce({state}, 0L, (total, one) -> "
        "if(one.value <=> counted, total + one.net_count, total))"
    )
    each = f"named_struct('value', counted, 'net_count', {count})"
    whole = f"transform(array_sort(array_distinct({state}.value)), counted -> {each})"
    return f"filter({whole}, one -> one.net_count <> 0)"


def _sum_of(name: str, kind: str = "bigint") -> str:
    return f"cast(sum({quoted(name)}) as {kind})"


class FoldSql(RunLayout):
    """The queries of a fold; what they go by is declared in `Fold`."""

    others: Group
    groups: tuple[Group, ...]
    aggregates: Mapping[str, Aggregate]
    count_rows: bool
    keep_when: str | None
    hidden_columns: tuple[str, ...]
    derived: Derived | None
    tombstone_days: int | None
    tombstone_time: str | None
    types: Mapping[str, str]

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The declared groups behind that of the other columns."""
        return (self.others, *self.groups)

    def _group_of(self, name: str) -> Group:
        return next((group for group in self.groups if name in group.columns), self.others)

    def _retracts(self, group: Group) -> bool:
        """Whether retracting rows reach a group."""
        return self.row_kind is not None and group.on_delete != "ignore"

    def _resets(self, group: Group) -> bool:
        """Whether a group has values that end with a delete though no later change is known."""
        return self._retracts(group) and any(
            aggregate.function == "last_non_null_value" and not aggregate.ignore_retract
            for name, aggregate in self.aggregates.items()
            if self._group_of(name) is group
        )

    def _drops_deletes(self) -> bool:
        """Whether rows that retract reach nothing, so that they make no key either."""
        reached = any(
            self._retracts(group) and (group.order or group.columns) for group in self.all_groups
        )
        return self.row_kind is not None and not reached and not self.count_rows

    def _removing(self) -> list[Group]:
        return [
            group for group in self.all_groups if self.row_kind and group.on_delete == "remove_row"
        ]

    def _plain(self, group: Group) -> list[str]:
        """Columns of a group that hold the values of its newest row."""
        return [name for name in group.columns if name not in self.aggregates]

    def plain_columns(self) -> Iterator[list[str]]:
        """Of each group its columns, beside the key's, that hold the values of a single row."""
        for group in self.all_groups:
            yield [*self.key, *self._plain(group)]

    def to_state(self, rows: str) -> str:
        """Query of state rows, one for each of the model's rows that count.

        Args:
            rows: SQL text for a `from`.
        """
        columns = {name: quoted(name) for name in self.key}
        if self.count_rows:
            columns[ROW_COUNT] = f"if({self._is_upsert}, 1L, -1L)"
        for group in self.all_groups:
            columns |= self._lifted_group(group)
        for name, aggregate in self.aggregates.items():
            columns |= self._lifted_aggregate(name, aggregate)
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
        there = any_known(group.sequence or group.tie_break)
        if self.row_kind and not self._retracts(group):
            return f"({there}) and {self._is_upsert}"
        return there

    def _order(self, group: Group) -> str:
        """SQL struct that orders a model's rows within the group."""
        parts = self._placed(group, group.sequence)
        if group.keeps_tie:
            parts[TIE + group.name] = named_struct(self._placed(group, group.tie_break))
        else:
            parts |= self._placed(group, group.tie_break)
        return named_struct(parts)

    def _placed(self, group: Group, names: Iterable[str]) -> dict[str, str]:
        """Column of a group's order -> SQL of what is higher the newer a row is."""
        return {
            name: reversed_value(quoted(name), self.types[name])
            if name in group.descending
            else quoted(name)
            for name in names
        }

    def _lifted_group(self, group: Group) -> dict[str, str]:
        takes = self._takes(group)
        columns = {}
        for name in (*group.sequence, *(() if group.keeps_tie else group.tie_break)):
            passed = self.row_kind and not self._retracts(group)
            columns[name] = f"case when {takes} then {quoted(name)} end" if passed else quoted(name)
        if group.keeps_tie:
            tie = named_struct(self._placed(group, group.tie_break))
            columns[TIE + group.name] = f"case when {takes} then {tie} end"
        if self._retracts(group):
            columns[UPSERT + group.name] = f"case when {takes} then {self._is_upsert} end"
        if self._resets(group):
            columns[DELETED + group.name] = (
                f"case when ({takes}) and not {self._is_upsert} then {self._order(group)} end"
            )
        return columns | {name: quoted(name) for name in self._plain(group)}

    def _lifted_aggregate(self, name: str, aggregate: Aggregate) -> dict[str, str]:
        group, value = self._group_of(name), quoted(name)
        takes = f"({self._takes(group)})"
        signed = self._retracts(group) and not aggregate.ignore_retract
        if self._retracts(group) and aggregate.ignore_retract:
            takes += f" and {self._is_upsert}"
        sign = f"if({self._is_upsert}, 1L, -1L)" if signed else "1L"
        if aggregate.function == "count":
            return {name: f"case when {takes} and {value} is not null then {sign} end"}
        if aggregate.function == "sum":
            wide = f"cast({value} as {self._sum_type(name)})"
            signed_value = f"if({self._is_upsert}, {wide}, -{wide})" if signed else wide
            columns = {name: f"case when {takes} then {signed_value} end"}
            if self.count_rows:
                columns[VALUES + name] = (
                    f"case when {takes} and {value} is not null then {sign} end"
                )
            return columns
        if aggregate.netted or aggregate.function == "collect":
            state = self._lifted_values(aggregate, value, sign)
            return {STATE + name: f"case when {takes} and {value} is not null then {state} end"}
        if aggregate.function == "listagg":
            entry = named_struct({"place": self._order(group), "value": value})
            return {
                STATE + name: f"case when {takes} and {value} is not null then array({entry}) end"
            }
        if aggregate.function in FIRST:
            entry = self._first_entry(group, value)
            if aggregate.function == "first_non_null_value":
                takes += f" and {value} is not null"
            return {STATE + name: f"case when {takes} then {entry} end"}
        if aggregate.function in ("last_value", "last_non_null_value"):
            if signed:
                takes += f" and {self._is_upsert}"
            if aggregate.function == "last_non_null_value":
                takes += f" and {value} is not null"
            return {
                name: f"case when {takes} then {value} end",
                ORDER + name: f"case when {takes} then {self._order(group)} end",
            }
        return {name: f"case when {takes} then {value} end"}

    @staticmethod
    def _lifted_values(aggregate: Aggregate, value: str, sign: str) -> str:
        """SQL array of the values of a row, each with its count where that is kept."""
        if aggregate.elements:
            values = f"filter({value}, one -> one is not null)"
            # a name that no column has, as the sign is of the row's kind
            counted = named_struct({"value": ELEMENT, "net_count": sign})
            return f"transform({values}, {ELEMENT} -> {counted})" if aggregate.counts else values
        if aggregate.counts:
            return f"array({named_struct({'value': value, 'net_count': sign})})"
        return f"array({value})"

    def _first_entry(self, group: Group, value: str) -> str:
        sequence = group.sequence or group.tie_break
        parts = {"sequence": named_struct(self._placed(group, sequence))}
        if self._breaks_ties(group):
            parts["tie"] = named_struct(self._placed(group, group.tie_break))
        return named_struct(parts | {"value": value})

    @staticmethod
    def _breaks_ties(group: Group) -> bool:
        return bool(group.sequence and group.tie_break)

    def _sum_type(self, name: str) -> str:
        kind = self.types[name]
        if not kind.startswith("decimal"):
            return "bigint"
        return f"decimal(38, {kind.rstrip(')').split(',')[1].strip()})"

    def merge_states(self, rows: str) -> str:
        """Query of state rows, one for each key, from state rows.

        Args:
            rows: SQL text for a `from`.
        """
        made = {name: quoted(name) for name in self.key}
        columns = dict(made)
        if self.count_rows:
            made[ROW_COUNT] = _sum_of(ROW_COUNT)
            columns[ROW_COUNT] = quoted(ROW_COUNT)
        for group in self.all_groups:
            if group.order:
                last = HIDDEN + "last__" + group.name
                fields = list(group.order)
                if self._retracts(group):
                    fields.append(UPSERT + group.name)
                fields += self._plain(group)
                newest = named_struct(
                    self._newest_first(group) | {name: quoted(name) for name in fields}
                )
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
        for name, aggregate in self.aggregates.items():
            inner, outer = self._combined_aggregate(name, aggregate)
            made |= inner
            columns |= outer
        keys = ", ".join(map(quoted, self.key))
        return select_text(columns, f"({select_text(made, rows)}\ngroup by {keys}) as fold__made")

    def _newest_first(self, group: Group) -> dict[str, str]:
        """Columns that order a group's state rows, as far as the last that descends: with what
        takes its place; nothing where no column does. A tie that is kept is kept in order."""
        falling = [place for place, name in enumerate(group.order) if name in group.descending]
        if not falling:
            return {}
        order = self._placed(group, group.order[: falling[-1] + 1])
        return {REVERSED + name: value for name, value in order.items()}

    def _combined_aggregate(
        self, name: str, aggregate: Aggregate
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Columns of the grouping query, and of the query over it."""
        group, value, state = self._group_of(name), quoted(name), quoted(STATE + name)
        if aggregate.netted or aggregate.function in ("collect", "listagg"):
            gathered = f"flatten(collect_list({state}))"
            # of listagg by place, so in sequence; a repeated row adds nothing
            whole = _net(state) if aggregate.counts else f"array_sort(array_distinct({state}))"
            return {STATE + name: gathered}, {
                STATE + name: f"case when cardinality({state}) > 0 then {whole} end"
            }
        if aggregate.function in FIRST:
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
        if aggregate.function in ("last_value", "last_non_null_value"):
            last, order = HIDDEN + "last__of__" + name, quoted(ORDER + name)
            entry = named_struct({"place": order, "value": value})
            stays = "true"
            if self._resets(group) and not aggregate.ignore_retract:
                deleted = quoted(DELETED + group.name)
                stays = f"({deleted} is null or {quoted(last)}.place >= {deleted})"
            return {last: f"max(case when {order} is not null then {entry} end)"}, {
                name: f"case when {stays} then {quoted(last)}.value end",
                ORDER + name: f"case when {stays} then {quoted(last)}.place end",
            }
        if aggregate.function in ("sum", "count"):
            kind = "bigint" if aggregate.function == "count" else self._sum_type(name)
            sums = {name: _sum_of(name, kind)}
            if aggregate.function == "sum" and self.count_rows:
                sums[VALUES + name] = _sum_of(VALUES + name)
            return sums, {name: quoted(name) for name in sums}
        function = "bitmap_or_agg" if aggregate.function == "bitmap_or" else aggregate.function
        return {name: f"{function}({value})"}, {name: value}

    def to_rows(self, rows: str) -> str:
        """Query of the rows that a reader sees, from state rows of which no two have one key.

        Args:
            rows: SQL text for a `from`.
        """
        columns = {
            name: self._finished(name) if name in self.aggregates else quoted(name)
            for name in self.types
            if self.keep_when or name not in self.hidden_columns  # which a condition may read
        }
        gone = [self._is_removed(group) for group in self._removing()]
        gone += [f"{quoted(ROW_COUNT)} = 0"] if self.count_rows else []
        query = select_text(columns, rows)
        if gone:
            query += f"\nwhere not ({' or '.join(gone)})"
        if self.keep_when:
            seen = "*"
            if self.hidden_columns:
                seen = ", ".join(
                    quoted(name) for name in columns if name not in self.hidden_columns
                )
            query = f"select {seen}\nfrom ({query}) as fold__finished\nwhere {self.keep_when}"
        if self.derived:
            # in a subquery, as it may begin with CTEs of its own
            derived = f"select *\nfrom (\n{self.derived.sql}\n) as fold__derived"
            query = f"with {FOLDED_ROWS} as (\n{query}\n)\n\n{derived}"
        return query

    @staticmethod
    def _is_removed(group: Group) -> str:
        return f"not coalesce({quoted(UPSERT + group.name)}, true)"

    def _finished(self, name: str) -> str:
        aggregate, state = self.aggregates[name], quoted(STATE + name)
        if self.count_rows and aggregate.function == "count":
            return f"coalesce({quoted(name)}, 0L)"
        if self.count_rows and aggregate.function == "sum":
            return f"case when not ({self._is_empty(name)}) then {quoted(name)} end"
        if aggregate.counts:
            held = f"filter({state}, one -> one.net_count > 0)"
            if not aggregate.distinct:
                each = f"transform({held}, one -> array_repeat(one.value, int(one.net_count)))"
                return f"case when cardinality({held}) > 0 then flatten({each}) end"
            held += ".value"
            if aggregate.function == "collect":
                return f"case when cardinality({held}) > 0 then {held} end"
            return f"array_{aggregate.function}({held})"
        if aggregate.function == "collect":
            return state
        if aggregate.function == "listagg":
            return f"array_join({state}.value, {literal(aggregate.delimiter)})"
        if aggregate.function in FIRST:
            return f"{state}.value"
        return quoted(name)

    def drop_tombstones(self, rows: str, runs: str) -> str:
        """Query of the merged state rows of all runs that have to be kept.

        Those go whose tombstone is past its declared life, and those of which nothing is left and
        that aren't shown: of a merge readers see nothing. What no sequence rules outlives a
        tombstone: rows that take it back may still come.

        Args:
            rows: query of the merged state rows.
            runs: SQL text for a `from`: the runs, whose newest time gives the age; a time that is
                ahead of the clock makes no tombstone older.
        """
        gone = []
        if self.tombstone_time is not None:
            time = quoted(self.tombstone_time)
            now = f"cast(current_timestamp() as {self.types[self.tombstone_time]})"
            ended = [
                f"not coalesce({quoted(UPSERT + group.name)}, "
                f"{'true' if group in self._removing() else 'false'})"
                if self._retracts(group)
                else f"not ({group.is_there})"
                for group in self.all_groups
                if group.order
            ]
            ended += [
                self._is_empty(name) for name in self.aggregates if not self._group_of(name).order
            ]
            ended += [f"{quoted(ROW_COUNT)} = 0"] if self.count_rows else []
            gone.append(
                f"{' and '.join(ended)} and {time} < "
                f"(select least(max({time}), {now}) from {runs}) "
                f"- interval {self.tombstone_days} days"
            )
        empty = [self._is_empty(name) for name in self.aggregates]
        if any(group.order for group in self.all_groups):
            pass  # a place in an order is left
        elif self.count_rows:
            gone.append(" and ".join([f"{quoted(ROW_COUNT)} = 0", *empty]))
        elif self.forgotten_by is not None:
            gone.append(f"{' and '.join(empty)} and not coalesce({self.keep_when}, false)")
        if not gone:
            return rows
        condition = " or ".join(f"coalesce({condition}, false)" for condition in gone)
        return f"select *\nfrom ({rows}) as fold__kept\nwhere not ({condition})"

    @property
    def forgotten_by(self) -> str | None:
        has_order = any(group.order for group in self.all_groups)
        sums = bool(self.aggregates) and all(map(self._is_zero_again, self.aggregates))
        return self.keep_when if sums and not has_order and not self.count_rows else None

    def _is_zero_again(self, name: str) -> bool:
        """Whether an aggregate that is 0 and goes on from 0 is what it is from no row on: not so
        where the next row may have no value, so that its sum is null."""
        aggregate, group = self.aggregates[name], self._group_of(name)
        passes_by = self._retracts(group) and aggregate.ignore_retract
        is_sum = aggregate.function in ("sum", "count")
        return is_sum and name in self.never_null and not passes_by

    def _is_empty(self, name: str) -> str:
        """SQL condition: the state of an aggregate of no sequence is as if no row had come."""
        aggregate = self.aggregates[name]
        if aggregate.function == "sum" and self.count_rows:
            return f"coalesce({quoted(VALUES + name)}, 0) = 0 and coalesce({quoted(name)}, 0) = 0"
        if aggregate.function in ("sum", "count"):
            return f"coalesce({quoted(name)}, 0) = 0"
        if aggregate.netted or aggregate.function == "collect":
            return f"coalesce(cardinality({quoted(STATE + name)}), 0) < 1"
        return f"{quoted(name)} is null"
