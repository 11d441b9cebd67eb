"""Which columns a merge updates: names in any case, with backticks or without, a single name as a
text; all excluded: rows that are there stay."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

TEXT = """
    {{{{ config(materialized='incremental', unique_key='id', {option}) }}}}
    select id, v, v as `a-b`, named_struct('f', v, 'g', v) as s
    from {{{{ new_rows(source('src', 'x')) }}}}
"""
# model -> its config, and the values (v, a-b, s.f, s.g) of a row that came as 1 and then as 2
MODELS = {
    "all_columns": ("merge_update_columns=none", [2, 2, 2, 2]),
    "updated": ("merge_update_columns=['a-b']", [1, 2, 1, 1]),
    "updated_in_ticks": ("merge_update_columns=['`A-B`', 'ID']", [1, 2, 1, 1]),
    "updated_text": ("merge_update_columns='a-b'", [1, 2, 1, 1]),
    "updated_field": ("merge_update_columns=['s.f']", [1, 1, 2, 1]),
    "kept": ("merge_exclude_columns=['a-b']", [2, 1, 2, 2]),
    "kept_in_ticks": ("merge_exclude_columns=['`A-B`']", [2, 1, 2, 2]),
    "kept_text": ("merge_exclude_columns='a-b'", [2, 1, 2, 2]),
    "all_kept": ("merge_exclude_columns=['id', 'v', 'a-b', 's']", [1, 1, 1, 1]),
}
UNKNOWN = {
    "no_update": "merge_update_columns=['nope']",
    "no_exclusion": "merge_exclude_columns=['v', 'nope']",
}


def test_a_merge_updates_the_columns_that_its_config_names(
    make_project: Callable[..., DbtProject],
) -> None:
    options = {name: option for name, (option, _) in MODELS.items()} | UNKNOWN
    project = project_with_source(
        make_project,
        {f"models/{name}.sql": TEXT.format(option=option) for name, option in options.items()},
        "insert into src.x values (1, 1)",
    )
    project.run("run")
    project.query("insert into src.x values (1, 2), (2, 2)")
    results = project.run("run", expect_ok=False).results
    for name, (_, values) in MODELS.items():
        rows = project.query(f"select v, `a-b`, s.f, s.g from dw.{name} order by id")
        assert [list(row.values()) for row in rows] == [values, [2, 2, 2, 2]], name
    for name, option in UNKNOWN.items():
        config = option.partition("=")[0]
        assert (
            f"{name}: its query gives no column nope, which its {config} names; it gives id, v, "
        ) in results[name].message


def test_properties_that_are_no_mapping_are_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    text = "{{ config(materialized='table', tblproperties=['a']) }} select 1 as id"
    message = make_project({"models/m.sql": text}).run("run", expect_ok=False).results["m"].message
    assert "tblproperties of m must be a mapping of names to values, such as {" in message
