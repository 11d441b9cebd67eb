"""Places of tables and views are read from the catalog's own file."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from dbt.adapters.sparksession.iceberg.catalog_file import CatalogFile, metadata_at
from dbt.adapters.sparksession.iceberg.column_types import columns_of
from dbt.adapters.sparksession.iceberg.history import History

from tests.support.dbt_project import DbtProject

SETTINGS = {"spark.sql.catalog.lake.type": "jdbc"}
TABLE = {
    "table-uuid": "u",
    "location": "/lake/dw/a",
    "last-updated-ms": 5,
    "current-snapshot-id": 2,
    "current-schema-id": 1,
    "schemas": [
        {"schema-id": 0, "fields": [{"name": "old"}]},
        {"schema-id": 1, "fields": [{"name": "id"}, {"name": "Name"}]},
    ],
    "refs": {"main": {"snapshot-id": 2}},
    "snapshots": [
        {"snapshot-id": 1, "summary": {"operation": "append"}, "manifest-list": "/one"},
        {
            "snapshot-id": 2,
            "parent-snapshot-id": 1,
            "summary": {"operation": "overwrite", "added-records": "3"},
            "manifest-list": "/two",
        },
    ],
}

KINDS = (
    "a int, b bigint, c decimal(20, 0), d decimal(12,2), e string, f boolean, g date, "
    "h timestamp, i timestamp_ntz, j binary, k float, l double, m array<string>, "
    "n map<string, decimal(3, 1)>, o struct<x: int, `y z`: array<struct<u: bigint>>>, "
    "p struct<x: int, y: array<struct<u: bigint, v: map<int, timestamp>>>>, `Q r` int"
)


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogFile:
    path = tmp_path / "a catalog?.db"
    with sqlite3.connect(path) as opened:
        opened.execute(
            "create table iceberg_tables (catalog_name text, table_namespace text, "
            "table_name text, metadata_location text, iceberg_type text)"
        )
        opened.executemany(
            "insert into iceberg_tables values (?, ?, ?, ?, ?)",
            [
                ("lake", "dw", "a", "/lake/a.json", "TABLE"),
                ("lake", "dw", "old", "/lake/old.json", None),
                ("lake", "dw", "v", "/lake/v.json", "VIEW"),
                ("other", "dw", "a", "/other/a.json", "TABLE"),
            ],
        )
    return CatalogFile(str(path), "lake")


def test_a_table_and_a_view_are_found_by_their_kind_in_their_catalog(catalog: CatalogFile) -> None:
    assert catalog.location_of("dw.a") == "/lake/a.json"
    assert catalog.location_of("dw.old") == "/lake/old.json"
    assert catalog.location_of("dw.v") is None
    assert catalog.location_of("dw.v", "VIEW") == "/lake/v.json"
    assert catalog.location_of("dw.none") is None
    assert [name for name, _ in catalog.places()] == ["dw.a", "dw.old", "dw.v"]


@pytest.mark.parametrize("name", ["a", "lake.dw.a", "dw.`a b`"])
def test_a_name_that_is_none_of_schema_and_table_is_left_to_spark(
    catalog: CatalogFile, name: str
) -> None:
    with pytest.raises(LookupError):
        catalog.location_of(name)


def test_a_catalog_that_is_gone_or_locked_is_left_to_spark(
    catalog: CatalogFile, tmp_path: Path
) -> None:
    with pytest.raises(LookupError):
        CatalogFile(str(tmp_path / "none.db"), "lake").location_of("dw.a")
    assert not (tmp_path / "none.db").exists()
    writer = sqlite3.connect(catalog.path, isolation_level=None)
    writer.execute("begin exclusive")
    with pytest.raises(LookupError):
        catalog.location_of("dw.a")
    writer.execute("rollback")
    assert catalog.location_of("dw.a") == "/lake/a.json"


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"spark.sql.catalog.lake.uri": "jdbc:sqlite:/w/c.db?busy_timeout=3"}, "/w/c.db"),
        ({"spark.sql.catalog.lake.uri": "jdbc:postgresql://host/c"}, None),
        ({"spark.sql.catalog.lake.type": "rest"}, None),
        ({}, None),
    ],
    ids=["sqlite", "another_database", "a_server", "no_uri"],
)
def test_only_a_file_of_sqlite_is_read(settings: dict[str, str], path: str | None) -> None:
    found = CatalogFile.of_settings(SETTINGS | settings, "lake")
    assert (found.path if found else None) == path


@pytest.mark.parametrize("packed", [False, True])
def test_a_history_is_read_from_a_metadata_file(tmp_path: Path, packed: bool) -> None:
    content = json.dumps(TABLE).encode()
    place = tmp_path / "v1.metadata.json"
    place.write_bytes(gzip.compress(content) if packed else content)
    history = History.of_metadata(metadata_at(f"file:{place}"), str(place))
    assert (history.head, history.uuid) == (2, "u")
    assert history.snapshots[2].parent == 1
    assert history.snapshots[2].count("added-records") == 3
    assert history.files is not None
    assert history.files.manifest_list == "/two"
    assert history.files.columns == ("id", "Name")
    assert history.files.metadata == str(place)


def test_columns_are_those_that_spark_describes(make_project: Callable[..., DbtProject]) -> None:
    project = make_project({})
    file = CatalogFile(str(project.warehouse / "catalog.db"), "lake")
    project.query("create namespace if not exists dw")

    def on_disk(name: str, kind: str) -> list[tuple[str, str]]:
        return columns_of(metadata_at(file.location_of(f"dw.{name}", kind)))

    def described(name: str) -> list[tuple[str, str]]:
        rows = project.query(f"describe table dw.{name}")
        names = [row["col_name"] for row in rows]
        end = next((at for at, name in enumerate(names) if not name or name[0] == "#"), len(rows))
        return [(row["col_name"], row["data_type"]) for row in rows[:end]]

    project.query(f"create table dw.wide ({KINDS}) using iceberg partitioned by (g)")
    with pytest.raises(LookupError):
        on_disk("wide", "TABLE")  # Spark may quote the name of a field
    project.query("alter table dw.wide drop column o")
    project.query("alter table dw.wide add column later int first")
    assert on_disk("wide", "TABLE") == described("wide")
    project.query("create or replace view dw.seen as select *, 1L as one from dw.wide")
    assert on_disk("seen", "VIEW") == described("seen")
    assert len(on_disk("seen", "VIEW")) == 18
