"""Joins that follow both their sides: after every run what the oracle makes of all rows at once.

A history is a world of its own: its number is part of every key, so that hundreds of histories lie
side by side in one table and cost a few dbt runs. Keys and times are of types chosen at random.

Longer than 500 lines: all kinds of joins run in the same dbt runs and meet the same oracle.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.declared.joins import Join, Side
from dbt.adapters.sparksession.session import own_session

from tests.support import join_oracle
from tests.support.dbt_project import REPO, DbtProject

MACROS = {
    f"macros/{folder}/{path.name}": path.read_text(encoding="utf-8")
    for folder in ("joins", "windows")
    for path in sorted((REPO / "macros" / folder).glob("*.sql"))
}
START = datetime(2026, 3, 1)
NAMES = {"left": "id", "right": "rid"}  # the column that distinguishes a side's rows in a world
KEYS = {side: (name, "world") for side, name in NAMES.items()}
# types of keys, and of k on either side: what matches may be a number of another type
TYPES = ["int", "bigint", "decimal(20,0)", "date", "timestamp", "timestamp_ntz", "string"]
MATCHED_TYPES = [(kind, kind) for kind in TYPES]
MATCHED_TYPES += [("int", "bigint"), ("bigint", "int"), ("decimal(20,0)", "bigint")]
TIME_TYPES = ["date", "timestamp", "timestamp_ntz"]
FIRST = {"int": 7, "bigint": 2**62, "decimal(20,0)": 2**64 - 10**6}  # number of a key's number 0
# model -> (macro, its arguments, kind, left input, right input, what the oracle goes by)
BOUNDS = "lower='-5 {unit}', upper='10 {unit}'"
SHORT_BOUNDS = "lower='-{half} milliseconds', upper='{half} milliseconds'"
HALVES = {"minutes": 30_000, "days": 43_200_000}  # milliseconds in a half of the unit
OF_VERSIONS = {
    "temporal_zipper_inner": ("temporal", "", "inner", "log", "zipper", join_oracle.at_its_time),
    "temporal_zipper_left": ("temporal", "", "left", "folded", "zipper", join_oracle.at_its_time),
    "temporal_derived_left": ("temporal", "", "left", "table", "derived", join_oracle.at_its_time),
    "latest_zipper_left": (
        "latest", "condition='right_row.is_current'", "left", "folded", "zipper",
        join_oracle.current,
    ),
}  # fmt: skip
OF_FILTERS = {
    "interval_semi": ("interval", BOUNDS, "semi", "folded", "folded", join_oracle.within),
    "interval_anti": ("interval", BOUNDS, "anti", "stream", "log", join_oracle.within),
    "temporal_anti": ("temporal", "", "anti", "log", "zipper", join_oracle.at_its_time),
    "latest_semi": ("latest", "", "semi", "view", "table", join_oracle.always),
    "many_to_many_semi": ("many_to_many", "", "semi", "table", "stream", join_oracle.always),
    "many_to_many_anti": ("many_to_many", "", "anti", "folded", "folded", join_oracle.always),
    "many_to_many_anti_nulls": ("many_to_many", "", "anti", "log", "folded", join_oracle.always),
    "window_anti": (
        "many_to_many", "", "anti", "windowed", "windowed", join_oracle.in_the_same_window
    ),
    "history_semi": (
        "history", "condition='left_row.v <=> right_row.v'", "semi", "folded", "table",
        join_oracle.ever_before_with_the_same_value,
    ),
}  # fmt: skip
# last in DECLARED: by a seed the joins of the other groups are those that they were
OF_BOTH = {
    "interval_full_short": (
        "interval", SHORT_BOUNDS, "full", "folded", "table", join_oracle.within_a_half
    ),
    "interval_full": ("interval", BOUNDS, "full", "folded", "folded", join_oracle.within),
    "interval_full_streams": ("interval", BOUNDS, "full", "stream", "stream", join_oracle.within),
    "temporal_full": ("temporal", "", "full", "log", "zipper", join_oracle.at_its_time),
    "temporal_full_folded": ("temporal", "", "full", "folded", "folded", join_oracle.at_its_time),
    "latest_full": ("latest", "", "full", "view", "table", join_oracle.always),
    "many_to_many_full": ("many_to_many", "", "full", "table", "log", join_oracle.always),
    "many_to_many_full_nulls": ("many_to_many", "", "full", "folded", "table", join_oracle.always),
    "one_to_one_full": ("one_to_one", "", "full", "derived", "stream", join_oracle.always),
    "history_full": (
        "history", "condition='left_row.v <=> right_row.v'", "full", "folded", "table",
        join_oracle.ever_before_with_the_same_value,
    ),
    "window_full": (
        "many_to_many", "", "full", "windowed", "windowed", join_oracle.in_the_same_window
    ),
}  # fmt: skip
OF_ROWS = {
    "interval_inner": ("interval", BOUNDS, "inner", "folded", "log", join_oracle.within),
    "interval_left": ("interval", BOUNDS, "left", "view", "folded", join_oracle.within),
    "temporal_inner": ("temporal", "", "inner", "table", "folded", join_oracle.at_its_time),
    "temporal_left": ("temporal", "", "left", "folded", "folded", join_oracle.at_its_time),
    "history_inner": (
        "history", "expiry='12 {unit}'", "inner", "log", "folded", join_oracle.before
    ),
    "history_left": (
        "history", "condition='left_row.v <=> right_row.v'", "left", "folded", "table",
        join_oracle.ever_before_with_the_same_value,
    ),
    "latest_left": ("latest", "", "left", "log", "table", join_oracle.always),
    "many_to_one_inner": ("many_to_one", "", "inner", "derived", "folded", join_oracle.always),
    "one_to_one_left": ("one_to_one", "", "left", "table", "table", join_oracle.always),
    "many_to_many_inner": ("many_to_many", "", "inner", "log", "log", join_oracle.always),
    "many_to_many_left": ("many_to_many", "", "left", "folded", "folded", join_oracle.always),
    "many_to_many_nulls": ("many_to_many", "", "left", "folded", "table", join_oracle.always),
    "many_to_many_streams": ("many_to_many", "", "left", "stream", "stream", join_oracle.always),
    "interval_streams": ("interval", BOUNDS, "inner", "stream", "stream", join_oracle.within),
    "window_inner": (
        "many_to_many", "", "inner", "windowed", "windowed", join_oracle.in_the_same_window
    ),
    "window_left": (
        "interval", "lower='-10 {unit}', upper='10 {unit}'", "left", "windowed", "windowed",
        join_oracle.in_the_same_window,
    ),
    "temporal_stream": ("temporal", "", "left", "folded", "stream", join_oracle.at_its_time),
}  # fmt: skip
TOLERANCE = "tolerance='6 {unit}'"
OF_NEAREST = {
    "asof_backward_left": (
        "asof", "", "left", "folded", "folded",
        join_oracle.Nearest("backward", tie_break=("position",)),
    ),
    "asof_backward_inner": (
        "asof", f"{TOLERANCE}, strict=true", "inner", "log", "log",
        join_oracle.Nearest("backward", 6, strict=True),
    ),
    "asof_backward_stream": (
        "asof", TOLERANCE, "left", "stream", "stream",
        join_oracle.Nearest("backward", 6, tie_break=("v",)),
    ),
    "asof_forward_left": (
        "asof", "direction='forward', strict=true", "left", "view", "folded",
        join_oracle.Nearest("forward", strict=True),
    ),
    "asof_forward_inner": (
        "asof", f"direction='forward', {TOLERANCE}", "inner", "table", "table",
        join_oracle.Nearest("forward", 6, tie_break=("v",)),
    ),
    "asof_nearest_left": (
        "asof", "direction='nearest'", "left", "folded", "table",
        join_oracle.Nearest("nearest", tie_break=("v",)),
    ),
    "asof_nearest_inner": (
        "asof", f"direction='nearest', {TOLERANCE}, strict=true", "inner", "derived", "derived",
        join_oracle.Nearest("nearest", 6, strict=True),
    ),
    "asof_nearest_nulls": (
        "asof", "direction='nearest'", "left", "folded", "log", join_oracle.Nearest("nearest"),
    ),
    "asof_nearest_zipper": (
        "asof", f"direction='nearest', {TOLERANCE}", "left", "folded", "zipper",
        join_oracle.Nearest("nearest", 6),
    ),
    "asof_nearest_stream": (
        "asof", "direction='nearest', strict=true", "inner", "folded", "stream",
        join_oracle.Nearest("nearest", strict=True, tie_break=("position",)),
    ),
}  # fmt: skip
# those whose k is null-safe
NULL_SAFE = (
    "many_to_many_nulls",
    "many_to_many_full_nulls",
    "many_to_many_anti_nulls",
    "asof_nearest_nulls",
)
DECLARED = (OF_VERSIONS, OF_ROWS, OF_NEAREST, OF_FILTERS, OF_BOTH)
FILTERS = ("semi", "anti")
PAIR = ["id", "world", "k", "v", "rid", "right_world", "right_at", "right_v"]
VIEW = """
    {{ config(materialized='view', meta={'row_wise': true}) }}
    select * from {{ source('src', 'left_log') }}
