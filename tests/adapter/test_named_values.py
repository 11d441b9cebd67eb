"""Vars, environment variables and relations of the catalog that a model reads by names of any
kind: its rows have one meaning, and it runs where its answer may be another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

MERGED = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}\n"
BY_VAR = {
    "spaced": "{{ var ('scale', 1) }}",
    "looked_up": "{{ context.get('var')('scale', 1) }}",
    "of_macro": "{{ outer_scale() }}",
}
PYTHON = """
def model(dbt, session):
    dbt.config(materialized='incremental', incremental_strategy='append')
    import os
    from pyspark.sql.functions import lit
    {}
    rows = dbt.new_rows(dbt.source('src', 'x'))
    return rows.select('id', lit(found).cast('string').alias('found'))
"""
BY_PYTHON = {
    "in_a_loop": "found = [dbt.project_var(name, 1) for name in ('scale',)][0]",
    "by_alias": "read = dbt.project_var; found = read('scale', 1)",
    "by_text": "found = getattr(dbt, 'project_var')('scale', 1)",
    "by_word": "found = dbt.project_var(name='scale', default=1)",
    "by_get": "found = os.environ.get('SCALE_OF_A_TEST')",
    "by_item": "found = os.environ['SCALE_OF_A_TEST']",
    "by_getenv": "found = os.getenv('SCALE_OF_A_TEST')",
}
MADE = "api.Relation.create(schema='src', identifier='y')"
# 1 before src.y is there
ASKED = {
    "adapter": "{{ 1 if adapter.get_relation(none, 'src', 'y') is none else 2 }}",
    "loaded": f"{{{{ 1 if load_relation({MADE}) is none else 2 }}}}",
    "set_before": f"{{% set y = {MADE} %}}{{{{ 1 if load_relation(y) is none else 2 }}}}",
    "schema": "{{ 2 if adapter.check_schema_exists(none, 'beside') else 1 }}",
    "statement": (
        "{% call(none_) statement('asked', fetch_result=true) %}"
        "select count(*) from src.plain_view{% endcall %}"
        "{{ load_result('asked').table.rows[0][0] }}"
    ),
}
CLOCKED = {
    "modules": "{% set known = modules %}'{{ known.datetime.datetime.now() }}'",
    "module": "'{{ modules['datetime'].datetime.now() }}'",
}
OF_COMMAND = {
    "flag": "{{ 2 if flags['FAIL_FAST'] else 1 }}",
    "attribute": "{{ 2 if flags | attr('FAIL_FAST') else 1 }}",
}
STAYS = {
    "own": "{{ 1 if load_relation(this) is none else 1 }}",
    "handed": "{{ 1 if adapter.ranges.writes(flags) else 1 }}",
}


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> Callable[[dict[str, str]], DbtProject]:
    def made(files: dict[str, str]) -> DbtProject:
        return project_with_source(
            make_project,
            files,
            "insert into src.x values (1, 1)",
            "create table src.plain_view (id int) using iceberg",
            "insert into src.plain_view values (1)",
        )

    return made


def test_a_var_that_is_named_in_any_way_is_a_part_of_the_definition(
    project: Callable[[dict[str, str]], DbtProject],
) -> None:
    rows = " as found from {{ new_rows(source('src', 'x')) }}"
    files = {f"models/{name}.sql": f"{MERGED}select id, {q}{rows}" for name, q in BY_VAR.items()}
    files |= {f"models/{name}.py": PYTHON.format(code) for name, code in BY_PYTHON.items()}
    files["macros/outer_scale.sql"] = "{% macro outer_scale() %}{{ inner_scale() }}{% endmacro %}"
    files["macros/inner_scale.sql"] = (
        "{% macro inner_scale() %}{{ var ('scale', 1) }}{% endmacro %}"
    )
    small = project(files)
    small.env["SCALE_OF_A_TEST"] = "1"
    small.run("run")
    small.run("run")

    small.query("insert into src.x values (2, 2)")
    small.env["SCALE_OF_A_TEST"] = "2"
    results = small.run("run", vars={"scale": 2}, expect_ok=False).results

    for name in (*BY_VAR, *BY_PYTHON):
        assert "rows were made by another definition: " in results[name].message, name
        assert small.column(f"select cast(found as int) from dw.{name}") == [1]


def test_a_python_model_has_the_vars_of_its_package(
    project: Callable[[dict[str, str]], DbtProject],
) -> None:
    small = project(
        {
            "models/scoped.py": PYTHON.format("found = dbt.project_var('scale', 1)"),
            "models/in_sql.sql": "select {{ var('scale', 1) }} as found",
        }
    )
    settings = small.root / "dbt_project.yml"
    declared = yaml.safe_load(settings.read_text())
    of_package = (declared.get("vars") or {}) | {declared["name"]: {"scale": 7}}
    settings.write_text(yaml.safe_dump(declared | {"vars": of_package}))
    small.run("run")
    assert small.column("select cast(found as int) from dw.scoped") == [7]
    assert small.column("select found from dw.in_sql") == [7]


def test_what_the_catalog_or_the_command_answers_is_asked_in_each_run(
    project: Callable[[dict[str, str]], DbtProject],
) -> None:
    rows = " as found from {{ pinned(source('src', 'x')) }}"
    asked = {**ASKED, **CLOCKED, **OF_COMMAND, **STAYS}
    small = project(
        {f"models/{name}.sql": f"{MERGED}select id, {q}{rows}" for name, q in asked.items()}
    )
    small.run("run")
    before = {name: small.column(f"select found from dw.{name}") for name in CLOCKED}
    small.query("create namespace beside")
    small.query("create table src.y (id int) using iceberg")
    small.query("insert into src.plain_view values (2)")

    results = small.run("run", "--fail-fast").results

    for name in (*ASKED, *OF_COMMAND):
        assert small.column(f"select found from dw.{name}") == [2], name
    for name, then in before.items():
        assert small.column(f"select found from dw.{name}") != then, name
    assert {results[name].message for name in STAYS} == {"nothing new"}
