"""`make serve`: what a tool that asks by JDBC sees, and that it changes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session
from dbt_common.exceptions import DbtRuntimeError
from py4j.java_gateway import JavaGateway
from pyspark import SparkContext

from tests.support.dbt_project import REPO, DbtProject
from tests.support.sql_client import SqlClient, SqlError
from tools import serve

ADDRESS = re.compile(r"jdbc:hive2://127\.0\.0\.1:\d+/published")


@pytest.fixture(scope="module")
def project(with_schemas: DbtProject) -> DbtProject:
    project = with_schemas
    project.query(
        "create table dw.amounts using iceberg as select * from values "
        "(1, cast('12345678901234567.89' as decimal(20, 2))), (2, null) as given(id, amount)"
    )
    project.query("create view published.amounts as select * from dw.amounts")
    (snapshot,) = project.column("select snapshot_id from dw.amounts.snapshots")
    # as the views of versions are
    project.query(
        f"create view published.pinned as select * from dw.amounts version as of {snapshot}"
    )
    project.query("create table dw.gone using iceberg as select 1 as id")
    project.query("create view published.broken as select * from dw.gone")
    project.query("drop table dw.gone")
    project.query("create view published.`of days` as select count(*) as n from dw.amounts")
    return project


@pytest.fixture(scope="module")
def address(project: DbtProject) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tools", "serve", "--port", "0"],
        cwd=REPO,
        env=project.env | {"DBT_PROFILES_DIR": str(REPO / "profiles")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    found = ADDRESS.search(line)
    assert found is not None, line + server.stdout.read()
    assert line.startswith("2 tables at ")
    assert server.stdout.readline() == "Not listed for its name: lake.published.`of days`\n"
    broken = server.stdout.readline()
    assert broken.startswith("Not listed, as Spark can't read it: lake.published.`broken`: ")
    assert "`dw`.`gone`" in broken
    yield found[0]
    server.terminate()
    assert server.wait(60) == 0


@pytest.fixture(scope="module")
def gateway(project: DbtProject) -> JavaGateway:
    """Spark's own classes have Hive's driver."""
    project.query("select 1")
    context = SparkContext._active_spark_context
    assert context is not None
    context._jvm.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver")
    return context._gateway


def listed(gateway: Any, address: str) -> set[tuple[str, str]]:
    """(database, table) of what a tool's list of tables shows."""
    connection = gateway.jvm.java.sql.DriverManager.getConnection(address)
    found, rows = set(), connection.getMetaData().getTables(None, "published", "%", None)
    while rows.next():
        found.add((rows.getString(2), rows.getString(3)))
    connection.close()
    return found


@pytest.mark.in_turn
def test_a_tool_lists_and_reads_the_published_version_and_writes_nothing(
    project: DbtProject, gateway: JavaGateway, address: str
) -> None:
    assert listed(gateway, address) == {("published", "amounts"), ("published", "pinned")}
    client = SqlClient(gateway, address)
    assert client.query("select id, amount from amounts order by id") == [
        ("1", "12345678901234567.89"),
        ("2", None),
    ]
    for statement in (
        "insert into lake.dw.amounts values (3, 1)",
        "delete from lake.dw.amounts",
        "drop table lake.dw.amounts",
        "drop view lake.published.amounts",
        "create table lake.dw.more (id int) using iceberg",
    ):
        with pytest.raises(SqlError, match=r"(?i)readonly|Unknown failure|Failed to execute"):
            client.execute(statement)
    assert client.query("select count(*) from pinned") == [("2",)]
    # what is written meanwhile is there at once
    project.query("insert into dw.amounts values (3, 0.10)")
    assert client.query("select n from lake.published.`of days`") == [("3",)]
    assert client.query("select count(*) from pinned") == [("2",)]
    client.close()
    assert len(project.query("select * from dw.amounts")) == 3


def test_new_relations_and_columns_are_listed_and_those_that_are_gone_are_not(
    project: DbtProject,
) -> None:
    project.query("create namespace if not exists seen")
    project.query("create view seen.a as select 1 as id")
    project.query("create view seen.b as select 1 as id")
    session = own_session(project.credentials()).session
    names = serve.PublishedNames(session, "lake", "seen")
    assert names.update() == 2
    project.query("create or replace view seen.a as select 1 as id, 'x' as word")
    project.query("drop view seen.b")
    project.query("create view seen.c as select 2 as id")
    project.query("create table dw.short as select 1 as id")
    project.query("create view seen.d as select * from dw.short")
    assert names.update() == 3
    assert names.unreadable == {}
    project.query("drop table dw.short")
    assert names.update() == 2
    assert "`dw`.`short`" in names.unreadable["d"]
    views = session.sql("show views in spark_catalog.seen").collect()
    assert {row.viewName for row in views} == {"a", "c"}
    assert session.table("spark_catalog.seen.a").columns == ["id", "word"]


def test_a_catalog_that_could_be_written_is_not_served(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = replace(project.credentials(), catalog_type="rest")
    monkeypatch.setattr(serve, "reading_credentials", lambda: remote)
    with pytest.raises(DbtRuntimeError, match="CATALOG is rest, which this server could write to"):
        serve.serving_credentials(0)