"""
# the rows of a table that have a time, with its window
WINDOWED = """
    {{{{ config(materialized='view', meta={{'row_wise': true}}) }}}}
    with held as (select * from {{{{ source('src', '{name}_table') }}}})

    select windowed.*
    from (
        {{{{ tumble(rows='held', time='at', size='{size}', bounds={{'latest': '2200-01-01'}}) }}}}
    ) as windowed
"""
# each change in a source's form; what is taken away may be so by a change of its key
STREAM = """
    {{{{ config(materialized='view', meta={{'row_wise': true}}) }}}}
    select
        {columns},
        row_kind,
        if(row_kind in ('+I', '+U'), 1, -1) as sign
    from {{{{ source('src', '{name}_events') }}}}
    lateral view explode(
        case
            when kind = '+U' then array('-U', '+U')
            when kind = '-D' and position % 2 = 0 then array('-U')
            else array(kind)
        end
    ) as row_kind
"""
SMALL_TIERS = {"tier_runs": 3, "tier_rows": 50}
FOLD = {"sequence": "commit_number", "row_kind": "row_kind"} | SMALL_TIERS
# one version of a world's k ends where the next one begins, in the order of their rows' times
DERIVED = """
    with dated as (select * except (until) from folded_rows where at is not null)

    select *, lead(at) over (partition by world, k order by at, {name}) as until
    from dated
"""


SHARE_OF_INDEXES = 0.7  # of the joins' left sides
SHARE_OF_SHORT = 0.5  # of the joins, whose macro writes their config and names their keys


@dataclass(frozen=True)
class Types:
    """What the columns of random histories are of; a history's own values are plain numbers.

    Attributes:
        key, matched, time: side -> type of its key, of its k, of its times.
        tracked: columns that a zipper tracks, None for all.
    """

    key: dict[str, str]
    matched: dict[str, str]
    time: dict[str, str]
    tracked: list[str] | None

    @classmethod
    def random(cls, rng: random.Random) -> Types:
        def sides(types: Iterable[str]) -> dict[str, str]:
            return dict(zip(NAMES, types, strict=True))

        return cls(
            sides(rng.choices(TYPES, k=2)),
            sides(rng.choice(MATCHED_TYPES)),
            sides(rng.choices(TIME_TYPES, k=2)),
            rng.choice([None, ["k"], ["v"]]),
        )

    @property
    def unit(self) -> str:
        """What a number of a time counts."""
        return "days" if "date" in self.time.values() else "minutes"

    def columns(self, name: str) -> str:
        """Those of a side as SQL declares them; `seen` never steps far back and is never null."""
        time = self.time[name]
        return (
            f"world int, {NAMES[name]} {self.key[name]}, k {self.matched[name]}, at {time}, "
            f"until {time}, seen {time}, v string"
        )

    def cell(self, name: str, column: str, value: Any) -> Any:
        """The value that a side's column has for one of a history."""
        if value is None or column not in (NAMES[name], "k", "at", "until", "seen"):
            return value
        if column in ("at", "until", "seen"):
            return typed(self.time[name], value, 0, timedelta(**{self.unit: 1}))
        kinds = self.matched if column == "k" else {name: self.key[name]}
        first = min(FIRST.get(kind, 0) for kind in kinds.values())
        return typed(kinds[name], value, first, timedelta(days=1))

    def pair(self, left: dict | None, right: dict | None) -> tuple:
        """The PAIR of two rows."""
        columns = {"left": [*KEYS["left"], "k", "v"], "right": [*KEYS["right"], "at", "v"]}
        return tuple(
            None if row is None else self.cell(name, key, row[key])
            for name, row in (("left", left), ("right", right))
            for key in columns[name]
        )


