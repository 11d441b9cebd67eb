"""Zippers as models: runs that are appended and merged, what a batch is refused for, changes."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.zipper_oracle import versions

pytestmark = pytest.mark.in_turn

ZIPPER = {
    "sequence": ["file", "position"],
    "time": "time",
    "row_kind": "kind",
    "unpaired_retraction": "ends",
}
SMALL_TIERS = {"buckets": 2, "tier_runs": 2, "tier_rows": 20}
COLUMNS = "id, file, position, time, kind, a, b"


def config_text(zipper: dict[str, Any]) -> str:
    return f"materialized='folded', unique_key='id', zipper={zipper | SMALL_TIERS}"


def model_text(zipper: dict[str, Any]) -> str:
    return f"""
        {{{{ config({config_text(zipper)}) }}}}
        select {COLUMNS} from {{{{ new_rows(source('src', 'changes')) }}}}
    """


FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: changes}]
    """,
    "models/zip.sql": model_text(ZIPPER | {"keep_time": True}),
    "models/zip_of_a.sql": model_text(ZIPPER | {"tracked": ["a"]}),
    "models/reported.sql": """
        {{ config(materialized='incremental') }}
        select * from {{ new_changes(ref('zip')) }}
    """,
}


class Changes:
    """A log of changes that come late, twice and in any order."""

    def __init__(self, project: DbtProject, rng: random.Random) -> None:
        self.project, self.rng = project, rng
        self.known: list[dict[str, Any]] = []
        self.coming = [self._change(number) for number in range(120)]
        project.query("create namespace if not exists src")
        project.query(
            "create or replace table src.changes (id int, file int, position int, "
            "time timestamp, kind string, a string, b int) using iceberg"
        )

    def _change(self, number: int) -> dict[str, Any]:
        rng = self.rng
        second = 10 + number // 2 - (rng.randint(1, 5) if rng.random() < 0.2 else 0)
        return {
            "id": rng.randint(1, 6),
            "file": 1 + number // 50,
            "position": number % 50,
            "time": f"2026-03-01 00:{10 + second // 60}:{second % 60:02}",
            "kind": rng.choice(["+I", "+U", "+U", "+U", "-U", "-D"]),
            "a": rng.choice(["x", "x", "y", None]),
            "b": rng.choice([1, 2, None]),
        }

    def more(self, count: int) -> None:
        self.rng.shuffle(self.coming)
        new, self.coming = self.coming[:count], self.coming[count:]
        self.insert(new + self.rng.choices(self.known or new, k=3))
        self.known += new

    def insert(self, changes: list[dict[str, Any]]) -> None:
        def cell(value: Any) -> str:
            if value is None:
                return "null"
            return str(value) if isinstance(value, int) else f"'{value}'"

        rows = ", ".join(
            f"({cell(change['id'])}, {change['file']}, {cell(change['position'])}, "
            f"timestamp'{change['time']}', {cell(change['kind'])}, {cell(change['a'])}, "
            f"{cell(change['b'])})"
            for change in changes
        )
        self.project.query(f"insert into src.changes values {rows}")

    def compare(self, model: str, tracked: list[str], has_time: bool = False) -> int:
        by_key = defaultdict(list)
        for row in self.known:
            by_key[row["id"]].append(row)
        wanted = sorted(
            (key, start, str(end), last["a"], str(last["b"]), last["dated"] if has_time else None)
            for key, changes in by_key.items()
            for start, end, last in versions(changes, ["file", "position"], "time", tracked, "kind")
        )
        rows = self.project.query(
            f"select id, string(valid_from) as f, string(valid_to) as t, a, b, is_current, "
            f"{'string(time)' if has_time else 'null'} as dated from dw.{model}"
        )
        got = [
            (row["id"], row["f"], str(row["t"]), row["a"], str(row["b"]), row["dated"])
            for row in rows
        ]
        assert sorted(got, key=repr) == sorted(wanted, key=repr)
        assert all(row["is_current"] == (row["t"] is None) for row in rows)
        return len(got)


@pytest.fixture(scope="module")
def project(make_project) -> DbtProject:
    return make_project(FILES)


