"""The same as peer_upserts, into a folded model that dbt builds. A child of bench_upserts.

    python -m benchmarks.folded_upserts <folder> --input <folder> --keys 1000000

A batch's time is dbt's own of the model: all its statements, without dbt's own start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks.common import ROOT, session
from benchmarks.peer_upserts import SETTINGS, inputs, measured

PROJECT = """
name: upserts
version: "1.0"
config-version: 2
profile: binlog_warehouse
flags: {send_anonymous_usage_stats: false}
"""
MODEL = """
{{ config(
    materialized='folded',
    unique_key='id',
    fold={'sequence': ['seq'], 'tier_runs': env_var('TIER_RUNS') | int},
) }}
select * from parquet.`{{ var('batch') }}`
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--held", action="store_true", help="the table holds all keys before")
    parser.add_argument("--tier-runs", type=int, default=8, help="runs of one size that are merged")
    given = parser.parse_args()
    project = given.folder / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text(PROJECT)
    (project / "models" / "upserts.sql").write_text(MODEL)
    os.environ |= {
        "WAREHOUSE": str(given.folder / "warehouse"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
        "DBT_TARGET_PATH": str(given.folder / "target"),
        "DBT_LOG_PATH": str(given.folder / "logs"),
        "JARS_DIR": os.environ.get("JARS_DIR", str(ROOT / ".jars")),
        "SPARK_MASTER": SETTINGS["spark.master"],
        "SPARK_DRIVER_MEMORY": SETTINGS["spark.driver.memory"],
        "TIER_RUNS": str(given.tier_runs),
    }
    from dbt.adapters.sparksession.keyed.tables import GROUPED_READS
    from dbt.cli.main import dbtRunner

    runner = dbtRunner()

    def run(path: Path, merge: bool = False) -> float:
        variables = json.dumps({"batch": str(path), "merge_runs": merge})
        done = runner.invoke(["--quiet", "run", "--project-dir", str(project), "--vars", variables])
        if not done.success:
            sys.exit(f"dbt run failed: {done.exception or done.result.results[0].message}")
        seconds = done.result.results[0].execution_time
        print(f"folded: {path.name}, {seconds:.1f} s", file=sys.stderr)
        return seconds

    paths = inputs(given.input, given.held)
    seconds = [run(path) for path in paths]
    spark = session(given.folder / "warehouse")
    for key, value in GROUPED_READS.items():
        spark.conf.set(key, value)
    reported = measured(
        spark, "dw.upserts", given.keys, seconds, lambda: run(paths[-1], merge=True)
    )
    print(json.dumps(reported))


if __name__ == "__main__":
    main()
