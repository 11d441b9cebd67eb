"""Strategies append_new_rows and replace_all: tables that follow an input that may be rewritten."""

from __future__ import annotations

import pytest

FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: log}, {name: other}]
    """,
    "models/tenfold.sql": """
        {{ config(materialized='incremental', incremental_strategy='append_new_rows') }}
        select id * 10 as id from {{ new_rows(source('src', 'log')) }}
    """,
    "models/of_two.sql": """
        {{ config(materialized='incremental', incremental_strategy='append_new_rows') }}
        select id from {{ new_rows(source('src', 'log')) }}
        union all
        select id from {{ new_rows(source('src', 'other')) }}
    """,
    "models/newest.sql": """
        {{ config(materialized='incremental', incremental_strategy='replace_all') }}
        select id, 'new' as age from {{ new_rows(source('src', 'log')) }}
        {% if is_incremental() and not adapter.reading.plan(model).news.reads_whole %}
        union all
        select id, 'old' as age from {{ this }} where id > 1
        {% endif %}
    """,
}


@pytest.fixture
def project(make_project):
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int) using iceberg")
    project.query("insert into src.log values (1), (2)")
    project.query("create table src.other (id int) using iceberg")
    project.query("insert into src.other values (11)")
    project.run("run")
    return project


def stored(project, table: str) -> list[tuple]:
    return sorted(tuple(row.values()) for row in project.query(f"select * from dw.{table}"))


def test_rows_follow_what_was_appended_and_what_was_rewritten(project):
    assert stored(project, "tenfold") == [(10,), (20,)]
    assert stored(project, "newest") == [(1, "new"), (2, "new")]

    project.query("insert into src.log values (3)")
    outcome = project.run("run")
    assert outcome.results["tenfold"].message == "+1 rows"
    assert stored(project, "tenfold") == [(10,), (20,), (30,)]
    assert stored(project, "newest") == [(2, "old"), (3, "new")]

    project.query("delete from src.log where id = 2")
    outcome = project.run("run")
    assert outcome.results["tenfold"].message == "+2 -3 rows"
    assert stored(project, "tenfold") == [(10,), (30,)]
    assert stored(project, "newest") == [(1, "new"), (3, "new")]
    # what came of the input that wasn't rewritten stays
    assert stored(project, "of_two") == [(1,), (3,), (11,)]

    outcome = project.run("run")
    assert {result.message for result in outcome.results.values()} == {"nothing new"}


def test_a_table_may_become_empty(project):
    project.query("delete from src.log")
    project.run("run")
    assert stored(project, "tenfold") == stored(project, "newest") == []


# ---- strategies that keep what they don't meet --------------------------------------------------

KEPT = "{{{{ config(materialized='incremental', incremental_strategy='{}', {}) }}}} "
LOG = "{{ new_rows(source('src', 'log')) }}"
KEEPING = {
    "models/sources.yml": FILES["models/sources.yml"],
    "macros/own.sql": """
        {% macro get_incremental_by_hand_sql(arg_dict) %}
            insert into {{ arg_dict['target_relation'] }}
            select * from {{ arg_dict['temp_relation'] }}
        {% endmacro %}
    """,
    "models/merged.sql": KEPT.format("merge", "unique_key='id'") + f"select id from {LOG}",
    "models/by_hand.sql": KEPT.format("by_hand", "") + f"select id from {LOG}",
    "models/in_sql.sql": KEPT.format("append_or_merge", "") + f"select id from {LOG}",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append_or_merge")
            return dbt.new_rows(dbt.source("src", "log")).select("id")
    """,
    "models/merged_in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append_or_merge")
            if dbt.is_incremental:
                dbt.merge_rows(by=["id"])
            return dbt.new_rows(dbt.source("src", "log")).select("id")
    """,
    "models/from_log.sql": "{{ config(materialized='table', alias=var('alias', 'from_log')) }}"
    " select id from {{ source('src', 'log') }}",
    "models/measured.sql": KEPT.format("append", "full_refresh=false")
    + "select id from {{ new_rows(ref('from_log')) }}",
}
FOLLOWING = ("merged", "by_hand", "in_sql", "in_python", "merged_in_python")


@pytest.fixture(scope="module")
def keeping(make_project):
    project = make_project(KEEPING)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int) using iceberg")
    project.query("insert into src.log values (1), (2)")
    project.run("run")
    return project


def test_what_keeps_rows_gives_up_those_that_an_input_has_lost(keeping):
    keeping.query("insert into src.log values (3)")
    keeping.run("run", "-s", *FOLLOWING)
    keeping.query("delete from src.log where id = 2")
    keeping.query("insert into src.log values (4)")
    keeping.run("run", "-s", *FOLLOWING)
    for model in FOLLOWING:
        assert stored(keeping, model) == [(1,), (3,), (4,)], model
    outcome = keeping.run("run", "-s", *FOLLOWING[:3])
    assert {result.message for result in outcome.results.values()} == {"nothing new"}


def test_a_log_that_keeps_its_rows_adds_no_row_again_when_its_input_is_renamed(keeping):
    ids = stored(keeping, "measured")
    renamed = {"alias": "moved"}
    outcome = keeping.run("run", "-s", "+measured", vars=renamed, expect_ok=False)
    assert "no commit of it has read dw.moved" in outcome.results["measured"].message
    assert stored(keeping, "measured") == ids
    accepted = renamed | {"accept_definition": ["measured"]}
    keeping.run("run", "-s", "measured", vars=accepted)
    assert len(stored(keeping, "measured")) > len(ids)
    ids = stored(keeping, "measured")
    keeping.query("drop table dw.moved")  # what is built under its name is another table
    outcome = keeping.run("run", "-s", "+measured", vars=renamed, expect_ok=False)
    assert "no commit of it has read dw.moved" in outcome.results["measured"].message
    assert stored(keeping, "measured") == ids


# ---- models that keep their rows (full_refresh: false) ------------------------------------------

DAYS = "{{ new_rows(source('src', 'days')) }}"
KEPT_SUMS = "{{ config(materialized='folded', unique_key='day', full_refresh=false, fold=%s) }} "
WITH_RETENTION = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: days}]}]",
    "models/kept.sql": KEPT.format("append", "full_refresh=false") + f"select day, id from {DAYS}",
    "models/added.sql": KEPT.format("append_new_rows", "full_refresh=false")
    + f"select day, id from {DAYS}",
    "models/summed.sql": KEPT_SUMS % "{'aggregates': {'id': 'sum'}}"
    + f"select day, id from {DAYS}",
    "models/latest.sql": KEPT_SUMS % "{'sequence': 'id'}" + f"select day, id from {DAYS}",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", full_refresh=False)
            return dbt.new_rows(dbt.source("src", "days")).select("day", "id")
    """,
}
RETAINING = ("kept", "added", "in_python", "summed", "latest")


