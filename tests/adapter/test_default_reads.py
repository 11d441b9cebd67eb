"""A model that reads by bare references is as exact as one that asks for its reads by macros."""

from __future__ import annotations

import pytest

SOURCES = """
    sources:
      - name: src
        tables: [{name: x}, {name: plain_view}]
"""
ADDS = "{{ config(materialized='incremental') }}\n"


@pytest.fixture
def project(make_project):
    def make(files, *statements):
        made = make_project({"models/_sources.yml": SOURCES} | files)
        made.query("create namespace if not exists src")
        made.query("create table src.x (id int, v int) using iceberg")
        for statement in statements:
            made.query(statement)
        return made

    return make


def test_a_bare_read_beside_new_rows_of_the_same_table_reads_all_its_rows(project):
    small = project(
        {
            "models/before.sql": ADDS
            + """
                select new.id, whole.total
                from (select count(*) as total from {{ source('src', 'x') }}) as whole
                cross join {{ new_rows(source('src', 'x')) }} as new
            """,
            "models/behind.sql": ADDS
            + """
                select id, (select count(*) from {{ source('src', 'x') }}) as total
                from {{ new_rows(source('src', 'x')) }}
            """,
            "models/changed.sql": ADDS
            + """
                select id, (select count(*) from {{ source('src', 'x') }}) as total
                from {{ new_changes(source('src', 'x')) }}
            """,
        },
        "insert into src.x values (1, 0), (2, 0), (3, 0)",
    )
    small.run("run")
    small.query("insert into src.x values (4, 0)")
    small.run("run")
    for model in ("before", "behind", "changed"):
        rows = small.query(f"select id, total from dw.{model} order by id")
        assert [(row["id"], row["total"]) for row in rows] == [(1, 3), (2, 3), (3, 3), (4, 4)]


def test_a_view_over_a_table_whose_new_rows_are_read_has_all_its_rows(project):
    small = project(
        {
            "models/newest.sql": "select id, max(v) as v from {{ source('src', 'x') }} group by id",
            "models/joined.sql": ADDS
            + """
                select
                    new.id,
                    new.v,
                    newest.v as newest,
                    (select count(*) from {{ ref('newest') }}) as n
                from {{ new_rows(source('src', 'x')) }} as new
                inner join {{ ref('newest') }} on newest.id = new.id
            """,
        },
        "insert into src.x values (1, 9), (2, 9), (3, 9)",
    )
    small.run("run")
    small.query("insert into src.x values (1, 5)")
    small.run("run")
    assert small.query("select * from dw.joined where v = 5") == [
        {"id": 1, "v": 5, "newest": 9, "n": 3}
    ]


def test_a_bare_view_keeps_its_name_and_takes_any_alias(project):
    small = project(
        {
            "models/latest.sql": "select id, v from {{ source('src', 'x') }}",
            "models/over_latest.sql": "select * from {{ ref('latest') }} where latest.id < 3",
            "models/named.sql": """
                {{ config(materialized='table') }}
                with first as (select latest.id, latest.v from {{ ref('latest') }}),
                second as (select l.id from {{ ref('latest') }} l),
                third as (select l.id from {{ ref('over_latest') }} -- a comment
                    as l),
                fourth as (select id from ({{ ref('latest') }}))
                select first.id from first
                inner join second using (id)
                inner join third using (id)
                inner join fourth using (id)
                inner join {{ ref('latest') }} using (id)
                left join {{ ref('over_latest') }} on over_latest.id = latest.id
                where latest.v > 0
                union all
                select max(id) from {{ ref('latest') }}
            """,
        },
        "insert into src.x values (1, 1), (2, 1), (3, 1)",
    )
    small.run("run")
    assert sorted(small.column("select id from dw.named")) == [1, 2, 3]


