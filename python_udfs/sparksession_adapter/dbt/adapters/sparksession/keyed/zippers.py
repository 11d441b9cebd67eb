"""Zippers: the versions that each key of a changing table had, from a log that may come late.

What is stored are the changes themselves, as a folded table's runs: one state row per key and
sequence. From when to when a version was valid follows from the changes beside it, whenever it is
read, so a late change needs no repair: it splits, shortens and joins versions by being there.
Nothing that is stored ever goes: a late change may end a version anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.keyed.layout import (
    HIDDEN,
    LEVEL,
    TIMES,
    WHOLE_NUMBERS,
    FoldConfigError,
    column_names,
    listed,
    named_struct,
    select_text,
)
from dbt.adapters.sparksession.keyed.settings import (
    ZipperSettings,
    partition_problems,
    partition_setting,
)
from dbt.adapters.sparksession.keyed.zipper_places import (
    KIND,
    RANKS,
    UPSERT_RANK,
    PlacesSql,
)
from dbt.adapters.sparksession.sql import literal, quoted
from dbt.adapters.sparksession.yaml_fields import read_fields

# period -> columns of a version: since when, until when, whether it hasn't ended. Valid time is
# when a row was so; known time, SQL's system time, when the warehouse held that it was so
VALID_TIME, KNOWN_TIME = "valid", "known"
PERIODS = {
    VALID_TIME: ("valid_from", "valid_to", "is_current"),
    KNOWN_TIME: ("known_from", "known_to", "is_believed"),
}
AT, NEXT, EARLIER, STEP, VERSION = (
    f"{HIDDEN}{name}__" for name in ("at", "next", "earlier", "step", "version")
)
ENDS, IGNORED = "ends", "ignored"  # what an unpaired retraction does
EXAMPLE = (
    "config(materialized='folded', unique_key='product_id', "
    "zipper={'sequence': ['binlog_file_number', 'binlog_position', 'row_number'], "
    "'time': 'event_time', 'tracked': ['price'], 'row_kind': 'row_kind'})"
)


class ZipperConfigError(FoldConfigError):
    """The config of a zipper; the text lists every problem of it."""

    what, example = "zipper", EXAMPLE


@dataclass(frozen=True)
class Zipper(PlacesSql):
    """The zipper of one model.

    `read` takes it from the config, `bound` to the columns of the model's rows.

    Attributes:
        key: columns of unique_key.
        sequence: columns that order the changes of a key, in total; none may be null.
        time: column that dates a change, never null. A change whose time lies before that of an
            earlier change in sequence counts from that change's: the log's order is right, its
            clock may step back.
        tracked: columns whose change begins a version; None for all other columns. A
            version has the last values of the columns that aren't tracked.
        row_kind: column of +I, -U, +U and -D; None if all rows are upserts. A -U has the sequence
            of its +U, under its own key or the key that the row moved to.
        unpaired_retraction: what a -U does whose sequence no +U has: ENDS, it ends the version at
            its own time; IGNORED: no -U does anything. None: a batch with a -U is refused, for
            its +U may be filtered out, or come with a sequence of its own.
        period: what the times are: VALID_TIME or KNOWN_TIME, see PERIODS.
        keep_time: whether a version has the time of the change that began it.
        types: column -> Spark type of the model's rows, in their order; empty until it is bound.
    """

    model: str
    key: tuple[str, ...]
    sequence: tuple[str, ...]
    time: str
    tracked: tuple[str, ...] | None = None
    row_kind: str | None = None
    unpaired_retraction: str | None = None
    period: str = VALID_TIME
    keep_time: bool = False
    partition_by: tuple[Transform, ...] = ()
    tier_runs: int = 8
    tier_rows: int = 100_000
    types: Mapping[str, str] = field(default_factory=dict)

    # ---- what an author declared ---------------------------------------------------------

    @classmethod
    def read(cls, model: str, unique_key: Given, config: Given) -> Self:
        """The zipper that a model's config declares.

        Raises:
            ZipperConfigError: with every problem of the config.
        """
        problems: list[str] = []
        if not isinstance(config, Mapping):
            raise ZipperConfigError(model, [f"zipper must be a mapping, got {config!r}"])
        setting = read_fields(ZipperSettings, config, "zipper.", problems)
        key = column_names(unique_key) or ()
        if not key:
            problems.append(f"unique_key must name the key's columns, got {unique_key!r}")
        sequence, tracked = setting.sequence, setting.tracked
        time = setting.time or (sequence[0] if len(sequence) == 1 else None)
        if time is None:
            given = config.get("time")
            problems.append(f"zipper.time must name the column that dates a change, got {given!r}")
        if setting.unpaired_retraction and not setting.row_kind:
            problems.append("zipper.unpaired_retraction has no effect without zipper.row_kind")
        for what, names in {
            "sequence": sequence,
            "tracked": tracked or (),
            "time": (time,) if time else (),
        }.items():
            problems += [
                f"zipper.{what}: {name} is a column of the key" for name in names if name in key
            ]
        problems += [
            f"zipper.tracked: {name} orders or dates the changes, each differs in it"
            for name in tracked or ()
            if name in sequence or name == time
        ]
        partition_by = partition_setting("zipper", setting, key, problems)
        if problems or time is None:
            raise ZipperConfigError(model, dict.fromkeys(problems))
        return cls(
            model=model,
            key=key,
            sequence=sequence,
            time=time,
            tracked=tracked,
            row_kind=setting.row_kind,
            unpaired_retraction=setting.unpaired_retraction,
            period=setting.period,
            keep_time=setting.keep_time,
            partition_by=partition_by,
            tier_runs=setting.tier_runs,
            tier_rows=setting.tier_rows,
        )

    @property
    def reading(self) -> Json:
        """What is declared of the rows that a reader sees, whatever the state rows hold."""
        more: Json = {} if self.period == VALID_TIME else {"period": self.period}
        if self.keep_time:
            more["keep_time"] = True
        return {"tracked": self.tracked, **more}

    @property
    def period_columns(self) -> tuple[str, str, str]:
        """Columns of a version: since when, until when, whether it hasn't ended."""
        return PERIODS[self.period]

    def named_columns(self) -> set[str]:
        """Columns that come and go with the model's: those that are tracked by name."""
        return set(self.tracked or ())

    def without(self, names: set[str]) -> Self:
        """The zipper without columns that its table doesn't take."""
        if self.tracked is None:
            return self
        return replace(
            self, tracked=tuple(column for column in self.tracked if column not in names)
        )

    def bound(self, columns: Sequence[tuple[str, str]]) -> Self:
        """The zipper over rows of these columns (name, Spark type); names in any case.

        Raises:
            ZipperConfigError: with every column that is missing or of a type that can't be taken.
        """
        spelled = {name.lower(): name for name, _ in columns}
        problems = []

        def there(names: Sequence[str], where: str) -> tuple[str, ...]:
            for name in names:
                if name.lower() not in spelled:
                    known = listed(spelled.values())
                    problems.append(f"{where}: the model has no column {name}; it has {known}")
            return tuple(spelled.get(name.lower(), name) for name in names)

        key = there(self.key, "unique_key")
        sequence = there(self.sequence, "zipper.sequence")
        (time,) = there((self.time,), "zipper.time")
        tracked = None if self.tracked is None else there(self.tracked, "zipper.tracked")
        row_kind = there((self.row_kind,), "zipper.row_kind")[0] if self.row_kind else None
        partition_by = tuple(
            replace(transform, column=there((transform.column,), "zipper.partition_by")[0])
            for transform in self.partition_by
        )
        problems += partition_problems("zipper", partition_by, key)
        types = {name: kind for name, kind in columns if name != row_kind}
        laid = replace(self, partition_by=partition_by)
        for name, kind in types.items():
            if name in self.period_columns or name == LEVEL or name.startswith(HIDDEN):
                problems.append(f"{name}: names of this kind are the zipper's own")
            problems += laid._layout_problems(name, kind)
        time_kind = types.get(time)
        if time_kind is not None and not (
            time_kind in (*TIMES, *WHOLE_NUMBERS) or time_kind.startswith("decimal(")
        ):
            problems.append(
                f"zipper.time: {time} is {time_kind}, must be a timestamp, a date or a whole "
                "number; cast it in the model"
            )
        if types.keys() <= {*key, *sequence, time}:
            problems.append("the model has no column beside those of its key, sequence and time")
        if problems:
            raise ZipperConfigError(self.model, problems)
        return replace(
            self,
            key=key,
            sequence=sequence,
            time=time,
            tracked=tracked,
            row_kind=row_kind,
            partition_by=partition_by,
            types=types,
        )

    # ---- SQL -----------------------------------------------------------------------------

    @property
    def never_null(self) -> tuple[str, ...]:
        """Columns of the model's rows in which a null refuses the batch."""
        return tuple(dict.fromkeys((*self.key, *self.sequence, self.time)))

    @property
    def reader_key(self) -> tuple[str, ...]:
        """Columns that distinguish the rows that a reader sees."""
        return (*self.key, self.period_columns[0])

    @property
    def _valued(self) -> list[str]:
        """Columns of a version that its changes give values to."""
        return self._held

    @property
    def _tracked(self) -> list[str]:
        return [name for name in self._held if self.tracked is None or name in self.tracked]

    def refused_counts(self, rows: str) -> str:
        """Query of one row: how often each of `never_null` is null, and how many -U are unpaired.

        Args:
            rows: SQL text for a `from`: the model's rows.
        """
        counts = f"({self.null_counts(rows)}) as zipper__nulls"
        if self.row_kind is None or self.unpaired_retraction is not None:
            return f"select *, 0 as unpaired from {counts}"
        kind = quoted(self.row_kind)
        # a key's place may have a -U, what the -U gives way to, or a +U that a row moved to it by
        by_key = select_text(
            {name: quoted(name) for name in self.sequence}
            | {
                "retracts": f"bool_or({kind} = '-U')",
                "gives": f"bool_or({kind} in ('+I', '+U', '-D'))",
                "arrives": f"bool_or({kind} = '+U')",
            },
            f"{rows}\ngroup by {', '.join(map(quoted, self.row_key))}",
        )
        unpaired = "count_if(retracts and not gives) - count_if(arrives and not retracts)"
        by_place = select_text(
            {"unpaired": f"greatest({unpaired}, 0)"},
            f"({by_key}) as zipper__by_key\ngroup by {', '.join(map(quoted, self.sequence))}",
        )
        total = f"(select coalesce(sum(unpaired), 0) as unpaired from ({by_place}) as zipper__at)"
        return f"select * from {counts} cross join {total} as zipper__unpaired"

    def refusal(self, counts: Iterable[int]) -> str | None:
        """The error text for a batch with these `refused_counts`, else None."""
        *null_counts, unpaired = counts
        problem = super().refusal(null_counts)
        if problem or not unpaired:
            return problem
        return (
            f"{self.model}: {unpaired} rows of kind -U have a sequence that no +U has, so it can't "
            "be known whether the row is gone or its +U comes with a sequence of its own. Nothing "
            f"was written. Set zipper.unpaired_retraction to what such a row does: '{ENDS}' (it "
            f"ends the version, its +U was filtered out) or '{IGNORED}' (its +U follows)."
        )

    @property
    def _more_state(self) -> dict[str, str]:
        """Further columns of a state row -> SQL that takes them from a row of the model."""
        return {}

    def to_state(self, rows: str) -> str:
        """Query of state rows, one for each of the model's rows.

        Args:
            rows: SQL text for a `from`.
        """
        columns = {name: quoted(name) for name in dict.fromkeys((*self.row_key, self.time))}
        columns |= self._more_state
        if self.row_kind is None:
            columns[KIND] = f"cast({UPSERT_RANK} as tinyint)"
            return select_text(columns | {name: quoted(name) for name in self._held}, rows)
        kind = quoted(self.row_kind)
        if self.unpaired_retraction == IGNORED:
            rows = f"(select * from {rows} where not ({kind} <=> '-U')) as zipper__kept"
        ranks = " ".join(f"when {literal(name)} then {rank}" for name, rank in RANKS.items())
        columns[KIND] = f"cast(case {kind} {ranks} else {self._wrong_kind} end as tinyint)"
        for name in self._held:  # of a row that is gone nothing is held
            columns[name] = f"case when {kind} in ('+I', '+U') then {quoted(name)} end"
        return select_text(columns, rows)

    def merge_states(self, rows: str) -> str:
        """Query of state rows, one for each key and sequence, from state rows.

        Args:
            rows: SQL text for a `from`.
        """
        last = f"{HIDDEN}last__"
        names = self._compared
        made = {name: quoted(name) for name in self.row_key}
        made[last] = f"max({named_struct({name: quoted(name) for name in names})})"
        keys = ", ".join(map(quoted, self.row_key))
        columns = {name: quoted(name) for name in self.row_key}
        columns |= {name: f"{quoted(last)}.{quoted(name)}" for name in names}
        return select_text(columns, f"({select_text(made, rows)}\ngroup by {keys}) as fold__made")

    def _merged_in_order(self, rows: str) -> str:
        # by a window of the order that the versions are found by too: rows are sent around and
        # sorted once, not three times
        names = self._compared
        keys, order = (", ".join(map(quoted, of)) for of in (self.key, self.sequence))
        image = named_struct({name: quoted(name) for name in names})
        place = named_struct({name: quoted(name) for name in self.sequence})
        placed = (
            f"select *, lead({place}) over (partition by {keys} order by {order}, {image}) "
            f"as {quoted(NEXT)}\nfrom {rows}"
        )
        columns = {name: quoted(name) for name in (*self.row_key, *names)}
        return select_text(
            columns, f"({placed}) as fold__placed\nwhere not ({quoted(NEXT)} <=> {place})"
        )

    def to_rows(self, rows: str) -> str:
        """Query of the versions that a reader sees, from state rows of which no two have one key
        and sequence.

        Args:
            rows: SQL text for a `from`.
        """
        return self._versions(self._changes_by_time(rows))

    @property
    def _window(self) -> str:
        """The changes of a key in their order, as the text of a window."""
        keys, order = (", ".join(map(quoted, names)) for names in (self.key, self._order))
        return f"partition by {keys} order by {order}"

    @property
    def _order(self) -> tuple[str, ...]:
        """Columns that order the changes of `_changes_by_time`."""
        return self.sequence

    @property
    def _untouched(self) -> tuple[str, ...]:
        """Columns that a version has from the change that began it."""
        return (*self.row_key, self.time)

    def _changes_by_time(self, rows: str) -> str:
        """Query of the changes that were valid for some time: of each key one at a time, dated in
        AT, with `_held` and KIND.

        Args:
            rows: SQL text for a `from`: state rows, as of to_rows.
        """
        # the clock may step back, the log's order doesn't
        dated = (
            f"select *, max({quoted(self.time)}) over ({self._window} "
            f"rows between unbounded preceding and current row) as {quoted(AT)}\nfrom {rows}"
        )
        # of several changes at one time the last one counts: the others were valid for no time
        timed = (
            f"select *, lead({quoted(AT)}) over ({self._window}) as {quoted(NEXT)}\n"
            f"from ({dated}) as zipper__dated"
        )
        return (
            f"select *\nfrom ({timed}) as zipper__timed\n"
            f"where {quoted(NEXT)} is null or {quoted(NEXT)} > {quoted(AT)}"
        )

    def _versions(self, changes: str) -> str:
        """Query of the versions that changes come to, see `_changes_by_time`."""
        is_row = f"{quoted(KIND)} = {UPSERT_RANK}"
        image = named_struct(
            {KIND: is_row} | {name: quoted(name) for name in self._tracked},
        )
        untracked = [name for name in self._valued if name not in self._tracked]
        compared = (
            f"select *, lag({image}) over ({self._window}) as {quoted(EARLIER)}\n"
            f"from ({changes}) as zipper__changes"
        )
        step = f"{quoted(EARLIER)} is null or not ({quoted(EARLIER)} <=> {image})"
        if untracked:
            compared = self._with_last(compared, step, untracked)
            step = quoted(STEP)
        begin, end, is_open = self.period_columns
        ended = (
            f"select *, lead({quoted(AT)}) over ({self._window}) as {quoted(end)}\n"
            f"from ({compared}) as zipper__compared\nwhere {step}"
        )
        hidden = () if self.keep_time else (self.time,)
        columns = {name: quoted(name) for name in self.types if name not in hidden}
        columns[begin] = quoted(AT)
        columns[end] = quoted(end)
        columns[is_open] = f"{quoted(end)} is null"
        return select_text(columns, f"({ended}) as zipper__ended\nwhere {is_row}")

    def _with_last(self, rows: str, step: str, untracked: list[str]) -> str:
        """Query of the same rows with the last values of their version in the untracked columns."""
        values = named_struct({name: quoted(name) for name in untracked})
        others = dict.fromkeys((*self._untouched, KIND, AT, *self._tracked, STEP))
        numbered = (
            f"select *, sum(if({quoted(STEP)}, 1, 0)) over ({self._window}) as {quoted(VERSION)}\n"
            f"from (select *, {step} as {quoted(STEP)} from ({rows}) as zipper__steps)"
        )
        keys = ", ".join(map(quoted, (*self.key, VERSION)))
        order = ", ".join(map(quoted, self._order))
        last = f"{HIDDEN}last__"
        named = (
            f"select *, last({values}) over (partition by {keys} order by {order} rows between "
            f"unbounded preceding and unbounded following) as {quoted(last)}\n"
            f"from ({numbered}) as zipper__numbered"
        )
        columns = {name: quoted(name) for name in others}
        columns |= {name: f"{quoted(last)}.{quoted(name)}" for name in untracked}
        return select_text(columns, f"({named}) as zipper__named")

    # ---- what is stored ------------------------------------------------------------------

    def signature(self) -> str:
        """What the stored state rows depend on, as JSON; which columns are tracked isn't of it."""
        whole = {
            "unique_key": self.key,
            "partition_by": list(map(str, self.partition_by)),
            "sequence": self.sequence,
            "time": self.time,
            "deletes": self.row_kind is not None,
        }
        if self.unpaired_retraction == IGNORED:
            whole["unpaired_retraction"] = IGNORED
        return json.dumps(whole, separators=(",", ":"))

    @staticmethod
    def differences(old: str, new: str) -> list[str]:
        """How `new` differs from what stored state rows were made by, as texts.

        Args:
            old, new: see signature.
        """
        was, now = json.loads(old), json.loads(new)
        return [
            f"{name} was {json.dumps(was.get(name))}, is {json.dumps(now.get(name))}"
            for name in sorted(was.keys() | now.keys())
            if was.get(name) != now.get(name)
        ]
