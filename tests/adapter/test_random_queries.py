"""What the adapter lets pass of random queries gives, run after run, what all rows give at once.

SQLite answers the queries: the first rows, then what is new with them, then all rows together.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.reading.chosen_queries import problem_of_choice
from dbt.adapters.sparksession.reading.fold_queries import problem_of_fold
from dbt.adapters.sparksession.reading.news_queries import problem_of, reads_news
from dbt.adapters.sparksession.reading.partition_queries import problem_of_partitions
from dbt.adapters.sparksession.reading.query_parts import NEWS, parsed

from tests.support.random_queries import COLUMNS, NEW, RandomQuery
from tests.support.sqlite_tables import Database, Row

Ask = Callable[[list[Row], list[Row]], list[Row]]  # what is new, all rows -> a query's rows
FUNCTIONS: dict[str, Callable[[list[int]], int]] = {"sum": sum, "max": max, "min": min}
TRIES = 8  # of a query, each with other rows


class Unfit(Exception):
    """Rows for which a model of this kind is refused as it runs, or which decide nothing."""


@dataclass
class Kind:
    """A kind of model: which queries it gets, what stands for them in two runs and in a full
    refresh.

    Attributes:
        kept: columns that a query hands on and groups by.
        chooses: whether new rows choose others of their table.
        fold: of a keyed table.
    """

    rng: random.Random
    kept: tuple[str, ...] = ()
    chooses: bool = False
    fold: dict[str, Any] = field(default_factory=dict)

    def problem(self, sql: str) -> str | None:
        raise NotImplementedError

    def two_runs(self, ask: Ask, first: list[Row], second: list[Row]) -> tuple[Any, Any]:
        """What the table holds after two runs, and after a full refresh."""
        runs = [ask(first, first), ask(second, first + second)]
        return self.held(runs), self.held([ask(first + second, first + second)])

    def held(self, runs: list[list[Row]]) -> Any:
        raise NotImplementedError

    def rows(self, count: int, start: int) -> list[Row]:
        """Random rows; `at` is another in each."""
        rng = self.rng
        return [
            (*(rng.randint(1, 3) for _ in range(3)), rng.choice((None, -1, 0, 1, 2, 3)), start + at)
            for at in range(count)
        ]


class Adding(Kind):
    """A model that adds what each run gives."""

    def problem(self, sql: str) -> str | None:
        return problem_of(sql, [NEW], True) or problem_of_choice(sql, [NEW], ["id"])

    def held(self, runs: list[list[Row]]) -> Any:
        return Counter(row for run in runs for row in run)


class Merging(Kind):
    """A model that merges what each run gives by `id`."""

    def problem(self, sql: str) -> str | None:
        return problem_of(sql, [NEW], False) or problem_of_choice(sql, [NEW], ["id"])

    def held(self, runs: list[list[Row]]) -> Any:
        found: dict[Any, Row] = {}
        for run in runs:
            if len({row[0] for row in run}) < len(run):
                raise Unfit  # two rows of a key
            found |= {row[0]: row for row in run}
        return found

    def rows(self, count: int, start: int) -> list[Row]:
        rows = super().rows(count, start)
        if self.rng.random() < 0.5:
            return rows
        ids = self.rng.sample(range(start, start + 9), count)
        return [(new, *row[1:]) for new, row in zip(ids, rows, strict=True)]


class Folding(Kind):
    """A keyed table."""

    def problem(self, sql: str) -> str | None:
        fold = Fold.read("m", "id", self.fold).bound([(name, "bigint") for name in COLUMNS])
        return problem_of_fold(sql, [NEW], fold) or problem_of_choice(sql, [NEW], ["id"])

    def held(self, runs: list[list[Row]]) -> Any:
        rows_of: dict[Any, list[list[Row]]] = defaultdict(lambda: [[] for _ in runs])
        for at, run in enumerate(runs):
            for row in run:
                rows_of[row[0]][at].append(row)
        return {key: self._folded(in_runs) for key, in_runs in rows_of.items()}

    def _folded(self, runs: list[list[Row]]) -> Row:
        rows, newest = [row for run in runs for row in run], list[Row]()
        if "sequence" in self.fold:
            if any(row[-1] is None for row in rows):
                raise Unfit  # such a row has no place
            highest = max(row[-1] for row in rows)
            in_runs = ([row for row in run if row[-1] == highest] for run in runs)
            # of two runs that of the first may stay
            newest = next(found for found in in_runs if found)
        folded = []
        for at, name in enumerate(COLUMNS[1:], start=1):
            function = self.fold["aggregates"].get(name)
            values = [row[at] for row in rows if row[at] is not None]
            if function is None:
                if len({row[at] for row in newest}) > 1:
                    raise Unfit  # nothing decides between them
                folded.append(newest[0][at])
            elif function == "count":
                folded.append(len(values))
            elif not values:
                folded.append(None)
            else:
                folded.append(FUNCTIONS[function](values))
        return tuple(folded)


class Replacing(Kind):
    """A model that rewrites the partitions of `day` that changed."""

    def problem(self, sql: str) -> str | None:
        return problem_of_partitions(sql, [NEW], "day")

    def two_runs(self, ask: Ask, first: list[Row], second: list[Row]) -> tuple[Any, Any]:
        days = {row[1] for row in second}
        stored, full = ask(first, first), ask(first + second, first + second)
        changed = [row for row in first + second if row[1] in days]
        written = ask(changed, first + second)
        if any(row[1] not in days for row in written) or any(row[1] is None for row in stored):
            raise Unfit  # the run fails: a row of another partition
        left = [row for row in stored if row[1] not in days]
        return Counter(left + written), Counter(full)


def kind_named(name: str, rng: random.Random) -> Kind:
    """A kind by its name, with a random fold."""
    if name == "adding":
        return Adding(rng)
    if name == "merging":
        return Merging(rng, kept=("id",), chooses=True)
    if name == "replacing":
        return Replacing(rng, kept=("day",))
    functions = ("sum", "sum", "max", "min", "count")
    fold: dict[str, Any] = {
        "aggregates": {
            column: rng.choice(functions) for column in ("day", "k", "v") if rng.random() < 0.6
        }
    }
    if len(fold["aggregates"]) < 3:
        fold["sequence"] = "at"
    else:
        fold["aggregates"]["at"] = "max"
    return Folding(rng, kept=("id",), chooses=rng.random() < 0.5, fold=fold)


def tried(kind: Kind, sql: str, database: Database) -> Iterator[tuple[Any, Any]]:
    """What two runs and a full refresh give, for several rows."""
    for _ in range(TRIES):
        database.fill("y", kind.rows(kind.rng.randint(1, 4), 100))
        first = kind.rows(kind.rng.randint(1, 4), 0)
        second = kind.rows(kind.rng.randint(1, 4), 10)
        try:
            yield kind.two_runs(lambda news, rows: database.ask(sql, news, rows), first, second)
        except Unfit:
            continue
        except sqlite3.OperationalError:  # an `order by` that SQLite doesn't take here
            return


def try_queries(name: str, count: int) -> Counter[str]:
    """Try random queries of models of one kind.

    Returns:
        How many of them passed, and how many were refused.
    """
    seed = os.environ.get("QUERIES_SEED", "1")
    database, seen = Database(), Counter[str]()
    for number in range(count):
        rng = random.Random(f"{seed}-{name}-{number}")
        kind = kind_named(name, rng)
        sql = RandomQuery(rng, kind.chooses, kind.kept).text()
        if NEW not in sql or not reads_news(parsed(sql, [NEW], NEWS)):
            continue
        if kind.problem(sql) is not None:
            seen["refused"] += 1
            continue
        for held, full in tried(kind, sql, database):
            seen["compared"] += 1
            assert held == full, f"QUERIES_SEED={seed}, {name} {number}, {kind.fold}: {sql}"
        seen["passed"] += 1
    print(f"QUERIES_SEED={seed}, {name}: {dict(seen)}")
    return seen


NAMES = ("adding", "merging", "folding", "replacing")


@pytest.mark.parametrize("name", NAMES)
def test_random_queries_that_pass_give_run_after_run_what_all_rows_give(name: str) -> None:
    seen = try_queries(name, 600)
    assert seen["passed"] > 40
    assert seen["compared"] > 300


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_random_queries(name: str) -> None:
    assert try_queries(name, 100_000)["passed"] > 10_000
