"""Which catalog keeps the tables, as the environment sets it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbt.adapters.contracts.connection import ConnectionState
from dbt.adapters.sparksession import connections
from dbt.adapters.sparksession.catalogs import catalog_settings
from dbt.adapters.sparksession.connections import (
    SparkSessionConnectionManager,
    SparkSessionCredentials,
)
from dbt.adapters.sparksession.secrets import is_secret
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import DbtProject
from tests.support.postgres_server import PASSWORD, USER, PostgresServer

S3 = "s3://bucket/lake"


def test_a_catalog_is_what_the_environment_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite = catalog_settings("sqlite", "", "/data/lake")
    assert sqlite["uri"].startswith("jdbc:sqlite:/data/lake/catalog.db")
    assert sqlite["warehouse"] == "/data/lake/data"
    monkeypatch.setenv("CATALOG_USER", "somebody")
    monkeypatch.setenv("CATALOG_PASSWORD", "word")
    monkeypatch.setenv("CATALOG_TOKEN", "a-token")
    monkeypatch.setenv("CATALOG_OPTIONS", '{"s3.endpoint": "http://store:9000"}')
    jdbc = catalog_settings("jdbc", "jdbc:postgresql://host/catalog", S3)
    assert (jdbc["jdbc.user"], jdbc["jdbc.password"]) == ("somebody", "word")
    assert jdbc["io-impl"].endswith("S3FileIO")
    assert (jdbc["warehouse"], jdbc["s3.endpoint"]) == (S3, "http://store:9000")
    rest = catalog_settings("rest", "http://server/iceberg", "lake")
    assert (rest["token"], rest["warehouse"]) == ("a-token", "lake")
    assert "io-impl" not in rest  # the server decides
    hive = catalog_settings("hive", "thrift://host:9083", "hdfs://name/lake")
    assert hive | {"s3.endpoint": ""} == {
        "type": "hive",
        "uri": "thrift://host:9083",
        "warehouse": "hdfs://name/lake",
        "s3.endpoint": "",
    }
    assert all(is_secret(f"spark.sql.catalog.lake.{name}") for name in ("token", "jdbc.password"))


@pytest.mark.parametrize(
    ("kind", "uri", "warehouse", "expected"),
    [
        ("derby", "", "/lake", "CATALOG must be one of sqlite, jdbc, rest, hive, got 'derby'"),
        ("sqlite", "", S3, "needs a catalog of its own: set CATALOG to jdbc, rest or hive"),
        ("rest", "", "lake", "CATALOG=rest needs the catalog's address: set CATALOG_URI"),
    ],
)
def test_what_does_not_fit_is_named(kind: str, uri: str, warehouse: str, expected: str) -> None:
    with pytest.raises(DbtRuntimeError, match=expected):
        catalog_settings(kind, uri, warehouse)


@pytest.mark.parametrize("options", ["no object", "[]", '{"a": 1}'])
def test_options_are_an_object_of_texts(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    monkeypatch.setenv("CATALOG_OPTIONS", options)
    with pytest.raises(DbtRuntimeError, match="CATALOG_OPTIONS must be a JSON object of texts"):
        catalog_settings("hive", "thrift://host:9083", S3)


def test_a_warehouse_that_is_a_uri_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = SparkSessionCredentials(
        schema="dw", warehouse=S3, catalog_type="hive", catalog_uri="thrift://host:9083"
    )
    credentials.project_root = str(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connections, "Handle", lambda _: "a handle")
    monkeypatch.setattr(connections, "dbt_folders", list)
    connection = SimpleNamespace(state=ConnectionState.CLOSED, credentials=credentials, handle=None)
    SparkSessionConnectionManager.open(connection)  # type: ignore[arg-type]
    assert connection.handle == "a handle"
    assert list(tmp_path.iterdir()) == []
    assert credentials.spark_settings()["spark.sql.catalog.lake.warehouse"] == S3
    assert credentials.shared_folders() == ([], [])


@pytest.mark.soak
def test_postgresql_keeps_the_tables(
    make_project: Callable[..., DbtProject], postgres: PostgresServer
) -> None:
    model = "{{ config(materialized='table') }} select 7 as id"
    project = make_project({"models/a.sql": model, "models/b.sql": "select * from {{ ref('a') }}"})
    env = {
        "CATALOG": "jdbc",
        "CATALOG_URI": postgres.url("postgres"),
        "CATALOG_USER": USER,
        "CATALOG_PASSWORD": PASSWORD,
    }
    for _ in range(2):
        done = project.subprocess("run", env=env)
        assert done.returncode == 0, done.stdout
    assert not (project.warehouse / "catalog.db").exists()
    assert list(project.warehouse.rglob("*.parquet")) != []
    written = [path for path in project.root.rglob("*") if path.is_file() and path.suffix != ".jar"]
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
