"""Keyed tables over changes: of random queries that the adapter lets pass they hold, run after run,
what all rows make, also where rows of an earlier run are taken back.

SQLite answers the queries: the first rows, then what changed, then all rows as they are.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.reading.chosen_queries import problem_of_choice
from dbt.adapters.sparksession.reading.fold_queries import problem_of_fold
from dbt.adapters.sparksession.reading.taken_back import leaves_out_by_kind, looks_up_itself

from tests.support.random_queries import COLUMNS, KIND, NEW, RandomChanges
from tests.support.sqlite_tables import Database, Row

SIGNS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
TYPES = [*((name, "bigint") for name in COLUMNS), (KIND, "string")]
TRIES = 12  # of a query, each with other rows


class Unfit(Exception):
    """Rows that a keyed table refuses, or that decide nothing."""


@dataclass
class Changes:
    """Rows that were there, what changed of them, and the rows that there are then."""

    before: list[Row]
    news: list[Row]
    now: list[Row]

    @property
    def taken_back(self) -> bool:
        return any(row[-1] < 0 for row in self.news)


def rows(rng: random.Random, count: int, start: int) -> list[Row]:
    return [
        (*(rng.randint(1, 3) for _ in range(3)), rng.choice((None, -1, 0, 1, 2, 3)), start + at)
        for at in range(count)
    ]


def changes(rng: random.Random) -> Changes:
    """Some rows go, some change (mostly not their id; mostly later than they were), some come."""
    before = rows(rng, rng.randint(1, 4), 0)
    gone = [row for row in before if rng.random() < 0.5]
    found = Changes(before, [], [row for row in before if row not in gone])
    for row in gone:
        if rng.random() < 0.3:
            found.news.append((*row, "-D", -1))
            continue
        values = [rng.choice((value, value, value, rng.randint(1, 3))) for value in row[:3]]
        later = rng.choice((20, 20, 0, -1))
        new = (*values, rng.choice((None, row[3], 0, 1, 2)), row[4] + later)
        if rng.random() < 0.6:
            new = (row[0], *new[1:])
        found.news += [(*row, "-U", -1), (*new, "+U", 1)]
        found.now.append(new)
    for row in rows(rng, rng.randint(0, 2), 40):
        found.news.append((*row, "+I", 1))
        found.now.append(row)
    return found


def as_new(found: list[Row]) -> list[Row]:
    return [(*row, "+I", 1) for row in found]


def random_fold(rng: random.Random) -> dict[str, Any]:
    """What is taken back is counted off; or the last row of a key is kept, and removed."""
    counted = ("sum", "sum", "count")
    if rng.random() < 0.5:
        aggregates = {name: rng.choice(counted) for name in COLUMNS[1:]}
        return {"row_kind": KIND, "count_rows": True, "aggregates": aggregates}
    aggregates = {name: rng.choice(counted) for name in ("day", "k", "v") if rng.random() < 0.3}
    counts = {"count_rows": True} if rng.random() < 0.3 else {}
    return {"row_kind": KIND, "sequence": "at", "aggregates": aggregates, **counts}


def image(fold: dict[str, Any], row: Row) -> tuple[Any, ...]:
    """What orders the rows of a key: their place, then their values; null is lowest."""
    plain = [at for at, name in enumerate(COLUMNS[1:4], start=1) if name not in fold["aggregates"]]
    return (row[4], *((row[at] is not None, row[at] or 0) for at in plain))


def held(fold: dict[str, Any], runs: list[list[Row]]) -> dict[Any, Row]:
    """What the keyed table holds of the rows of its runs."""
    rows_of: dict[Any, list[Row]] = defaultdict(list)
    for row in (row for run in runs for row in run):
        is_whole = len(row) > len(COLUMNS) and row[0] is not None and row[5] in SIGNS
        if not is_whole or any(isinstance(value, str) for value in row[:5]):
            raise Unfit
        rows_of[row[0]].append(row)
    found = {key: _folded(fold, of_key) for key, of_key in rows_of.items()}
    return {key: row for key, row in found.items() if row is not None}


def _folded(fold: dict[str, Any], of_key: list[Row]) -> Row | None:
    """The row of a key; None where there is none."""
    newest: Row = ()
    if "sequence" in fold:
        if any(row[4] is None for row in of_key):
            raise Unfit  # such a row has no place
        highest = max(row[4] for row in of_key)
        last = [row for row in of_key if row[4] == highest]
        # of one place what gives goes before what takes back, then the values decide
        newest = max(last, key=lambda row: (SIGNS[row[5]], image(fold, row)))
        if SIGNS[newest[5]] < 0:
            return None
    if fold.get("count_rows") and sum(SIGNS[row[5]] for row in of_key) == 0:
        return None
    values = []
    for at, name in enumerate(COLUMNS[1:], start=1):
        function = fold["aggregates"].get(name)
        known = [row for row in of_key if row[at] is not None]
        if function is None:
            values.append(newest[at])
        else:  # a sum of nothing is 0 here, as one of which all was taken back
            values.append(
                sum(SIGNS[row[5]] * (row[at] if function == "sum" else 1) for row in known)
            )
    return tuple(values)


def stands_behind(fold: dict[str, Any], first: list[Row], second: list[Row]) -> bool:
    """Whether a run takes back rows of a key that may have been its newest, and gives none that is
    newer: then all rows are made again, see keyed.places."""
    for key in {row[0] for row in second}:
        taken, given = (
            [image(fold, row) for row in second if row[0] == key and SIGNS[row[5]] == sign]
            for sign in (-1, 1)
        )
        is_alone = bool(taken) and not given
        if is_alone and fold.get("count_rows"):
            is_alone = sum(SIGNS[row[5]] for row in first + second if row[0] == key) != 0
        if is_alone or (taken and given and max(taken) > max(given)):
            return True
    return False


def two_runs(sql: str, fold: dict[str, Any], found: Changes, database: Database) -> tuple[Any, Any]:
    """What a keyed table holds after two runs, and after a full refresh."""
    full = held(fold, [database.ask(sql, as_new(found.now), found.now)])
    first = database.ask(sql, as_new(found.before), found.before)
    second = database.ask(sql, found.news, found.now)
    runs = held(fold, [first, second])
    if found.taken_back:
        if leaves_out_by_kind(sql, [NEW], KIND) or looks_up_itself(sql, [NEW]):
            return full, full
        if "sequence" in fold and stands_behind(fold, first, second):
            return full, full
    return runs, full


def try_queries(count: int) -> Counter[str]:
    """Try random queries; how many passed, and how many were refused."""
    seed = os.environ.get("QUERIES_SEED", "1")
    database, seen = Database((KIND, "sign")), Counter[str]()
    for number in range(count):
        rng = random.Random(f"{seed}-changes-{number}")
        config = random_fold(rng)
        sql = RandomChanges(rng, True, ("id", KIND)).text()
        if NEW not in sql:
            continue
        fold = Fold.read("m", "id", config).bound(TYPES)
        if problem_of_fold(sql, [NEW], fold) or problem_of_choice(sql, [NEW], ["id"]):
            seen["refused"] += 1
            continue
        for _ in range(TRIES):
            database.fill("y", rows(rng, rng.randint(1, 4), 100))
            try:
                runs, full = two_runs(sql, config, changes(rng), database)
            except Unfit:
                continue
            except sqlite3.OperationalError:  # a column that another table doesn't have
                break
            seen["compared"] += 1
            assert runs == full, f"QUERIES_SEED={seed}, {number}, {config}: {sql}"
        seen["passed"] += 1
    print(f"QUERIES_SEED={seed}: {dict(seen)}")
    return seen


def test_random_queries_over_changes_that_pass_give_what_all_rows_give() -> None:
    seen = try_queries(800)
    assert seen["passed"] > 60
    assert seen["compared"] > 300


@pytest.mark.soak
def test_fifty_thousand_random_queries_over_changes() -> None:
    assert try_queries(50_000)["passed"] > 4_000
