"""Beliefs: what a zipper's versions were held to be, against the plain Python of all runs.

A history is a world of its own: its number is part of every key, so that hundreds of histories lie
side by side in a table and cost a few dbt runs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.session import own_session
from pyspark.sql import SparkSession

from tests.support.belief_oracle import Believed, held_versions
from tests.support.dbt_project import REPO, DbtProject

MACROS = {
    f"macros/{path.relative_to(REPO / 'macros')}": path.read_text(encoding="utf-8")
    for folder in ("joins", "streams")
    for path in sorted((REPO / "macros" / folder).glob("*.sql"))
}
KEY, TRACKED = ("world", "id"), ("a", "b")
START = datetime(2026, 3, 1, tzinfo=UTC)
SOON = timedelta(microseconds=1)
SMALL_TIERS = {"buckets": 2, "tier_runs": 3, "tier_rows": 50}
ZIPPER = {"sequence": "position", "time": "time", "row_kind": "kind"} | SMALL_TIERS
BELIEFS = {"sequence": "known_time", "row_kind": "row_kind", "period": "known"} | SMALL_TIERS
FOLD = {"sequence": "commit_number", "row_kind": "row_kind"} | SMALL_TIERS
BELIEFS_SQL = """
    {{{{ config(
        materialized='folded',
        unique_key=['world', 'id', 'valid_from'],
        zipper={zipper},
        full_refresh=false,
        on_definition_change='accept',
        meta={{'put_back': false}},
    ) }}}}
    {{{{ beliefs(
        rows=ref('zip'), key=['world', 'id', 'valid_from'], columns=['a', 'b', 'valid_to']
    ) }}}}
"""
JOIN_SQL = """
    {{{{ config(
        materialized='folded',
        unique_key=['world', 'fact', 'right_world', 'rid', 'valid_from', 'known_from'],
        fold={fold},
    ) }}}}
    {{{{ temporal_join(
        left={{
            'relation': source('src', 'facts'),
            'key': ['world', 'fact'],
            'columns': ['world', 'fact', 'id', 'at', 'seen'],
            'time': 'at',
        }},
        right={{
            'relation': ref('believed'),
            'key': ['world', 'id', 'valid_from', 'known_from'],
            'columns': {{
                'world': 'right_world', 'id': 'rid', 'valid_from': 'valid_from',
                'known_from': 'known_from', 'a': 'a', 'b': 'b',
            }},
        }},
        on={{'world': 'world', 'id': 'id'}},
        kind='{kind}',
        as_known_at={as_known_at},
    ) }}}}
"""
FILES = MACROS | {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: changes}, {name: facts}]
    """,
    "models/zip.sql": f"""
        {{{{ config(materialized='folded', unique_key={list(KEY)}, zipper={ZIPPER}) }}}}
        select * from {{{{ new_rows(source('src', 'changes')) }}}}
    """,
    "models/believed.sql": BELIEFS_SQL.format(zipper=BELIEFS),
    "models/joined_as_seen.sql": JOIN_SQL.format(fold=FOLD, kind="left", as_known_at="'seen'"),
    "models/known.sql": """
        {{ config(materialized='table') }}
        {% for moment in var('moments', ['2026-03-01']) %}
        select '{{ moment }}' as moment, believed.*
        from {{ as_known_at(ref('believed'), moment) }} as believed
        {{ 'union all' if not loop.last }}
        {% endfor %}
    """,
}
# what else happens before or in a run
STEPS = ["correct", "zip", "expire", "refresh", "merge", "facts"]
ALL_BUT_KNOWN = ("run", "--exclude", "known")


def at(time: float | None) -> datetime | None:
    return None if time is None else START + timedelta(seconds=time)


