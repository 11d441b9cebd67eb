"""Full extracts beside a log: rows and versions against the plain Python of all statements.

A history is a world of its own: its number is part of every key, so that hundreds of histories lie
side by side in the same extracts and cost a few dbt runs.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject
from tests.support.extract_oracle import all_versions, current_rows, statements
from tests.support.extract_project import MACRO_AND_SOURCES

pytestmark = pytest.mark.in_turn

KEY, COLUMNS = ("world", "id"), ("a", "b")
START = datetime(2026, 3, 1, tzinfo=UTC)
SMALL_TIERS = {"buckets": 2, "tier_runs": 3, "tier_rows": 50}
A_FILE = 20  # places of the log
ORDER = ["file", "position", "from_extract"]
SEQUENCE = {"sequence": ORDER, "row_kind": "row_kind"} | SMALL_TIERS
FOLD = SEQUENCE | {"hidden_columns": ORDER}
ZIPPER = SEQUENCE | {"time": "time"}
MODEL = """
    {{{{ config(materialized='folded', unique_key=['world', 'id'], {kind}={config}) }}}}
    {{{{ extract_changes(
        extracts={{
            'rows': source('src', 'extract_rows'),
            'complete': source('src', 'extracts'),
            'id': 'extract_id',
            'row_count': 'row_count',
            {more}
        }},
        key=['world', 'id'],
        columns=['a', 'b'],
        sequence=['file', 'position'],
        {others}
    ) }}}}
