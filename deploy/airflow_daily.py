"""A daily build by Airflow (2.9 or later): put this file into its folder of DAGs.

The project lies in PROJECT on the worker, after `make setup`. A task that fails is tried again:
running again is the recovery of every command here.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.decorators import dag
from airflow.operators.bash import BashOperator

PROJECT = "/srv/binlog_warehouse"
COMMANDS = {
    "build": "make run",
    # its numbers against the log itself; it fails where they differ
    "reconcile": "make reconcile",
    "expire": ".venv/bin/dbt run-operation expire_versions --profiles-dir profiles",
    "compact": ".venv/bin/dbt run-operation compact --profiles-dir profiles",
}


@dag(
    schedule="30 0 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="Asia/Shanghai"),
    catchup=False,
    # one process writes at a time
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
)
def binlog_warehouse() -> None:
    before = None
    for name, command in COMMANDS.items():
        task = BashOperator(task_id=name, bash_command=command, cwd=PROJECT)
        if before is not None:
            before >> task
        before = task


binlog_warehouse()
