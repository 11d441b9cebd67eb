"""SQL models that ask for what is new in a branch which not every run takes."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

BRANCHED = """
    {{ config(materialized='incremental', incremental_strategy=%s) }}
    {%% set asked = run_query('select count(*) from ' ~ source('src', 'x')) if execute %%}
    {%% if is_incremental() and asked.columns[0].values()[0] == 2 %%}
    select id, v from {{ source('src', 'x') }} where id > %s
    {%% else %%}
    select id, v from {{ new_rows(source('src', 'x')) }}
    {%% endif %%}
"""


def test_a_run_that_leaves_the_branch_of_new_rows_out_is_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    small = project_with_source(
        make_project,
        {
            "models/merged.sql": BRANCHED % ("'merge', unique_key='id'", "5"),
            "models/added.sql": BRANCHED % ("'append'", "(select max(id) + 5 from {{ this }})"),
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    results = small.run("run", expect_ok=False).results
    small.query("insert into src.x values (3, 3)")
    small.run("run")

    for name in ("merged", "added"):
        assert f"{name}: its SQL calls new_rows in a branch" in results[name].message
        assert small.column(f"select id from dw.{name} order by id") == [1, 2, 3]