def test_a_commit_records_what_bare_references_read(project):
    small = project(
        {
            "models/x_view.sql": "select id from {{ source('src', 'x') }}",
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            " select id from {{ ref('x_view') }}",
            "models/stored.sql": "{{ config(materialized='table') }}"
            " select * from {{ ref('passed_on') }}",
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    read = small.summary("dw.stored")["dbt.input.src.x"]
    assert small.column("select snapshot_id from src.x.refs") == [int(read)]


@pytest.mark.parametrize("macro", ["new_rows", "new_changes"])
def test_an_ephemeral_model_that_asks_for_new_rows_is_refused(project, macro):
    small = project(
        {
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            f" select id from {{{{ {macro}(source('src', 'x')) }}}}",
            "models/stored.sql": ADDS + "select * from {{ ref('passed_on') }}",
        },
        "insert into src.x values (1, 1)",
    )
    outcome = small.run("parse", "--write-json", expect_ok=False)
    assert f"{macro} would read all rows in each run" in f"{outcome.log} {outcome.exception}"


def test_a_python_model_reads_a_view_over_the_pinned_tables_and_sees_it_change(project):
    small = project(
        {
            "models/newest.sql": "select max(id) as newest from {{ source('src', 'x') }}",
            "models/kept.py": """
                def model(dbt, session):
                    dbt.config(materialized="incremental", incremental_strategy="append")
                    newest = dbt.ref("newest")
                    if dbt.is_incremental and dbt.inputs_unchanged():
                        return None
                    return newest
            """,
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.run("run", "--select", "kept")
    small.query("insert into src.x values (2, 1)")
    small.run("run", "--select", "kept")
    assert sorted(small.column("select newest from dw.kept")) == [1, 2]
    assert "dbt.input.src.x" in small.summary("dw.kept")


def test_a_hook_names_tables_and_views_as_they_are(project):
    small = project(
        {
            "models/log.sql": "{{ config(materialized='table') }} select 0 as n",
            "models/hooked.sql": """
                {{ config(
                    materialized='table', post_hook="insert into {{ ref('log') }} values (1)"
                ) }}
                select n from {{ ref('log') }}
            """,
        }
    )
    small.run("run")
    assert sorted(small.column("select n from dw.log")) == [0, 1]
    assert small.column("select n from dw.hooked") == [0]


def test_what_a_view_outside_the_project_has_is_read_in_every_run(project):
    small = project(
        {
            "models/kept.sql": "{{ config(materialized='incremental', incremental_strategy='merge',"
            " unique_key='id') }} select id, v from {{ pinned(source('src', 'plain_view')) }}"
        },
        "create view src.plain_view as select * from src.x",
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 1)")
    small.run("run")
    assert sorted(small.column("select id from dw.kept")) == [1, 2]


RENAMED = {
    "models/log.sql": ADDS + "select id, v from {{ new_rows(source('src', 'x')) }}",
    "models/added.sql": "{{ config(materialized='incremental', "
    "incremental_strategy='append_new_rows') }} select id, v from {{ new_rows(ref('log')) }}",
    "models/events.sql": "{{ config(materialized='incremental', "
    "incremental_strategy='append_new_rows') }} "
    "select id, v, sign from {{ new_changes(ref('log')) }}",
    "models/told.sql": ADDS + "select id, v, sign from {{ new_changes(ref('log')) }}",
    "models/summed.sql": "{{ config(materialized='folded', unique_key='k', "
    "fold={'aggregates': {'total': 'sum'}, 'row_kind': 'row_kind'}) }} "
    "select 1 as k, v as total, row_kind from {{ new_changes(ref('log')) }}",
}


def rows_after_renaming(small, log: str) -> tuple:
    return (
        sorted(small.column(f"select v from {log}")),
        sorted(small.column("select v from dw.added")),
        sorted(small.column("select v * sign from dw.events")),
        small.column("select sum(v * sign) from dw.told"),
        small.column("select total from dw.summed"),
    )


def test_a_renamed_project_adds_no_row_again(project):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    text = (small.root / "dbt_project.yml").read_text()
    small.write({"dbt_project.yml": text.replace("name: small", "name: other")})
    small.query("insert into src.x values (3, 30)")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30]] * 3, [60], [60])


@pytest.mark.parametrize(
    ("setting", "stored"), [("alias='journal'", "dw.journal"), ("schema='moved'", "dw_moved.log")]
)
def test_an_input_that_is_stored_under_another_name_is_read_as_a_whole(project, setting, stored):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    log = RENAMED["models/log.sql"].replace("incremental'", f"incremental', {setting}", 1)
    small.write({"models/log.sql": log})
    small.query("insert into src.x values (3, 30)")
    small.run("run")
    small.run("run")
    assert rows_after_renaming(small, stored) == (*[[10, 20, 30]] * 3, [60], [60])


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("{name: x}", "{name: x, identifier: y}", "src.y"),
        ("- name: src", "- name: src\n        schema: elsewhere", "elsewhere.x"),
    ],
)
def test_a_source_that_names_another_table_is_read_as_a_whole(project, before, after, place):
    small = project(
        RENAMED,
        "insert into src.x values (1, 10), (2, 20)",
        "create namespace if not exists elsewhere",
        f"create table {place} (id int, v int) using iceberg",
        f"insert into {place} values (1, 10), (2, 20), (3, 30)",
    )
    small.run("run")
    small.write({"models/_sources.yml": SOURCES.replace(before, after)})
    small.run("run")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30]] * 3, [60], [60])


def test_a_renamed_model_that_is_read_by_its_new_name_is_refused_until_a_full_refresh(project):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    (small.root / "models/log.sql").unlink()
    renamed = {name: text.replace("'log'", "'journal'") for name, text in RENAMED.items()}
    renamed["models/journal.sql"] = renamed.pop("models/log.sql")
    small.write(renamed)
    outcome = small.run("run", expect_ok=False)
    for model in ("added", "events", "told", "summed"):
        assert "made by another definition: its SQL" in outcome.results[model].message
    small.run("run", "--full-refresh")
    assert rows_after_renaming(small, "dw.journal") == (*[[10, 20]] * 3, [30], [30])
