"""A column of an input that gets the name of another column: what a model made of the rows before
is made again, as the input gives other values for them now."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.iceberg.history import Columns

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

ADDED = "{{ config(materialized='incremental', incremental_strategy='append'%s) }} select "
READERS = {
    "models/added.sql": ADDED % "" + "id, v from {{ new_rows(source('src', 'x')) }}",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.source("src", "x")).select("id", "v")
    """,
    "models/merged.sql": "{{ config(materialized='incremental', unique_key='id') }} "
    "select id, v from {{ new_changes(source('src', 'x')) }} where sign > 0",
    "models/chosen.sql": "{{ config(materialized='incremental', unique_key='id') }} "
    "select id, max(v) as v from {{ source('src', 'x') }} "
    "where id in (select id from {{ new_rows(source('src', 'x')) }}) group by id",
    "models/latest.sql": "{{ config(materialized='folded', unique_key='id', "
    "fold={'sequence': 'v'}) }} select id, v from {{ new_rows(source('src', 'x')) }}",
    "models/parts.sql": "{{ config(materialized='incremental', partition_by='id', "
    "incremental_strategy='replace_partitions') }} select id, max(v) as v "
    "from {{ changed_partitions(source('src', 'x'), by='id') }} group by id",
    "models/whole.sql": ADDED % ", on_schema_change='sync_all_columns'"
    + "* from {{ new_rows(source('src', 'x')) }}",
}
NAMES = ("added", "in_python", "merged", "chosen", "latest", "parts")
CHANGES = {
    "two columns change their names": (
        "alter table src.x rename column v to old",
        "alter table src.x rename column w to v",
        "alter table src.x rename column old to w",
    ),
    "another column of the name": (
        "alter table src.x drop column v",
        "alter table src.x rename column w to v",
    ),
}


def contents(project: DbtProject, name: str) -> list[tuple]:
    return sorted(tuple(row.values()) for row in project.query(f"select id, v from dw.{name}"))


@pytest.mark.parametrize("statements", CHANGES.values(), ids=[*CHANGES])
def test_rows_are_made_again_where_a_column_has_the_name_of_another(
    make_project: Callable[..., DbtProject], statements: tuple[str, ...]
) -> None:
    project = project_with_source(
        make_project,
        READERS,
        "drop table src.x",
        "create table src.x (id int, v int, w int) using iceberg partitioned by (id)",
        "insert into src.x values (1, 10, 11), (2, 20, 21)",
    )
    project.run("run")
    for statement in statements:
        project.query(statement)
    project.query("insert into src.x (id, v) values (3, 30)")
    project.run("run")
    for name in NAMES:
        assert (name, contents(project, name)) == (name, [(1, 11), (2, 21), (3, 30)])
    assert contents(project, "whole") == [(1, 11), (2, 21), (3, 30)]
    outcome = project.run("run", "--select", *NAMES)
    assert {result.message for result in outcome.results.values()} == {"nothing new"}


def test_a_renamed_column_has_its_values_under_the_new_name(
    make_project: Callable[..., DbtProject],
) -> None:
    project = project_with_source(
        make_project,
        {"models/whole.sql": READERS["models/whole.sql"]},
        "insert into src.x values (1, 10)",
    )
    project.run("run")
    project.query("alter table src.x add column w int")
    project.query("insert into src.x values (2, 20, 21)")
    assert project.run("run").results["whole"].message == "+1 rows"
    project.query("alter table src.x rename column w to u")
    project.query("insert into src.x values (3, 30, 31)")
    project.run("run")
    rows = project.query("select * from dw.whole order by id")
    assert rows == [
        {"id": 1, "v": 10, "u": None},
        {"id": 2, "v": 20, "u": 21},
        {"id": 3, "v": 30, "u": 31},
    ]


SEED = {"seeds/codes.csv": "id,n,name\n1,5,a\n2,7,b\n"}
LATER = {"seeds/codes.csv": "id,name\n1,a\n4,y\n"}
OF_SEED = {
    "models/events.sql": ADDED % ", on_schema_change='append_new_columns'"
    + "* from {{ new_changes(ref('codes')) }}",
    "models/rows_of_seed.sql": ADDED % "" + "* from {{ new_rows(ref('codes')) }}",
}


