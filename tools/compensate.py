"""`make compensate`: write business days of the counts again, from the log's changes.

    make compensate                                 what is wrong
    make compensate FROM=2026-03-01 TO=2026-03-07   these days, whatever they hold

What is wrong: days that are not what the changelog comes to, then closed months that are not the
sum of their days, and closed years that are not the sum of their months. The typed tables (ODS),
which the changelog is of, are held against nothing.

Each day is a dbt run and a commit of its own; then the closed months and years that they lie in
follow. A day that fails doesn't keep the others, and the same command again does only the days that
are left. The tables' own commits record which are done (meta_compensation), so a day is done
if, and only if, its rows are there. When none is left the same command restarts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

# what runs a dbt command: its words and its --vars -> dbt's result (success, exception, result)
Dbt = Callable[[list[str], dict[str, Any]], Any]
# day, or a period's first day, or NO_DAY -> the tables that have to write it
Work = dict[str, list[str]]

STATE = "meta_compensation"
NO_DAY = "null"  # the rows without a day, as the var compensate_days names them
NAMES = ["--resource-type", "model", "--output", "name"]
# views over several domains have nothing to write
NOT_FOLLOWED = ["--exclude", "path:models/dqc", "path:models/meta", "path:models/dws/operations"]
# how the name of a table of a count ends -> the column of its days, months or years
DATED = {"1d": "cut_date", "1m": "cut_month", "1y": "cut_year"}


class CompensateError(Exception):
    """Why nothing could be done, in words for the user."""


def compensate(dbt: Dbt, first: str = "", last: str = "") -> int:
    """Write days again; the number of days that failed.

    Args:
        first, last: the first day and the last, as 2026-03-01; both empty: the days, closed months
            and closed years that are not what they are made of.

    Raises:
        CompensateError: the days are none, or dbt can't tell what there is to do.
    """
    days = days_between(first, last) if first or last else None
    tables = [name for name in _ask(dbt, ["ls", "--select", f"1+{STATE}", *NAMES]) if name != STATE]
    _ask(dbt, ["run", "--select", STATE])
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    if days is None:
        print(f"Compared with the changelog: the days of {', '.join(tables)}.", flush=True)
        request, work = f"found at {now}", differing_periods(dbt, tables)
    else:
        request, work = range_left(dbt, tables, days, now)
    failed = []
    for number, (day, mine) in enumerate(sorted(work.items()), 1):
        print(f"{day} ({number} of {len(work)}): {', '.join(mine)}", flush=True)
        asked = {"compensate_days": [day], "compensate_request": request}
        if not dbt(["run", "--select", *mine], asked).success:
            failed.append(day)
    below = [f"{name}+" for name in tables]
    if len(failed) < len(work):
        _ask(dbt, ["run", "--select", *below, *NOT_FOLLOWED])
    if days is None:
        _mend_levels(dbt, below, request)
    print(f"{len(work) - len(failed)} days were rewritten.")
    if failed:
        print(f"Failed: {', '.join(failed)}. The same command again does these only.")
    return len(failed)


def days_between(first: str, last: str) -> list[str]:
    """All days of a range, both ends among them.

    >>> days_between("2026-02-28", "2026-03-01")
    ['2026-02-28', '2026-03-01']

    Raises:
        CompensateError: they are no days, or in the wrong order.
    """
    try:
        start, end = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        start, end = date.max, date.min
    if start > end:
        raise CompensateError(
            f"FROM and TO must be days, the first and the last, got {first!r} and {last!r}. "
            "Example: make compensate FROM=2026-03-01 TO=2026-03-07"
        )
    return [f"{start + timedelta(number)}" for number in range((end - start).days + 1)]


def _mend_levels(dbt: Dbt, below: list[str], request: str) -> None:
    """Write the closed months and years again that are not the sum of the level below them.

    Args:
        below: selectors of what is made of the days.
    """
    names = _ask(dbt, ["ls", "--select", *below, *NAMES, *NOT_FOLLOWED])
    levels = [name for name in names if name.rpartition("_")[2] in ("1m", "1y")]
    if not levels:
        return
    print(f"Compared with the level below them: {', '.join(levels)}.", flush=True)
    work = differing_periods(dbt, levels)
    for day, mine in sorted(work.items()):
        print(f"the period from {day}: {', '.join(mine)}", flush=True)
    if work:
        damaged = sorted({f"{name}+" for mine in work.values() for name in mine})
        asked = {"compensate_days": sorted(work), "compensate_request": request}
        _ask(dbt, ["run", "--select", *damaged, *NOT_FOLLOWED], asked)


def differing_periods(dbt: Dbt, tables: list[str]) -> Work:
    """The days, months or years of each table that are missing, stale or damaged."""
    checks = {name: f"dqc_{name.removeprefix('dws_')}_reconciliation" for name in tables}
    _ask(dbt, ["run", "--select", *checks.values()])
    work: Work = {}
    for name, check in checks.items():
        column = DATED[name.rpartition("_")[2]]
        sql = (
            f"select distinct coalesce(cast({column} as string), '{NO_DAY}') as day "
            f"from {{{{ ref('{check}') }}}} where not is_total"
        )
        for (day,) in _rows(dbt, sql):
            work.setdefault(day, []).append(name)
    return work


def range_left(dbt: Dbt, tables: list[str], days: list[str], now: str) -> tuple[str, Work]:
    """The request that the range belongs to and what is left of it; if nothing is, a new
    request."""
    name = f"{days[0]}..{days[-1]} at "
    done = _rows(
        dbt,
        "select request, table_name, cast(cut_date as string) as day "
        f"from {{{{ ref('{STATE}') }}}} where startswith(request, '{name}')",
    )
    newest = max((request for request, _, _ in done), default=None)
    held = {(table, day) for request, table, day in done if request == newest}
    work = {
        day: mine
        for day in days
        if (mine := [table for table in tables if (table, day) not in held])
    }
    if newest is not None and work:
        return newest, work
    return name + now, dict.fromkeys(days, tables)


def _rows(dbt: Dbt, sql: str) -> list[tuple[str, ...]]:
    """Rows of a query over the project's models, as texts."""
    shown = _ask(dbt, ["show", "--inline", sql, "--limit", "-1"])
    table = shown.results[0].agate_table
    return [tuple(str(cell) for cell in row.values()) for row in table.rows]


def _ask(dbt: Dbt, words: list[str], variables: dict[str, Any] | None = None) -> Any:
    done = dbt(words, variables or {})
    if not done.success:
        raise CompensateError(
            f"`dbt {' '.join(words)}` failed{f': {done.exception}' if done.exception else ''}. "
            "See above, mend it and run the same command again."
        )
    return done.result


def main(first: str, last: str) -> int:
    """`compensate` by dbt in this process; 1 where a day failed.

    Raises:
        CompensateError: see compensate.
    """
    from dbt.cli.main import dbtRunner

    runner = dbtRunner()

    def dbt(words: list[str], variables: dict[str, Any]) -> Any:
        return runner.invoke([*words, "--vars", json.dumps(variables)])

    return 1 if compensate(dbt, first, last) else 0
