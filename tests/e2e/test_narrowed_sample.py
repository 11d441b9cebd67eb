"""A second load of the sample, as if its tables were large: which data tests read all rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tests.support.narrowed import record_queries
from tests.support.warehouse import Warehouse

# they read all rows of what is small whatever came, or the rows of the newest commit
SMALL = {
    "a_break_is_one_of_six_kinds",
    "a_change_breaks_the_chain_of_an_order_once",
    "every_column_of_a_declared_table_is_taken",
    "the_chain_of_the_orders_is_unbroken",
}


def land_part(warehouse: Warehouse, *, first: bool) -> None:
    """Land the first three quarters of each file of the sample, or the rest."""
    for path in (REPO / "landing" / "topics").rglob("*.jsonl.gz"):
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        cut = len(lines) * 3 // 4
        topic, partition, offset = path.name.split(".jsonl")[0].split("+")
        begin = int(offset) + (0 if first else cut)
        folder = warehouse.landing / path.parent.relative_to(REPO / "landing")
        folder.mkdir(parents=True, exist_ok=True)
        rows = lines[:cut] if first else lines[cut:]
        (folder / f"{topic}+{partition}+{begin:010d}.jsonl").write_bytes(b"".join(rows))


@pytest.mark.soak
def test_all_but_the_tests_of_the_tag_read_what_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(tmp_path)
    land_part(warehouse, first=True)
    warehouse.run("build", "--exclude-resource-type", "unit_test")
    land_part(warehouse, first=False)
    queries = record_queries(monkeypatch)
    only = ("--exclude-resource-type", "unit_test", "--selector", "large_daily")
    built = warehouse.run("build", *only)
    assert "Published as version 2" in built.log
    assert queries.keys() - queries.narrowed == SMALL
    assert len(queries.narrowed) > 100
    warehouse.run("test", "--select", "tag:whole_table")
