"""Merges of rows that a query gives otherwise each time that it is run."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.small_source import project_with_source

pytestmark = pytest.mark.in_turn


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def test_rows_by_chance_are_merged_as_they_were_drawn(project):
    config = "{{ config(materialized='incremental', unique_key='id') }}"
    python = """
        def model(dbt, session):
            dbt.config(materialized="incremental", unique_key="id")
            return dbt.source("src", "x").selectExpr("id", "v", "rand() as drawn")
    """
    small = project(
        {
            "models/all_rows.sql": config
            + "select id, v, rand() as drawn from {{ source('src', 'x') }}",
            "models/new.sql": config
            + "select id, v, uuid() as drawn from {{ new_rows(source('src', 'x')) }}",
            "models/some.sql": config
            + "select id, v from {{ source('src', 'x') }} where rand() < 2",
            "models/in_python.py": python,
        },
    )
    for number in range(4):
        small.query(f"insert into src.x values ({number}, {number})")
        small.run("run")
    for name in ("all_rows", "new", "some", "in_python"):
        assert sorted(small.column(f"select id from dw.{name}")) == [0, 1, 2, 3], name
    for name in ("all_rows", "new", "in_python"):
        assert small.column(f"select count(distinct drawn) from dw.{name}") == [4], name
