"""Models whose text names their own table: only where their SQL reads it do they know by themselves
what is new."""

from __future__ import annotations

from tests.support.dbt_project import DbtProject

ADDS = "{{ config(materialized='incremental', incremental_strategy='append') }} "
COUNTS = "select count(*) as n from {{ new_rows(source('src', 'x')) }}"
# refused from the first run on, and from the second: in the first it may still come to read itself
NEVER = {
    "in_a_hook": ADDS.replace(") }}", ", post_hook='select count(*) from {{ this }}') }}") + COUNTS,
    "in_a_text": f"{ADDS} select *, 'this week' as label from ({COUNTS})",
}
LATER = {
    "for_its_columns": f"{ADDS} {{% set names = adapter.get_columns_in_relation(this) %}} {COUNTS} "
    "-- {{ this }}",
}
RIGHT = f"{ADDS} {COUNTS} {{% if is_incremental() %}} " + (
    "where id not in (select n from {{ this }}) {% endif %}"
)


def test_naming_its_own_table_is_not_knowing_what_is_new(make_project) -> None:
    files = {f"models/{name}.sql": sql for name, sql in (NEVER | LATER).items()}
    files |= {
        "models/reads_itself.sql": RIGHT,
        "models/sources.yml": "sources: [{name: src, tables: [{name: x}]}]",
    }
    project: DbtProject = make_project(files)
    project.query("create namespace if not exists src")
    project.query("create table src.x (id bigint) using iceberg")
    for number, refused in enumerate((NEVER, NEVER | LATER), start=1):
        project.query(f"insert into src.x values ({number})")
        results = project.run("run", expect_ok=False).results
        failed = {name for name, result in results.items() if result.status == "error"}
        assert failed == refused.keys()
        assert all("aggregates the new rows alone" in results[name].message for name in failed)
    assert sorted(project.column("select n from dw.reads_itself")) == [1, 1]
