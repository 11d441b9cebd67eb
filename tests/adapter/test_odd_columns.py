"""Columns whose names Spark takes in backticks alone: in each strategy, and in data tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_source import project_with_source

pytestmark = pytest.mark.in_turn

COLUMNS = "id, v, id as `my id`, v as `a-b`, id as `c.d`, v as `e``f`"
KEYS = {"spaced": "my id", "quoted": "`my id`", "dotted": "c.d", "ticked": "e`f", "two": "`e``f`"}
NEWS = "{{ new_rows(source('src', 'x')) }}"
MODELS = {
    "added": "incremental_strategy='append'",
    "keyed": "unique_key='e`f', fold={'sequence': 'my id'}",
    **{name: f"unique_key='{key}'" for name, key in KEYS.items()},
    "of_both": "unique_key=['a-b', 'id']",
}
CHANGED = "{{ config(materialized='incremental', incremental_strategy='append') }}"
YAML = """
    models:
      - name: added
        columns:
          - {name: "e`f", quote: true, data_tests: [not_null, unique]}
          - {name: "c.d", quote: true, data_tests: [not_null, unique]}
"""


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    files = {"models/_models.yml": YAML}
    for name, config in MODELS.items():
        kind = "folded" if "fold=" in config else "incremental"
        text = f"{{{{ config(materialized='{kind}', {config}) }}}} select {COLUMNS} from {NEWS}"
        files[f"models/{name}.sql"] = text
        files[f"models/changes_of_{name}.sql"] = (
            f"{CHANGED} select * from {{{{ new_changes(ref('{name}')) }}}}"
        )
    return project_with_source(make_project, files)


def test_rows_are_those_of_one_run_over_all(project: DbtProject) -> None:
    for number in range(3):
        project.query(f"insert into src.x values ({number}, {number})")
        project.run("run")
    for name in MODELS:
        rows = project.query(f"select * from dw.{name} order by id")
        assert [list(row.values()) for row in rows] == [[n] * 6 for n in range(3)], name
        assert project.column(f"select id from dw.changes_of_{name} order by id") == [0, 1, 2], name
    assert set(project.run("test").statuses().values()) == {"pass"}


PARTED = "id, v, v % 2 as `a-b`"
PARTS = {
    "whole": ("materialized='table'", "source('src', 'x')"),
    "added": ("materialized='incremental'", "new_rows(source('src', 'x'))"),
    "sorted": ("materialized='table', sort_by='id'", "source('src', 'x')"),
    "overwritten": (
        "materialized='incremental', incremental_strategy='insert_overwrite'",
        "source('src', 'x')",
    ),
}
REWRITTEN = """
    {{{{ config(
        materialized='incremental', incremental_strategy='replace_partitions', partition_by='a-b'
    ) }}}}
    select id, v, `a-b` from {{{{ changed_partitions(ref('added'), by='{by}') }}}}
"""
CODED = """
def model(dbt, session):
    dbt.config(materialized="incremental", partition_by="{by}")
    return dbt.new_rows(dbt.ref("added"))
