"""A report of made-up rows: every section has some, and texts that must stay texts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tools.lineage.warehouse import Lineage
from tools.report.declared import Counted
from tools.report.facts import Facts
from tools.report.sections import Context

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
HOSTILE = (
    "<script>hostile()</script>",
    "</script><script>hostile()</script>",
    "<img src=x onerror=hostile()>",
    "<!--<script>",
    '"><b>bold</b>',
    "' onmouseover='hostile()",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;script&gt;",
    "\u202eright to left",
    "a.b[0]['c']\\d",
    "javascript:hostile()",
    "\u2028line\u2029",
    "]]>",
    "x" * 5000,
)
MANIFEST: dict[str, Any] = {
    "metadata": {"project_name": "small"},
    "macros": {},
    "sources": {},
    "nodes": {
        "model.small.orders": {
            "resource_type": "model",
            "language": "sql",
            "name": "orders",
            "schema": "dw",
            "unique_id": "model.small.orders",
            "fqn": ["small", "ods", "orders"],
            "columns": {"id": {}, "n": {}},
            "config": {"materialized": "view"},
            "compiled_code": "select 1 as id, count(*) as n",
        },
        "model.small.totals": {
            "resource_type": "model",
            "language": "sql",
            "name": "totals",
            "schema": "dw",
            "unique_id": "model.small.totals",
            "fqn": ["small", "dws", "totals"],
            "depends_on": {"nodes": ["model.small.orders"]},
            "columns": {"total": {}},
            "config": {"materialized": "view"},
            "compiled_code": "select sum(n) as total from dw.orders",
        },
    },
}
DAYS = Counted(
    "dw.days",
    "days",
    "orders",
    {"n": "count", "amount": "sum"},
    ("status",),
    has_days=True,
    columns={"n": "n_change", "amount": "amount_change"},
)
TOTALS = Counted(
    "dw.td", "td", "orders", {"n": "count", "amount": "sum"}, ("status",), ("user_id",)
)
WINDOWS = Counted(
    "dw.w", "w", "views", {"pv": "count"}, grains=("5m", "1d"), sets={"platform": "platform"}
)
AMOUNT = Decimal("98765432109876543.21")  # no double holds it


def facts(days: int = 8, texts: tuple[str, ...] = HOSTILE) -> Facts:
    """Rows of every query.

    Args:
        days: so many business days.
        texts: what stands wherever a text of the data can stand.
    """
    first = date(2026, 3, 8) - timedelta(days=days - 1)
    dates = [first + timedelta(days=number) for number in range(days)]
    rows: dict[str, list[dict[str, Any]]] = {
        "versions": [
            {
                "version": number,
                "published_at": NOW - timedelta(hours=5 - number),
                "run_id": f"run-{number}",
                "made_by": "build",
                "tag": texts[0] if number == 1 else None,
                "changed": ["a", "b"],
                "stale": [],
                "tables": 3,
            }
            for number in (2, 1)
        ],
        "publications": [
            {"target": text, "table_name": text, "version": 2, "published_at": NOW}
            for text in texts
        ],
        "run_tables": [
            {
                "run_id": f"run-{number}",
                "table_name": "lake.dw.orders",
                "first_commit": NOW - timedelta(hours=6 - number),
                "last_commit": NOW - timedelta(hours=6 - number, seconds=-30),
                "rows_added": 100 * number,
                "rows_removed": number,
            }
            for number in (2, 1)
        ],
        "topics": [
            {
                "topic": text,
                "messages": 60,
                "unreadable": 1,
                "missing": 2,
                "first_event_time": NOW - timedelta(days=1),
                "last_event_time": NOW - timedelta(minutes=number + 3),
            }
            for number, text in enumerate(texts)
        ],
        "hours": [
            {"topic": text, "hour": NOW - timedelta(hours=back), "messages": 30}
            for back in range(24)
            for text in texts
        ],
        "accounting": [
            {
                "topic": text,
                "messages_in": 60,
                "applied": 50,
                "duplicates": 4,
                "filtered": 5,
                "refused": 1,
                "unaccounted": 0,
            }
            for text in texts
        ],
        "refused": [
            {"refused_by": "ods", "topic": text, "reason": text, "messages": 1, "sample": text}
            for text in texts
        ],
        "late": [{"cut_date": day, "changes": 3, "days_behind": 5} for day in reversed(dates)],
        "breaks": [{"kind": text, "breaks": 1, "orders": 1} for text in texts],
        "break_positions": [
            {"order_id": 7, "kind": text, "binlog_position": 120} for text in texts
        ],
        "quality": [
            {
                "check_name": text,
                "verdict": "failed",
                "checked_at": NOW - timedelta(hours=hour),
                "groups_compared": 9,
                "groups_differing": hour,
                "count_got": 10,
                "count_expected": 10,
            }
            for hour in range(1, 4)
            for text in texts
        ],
        "compensations": [],
    }
    counts = {
        "days": [
            {"cut_date": day, "value": text, "n": 2, "amount": AMOUNT}
            for day in dates
            for text in texts[:12]
        ],
        "td": [{"value": text, "n": 5, "amount": AMOUNT, "user_ids": 2} for text in texts],
        "w": [
            {
                "grain": grain,
                "dimension": "platform" if text else "",
                "value": text,
                "window_start": NOW - timedelta(days=back),
                "pv": back,
            }
            for grain in ("5m", "1d")
            for back in range(min(days, 300))
            for text in ("", *texts)
        ],
    }
    return Facts(rows, counts)


def context(days: int = 8, texts: tuple[str, ...] = HOSTILE) -> Context:
    """A report's context of such rows, with a command that failed."""
    problems = [
        {
            "name": text,
            "kind": "test",
            "status": "fail",
            "rows": 3,
            "message": text,
            "query": f"select '{text}'",
        }
        for text in texts
    ]
    command = {
        "id": "run-2",
        "command": "build",
        "ended_at": (NOW - timedelta(hours=3)).isoformat(),
        "seconds": 40.5,
        "status": "failed",
        "nodes": 3,
        "tests": {"pass": 9, "fail": len(texts)},
        "problems": problems,
    }
    return Context(
        name="small",
        zone="+08:00",
        made_at=NOW,
        facts=facts(days, texts),
        counted=[DAYS, TOTALS, WINDOWS],
        lineage=Lineage(MANIFEST),
        commands=[command],
    )
