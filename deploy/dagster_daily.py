"""A daily build by Dagster (1.8 or later): `dagster dev -f deploy/dagster_daily.py`.

The project lies in PROJECT, after `make setup`. Each op is a process of its own, so Dagster needs
none of the project's libraries. An op that fails is tried again: running again is the recovery.
"""

from __future__ import annotations

import subprocess

from dagster import Definitions, In, Nothing, RetryPolicy, ScheduleDefinition, job, op

PROJECT = "/srv/binlog_warehouse"
BUILD = "make run"
RECONCILE = "make reconcile"
MAINTENANCE = ".venv/bin/dbt run-operation expire_versions --profiles-dir profiles"
AGAIN = RetryPolicy(max_retries=2, delay=300)


def run(command: str) -> None:
    subprocess.run(command.split(), cwd=PROJECT, check=True)


@op(retry_policy=AGAIN)
def build() -> None:
    run(BUILD)


@op(ins={"built": In(Nothing)}, retry_policy=AGAIN)
def reconcile() -> None:
    """Compares the numbers with the log itself; fails where they differ."""
    run(RECONCILE)


@op(ins={"reconciled": In(Nothing)}, retry_policy=AGAIN)
def maintain() -> None:
    run(MAINTENANCE)


@job
def daily() -> None:
    maintain(reconcile(build()))


# one process writes at a time: a run that meets another run's lease fails and is tried again
defs = Definitions(
    jobs=[daily],
    schedules=[
        ScheduleDefinition(
            job=daily, cron_schedule="30 0 * * *", execution_timezone="Asia/Shanghai"
        )
    ],
)