"""
WITH_LOG = "log=source('src', 'changes'),"
TIMED = "time='time',"
FILES = {
    **MACRO_AND_SOURCES,
    "models/rows.sql": MODEL.format(kind="fold", config=FOLD, more="", others=WITH_LOG),
    "models/versions.sql": MODEL.format(
        kind="zipper", config=ZIPPER, more="", others=WITH_LOG + TIMED
    ),
    "models/versions_of_a.sql": MODEL.format(
        kind="zipper",
        config=ZIPPER | {"tracked": ["a"]},
        more="'dated_by': 'updated',",
        others=TIMED,
    ),
}
# what else happens before or in a run
STEPS = ["merge", "refresh", "nothing", "only_log", "only_extracts", "rewritten", "one_model"]


def at(time: float | None) -> datetime | None:
    return None if time is None else START + timedelta(seconds=time)


class Landed:
    """Extracts and a log that come late, twice and in any order, and what they come to."""

    def __init__(self, project: DbtProject, rng: random.Random, worlds: int) -> None:
        self.project, self.rng, self.worlds = project, rng, worlds
        self.extracts: dict[int, dict[str, Any]] = {}
        self.changes: list[dict[str, Any]] = []
        self.coming_extracts, self.coming_changes = self._history()
        project.query("create namespace if not exists src")
        for table, columns in {
            "extracts": "extract_id int, row_count bigint, file int, position int, time timestamp",
            "extract_rows": "extract_id int, world int, id int, a string, b int, updated timestamp",
            "changes": "world int, id int, a string, b int, row_kind string, file int, "
            "position int, time timestamp",
        }.items():
            project.query(f"create or replace table src.{table} ({columns}) using iceberg")

    def _history(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What a database does: extracts show it, and a log that misses some changes."""
        rng = self.rng
        now: dict[tuple[int, int], dict[str, Any]] = {}
        extracts, changes = [], []
        places, ids = sorted(rng.sample(range(4, 60), 9)), rng.sample(range(1000), 9)
        for place in range(60):
            time = place // 2
            for world in range(self.worlds):
                if rng.random() < 0.6:
                    continue
                key = (world, rng.choice([1, 1, 2, 3]))
                old = now.pop(key, None)
                row = {
                    "world": world,
                    "id": key[1],
                    "a": rng.choice(["x", "x", "y", None]),
                    "b": rng.choice([1, 2, None]),
                    # a clock of its own, which may be wrong
                    "updated": rng.choice([None, time, time, time - 3, time + 40]),
                }
                kind = "+I" if old is None else rng.choice(["+U", "+U", "-D"])
                logged = [row | {"row_kind": kind}]
                if kind == "+U" and rng.random() < 0.2:  # the row moves to another key
                    row["id"] = 4
                    logged = [old | {"row_kind": "-U"}, row | {"row_kind": kind}]
                if kind != "-D":
                    now[world, row["id"]] = row
                if rng.random() < 0.5:
                    changes += [change | {"place": place, "time": time} for change in logged]
            if place in places:
                rows = [] if rng.random() < 0.08 else list(now.values())
                extracts.append(
                    {"extract_id": ids.pop(), "place": place, "time": time} | {"rows": rows}
                )
        return extracts, changes

    def _write(self, table: str, rows: list[dict[str, Any]]) -> None:
        session = own_session(self.project.credentials()).session
        schema = session.table(f"src.{table}").schema
        cells = [tuple(self._cell(row, name) for name in schema.names) for row in rows]
        if cells:
            session.createDataFrame(cells, schema).writeTo(f"src.{table}").append()

    def _cell(self, row: dict[str, Any], name: str) -> Any:
        if name in ("file", "position"):
            return dict(zip(("file", "position"), divmod(row["place"], A_FILE), strict=True))[name]
        return at(row[name]) if name in ("time", "updated") else row[name]

    def land_changes(self, share: float) -> None:
        """Let changes of the log come: most in their order, a few late or again."""
        rng = self.rng
        self.coming_changes.sort(key=lambda row: row["place"] + (rng.random() < 0.1) * 40)
        # an update's two rows come together
        bound = max(1, int(len(self.coming_changes) * share))
        places = {(row["world"], row["place"]) for row in self.coming_changes[:bound]}

        def is_new(row: dict[str, Any]) -> bool:
            return (row["world"], row["place"]) in places

        new = [row for row in self.coming_changes if is_new(row)]
        self.coming_changes = [row for row in self.coming_changes if not is_new(row)]
        again = [
            row for row in self.changes if row["row_kind"] in ("+I", "-D") and rng.random() < 0.05
        ]
        self._write("changes", rng.sample(new, len(new)) + again)
        self.changes += new

    def land_extracts(self, count: int) -> None:
        """Let extracts come: most in their order, a few late, some again, some in two parts."""
        rng = self.rng
        rows, declared = [], []
        for _ in range(min(count, len(self.coming_extracts))):
            # the second always overtakes another, which is late then; the others may
            late = len(self.extracts) == 1 or rng.random() < 0.4
            late = late and len(self.coming_extracts) > 1
            extract = self.coming_extracts.pop(1 if late else 0)
            rows += self._rows_of(extract)
            declared.append(extract)
            self.extracts[extract["extract_id"]] = extract
        for extract in rng.sample([*self.extracts.values()], min(len(self.extracts), 1)):
            rows += self._rows_of(extract)
            declared.append(extract)
        if self.coming_extracts:  # one that isn't complete, of which all comes again
            rows += self._rows_of(self.coming_extracts[0])[:2]
        rng.shuffle(rows)
        self._write("extract_rows", rows)
        self._write(
            "extracts", [extract | {"row_count": len(extract["rows"])} for extract in declared]
        )

    def _rows_of(self, extract: dict[str, Any]) -> list[dict[str, Any]]:
        return [row | {"extract_id": extract["extract_id"]} for row in extract["rows"]]

    def compare(self, *models: str) -> int:
        """All rows of the models against the oracle; how many there are."""
        compared = 0
        for model in models:
            has_log = model != "versions_of_a"
            stated = statements(
                self.extracts.values(),
                self.changes if has_log else [],
                KEY,
                None if has_log else "updated",
            )
            if model == "rows":
                wanted = current_rows(stated, COLUMNS)
            else:
                tracked = COLUMNS if has_log else ("a",)
                wanted = {
                    (world, id, at(start)): (a, b, at(end))
                    for (world, id, start), (a, b, end) in all_versions(
                        stated, COLUMNS, tracked
                    ).items()
                }
            shown = [] if model == "rows" else ["valid_from"]
            ends = [] if model == "rows" else ["valid_to"]
            rows = self.project.query(f"select * from dw.{model}")
            got = {
                tuple(row[name] for name in (*KEY, *shown)): tuple(
                    row[name] for name in (*COLUMNS, *ends)
                )
                for row in rows
            }
            assert len(got) == len(rows), model
            wrong = {
                key: (got.get(key), wanted.get(key))
                for key in got.keys() | wanted.keys()
                if got.get(key) != wanted.get(key)
            }
            assert not wrong, (
                f"{model}: {len(wrong)} of {len(wanted)} differ (got, wanted), e.g. "
                f"{sorted(wrong.items(), key=str)[:2]}"
            )
            compared += len(got)
        return compared