def typed(kind: str, value: float, first: int, step: timedelta) -> Any:
    """A number as a value of a type, in the same order; of a time so many steps behind START."""
    if kind == "string":
        return f"{value:06}'\\ü"
    if kind in ("date", "timestamp", "timestamp_ntz"):
        time = START + value * step
        if kind == "date":
            return time.date()
        return time.replace(tzinfo=UTC) if kind == "timestamp" else time
    return Decimal(first + value) if kind.startswith("decimal") else first + value


def key_of_pairs(right: str, kind: str) -> list[str]:
    if kind in FILTERS:
        return ["id", "world"]
    return ["id", "world", "rid", "right_world", *(["right_at"] if right == "zipper" else [])]


def shown(kind: str, types: Types) -> str:
    """SQL of the PAIR of a row of a join."""
    if kind not in FILTERS:
        return ", ".join(PAIR)
    right = {"rid": types.key["right"], "right_world": "int"}
    right |= {"right_at": types.time["right"], "right_v": "string"}
    nulls = (f"cast(null as {of_type}) as {name}" for name, of_type in right.items())
    return ", ".join([*(name for name in PAIR if name not in right), *nulls])


def relation_of(name: str, kind: str) -> str:
    is_model = kind not in ("log", "table")
    return f"ref('{name}_{kind}')" if is_model else f"source('src', '{name}_{kind}')"


def side(
    name: str,
    kind: str,
    times: dict[str, Any],
    has_columns: bool = True,
    index: str | None = None,
    *,
    lists_key: bool = True,
) -> str:
    relation = relation_of(name, kind)
    columns = {item: item for item in (*KEYS["left"], "k", "v")}
    key = list(KEYS[name])
    if name == "right":
        begin = "valid_from" if kind == "zipper" else "at"
        columns = {"rid": "rid", "world": "right_world", begin: "right_at", "v": "right_v"}
        key += [begin] if kind == "zipper" else []
    if not lists_key:
        columns = {item: given for item, given in columns.items() if item not in KEYS[name]}
    given = {"key": key} | ({"columns": columns} if has_columns else {}) | times
    if kind == "stream":
        given["sequence"] = "position"
    indexed = f"'index': ref('{index}'), " if index else ""
    return f"{{'relation': {relation}, {indexed}{str(given)[1:-1]}}}"


def index_model(macro: str, extra: str, left: str, *, is_short: bool) -> str:
    """Text of the index that a join of these arguments finds its left rows by."""
    by = ["world", "k"]
    by += ["at"] if macro in ("interval", "history", "temporal") else []
    by += ["v"] if "left_row.v" in extra else []
    key = list(KEYS["left"])
    columns = list(dict.fromkeys([*by, *key]))
    stated = "" if is_short else f"unique_key={columns}, "
    return f"""
        {{{{ config(materialized='folded', {stated}fold={SMALL_TIERS}) }}}}
        {{{{ join_index(relation={relation_of("left", left)}, key={key}, by={by}) }}}}
    """


def join_model(
    macro: str,
    extra: str,
    kind: str,
    left: str,
    right: str,
    fits: Any,
    *,
    unit: str,
    null_safe: bool,
    index: str | None = None,
    is_short: bool = False,
) -> str:
    times: dict[str, dict[str, Any]] = {"left": {}, "right": {}}
    if macro == "asof":
        begin = "valid_from" if right == "zipper" else "at"
        order = {"tie_break": list(fits.tie_break)} if fits.tie_break else {}
        times = {"left": {"time": "at"}, "right": {"time": begin} | order}
    elif macro in ("interval", "history"):
        times = {"left": {"time": "at"}, "right": {"time": "at"}}
    elif macro == "temporal":
        times["left"] = {"time": "at"}
        if right != "zipper":  # whose columns have the names that are taken
            times["right"] = {"valid_from": "at", "valid_to": "until"}
    on: dict[str, Any] = {
        name: name for name in ("world", "k", *(["window_start"] * (left == "windowed")))
    }
    if null_safe:
        on["k"] = {"column": "k", "null_safe": True}
    # the number of a pair's commit orders its rows, whether it is shown or not
    hidden = {"hidden_columns": "commit_number"} if kind == "left" else {}
    stated = f"unique_key={key_of_pairs(right, kind)}, fold={FOLD | hidden}"
    if is_short:
        stated = f"fold={SMALL_TIERS | hidden}"
    return f"""
        {{{{ config(materialized='folded', {stated}) }}}}
        with

        joined as (
            {{{{ {macro}_join(
                left={side("left", left, times["left"], index=index, lists_key=not is_short)},
                right={
        side("right", right, times["right"], kind not in FILTERS, lists_key=not is_short)
    },
                on={on},
                kind='{kind}',
                {extra.format(unit=unit, half=HALVES[unit])}
            ) }}}}
        )

        select * from joined
    """


def input_model(name: str, kind: str, types: Types) -> str:
    """Text of the model that one side is: its log folded, derived from that, or its versions."""
    if kind == "view":
        return VIEW
    if kind == "windowed":
        size = {"days": "1 week", "minutes": "10 minutes"}[types.unit]
        return WINDOWED.format(name=name, size=size)
    if kind == "stream":
        return STREAM.format(name=name, columns=f"world, {NAMES[name]}, k, at, until, v, position")
    key, columns = list(KEYS[name]), "*"
    fold: dict[str, Any] = {"sequence": "position", "row_kind": "kind"} | SMALL_TIERS
    declared = f"fold={fold}"
    if kind == "derived":
        derived = {"by": "world", "key": key, "sql": DERIVED.format(name=NAMES[name])}
        declared = f"fold={fold | {'derived': derived}}"
    if kind == "zipper":
        columns = f"world, {NAMES[name]}, k, v, seen, position, kind"
        declared = f"zipper={fold | {'time': 'seen', 'tracked': types.tracked}}"
    return f"""
        {{{{ config(materialized='folded', unique_key={key}, {declared}) }}}}
        select {columns} from {{{{ new_rows(source('src', '{name}_events')) }}}}
    """