def test_changes_of_a_table_that_has_lost_a_column_take_back_what_was_given(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(SEED | OF_SEED)
    project.run("build")
    project.write(LATER)
    refused = project.run("build", expect_ok=False).results["rows_of_seed"].message
    assert "rows_of_seed: its rows lack columns that its table dw.rows_of_seed has (n)" in refused
    net = "select id, n, name, sum(sign) as s from dw.events group by id, n, name having s <> 0"
    assert sorted(tuple(row.values()) for row in project.query(net)) == [
        (1, None, "a", 1),
        (4, None, "y", 1),
    ]
    project.run("run", "--full-refresh", "--select", "rows_of_seed")
    assert project.query("select * from dw.rows_of_seed order by id") == [
        {"id": 1, "name": "a"},
        {"id": 4, "name": "y"},
    ]


def test_columns_of_structs_and_of_values_for_older_rows() -> None:
    inner = {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "int"}]}
    items = {"type": "list", "element-id": 2, "element": inner}
    then = Columns.of({"fields": [{"id": 1, "name": "items", "type": items}]})
    assert then == Columns({"items": 1, "items.element.x": 3})
    filled = {"id": 4, "name": "v", "type": "int", "initial-default": 0}
    now = Columns.of({"fields": [{"id": 1, "name": "items", "type": items}, filled]})
    assert now.moved_since(then)
    assert not then.moved_since(now)


SHOWN = "concat('<', v, '>') as shown"
OF_TYPES = {
    "models/merged.sql": "{{ config(materialized='incremental', unique_key='id') }} "
    f"select id, {SHOWN} from {{{{ new_changes(ref('codes')) }}}} where sign > 0",
    "models/latest.sql": "{{ config(materialized='folded', unique_key='id', "
    "fold={'sequence': 'shown'}) }} "
    f"select id, {SHOWN}, row_kind from {{{{ new_changes(ref('codes')) }}}}",
    "models/added.sql": ADDED % "" + f"id, {SHOWN} from {{{{ new_rows(ref('codes')) }}}}",
    "seeds/codes.csv": "id,v\n1,01\n2,20\n",
}


def test_rows_are_made_again_where_a_column_has_another_type(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(OF_TYPES)
    project.run("build")
    types = "seeds: [{name: codes, config: {column_types: {v: string}}}]"
    project.write({"seeds/settings.yml": types})
    project.run("build")
    for name in ("added", "merged", "latest"):
        found = project.query(f"select id, shown from dw.{name} order by id")
        assert (name, [row["shown"] for row in found]) == (name, ["<01>", "<20>"])


LOST = (
    "{{{{ config(materialized='folded', unique_key={}, fold={}, "
    "on_schema_change='append_new_columns') }}}} "
    "select * from {{{{ new_rows(source('src', 'x')) }}}}"
)


def test_a_keyed_table_whose_query_loses_its_key_or_order_is_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    groups = "{'sequence': 'at', 'sequence_groups': {'g': {'sequence': 'b', 'columns': 'v'}}}"
    project = project_with_source(
        make_project,
        {
            "models/by_key.sql": LOST.format("['id', 'b']", "{'sequence': 'at'}"),
            "models/by_order.sql": LOST.format("'id'", "{'sequence': ['at', 'b']}"),
            "models/by_tie.sql": LOST.format("'id'", "{'sequence': 'at', 'tie_break': 'b'}"),
            "models/by_group.sql": LOST.format("'id'", groups),
            "models/kept.sql": LOST.format("'id'", "{'sequence': 'at'}"),
        },
        "alter table src.x add columns (at int, b int)",
        "insert into src.x values (1, 10, 1, 1), (1, 11, 1, 2)",
    )
    project.run("run")
    before = {name: project.query(f"select * from dw.{name}") for name in ("by_key", "by_order")}
    project.query("alter table src.x drop column b")
    project.query("insert into src.x values (1, 50, 2)")
    results = project.run("run", expect_ok=False).results
    for name in ("by_key", "by_order", "by_tie", "by_group"):
        assert "the model has no column b; it has at, id, v" in results[name].message, name
    assert before == {name: project.query(f"select * from dw.{name}") for name in before}
    assert project.query("select * from dw.kept") == [{"id": 1, "v": 50, "at": 2, "b": None}]