@pytest.fixture(scope="module")
def retained(make_project):
    """Models that have read two days, of which the first has left their input since."""
    project = make_project(WITH_RETENTION)
    project.query("create namespace if not exists src")
    project.query("create table src.days (day int, id int) using iceberg partitioned by (day)")
    project.query("insert into src.days values (1, 10), (2, 20)")
    project.run("run")
    project.query("delete from src.days where day = 1")
    project.query("insert into src.days values (2, 21), (3, 30)")
    project.run("run")
    return project


def test_rows_that_leave_an_input_stay_in_a_model_that_keeps_its_rows(retained):
    for model in ("kept", "added", "in_python"):
        assert stored(retained, model) == [(1, 10), (2, 20), (2, 21), (3, 30)], model
    assert stored(retained, "summed") == [(1, 10), (2, 41), (3, 30)]
    assert stored(retained, "latest") == [(1, 10), (2, 21), (3, 30)]


def test_a_model_that_keeps_its_rows_adds_none_again_of_an_input_that_was_rewritten(retained):
    held = {model: stored(retained, model) for model in RETAINING}
    retained.query("update src.days set id = 31 where day = 3")
    refused = retained.run("run", expect_ok=False).results
    for model in held:
        assert f"{model}: rows of src.days have changed since its last" in refused[model].message
        assert stored(retained, model) == held[model]
    meant = "full_refresh=false, partial_runs=true"
    retained.write(
        {"models/kept.sql": KEPT.format("append", meant) + f"select day, id from {DAYS}"}
    )
    retained.run("run", "-s", "kept")
    assert stored(retained, "kept") == sorted([*held["kept"], (2, 20), (2, 21), (3, 31)])


CHANGED = "select row_kind, day, id from {{ new_changes(source('src', 'days'), by=['day']) }}"


@pytest.mark.in_turn
@pytest.mark.parametrize("strategy", ["append", "append_new_rows"])
def test_changes_that_expired_take_no_rows_of_a_model_that_keeps_them(make_project, strategy):
    by_themselves = "full_refresh=false, partial_runs=true"
    project = make_project(
        {
            "models/sources.yml": WITH_RETENTION["models/sources.yml"],
            "models/kept.sql": KEPT.format(strategy, "full_refresh=false") + CHANGED,
            "models/meant.sql": KEPT.format(strategy, by_themselves) + CHANGED,
        }
    )
    project.query("create namespace if not exists src")
    project.query("create table src.days (day int, id int) using iceberg")
    project.query("insert into src.days values (1, 10), (2, 20)")
    project.run("run")
    project.query("delete from src.days where day = 1")
    project.query("insert into src.days values (3, 30)")
    project.query(
        "call lake.system.expire_snapshots(table => 'src.days', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )
    refused = project.run("run", expect_ok=False).results
    assert "kept: rows of src.days have changed since" in refused["kept"].message
    assert "meant: what changed in src.days since" in refused["meant"].message
    for model in ("kept", "meant"):
        assert stored(project, model) == [("+I", 1, 10), ("+I", 2, 20)], model
    project.write({"models/meant.sql": KEPT.format(strategy, "full_refresh=true") + CHANGED})
    project.run("run", "-s", "meant")
    assert stored(project, "meant") == [("+I", 2, 20), ("+I", 3, 30)]
