"""What a model reads past its refs and sources is refused, or read in each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

# a value of src.x that no ref shows, and the config that it needs
ROWS = {
    "branch": "(select count(*) from src.x.branch_main)",
    "changes": "(select count(*) from lake.src.x.changes)",
    "main": "(select count(*) from src.x version as of 'main')",
    "identifier": "(select count(*) from identifier('src.x'))",
    "since": "(select count(*) from src.x with (`start-snapshot-id` = '1'))",
}
MOVING = {
    "history": ("(select count(*) from src.x.history)", ""),
    "by_value": ("(select count(*) from identifier('src.' || 'x'))", ""),
    "tag": ("(select count(*) from src.x version as of 'newest')", ""),
    "ahead": ("(select count(*) from src.x timestamp as of '2099-01-01')", ""),
    "function": (
        "counted()",
        "sql_header='create temporary function counted() returns bigint"
        " return (select count(*) from src.x);'",
    ),
    "of_hook": (
        "counted()",
        "pre_hook='create temporary function counted() returns bigint"
        " return (select count(*) from src.x)'",
    ),
    "variable": (
        "counted",
        "sql_header='declare counted bigint; set var counted = (select count(*) from src.x);'",
    ),
    "temporary": (
        "(select count(*) from seen)",
        "pre_hook='create temporary view seen as select * from src.x'",
    ),
}
MERGED = (
    "{{{{ config(materialized='incremental', unique_key='id', {}) }}}}"
    " select id, {} as n from {{{{ pinned(source('src', 'plain_view')) }}}}"
)
BY_DAY = (
    "{{{{ config(materialized='incremental', incremental_strategy='replace_partitions',"
    " partition_by='day', {}) }}}} select id, day, {} as n"
    " from {{{{ changed_partitions(source('src', 'plain_view'), by='day') }}}}"
)


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    def made(files: Mapping[str, str]) -> DbtProject:
        return project_with_source(
            make_project,
            dict(files),
            "create table src.plain_view (id int, day date) using iceberg partitioned by (day)",
            "insert into src.plain_view values (1, date '2026-03-01')",
            "insert into src.x values (1, 1)",
            "alter table src.x create tag newest",
        )

    return made


def test_the_rows_of_a_table_under_another_name_are_refused(
    project: Callable[..., DbtProject],
) -> None:
    python = """
        def model(dbt, session):
            return session.table("src.x.branch_main")
    """
    files = {f"models/{name}.sql": MERGED.format("", sql) for name, sql in ROWS.items()}
    small = project(files | {"models/py.py": python})
    results = small.run("run", expect_ok=False).results
    for name in ROWS:
        assert f"{name} (models/{name}.sql) names src.x by hand" in results[name].message
    assert "py (models/py.py) reads src.x by its session" in results["py"].message


@pytest.mark.in_turn
def test_what_may_be_another_thing_in_each_run_is_read_in_each_run(
    project: Callable[..., DbtProject],
) -> None:
    files = {}
    for name, (sql, config) in MOVING.items():
        files[f"models/{name}.sql"] = MERGED.format(config, sql)
        files[f"models/{name}_by_day.sql"] = BY_DAY.format(config, sql)
    fixed = "(select count(*) from src.x version as of {})"
    own = "(select count(*) from {{ this }}.history)"
    files["models/own.sql"] = MERGED.format("", "{% if is_incremental() %}" + own)
    files["models/own.sql"] = files["models/own.sql"].replace(own, own + "{% else %}0{% endif %}")
    small = project(files)
    first = small.column("select snapshot_id from src.x.refs")[0]
    small.write({"models/fixed.sql": MERGED.format("", fixed.format(first))})
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    small.query("alter table src.x replace tag newest")
    results = small.run("run").results
    for name in MOVING:
        for model in (name, f"{name}_by_day"):
            assert small.column(f"select n from dw.{model}") == [2], model
    assert {results[name].message for name in ("fixed", "own")} == {"nothing new"}


def test_a_session_has_no_functions_and_variables_of_the_model_before(
    project: Callable[..., DbtProject],
) -> None:
    made = "create temporary function counted() returns int return 1; declare known int default 1;"
    small = project(
        {
            "models/first.sql": MERGED.format(f"sql_header='{made}'", "counted() + known"),
            "models/second.sql": MERGED.format("", "counted() -- {{ ref('first') }}\n"),
            "models/third.sql": MERGED.format("", "known -- {{ ref('first') }}\n"),
        }
    )
    for _ in range(2):
        results = small.run("run", "--threads", "1", expect_ok=False).results
        assert results["first"].status == "success"
        assert "Cannot resolve routine `counted`" in results["second"].message
        assert "name `known` cannot be resolved" in results["third"].message


def test_metadata_and_times_behind_a_ref_are_refused_by_name(
    project: Callable[..., DbtProject],
) -> None:
    files = {
        "models/of_view.sql": "select count(*) as n from {{ source('src', 'x') }}.history",
        "models/by_view.sql": "{{ config(materialized='table') }}"
        " select * from {{ ref('of_view') }}",
        "models/at_time.sql": "{{ config(materialized='table') }}"
        " select * from {{ source('src', 'x') }} timestamp as of now()",
    }
    results = project(files).run("run", expect_ok=False).results
    for name, behind in {"by_view": ".history", "at_time": " timestamp as of"}.items():
        assert f"has '{behind.strip()}' behind a ref or source of src.x" in results[name].message
        assert f"write src.x{behind} by its name" in results[name].message


def test_a_function_of_dbt_is_refused(project: Callable[..., DbtProject]) -> None:
    small = project(
        {
            "functions/is_late.sql": "days > 3",
            "functions/_functions.yml": """
                functions:
                  - name: is_late
                    arguments: [{name: days, data_type: int}]
                    returns: {data_type: boolean}
            """,
        }
    )
    message = small.run("build", expect_ok=False).results["is_late"].message
    assert "is_late: the catalog of this warehouse keeps no functions" in message
