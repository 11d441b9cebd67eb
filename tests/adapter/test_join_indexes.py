"""Indexes of joins: what a version that begins far back lets a run open, and what it doesn't.

That the joins stay exact with an index, whatever is looked up in it, is tested in test_joins.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from dbt.adapters.sparksession.declared.declarations import DeclarationError
from dbt.adapters.sparksession.declared.join_indexes import (
    MOST_LOOKUPS,
    index_columns,
    lookups_wanted,
)
from dbt.adapters.sparksession.declared.join_models import JoinModels

from tests.support.dbt_project import REPO, DbtProject

FOLDED = (
    "{{ config(materialized='folded', unique_key=%s, fold={'sequence': 'n', 'tier_runs': 30}) }} "
    "select * from {{ new_rows(source('src', '%s')) }}"
)
JOINED = """
    {{ config(materialized='folded', unique_key=['id', 'user', 'valid_from'], fold={
        'sequence': 'commit_number', 'row_kind': 'row_kind', 'tier_runs': 30}) }}
    {{ temporal_join(
        left={'relation': ref('facts'), 'key': 'id', 'columns': ['id', 'at'], 'time': 'at'%s},
        right={'relation': ref('versions'), 'key': ['user', 'valid_from'],
            'columns': ['user', 'valid_from', 'kind']},
        on={'k': 'user'},
        kind='left',
    ) }}
"""
INDEX = """
    {{ config(materialized='folded', unique_key=['k', 'at', 'id'], fold={'tier_runs': 30}) }}
    {{ join_index(relation=ref('facts'), key='id', by=['k', 'at']) }}
"""
MODELS = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: facts}, {name: versions}]}]",
    "models/facts.sql": FOLDED % ("'id'", "facts"),
    "models/versions.sql": FOLDED % ("['user', 'valid_from']", "versions"),
    "models/facts_by_user.sql": INDEX,
    "models/indexed.sql": JOINED % ", 'index': ref('facts_by_user')",
    "models/scanned.sql": JOINED % "",
}
MACROS = {
    f"macros/joins/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/joins").glob("*.sql"))
}
DAYS, FACTS_A_DAY, USER = 6, 40, 77
DAYS_OF_USER = (1, 4)  # on which that user has a fact, the last of the day
START = "timestamp'2026-01-01'"


def day(number: float) -> str:
    return f"{START} + interval {round(24 * 3600 * number)} seconds"


@pytest.fixture(scope="module")
def project(make_project) -> DbtProject:
    """A run of facts for each day, of ten users and now and then of USER, who has no version.

    To build it takes longer than the tests do, so they share it, in their order.
    """
    project = make_project(MACROS | MODELS)
    project.query("create namespace if not exists src")
    project.query("create table src.facts (id bigint, n int, k bigint, at timestamp) using iceberg")
    project.query(
        "create table src.versions using iceberg as select id * 10 as user, 0 as n, 'new' as kind, "
        f"{START} as valid_from, cast(null as timestamp) as valid_to from range(10)"
    )
    for number in range(DAYS):
        last = (number + 1) * FACTS_A_DAY - 1
        user = f"if(id = {last} and {number in DAYS_OF_USER}, {USER}, id % 10 * 10)"
        project.query(
            f"insert into src.facts select id, 0, {user}, {day(number)} + "
            f"make_dt_interval(0, 0, cast(id - {last} + {FACTS_A_DAY} as int)) "
            f"from range({number * FACTS_A_DAY}, {last + 1})"
        )
        project.run("run")
    return project


@contextmanager
def gone(project: DbtProject, tables: dict[str, str]) -> Iterator[int]:
    """Within it the files aren't there of whose bounds a condition holds; how many these are.

    Args:
        tables: table -> SQL condition, with `low` and `high` of its metrics named <column>.low.
    """
    paths = []
    for table, condition in tables.items():
        for path in project.column(
            f"select file_path from (select file_path, readable_metrics.* from dw.{table}.files) "
            f"where {condition}"
        ):
            paths.append(Path(path.removeprefix("file:")))
    try:
        for path in paths:
            path.rename(path.with_suffix(".away"))
        yield len(paths)
    finally:
        for path in paths:
            path.with_suffix(".away").rename(path)


def outside(column: str, wanted: list[int]) -> str:
    """Condition on a file's metrics: none of these values lies in its bounds."""
    return " and ".join(
        f"not {value} between {column}.lower_bound and {column}.upper_bound" for value in wanted
    )


def kinds(project: DbtProject, model: str, user: int) -> list[tuple[int, str | None]]:
    rows = project.query(
        f"select id, kind from dw.{model} where id in "
        f"(select id from src.facts where k = {user}) order by id"
    )
    return [(row["id"], row["kind"]) for row in rows]


