"""Models of windows for tests."""

from __future__ import annotations

import os
import random
from datetime import timedelta

from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject

MACROS = {
    f"macros/windows/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/windows").glob("*.sql"))
}
MINUTES, HOURS, DAYS = (timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))


def seeded() -> random.Random:
    seed = int(os.environ.get("WINDOW_SEED") or random.SystemRandom().randint(0, 10**9))
    print(f"seed {seed}")
    return random.Random(seed)


def append(project: DbtProject, table: str, rows: list[tuple]) -> None:
    session = own_session(project.credentials()).session
    session.createDataFrame(rows, session.table(table).schema).writeTo(table).append()


# ---- what runs make of late, changed and retracted rows ------------------------------------

CONFIG = (
    "config(materialized='incremental', incremental_strategy='replace_windows', "
    "partition_by='window_date')"
)
COUNTED = """
    {{{{ {config} }}}}
    with

    windowed as (
        {{{{ {call} }}}}
    )

    select
        world, {keys}window_start, window_end, window_date, count(*) as n,
        count(distinct v) as values_seen, sum({sign}) as net
    from windowed
    group by world, {keys}window_start, window_end, window_date
"""