def files(
    joins: dict[str, tuple],
    types: Types,
    indexed: Iterable[str] = (),
    short: Iterable[str] = (),
) -> dict[str, str]:
    tables = ", ".join(
        f"{{name: {name}_{kind}}}" for name in NAMES for kind in ("events", "log", "table")
    )
    reported = " union all ".join(
        f"select '{name}' as model, {shown(join[2], types)}, row_kind, sign "
        f"from {{{{ new_changes(ref('{name}')) }}}}"
        for name, join in joins.items()
    )
    inputs = {
        item for *_, left, right, _ in joins.values() for item in (("left", left), ("right", right))
    }
    return (
        MACROS
        | {
            "models/sources.yml": f"sources: [{{name: src, tables: [{tables}]}}]",
            "models/reported.sql": f"{{{{ config(materialized='incremental') }}}} {reported}",
        }
        | {
            f"models/{name}_{kind}.sql": input_model(name, kind, types)
            for name, kind in inputs
            if kind not in ("log", "table")
        }
        | {
            f"models/{name}.sql": join_model(
                *join,
                unit=types.unit,
                null_safe=name in NULL_SAFE,
                index=f"{name}_index" if name in indexed else None,
                is_short=name in short,
            )
            for name, join in joins.items()
        }
        | {
            f"models/{name}_index.sql": index_model(
                *joins[name][:2], joins[name][3], is_short=name in short
            )
            for name in indexed
        }
    )


class Worlds:
    """Random histories of both sides, side by side in one warehouse, and what they hold."""

    def __init__(self, project: DbtProject, rng: random.Random, count: int, types: Types) -> None:
        self.project, self.rng, self.count, self.types = project, rng, count, types
        self.position = 0
        self.events: dict[str, list[dict]] = {name: [] for name in NAMES}
        self.late: dict[str, list[dict]] = {name: [] for name in NAMES}
        self.facts: dict[str, list[dict]] = {name: [] for name in NAMES}
        self.table: dict[str, dict[tuple, dict]] = {name: {} for name in NAMES}
        self.last: dict[tuple, dict] = {}
        self.steps: Counter[tuple[str, int]] = Counter()
        project.query("create namespace if not exists src")
        for name in NAMES:
            columns = types.columns(name)
            for table in ("log", "table"):
                self.create(f"{name}_{table}", columns)
            self.create(f"{name}_events", f"{columns}, position bigint, kind string")

    def create(self, name: str, columns: str) -> None:
        self.project.query(f"create or replace table src.{name} ({columns}) using iceberg")

    def row(self, name: str, world: int, number: int | None) -> dict[str, Any]:
        rng = self.rng
        whole = self.types.time[name] == "date"

        def time() -> float | None:
            after = rng.randint(0, 30) if whole else rng.randint(0, 60) / 2
            return 100 * world + after if rng.random() < 0.95 else None

        row = {"world": world, NAMES[name]: number, "k": rng.choice([None, 1, 1, 2, 3])}
        row |= {"at": time(), "until": rng.choice([None, time()])}
        # the world's clock goes on by its steps, and steps back now and then
        seen = min(30, max(0, 2 * self.steps[name, world] - rng.choice([0, 0, 0, 3])))
        return row | {"seen": 100 * world + seen, "v": rng.choice([None, "x", "y", "z"])}

    def changed(self, name: str, row: dict[str, Any]) -> dict[str, Any]:
        """The row, or what its key had last with one of its columns changed."""
        key = (name, *(row[key] for key in KEYS[name]))
        if key in self.last and self.rng.random() < 0.6:
            column = self.rng.choice(["v", *(["until"] * 2 + ["k", "at"]) * (name == "right")])
            row = self.last[key] | {column: row[column], "seen": row["seen"]}
        self.last[key] = row
        return row

    def more(self, share: float, times: int = 1) -> None:
        """Let that share of the worlds go on, by a step or a few on either side, so many times."""
        for name in NAMES:
            batch: list[dict] = []
            facts: list[dict] = []
            for world in range(self.count):
                if self.rng.random() >= share:
                    continue
                for _ in range(times * self.rng.choice([0, 1, 1, 2, 4])):
                    self.position += 1
                    self.steps[name, world] += 1
                    row = self.changed(name, self.row(name, world, self.rng.randint(1, 4)))
                    kind = self.rng.choice(["+I", "+U", "+U", "-D"])
                    batch.append(row | {"position": self.position, "kind": kind})
                    if self.rng.random() < 0.7:
                        # a fact comes once, or is sent again as it was; some have no key
                        number = None if self.rng.random() < 0.1 else 10 + self.position
                        facts.append(self.row(name, world, number))
            held_back = [item for item in batch if self.rng.random() < 0.2]
            given_again = self.rng.sample(self.events[name], min(len(self.events[name]), 5))
            come = [item for item in batch if item not in held_back] + self.late[name] + given_again
            self.late[name] = held_back
            self.rng.shuffle(come)
            self.events[name] += come
            facts += self.rng.sample(self.facts[name], min(len(self.facts[name]), 5))
            self.facts[name] += facts
            self.write(f"{name}_events", come)
            self.write(f"{name}_log", facts)
            self.merge(name, come)

    def merge(self, name: str, events: list[dict]) -> None:
        """The table of the side as a batch job would keep it: merged into, rows deleted. Of the
        keys 4 it makes nulls."""
        if not events:
            return
        own = NAMES[name]
        nameless = [event | {own: None if event[own] == 4 else event[own]} for event in events]
        last = {tuple(item[key] for key in KEYS[name]): item for item in nameless}
        self.frame(f"{name}_events", list(last.values())).createOrReplaceTempView("batch")
        same = " and ".join(f"held.{key} <=> batch.{key}" for key in KEYS[name])
        self.project.query(
            f"merge into src.{name}_table as held using batch on {same} "
            "when matched and batch.kind = '-D' then delete "
            "when matched then update set * "
            "when not matched and batch.kind <> '-D' then insert *"
        )
        for key, row in last.items():
            if row["kind"] == "-D":
                self.table[name].pop(key, None)
            else:
                self.table[name][key] = row

    def frame(self, table: str, rows: list[dict]) -> Any:
        session = own_session(self.project.credentials()).session
        schema = session.table(f"src.{table}").schema
        name = table.partition("_")[0]
        cells = [
            tuple(self.types.cell(name, key, row[key]) for key in schema.names) for row in rows
        ]
        return session.createDataFrame(cells, schema)

    def write(self, table: str, rows: list[dict]) -> None:
        if rows:
            self.frame(table, rows).writeTo(f"src.{table}").append()

    def held(self, name: str, kind: str) -> list[dict]:
        if kind in ("folded", "stream"):
            return join_oracle.latest(self.events[name], KEYS[name])
        if kind == "derived":
            return join_oracle.derived(
                join_oracle.latest(self.events[name], KEYS[name]), NAMES[name]
            )
        if kind == "zipper":
            return join_oracle.zipped(self.events[name], KEYS[name], self.types.tracked)
        if kind in ("log", "view"):
            return self.facts[name]
        rows = list(self.table[name].values())
        return join_oracle.windowed(rows, self.types.unit) if kind == "windowed" else rows

    def compare(self, joins: dict[str, tuple]) -> int:
        """Each join against the oracle; how many pairs there were."""
        compared = 0
        for model, (_, _, kind, left, right, fits) in joins.items():
            found = join_oracle.joined(
                self.held("left", left), self.held("right", right), fits, kind, model in NULL_SAFE
            )
            expected = join_oracle.greatest(
                (self.types.pair(*row) for row in found),
                [PAIR.index(key_of_pair) for key_of_pair in key_of_pairs(right, kind)],
            )
            rows = self.project.query(f"select {shown(kind, self.types)} from dw.{model}")
            got = Counter(tuple(row.values()) for row in rows)
            extra, missing = set(got) - expected, expected - set(got)
            worlds = sorted({item[1] for item in extra | missing})
            assert not worlds, (
                f"{model}, worlds {worlds[:5]}: too many {sorted(extra, key=str)[:5]}, "
                f"missing {sorted(missing, key=str)[:5]}"
            )
            assert max(got.values(), default=1) == 1
            compared += len(expected)
        return compared


