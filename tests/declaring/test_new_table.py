"""`make new-table`: the declaration that it writes is the log's own, and a project takes it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.adapters.sparksession.session import own_session

from python_udfs.ingestion.tables.types import source_type
from tests.support.dbt_project import REPO, DbtProject
from tools.declaring.block import UnusableNameError, entry, spark_types
from tools.declaring.log import TableInLog, UnknownTableError, of_definitions, table_in_log
from tools.declaring.types import ColumnType, ColumnValues, of_values, parsed_type, widest
from tools.new_table import NewTableError, declared_sources, declaring_files


def table(database: str, name: str, columns: Mapping[str, str], **more: Any) -> TableInLog:
    kinds = {column: parsed_type(kind) for column, kind in columns.items()}
    settings: dict[str, Any] = {
        "log_format": "maxwell",
        "topics": ("maxwell",),
        "messages": 1,
        "primary_key": ("id",),
    }
    return TableInLog(database, name, columns=kinds, **(settings | more))


# ---- types -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["int", "bigint"], "bigint"),
        (["int unsigned", "int"], "bigint"),
        (["bigint unsigned", "bigint"], "decimal(20,0)"),
        (["bigint unsigned", "decimal(12,4)"], "decimal(24,4)"),
        (["decimal(12,2)", "decimal(8,4)"], "decimal(14,4)"),
        (["varchar(20)", "varchar(60)"], "varchar(60)"),
        (["varchar(20)", "text"], "text"),
        (["enum('a','b')", "varchar(9)"], "text"),
        (["float", "double"], "double"),
        (["datetime", "datetime(6)"], "datetime(6)"),
        (["date", "datetime"], "text"),
        (["int", "varchar(9)"], "text"),
        (["year", "year"], "year"),
        (["blob", "varbinary(9)"], "blob"),
    ],
)
def test_the_widest_type_holds_the_values_of_all(kinds: list[str], expected: str) -> None:
    found = widest([parsed_type(kind) for kind in kinds])
    assert found.declared() == expected
    assert found.declared() == widest([parsed_type(kind) for kind in reversed(kinds)]).declared()
    source_type(found.declared())  # a declaration takes it


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (ColumnValues(frozenset()), "text"),
        (ColumnValues(frozenset({"integer"}), whole=18, is_negative=True), "bigint"),
        (ColumnValues(frozenset({"integer"}), whole=20), "bigint unsigned"),
        (ColumnValues(frozenset({"integer"}), whole=20, is_negative=True), "decimal(38,0)"),
        (ColumnValues(frozenset({"integer", "decimal"}), whole=3, scale=4), "decimal(38,4)"),
        (ColumnValues(frozenset({"text"}), moments=frozenset({"date"})), "date"),
        (
            ColumnValues(frozenset({"text"}), moments=frozenset({"datetime"}), moment_scale=3),
            "datetime(3)",
        ),
        (ColumnValues(frozenset({"text", "integer"}), whole=1), "text"),
        (ColumnValues(frozenset({"object"})), "text"),
    ],
)
def test_a_type_by_values_is_as_wide_as_they_leave_open(
    values: ColumnValues, expected: str
) -> None:
    found = of_values(values)
    assert found.declared() == expected
    assert found.note
    source_type(found.declared())


def test_definitions_of_the_log_give_types_and_key() -> None:
    columns = [
        {"type": "bigint", "name": "id", "signed": False},
        {"type": "decimal", "name": "price"},
        {"type": "decimal", "name": "tax"},
        {"type": "datetime", "name": "at", "column-length": 3},
    ]
    older = {"columns": [{"type": "int", "name": "gone", "signed": True}, *columns[1:]]}
    newer = {"columns": columns, "primary-key": ["id"]}
    statements = [
        "create table t (`price` decimal(10,2))",
        "alter table t modify price decimal(12, 4)",
    ]
    found, key = of_definitions([older, newer], statements)
    assert {name: kind.declared() for name, kind in found.items()} == {
        "id": "bigint unsigned",
        "price": "decimal(12,4)",
        "tax": "decimal(38,0)",
        "at": "datetime(3)",
        "gone": "int",
    }
    assert found["tax"].note == "the log doesn't say how many digits it has"
    assert key == ("id",)


# ---- files -----------------------------------------------------------------------------------


def models_of(file: Path) -> list[dict[str, Any]]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))["models"]


def test_the_columns_of_a_block_are_those_of_every_typed_model() -> None:
    """As they stand in the project, each with its type and its doc block."""
    compared = 0
    for file in sorted((REPO / "models" / "ods").glob("*/_*__models.yml")):
        for model in models_of(file):
            source = model["config"]["meta"]["source"]
            if source.get("format") not in (None, "maxwell", "{{ var('shop_format') }}"):
                continue
            found = table(source["database"], source["table"], source["columns"])
            expected = {
                column["name"]: "".join(column["data_type"].split()) for column in model["columns"]
            }
            assert spark_types(found) == expected, model["name"]
            (written,) = yaml.safe_load(entry(found, model["name"], {}))
            docs = {column["name"]: column["description"] for column in model["columns"]}
            for column in written["columns"][len(source["columns"]) :]:
                assert column["description"] == docs[column["name"]], column["name"]
            compared += 1
    assert compared == 8


def test_a_table_of_a_known_database_is_declared_as_its_others(tmp_path: Path) -> None:
    for folder in ("models/ods", "macros/quality"):
        shutil.copytree(REPO / folder, tmp_path / folder)
    written = declaring_files(
        tmp_path, table("shop", "pp_new", {"id": "int", "price": "decimal(12,4)"})
    )
    names = [str(path.relative_to(tmp_path)) for path in written]
    assert names == [
        "models/ods/shop/_shop__models.yml",
        "models/ods/shop/ods_shop__pp_new.py",
        "macros/quality/typed_models.sql",
    ]
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    block = models_of(tmp_path / names[0])[-1]
    assert block["config"]["meta"]["source"] == {
        "database": "shop",
        "table": "pp_new",
        "topic": "{{ var('shop_topics') | as_native }}",
        "format": "{{ var('shop_format') }}",
        "log_resets": "{{ var('shop_log_resets') | as_native }}",
        "primary_key": ["id"],
        "columns": {"id": "int", "price": "decimal(12,4)"},
    }
    assert "ref('ods_shop__pp_new')" in (tmp_path / names[2]).read_text(encoding="utf-8")
    with pytest.raises(NewTableError, match=r"shop.pp_new is declared already: ods_shop__pp_new"):
        declaring_files(tmp_path, table("shop", "pp_new", {"id": "int"}))
    with pytest.raises(NewTableError, match="There is a model ods_shop__pp_new already"):
        declaring_files(tmp_path, table("shop", "pp-new", {"id": "int"}))


def test_a_table_of_another_database_has_a_folder_of_its_own(tmp_path: Path) -> None:
    shutil.copytree(REPO / "macros" / "quality", tmp_path / "macros" / "quality")
    written = declaring_files(tmp_path, table("crm", "lead", {"id": "int"}, primary_key=None))
    text = next(iter(written.values()))
    (block,) = yaml.safe_load(text)["models"]
    assert block["config"]["meta"]["source"]["topic"] == ["maxwell"]
    assert block["config"]["meta"]["source"]["primary_key"] == []
    assert "# the log doesn't name the key" in text


@pytest.mark.parametrize("name", ["{{ env_var('X') }}", "a\nb", "{% set a %}", "a: b}"])
def test_a_name_of_the_log_becomes_no_jinja(name: str) -> None:
    with pytest.raises(UnusableNameError, match="is no name that dbt's YAML can have"):
        entry(table("shop", "x", {name: "int"}), "ods_shop__x", {})
    with pytest.raises(UnusableNameError, match="is no name that dbt's YAML can have"):
        entry(table("shop", name, {"id": "int"}), "ods_shop__x", {})


def test_every_typed_model_is_found() -> None:
    assert len(list(declared_sources(REPO))) == 10


# ---- the log ---------------------------------------------------------------------------------


def message(number: int, name: str, op: str, payload: Any, log_format: str = "maxwell") -> str:
    text = json.dumps(json.dumps(payload, ensure_ascii=False))[1:-1].replace("'", "\\'")
    return (
        f"('t{number % 2}', {number}, '{log_format}', 'shop', '{name}', '{op}', "
        f"timestamp '2026-03-01 00:00:00', 1, {number}, '{text}', cast(null as string))"
    )


@pytest.fixture(scope="module")
def log(make_project: Callable[..., DbtProject]) -> Any:
    """A session, with a log of a few tables in dw.ods_binlog."""
    project = make_project({"models/a.sql": "select 1 as id"})
    definition = {
        "columns": [
            {"type": "int", "name": "id", "signed": True},
            {"type": "decimal", "name": "price"},
        ],
        "primary-key": ["id"],
    }
    like = {"type": "table-create", "def": definition, "sql": "create table a like b"}
    values = {"n": 12, "d": -1.250, "day": "2026-03-01", "at": "2026-03-01 10:00:00.123"}
    more = {"n": 5, "d": 3, "day": None, "at": "2026-03-02 10:00:00", "o": {"x": 1}, "t": "a"}
    canal = {"mysqlType": {"id": "bigint unsigned", "s": "varchar(9)"}, "pkNames": ["id"]}
    rows = [
        message(1, "a", "ddl", like),
        message(2, "a", "insert", {"data": {"id": 1, "price": 45.0590}}),
        message(3, "a", "insert", {"data": {"id": 2, "price": 112.1387}}),
        message(4, "b", "insert", {"data": values}),
        message(5, "b", "update", {"data": more, "old": {"n": 123456789012345678901}}),
        message(6, "c", "insert", canal | {"data": [{"id": "1", "s": "x"}]}, "canal"),
        message(7, "m", "insert", {"fullDocument": {}}, "mongodb"),
    ]
    project.query("create namespace if not exists dw")
    project.query(
        f"create table dw.ods_binlog using iceberg as select * from values {', '.join(rows)} as "
        "given(topic, message_offset, format, database_name, table_name, op, event_time, "
        "binlog_file_number, binlog_position, payload, reject_reason)"
    )
    return own_session(project.credentials()).session


def declared(found: TableInLog) -> dict[str, str]:
    return {name: kind.declared() for name, kind in found.columns.items()}


def test_types_come_from_definitions_and_digits_from_the_values(log: Any) -> None:
    found = table_in_log(log, "dw.ods_binlog", "shop", "a")
    assert declared(found) == {"id": "int", "price": "decimal(38,4)"}
    assert (found.primary_key, found.messages, found.topics) == (("id",), 2, ("t0", "t1"))


def test_types_come_from_the_values_where_nothing_defines_them(log: Any) -> None:
    found = table_in_log(log, "dw.ods_binlog", "shop", "b")
    assert declared(found) == {
        "n": "decimal(38,0)",
        "d": "decimal(38,2)",
        "day": "date",
        "at": "datetime(3)",
        "o": "text",
        "t": "text",
    }
    assert found.primary_key is None


def test_types_come_from_canals_own_words(log: Any) -> None:
    found = table_in_log(log, "dw.ods_binlog", "shop", "c")
    assert declared(found) == {"id": "bigint unsigned", "s": "varchar(9)"}
    assert found.primary_key == ("id",)


def test_a_table_that_the_log_lacks_is_refused_with_those_it_has(log: Any) -> None:
    with pytest.raises(UnknownTableError, match=r"no change of shop.x. It has changes of shop.a,"):
        table_in_log(log, "dw.ods_binlog", "shop", "x")
    with pytest.raises(UnknownTableError, match="Messages of mongodb have no types"):
        table_in_log(log, "dw.ods_binlog", "shop", "m")
    with pytest.raises(UnknownTableError):
        table_in_log(log, "dw.ods_binlog", "shop' or '1' = '1", "a")


def test_a_column_type_without_digits_is_as_wide_as_a_decimal_can_be() -> None:
    assert ColumnType("decimal").declared() == "decimal(38,0)"