@pytest.mark.in_turn
def test_a_version_that_begins_far_back_opens_the_files_of_its_users_facts_alone(
    project, monkeypatch
):
    looked_up: list[bool] = []
    lookup = JoinModels.lookup

    def watched(*given):
        found = lookup(*given)
        looked_up.append(found is not None)
        return found

    monkeypatch.setattr(JoinModels, "lookup", watched)
    ids = [(number + 1) * FACTS_A_DAY - 1 for number in DAYS_OF_USER]
    old = (DAYS - 1) * FACTS_A_DAY  # the newest day's facts follow
    cheap = {"join_lookup_bytes": 1}

    # an ordinary day: a version of the newest day ends the version before it
    newest = day(DAYS - 1)
    project.query(f"insert into src.versions select 30, 1, 'new', {START}, {newest}")
    project.query(f"insert into src.versions select 30, 1, 'old', {newest}, null")
    project.run("run", "-s", "versions")
    past = {
        "facts__runs": f"id.upper_bound < {old}",
        "indexed__runs": f"id.upper_bound < {old}",
        "scanned__runs": f"id.upper_bound < {old}",
        "facts_by_user__runs": "true",
    }
    with gone(project, past) as count:
        assert count > 20
        project.run("run", "-s", "indexed", "scanned")
    assert looked_up == [False]
    assert kinds(project, "indexed", 30) == kinds(project, "scanned", 30)
    assert (old + 3, "old") in kinds(project, "indexed", 30)

    # a version of USER that begins before all facts
    project.query(f"insert into src.versions select {USER}, 0, 'new', {day(-900)}, null")
    project.run("run", "-s", "versions")
    others = {
        "facts__runs": outside("id", ids),
        "indexed__runs": outside("id", ids),
        "facts_by_user__runs": outside("k", [USER]),
    }
    with gone(project, others) as count:
        assert count > 20
        project.run("run", "-s", "indexed", vars=cheap)
    assert looked_up == [False, True]
    assert kinds(project, "indexed", USER) == [(number, "new") for number in ids]
    with gone(project, {"facts__runs": outside("id", ids)}):  # what it is without the index
        outcome = project.run("run", "-s", "scanned", expect_ok=False)
        assert "NotFoundException" in outcome.results["scanned"].message
    project.run("run", "-s", "scanned")
    assert kinds(project, "scanned", USER) == kinds(project, "indexed", USER)

    # a late version cuts it in two: the facts before the cut aren't looked at
    cut = day(DAYS_OF_USER[1])
    project.query(f"insert into src.versions select {USER}, 1, 'new', {day(-900)}, {cut}")
    project.query(f"insert into src.versions select {USER}, 1, 'old', {cut}, null")
    project.run("run", "-s", "versions")
    others |= {
        "facts__runs": outside("id", ids[1:]),
        "indexed__runs": outside("id", ids[1:]),
    }
    with gone(project, others):
        project.run("run", "-s", "indexed", vars=cheap)
    assert looked_up == [False, True, True]
    assert kinds(project, "indexed", USER) == [(ids[0], "new"), (ids[1], "old")]

    # an index that is behind isn't asked: a fact of USER that it doesn't know is found
    late = DAYS * FACTS_A_DAY
    project.query(f"insert into src.facts values ({late}, 0, {USER}, {day(2)})")
    project.run("run", "-s", "facts")
    project.query(f"insert into src.versions select {USER}, 2, 'newer', {day(-900)}, {cut}")
    project.run("run", "-s", "versions")
    project.run("run", "-s", "indexed", vars=cheap)
    assert looked_up[3:] == [False]
    assert kinds(project, "indexed", USER) == [
        (ids[0], "newer"), (ids[1], "old"), (late, "newer")
    ]  # fmt: skip


@pytest.mark.in_turn
def test_a_run_with_nothing_new_makes_no_commit(project: DbtProject) -> None:
    """The first build records that it read the index, though it looked nothing up in it."""
    project.run("run")  # what the test before has left alone
    project.run("run", "--full-refresh", "-s", "indexed")
    count = "select count(*) from dw.indexed__runs.snapshots"
    before = project.column(count)
    project.run("run")
    assert project.column(count) == before


@pytest.mark.in_turn
def test_an_index_of_something_else_is_refused(project):
    project.write(
        {"models/indexed.sql": JOINED % ", 'index': ref('versions')", "models/facts_by_user.sql": (
            "{{ config(materialized='folded', unique_key=['at', 'id'], fold={}) }} "
            "{{ join_index(relation=ref('facts'), key='id', by=['k', 'at']) }}"
        ), "models/part.sql": (
            "{{ config(materialized='folded') }} select * from "
            "({{ join_index(relation=ref('facts'), key='id', by=['k', 'at']) }}) where k > 0"
        )}
    )  # fmt: skip
    project.query(f"insert into src.versions select {USER}, 0, 'new', {START}, null")
    outcome = project.run("run", expect_ok=False)
    assert (
        "left.index (dw.versions) must be a model of join_index that is of "
        '{"of":"dw.facts","columns":["k","at","id"]}; its commits say None'
    ) in outcome.results["indexed"].message
    assert (
        "facts_by_user: unique_key of the model's config must be ['k', 'at', 'id'] or be left out, "
        "got ['at', 'id']"
    ) in outcome.results["facts_by_user"].message
    assert "part leaves out or changes rows that join_index(..) gives" in (
        outcome.results["part"].message
    )
    with pytest.raises(DeclarationError, match="by must name columns, got None"):
        index_columns("id", None)


def test_the_fewest_bytes_are_opened():
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        begins = sorted(Decimal(rng.randint(0, 20)) for _ in range(rng.randint(1, 12)))
        begins = [None] * rng.choice([0, 0, 2]) + begins
        files = [
            (rng.choice([None, *[Decimal(rng.randint(0, 20))] * 4]), rng.randint(1, 9))
            for _ in range(rng.randint(0, 9))
        ]
        size = rng.randint(0, 9)

        costs = [
            number * size
            + sum(
                file_size
                for last, file_size in files
                for first in begins[number : number + 1]
                if first is None or last is None or last >= first
            )
            for number in range(len(begins) + 1)
        ]
        number = lookups_wanted(begins, files, size)
        assert costs[number] == min(costs)
        assert number in (0, len(begins)) or begins[number - 1] != begins[number]
    many = [Decimal(number) for number in range(MOST_LOOKUPS + 1)]
    assert lookups_wanted(many, [(Decimal(10**6), 10**12)], 1) == 0  # no more are looked up
