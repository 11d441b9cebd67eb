"""Materialization `folded`: runs that are appended and merged, and the view over them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.tables import KeyedTables

from tests.support.dbt_project import REPO, DbtProject
from tests.support.fold_oracle import folded

WIDE = {
    "tie_break": ["position"],
    "row_kind": "kind",
    "on_delete": "ignore",
    "sequence_groups": {
        "of_one": {"sequence": ["one"], "columns": ["a", "total"]},
        "of_two": {"sequence": ["two"], "columns": ["c"], "on_delete": "remove_row"},
    },
    "aggregates": {"total": {"function": "sum"}},
}
LATEST = {"sequence": ["position"], "row_kind": "kind"}
SMALL_TIERS = {"buckets": 2, "tier_runs": 2, "tier_rows": 20}


def config_text(fold: dict[str, Any], extra: str = "") -> str:
    return f"materialized='folded', unique_key='id', fold={fold | SMALL_TIERS}{extra}"


FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: events}, {name: shape}]
    """,
    "models/wide.sql": f"""
        {{{{ config({config_text(WIDE)}) }}}}
        select id, position, kind, one, two, a, total, c
        from {{{{ new_rows(source('src', 'events')) }}}}
    """,
    "models/latest.sql": f"""
        {{{{ config({config_text(LATEST)}) }}}}
        select id, position, kind, a, total from {{{{ new_rows(source('src', 'events')) }}}}
    """,
    "models/py_latest.py": f"""
        def model(dbt, session):
            dbt.config({config_text(LATEST)})
            events = dbt.new_rows(dbt.source("src", "events"))
            return events.select("id", "position", "kind", "a", "total")
    """,
    "models/reader.sql": """
        {{ config(materialized='table') }}
        select count(*) as row_count, sum(total) as total from {{ pinned(ref('latest')) }}
    """,
    "models/changes.sql": """
        {{ config(materialized='incremental') }}
        select * from {{ new_changes(ref('latest')) }}
    """,
}
COLUMNS = {
    "wide": ["position", "one", "two", "a", "total", "c"],
    "latest": ["position", "a", "total"],
}


class Events:
    """A source table, appended to at random; what its folded tables must hold."""

    def __init__(self, project: DbtProject, rng: random.Random) -> None:
        self.project, self.rng, self.held = project, rng, []
        project.query("create namespace if not exists src")
        project.query(
            "create or replace table src.events (id int, position int, kind string, one int, "
            "two int, a string, total decimal(10,2), c string) using iceberg"
        )

    def more(self, count: int) -> None:
        rng, new = self.rng, []
        for _ in range(count):
            event = {
                "id": rng.choice([None, *range(1, 12)]),
                "position": len(self.held),
                "kind": rng.choice(["+I", "+U", "+U", "-U", "-D"]),
                "one": rng.choice([None, 1, 2, 3]),
                "two": rng.choice([None, 1, 2, 3]),
                "a": rng.choice([None, "x", "y"]),
                "total": rng.choice([None, 1, 2, 5]),
                "c": rng.choice([None, "p", "q"]),
            }
            self.held.append(event)
            new.append(event)
        rng.shuffle(new)
        self.insert("src.events", new)

    def insert(self, table: str, events: list[dict]) -> None:
        def cell(value: Any) -> str:
            if value is None:
                return "null"
            return f"'{value}'" if isinstance(value, str) else str(value)

        rows = ", ".join(f"({', '.join(map(cell, event.values()))})" for event in events)
        self.project.query(f"insert into {table} values {rows}")

    def compare(self, model: str, fold: dict[str, Any], columns: list[str]) -> int:
        by_key = defaultdict(list)
        for event in self.held:
            by_key[event["id"]].append(event)
        expected = {}
        for key, events in by_key.items():
            row = folded(events, fold, columns)
            if row is not None:
                expected[key] = row
        rows = self.project.query(f"select * from dw.{model}")
        got = {row["id"]: {name: row[name] for name in columns} for row in rows}
        assert len(rows) == len(got)
        assert got == expected
        return len(rows)

    def compare_all(self) -> int:
        return (
            self.compare("wide", WIDE, COLUMNS["wide"])
            + self.compare("latest", LATEST, COLUMNS["latest"])
            + self.compare("py_latest", LATEST, COLUMNS["latest"])
        )