"""


def test_tables_are_partitioned_by_columns_of_such_names(
    make_project: Callable[..., DbtProject],
) -> None:
    bys = {"plain": "a-b", "quoted": "`a-b`"}
    files = {
        **{f"models/rewritten_{name}.sql": REWRITTEN.format(by=by) for name, by in bys.items()},
        **{f"models/coded_{name}.py": CODED.format(by=by) for name, by in bys.items()},
        **{
            f"models/{name}.sql": f"{{{{ config({config}, partition_by='a-b') }}}} "
            f"select {PARTED} from {{{{ {rows} }}}}"
            for name, (config, rows) in PARTS.items()
        },
        "models/in_buckets.sql": "{{ config(materialized='table', partition_by="
        f"'bucket(2, my id)') }}}} select {COLUMNS} from {{{{ source('src', 'x') }}}}",
    }
    project = project_with_source(make_project, files)
    for number in range(4):
        project.query(f"insert into src.x values ({number}, {number})")
        project.run("run")
    for name in (Path(file).stem for file in files):
        rows = project.column(f"select id from dw.{name} order by id")
        assert rows == [0, 1, 2, 3], name
        if name != "in_buckets":
            (parts,) = project.query(f"select * from dw.{name}.partitions limit 1")
            assert "a-b" in str(parts["partition"]), name


@pytest.mark.parametrize("kind", ["array(v)", "map(id, v)", "struct(v)"])
def test_a_table_partitioned_by_a_column_of_no_single_value_is_refused_in_a_sentence(
    make_project: Callable[..., DbtProject], kind: str
) -> None:
    config = "materialized='table', partition_by='tags'"
    text = f"{{{{ config({config}) }}}} select id, {kind} as tags from {{{{ source('src', 'x') }}}}"
    project = project_with_source(make_project, {"models/tagged.sql": text})
    message = project.run("run", expect_ok=False).results["tagged"].message
    assert "No table is partitioned by a column of the type " in message
    assert "Exception" not in message


WINDOWS = {
    "tumbled": ("tumble(rows=ref('rows'), time='{at}', size='1 hour')", "", ""),
    "in_sessions": (
        "session(rows=ref('rows'), time='{at}', key='{key}', gap='10 minutes')",
        "`my key`, ",
        "`my key`, ",
    ),
}


def test_windows_are_cut_by_times_and_keys_of_such_names(
    make_project: Callable[..., DbtProject],
) -> None:
    files = {
        f"macros/windows/{path.name}": path.read_text("utf-8")
        for path in sorted((REPO / "macros/windows").glob("*.sql"))
    }
    files["models/rows.sql"] = """
        {{ config(materialized='incremental') }}
        select id, timestamp_seconds(1772323200L + v) as `at it`, id % 2 as `my key`
        from {{ new_rows(source('src', 'x')) }}
    """
    for ticks in ("", "`"):
        for name, (call, keys, group) in WINDOWS.items():
            macro = call.format(at=f"{ticks}at it{ticks}", key=f"{ticks}my key{ticks}")
            files[f"models/{name}{len(ticks)}.sql"] = f"""
                {{{{ config(materialized='incremental', incremental_strategy='replace_windows') }}}}
                with rows_of_windows as ({{{{ {macro} }}}})
                select {keys}window_start, window_end, count(*) as n
                from rows_of_windows
                group by {group}window_start, window_end
            """
    files["models/rejects.sql"] = (
        "select * from ({{ window_rejects(rows=ref('rows'), time='at it') }})"
    )
    project = project_with_source(make_project, files)
    for values in ("(1, 0), (2, -1772323200)", "(1, 4000), (3, 4300)", "(5, 4600), (4, 7000)"):
        project.query(f"insert into src.x select * from values {values}")
        project.run("run", "--vars", "business_zone: UTC")
    names = [f"{name}{ticks}" for name in WINDOWS for ticks in (0, 1)]
    found = {name: project.query(f"select * from dw.{name} order by all") for name in names}
    project.run("run", "--full-refresh", "--vars", "business_zone: UTC")
    for name in names:
        assert found[name] == project.query(f"select * from dw.{name} order by all"), name
        assert sum(row["n"] for row in found[name]) == 5, name
    assert project.column("select id from dw.rejects") == [2]


NAMED = {
    "streamed": "upsert_stream(rows=ref('rows'), key='my id', columns=['v'])",
    "appended": "append_stream(rows=ref('rows'), key='v', columns=['a-b'])",
    "unseen": "unseen_rows(rows=new_rows(ref('rows')), key='my id', order_by=['v'])",
}
COUNTED = """
    {%- set declared = {
        'dimensions': ['`my id`'],
        'measures': {'n': {'aggregate': 'count'}, 'top': {'aggregate': 'max', 'column': '`a-b`'}},
    } -%}
"""


def test_macros_that_write_names_as_they_are_refuse_them_in_a_sentence(
    make_project: Callable[..., DbtProject],
) -> None:
    rooms = ("streams", "deduplication", "daily_cut")
    files = {
        f"macros/{path.name}": path.read_text("utf-8")
        for room in rooms
        for path in sorted((REPO / "macros" / room).glob("*.sql"))
    }
    added = "{{ config(materialized='incremental', incremental_strategy='append') }}"
    files |= {f"models/{name}.sql": f"{added} {{{{ {call} }}}}" for name, call in NAMED.items()}
    files["models/rows.sql"] = f"""
        {{{{ config(materialized='incremental') }}}}
        select {COLUMNS}, 1 as sign, date '2026-03-01' as cut_date
        from {{{{ new_rows(source('src', 'x')) }}}}
    """
    files["models/counted.sql"] = f"""
        {COUNTED} with rows as (select * from {{{{ ref('rows') }}}})
        {{{{ daily_cut(declared, from_cte='rows') }}}}
    """
    files["models/total.sql"] = f"{COUNTED} {{{{ to_date(declared, ref('counted')) }}}}"
    project = project_with_source(make_project, files)
    project.query("insert into src.x values (1, 2), (1, 3), (4, 5)")
    results = project.run("run", expect_ok=False).results
    for name in NAMED:
        message = results[name].message
        odd, plain = ("a-b", "a_b") if name == "appended" else ("my id", "my_id")
        assert f"column {odd}: the macro takes no name that needs backticks" in message
        assert f"such as `{odd}` as {plain}" in message
    found = project.query("select `my id`, n, top from dw.total order by 1")
    assert [tuple(row.values()) for row in found] == [(1, 2, 3), (4, 1, 5)]
