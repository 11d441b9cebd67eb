"""A view may name what it reads by a macro: its readers read it as if the view named it itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.four_models import four_models, ids, land
from tests.support.small_source import project_with_source

MACROS = {
    "macros/events.sql": """
        {% macro events() %}{{ return(source('src', 'x')) }}{% endmacro %}
        {% macro kept() %}{{ return(ref('kept')) }}{% endmacro %}
        {% macro default__chosen() %}{{ return(ref('kept')) }}{% endmacro %}
        {% macro chosen() %}{{ return(adapter.dispatch('chosen')()) }}{% endmacro %}
        {% macro of_builtins() %}{{ return(builtins.ref('kept')) }}{% endmacro %}
        {% macro by_another() %}{{ return(kept()) }}{% endmacro %}
    """,
    "models/kept.sql": "{{ config(materialized='incremental') }}\n"
    "select id, v from {{ new_rows(source('src', 'x')) }}",
}
ROW_WISE = "{{ config(materialized='view', meta={'row_wise': true}) }}\n"
NEW_ROWS = "{{ config(materialized='incremental') }}\nselect id, v from {{ new_rows(ref('seen')) }}"
ALL_ROWS = "{{ config(materialized='table') }}\nselect id, v from {{ ref('seen') }}"
CALLS = ("events()", "kept()", "chosen()", "of_builtins()", "by_another()")


@pytest.fixture
def project(make_project: Callable[..., Any]) -> Callable[[str], Any]:
    def made(call: str) -> Any:
        return project_with_source(
            make_project,
            {
                **MACROS,
                "models/seen.sql": f"{ROW_WISE}select id, v from {{{{ {call} }}}}",
                "models/added.sql": NEW_ROWS,
                "models/whole.sql": ALL_ROWS,
                "models/_models.yml": """
                    models:
                      - name: seen
                        columns: [{name: id, data_tests: [not_null]}]
                """,
            },
            "insert into src.x values (1, 0), (2, 0)",
        )

    return made


@pytest.mark.parametrize("call", CALLS)
def test_readers_of_the_view_have_each_row_once(project: Callable[[str], Any], call: str) -> None:
    small = project(call)
    small.run("build")
    small.query("insert into src.x values (3, 0)")
    small.run("build")
    small.run("build")
    for model in ("added", "whole"):
        assert small.column(f"select id from dw.{model} order by id") == [1, 2, 3], model


def test_a_published_view_reads_what_its_version_holds(make_project: Callable[..., Any]) -> None:
    by_macro = "{{ config(materialized='view') }}\nselect id from {{ of_a() }}"
    project = four_models(make_project, seen=by_macro)
    project.write({"macros/of_a.sql": "{% macro of_a() %}{{ return(ref('a')) }}{% endmacro %}"})
    project.run("build")
    land(project, 3, 5)
    project.run("run")
    assert ids(project, "dw.seen") == [0, 1, 2, 3, 4]
    assert ids(project, "published.seen") == ids(project, "published.a") == [0, 1, 2]