def run_count(project: DbtProject, model: str) -> int:
    """Runs that a table of runs holds: rows of one key and level lie in as many."""
    rows = project.query(
        f"select coalesce(max(n), 0) as n from (select sum(c) as n from (select run_level, id, "
        f"count(*) as c from dw.{model}__runs group by run_level, id) group by id)"
    )
    return rows[0]["n"]


@pytest.fixture(scope="module")
def project(make_project) -> DbtProject:
    return make_project(FILES)


def test_every_run_equals_the_oracle_while_runs_are_merged(project: DbtProject):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    events = Events(project, random.Random(seed))
    compared, most_runs, operations = 0, 0, set()
    for count in (40, 3, 5, 30, 0):
        if count:
            events.more(count)
        outcome = project.run("run")
        compared += events.compare_all()
        most_runs = max(most_runs, run_count(project, "latest"))
        row = project.query("select * from dw.reader")[0]
        held = project.query("select count(*) as n, sum(total) as t from dw.latest")[0]
        assert (row["row_count"], row["total"]) == (held["n"], held["t"])
        reported = assert_changes_come_to_the_rows(project)
    for row in project.query("select summary from dw.latest__runs.snapshots"):
        operations.add(row["summary"].get("fold.compacted"))
    assert operations == {None, "true"}
    assert most_runs > 1
    assert outcome.results["latest"].message.startswith("nothing new")
    tables = {name: rows_of(project, name) for name in ("wide", "latest", "py_latest")}

    project.run("run", vars={"merge_runs": True})
    assert run_count(project, "latest") == 1
    assert "group by" not in view_text(project, "latest")
    assert {name: rows_of(project, name) for name in tables} == tables
    assert assert_changes_come_to_the_rows(project) == reported  # a merge changes nothing

    project.run("run", "--full-refresh")
    assert {name: rows_of(project, name) for name in tables} == tables
    print(f"{compared} rows compared, {reported} changes reported, 0 differ")


def assert_changes_come_to_the_rows(project: DbtProject) -> int:
    """All changes that were given, summed by their sign, are the rows; how many there were."""
    differing = project.query(
        "select id, position, a, total, sum(sign) as n from (select id, position, a, total, sign "
        "from dw.changes union all select id, position, a, total, -1 from dw.latest) "
        "group by all having sum(sign) <> 0"
    )
    assert differing == []
    wrong = "(row_kind in ('+I', '+U')) <> (sign = 1)"
    assert project.query(f"select * from dw.changes where {wrong}") == []
    return project.query("select count(*) as n from dw.changes")[0]["n"]


def rows_of(project: DbtProject, name: str) -> list[tuple]:
    rows = project.query(f"select * from dw.{name} order by id")
    return [tuple(row.values()) for row in rows]


def test_a_rewritten_input_is_read_again(project: DbtProject):
    events = Events(project, random.Random(7))
    events.more(30)
    project.run("run", "--full-refresh")
    events.more(5)
    project.run("run")
    project.query("delete from src.events where position % 3 = 0")
    events.held = [message for message in events.held if message["position"] % 3]
    events.held += [dict(events.held[0], position=99, a="z", kind="+U")]
    events.insert("src.events", events.held[-1:])
    project.run("run")
    assert events.compare_all() > 0
    assert_changes_come_to_the_rows(project)


def test_the_view_never_reads_two_runs_as_if_they_were_one(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
):
    events = Events(project, random.Random(8))
    events.more(40)
    project.run("run", "--full-refresh", "-s", "latest")
    assert "group by" not in view_text(project, "latest")
    events.more(40)

    with monkeypatch.context() as patched:
        patched.setattr(KeyedTables, "record_compaction", stop)
        project.run("run", "-s", "latest", expect_ok=False)
    assert run_count(project, "latest") == 2
    assert "group by" in view_text(project, "latest")
    events.compare("latest", LATEST, COLUMNS["latest"])