class Histories:
    """Logs that come late, twice and in any order, and are corrected; facts that were seen at some
    time; and what a warehouse believes of them."""

    def __init__(self, project: DbtProject, rng: random.Random, worlds: int) -> None:
        self.project, self.rng, self.worlds = project, rng, worlds
        self.coming = [
            self._change(world, number) for number in range(24) for world in range(worlds)
        ]
        self.known: dict[tuple[int, int], dict[str, Any]] = {}
        self.facts: list[dict[str, Any]] = []
        self.believed = Believed()
        project.query("create namespace if not exists src")
        project.query(
            "create or replace table src.changes (world int, position int, id int, time timestamp, "
            "kind string, a string, b int) using iceberg"
        )
        project.query(
            "create or replace table src.facts (world int, fact int, id int, at timestamp, "
            "seen timestamp) using iceberg"
        )

    def _change(self, world: int, number: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "world": world,
            "position": number,
            "id": rng.choice([1, 1, 2]),
            # several changes in a second, and a clock that steps back now and then
            "time": number // 2 - (rng.randint(1, 4) if rng.random() < 0.15 else 0),
            "kind": rng.choice(["+I", "+U", "+U", "+U", "-D"]),
            "a": rng.choice(["x", "x", "y", None]),
            "b": rng.choice([1, 1, None]),
        }

    def _write(self, table: str, rows: list[dict[str, Any]]) -> None:
        session = own_session(self.project.credentials()).session
        schema = session.table(f"src.{table}").schema
        cells = [
            tuple(at(row[name]) if name in ("time", "at") else row[name] for name in schema.names)
            for row in rows
        ]
        if cells:
            session.createDataFrame(cells, schema).writeTo(f"src.{table}").append()

    def more(self, count: int) -> None:
        """Let so many changes of each world come; a few come late or again."""
        # few come late
        self.coming.sort(key=lambda row: row["position"] + (self.rng.random() < 0.15) * 40)
        size = count * self.worlds
        new, self.coming = self.coming[:size], self.coming[size:]
        self.rng.shuffle(new)
        again = self.rng.sample([*self.known.values()], min(len(self.known), self.worlds // 4))
        self._write("changes", new + again)
        self.known |= {(row["world"], row["position"]): row for row in new}

    def correct(self) -> None:
        """Let some changes of the log have other values, and take some out."""
        places = self.rng.sample([*self.known], min(len(self.known), self.worlds))
        for place in places[: len(places) // 4]:
            del self.known[place]
        for place in places[len(places) // 4 :]:
            fresh = self._change(*place)
            self.known[place] = self.known[place] | {name: fresh[name] for name in ("time", "a")}
        self.project.query("delete from src.changes")
        self._write("changes", [*self.known.values()])

    def more_facts(self) -> None:
        """Facts of any time, seen about when a run was, or by what will be known."""
        rng, times = self.rng, [*self.believed.times, datetime.now(UTC)]
        new = [
            {
                "world": world,
                "fact": len(self.facts) + number,
                "id": rng.choice([1, 2, None]),
                "at": rng.choice([None, *range(14)]),
                "seen": rng.choice(
                    [None, rng.choice(times) + rng.choice([-SOON, 0 * SOON, SOON])]
                    + 2 * [datetime.now(UTC) + timedelta(hours=1)]
                ),
            }
            for number, world in enumerate(rng.choices(range(self.worlds), k=self.worlds))
        ]
        self._write("facts", new)
        self.facts += new

    @property
    def held(self) -> dict[tuple, tuple]:
        """The versions that the log comes to."""
        return held_versions(self.known.values(), KEY, TRACKED)

    def note_run(self, began: datetime) -> None:
        """Note what a run had to believe, and from when on."""
        stored = self.project.summary("dw.believed__runs").get("beliefs.known_time")
        if stored is None:  # runs were merged after the commit
            found = self.project.column(
                "select summary['beliefs.known_time'] as t from dw.believed__runs.snapshots "
                "where summary['beliefs.known_time'] is not null order by committed_at desc limit 1"
            )
            stored = found[0]
        time = datetime.fromisoformat(stored)
        if self.believed.times and time == self.believed.times[-1]:
            assert self.believed.as_known_at(time) == self.held, "a run believed nothing new"
            return
        assert began <= time <= datetime.now(UTC)
        self.believed.note(time, self.held)

    def compare(self) -> int:
        """All beliefs against those of the oracle; how many there are."""
        wanted = {
            (world, id, at(valid_from), known_from): (a, b, at(valid_to), known_to)
            for (world, id, valid_from, known_from), (
                a,
                b,
                valid_to,
                known_to,
            ) in self.believed.beliefs().items()
        }
        rows = self.project.query("select * from dw.believed")
        got = {
            tuple(row[name] for name in ("world", "id", "valid_from", "known_from")): tuple(
                row[name] for name in ("a", "b", "valid_to", "known_to")
            )
            for row in rows
        }
        assert len(got) == len(rows)
        wrong = {
            key: (got.get(key), wanted.get(key))
            for key in got.keys() | wanted.keys()
            if got.get(key) != wanted.get(key)
        }
        assert not wrong, f"{len(wrong)} differ (got, wanted), e.g. {next(iter(wrong.items()))}"
        assert all(row["is_believed"] == (row["known_to"] is None) for row in rows)
        return len(got)

    def compare_join(self, model: str, kind: str, seen: Callable[[dict], datetime | None]) -> int:
        """The pairs of a join by what was known against those of the oracle; how many there are."""
        beliefs: dict[tuple, list[tuple]] = {}
        for (world, id, *since), row in self.believed.beliefs().items():
            beliefs.setdefault((world, id), []).append((*since, *row))
        wanted = set()
        for fact in self.facts:
            of_fact, time, own = (fact["world"], fact["fact"]), seen(fact), fact["at"]
            partners = [
                (*of_fact, fact["id"], at(valid_from), known_from, a, b)
                for valid_from, known_from, a, b, valid_to, known_to in beliefs.get(
                    (fact["world"], fact["id"]), []
                )
                if own is not None and time is not None
                if valid_from <= own and (valid_to is None or own < valid_to)
                if known_from <= time and (known_to is None or time < known_to)
            ]
            assert len(partners) <= 1
            wanted |= {*partners}
            if not partners and kind == "left":
                wanted.add((*of_fact, None, None, None, None, None))
        rows = self.project.query(
            f"select world, fact, rid, valid_from, known_from, a, b from dw.{model}"
        )
        got = {tuple(row.values()) for row in rows}
        extra, missing = got - wanted, wanted - got
        assert not extra | missing, (
            f"{model}: too many {sorted(extra, key=str)[:3]}, "
            f"missing {sorted(missing, key=str)[:3]}"
        )
        assert len(got) == len(rows)
        return len(got)

    def compare_known(self) -> None:
        """What the macro as_known_at gives of the moments around each run's time, and of that time
        itself, against what was held then."""
        moments = {
            f"{moment:%Y-%m-%d %H:%M:%S.%f}": moment
            for time in self.believed.times
            for moment in (time - SOON, time, time + SOON)
        }
        self.project.run("run", "-s", "known", vars={"moments": [*moments]})
        wanted = {
            (text, world, id, at(valid_from), a, b, at(valid_to))
            for text, moment in moments.items()
            for (world, id, valid_from), (a, b, valid_to) in (
                self.believed.as_known_at(moment).items()
            )
        }
        rows = self.project.query(
            "select moment, world, id, valid_from, a, b, valid_to from dw.known"
        )
        assert {tuple(row.values()) for row in rows} == wanted
        assert len(rows) == len(wanted)


def expire(project: DbtProject, *tables: str) -> None:
    """Let the newest snapshot of each table alone be left."""
    for table in tables:
        project.query(
            f"call lake.system.expire_snapshots(table => 'dw.{table}', retain_last => 1, "
            f"older_than => timestamp'{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}')"
        )


def check_histories(make_project: Any, worlds: int, runs: int) -> None:
    """Play histories into beliefs and their joins, and compare all after each run."""
    seed = int(os.environ.get("BELIEFS_SEED") or random.SystemRandom().randint(0, 10**9))
    print(f"BELIEFS_SEED={seed}, {worlds} histories, {runs} runs")
    rng = random.Random(seed)
    project = make_project(FILES)
    histories = Histories(project, rng, worlds)
    moment, compared, pairs = None, 0, 0
    deck = rng.sample(STEPS, len(STEPS))
    for number in range(runs):
        steps = []
        if number != 2:  # which has nothing new
            histories.more(rng.choice([1, 2, 4]) if number else 6)
        if number > 2:
            steps, deck = deck[:2], deck[2:] or rng.sample(STEPS, len(STEPS))
        if "zip" in steps:  # the beliefs pass over what their zipper was in between
            project.run("run", "-s", "zip")
            histories.more(1)
        if "correct" in steps:
            histories.correct()
        if "expire" in steps:
            expire(project, "zip__runs", "believed__runs")
        if "facts" in steps or number < 2:
            histories.more_facts()
        before = number and project.column("select snapshot_id from dw.believed__runs.snapshots")
        began = datetime.now(UTC)
        outcome = project.run(
            *ALL_BUT_KNOWN,
            *(["--full-refresh"] if "refresh" in steps else []),
            vars={"merge_runs": True} if "merge" in steps else None,
        )
        if number == 2:
            assert "nothing new" in outcome.results["believed"].message
            after = project.column("select snapshot_id from dw.believed__runs.snapshots")
            assert after == before
        histories.note_run(began)
        compared += histories.compare()
        pairs += histories.compare_join("joined_as_seen", "left", lambda fact: fact["seen"])
        if moment is not None:
            pairs += histories.compare_join("joined_then", "inner", lambda _, then=moment: then)
        if number == 1:
            moment = rng.choice([*histories.believed.times, datetime.now(UTC) + timedelta(0, 9)])
            as_known_at = repr(f"{moment:%Y-%m-%d %H:%M:%S.%f}")
            text = JOIN_SQL.format(fold=FOLD, kind="inner", as_known_at=as_known_at)
            project.write({"models/joined_then.sql": text})
    histories.compare_known()
    print(f"{compared} beliefs and {pairs} pairs compared, 0 differ")


@pytest.mark.in_turn
def test_beliefs_of_every_run_equal_the_oracle(make_project):
    check_histories(make_project, worlds=20, runs=6)


@pytest.mark.soak
def test_beliefs_of_500_histories_equal_the_oracle(make_project):
    check_histories(make_project, worlds=500, runs=12)


def test_a_system_time_of_the_source_needs_no_run(spark: SparkSession):
    """Rows that were recorded late, in any order, are beliefs by what their source recorded."""
    zipper = Zipper.read(
        "z", ["id", "valid_from"], {"sequence": "recorded", "period": "known", "row_kind": "kind"}
    ).bound(
        [
            *(("id", "int"), ("valid_from", "int"), ("valid_to", "int"), ("price", "int")),
            *(("recorded", "int"), ("kind", "string")),
        ]
    )
    spark.sql(
        "select * from values (1, 10, 30, 5, 200, '+U'), (1, 10, null, 5, 100, '+I'), "
        "(1, 30, null, 6, 200, '+I'), (1, 30, null, null, 300, '-D') "
        "as t(id, valid_from, valid_to, price, recorded, kind)"
    ).createOrReplaceTempView("recorded_rows")
    state = zipper.merge_states(f"({zipper.to_state('recorded_rows')})")
    rows = spark.sql(zipper.folded(f"({state})", 1))
    assert rows.columns == [
        *("id", "valid_from", "valid_to", "price", "known_from", "known_to", "is_believed")
    ]
    assert sorted(map(tuple, rows.collect()), key=repr) == [
        (1, 10, 30, 5, 200, None, True),
        (1, 10, None, 5, 100, 200, False),
        (1, 30, None, 6, 200, 300, False),
    ]
