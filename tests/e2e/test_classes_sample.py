"""The sample log of a school: bookings within their days before a class, against a plain replay."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate_classes import lines, write
from tests.support.dbt_project import REPO
from tests.support.warehouse import Warehouse

SAMPLE = "topics/school/partition=0/school+0+0000000000.jsonl.gz"
ZONE = timedelta(hours=8)  # the business zone, which DATETIME columns are in
DAYS = timedelta(days=30)  # the var booking_days
KEYS = {"class_session": "class_id", "class_booking": "booking_id"}


def time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) - ZONE


def pairs(log: Iterable[bytes]) -> dict[tuple[int, int], tuple[Any, ...]]:
    """(class, booking) -> what the join must say of them, from messages in any order."""
    rows: dict[str, dict[int, dict]] = {table: {} for table in KEYS}
    messages = [json.loads(line) for line in log]
    for row in sorted(messages, key=lambda message: int(message["position"].split(":")[1])):
        key = row["data"][KEYS[row["table"]]]
        rows[row["table"]].pop(key, None)
        if row["type"] != "delete":
            rows[row["table"]][key] = row["data"]
    found = {}
    for booking in rows["class_booking"].values():
        session = rows["class_session"].get(booking["class_id"])
        if session is None:
            continue
        starts_at, booked_at = time(session["starts_at"]), time(booking["booked_at"])
        if starts_at - DAYS < booked_at <= starts_at:
            found[session["class_id"], booking["booking_id"]] = (
                session["title"],
                starts_at,
                booking["user_id"],
                booked_at,
                booking["state"],
                (starts_at - booked_at).days,
            )
    return found


def test_the_sample_is_what_the_generator_writes(tmp_path: Path) -> None:
    assert write(tmp_path).read_bytes() == (REPO / "landing" / SAMPLE).read_bytes()


@pytest.mark.soak
def test_bookings_of_classes_equal_a_replay_after_every_delivery(tmp_path: Path) -> None:
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng, log = random.Random(seed), lines()
    shuffled = rng.sample(log, len(log))  # late, early, and as it comes
    bound = rng.randint(200, 600)
    warehouse, landed, compared = Warehouse(tmp_path), [], 0
    for part in (shuffled[:bound], shuffled[bound:] + rng.choices(log, k=50)):
        warehouse.land_lines(part, len(landed), topic="school")
        landed += part
        warehouse.run("run", "--select", "+dwd_user__booking_class")

        rows = warehouse.query("select * from dw.dwd_user__booking_class")
        got = {
            (row["class_id"], row["booking_id"]): (
                row["title"],
                row["starts_at"],
                row["user_id"],
                row["booked_at"],
                row["state"],
                row["days_before"],
            )
            for row in rows
        }
        wanted = pairs(landed)
        assert len(got) == len(rows)
        assert got == wanted
        compared += len(got)
    print(f"{compared} bookings of classes compared, 0 differ")
    assert len(got) > 100
