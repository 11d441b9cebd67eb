"""Tests of the benchmark of upserts: its table."""

from __future__ import annotations

from benchmarks.bench_upserts import table

READS = {"point": 0.5, "range": 1.0, "full": 2.0}


def test_the_table_has_ratios_to_the_folded_model() -> None:
    folded = {"seconds": [4.0, 1.0, 1.0], "open": READS, "compaction": 3.0, "compacted": READS}
    merged = {"seconds": [8.0, 2.0, 5.0], "open": READS | {"point": 0.25}}

    _, _, of_folded, of_merged = table({"folded": folded, "iceberg_cow": merged}).splitlines()

    assert of_folded.split(" | ")[1:4] == ["6.00", "1.00", "2.00"]
    cells = of_merged.split(" | ")
    assert cells[1:5] == ["15.00 (2.50x)", "5.00 (5.00x)", "5.00 (2.50x)", "0.25 (0.50x)"]
    assert cells[7:] == ["-", "-", "-", "- |"]
