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
