"""Tables and views that a user drops by a statement: the next build brings them back, or names
the table and the way to bring it back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.killed_runs import is_right
from tests.support.small_warehouse import FILES, make_raw

pytestmark = pytest.mark.in_turn

STATUSES = {
    "models/kept.sql": """
        {{ config(materialized='incremental', full_refresh=false) }}
        select id from {{ new_rows(source('raw', 'raw')) }}
    """,
    "seeds/statuses.csv": """
        status,label
        1,new
        2,old
    """,
    "snapshots/_snapshots.yml": """
        snapshots:
          - name: status_versions
            relation: ref('statuses')
            config:
              unique_key: status
              strategy: check
              check_cols: all
              hard_deletes: invalidate
    """,
}
LABELS_EVER = ["middle", "new", "old"]


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """A warehouse of two versions; the second one changed a row of the seed."""
    made = make_project(FILES | STATUSES)
    make_raw(made)
    made.query("insert into dw.raw select id from range(12)")
    made.run("build")
    made.write({"seeds/statuses.csv": "status,label\n1,new\n2,middle\n"})
    made.run("build")
    return made


def ever(project: DbtProject, schema: str) -> list[str]:
    return sorted(project.column(f"select label from {schema}.status_versions"))


def land(project: DbtProject) -> int:
    """Let three ids come in; how many there are then."""
    (count,) = project.column("select count(*) from dw.raw")
    project.query(f"insert into dw.raw select id from range({count}, {count + 3})")
    return count + 3


def is_whole(project: DbtProject, count: int) -> None:
    for schema in ("dw", "published"):
        is_right(project, count, schema)
        assert ever(project, schema) == LABELS_EVER
        assert project.column(f"select count(*) from {schema}.kept") == [count]
        labels = project.column(f"select label from {schema}.statuses order by status")
        assert labels == ["new", "middle"]


def test_whatever_a_model_or_seed_owns_is_built_again(project: DbtProject) -> None:
    count = land(project)
    project.run("build")
    for name in ("rows", "days", "latest__runs", "statuses"):
        project.query(f"drop table dw.{name}")
    for name in ("total", "latest"):
        project.query(f"drop view dw.{name}")

    project.run("build")

    is_whole(project, count)


def test_a_published_view_is_written_again_with_and_without_news(project: DbtProject) -> None:
    count = land(project)
    project.run("build")
    project.query("drop view published.total")

    assert "Published as" not in project.run("build").log

    is_whole(project, count)
    project.query("drop view published.statuses")
    count = land(project)
    project.run("build")
    is_whole(project, count)
    for view in project.query("show views in published"):
        project.query(f"drop view published.{view['viewName']}")
    project.query("drop namespace published")

    assert "Published as" not in project.run("build").log

    is_whole(project, count)


def test_a_view_of_a_model_that_is_gone_goes_and_a_users_own_stays(project: DbtProject) -> None:
    project.run("build")
    (left,) = project.column("show create table published.total")
    # as a killed run leaves it: of a model that the newest version hasn't any more
    project.query(left.replace("published.total", "published.left_behind"))
    project.query("create view published.own as select 1 as id")

    project.run("build")

    views = {row["viewName"] for row in project.query("show views in published")}
    assert "left_behind" not in views
    assert {"own", "total"} <= views
    project.query("drop view published.own")


def test_versions_that_were_dropped_are_named_and_come_back(project: DbtProject) -> None:
    project.run("build")
    (newest,) = project.column("select max(version) from dw.meta_version")
    project.query("drop table dw.meta_version")

    for command in (("build",), ("run-operation", "remove_orphans")):
        refused = project.run(*command, expect_ok=False)
        refusal = f"{refused.exception}{refused.log}"
        assert "Table dw.meta_version is gone from the catalog" in refusal
        assert "dbt run-operation register_tables" in refusal

    project.run("run-operation", "register_tables")
    count = land(project)
    assert f"Published as version {newest + 1}" in project.run("build").log
    is_whole(project, count)


@pytest.mark.soak
def test_versions_whose_files_were_deleted_too_begin_again(project: DbtProject) -> None:
    count = land(project)
    project.run("build")
    project.query("drop table dw.meta_version purge")

    done = project.run("build")

    assert "Table dw.meta_version, which holds the versions, is gone with its files" in done.log
    assert "Published as version 1" in done.log
    is_whole(project, count)


@pytest.mark.parametrize("name", ["status_versions", pytest.param("kept", marks=pytest.mark.soak)])
def test_what_can_be_made_of_no_other_table_is_not_begun_again(
    project: DbtProject, name: str
) -> None:
    project.run("build")
    project.query(f"drop table dw.{name}")

    refused = project.run("build", expect_ok=False)

    refusal = refused.results[name].message
    assert f"Table dw.{name} is gone from the catalog" in refusal
    assert "dbt run-operation register_tables" in refusal
    project.run("run-operation", "register_tables")
    count = land(project)
    project.run("build")
    is_whole(project, count)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["", " purge"])
def test_the_lease_that_was_dropped_is_named_and_comes_back(project: DbtProject, how: str) -> None:
    project.run("build")
    project.query(f"drop table dw.meta_lease{how}")

    refused = project.run("build", expect_ok=False)

    assert "dbt run-operation register_tables" in f"{refused.exception}{refused.log}"
    project.run("run-operation", "register_tables")
    count = land(project)
    project.run("build")
    is_whole(project, count)


@pytest.mark.soak
def test_a_candidate_that_was_dropped_is_no_candidate(project: DbtProject) -> None:
    count = land(project)
    project.run("build", vars={"hold_back": True})
    project.query("drop table dw.meta_candidate")

    project.run("build")

    is_whole(project, count)
