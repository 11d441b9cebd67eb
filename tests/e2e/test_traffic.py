"""Page views of a random log, late, sent again and with impossible times, against an oracle."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate_traffic import TOPIC, Collector, encoded, lines, write
from tests.support import event_window_oracle
from tests.support.dbt_project import REPO
from tests.support.warehouse import Warehouse, differing
from tests.support.window_oracle import grouped, is_possible, there

ZONE = timezone(timedelta(hours=8))  # the business zone
MODELS = ("+dws_traffic__page_view_5m", "+dws_traffic__session_1d")
SETS = {"all": (), "platform": ("platform",), "page": ("page",)}
GAP = timedelta(minutes=30)  # the var session_gap_minutes
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOWS = """
    select
        dimension_set, grain, window_start, window_end, platform, page, pv, uv,
        hll_sketch_estimate(uv_sketch) as uv_estimate,
        theta_sketch_estimate(user_sketch) as users
    from dw.dws_traffic__page_view_5m
"""

SESSIONS = """
    select
        visitor_id, window_start, window_end, user_id, platform, landing_page, exit_page,
        page_view_count, window_date
    from dw.dwd_traffic__visitor_session
"""
SESSION_DAYS = "select cut_date, dimension_set, platform, session_count, bounce_count"


def instant(expected: Any) -> datetime | None:
    """A time as an event reports it.

    Raises:
        ValueError: it is neither milliseconds nor ISO text with a zone.
    """
    if expected is None:
        return None
    if isinstance(expected, int):
        return EPOCH + timedelta(milliseconds=expected)
    found = datetime.fromisoformat(expected)
    if found.tzinfo is None:
        raise ValueError(expected)
    return found.astimezone(UTC)


def page_views(log: Iterable[bytes]) -> tuple[list[dict[str, Any]], int, int]:
    """(views, events that have no time that can be read, views whose time can't be true)."""
    first: dict[tuple, dict[str, Any]] = {}
    unread = 0
    for line in log:
        event = json.loads(line)
        received_at = instant(event["received_at"])
        try:
            at = instant(event["event_time"])
        except ValueError:
            unread += 1
            continue
        view = event | {"at": at, "received_at": received_at, "sign": 1}
        trimmed = view["platform"].strip()
        view |= {
            "platform": trimmed.lower(),
            "trim": trimmed != view["platform"],
            "case": trimmed != trimmed.lower(),
        }
        # the day that the row is filed under
        dated = at if at and EPOCH < at <= received_at + timedelta(hours=24) else received_at
        key = (dated.astimezone(ZONE).date(), event["event_id"], at)
        if key not in first or received_at < first[key]["received_at"]:
            first[key] = view
    good = [row for row in first.values() if is_possible(row["at"], row["received_at"], 1, 30)]
    return good, unread, len(first) - len(good)


def expected(views: list[dict[str, Any]]) -> dict[tuple, tuple]:
    found = {}
    for key, events in grouped(views, SETS, ZONE).items():
        visitors, users = (there(events, lambda event, of=of: event[of], ZONE) for of in OF)
        found[key] = (len(events), visitors, visitors, users)
    return found


OF = ("visitor_id", "user_id")


def sessions(views: list[dict[str, Any]]) -> dict[tuple, tuple]:
    """(visitor, begin) -> the rest of a row of SESSIONS."""
    laid = event_window_oracle.sessions(((view["visitor_id"], view["at"]) for view in views), GAP)
    found: dict[tuple, list[dict[str, Any]]] = {key: [] for key in laid}
    current: dict[Any, tuple] = {}
    for view in sorted(views, key=lambda view: (view["at"], view["event_id"])):
        key = view["visitor_id"], view["at"]
        if key in laid:
            current[view["visitor_id"]] = key
        found[current[view["visitor_id"]]].append(view)
    rows = {}
    for (visitor, start), some in found.items():
        end, count = laid[visitor, start]
        users = [row["user_id"] for row in some if row["user_id"] is not None]
        rows[visitor, start] = (
            end,
            users[-1] if users else None,
            some[0]["platform"],
            some[0]["page"],
            some[-1]["page"],
            count,
            start.astimezone(ZONE).date(),
        )
    return rows


def session_days(rows: dict[tuple, tuple]) -> dict[tuple, tuple[int, int]]:
    """(day, dimension_set, platform) -> sessions, and those of a single view."""
    found: dict[tuple, tuple[int, int]] = {}
    for _, _, platform, _, _, views, day in rows.values():
        for key in ((day, "all", None), (day, "platform", platform)):
            count, bounces = found.get(key, (0, 0))
            found[key] = (count + 1, bounces + (views == 1))
    return found


def compare_sessions(warehouse: Warehouse, views: list[dict[str, Any]]) -> int:
    wanted = sessions(views)
    rows = [tuple(row.values()) for row in warehouse.query(SESSIONS)]
    got = {row[:2]: row[2:] for row in rows}
    assert len(got) == len(rows)
    assert differing(wanted, got) == []
    days = [
        tuple(row.values())
        for row in warehouse.query(f"{SESSION_DAYS} from dw.dws_traffic__session_1d")
    ]
    assert differing(session_days(wanted), {row[:3]: row[3:] for row in days}) == []
    return len(got)


def check(folder: Path, seed: int, sessions: int, builds: int) -> None:
    rng = random.Random(seed)
    log = encoded(Collector(seed, visitors=40).run(sessions, days=3, bad=0.1))
    places = [min(int(rng.triangular(0, builds, builds * at / len(log))), builds - 1)
              for at in range(len(log))]  # fmt: skip
    warehouse, landed, compared = Warehouse(folder), [], 0
    for build in range(builds):
        part = [line for line, place in zip(log, places, strict=True) if place == build]
        part += rng.choices(log[: len(log) // 2], k=20)  # sent again, at new offsets
        rng.shuffle(part)
        warehouse.land_lines(part, len(landed), topic=TOPIC)
        landed += part
        warehouse.run("run", "--select", *MODELS, vars={"reject_threshold": 1})

        views, unread, impossible = page_views(landed)
        rows = [tuple(row.values()) for row in warehouse.query(WINDOWS)]
        got = {row[:6]: row[6:] for row in rows}
        assert len(got) == len(rows)
        assert differing(expected(views), got) == [], f"seed {seed}, build {build}"
        asked = warehouse.query(
            "select (select count(reject_reason) from dw.ods_traffic__page_view) as unread, "
            "(select count(reject_reason) from dw.dwd_traffic__page_view) as impossible"
        )
        assert asked == [{"unread": unread, "impossible": impossible}]
        ruled = warehouse.query(
            "select reported.rule, count(*) as n from dw.dwd_traffic__page_view "
            "lateral view explode(cleaning) as reported where reject_reason is null group by 1"
        )
        changed = {rule: sum(view[rule] for view in views) for rule in ("trim", "case")}
        assert Counter({row["rule"]: row["n"] for row in ruled}) == Counter(changed)
        compared += len(got) + compare_sessions(warehouse, views)
    print(f"seed {seed}: {len(landed)} events, {len(views)} views, {compared} rows compared")
    assert unread
    assert impossible


def test_the_sample_is_what_the_generator_writes(tmp_path: Path) -> None:
    for path in write(tmp_path):
        kept = REPO / "landing" / path.relative_to(tmp_path)
        assert path.read_bytes() == kept.read_bytes()


def test_the_sample_has_what_is_hard() -> None:
    log = [line for part in lines().values() for line in part]
    views, unread, impossible = page_views(log)
    late = [view for view in views if view["received_at"] - view["at"] > timedelta(hours=1)]
    assert unread > 3
    assert impossible > 3
    assert len(late) > 50
    assert len(log) - len(views) > 100  # sent again
    users = {view["user_id"] for view in views}
    assert None in users
    assert len(users) > 200


@pytest.mark.in_turn
def test_windows_of_page_views_equal_the_oracle_after_every_build(tmp_path: Path) -> None:
    check(tmp_path, random.SystemRandom().randrange(10**6), sessions=60, builds=2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(int(os.environ.get("TRAFFIC_SEEDS", "10"))))
def test_windows_of_many_logs(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, sessions=400, builds=4)