MODELS = ("rows", "versions", "versions_of_a")


def check_histories(make_project: Any, worlds: int, runs: int, seed: int) -> None:
    """Play histories into models of extracts, and compare all after each run."""
    print(f"EXTRACTS_SEED={seed}, {worlds} histories, {runs} runs")
    rng = random.Random(seed)
    project = make_project(FILES)
    landed = Landed(project, rng, worlds)
    compared = 0
    deck = rng.sample(STEPS, len(STEPS))
    for number in range(runs):
        step = deck[number % len(deck)] if number else ""
        if step not in ("nothing", "only_extracts"):
            landed.land_changes(rng.choice([0.1, 0.3]))
        if step not in ("nothing", "only_log"):
            landed.land_extracts(rng.choice([1, 1, 2]) if number else 2)
        if step == "rewritten":
            project.query(f"delete from src.changes where (file * {A_FILE} + position) % 7 = 3")
            landed.changes = [row for row in landed.changes if row["place"] % 7 != 3]
        selected = ["-s", "rows"] if step == "one_model" else []
        outcome = project.run(
            "run",
            *selected,
            *(["--full-refresh"] if step == "refresh" else []),
            vars={"merge_runs": True} if step == "merge" else None,
        )
        if step == "nothing":
            assert "nothing new" in outcome.results["rows"].message
        compared += landed.compare(*(["rows"] if selected else MODELS))
    landed.land_extracts(9)
    project.run("run")
    compared += landed.compare(*MODELS)
    landed.land_changes(1)  # most of them before an extract that is there
    project.run("run")
    compared += landed.compare(*MODELS)
    project.run("run", "--full-refresh")
    landed.compare(*MODELS)
    print(f"{compared} rows compared, 0 differ")


def test_an_extract_is_dated_no_earlier_than_the_extract_before_it(make_project):
    name = "models/versions_of_a.sql"
    project = make_project({**MACRO_AND_SOURCES, name: FILES[name]})
    landed = Landed(project, random.Random(1), 0)

    def land(number: int, second: int, *held: tuple[int, str]) -> None:
        rows = [{"world": 1, "id": id, "a": a, "b": 1, "updated": None} for id, a in held]
        extract = {"extract_id": number, "place": number, "time": second, "rows": rows}
        landed.coming_extracts = [extract]
        landed.land_extracts(1)

    land(1, 10, (1, "x"))
    land(2, 10, (1, "y"))
    project.run("run")
    versions = project.query("select a, valid_from, valid_to from dw.versions_of_a")
    land(3, 9)
    message = project.run("run", expect_ok=False).results["versions_of_a"].message
    assert "extract 3 is dated before extract 2, behind which it is placed" in message
    assert project.query("select a, valid_from, valid_to from dw.versions_of_a") == versions
    assert versions == [{"a": "y", "valid_from": at(10), "valid_to": None}]


def a_seed() -> int:
    return int(os.environ.get("EXTRACTS_SEED") or random.SystemRandom().randint(0, 10**9))


def test_every_run_equals_what_extracts_and_log_state(make_project):
    check_histories(make_project, worlds=20, runs=4, seed=a_seed())


@pytest.mark.soak
def test_500_histories_equal_what_extracts_and_log_state(make_project):
    seed = a_seed()
    for number in range(5):  # schedules of extracts, each of 100 histories
        check_histories(make_project, worlds=100, runs=8, seed=seed + number)
