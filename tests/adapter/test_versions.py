"""Versions: what a run publishes, what readers see meanwhile, and who may write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject

PROJECT = """
    name: small
    version: "1.0"
    config-version: 2
    profile: binlog_warehouse
    on-run-start: "{{ start_run() }}"
    on-run-end: "{{ end_run(results) }}"
"""
A = """
    {{ config(materialized='incremental') }}
    select cast(id as int) as id, 'a' || id as name
    from range({{ var('first', 0) }}, {{ var('end', 3) }})
"""
B = """
    {{ config(materialized='incremental') }}
    select id, upper(name) as name from {{ new_rows(ref('a')) }}
    {{ 'where id = raise_error("b stops")' if var('b_stops', false) }}
"""
C = """
    {{ config(materialized='incremental') }}
    select id from {{ new_rows(ref('a')) }}
    {{ 'where id = raise_error("c stops")' if var('c_stops', false) }}
"""
D = "select b.id, b.name from {{ ref('b') }} as b inner join {{ ref('c') }} as c on b.id = c.id"
TESTS = """
    version: 2
    models:
      - name: a
        columns:
          - name: id
            data_tests: [not_null, unique]
      - name: d
        columns:
          - name: id
            data_tests: [unique]
"""


@pytest.fixture(scope="module")
def make(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    def made(**files: str) -> DbtProject:
        models = {"a": A, "b": B, "c": C, "d": D} | files
        return make_project(
            {"dbt_project.yml": PROJECT, "models/_models.yml": TESTS}
            | {f"models/{name}.sql": sql for name, sql in models.items()}
        )

    return made


@pytest.fixture(scope="module")
def project(make: Callable[..., DbtProject]) -> DbtProject:
    """A@20 -> B@20, C@20 published; then A@21 -> B@21 while C's run failed."""
    project = make()
    assert "Published as version 1" in project.run("build").log
    done = project.run("build", vars={"first": 3, "end": 5, "c_stops": True}, expect_ok=False)
    assert done.statuses()["b"] == "success"
    assert done.statuses()["c"] == "error"
    return project


def ids(project: DbtProject, table: str) -> list[int]:
    return sorted(project.column(f"select id from {table}"))


def test_a_failed_run_publishes_nothing(project: DbtProject) -> None:
    assert ids(project, "dw.b") == [0, 1, 2, 3, 4]
    assert ids(project, "dw.c") == [0, 1, 2]
    for name in "abcd":
        assert ids(project, f"published.{name}") == [0, 1, 2], name
    assert project.column("select version from dw.meta_version") == [1]


def test_a_version_is_read_by_its_number(project: DbtProject) -> None:
    asked = (
        "select count(*) as n from {{ ref('b') }} as b full join {{ ref('c') }} as c on b.id = c.id"
    )
    shown = project.run("show", "--inline", asked, "--output", "json", vars={"as_of_version": 1})
    assert '"n": 3' in shown.log
    shown = project.run("show", "--inline", asked, "--output", "json")
    assert '"n": 5' in shown.log
    refused = project.run("run", vars={"as_of_version": 1}, expect_ok=False)
    assert "as_of_version reads a version, it builds nothing" in str(refused.exception)
    unknown = project.run("show", "--inline", asked, vars={"as_of_version": 7}, expect_ok=False)
    assert "There is no version '7'" in f"{unknown.exception}{unknown.log}"


def test_the_next_run_publishes_what_the_failed_one_left(make: Callable[..., DbtProject]) -> None:
    project = make()
    project.run("build")
    failing = {"first": 3, "end": 5, "c_stops": True}
    project.run("build", vars=failing, expect_ok=False)
    done = project.run("build", vars={"end": 0})
    assert "Published as version 2" in done.log
    for name in "abcd":
        assert ids(project, f"published.{name}") == [0, 1, 2, 3, 4], name
    row = project.query("select * from dw.meta_version order by version desc limit 1")[0]
    assert row["snapshots"].keys() == {"dw.a", "dw.b", "dw.c"}
    assert row["inputs"]["dw.b"] == {"dw.a": row["snapshots"]["dw.a"]}
    assert row["behind"] == []
