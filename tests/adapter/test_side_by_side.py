"""Measures of several domains side by side: each group once, and no measure by chance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import REPO, DbtProject

MACRO = "macros/metrics/side_by_side.sql"
MODEL = """
{{ config(materialized='table') }}

with

orders as (select * from values ('web', 1, 5), (null, 2, 6) as t(platform, orders, gmv)),

visits as (
    select * from values ('web', 7), ('app', 8){{ var('more', '') }}
    as t(platform, visits)
),

both as (
    {{ side_by_side(['platform'], {'orders': ['orders', 'gmv'], 'visits': ['visits']}) }}
)

select * from both
"""


@pytest.mark.in_turn
def test_groups_stand_once_and_a_domain_with_two_rows_of_one_fails(
    make_project: Callable[..., DbtProject],
) -> None:
    macro = (REPO / MACRO).read_text(encoding="utf-8")
    made = make_project({"models/m.sql": MODEL, MACRO: macro})
    made.run("run")
    rows = [tuple(row.values()) for row in made.query("select * from dw.m order by platform")]
    assert rows == [(None, 2, 6, None), ("app", None, None, 8), ("web", 1, 5, 7)]
    for more, group in ((", ('app', 9)", "app"), (", (null, 9), (null, 1)", "null")):
        log = made.run("run", vars={"more": more}, expect_ok=False).log
        assert (
            "side_by_side: visits has several rows of one group, and which of them would be shown "
            f"is chance; let it have a row for each platform. The group: {group}"
        ) in log