# orders that are removed, and sums of no sequence beside them
BESIDE = {
    "sequence_groups": {"o": {"sequence": ["at"], "columns": ["time"], "on_delete": "remove_row"}},
    "aggregates": {"n": "sum"},
    "row_kind": "kind",
    "on_delete": "retract",
    "tombstone_days": 3,
    "tombstone_time": "time",
}
KEPT = {"sequence": ["at"], "row_kind": "kind", "on_delete": "ignore"}
WITH_DELETES = {
    "models/sources.yml": FILES["models/sources.yml"],
    "models/beside.sql": f"""
        {{{{ config({config_text(BESIDE)}) }}}}
        select id, kind, at, time, n from {{{{ new_rows(source('src', 'events')) }}}}
    """,
    "models/kept.sql": f"""
        {{{{ config({config_text(KEPT)}) }}}}
        select id, kind, at, time
        from {{{{ new_rows(source('src', 'events')) }}}} where at is not null
    """,
}


def test_what_deletes_leave_behind_is_no_less_and_no_more(make_project):
    project = make_project(WITH_DELETES)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.events (id int, kind string, at int, time timestamp, n int) using iceberg"
    )

    def run(*rows: str, **variables: bool) -> None:
        values = ", ".join(rows)
        if values:
            project.query(
                "insert into src.events select id, kind, at, cast(time as timestamp), n "
                f"from values {values} as t(id, kind, at, time, n)"
            )
        project.run("run", vars=variables)

    def held(table: str, *columns: str) -> list[tuple]:
        names = ", ".join(columns)
        rows = project.query(f"select {names} from dw.{table} order by {names}")
        return [tuple(row.values()) for row in rows]

    run("(1, '-D', 5, '2026-03-01', null)", "(2, '-D', 5, '2026-03-01', null)")
    assert held("kept", "id") == []  # nothing is known of a key that was deleted alone
    run("(1, '+I', null, null, 2)", "(3, '+I', 9, '2026-03-08', null)")
    assert held("beside", "id", "n") == [(3, None)]
    run(merge_runs=True)
    assert run_count(project, "beside") == 1
    assert held("beside__runs", "id", "n") == [(1, 2), (3, None)]  # the tombstone of 2 is gone
    run("(1, '-D', null, null, 2)", "(1, '+I', 6, '2026-03-09', null)")
    assert held("beside", "id", "n") == [(1, 0), (3, None)]
    assert held("kept", "id", "at") == [(1, 6), (3, 9)]
    project.run("run", "--full-refresh")
    assert held("beside", "id", "n") == [(1, 0), (3, None)]
    assert held("kept", "id", "at") == [(1, 6), (3, 9)]


def view_text(project: DbtProject, name: str) -> str:
    row = project.query(f"show create table dw.{name}")[0]
    return next(iter(row.values())).lower()


SHAPES = {
    f"models/shape_{mode}.sql": f"""
        {{{{ config({config_text(LATEST, f", on_schema_change='{name}'")}) }}}}
        select * from {{{{ source('src', 'shape') }}}}
    """
    for mode, name in {
        "ignore": "ignore",
        "fail": "fail",
        "append": "append_new_columns",
        "sync": "sync_all_columns",
    }.items()
}


def stop(*_: Any) -> None:
    raise RuntimeError("stopped")


