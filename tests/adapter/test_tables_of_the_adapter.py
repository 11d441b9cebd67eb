"""Statements of hooks, operations and models that would write to the adapter's own tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.versions.own_tables import check_own_tables
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, PROJECT, make_raw

WRITES = [
    "delete from dw.meta_version where version = 1",
    "DELETE FROM lake.`dw`.`meta_version`",
    "-- a note\nupdate dw . meta_version set tag = null",
    "with n as (select 1 as version) insert into dw.meta_version (version) select * from n",
    "from dw.rows insert into table meta_publication select *",
    "merge into dw.meta_lease t using dw.n n on t.pid = n.pid when matched then delete",
    "truncate table dw.meta_publication",
    "drop table if exists dw.meta_candidate",
    "alter table dw.meta_lease rename to dw.old",
    "create or replace table dw.meta_version using iceberg as select 1 as version",
    "insert overwrite dw.meta_version select * from dw.rows",
    "call lake.system.rollback_to_snapshot('dw.meta_version', 1)",
]
READS = [
    "create or replace table dw.meta_seen as select * from dw.meta_version",
    "insert into dw.kept select * from dw.meta_version -- delete from dw.meta_version",
    "select 'delete from dw.meta_version' as text",
    "delete from other.meta_version",
    "update dw.meta_versions set n = 1",
    "call lake.system.rewrite_data_files('dw.meta_version')",
]


@pytest.mark.parametrize("sql", WRITES)
def test_a_statement_that_writes_is_refused(sql: str) -> None:
    with pytest.raises(DbtRuntimeError, match=r"writes to dw\.meta_\w+, a table that the adapter"):
        check_own_tables(sql, "dw")


@pytest.mark.parametrize("sql", READS)
def test_another_statement_is_not(sql: str) -> None:
    check_own_tables(sql, "dw")


def built_with(make_project: Callable[..., DbtProject], macro: str) -> DbtProject:
    """A project of which version 1 is published, with a macro."""
    small = make_project(FILES | {"macros/own.sql": macro})
    make_raw(small)
    small.query("insert into dw.raw values (1)")
    small.run("build")
    return small


def test_no_version_is_lost_by_a_hook_or_an_operation(make_project) -> None:
    forget = "{% do run_query('delete from dw.meta_version') %}"
    small = built_with(make_project, "{% macro forget() %}" + forget + "{% endmacro %}")
    refused = "A statement writes to dw.meta_version, a table that the adapter keeps for itself"
    assert refused in str(small.run("run-operation", "forget", expect_ok=False).log)
    hook = "{{ config(post_hook='delete from dw.meta_version') }} select 1 as id"
    small.write({"models/hooked.sql": hook})
    assert refused in small.run("build", expect_ok=False).results["hooked"].message
    ended = PROJECT.replace('"{{ end_run', '"{{ forget() }}{{ end_run')
    small.write({"models/hooked.sql": "select 1 as id", "dbt_project.yml": ended})
    assert refused in small.run("build", expect_ok=False).log
    assert small.column("select version from dw.meta_version") == [1]


def test_they_go_with_their_schema(make_project) -> None:
    schema = "api.Relation.create(schema=target.schema)"
    drop = "{% do adapter.drop_schema(" + schema + ") %}"
    small = built_with(make_project, "{% macro drop_all() %}" + drop + "{% endmacro %}")
    assert small.column("select version from dw.meta_version") == [1]
    small.run("run-operation", "drop_all")
    assert "dw" not in small.column("show namespaces")
