"""What changed, for consumers that append or upsert: each change once, whatever comes again."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject

pytestmark = pytest.mark.in_turn

MACROS = {
    f"macros/streams/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/streams").glob("*.sql"))
}
CONFIG = "{{ config(materialized='incremental', incremental_strategy='append') }}"
# model -> its one line of SQL
STREAMS = {
    "state_upserts": "upsert_stream(rows=ref('state'), key=['world', 'id'], columns=['v'])",
    "state_appends": "append_stream(rows=ref('state'), key=['world', 'id'], columns=['v'])",
    "held_upserts": "upsert_stream(rows=source('src', 'held'), key=['world', 'id'], columns='v')",
    "event_upserts": "upsert_stream(rows=ref('events_view'), key=['world', 'id'], columns=['v'], "
    "sequence='position')",
    "event_appends": "append_stream(rows=ref('events_view'), key=['world', 'id'], columns=['v'], "
    "sequence='position')",
}
COLUMNS = "world int, id bigint, v string, other int, position bigint"
FILES = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: events}, {name: held}]}]",
    "models/state.sql": """
        {{ config(materialized='folded', unique_key=['world', 'id'],
            fold={'sequence': 'position', 'row_kind': 'row_kind', 'tier_runs': 3}) }}
        select * from {{ new_rows(source('src', 'events')) }}
    """,
    "models/events_view.sql": """
        {{ config(materialized='view', meta={'row_wise': true}) }}
        select * from {{ source('src', 'events') }}
    """,
} | {f"models/{name}.sql": f"{CONFIG}\n{{{{ {call} }}}}" for name, call in STREAMS.items()}
PLUS = ("+I", "+U")
KEYS = (1, 2, 3, 4, None)  # null is a key too


class Histories:
    """Random streams of retract rows, side by side by their world, and their output."""

    def __init__(self, project: DbtProject, rng: random.Random, worlds: int) -> None:
        self.project, self.rng, self.worlds = project, rng, worlds
        self.position = self.runs = 0
        self.events: list[tuple] = []
        self.come: list[tuple] = []
        self.late: list[tuple] = []
        self.reported: dict[str, list[tuple]] = {name: [] for name in STREAMS}
        self.last: dict[str, dict[tuple, Any]] = {name: {} for name in STREAMS}
        project.query("create namespace if not exists src")
        for name, columns in {"events": f"{COLUMNS}, row_kind string", "held": COLUMNS}.items():
            project.query(f"create or replace table src.{name} ({columns}) using iceberg")

    def change(self, world: int) -> list[tuple]:
        """The rows of one change: all of one position."""
        rng = self.rng
        self.position += 1

        def row(key: int | None, kind: str) -> tuple:
            value = rng.choice([None, "x", "y"])
            return (world, key, value, rng.randint(1, 3), self.position, kind)

        key = rng.choice(KEYS)
        kind = rng.choice(["insert", "update", "update", "delete"])
        if kind == "update":
            other = rng.choice(KEYS) if rng.random() < 0.2 else key
            return [row(key, "-U"), row(other, "+U")]
        return [row(key, "+I" if kind == "insert" else "-D")]

    def more(self, share: float) -> None:
        rng = self.rng
        changes = []
        for world in range(self.worlds):
            if rng.random() < share:
                changes += [self.change(world) for _ in range(rng.choice([0, 1, 2, 4]))]
        rng.shuffle(changes)
        cut = len(changes) // 4
        self.come = [row for change in changes[cut:] + self.late for row in change]
        self.late = changes[:cut]
        again = rng.sample(self.events, min(len(self.events), 4))
        self.come += again
        rng.shuffle(self.come)
        self.write("events", self.come)
        self.events += self.come
        held = state_of(self.events)
        self.project.query("delete from src.held")
        self.write("held", [row[:-1] for row in held.values()])

    def write(self, name: str, rows: list[tuple]) -> None:
        if rows:
            session = own_session(self.project.credentials()).session
            frame = session.createDataFrame(rows, session.table(f"src.{name}").schema)
            frame.writeTo(f"src.{name}").append()

    def tell(self) -> None:
        """What each stream has to say of what came."""
        self.runs += 1
        state = {key: row[2] for key, row in state_of(self.events).items()}
        for name in ("state_upserts", "state_appends", "held_upserts"):
            last, reported = self.last[name], self.reported[name]
            for key in {*last, *state}:
                if key not in state:
                    if name != "state_appends":
                        reported.append((*key, None, "-D", self.runs))
                    del last[key]
                elif key not in last or last[key] != state[key]:
                    reported.append((*key, state[key], "+U" if key in last else "+I", self.runs))
                    last[key] = state[key]
        last = self.last["event_upserts"]
        newest: dict[tuple, tuple] = {}
        for row in self.come:
            place = (row[4], row[5] in PLUS)
            if row[:2] not in newest or place > newest[row[:2]][0]:
                newest[row[:2]] = (place, row)
        for key, ((position, is_kept), row) in newest.items():
            if position > last.get(key, 0):
                last[key] = position
                kind = row[5] if is_kept else "-D"
                reported = (*key, row[2] if is_kept else None, position, kind, self.runs)
                self.reported["event_upserts"].append(reported)
        seen = self.last["event_appends"]
        for row in self.come:
            if row[5] in PLUS and (row[:2], row[4]) not in seen:
                seen[row[:2], row[4]] = True
                self.reported["event_appends"].append((*row[:3], row[4], row[5], self.runs))
        self.come = []

    def compare(self) -> int:
        compared = 0
        for name, expected in self.reported.items():
            got = Counter(
                tuple(row.values()) for row in self.project.query(f"select * from dw.{name}")
            )
            wanted = Counter(expected)
            assert got == wanted, (
                f"{name}: too many {sorted(got - wanted, key=str)[:5]}, "
                f"missing {sorted(wanted - got, key=str)[:5]}"
            )
            compared += len(expected)
        # what a consumer makes of the upserts is the relation
        state = {(*key, row[2]) for key, row in state_of(self.events).items()}
        for name, order in {
            "state_upserts": "change_number",
            "held_upserts": "change_number",
            "event_upserts": "position",
        }.items():
            rows = self.project.query(
                f"select world, id, max_by(v, {order}) as v from dw.{name} group by world, id "
                f"having max_by(row_kind, {order}) <> '-D'"
            )
            assert {tuple(row.values()) for row in rows} == state, name
        return compared


def state_of(events: list[tuple]) -> dict[tuple, tuple]:
    """Key -> the row that it has; of one position the row that comes, not the row that goes."""
    last: dict[tuple, tuple] = {}
    for row in events:
        known = last.get(row[:2])
        if known is None or (row[4], row[5] in PLUS) > (known[4], known[5] in PLUS):
            last[row[:2]] = row
    return {key: row for key, row in last.items() if row[5] in PLUS}


def check_what_is_shown(project: DbtProject, histories: Histories) -> None:
    """`dbt show` gives what a run would add, by a query that keeps nothing."""
    histories.more(0.5)
    shown, known = {}, {}
    for name in ("held_upserts", "event_upserts", "event_appends"):
        table = project.run("show", "-s", name, "--limit", "-1").raw.results[0].agate_table
        shown[name] = Counter(tuple(row) for row in table.rows)
        known[name] = len(histories.reported[name])
        (compiled,) = (project.target / "compiled").rglob(f"{name}.sql")
        assert f"{name}__" not in compiled.read_text(encoding="utf-8")
    histories.tell()
    for name, got in shown.items():
        assert got == Counter(histories.reported[name][known[name] :]), name


def check_histories(project: DbtProject, worlds: int, runs: int) -> None:
    seed = int(os.environ.get("STREAM_SEED") or random.SystemRandom().randint(0, 10**9))
    print(f"seed {seed}")
    rng = random.Random(seed)
    histories = Histories(project, rng, worlds)
    compared = 0
    for number in range(runs):
        if number != 1:
            histories.more(1.0 if number == 0 else rng.choice([0.1, 0.5, 1.0]))
        outcome = project.run("run")
        if number == 1:  # without anything new
            assert {"nothing new" in outcome.results[name].message for name in STREAMS} == {True}
        else:
            histories.tell()
        compared += histories.compare()
    # a snapshot that the next run would begin from is gone: the stream itself shows what it
    # reported
    histories.more(0.5)
    project.query(
        "call lake.system.expire_snapshots(table => 'src.held', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )
    project.run("run")
    histories.tell()
    compared += histories.compare()
    check_what_is_shown(project, histories)
    print(f"{worlds} histories, {runs + 1} runs, {compared} changes compared, 0 differ")


def test_every_change_is_given_once(make_project) -> None:
    check_histories(make_project(MACROS | FILES), worlds=40, runs=3)


@pytest.mark.soak
def test_every_change_of_500_histories_is_given_once(make_project) -> None:
    check_histories(make_project(MACROS | FILES), worlds=500, runs=10)


WRONG = {
    "no_key": ("upsert_stream(rows=ref('state'), key=[], columns='v')", "key must name columns"),
    "no_column": (
        "upsert_stream(rows=ref('state'), key='id', columns=['w'])",
        "there is no column w; it has world, id, v",
    ),
    "no_order": (
        "append_stream(rows=ref('events_view'), key='id', columns='v')",
        "sequence must name the columns that order the changes",
    ),
    "order_of_a_state": (
        "append_stream(rows=ref('state'), key='id', columns='v', sequence='position')",
        "rows are a state, each key once",
    ),
    "no_state": (
        "upsert_stream(rows=source('src', 'held'), key='world', columns='v')",
        "the key (world) has several rows",
    ),
    "no_rows": ("append_stream(rows='state', key='id', columns='v')", "rows must be ref(..)"),
}


def test_mistakes_of_a_stream_are_reported(make_project) -> None:
    files = {f"models/{name}.sql": f"{CONFIG}\n{{{{ {item[0]} }}}}" for name, item in WRONG.items()}
    files["models/no_append.sql"] = (
        "{{ config(materialized='table') }}\n"
        "{{ append_stream(rows=ref('state'), key='id', columns='v') }}"
    )
    # for dbt to build them in this order
    files = {name: f"{text}\n-- {{{{ ref('state') }}}}" for name, text in files.items()}
    base = {name: FILES[name] for name in list(FILES)[:3]}
    project = make_project(MACROS | base | files)
    Histories(project, random.Random(1), 1)
    project.query("insert into src.held values (1, 1, 'x', 1, 1), (1, 2, 'y', 1, 2)")
    outcome = project.run("run", expect_ok=False)
    for name, (_, item) in WRONG.items():
        assert item in outcome.results[name].message, outcome.results[name].message
    assert "incremental_strategy='append'" in outcome.results["no_append"].message


def test_changes_that_a_stream_has_given_and_that_change_are_refused(make_project) -> None:
    files = {
        f"models/{name}.sql": f"{CONFIG}\n{{{{ {name}(rows=ref('{rows}'), key='id', "
        "columns=['v'], sequence='position') }}"
        for name, rows in {"upsert_stream": "events_view", "append_stream": "given"}.items()
    }
    given = "{{ config(materialized='table') }} select * from {{ source('src', 'events') }}"
    files |= {name: FILES[name] for name in ("models/sources.yml", "models/events_view.sql")}
    project = make_project(MACROS | files | {"models/given.sql": given})
    Histories(project, random.Random(1), 1)
    insert = "insert into src.events select 1, id, 'x', 1, id, '+I' from range"
    project.query(f"{insert}(4)")
    project.run("run")
    project.query(f"{insert}(4, 6)")  # the table `given` is made again, with the same rows
    project.run("run")
    project.query("delete from src.events where id >= 4")  # as a retention, with whole files
    project.run("run", "--select", "upsert_stream")
    project.query(f"{insert}(4, 6)")
    project.run("run")
    for statement, changed in {
        "update src.events set other = 2": 0,
        "update src.events set v = 'y' where id = 1": 1,
        "delete from src.events where id = 2": 1,
    }.items():
        project.query(statement)
        outcome = project.run("run", expect_ok=not changed)
        for name, rows in {"upsert_stream": "events_view", "append_stream": "given"}.items():
            if changed:
                assert (
                    f"{changed} rows of dw.{rows} that the stream has read have changed or gone"
                    in outcome.results[name].message
                )
        if changed:
            project.run("run", "--full-refresh")
        held = "select id, v from (select * except (world, other) from src.events) order by id"
        for name in ("upsert_stream", "append_stream"):
            assert project.query(f"select id, v from dw.{name} order by id") == project.query(held)
