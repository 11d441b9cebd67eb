"""The counts to date that benchmarks.bench_peers has made, by Flink SQL; run by an interpreter that
has apache-flink, which the project doesn't require.

    python -m benchmarks.peer_flink LANDING FOLDER

The files are a changelog (connector filesystem, format maxwell-json), and orders and amounts are
counted per user and status by a GROUP BY over it. Prints a line of JSON: seconds of the job, and
the version.

The counts are written to FOLDER as a changelog themselves (maxwell-json again): of the file
formats that Flink brings along only those for changelogs take a result that changes. Mini-batches
keep it small: about one change a group and bundle, where without them each change of an order would
write two.

What the job does less than the others: it decodes only the three columns that the count needs, and
writes no table of the changes; it doesn't look at database and table names (the log has one
table); it counts to date, not by day: a withdrawn row is dated by its own update_time there. More:
it would go on with whatever comes next, and hand on each change of a count.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

COLUMNS = """
    order_id decimal(20, 0), user_id decimal(20, 0), product_type string, plat_name string,
    ref_id bigint, amount decimal(12, 2), order_status bigint, biz_status string, `comment` string,
    create_time timestamp(3), update_time timestamp(3), dispatch_time timestamp(3),
    decision_time timestamp(3), finish_time timestamp(0)
"""


def main(landing: Path, folder: Path) -> None:
    """Run the job and print what it took."""
    import pyflink.version
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "5 s",
        "table.exec.mini-batch.size": "100000",
    }.items():
        tables.get_config().set(key, value)
    start = time.perf_counter()
    tables.execute_sql(
        f"create table changes ({COLUMNS}) with ('connector' = 'filesystem', "
        f"'path' = 'file://{landing.resolve()}/topics/maxwell', 'format' = 'maxwell-json', "
        "'maxwell-json.timestamp-format.standard' = 'SQL')"
    )
    tables.execute_sql(
        "create table counts (user_id decimal(20, 0), biz_status string, order_count bigint, "
        "amount_sum decimal(38, 2)) with ('connector' = 'filesystem', "
        f"'path' = 'file://{folder.resolve()}', 'format' = 'maxwell-json')"
    )
    tables.execute_sql(
        "insert into counts select user_id, biz_status, count(*), sum(amount) from changes "
        "group by user_id, biz_status"
    ).wait()
    work = time.perf_counter() - start
    print(json.dumps({"work": work, "version": pyflink.version.__version__}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
