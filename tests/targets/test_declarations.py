"""What exposures and the environment say of publishing, and how it is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from dbt.adapters.sparksession.versions.publications import publication_of
from dbt.adapters.sparksession.versions.row_keys import key_text, row_key_hash
from dbt.adapters.sparksession.versions.targets import PublishError, StoreState
from dbt_common.exceptions import CompilationError
from pyspark.sql import SparkSession

from python_udfs.servers.errors import ServerError, server_error
from python_udfs.targets import clickhouse, mysql, postgres, targets

NODES = {
    "model.p.days": {
        "name": "days",
        "resource_type": "model",
        "config": {"unique_key": ["day", "user_id"]},
    },
    "model.p.total": {"name": "total", "resource_type": "model", "config": {}},
    "snapshot.p.names": {
        "name": "names",
        "resource_type": "snapshot",
        "config": {"unique_key": "id"},
    },
}


def exposure(publish: Any, *models: str) -> dict[str, Any]:
    return {
        "name": "shown",
        "config": {"meta": {"publish": publish}},
        "depends_on": {"nodes": list(models or ("model.p.days",))},
    }


def test_a_publication_takes_name_and_key_from_its_model() -> None:
    found = publication_of(exposure({"target": "serving"}), NODES)
    assert found is not None
    assert (found.table, found.key, found.mode) == ("days", ("day", "user_id"), "")
    assert publication_of(exposure(None), NODES) is None
    found = publication_of(exposure({"target": "serving"}, "snapshot.p.names"), NODES)
    assert found is not None
    assert found.key == ("dbt_scd_id",)  # a row for each version of an id


@pytest.mark.parametrize(
    ("publish", "models", "expected"),
    [
        ("serving", (), "publish must be a mapping, got 'serving'"),
        ({"target": "Serving!"}, (), "target must be a lower case name, got 'Serving!'"),
        ({"target": "a", "tabel": "x"}, (), "unknown key tabel"),
        ({"target": "a"}, ("model.p.total",), "it needs the key"),
        ({"target": "a"}, ("model.p.days", "model.p.total"), "depend on one model, got 2"),
        ({"target": "a", "types": ["x"]}, (), "types must be a mapping"),
        ({"target": "a", "key": 7}, (), "key must be names of columns, got 7"),
        ({"target": "a\n", "key": ["x", 1]}, (), "target must be a lower case name, got 'a\\n'"),
    ],
)
def test_mistakes_of_a_publication_are_reported(
    publish: Any, models: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(CompilationError, match="exposure shown: ") as caught:
        publication_of(exposure(publish, *models), NODES)
    assert expected in str(caught.value)


def test_targets_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PUBLISH_TARGETS", raising=False)
    assert targets() == {}
    monkeypatch.setenv("PUBLISH_TARGETS", "serving=mysql, stream=kafka")
    assert targets() == {"serving": "mysql", "stream": "kafka"}
    monkeypatch.setenv("PUBLISH_TARGETS", "serving=oracle")
    with pytest.raises(PublishError, match="mysql, postgres, kafka, clickhouse, iceberg; got"):
        targets()


@pytest.mark.parametrize(
    "address",
    [
        "http://h:99999/shop",
        "http://h:x/shop",
        "http://[::1/shop",
        "http://h:8123",
        "http://h:8123/a/b",
        "http:///shop",
        "chdb:folder/shop",
        "chdb:./folder/shop",
        "chdb:/shop",
    ],
)
def test_an_address_of_clickhouse_that_is_no_url_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PUBLISH_X_URL", address)
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    with pytest.raises(PublishError, match="PUBLISH_X_URL must look like http://host:8123/"):
        clickhouse.open_store(session, "x", "w")


def test_keys_have_types_whose_texts_are_exact() -> None:
    assert key_text("at", "timestamp") == "cast(unix_micros(`at`) as string)"
    assert key_text("x", "double") is None
    with pytest.raises(ValueError, match=r"columns of a key: x \(double\)"):
        row_key_hash(["x"], {"x": "double"})
    with pytest.raises(ValueError, match="no column y"):
        row_key_hash(["y"], {"x": "int"})


def test_a_version_that_was_begun_and_not_finished_is_half() -> None:
    assert StoreState(1, "a", 2, "b").is_half
    assert not StoreState(2, "b", 2, "b").is_half
    assert not StoreState(2, "b").is_half


def test_types_of_the_stores() -> None:
    kinds = {"id": "decimal(20,0)", "name": "string", "paid": "boolean", "at": "timestamp"}
    assert mysql.column_types(kinds, {"id": "bigint unsigned", "name": "varchar(30)"}) == {
        "id": "bigint unsigned",
        "name": "varchar(30)",
        "paid": "tinyint",
        "at": "datetime(6)",
    }
    assert clickhouse.column_types(kinds, {"id": "UInt64"}) == {
        "id": "Nullable(UInt64)",
        "name": "Nullable(String)",
        "paid": "Nullable(Bool)",
        "at": "Nullable(DateTime64(6, 'UTC'))",
    }
    given = {"id": "bigint", "name": "character varying(30)", "at": "timestamp"}
    assert postgres.column_types(kinds, given) == {
        "id": "bigint",
        "name": "varchar(30)",
        "paid": "boolean",
        "at": "timestamp",
    }
    assert set(postgres.column_types(kinds, {}).values()) == {
        "numeric(20,0)",
        "text",
        "boolean",
        "timestamptz",
    }
    for store in (mysql, postgres, clickhouse):
        with pytest.raises(PublishError) as caught:
            store.column_types({"x": "interval day"}, {"y": "text; drop table x"})
        reported = str(caught.value)
        assert "types names y, which the rows lack" in reported
        assert "has no type for column x (interval day)" in reported


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (
            "decimal(12,2)",
            "numeric(14,1)",
            "of column x would round a decimal(12,2)",
        ),
        ("decimal(12,2)", "bigint", "is no type that holds any decimal(12,2)"),
        ("double", "real", "is no type that holds any double"),
        ("string", "char(3)", "is no type that holds any string"),
        ("string", "bytea", "is no type that holds any string"),
        ("string", "text default 'x'", "is no type that holds any string"),
        ("timestamp", "timestamp(3)", "is no type that holds any timestamp"),
    ],
)
def test_types_in_which_postgres_would_change_values_are_refused(
    kind: str, given: str, expected: str
) -> None:
    with pytest.raises(PublishError) as caught:
        postgres.column_types({"x": kind}, {"x": given})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("decimal(12,2)", "decimal(14,1)", "of column x would round a decimal(12,2)"),
        ("decimal(12,2)", "bigint", "is no type that holds any decimal(12,2)"),
        ("decimal(12,2)", "double", "is no type that holds any decimal(12,2)"),
        ("bigint", "double", "is no type that holds any bigint"),
        ("double", "decimal(12,2)", "is no type that holds any double"),
        ("timestamp", "datetime", "is no type that holds any timestamp"),
        ("timestamp", "datetime(3)", "is no type that holds any timestamp"),
        ("timestamp_ntz", "date", "is no type that holds any timestamp_ntz"),
        ("string", "int", "is no type that holds any string"),
    ],
)
def test_types_in_which_mysql_would_change_values_are_refused(
    kind: str, given: str, expected: str
) -> None:
    with pytest.raises(PublishError) as caught:
        mysql.column_types({"x": kind}, {"x": given})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("decimal(12,2)", "Decimal(14, 1)", "of column x would cut places off a decimal(12,2)"),
        ("decimal(12,2)", "Int64", "is no type that holds any decimal(12,2)"),
        ("bigint", "Float64", "is no type that holds any bigint"),
        ("double", "Int64", "is no type that holds any double"),
        ("string", "Int64", "is no type that holds any string"),
        ("timestamp", "UInt32", "is no type that holds any timestamp"),
    ],
)
def test_types_in_which_clickhouse_would_change_values_are_refused(
    kind: str, given: str, expected: str
) -> None:
    with pytest.raises(PublishError) as caught:
        clickhouse.column_types({"x": kind}, {"x": given})
    assert expected in str(caught.value)


def test_types_in_which_clickhouse_holds_or_refuses_each_value() -> None:
    for kind, given, stored in (
        ("decimal(20,0)", "UInt64", "Nullable(UInt64)"),
        ("bigint", "Int32", "Nullable(Int32)"),
        ("bigint", "Decimal(20, 2)", "Nullable(Decimal(20, 2))"),
        ("string", "LowCardinality(String)", "LowCardinality(Nullable(String))"),
        ("decimal(12,2)", "String", "Nullable(String)"),
    ):
        assert clickhouse.column_types({"x": kind}, {"x": given}) == {"x": stored}


def test_types_in_which_mysql_holds_or_refuses_each_value() -> None:
    for kind, given in (
        ("decimal(20,0)", "bigint unsigned"),
        ("decimal(30,4)", "decimal(12,4)"),
        ("bigint", "decimal(20,2)"),
        ("string", "varchar(30)"),
        ("boolean", "int"),
        ("date", "datetime"),
        ("array<string>", "json"),
        ("binary", "binary(16)"),
    ):
        assert mysql.column_types({"x": kind}, {"x": given}) == {"x": given}


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "expected"),
    [
        ("'abc '", "string", "varchar(3)", "a text that is longer than 3 characters"),
        (
            "'ab '",
            "string",
            "char(3)",
            "a text that is longer than 3 characters or ends in a blank",
        ),
        ("repeat('é', 128)", "string", "tinytext", "a text that is longer than 255 bytes"),
        ("x'00ff'", "binary", "binary(3)", "bytes that are not exactly 3"),
        ("'a\\U0001F680 '", "string", "varchar(3)", None),
        ("'abc'", "string", "char(3)", None),
        ("repeat('é', 127)", "string", "tinytext", None),
        ("x'00ff20'", "binary", "binary(3)", None),
        ("string(null)", "string", "char(3)", None),
    ],
)
def test_what_mysql_would_cut_or_fill_up_is_refused(
    spark: SparkSession, value: str, kind: str, wanted: str, expected: str | None
) -> None:
    frame = spark.sql(f"select {value} as x")
    written = frame.select(mysql.written("x", kind, wanted))
    if expected is None:
        assert written.collect() == frame.collect()
        return
    with pytest.raises(Exception, match=f"column x has {expected}"):
        written.collect()


def test_names_that_postgres_would_cut_are_refused() -> None:
    postgres.check_names(["x" * 63])
    with pytest.raises(PublishError, match="at most 63 bytes, these have more: é"):
        postgres.check_names(["id", "é" * 32])
    assert postgres.quoted('a "b') == '"a ""b"'
    assert postgres.literal("it's \\") == "E'it''s \\\\'"


def test_postgres_has_an_index_by_the_short_columns_of_a_key() -> None:
    types = {"day": "date", "status": "varchar(30)", "note": "text", "about": "json"}
    assert postgres.index_by(["note", "status", "day"], types) == '("status", "day")'
    assert postgres.index_by(["about", "note"], types) == 'using hash ("note")'
    assert postgres.index_by(["about"], types) is None


@pytest.mark.parametrize(
    ("server", "jars"),
    [(mysql.MysqlServer, "MYSQL_JARS"), (postgres.PostgresServer, "POSTGRES_JARS")],
)
def test_a_driver_that_is_missing_is_named(server: Any, jars: str) -> None:
    session = MagicMock()
    missing = TypeError("'JavaPackage' object is not callable")
    session._jvm.org.postgresql.Driver.side_effect = missing
    session._jvm.com.mysql.cj.jdbc.Driver.side_effect = missing
    with pytest.raises(ServerError, match=f"its JDBC driver isn't there, {jars} names it"):
        server(session, {"url": "jdbc:x://y/z"})


def test_the_innermost_cause_with_a_text_is_reported() -> None:
    end, error = MagicMock(), Exception("a stack")
    end.getMessage.return_value = end.getCause.return_value = None
    error.java_exception = MagicMock()
    error.java_exception.getMessage.return_value = "An I/O error occurred."
    error.java_exception.getCause.return_value = end
    assert (
        str(server_error(error, "The server refused"))
        == "The server refused: An I/O error occurred."
    )
    assert str(server_error(Exception("a"), "The server refused")) == "The server refused: a"


def test_differences_of_a_table_are_named() -> None:
    wanted = {"id": "bigint", "name": "varchar(30)"}
    same = {"row_key": "binary(32)", "id": "bigint(20)", "name": "varchar(30)"}
    assert mysql.differences(wanted, same) == []
    assert mysql.differences(wanted, {"id": "int(11)", "more": "int"}) == [
        "column row_key is missing",
        "column name is missing",
        "column more is not the model's",
        "column id is int(11), not bigint",
    ]
    same = {
        "row_key": "bytea",
        "id": "numeric(20,0)",
        "name": "character varying(30)",
        "at": "timestamp with time zone",
    }
    types = {"id": "numeric(20,0)", "name": "varchar(30)", "at": "timestamptz"}
    assert postgres.differences(types, same) == []
    assert postgres.differences({"id": "bigint"}, {"row_key": "bytea", "id": "integer"}) == [
        "column id is integer, not bigint"
    ]