def test_changed_columns_are_taken_as_on_schema_change_is_set(
    make_project, monkeypatch: pytest.MonkeyPatch
):
    files = {"models/sources.yml": FILES["models/sources.yml"]} | SHAPES
    project = make_project(files)
    project.query("create namespace if not exists src")
    write = "create or replace table src.shape using iceberg as select * from values {}"
    project.query(
        write.format("(1, 1, '+I', 'b1'), (2, 2, '+I', 'b2') as t(id, position, kind, b)")
    )
    project.run("run")
    project.query(write.format("(2, 3, '+U', 'c2') as t(id, position, kind, c)"))
    with monkeypatch.context() as patched:
        patched.setattr(KeyedTables, "record_run", stop)
        # a view of a single run is written again anyway
        patched.setattr(KeyedTables, "run_count", lambda *_: 2)
        project.run("run", "-s", "shape_sync", expect_ok=False)
    # the columns have changed, the rows haven't yet: they can be read
    assert "`b`" not in view_text(project, "shape_sync")
    rows = project.query("select * from dw.shape_sync order by id")
    assert rows == [{"id": 1, "position": 1, "c": None}, {"id": 2, "position": 2, "c": None}]
    outcome = project.run("run", expect_ok=False)
    failed = {name for name, status in outcome.statuses().items() if status != "success"}
    assert failed == {"shape_ignore", "shape_fail"}
    assert "column b is gone" in outcome.results["shape_ignore"].message
    message = outcome.results["shape_fail"].message
    assert "column b is gone" in message
    assert "column c is new" in message
    rows = project.query("select id, b, c from dw.shape_append order by id")
    assert [tuple(row.values()) for row in rows] == [(1, "b1", None), (2, None, "c2")]
    rows = project.query("select * from dw.shape_sync order by id")
    assert [tuple(row.values()) for row in rows] == [(1, 1, None), (2, 3, "c2")]
    project.query(write.format("(2, 4, '+U', 'b3', 1) as t(id, position, kind, b, c)"))
    outcome = project.run("run", "-s", "shape_ignore", "shape_append", expect_ok=False)
    assert outcome.results["shape_ignore"].status == "success"
    rows = project.query("select * from dw.shape_ignore order by id")
    assert [tuple(row.values()) for row in rows] == [(1, 1, "b1"), (2, 4, "b3")]
    assert "column c was string, is int" in outcome.results["shape_append"].message
    project.query(write.format("(2, 5, '+U', 'b3', '1') as t(id, position, kind, B, c)"))
    outcome = project.run("run", "-s", "shape_append", expect_ok=False)
    assert "column B is written b there" in outcome.results["shape_append"].message


def test_a_changed_fold_asks_for_a_full_refresh(make_project):
    names = ("sources.yml", "latest.sql", "changes.sql")
    project = make_project({f"models/{name}": FILES[f"models/{name}"] for name in names})
    events = Events(project, random.Random(9))
    events.more(20)
    project.run("run")
    events.more(20)
    project.run("run")
    changed = FILES["models/latest.sql"].replace(
        "'sequence': ['position']", "'sequence': ['total', 'position']"
    )
    project.write({"models/latest.sql": changed})
    outcome = project.run("run", expect_ok=False)
    assert "group other was" in outcome.results["latest"].message
    assert "--full-refresh" in outcome.results["latest"].message
    project.run("run", "--full-refresh", "-s", "latest")
    project.run(
        "run", "-s", "changes"
    )  # the old rows can't be distinguished from what is declared now
    assert_changes_come_to_the_rows(project)


def test_another_choice_of_rows_reaches_who_follows_them(make_project):
    """Without a full refresh and without a new row."""
    read_by_pin = """
        {{ config(materialized='incremental', incremental_strategy='replace_all') }}
        select id from {{ pinned(ref('latest')) }}
    """
    names = ("sources.yml", "latest.sql", "changes.sql")
    files = {f"models/{name}": FILES[f"models/{name}"] for name in names}
    project = make_project(files | {"models/read_by_pin.sql": read_by_pin})
    events = Events(project, random.Random(13))
    events.more(60)
    project.run("run")
    counts = [len(rows_of(project, "latest"))]
    for condition in ("id > 3", "id > 8", None):
        if condition:
            fold = LATEST | SMALL_TIERS | {"keep_when": condition}
            changed = FILES["models/latest.sql"].replace(str(LATEST | SMALL_TIERS), str(fold))
            project.write({"models/latest.sql": changed})
        outcome = project.run("run")
        counts.append(len(rows_of(project, "latest")))
        assert_changes_come_to_the_rows(project)
        assert len(rows_of(project, "read_by_pin")) == counts[-1]
    assert counts[0] > counts[1] > counts[2] == counts[3] > 0
    assert outcome.results["latest"].message.startswith("nothing new")


