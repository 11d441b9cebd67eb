"""A hook before a model brings no row that the model lacks, and takes none for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

NEWS = "select id, v from {{ new_rows(source('src', 'x')) }}"
WRITES = (
    "insert into src.x values (9, 9)",
    "merge into lake.src.x using src.plain_view as n on n.id = x.id"
    " when not matched then insert (id, v) values (n.id, 0)",
    "with n as (select 9 as id, 9 as v) insert into src.x select * from n",
    "create or replace table src.x using iceberg as select 9 as id, 9 as v",
    "truncate table src.x",
    "call lake.system.rollback_to_snapshot('src.x', 1)",
    "CALL lake.system.`set_current_snapshot`(snapshot_id => 1, table => 'lake.src.`x`')",
)
TAKES = (
    "delete from {{ this }} where id = 1",
    "update {{ this }} set v = 0",
    "insert into {{ this }} replace where id = 1 select 1, 0",
    "truncate table {{ this }}",
    "call lake.system.rollback_to_timestamp('{{ this }}', timestamp '2026-01-01')",
)


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    def made(files: dict[str, str]) -> DbtProject:
        return project_with_source(
            make_project,
            files,
            "create table src.plain_view (id int) using iceberg",
            "insert into src.plain_view values (7)",
            "insert into src.x values (1, 1)",
        )

    return made


def configured(kind: str, hook: str, more: str = "") -> str:
    return f'{{{{ config(materialized="{kind}", pre_hook={hook!r}{more}) }}}} '


def test_a_hook_that_writes_to_an_input_of_its_model_is_refused(
    project: Callable[..., DbtProject],
) -> None:
    reads = "select id, v from {{ source('src', 'x') }}"
    small = project(
        {
            f"models/reader_{number}.sql": configured("table", hook) + reads
            for number, hook in enumerate(WRITES)
        }
        | {"models/view.sql": reads}
        | {"models/by_view.sql": configured("table", WRITES[0]) + "select * from {{ ref('view') }}"}
        | {
            "models/beside.sql": configured("table", "insert into src.plain_view values (8)")
            + reads
        }
    )
    results = small.run("run", expect_ok=False).results
    assert results["beside"].status == "success"
    for name in (*(f"reader_{number}" for number in range(len(WRITES))), "by_view"):
        message = results[name].message
        assert f"{name}: its pre_hook writes to src.x, which the model reads as it" in message
    assert small.column("select id from src.x") == [1]


def test_a_python_model_reads_what_its_hook_wrote_or_is_refused(
    project: Callable[..., DbtProject],
) -> None:
    python = f"""
        def model(dbt, session):
            dbt.config(materialized="table", pre_hook="{WRITES[0]}")
            return dbt.source("src", "x")
    """
    small = project({"models/py.py": python})
    small.run("run")
    assert sorted(small.column("select id from dw.py")) == [1, 9]
    small.write(
        {
            "models/first.sql": "{{ config(materialized='table') }} select id, v from"
            " {{ source('src', 'x') }}"
        }
    )
    small.write({"models/py.py": python.replace("return", 'dbt.ref("first")\n            return')})
    message = small.run("run", expect_ok=False).results["py"].message
    assert "py: its pre_hook writes to src.x, which the model reads as it was before" in message


def test_a_hook_that_takes_rows_which_do_not_come_again_is_refused(
    project: Callable[..., DbtProject],
) -> None:
    hooks = dict(enumerate("{% if is_incremental() %} " + item + " {% endif %}" for item in TAKES))
    files: dict[str, Any] = {
        f"models/taken_{number}.sql": configured("incremental", hook) + NEWS
        for number, hook in hooks.items()
    }
    whole = "select id, v from {{ pinned(source('src', 'x')) }}"
    files["models/comes_again.sql"] = (
        configured("incremental", hooks[0], ", unique_key='id'") + whole
    )
    files["models/meant.sql"] = configured("incremental", hooks[0], ", partial_runs=true") + NEWS
    files["models/keeps.sql"] = configured("incremental", hooks[0], ", full_refresh=false") + NEWS
    files["models/adds.sql"] = (
        configured(
            "incremental",
            "{% if is_incremental() %} insert into {{ this }} values (0, 0) {% endif %}",
        )
        + NEWS
    )
    deleting = """
        {% macro deleted_from_own() %}
            {% if execute and is_incremental() %}
                {% do run_query('delete from ' ~ this ~ ' where id = 1') %}
            {% endif %}
        {% endmacro %}
    """
    files["macros/deleting.sql"] = deleting
    files["models/by_macro.sql"] = configured("incremental", "{{ deleted_from_own() }}") + NEWS
    files["models/by_query.sql"] = (
        "{{ config(materialized='incremental') }} {{ deleted_from_own() }} " + NEWS
    )
    files["models/behind.sql"] = (
        "{{ config(materialized='incremental', post_hook='{{ deleted_from_own() }}') }} " + NEWS
    )
    files["models/py_taken.py"] = """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.source("src", "x"))
    """
    of_python = {"name": "py_taken", "config": {"pre_hook": hooks[0]}}
    files["models/_py.yml"] = yaml.safe_dump({"models": [of_python]})
    small = project(files)
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    results = small.run("run", expect_ok=False).results
    taken = (*(f"taken_{number}" for number in hooks), "py_taken", "by_macro", "by_query")
    for name in taken:
        by = "run_query" if name == "by_query" else "pre_hook"
        assert f"its {by} takes or changes rows of dw.{name}, and" in results[name].message
        assert small.column(f"select id from dw.{name}") == [1]
    for name, held in {
        "comes_again": [1, 2],
        "meant": [2],
        "behind": [2],
        "keeps": [2],
        "adds": [0, 1, 2],
    }.items():
        assert sorted(small.column(f"select id from dw.{name}")) == held, name
    small.run("run", "--full-refresh", "--select", *taken)
    for name in taken:
        assert sorted(small.column(f"select id from dw.{name}")) == [1, 2], name