def assert_changes_come_to_the_rows(
    project: DbtProject, joins: dict[str, tuple], types: Types
) -> int:
    """All changes that were given, summed by their sign, are the rows; how many there were."""
    names = ", ".join(PAIR)
    rows = " union all ".join(
        f"select '{name}' as model, {shown(join[2], types)}, -1 as sign from dw.{name}"
        for name, join in joins.items()
    )
    assert (
        project.query(
            f"select model, {names}, sum(sign) as n "
            f"from (select model, {names}, sign from dw.reported "
            f"union all {rows}) group by all having sum(sign) <> 0"
        )
        == []
    )
    return project.column("select count(*) from dw.reported")[0]


def check_histories(make_project, kinds: tuple[int, ...], worlds: int, runs: int) -> None:
    """Play histories into so many of the joins of DECLARED, chosen at random, as are the types of
    their columns."""
    seed = int(os.environ.get("JOIN_SEED") or random.SystemRandom().randint(0, 10**9))
    rng = random.Random(seed)
    joins = {
        name: declared[name]
        for declared, count in zip(DECLARED, kinds, strict=True)
        for name in rng.sample(list(declared), count)
    }
    types = Types.random(rng)
    indexed = [
        name
        for name, (macro, _, _, left, *_) in joins.items()
        if macro != "asof" and left != "stream" and rng.random() < SHARE_OF_INDEXES
    ]
    short = [name for name in joins if rng.random() < SHARE_OF_SHORT]
    print(f"JOIN_SEED={seed}: {', '.join(joins)}; indexes of {indexed}; short are {short}; {types}")
    project = make_project(files(joins, types, indexed, short))
    histories = Worlds(project, rng, worlds, types)
    compared = 0
    for number in range(runs):
        # keys enough for the second run to change and delete them; the third has nothing new
        if number == 0:
            histories.more(1.0, times=4)
        elif number != 2:
            histories.more(0.7 if number == 1 else rng.choice([0.02, 0.2, 0.7]))
        # all right rows are looked up in an index, those that begin far back, or none
        looked_up = {"join_lookup_bytes": rng.choice([0, 0, 500, 2**40])}
        behind = ["--exclude", "*_index"] if number and rng.random() < 0.2 else []
        outcome = project.run("run", *behind, vars=looked_up)
        compared += histories.compare(joins)
        reported = assert_changes_come_to_the_rows(project, joins, types)
        if number == 2:
            messages = {name: outcome.results[name].message for name in joins}
            assert {name for name, message in messages.items() if "nothing new" in message} == set(
                joins
            )
    project.run("run", "--full-refresh", "--exclude", "reported")
    compared += histories.compare(joins)
    project.run("run", "-s", "reported")
    reported = assert_changes_come_to_the_rows(project, joins, types)
    print(f"{worlds} histories, {compared} pairs compared, {reported} changes reported, 0 differ")


@pytest.mark.in_turn
def test_every_run_equals_the_join_of_all_rows(make_project):
    check_histories(make_project, kinds=(1, 1, 1, 1, 1), worlds=50, runs=3)


@pytest.mark.soak
@pytest.mark.parametrize(
    "kinds",
    [
        (len(OF_VERSIONS), len(OF_ROWS), 0, 0, 0),
        (0, 0, len(OF_NEAREST), 0, 0),
        (0, 0, 0, len(OF_FILTERS), 0),
        (0, 0, 0, 0, len(OF_BOTH)),
    ],
    ids=["of_matches", "of_nearest", "of_filters", "of_both"],
)
def test_every_run_of_500_histories_equals_the_join_of_all_rows(make_project, kinds):
    check_histories(make_project, kinds=kinds, worlds=500, runs=7)


