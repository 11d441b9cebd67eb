"""Joins that follow both their sides: after every run what the oracle makes of all rows at once.

A history is a world of its own: its number is part of every key, so that hundreds of histories lie
side by side in one table and cost a few dbt runs. Keys and times are of types chosen at random.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support import join_oracle
from tests.support.dbt_project import DbtProject
from tests.support.join_models import FOLD, MACROS, SMALL_TIERS

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
OF_VERSIONS = {
    "temporal_zipper_inner": ("temporal", "", "inner", "log", "zipper", join_oracle.at_its_time),
    "temporal_zipper_left": ("temporal", "", "left", "folded", "zipper", join_oracle.at_its_time),
    "temporal_derived_left": ("temporal", "", "left", "table", "derived", join_oracle.at_its_time),
    "latest_zipper_left": (
        "latest", "condition='right_row.is_current'", "left", "folded", "zipper",
        join_oracle.current,
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
    "many_to_many_streams": ("many_to_many", "", "left", "stream", "stream", join_oracle.always),
    "interval_streams": ("interval", BOUNDS, "inner", "stream", "stream", join_oracle.within),
    "temporal_stream": ("temporal", "", "left", "folded", "stream", join_oracle.at_its_time),
}  # fmt: skip
PAIR = ["id", "world", "k", "v", "rid", "right_world", "right_at", "right_v"]
VIEW = """
    {{ config(materialized='view', meta={'row_wise': true}) }}
    select * from {{ source('src', 'left_log') }}
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
# one version of a world's k ends where the next one begins, in the order of their rows' times
DERIVED = """
    select * except (until), lead(at) over (partition by world, k order by at, {name}) as until
    from folded_rows
    where at is not null
"""


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

    def pair(self, left: dict, right: dict | None) -> tuple:
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


def key_of_pairs(right: str) -> list[str]:
    return ["id", "world", "rid", "right_world", *(["right_at"] if right == "zipper" else [])]


def side(name: str, kind: str, times: dict[str, str]) -> str:
    is_model = kind not in ("log", "table")
    relation = f"ref('{name}_{kind}')" if is_model else f"source('src', '{name}_{kind}')"
    columns = {item: item for item in (*KEYS["left"], "k", "v")}
    key = list(KEYS[name])
    if name == "right":
        begin = "valid_from" if kind == "zipper" else "at"
        columns = {"rid": "rid", "world": "right_world", begin: "right_at", "v": "right_v"}
        key += [begin] if kind == "zipper" else []
    given = {"key": key, "columns": columns} | times
    if kind == "stream":
        given["sequence"] = "position"
    return f"{{'relation': {relation}, {str(given)[1:-1]}}}"


def join_model(
    macro: str, extra: str, kind: str, left: str, right: str, _: Any, *, unit: str
) -> str:
    times: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    if macro in ("interval", "history"):
        times = {"left": {"time": "at"}, "right": {"time": "at"}}
    elif macro == "temporal":
        times["left"] = {"time": "at"}
        if right != "zipper":  # whose columns have the names that are taken
            times["right"] = {"valid_from": "at", "valid_to": "until"}
    return f"""
        {{{{ config(materialized='folded', unique_key={key_of_pairs(right)}, fold={FOLD}) }}}}
        with

        joined as (
            {{{{ {macro}_join(
                left={side("left", left, times["left"])},
                right={side("right", right, times["right"])},
                on={{'world': 'world', 'k': 'k'}},
                kind='{kind}',
                {extra.format(unit=unit)}
            ) }}}}
        )

        select * from joined
    """


def input_model(name: str, kind: str, types: Types) -> str:
    """Text of the model that one side is: its log folded, derived from that, or its versions."""
    if kind == "view":
        return VIEW
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


def files(joins: dict[str, tuple], types: Types) -> dict[str, str]:
    tables = ", ".join(
        f"{{name: {name}_{kind}}}" for name in NAMES for kind in ("events", "log", "table")
    )
    reported = " union all ".join(
        f"select '{name}' as model, {', '.join(PAIR)}, row_kind, sign "
        f"from {{{{ new_changes(ref('{name}')) }}}}"
        for name in joins
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
        | {f"models/{name}.sql": join_model(*join, unit=types.unit) for name, join in joins.items()}
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
                        # a fact comes once, or is reported again as it was; some have no key
                        number = None if self.rng.random() < 0.1 else 10 + self.position
                        facts.append(self.row(name, world, number))
            held_back = [item for item in batch if self.rng.random() < 0.2]
            told_again = self.rng.sample(self.events[name], min(len(self.events[name]), 5))
            come = [item for item in batch if item not in held_back] + self.late[name] + told_again
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
        return list(self.table[name].values())

    def compare(self, joins: dict[str, tuple]) -> int:
        """Each join against the oracle; how many pairs there were."""
        compared = 0
        for model, (_, _, kind, left, right, fits) in joins.items():
            found = join_oracle.joined(
                self.held("left", left), self.held("right", right), fits, kind
            )
            expected = join_oracle.greatest(
                (self.types.pair(*row) for row in found),
                [PAIR.index(key_of_pair) for key_of_pair in key_of_pairs(right)],
            )
            rows = self.project.query(f"select {', '.join(PAIR)} from dw.{model}")
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


def assert_changes_come_to_the_rows(project: DbtProject, joins: dict[str, tuple]) -> int:
    """All changes that were given, summed by their sign, are the rows; how many there were."""
    names = ", ".join(PAIR)
    rows = " union all ".join(
        f"select '{name}' as model, {names}, -1 as sign from dw.{name}" for name in joins
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


def check_histories(make_project, kinds: tuple[int, int], worlds: int, runs: int) -> None:
    """Play histories into so many of the joins of versions and of rows, chosen at random, as are
    the types of their columns."""
    seed = int(os.environ.get("JOIN_SEED") or random.SystemRandom().randint(0, 10**9))
    rng = random.Random(seed)
    joins = {
        name: declared[name]
        for declared, count in zip((OF_VERSIONS, OF_ROWS), kinds, strict=True)
        for name in rng.sample(list(declared), count)
    }
    types = Types.random(rng)
    print(f"JOIN_SEED={seed}: {', '.join(joins)}; {types}")
    project = make_project(files(joins, types))
    histories = Worlds(project, rng, worlds, types)
    compared = 0
    for number in range(runs):
        # keys enough for the second run to change and delete them; the third has nothing new
        if number == 0:
            histories.more(1.0, times=4)
        elif number != 2:
            histories.more(0.7 if number == 1 else rng.choice([0.02, 0.2, 0.7]))
        outcome = project.run("run")
        compared += histories.compare(joins)
        reported = assert_changes_come_to_the_rows(project, joins)
        if number == 2:
            messages = {name: outcome.results[name].message for name in joins}
            assert {name for name, message in messages.items() if "nothing new" in message} == set(
                joins
            )
    project.run("run", "--full-refresh", "--exclude", "reported")
    compared += histories.compare(joins)
    project.run("run", "-s", "reported")
    reported = assert_changes_come_to_the_rows(project, joins)
    print(f"{worlds} histories, {compared} pairs compared, {reported} changes reported, 0 differ")


def test_every_run_equals_the_join_of_all_rows(make_project):
    check_histories(make_project, kinds=(1, 1), worlds=50, runs=3)


@pytest.mark.soak
def test_every_run_of_500_histories_equals_the_join_of_all_rows(make_project):
    check_histories(make_project, kinds=(len(OF_VERSIONS), len(OF_ROWS)), worlds=500, runs=7)
