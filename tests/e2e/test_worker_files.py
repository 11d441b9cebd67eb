"""Tables whose files the workers write: the same tables as those that Spark writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.warehouse import Warehouse, lines_of, sample_days

TABLES = ("ods_binlog", "ods_shop__order_info", "ods_shop__coupon", "ods_shop__user_account")
OF_FILES = (
    *("dbt.input", "partitions.", "added-data-files", "total-data"),
    # when files came, and where they lie
    *("landing.listed", "landing.sizes", "landing.folder", "dbt.definition"),
)
OF_RUN = ("warehouse.open-refusals",)  # names snapshots
# how large files are, and what states when and by whom they were written
BY_WORKERS = re.compile(r"\d{5}-\d+-[0-9a-f]{32}-\d{5}\.parquet")
OF_WRITER = (
    *("added-files-size", "removed-files-size", "total-files-size", "spark.app.id", "app-id"),
    *("dbt.run", "changed-partition-count"),
    # of few new messages only, which workers are seldom asked for
    "landing.arrived_tables",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, Warehouse]]:
    """A warehouse whose rows workers decode and write, and one of Spark alone."""
    yield tuple(
        Warehouse(tmp_path_factory.mktemp(name), WORKER_DECODING_FROM=least)
        for name, least in (("workers", "0"), ("spark", "never"))
    )


def build(warehouse: Warehouse, *args: str) -> None:
    warehouse.run("run", "--select", *TABLES, *args)


def metadata(warehouse: Warehouse, table: str) -> dict[str, Any]:
    """A table's newest metadata file, see Iceberg's table spec."""
    rows = warehouse.query(f"select file from dw.{table}.metadata_log_entries order by timestamp")
    return json.loads(Path(rows[-1]["file"].removeprefix("file:")).read_text(encoding="utf-8"))


def layout(warehouse: Warehouse, table: str) -> dict[str, Any]:
    """What a table is, apart from its rows."""
    kept = ("format-version", "last-column-id", "schemas", "partition-specs", "sort-orders")
    found = metadata(warehouse, table)
    properties = {key: text for key, text in found["properties"].items() if key not in OF_RUN}
    return {key: found[key] for key in kept} | {"properties": properties}


def summaries(warehouse: Warehouse, table: str) -> list[dict[str, str]]:
    """What each commit of a table states, apart from what its writer is."""
    return [
        {
            key: value
            for key, value in sorted(json.loads(json.dumps(commit["summary"])).items())
            if key not in OF_WRITER and not key.startswith(OF_FILES)
        }
        for commit in warehouse.snapshots(table)
    ]


def partition_rows(warehouse: Warehouse, table: str) -> list[tuple[Any, ...]]:
    """Partition, rows, and the least and greatest position of its files' metrics."""
    return sorted(
        (row["place"], row["rows"], row["low"], row["high"], row["nulls"])
        for row in warehouse.query(
            "select to_json(partition) as place, sum(record_count) as rows, "
            "min(readable_metrics.binlog_position.lower_bound) as low, "
            "max(readable_metrics.binlog_position.upper_bound) as high, "
            "sum(readable_metrics.reject_reason.null_value_count) as nulls "
            f"from dw.{table}.files group by 1"
        )
    )


def has_files_of_workers(warehouse: Warehouse, table: str) -> bool:
    """Whether workers wrote files of a table; Spark's own have other names."""
    paths = warehouse.column(f"select file_path from dw.{table}.files")
    return any(BY_WORKERS.fullmatch(Path(path).name) for path in paths)


def assert_same(both: tuple[Warehouse, Warehouse]) -> None:
    workers, spark = both
    for table in TABLES:
        assert has_files_of_workers(workers, table) and not has_files_of_workers(spark, table)
        assert workers.rows(table) == spark.rows(table), table
        assert layout(workers, table) == layout(spark, table), table
        assert summaries(workers, table) == summaries(spark, table), table
        assert partition_rows(workers, table) == partition_rows(spark, table), table


@pytest.mark.in_turn
def test_first_builds_appends_and_rebuilds_are_the_same(both: tuple[Warehouse, Warehouse]) -> None:
    steps = sample_days()
    for warehouse in both:
        for _, files in steps[:2]:
            warehouse.land(*files)
        build(warehouse)
    assert_same(both)
    for warehouse in both:
        for _, files in steps[2:]:
            warehouse.land(*files)
        build(warehouse)
    assert_same(both)
    # a repeated message, a refused message, and messages that Spark alone decodes
    lines = lines_of(steps[-1][1][-1])[-50:]
    order = next(json.loads(line) for line in lines if b'"order_info"' in line)
    wrong = dict(order, data=order["data"] | {"order_id": "x"}, xoffset=9_999)
    odd = json.dumps(dict(order, xoffset=9_998), indent=1).replace("\n", " ")
    for warehouse in both:
        given = [*lines, json.dumps(wrong).encode(), odd.encode()]
        warehouse.land_lines(given, first_offset=900_000)
        build(warehouse)
    assert_same(both)
    for warehouse in both:
        build(warehouse, "--full-refresh")
    assert_same(both)
