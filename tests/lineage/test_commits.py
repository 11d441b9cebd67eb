"""The newest commits of all tables, of Iceberg's metadata as it stands in files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tools.lineage.commits import COMMITS, RUNS, commit_of, newest


def snapshot(number: int, run: str, **summary: str) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "timestamp-ms": 1_772_000_000_000 + number,
        "summary": {"operation": "append", "dbt.run": run, **summary},
    }


def test_a_commit_has_its_rows_its_time_and_the_snapshots_that_it_read() -> None:
    properties = {
        "added-records": "7",
        "dbt.model": "model.shop.orders",
        "dbt.input.dw.log": str(2**60 + 1),
    }
    assert commit_of("dw.orders", snapshot(123, "a", **properties)) == {
        "run_id": "a",
        "table_name": "dw.orders",
        "model_id": "model.shop.orders",
        "snapshot_id": 123,
        "committed_at": datetime(2026, 2, 25, 6, 13, 20, 123000, UTC),
        "rows_added": 7,
        "rows_removed": 0,
        "inputs": [{"input_table": "dw.log", "input_snapshot_id": 2**60 + 1}],
    }


def test_the_newest_commits_of_the_newest_runs_are_kept_in_their_order() -> None:
    of_run = {f"run-{number:03}": number for number in range(RUNS + 5)}
    commits = [commit_of("dw.a", snapshot(number, run)) for run, number in of_run.items()]
    kept = newest(reversed(commits))
    assert [commit["snapshot_id"] for commit in kept] == list(range(5, RUNS + 5))
    # an old run that goes on is a new one
    kept = newest([*commits, commit_of("dw.b", snapshot(99, "run-000"))])
    assert [commit["snapshot_id"] for commit in kept] == [0, *range(6, RUNS + 5), 99]
    many = [commit_of("dw.a", snapshot(number, "run")) for number in range(COMMITS + 3)]
    assert [commit["snapshot_id"] for commit in newest(many)] == list(range(3, COMMITS + 3))