HIDING = LATEST | {"hidden_columns": ["position", "n"], "keep_when": "n > 0"}
HIDDEN = {
    "models/sources.yml": FILES["models/sources.yml"],
    "models/latest.sql": f"""
        {{{{ config({config_text(HIDING)}) }}}}
        select id, position, kind, a, 1 as n from {{{{ new_rows(source('src', 'events')) }}}}
    """,
    "models/changes.sql": FILES["models/changes.sql"],
    "models/stream.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        {{ upsert_stream(rows=ref('latest'), key='id', columns=['a']) }}
    """,
} | {
    f"macros/streams/{name}.sql": (REPO / f"macros/streams/{name}.sql").read_text("utf-8")
    for name in ("upsert_stream", "append_stream")
}


def test_a_change_of_hidden_columns_alone_is_none(make_project):
    project = make_project(HIDDEN)
    Events(project, random.Random(1))  # an empty table
    given: Counter = Counter()

    def run(*rows: str, **variables: Any) -> list[tuple]:
        """The changes that readers get of rows of id, position, kind and a."""
        if rows:
            project.query(
                f"insert into src.events (id, position, kind, a) values {', '.join(rows)}"
            )
        project.run("run", vars=variables)
        found = project.query("select * except (sign) from dw.changes")
        assert all({*row} == {"id", "a", "row_kind"} for row in found)
        new = Counter(tuple(row.values()) for row in found) - given
        given.update(new)
        return sorted(new.elements())

    def streamed() -> int:
        return project.query("select count(*) as n from dw.stream")[0]["n"]

    assert run("(1, 5, '+I', 'x')", "(2, 5, '+I', 'y')") == [(1, "x", "+I"), (2, "y", "+I")]
    assert streamed() == 2
    # newer places of the same row: what they change is hidden
    assert run("(1, 8, '+U', 'x')", "(2, 6, '+U', 'y')", "(3, 9, '-D', 'z')") == []
    assert run("(1, 9, '-U', 'x')", "(1, 10, '+U', 'x')") == []
    assert streamed() == 2
    assert project.summary("dw.stream").get("added-records", "0") == "0"
    assert project.summary("dw.changes").get("added-records", "0") == "0"
    # but they are known: an older change counts nothing
    assert run("(1, 7, '+U', 'old')", "(3, 2, '+I', 'old')", "(2, 7, '+U', 'new')") == [
        (2, "new", "+U"),
        (2, "y", "-U"),
    ]
    assert streamed() == 3
    assert run(merge_runs=True) == []
    assert project.query("select * from dw.latest order by id") == [
        {"id": 1, "a": "x"},
        {"id": 2, "a": "new"},
    ]
    project.run("run", "--full-refresh", "-s", "latest")
    assert run() == []
    # it only states what is shown of the stored rows
    shown = HIDING | {"hidden_columns": ["n"]}
    text = HIDDEN["models/latest.sql"].replace(str(HIDING | SMALL_TIERS), str(shown | SMALL_TIERS))
    project.write({"models/latest.sql": text})
    project.run("run", "-s", "latest")
    assert project.query("select * from dw.latest where id = 1") == [
        {"id": 1, "position": 10, "a": "x"}
    ]
    project.run("run", "-s", "changes", "--full-refresh")
    assert len(project.query("select id, position, a from dw.changes")) == 2


WRONG = """
    {{ config(
        materialized='folded',
        fold={
            'sequense': ['position'],
            'on_delete': 'forget',
            'tier_runs': 1,
            'aggregates': {'a': 'median'},
            'sequence_groups': {'one': {'columns': ['a']}},
        },
    ) }}
    select 1 as id
"""


def test_every_problem_of_a_config_is_reported_at_once(make_project):
    project = make_project({"models/wrong.sql": WRONG})
    message = project.run("run", expect_ok=False).results["wrong"].message
    for part in (
        "fold.sequense is an unknown setting",
        "unique_key must name the key's columns, got None",
        "fold.on_delete must be one of ignore, retract, remove_row, got 'forget'",
        "fold.tier_runs must be a whole number from 2, got 1",
        "fold.aggregates.a.function must be one of sum, count,",
        "fold.sequence_groups.one.sequence must name at least one column",
        "Example: config(materialized='folded'",
    ):
        assert part in message, part