def test_every_run_equals_the_oracle_while_runs_are_merged(project: DbtProject):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    changes = Changes(project, random.Random(seed))
    compared = 0
    for count in (40, 4, 30, 10):
        changes.more(count)
        project.run("run")
        compared += changes.compare("zip", ["a", "b"], has_time=True)
        compared += changes.compare("zip_of_a", ["a"])
        assert_changes_add_up_to_the_rows(project)
    operations = {
        row["summary"].get("fold.compacted")
        for row in project.query("select summary from dw.zip__runs.snapshots")
    }
    assert operations == {None, "true"}

    # what is tracked may change over what is stored; a merge and a full refresh change nothing
    other = {"tracked": ["b"], "keep_time": True}
    project.write({"models/zip_of_a.sql": model_text(ZIPPER | other)})
    changes.more(5)
    project.run("run", vars={"merge_runs": True})
    compared += changes.compare("zip", ["a", "b"], has_time=True)
    compared += changes.compare("zip_of_a", ["b"], has_time=True)
    assert_changes_add_up_to_the_rows(project)
    project.run("run", "--full-refresh")
    changes.compare("zip", ["a", "b"], has_time=True)
    print(f"{compared} versions compared, 0 differ")


def assert_changes_add_up_to_the_rows(project: DbtProject) -> None:
    """All changes that were given, summed by their sign, are the versions."""
    columns = "id, time, a, b, valid_from, valid_to, is_current"
    differing = project.query(
        f"select {columns}, sum(sign) as n from (select {columns}, sign from dw.reported union all "
        f"select {columns}, -1 from dw.zip) group by all having sum(sign) <> 0"
    )
    assert differing == []


def test_nulls_in_key_and_sequence_are_refused_with_their_count(project: DbtProject):
    changes = Changes(project, random.Random(5))
    changes.more(20)
    project.run("run", "--full-refresh", "-s", "zip")
    snapshots = project.query("select * from dw.zip__runs.snapshots")
    change = changes.known[0]
    changes.insert([change | {"id": None}, change | {"id": None}, change | {"position": None}])

    message = project.run("run", "-s", "zip", expect_ok=False).results["zip"].message

    assert "zip: rows have null where" in message
    assert "id in 2, position in 1. Nothing was written." in message
    changes.compare("zip", ["a", "b"])
    assert project.query("select * from dw.zip__runs.snapshots") == snapshots


def test_an_unpaired_before_image_is_refused_until_it_is_declared(project: DbtProject):
    changes = Changes(project, random.Random(7))
    row = {"id": 1, "file": 1, "a": "a", "b": 1, "time": "2026-03-01 00:01:00"}
    changes.insert([row | {"position": 1, "kind": "+I"}, row | {"position": 2, "kind": "-U"}])
    changes.insert([row | {"position": 3, "kind": "+U", "a": "b", "time": "2026-03-01 00:10:00"}])
    undeclared = {name: value for name, value in ZIPPER.items() if name != "unpaired_retraction"}
    project.write({"models/zip.sql": model_text(undeclared)})
    try:
        ran = project.run("run", "--full-refresh", "-s", "zip", expect_ok=False)
        assert "1 rows of kind -U have a sequence that no +U has" in ran.results["zip"].message
        ignoring = undeclared | {"unpaired_retraction": "ignored"}
        project.write({"models/zip.sql": model_text(ignoring)})
        project.run("run", "--full-refresh", "-s", "zip")
        versions_of_1 = project.query("select a, minute(valid_to) as ended from dw.zip order by a")
        assert [(row["a"], row["ended"]) for row in versions_of_1] == [("a", 10), ("b", None)]
    finally:
        project.write({"models/zip.sql": model_text(ZIPPER)})


