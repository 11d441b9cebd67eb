"""A small project of which nothing is built yet, with the schemas that readers find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject


@pytest.fixture(scope="module")
def with_schemas(make_project: Callable[..., DbtProject]) -> DbtProject:
    project = make_project({"models/a.sql": "select 1 as id"})
    for schema in ("dw", "published"):
        project.query(f"create namespace if not exists {schema}")
    return project
