"""What benchmarks.bench_peers has counted, done by DuckDB in one process; run by an interpreter
that has duckdb, which the project doesn't require.

    python -m benchmarks.peer_duckdb LANDING DATABASE DAYS TO_DATE

Writes the tables `changes` (one row a change, both images typed) and `counts` (net change per
cut_date, user and status) into the file DATABASE, and prints a line of JSON: seconds of that, the
version, and the answers to DAYS and TO_DATE, queries of {table}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

COLUMNS = {
    "order_id": "decimal(20, 0)",
    "user_id": "decimal(20, 0)",
    "product_type": "varchar",
    "plat_name": "varchar",
    "ref_id": "bigint",
    "amount": "decimal(12, 2)",
    "order_status": "bigint",
    "biz_status": "varchar",
    "comment": "varchar",
    "create_time": "timestamp",
    "update_time": "timestamp",
    "dispatch_time": "timestamp",
    "decision_time": "timestamp",
    "finish_time": "timestamp",
}
MESSAGE = {
    "database": "varchar",
    "table": "varchar",
    "type": "varchar",
    "ts": "bigint",
    "position": "varchar",
    "xoffset": "bigint",
    "data": f"struct({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})",
    "old": "json",
}
# a column that `old` lacks is unchanged, one that it has as null was null
BEFORE = ", ".join(
    f"{name} := if(list_contains(old_names, '{name}'), old_row.{name}, data.{name})"
    for name in COLUMNS
)
CHANGES = """
    create table changes as
    with parsed as (
        select *,
            json_keys(old) as old_names,
            from_json(old, '{shape}') as old_row,
            cast(make_timestamp(ts * 1000000) + interval 8 hours as date) as event_day
        from read_json(
            '{files}', format = 'newline_delimited', columns = {columns}
        )
        where database = 'shop' and "table" = 'order_info'
    )
    select
        unnest(data),
        case when type <> 'insert' then struct_pack({before}) end as "before",
        type as op_type,
        position,
        case when type = 'delete' then event_day
            else coalesce(cast(data.update_time as date), event_day) end as cut_date
    from parsed
"""
COUNTS = """
    create table counts as
    select cut_date,
        if(sign = 1, user_id, "before".user_id) as user_id,
        if(sign = 1, biz_status, "before".biz_status) as biz_status,
        sum(sign) as order_count_change,
        sum(sign * if(sign = 1, amount, "before".amount)) as amount_sum_change
    from (
        select *, unnest(case op_type when 'insert' then [1] when 'update' then [-1, 1]
            else [-1] end) as sign
        from changes
    )
    group by all
"""


def main(landing: Path, database: Path, days: str, to_date: str) -> None:
    """Write the tables and print what it took.

    Args:
        days, to_date: queries that give one row of numbers.
    """
    import duckdb

    connection = duckdb.connect(str(database))
    connection.execute("set threads = 2")
    connection.execute("set memory_limit = '4GB'")
    connection.execute("set preserve_insertion_order = false")
    start = time.perf_counter()
    connection.execute(
        CHANGES.format(
            files=landing / "topics" / "*" / "*" / "*.jsonl*",
            columns=json.dumps(MESSAGE).replace('"', "'"),
            shape=json.dumps(COLUMNS),
            before=BEFORE,
        )
    )
    connection.execute(COUNTS)
    connection.execute("checkpoint")
    work = time.perf_counter() - start
    answers = {
        name: list(map(str, connection.execute(sql.format(table="counts")).fetchone()))
        for name, sql in {"days": days, "to_date": to_date}.items()
    }
    print(json.dumps({"work": work, "version": duckdb.__version__} | answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
