"""Tests of the benchmark of histories: what it reads out of an event log, and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.bench_history import FILE_BYTES, FILES, READ_BYTES, SHOWN, logged_reads, report

SQL = "org.apache.spark.sql.execution.ui."
SIZE = "total data file size (bytes)"


def plan(name: str, *metrics: tuple[str, int], children: Any = ()) -> dict[str, Any]:
    reported = [{"name": metric, "accumulatorId": key} for metric, key in metrics]
    return {"nodeName": name, "metrics": reported, "children": list(children)}


def execution(number: int, description: str, sql_plan: dict[str, Any]) -> dict[str, Any]:
    kind = SQL + "SparkListenerSQLExecutionStart"
    reported = {"executionId": number, "description": description, "sparkPlanInfo": sql_plan}
    return {"Event": kind} | reported


def test_reads_are_those_of_the_scans_of_the_wanted_queries(tmp_path: Path) -> None:
    """What is kept between queries is no read of a table."""
    scan = plan("BatchScan lake.dw.t", ("number of result data files", 1), (SIZE, 2))
    other = plan("BatchScan lake.dw.t", ("number of result data files", 4))
    events = [
        execution(0, "point read", plan("AppendData", (SIZE, 3), children=[scan])),
        execution(1, "another", other),
        *(
            {
                "Event": SQL + "SparkListenerDriverAccumUpdates",
                "executionId": number,
                "accumUpdates": updates,
            }
            for number, updates in ((0, [[1, 2], [2, 500], [3, 9000]]), (1, [[4, 7]]))
        ),
        *(
            {
                "Event": "SparkListenerJobStart",
                "Stage IDs": stages,
                "Stage Infos": [
                    {
                        "Stage ID": stage,
                        "RDD Info": [{"Name": "other"}, {"Name": source}],
                    }
                    for stage, source in zip(stages, sources, strict=True)
                ],
                "Properties": {"spark.sql.execution.id": str(number)},
            }
            for number, stages, sources in (
                (0, [0, 2], ["DataSourceRDD", "LocalCheckpointRDD"]),
                (1, [1], ["FileScanRDD"]),
            )
        ),
        *(
            {
                "Event": "SparkListenerTaskEnd",
                "Stage ID": stage,
                "Task Metrics": {"Input Metrics": {"Bytes Read": size}},
            }
            for stage, size in ((0, 40), (0, 2), (1, 1000), (2, 30))
        ),
    ]
    text = "".join(json.dumps(event) + "\n" for event in events)
    # a process that is ended leaves half a line
    (tmp_path / "log").write_text(text + '{"Event": "Spark')

    assert logged_reads(tmp_path, "point read") == {FILES: 2, FILE_BYTES: 500, READ_BYTES: 42}
    assert logged_reads(tmp_path) == {FILES: 9, FILE_BYTES: 500, READ_BYTES: 1042}


def test_the_growth_is_of_the_medians() -> None:
    def measured(*walls: float) -> dict[str, Any]:
        reads = {FILES: 2, FILE_BYTES: 3_000_000, READ_BYTES: 1_000_000}
        runs = [
            {"wall": wall, "peak": 2.0} | dict.fromkeys(SHOWN, wall / 10) | reads for wall in walls
        ]
        point = {"table files": 4, "table bytes": 8_000_000} | reads
        return {"runs": runs, "refresh": {"wall": 60.0} | reads, "point": point}

    seconds, reads = report({1: measured(20, 90, 20), 100: measured(22, 22, 5)}, 1000).split("\n\n")

    assert seconds.splitlines()[2].startswith("| 1,000 | 20 | 2 |")
    assert seconds.splitlines()[-1].startswith("| 100 x the history | 1.10 | 1.10 |")
    assert reads.splitlines()[-1] == "| 100 x the history |" + " 1.00 |" * 10