# ---- refusals of wrong declarations and of skew
# -------------------------------------------

KEY_OF_PAIRS = "['id', 'rid']"
LEFT = "{'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k', 'v']}"
RIGHT = "{'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid']}"
WRONG = {
    "everything": (
        "interval_join(left={'relation': ref('fine'), 'columns': ['id'], 'tme': 'at'}, "
        "right={'relation': 'x', 'key': 'rid', 'columns': ['id', 'rid'], 'time': 'at'}, on={}, "
        "lower='5 months', upper='x', kind='outer')",
        [
            "left.tme is an unknown setting; expected one of relation, key, columns, time",
            "left.key must name the columns that distinguish its rows, got None",
            "left.time must name a column, got None",
            "right.relation must be ref(..) or source(..), got 'x'",
            "on must map columns of the left side to equal columns of the right side, or to "
            "{'column': .., 'null_safe': true}, got {}",
            "kind must be one of inner, left, full, semi, anti, got 'outer'",
            "both sides have a column id; name the right one otherwise",
            "lower must be a whole number of microseconds, milliseconds, seconds, minutes, hours, "
            "days or weeks, got '5 months'",
            "upper must be a whole number",
            "Example: interval_join(left={'relation': ref('order')",
        ],
    ),
    "a_relation": (
        "many_to_one_join(left=ref('fine'), right={RIGHT}, on={'k': 'k'}, kind='semi')",
        ["left must be {'relation', 'key', 'columns'}, got <SparkSessionRelation"],
    ),
    "no_column": (
        "many_to_many_join(left={LEFT}, right={RIGHT}, on={'key': 'k'})",
        ["many_to_many_join: left (src.facts): there is no column key; it has id, k, at, v."],
    ),
    "no_time": (
        "history_join(left=dict({LEFT}, time='v'), right=dict({RIGHT}, time='at'), "
        "on={'k': 'k'}, expiry='3 days')",
        ["left (src.facts): time column v is string, must be a timestamp or a date."],
    ),
    "a_map": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'maps'), "
        "columns=['rid', 'm']), on={'k': 'k'})",
        [
            "right (src.maps): column m is map<string,string>, of which no two can be compared; "
            "give its model a column of to_json(..)"
        ],
    ),
    "other_type": (
        "many_to_many_join(left={LEFT}, right={RIGHT}, on={'v': 'k'})",
        ["on: v of the left side is string, k of the right side int; cast one of them"],
    ),
    "a_stream": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'stream')), "
        "on={'k': 'k'})",
        [
            "right (src.stream): it has a row_kind, so it is a stream of retract rows: sequence "
            "must name the columns that order the changes of a key, in total; or join the folded "
            "model that keeps its current rows. A column of the data needs another name."
        ],
    ),
    "no_stream": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, sequence='k'), on={'k': 'k'})",
        [
            "right (src.others): sequence is for a stream of retract rows, which has a column "
            "row_kind; it has rid, k"
        ],
    ),
    "a_view": (
        "many_to_many_join(left=dict({LEFT}, relation=ref('counted')), right={RIGHT}, "
        "on={'k': 'k'})",
        ["dw.counted is a view whose rows don't each come from one row of its input"],
    ),
    "no_table": (
        "many_to_many_join(left={LEFT}, right=dict({RIGHT}, relation=source('src', 'none')), "
        "on={'k': 'k'})",
        ["right (src.none): there is no such table or view; build it first."],
    ),
    "other_key": (
        "many_to_many_join(left=dict({LEFT}, key=['k', 'id']), right={RIGHT}, on={'k': 'k'})",
        [
            "unique_key of the model's config must be ['k', 'id', 'rid'] or be left out, got "
            "['id', 'rid']."
        ],
    ),
}


UNIT_TEST = """
    unit_tests:
      - name: rows_of_one_key_are_pairs
        model: fine
        given:
          - input: source('src', 'facts')
            rows: [{id: 1, k: 7, v: a}, {id: 2, k: 7, v: b}]
          - input: source('src', 'others')
            rows: [{rid: 5, k: 7, w: a}, {rid: 6, k: null, w: a}]
        expect:
          rows: [{id: 1, rid: 5, row_kind: +I}]
"""


def small_model(call: str) -> str:
    call = call.replace("{LEFT}", LEFT).replace("{RIGHT}", RIGHT)
    return (
        f"{{{{ config(materialized='folded', unique_key={KEY_OF_PAIRS}, fold={FOLD}) }}}}\n"
        f"with joined as ({{{{ {call} }}}}) select * from joined"
    )


