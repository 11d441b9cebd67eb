"""A small project whose models read one source table."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject

SOURCES = """
    sources:
      - name: src
        tables: [{name: x}, {name: plain_view}]
"""


def project_with_source(
    make_project: Callable[..., DbtProject], files: dict[str, str], *statements: str
) -> DbtProject:
    """A project with an empty table `src.x (id int, v int)`, after some statements."""
    made = make_project({"models/_sources.yml": SOURCES} | files)
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int, v int) using iceberg")
    for statement in statements:
        made.query(statement)
    return made
