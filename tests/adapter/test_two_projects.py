"""Two projects that write to one warehouse: neither takes what readers have of the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, RAW_SOURCE, make_raw

ADDED = (
    "{{ config(materialized='incremental') }} select id from {{ new_rows(source('raw', 'raw')) }}"
)
LATEST = (
    "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'at'}) }} "
    "select id, id as at from {{ new_rows(source('raw', 'raw')) }}"
)


@pytest.fixture
def projects(make_project: Callable[..., DbtProject]) -> tuple[DbtProject, DbtProject]:
    files = {"dbt_project.yml": PROJECT, "models/_models.yml": RAW_SOURCE}
    models = {"models/added.sql": ADDED, "models/latest.sql": LATEST}
    first = make_project(files | models | {"models/seen.sql": "select id from {{ ref('added') }}"})
    named = PROJECT.replace("name: small", "name: other")
    assert named != PROJECT
    made = make_project(files | {"dbt_project.yml": named, "models/others.sql": ADDED})
    second = DbtProject(made.root, first.warehouse, profiles=made.profiles, compiles=made.compiles)
    make_raw(first)
    first.query("insert into dw.raw values (1)")
    return first, second


def test_a_version_of_a_project_does_not_take_the_tables_of_another(
    projects: tuple[DbtProject, DbtProject],
) -> None:
    first, second = projects
    first.run("build")
    first.query("insert into dw.raw values (2)")
    outcome = second.run("build")
    assert "Not published: project small made dw.added, dw.latest, which version 1" in outcome.log
    assert sorted(second.column("select id from dw.others")) == [1, 2]
    for name in ("added", "latest", "seen"):
        assert first.column(f"select id from published.{name}") == [1]
    first.run("build")
    for name in ("added", "latest", "seen"):
        assert sorted(first.column(f"select id from published.{name}")) == [1, 2]


def test_a_renamed_project_publishes_what_it_made_under_its_old_name(
    projects: tuple[DbtProject, DbtProject],
) -> None:
    first, second = projects
    first.run("build")
    second.write({"models/added.sql": ADDED})
    second.query("insert into dw.raw values (2)")
    assert "project small made dw.latest" in second.run("build").log
    second.query("drop view dw.latest")
    second.query("drop table dw.latest__runs")
    second.query("insert into dw.raw values (3)")
    assert "Published as version 2" in second.run("build").log
    assert sorted(second.column("select id from published.added")) == [1, 2, 3]


STORED = (
    "{{ config(materialized='table') }} select id, '%s' as maker from {{ source('raw', 'raw') }}"
)
TAKING = {
    "added": ADDED,
    "latest": STORED % "other",
    "table_of_both": STORED % "other",
    "view_of_both": "select 1 as id",
    "third": "{{ config(materialized='table', alias='by_alias') }} select 1 as id",
}


def test_a_project_does_not_take_tables_that_another_makes(
    projects: tuple[DbtProject, DbtProject],
) -> None:
    first, second = projects
    made = dict.fromkeys(("table_of_both", "view_of_both", "by_alias"), STORED % "small")
    first.write({f"models/{name}.sql": sql for name, sql in (made | {"own": ADDED}).items()})
    first.write({"seeds/codes.csv": "id\n1\n"})
    first.run("run")
    first.run("seed")
    second.write({f"models/{name}.sql": sql for name, sql in TAKING.items()})
    second.write({"seeds/codes.csv": "id\n2\n"})
    outcome = second.run("build", "--full-refresh", expect_ok=False)
    refused = {name for name, result in outcome.results.items() if result.status == "error"}
    assert refused == TAKING.keys() | {"codes"}
    assert outcome.results["third"].message.split("  ")[-1].strip() == (
        "model.other.third would take the place of dw.by_alias, which model.small.by_alias made, "
        "and project small also made dw.own, which this project doesn't: give either project a "
        "SCHEMA of its own, or one of the two another alias; or, where project small is no more, "
        "drop dw.own."
    )
    assert first.column("select distinct maker from dw.table_of_both") == ["small"]
    assert first.column("select id from dw.codes") == [1]
    first.run("build")
    second.query("drop table dw.own")
    second.run("build", "--full-refresh")
    assert first.column("select distinct maker from dw.table_of_both") == ["other"]


def test_what_a_project_made_under_its_old_name_is_its_own(
    projects: tuple[DbtProject, DbtProject],
) -> None:
    """Also where each model has another name by now, and the same alias."""
    first, second = projects
    first.write({"models/stored.sql": STORED % "small", "seeds/codes.csv": "id\n1\n"})
    first.run("build")
    renamed = {"added": ADDED, "latest": LATEST, "stored": STORED % "other"}
    second.write(
        {
            f"models/new_{name}.sql": sql.replace("config(", f"config(alias='{name}', ", 1)
            for name, sql in renamed.items()
        }
        | {"models/seen.sql": "select id from {{ ref('new_added') }}"}
        | {"seeds/codes.csv": "id\n2\n"}
    )
    second.run("build")
    assert second.column("select maker from published.stored") == ["other"]
    second.run("build", "--full-refresh")
    assert second.column("select id from published.codes") == [2]
