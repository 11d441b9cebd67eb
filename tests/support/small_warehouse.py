"""A small project that takes a lease and publishes versions, over a table dw.raw of ids."""

from __future__ import annotations

from pathlib import Path

from dbt.adapters.sparksession.versions.published import FEW_METADATA_FILES

from tests.support.dbt_project import REPO, DbtProject

PROJECT = """
    name: small
    version: "1.0"
    config-version: 2
    profile: binlog_warehouse
    on-run-start: "{{ start_run() }}"
    on-run-end: "{{ end_run(results) }}"
"""
# the beginning of the models' YAML
RAW_SOURCE = """
    version: 2
    sources:
      - name: raw
        schema: dw
        tables: [{name: raw}]
"""
FILES = {
    "dbt_project.yml": PROJECT,
    "models/_models.yml": RAW_SOURCE
    + """
    models:
      - name: rows
        columns: [{name: id, data_tests: [unique, not_null]}]
      - name: latest
        columns: [{name: user_id, data_tests: [unique]}]
    """,
    # appended, written by partitions, folded, and a view
    "models/rows.sql": """
        {{ config(materialized='incremental') }}
        select id, id % 7 as user_id, id div 10 as day from {{ new_rows(source('raw', 'raw')) }}
    """,
    "models/days.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, count(*) as n from {{ changed_partitions(ref('rows'), by='day') }} group by day
    """,
    "models/latest.sql": """
        {{ config(materialized='folded', unique_key='user_id', fold={'sequence': 'id'}) }}
        select user_id, id from {{ new_rows(ref('rows')) }}
    """,
    "models/total.sql": "select sum(n) as n from {{ ref('days') }}",
}


def generic_tests(*names: str) -> dict[str, str]:
    """Files of a project that has some of this project's generic tests, by their paths."""
    folder = REPO / "tests" / "dbt" / "generic"
    return {f"macros/{name}.sql": (folder / f"{name}.sql").read_text("utf-8") for name in names}


def make_raw(project: DbtProject) -> None:
    """Make the table of ids that come in, empty, with few metadata files as the models' own."""
    project.query("create namespace if not exists dw")
    project.query(f"create table dw.raw (id bigint) using iceberg {FEW_METADATA_FILES}")


def left_behind(project: DbtProject) -> list[Path]:
    """Files that no snapshot knows, one in each table's folder: what another run writes now."""
    found = []
    for name in ("rows", "days", "latest__runs"):
        (folder,) = project.warehouse.rglob(f"dw/{name}/data")
        found.append(folder / "of_the_new_writer.parquet")
        found[-1].write_bytes(b"not committed yet")
    return found
