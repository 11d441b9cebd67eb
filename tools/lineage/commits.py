"""The newest commits of the warehouse's tables, each with the snapshots that it read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from dbt.adapters.sparksession.iceberg.history import MODEL_PROPERTY
from dbt.adapters.sparksession.iceberg.metadata import metadata_of_tables
from dbt.adapters.sparksession.read_plans import INPUT_PROPERTY

Row = dict[str, Any]
RUNS, COMMITS = 20, 2000  # newest that events and the report are of
RUN = "dbt.run"  # property of a snapshot


def newest_commits(session: Any, catalog: str, schema: str) -> list[Row]:
    """The newest commits of the newest runs in all tables of a schema, oldest first.

    Args:
        session: Spark's; no remote one, which has no Java process here: see `commits_query`.

    Returns:
        run_id, table_name (schema.name), model_id, snapshot_id, committed_at (UTC), rows_added,
        rows_removed, inputs (input_table, input_snapshot_id).

    Raises:
        DbtRuntimeError: a table can't be read.
    """
    return newest(
        commit_of(f"{schema}.{name}", snapshot)
        for name, metadata in metadata_of_tables(session, catalog, schema).items()
        for snapshot in metadata.get("snapshots", ())
        if RUN in snapshot["summary"]
    )


def commit_of(table: str, snapshot: Mapping[str, Any]) -> Row:
    """A commit of a run.

    Args:
        table: schema.name.
        snapshot: as Iceberg's table spec has it.
    """
    summary = snapshot["summary"]
    inputs = {key: value for key, value in summary.items() if key.startswith(INPUT_PROPERTY)}
    return {
        "run_id": summary[RUN],
        "table_name": table,
        "model_id": summary.get(MODEL_PROPERTY),
        "snapshot_id": snapshot["snapshot-id"],
        "committed_at": datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC),
        "rows_added": int(summary.get("added-records", 0)),
        "rows_removed": int(summary.get("deleted-records", 0)),
        "inputs": [
            {"input_table": key.removeprefix(INPUT_PROPERTY), "input_snapshot_id": int(value)}
            for key, value in inputs.items()
        ],
    }


def newest(commits: Iterable[Row]) -> list[Row]:
    """Of the newest RUNS runs the newest COMMITS commits, oldest first."""

    def place(commit: Row) -> tuple[Any, ...]:
        return commit["committed_at"], commit["table_name"], commit["snapshot_id"]

    found = list(commits)
    ended: dict[str, datetime] = {}
    for commit in found:
        run, moment = commit["run_id"], commit["committed_at"]
        ended[run] = max(ended.get(run, moment), moment)
    runs = {*sorted(ended, key=lambda run: (ended[run], run))[-RUNS:]}
    return sorted((commit for commit in found if commit["run_id"] in runs), key=place)[-COMMITS:]


def commits_query(schema: str) -> str:
    """The same as a query of the commits that meta_lineage lists, for a remote Spark."""
    return f"""
        with commits as (
            select *, max(committed_at) over (partition by run_id) as run_ended
            from {schema}.meta_lineage where run_id is not null
        ),
        numbered as (
            select *, dense_rank() over (order by run_ended desc, run_id desc) as place
            from commits
        ),
        newest as (
            select run_id, table_name, model_id, snapshot_id, committed_at,
                rows_added, rows_removed,
                collect_list(
                    case when input_table is not null then
                        struct(input_table, input_snapshot_id) end
                ) as inputs
            from numbered where place <= {RUNS}
            group by all
            order by committed_at desc, table_name desc, snapshot_id desc limit {COMMITS}
        )
        select * from newest order by committed_at, table_name, snapshot_id
    """
