"""Append streams without their copies: a filter spares look-ups and loses nothing."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from dbt.adapters.sparksession.declared.key_filters import Shape
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject

pytestmark = pytest.mark.in_turn

MACROS = {
    f"macros/deduplication/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/deduplication").glob("*.sql"))
}


def files(expected_keys: int, rate: float = 0.001) -> dict[str, str]:
    return MACROS | {
        "models/sources.yml": "sources: [{name: src, tables: [{name: views}]}]",
        "models/views.sql": """
            {{ config(materialized='incremental', incremental_strategy='append',
                partition_by='day') }}
            {{ unseen_rows(rows=new_rows(source('src', 'views')), key='view_id', order_by='place',
                filter='views_seen', same='day') }}
        """,
        "models/views_seen.sql": f"""
            {{{{ config(materialized='folded', unique_key='block_number',
                fold={{'aggregates': {{'bits': 'bitmap_or'}}, 'tier_runs': 3}}) }}}}
            {{{{ key_filter(rows=ref('views'), key='view_id', expected_keys={expected_keys},
                false_positive_rate={rate}) }}}}
        """,
    }


def make_views(project: DbtProject) -> None:
    project.query("create namespace if not exists src")
    project.query(
        "create or replace table src.views (view_id string, day date, place bigint) using iceberg"
    )


def counts_of(project: DbtProject) -> tuple[int, int, int]:
    """Keys that came, were looked up and were there, as the newest commit reports."""
    reported = project.summary("dw.views")
    return tuple(
        int(reported[f"deduplication.{item}"]) for item in ("came", "looked_up", "were_there")
    )


def check_streams(project: DbtProject, runs: int, size: int) -> int:
    """Play a random stream; how many keys the filter took for known keys that were new."""
    seed = int(os.environ.get("FILTER_SEED") or random.SystemRandom().randint(0, 10**9))
    print(f"seed {seed}")
    rng = random.Random(seed)
    make_views(project)
    schema = "view_id string, day date, place bigint"
    first: dict[str | None, tuple] = {}
    sent: list[tuple] = []
    place = false_positives = 0
    for number in range(runs):
        batch = []
        for _ in range(size):
            place += 1
            again = sent and rng.random() < 0.4
            key, day = (
                rng.choice(sent)[:2] if again else (f"v{place}", f"2026-03-{place % 9 + 1:02}")
            )
            batch.append((rng.choice([None, key]) if place % 97 == 0 else key, day, place))
        for item in batch:
            known = first.get(item[0])
            # the run in which it came, then its place
            if known is None or (number, item[2]) < known[:2]:
                first[item[0]] = (number, item[2], item)
        sent += batch
        rng.shuffle(batch)
        own_session(project.credentials()).session.createDataFrame(
            [(key, day, at) for key, day, at in batch], "view_id string, day string, place bigint"
        ).selectExpr("view_id", "cast(day as date) as day", "place").writeTo("src.views").append()
        # the filter lags behind now and then, as after a run that was killed
        lags = number == 1 or (number and rng.random() < 0.4)
        project.run("run", *(["-s", "views"] if lags else []))
        if number:
            _, looked_up, were_there = counts_of(project)
            false_positives += looked_up - were_there
        if number and rng.random() < 0.2:
            project.run("run", "-s", "views_seen", "--full-refresh")
        got = Counter(
            (row["view_id"], str(row["day"]), row["place"])
            for row in project.query("select view_id, day, place from dw.views")
        )
        assert got == Counter(item for _, _, item in first.values()), f"run {number}, {schema}"
    rows = project.query("select * from dw.views")
    project.run("run", "--full-refresh")
    again = project.query("select * from dw.views")
    assert {row["view_id"] for row in rows} == {row["view_id"] for row in again}
    assert len(again) == len(rows)
    print(f"{runs} runs, {len(sent)} rows, {len(first)} keys, {false_positives} taken for known")
    return false_positives


def test_each_key_is_kept_once_whatever_the_filter_answers(make_project) -> None:
    # a filter that is far too small: many new keys look as if they were there
    assert check_streams(make_project(files(expected_keys=1, rate=0.1)), runs=3, size=8_000) > 100


@pytest.mark.soak
def test_each_key_is_kept_once_in_many_runs(make_project) -> None:
    for expected in (1, 3_000, 1_000_000):
        check_streams(make_project(files(expected)), runs=25, size=2_000)


def test_a_filter_spares_the_look_up_of_new_keys_and_has_the_declared_rate(make_project) -> None:
    keys, rate = int(os.environ.get("FILTER_KEYS", "50000")), 0.01
    project = make_project(files(expected_keys=keys, rate=rate))
    make_views(project)

    def send(first: int, last: int) -> None:
        project.query(
            f"insert into src.views select md5(cast(id as string)), date_add(date '2026-03-01', "
            f"cast(id % 5 as int)), id from range({first}, {last})"
        )

    send(0, keys)
    project.run("run")
    size = project.column("select sum(octet_length(bits)) from dw.views_seen")[0]
    assert size == Shape.for_keys(["view_id"], keys, rate).blocks * 4096

    send(keys, keys + 50_000)
    outcome = project.run("run")
    came, looked_up, were_there = counts_of(project)
    assert (came, were_there) == (50_000, 0)
    # 3 standard deviations of what is expected, as the filter is full to what it was made for
    assert looked_up / came < rate * 1.1 + 3 * (rate / came) ** 0.5, looked_up
    assert f"{looked_up:,} were looked up" in outcome.log
    print(f"{keys} keys, {size} bytes, false positives {looked_up / came:.4%}, declared {rate:.2%}")

    # copies of one day: they are found, and that day is looked at, not the others
    project.query("insert into src.views select * from src.views where place in (5, 10, 20)")
    project.query("insert into src.views values ('new', date '2026-03-01', -1)")
    shown = project.run("show", "-s", "views", "--limit", "-1").raw.results[0].agate_table
    assert list(shown.columns["view_id"]) == ["new"]
    project.run("run")
    came, looked_up, were_there = counts_of(project)
    assert (came, were_there) == (4, 3)
    assert looked_up in (3, 4)  # the new key may look as if it were there
    assert project.column("select count(*) from dw.views")[0] == keys + 50_001

    # a filter of another size isn't used until it is rebuilt, and the run reports it
    project.write(files(expected_keys=10 * keys, rate=rate))
    message = project.run("run", expect_ok=False).results["views_seen"].message
    assert "--full-refresh" in message
    assert "is declared as" in message


def test_what_is_made_of_unseen_rows_is_looked_at(make_project) -> None:
    rows = "rows=new_rows(source('src', 'views')), key='view_id', order_by='place'"
    unseen = f"{{{{ unseen_rows({rows}) }}}}"
    adds = "{{ config(materialized='incremental', incremental_strategy='append') }} "
    queries = {
        "chosen": f"select view_id, day, place from ({unseen}) where view_id <> 'a'",
        "named": f"with unseen as ({unseen}) select view_id, upper(view_id) as up from unseen",
        "counted": f"select day, count(*) as n from ({unseen}) group by day",
        "ranked": f"select *, row_number() over (order by place) as n from ({unseen})",
        "left_out": f"with unseen as ({unseen}) select * from unseen where place > 1",
        "joined": f"select u.* from ({unseen}) as u join (select 1 as n) as y on y.n = u.place",
    }
    models = {f"models/{name}.sql": adds + query for name, query in queries.items()}
    sources = "sources: [{name: src, tables: [{name: views}]}]"
    project = make_project(MACROS | models | {"models/sources.yml": sources})
    make_views(project)
    project.query("insert into src.views values ('a', date '2026-03-01', 1)")
    for place in (2, 3):
        results = project.run("run", expect_ok=False).results
        failed = {name for name, result in results.items() if result.status == "error"}
        assert failed == {"counted", "ranked", "left_out", "joined"}
        assert "aggregates the new rows alone" in results["counted"].message
        assert "leaves out rows that unseen_rows(..) found" in results["left_out"].message
        project.query(f"insert into src.views values ('b', date '2026-03-01', {place})")
        project.query(f"insert into src.views values ('a', date '2026-03-01', {10 * place})")
    assert project.query("select view_id, place from dw.chosen") == [{"view_id": "b", "place": 2}]
    assert project.column("select up from dw.named order by up") == ["A", "B"]


def test_a_shape_is_the_smallest_that_does() -> None:
    shape = Shape.for_keys(["id"], 1_000_000, 0.001)
    assert (shape.blocks, shape.hashes) == (439, 10)
    assert Shape.read(shape.text) == shape
    assert Shape.for_keys(["id"], 1, 0.1) == Shape(("id",), 1, 3)


@pytest.mark.soak
def test_a_key_keeps_its_hash_when_its_column_is_widened(make_project) -> None:
    seen = """
        {{{{ config(materialized='incremental', incremental_strategy='append') }}}}
        {{{{ unseen_rows(rows=new_rows(source('src', '{0}')), key='k', order_by='n',
            filter='{0}_filter') }}}}
    """
    held = """
        {{{{ config(materialized='folded', unique_key='block_number',
            fold={{'aggregates': {{'bits': 'bitmap_or'}}}}) }}}}
        {{{{ key_filter(rows=ref('{0}_seen'), key='k', expected_keys=1000) }}}}
    """
    kinds = {"whole": ("int", "bigint"), "money": ("decimal(9, 2)", "decimal(20, 2)")}
    kinds["share"] = ("float", "double")
    tables = ", ".join(f"{{name: {name}}}" for name in kinds)
    models = {f"models/{name}_seen.sql": seen.format(name) for name in kinds}
    models |= {f"models/{name}_filter.sql": held.format(name) for name in kinds}
    project = make_project(
        MACROS | models | {"models/sources.yml": f"sources: [{{name: src, tables: [{tables}]}}]"}
    )
    project.query("create namespace if not exists src")
    for name, (kind, _) in kinds.items():
        project.query(f"create or replace table src.{name} (k {kind}, n int) using iceberg")
        project.query(f"insert into src.{name} values (1, 1), (0, 2), (null, 3)")
    project.run("run")
    for name, (_, wider) in kinds.items():
        project.query(f"alter table src.{name} alter column k type {wider}")
        project.query(
            f"insert into src.{name} values (1, 11), (-0.0 * cast(1 as {wider}), 12), (2, 13), "
            "(null, 14)"
        )
    project.run("run")
    for name, (_, wider) in kinds.items():  # the model's own table follows
        project.query(f"alter table dw.{name}_seen alter column k type {wider}")
        project.query(f"insert into src.{name} values (1, 21), (2, 22), (3, 23)")
    outcome = project.run("run")
    for name in kinds:
        assert project.column(f"select n from dw.{name}_seen order by n") == [1, 2, 3, 13, 23]
        assert f"{name}_seen: 3 keys came, 2 were looked up, 2 of them" in outcome.log


def test_a_filter_of_before_the_kinds_were_stored_serves_keys_that_cannot_be_widened() -> None:
    stored = Shape.read('{"key":["id"],"blocks":1,"hashes":3}')
    assert stored.hashes_as(["string"]) and not stored.hashes_as(["bigint"])
    assert Shape.for_keys(["id"], 1, 0.1, ["bigint"]).hashes_as(["bigint"])


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "rows",
    [
        "select * from {{ ref('views') }} where place > 10",
        "select upper(view_id) as view_id from {{ ref('views') }}",
    ],
)
def test_a_filter_of_a_view_of_the_rows_decides_nothing(make_project, rows: str) -> None:
    of_view = files(expected_keys=1000)["models/views_seen.sql"].replace("'views'", "'some_views'")
    project = make_project(
        files(expected_keys=1000)
        | {
            "models/some_views.sql": "{{ config(meta={'row_wise': true}) }} " + rows,
            "models/views_seen.sql": of_view,
        }
    )
    make_views(project)
    project.query("insert into src.views values ('a', date '2026-03-01', 1)")
    project.run("run")
    project.query("insert into src.views values ('a', date '2026-03-01', 2), ('b', null, 30)")
    project.run("run")
    assert sorted(project.column("select view_id from dw.views")) == ["a", "b"]
