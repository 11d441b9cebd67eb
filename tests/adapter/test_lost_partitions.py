"""Rows that lack a column by which their table is partitioned."""

from __future__ import annotations

from tests.support.small_source import project_with_source

LOSING = (
    "{{{{ config(materialized='incremental', incremental_strategy='{}', partition_by=['{}'], "
    "on_schema_change='{}') }}}} select * from {}"
)
ALL, NEW = "{{ source('src', 'x') }}", "{{ new_rows(source('src', 'x')) }}"
REFUSED = {
    "overwritten": LOSING.format("insert_overwrite", "V", "append_new_columns", ALL),
    "overwritten_by_hash": LOSING.format(
        "insert_overwrite", "bucket(2, v)", "append_new_columns", ALL
    ),
    "synced": LOSING.format("insert_overwrite", "v", "sync_all_columns", ALL),
    "added_and_synced": LOSING.format("append", "v", "sync_all_columns", NEW),
}


def test_rows_without_a_column_of_their_partition_are_refused(make_project):
    small = project_with_source(
        make_project,
        {f"models/{name}.sql": sql for name, sql in REFUSED.items()}
        | {"models/added.sql": LOSING.format("append", "v", "append_new_columns", NEW)},
        "insert into src.x values (1, 1), (2, 2)",
    )
    small.run("run")
    small.query("alter table src.x drop column v")
    small.query("insert into src.x values (3)")
    results = small.run("run", expect_ok=False).results
    for name in REFUSED:
        refused = f"{name}: its rows lack columns that its table dw.{name} is partitioned by (v);"
        assert refused in results[name].message, name
        assert small.column(f"select v from dw.{name} order by v") == [1, 2], name
    # rows that are added replace none
    assert small.column("select id from dw.added order by id") == [1, 2, 3]
