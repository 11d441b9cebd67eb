"""`make connect`: what it prints is right for this warehouse, and it prints no password."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import DbtProject
from tools.__main__ import cli
from tools.connect import python, reading_settings, spark_sql


@pytest.fixture(scope="module")
def project(with_schemas: DbtProject) -> DbtProject:
    project = with_schemas
    project.query(
        "create table dw.dws_trade__user_status_1d using iceberg as select id from range(7)"
    )
    project.query(
        "create view published.ids as select count(*) as n from dw.dws_trade__user_status_1d"
    )
    return project


def printed(project: DbtProject, tool: str) -> str:
    done = CliRunner().invoke(cli, ["connect", "--tool", tool], env=project.env)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_spark_is_given_the_catalog_to_read_alone(project: DbtProject) -> None:
    command = printed(project, "spark-sql")
    assert f"uri=jdbc:sqlite:{project.warehouse}/catalog.db" in command
    assert "&open_mode=1" in command
    assert "--database published" in command
    assert "iceberg-spark-runtime" in command
    assert "spark.driver.memory" not in command


@pytest.mark.parametrize("tool", ["pyiceberg", "duckdb"])
def test_the_script_for_python_reads_the_tables(tool: str, project: DbtProject) -> None:
    script = printed(project, tool)
    compile(script, tool, "exec")
    assert f"uri='sqlite:///{project.warehouse}/catalog.db'" in script
    pytest.importorskip("pyiceberg.catalog.sql")
    if tool == "duckdb":
        pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("7" if tool == "duckdb" else "id: int64") in done.stdout


def test_no_password_is_printed(project: DbtProject) -> None:
    secret = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.uri": "https://catalog.example",
        "spark.sql.catalog.lake.credential": "id:hidden-one",
        "spark.sql.catalog.lake.jdbc.password": "hidden-two",
        "spark.driver.memory": "1g",
    }
    credentials: SparkSessionCredentials = replace(
        project.credentials(), catalog_type="rest", server_side_parameters=secret
    )
    credentials.project_root = project.credentials().project_root
    command = "\n".join(spark_sql(credentials))
    assert "hidden" not in command
    assert "spark.sql.catalog.lake.credential=<fill in>" in command
    assert "spark.sql.catalog.lake.uri=https://catalog.example" in command
    assert reading_settings(credentials).keys() >= secret.keys() - {"spark.driver.memory"}
    with pytest.raises(DbtRuntimeError, match="CATALOG is rest: configure pyiceberg"):
        list(python(credentials, "pyiceberg"))


@pytest.mark.soak
def test_spark_sql_reads_tables_and_views_by_the_printed_command(project: DbtProject) -> None:
    command = (
        printed(project, "spark-sql").replace(".venv/bin/python", sys.executable)
        + ' -e "select n from ids; select count(*) from dw.dws_trade__user_status_1d"'
    )
    command = command.replace("--database published\n", "--database published")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["7", "7"], done.stderr[-2000:]