def test_a_range_of_time_is_rebuilt_and_the_rest_left_alone(project: DbtProject):
    """What is stored was spoilt within the range and outside of it, in several runs."""
    changes = Changes(project, random.Random(11))
    changes.more(50)
    # one update that moved a row to another key, and over the range's end
    moving = {"file": 9, "position": 2, "a": "y", "b": 1}
    pair = [
        moving | {"id": 1, "kind": "-U", "time": "2026-03-01 00:10:30"},
        moving | {"id": 2, "kind": "+U", "time": "2026-03-01 00:11:30"},
    ]
    changes.insert(pair)
    changes.known += pair
    project.run("run", "--full-refresh", "-s", "zip")
    changes.more(30)
    project.run("run", "-s", "zip")
    first, end = "2026-03-01 00:10:20", "2026-03-01 00:10:50"
    within = f"time >= timestamp'{first}' and time < timestamp'{end}'"
    project.query(f"delete from dw.zip__runs where {within} and position % 3 = 0")
    project.query(f"update dw.zip__runs set a = 'wrong' where {within} and position % 3 = 1")
    project.query(f"update dw.zip__runs set a = 'left' where not ({within}) and position % 5 = 0")
    project.query(f"update dw.zip__runs set b = 99 where {within} and position % 7 = 0")
    # some are stored under a time on the other side of the range's bounds, half of them under
    # another key too
    moved = "position % 11 = 4"
    project.query(
        f"update dw.zip__runs set time = if({within}, time + interval 1 hour, "
        f"timestamp'{first}' + interval 1 second), id = if(position % 2 = 0, id % 6 + 1, id) "
        f"where {moved}"
    )
    with pytest.raises(AssertionError):
        changes.compare("zip", ["a", "b"])
    rest = f"not ({within}) and not ({moved})"
    stored = _stored(project, rest)

    for _ in range(2):  # again is the same
        project.run("run", "-s", "zip", vars={"rebuild": {"from": first, "to": end}})
        assert _stored(project, rest) == stored
    for message in changes.known:
        spoilt = not first <= message["time"] < end and message["position"] % 11 != 4
        if spoilt and message["position"] % 5 == 0 and message["kind"] in ("+I", "+U"):
            message["a"] = "left"
    changes.compare("zip", ["a", "b"])

    # what has come since is taken as well
    changes.more(10)
    project.run("run", "-s", "zip", vars={"rebuild": {"from": first, "to": end}})
    changes.compare("zip", ["a", "b"])
    reported = project.run("run", vars={"rebuild": "2026-03-01"}, expect_ok=False).results["zip"]
    assert "rebuild must be {from: .., to: ..}, got '2026-03-01'" in reported.message
    for asked in ({"from": end, "to": first}, {"from": first, "to": first}):
        reported = project.run("run", vars={"rebuild": asked}, expect_ok=False).results["zip"]
        assert "zip: the var rebuild names no time: `to` must lie behind" in reported.message


def _stored(project: DbtProject, condition: str) -> list[tuple]:
    rows = project.query(
        f"select distinct * except (run_level) from dw.zip__runs where {condition} "
        "order by file, position"
    )
    return [tuple(row.values()) for row in rows]


WRONG = {
    "models/wrong.sql": """
        {{ config(materialized='folded', zipper={'sequence': 'at', 'times': 'at'}) }}
        select 1 as at
    """,
    "models/both.sql": """
        {{ config(materialized='folded', unique_key='id', fold={}, zipper={'sequence': 'at'}) }}
        select 1 as id, 2 as at
    """,
    "models/other_columns.sql": """
        {{ config(
            materialized='folded', unique_key='key', zipper={'sequence': 'n', 'time': 'at'}
        ) }}
        select 1 as id, 2 as n, 'monday' as at, 3 as v
    """,
}


def test_every_problem_of_a_config_is_reported_at_once(make_project):
    project = make_project(WRONG)
    results = project.run("run", expect_ok=False).results
    for part in (
        "wrong: its zipper can't be built",
        "zipper.times is an unknown setting",
        "unique_key must name the key's columns, got None",
        "Example: config(materialized='folded', unique_key='product_id', zipper=",
    ):
        assert part in results["wrong"].message, part
    assert "both a fold and a zipper" in results["both"].message
    for part in (
        "unique_key: the model has no column key; it has at, id, n, v",
        "zipper.time: at is string, must be a timestamp, a date or a whole number",
    ):
        assert part in results["other_columns"].message, part
    assert project.query("show tables in dw") == []
