"""Properties that a config declares reach a table that stands, by whatever strategy it is written;
configs that nothing goes by are named."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

NEWS = "{{ new_rows(source('src', 'x')) }}"
PARTS = "{{ changed_partitions(source('src', 'x'), by='v') }}"
BARE = "{{ source('src', 'x') }}"
INCREMENTAL = "materialized='incremental', incremental_strategy="
# model -> its config, what it reads
MODELS = {
    "appended": (f"{INCREMENTAL}'append'", NEWS),
    "added": (f"{INCREMENTAL}'append_new_rows'", NEWS),
    "merged": (f"{INCREMENTAL}'merge', unique_key='id'", NEWS),
    "rewritten": (f"{INCREMENTAL}'replace_partitions', partition_by='v'", PARTS),
    "replaced": (f"{INCREMENTAL}'replace_all'", BARE),
    "overwritten": (f"{INCREMENTAL}'insert_overwrite', partition_by='v'", BARE),
    "kept": ("materialized='folded', unique_key='id', fold={'sequence': 'v'}", NEWS),
    "whole": ("materialized='table'", BARE),
}
PYTHON = """
def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append"{properties})
    return dbt.new_rows(dbt.source("src", "x"))
"""
SNAPSHOT = """
    {{% snapshot versions %}}
    {{{{ config(unique_key='id', strategy='check', check_cols='all'{properties}) }}}}
    select * from {{{{ source('src', 'x') }}}}
    {{% endsnapshot %}}
"""
SEED = "seeds: [{{name: colors, config: {{tblproperties: {properties}}}}}]"
CODEC, SIZE = "write.parquet.compression-codec", "write.target-file-size-bytes"
DECLARED = {CODEC: "gzip", SIZE: 4096, "it's": "a \\ b"}
TABLES = [*MODELS, "coded", "versions", "colors"]


def files(properties: dict[str, object] | None) -> dict[str, str]:
    """All nodes, with these properties in their configs."""
    given = f", tblproperties={properties!r}" if properties else ""
    return {
        **{
            f"models/{name}.sql": f"{{{{ config({config}{given}) }}}} select id, v from {rows}"
            for name, (config, rows) in MODELS.items()
        },
        "models/coded.py": PYTHON.format(properties=given),
        "snapshots/versions.sql": SNAPSHOT.format(properties=given),
        "seeds/_seeds.yml": SEED.format(properties=json.dumps(properties or {})),
    }


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    made = project_with_source(
        make_project,
        {**files(None), "seeds/colors.csv": "id\n1\n"},
        "drop table src.x",
        "create table src.x (id int, v int) using iceberg partitioned by (v)",
        "insert into src.x values (1, 1)",
    )
    made.run("build")
    return made


def stored(name: str) -> str:
    return f"dw.{name}{'__runs' if name == 'kept' else ''}"


def properties(project: DbtProject, name: str) -> dict[str, str]:
    rows = project.query(f"show tblproperties {stored(name)}")
    return {row["key"]: row["value"] for row in rows if row["key"] in DECLARED}


def metadata_files(project: DbtProject, name: str) -> list[str]:
    return project.column(f"select file from {stored(name)}.metadata_log_entries order by file")


def test_what_a_config_declares_by_now_is_set_once_and_nothing_where_nothing_differs(
    project: DbtProject,
) -> None:
    project.write(files(DECLARED))
    project.query("insert into src.x values (2, 2)")
    assert set(project.run("build").statuses().values()) == {"success"}
    wanted = {key: str(value) for key, value in DECLARED.items()}
    for name in TABLES:
        assert properties(project, name) == wanted, name

    # the others are written by each run
    still = [name for name in TABLES if name not in ("whole", "replaced", "overwritten")]
    before = {name: metadata_files(project, name) for name in still}
    project.run("build")
    assert {name: metadata_files(project, name) for name in before} == before

    # also where no row has come
    project.write(files(DECLARED | {CODEC: "zstd"}))
    project.run("build")
    for name in TABLES:
        assert properties(project, name) == wanted | {CODEC: "zstd"}, name
    for name in (*MODELS, "coded"):
        assert project.column(f"select id from dw.{name} order by id") == [1, 2], name


def test_a_format_that_iceberg_makes_no_older_is_refused(project: DbtProject) -> None:
    name, (config, rows) = "appended", MODELS["appended"]
    for version in (3, 2):
        given = f"{config}, tblproperties={{'format-version': '{version}'}}"
        project.write({f"models/{name}.sql": f"{{{{ config({given}) }}}} select id, v from {rows}"})
        outcome = project.run("run", "--select", name, expect_ok=version == 3)
    assert (
        "appended: format-version in its tblproperties is 2, and its table dw.appended has 3, "
        "which Iceberg makes no older; write 3, or drop the table and build it again."
    ) in outcome.log


def test_configs_that_nothing_goes_by_are_named(project: DbtProject) -> None:
    config = "materialized='table', file_format='parquet', location_root='/data'"
    project.write({"models/elsewhere.sql": f"{{{{ config({config}) }}}} select 1 as id"})
    log = project.run("run", "--select", "elsewhere").log
    assert "elsewhere: its config has file_format, location_root, which nothing goes by: " in log
    project.write({"models/elsewhere.sql": "{{ config(file_format='iceberg') }} select 1 as id"})
    assert "which nothing goes by" not in project.run("run", "--select", "elsewhere").log