@pytest.mark.soak
def test_mistakes_are_reported_before_anything_is_written(make_project):
    tables = ", ".join(
        f"{{name: {item}}}" for item in ("facts", "others", "stream", "maps", "none")
    )
    project = make_project(
        MACROS
        | {
            "models/sources.yml": f"sources: [{{name: src, tables: [{tables}]}}]",
            "models/fine.sql": small_model(
                "many_to_many_join(left={LEFT}, right={RIGHT}, on={'k': 'k', 'v': 'w'})"
            ),
            "models/itself.sql": small_model(
                "many_to_many_join(left={LEFT}, right={'relation': source('src', 'facts'), 'key': "
                "'id', 'columns': {'id': 'rid'}}, on={'v': 'v'}, "
                "condition='left_row.id <> right_row.id')"
            ),
            "models/unit_tests.yml": UNIT_TEST,
            "models/counted.sql": "select k, k as id, v from {{ source('src', 'facts') }}",
        }
        | {f"models/{name}_join.sql": small_model(call) for name, (call, _) in WRONG.items()}
    )
    project.query("create namespace if not exists src")
    for name, columns in {
        "facts": "id int, k int, at timestamp, v string",
        "others": "rid int, k int, at timestamp, w string",
        "stream": "rid int, k int, at timestamp, row_kind string",
        "maps": "rid int, k int, m map<string,string>",
    }.items():
        project.query(f"create or replace table src.{name} ({columns}) using iceberg")
    odd = r"a\'b\n{{ 1 }}"  # as SQL writes it
    project.query(f"insert into src.facts select id, id % 2, null, '{odd}' from range(60) as t(id)")
    project.query(
        f"insert into src.others select id, id % 4, null, '{odd}' from range(40) as t(id)"
    )

    outcome = project.run("run", vars={"join_rows_per_key": 25}, expect_ok=False)

    statuses = outcome.statuses()
    assert {name for name, status in statuses.items() if status == "success"} == {
        "fine",
        "itself",
        "counted",
    }
    assert project.column("select count(*) from dw.itself") == [60 * 59]
    for name, (_, parts) in WRONG.items():
        message = outcome.results[f"{name}_join"].message
        for part in parts:
            assert part in message, f"{name}: {message}"
        assert project.query(f"show tables in dw like '{name}_join*'") == []
    log = " ".join(outcome.log.split())  # dbt breaks long lines
    for key in (0, 1):
        reported = f'key {{"k":{key},"v":"a\'b\\n{{{{ 1 }}}}"}}: 30 left rows x 10 right rows'
        assert reported in log, log

    project.run("test", "-s", "fine")

    # later the keys of what a run touches alone
    project.query("insert into src.facts values (100, 3, null, 'z'), (101, 0, null, 'z')")
    project.query("insert into src.others select id, 3, null, 'z' from range(100, 140) as t(id)")
    shown = project.run("show", "-s", "fine", "--limit", "-1").raw.results[0].agate_table
    assert Counter(shown.columns["row_kind"]) == {"+I": 40}
    outcome = project.run("run", "-s", "fine", "itself", vars={"join_rows_per_key": 25})
    assert project.column("select count(*) from dw.itself") == [60 * 59 + 2]
    (compiled,) = (project.target / "compiled").rglob("fine.sql")
    assert "where (id in (100, 101))" in compiled.read_text(encoding="utf-8")
    assert 'key {"k":3,"v":"z"}: 1 left rows x 40 right rows' in " ".join(outcome.log.split())
    assert '"k":0' not in outcome.log
    numbers = project.query(
        "select commit_number, count(*) as n from dw.fine group by 1 order by 1"
    )
    assert [tuple(number.values()) for number in numbers] == [(1, 600), (2, 40)]

    changed = "many_to_many_join(left={LEFT}, right={RIGHT}, on={'k': 'k'})"
    project.write({"models/fine.sql": small_model(changed)})
    message = project.run("run", "-s", "fine", expect_ok=False).results["fine"].message
    assert "what is stored was joined differently" in message
    assert "--full-refresh" in message
    project.run("run", "-s", "fine", "--full-refresh")
    assert project.column("select distinct commit_number from dw.fine") == [3]

    project.run("compile", "-s", "fine", "--target", "ci")  # asks no table
    text = compiled.read_text(encoding="utf-8")
    assert "1L as commit_number" in text
    assert "inner join src.others as right_row" in text

    # a commit that brings no row is taken note of, and costs no look at either side
    project.query("insert into src.facts select * from src.facts where false")
    pairs = project.column("select count(*) from dw.fine")
    ran = project.run("run", "--select", "fine").raw.results[0].node.compiled_code
    assert "where false" in ran
    (head,) = project.column("select snapshot_id from src.facts.refs where name = 'main'")
    assert project.summary("dw.fine__runs")["dbt.input.src.facts"] == str(head)
    assert project.column("select count(*) from dw.fine") == pairs
    project.query(f"insert into src.facts values (99, 1, null, '{odd}')")
    project.run("run", "--select", "fine")
    assert project.column("select count(*) from dw.fine") == [pairs[0] + 10]


def test_a_column_that_comes_from_elsewhere_asks_for_a_full_refresh():
    relation = SimpleNamespace(name_only=SimpleNamespace(render=lambda: "dw.r"))

    def join(columns: dict[str, str], kind: str = "left") -> Join:
        left = Side("left", relation, ["id"], {"id": "id"}, {})
        return Join("j", left, Side("right", relation, ["rid"], columns, {}), {"k": "k"}, "", kind)

    stored = join({"rid": "rid", "amount": "x"}).definition
    assert not join({"rid": "rid", "amount": "x"}).differs_from(stored)
    assert join({"rid": "rid", "price": "x"}).differs_from(stored)
    assert join({"rid": "rid", "amount": "x"}, "inner").differs_from(stored)
    assert not join({"rid": "rid", "amount": "x", "price": "y"}).differs_from(stored)
    assert not join({"rid": "rid"}).differs_from(stored)
    before = {name: value for name, value in stored.items() if name != "columns"}
    assert not join({"rid": "rid", "amount": "x"}).differs_from(before)


PRICED = """
    {{ config(materialized='folded', unique_key=['id', 'rid'], fold={
        'sequence': 'commit_number', 'row_kind': 'row_kind'}) }}
    {{ temporal_join(
        left={'relation': ref('facts'), 'key': 'id', 'columns': ['id', 'at'], 'time': 'at'},
        right={'relation': ref('prices'), 'key': 'rid', 'columns': ['rid', 'price'%s]},
        on={'k': 'k'},
        kind='left',
    ) }}
"""


def test_a_pair_that_the_model_leaves_out_from_now_on_goes(make_project):
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: others}]}]",
        "models/paid.sql": """
            {{ config(materialized='folded', unique_key=['id', 'rid'], fold={
                'sequence': 'commit_number', 'row_kind': 'row_kind'}) }}
            with joined as ({{ latest_join(
                left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id']},
                right={'relation': source('src', 'others'), 'key': 'rid',
                    'columns': ['rid', 'amount']},
                on={'id': 'id'},
            ) }})
            select * from joined where amount > 0
        """,
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query("create or replace table src.facts using iceberg as select 1 as id")
    project.query(
        "create or replace table src.others using iceberg as select * from values "
        "(1, 1, 10), (2, 1, 20), (3, 1, 0) as t(rid, id, amount)"
    )
    project.run("run", "-s", "paid")
    project.query("update src.others set amount = case rid when 1 then 0 else 30 end")
    project.run("run", "-s", "paid")
    rows = project.query("select rid, amount from dw.paid order by rid")
    assert [tuple(row.values()) for row in rows] == [(2, 30), (3, 30)]


@pytest.mark.soak
def test_a_further_partner_of_a_row_that_is_kept_writes_nothing(make_project):
    model = """
        {{ config(materialized='folded', unique_key='id', fold={
            'sequence': 'commit_number', 'row_kind': 'row_kind'}) }}
        {{ many_to_many_join(
            left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k']},
            right={'relation': source('src', 'others'), 'key': 'rid'},
            on={'k': 'k'},
            kind='%s',
        ) }}
    """
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: others}]}]",
        "models/paid.sql": model % "semi",
        "models/unpaid.sql": model % "anti",
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts using iceberg as "
        "select * from values (1, 1), (2, 2), (3, null) as t(id, k)"
    )
    project.query("create table src.others using iceberg as select 1 as rid, 1 as k")

    def rows() -> dict[str, list[tuple[int, int]]]:
        project.run("run")
        return {
            name: [
                tuple(row.values())
                for row in project.query(f"select id, commit_number from dw.{name} order by id")
            ]
            for name in ("paid", "unpaid")
        }

    assert rows() == {"paid": [(1, 1)], "unpaid": [(2, 1), (3, 1)]}
    project.query("insert into src.others values (2, 1), (3, 2), (4, null)")
    assert rows() == {"paid": [(1, 1), (2, 2)], "unpaid": [(3, 1)]}
    project.query("delete from src.others where rid = 1")
    assert rows() == {"paid": [(1, 1), (2, 2)], "unpaid": [(3, 1)]}
    project.query("delete from src.others where rid = 2")
    assert rows() == {"paid": [(2, 2)], "unpaid": [(1, 4), (3, 1)]}


@pytest.mark.soak
def test_a_right_row_is_there_with_its_partner_or_alone(make_project):
    """Also where the partner's key is null: found_in distinguishes such a pair."""
    model = """
        {{ config(materialized='folded') }}
        with joined as ({{ many_to_many_join(
            left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k']},
            right={'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid']},
            on={'k': 'k'},
            kind='full',
        ) }})
        select %s, row_kind, commit_number from joined
    """
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: others}]}]",
        "models/both.sql": model % "id, k, rid, found_in",
        "models/without.sql": model % "id, k, rid",
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts using iceberg as "
        "select * from values (1, 1), (null, 2), (3, 3) as t(id, k)"
    )
    project.query(
        "create table src.others using iceberg as "
        "select * from values (1, 1), (2, 2), (4, 4), (5, null) as t(rid, k)"
    )

    def rows(**options: Any) -> set[tuple]:
        project.run("run", "-s", "both", **options)
        found = project.query("select id, k, rid, found_in from dw.both")
        return {tuple(row.values()) for row in found}

    alone = {(None, None, 4, "right"), (None, None, 5, "right")}
    same = {(1, 1, 1, "both"), (3, 3, None, "left")} | alone
    assert rows() == {(None, 2, 2, "both")} | same
    project.query("delete from src.facts where k = 2")
    assert rows() == {(None, None, 2, "right")} | same
    project.query("insert into src.facts values (null, 2), (7, 4)")
    same = same - {(None, None, 4, "right")} | {(7, 4, 4, "both")}
    assert rows() == {(None, 2, 2, "both")} | same
    project.query("delete from src.others where rid in (1, 5)")
    same = same - {(1, 1, 1, "both"), (None, None, 5, "right")} | {(1, 1, None, "left")}
    assert rows() == {(None, 2, 2, "both")} | same

    project.run("run", "-s", "without")
    project.query("insert into src.others values (9, 9)")
    message = project.run("run", "-s", "without", expect_ok=False).results["without"].message
    assert "rows of a join of kind full must have its column found_in" in message


@pytest.mark.soak
def test_a_version_that_ends_touches_the_facts_behind_its_end_alone(make_project):
    """Unless its end is known: then all its facts have another version."""
    folded = (
        "{{ config(materialized='folded', unique_key='%s', fold={'sequence': 'n'}) }} "
        "select * from {{ new_rows(source('src', '%s')) }}"
    )
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: prices}]}]",
        "models/facts.sql": folded % ("id", "facts"),
        "models/prices.sql": folded % ("rid", "prices"),
        "models/priced.sql": PRICED % "",
        "models/ended.sql": PRICED % ", 'valid_to'",
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts using iceberg as select id, 0 as n, 1 as k, "
        "timestamp'2026-01-01' + make_dt_interval(cast(id as int)) as at from range(100)"
    )
    project.query(
        "create table src.prices using iceberg as select 1 as rid, 0 as n, 1 as k, 5 as price, "
        "timestamp'2025-01-01' as valid_from, cast(null as timestamp) as valid_to"
    )
    project.run("run")
    new = "timestamp'2026-01-01' + interval 95 days"
    project.query(f"insert into src.prices select 1, 1, 1, 5, timestamp'2025-01-01', {new}")
    project.query(f"insert into src.prices select 2, 1, 1, 7, {new}, null")

    project.run("run")

    by_price = "select price, min(id) as low, max(id) as high, count(*) as n from dw.{} group by 1"
    wanted = [(5, 0, 94, 95), (7, 95, 99, 5)]
    touched = {"priced": 95, "ended": 0}
    for name, first in touched.items():
        rows = project.query(by_price.format(name) + " order by 1")
        assert [tuple(row.values()) for row in rows] == wanted
        (compiled,) = (project.target / "compiled").rglob(f"{name}.sql")
        ids = re.findall(r"\bid`? (?:=|between) (\d+)", compiled.read_text(encoding="utf-8"))
        assert min(map(int, ids)) == first, name

    # and back: what had ended goes on
    project.query("insert into src.prices select 1, 2, 1, 5, timestamp'2025-01-01', null")
    project.query(f"insert into src.prices select 2, 2, 1, 7, {new}, {new}")
    project.run("run")
    for name in touched:
        rows = project.query(by_price.format(name))
        assert [tuple(row.values()) for row in rows] == [(5, 0, 99, 100)]
