"""Generate the sample log of page views: what the shop's pages tell their collector.

The files are laid out as the file sinks of Kafka Connect do it, each line an event as
``python_udfs/ingestion/formats/events.py`` describes it::

    <folder>/topics/traffic.page_view/partition=<n>/traffic.page_view+<n>+0000000000.jsonl.gz

Visitors come in sessions: a burst of pages on one platform. Some are logged in from the start, some
log in on the way, most never do; the users are those of the shop's orders. The apps write times as
milliseconds, the browsers as ISO text. A phone that was offline sends its events hours or days
later; a client that got no answer sends an event again; some clocks are wrong, and some clients
write no time, or one that can't be read. Lines stand in the order in which the collector took
them. The same seed gives the same lines.

Usage::

    python -m benchmarks.generate_traffic landing
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SEED = 20260301
TOPIC, PARTITIONS = "traffic.page_view", 2
SESSIONS, VISITORS, USERS = 2_000, 900, 2_300
START, DAYS = datetime(2026, 2, 28, 16, tzinfo=UTC), 7  # midnight of the business zone
ZONE = timedelta(hours=8)
# as the orders' plat_name, of which case and blanks differ too
PLATFORMS = ("h5", "app", "mini", "wechat", "alipay", "tiktok", "京东")
PAGES = ("home", "list", "product", "product", "search", "cart", "checkout", "account")
REFERRERS = (None, None, "ads", "mail", "https://例え.jp/?q=タクシー&p=1")
BAD_TIMES = (None, "", "yesterday", "2026-03-04 25:61", "0000-00-00T00:00:00Z", 4102444800000,
             253402300799999, 0, 951782400000, "2038-01-19T03:14:08Z")  # fmt: skip


class Collector:
    """The visitors, and the events that the collector took."""

    def __init__(self, seed: int, visitors: int = VISITORS, users: int = USERS) -> None:
        self.rng = random.Random(seed)
        self.visitors, self.users = visitors, users
        # (when the collector took it, event)
        self.taken: list[tuple[datetime, dict[str, Any]]] = []

    def run(self, sessions: int, days: int = DAYS, bad: float = 0.002) -> list[dict[str, Any]]:
        """The events of a history, in the order in which they were taken.

        Args:
            bad: share of events whose time is wrong, missing or can't be read.
        """
        for number in range(sessions):
            self.session(number, days)
        for _, event in self.taken:
            if self.rng.random() < bad:
                event["event_time"] = self.rng.choice(BAD_TIMES)
        self.send_again()
        self.taken.sort(key=lambda item: (item[0], item[1]["event_id"]))
        return [event | {"received_at": millis(at)} for at, event in self.taken]

    def session(self, number: int, days: int) -> None:
        """A visitor's burst of pages; the evening has more of them than the night."""
        hour = min(23.99, max(0.0, self.rng.gauss(14, 5)))
        now = START + timedelta(days=self.rng.randrange(days), hours=hour)
        visitor = self.rng.randrange(self.visitors)
        user = 1 + visitor * 7 % self.users if visitor % 3 == 0 else None
        user = user if self.rng.random() < 0.7 else None  # not logged in yet
        platform = PLATFORMS[(visitor + self.rng.choice((0, 0, 0, 1))) % len(PLATFORMS)]
        referrer = self.rng.choice(REFERRERS)
        # offline: what it saw is sent when it is back
        offline = self.rng.random() < 0.03
        back = timedelta(seconds=self.rng.randint(3_600, 3 * 86_400)) if offline else None
        for place in range(1 + int(self.rng.expovariate(1 / 4))):
            if user is None and visitor % 3 == 0 and self.rng.random() < 0.2:
                user = 1 + visitor * 7 % self.users
            page = self.rng.choice(PAGES)
            latency = timedelta(milliseconds=self.rng.randint(5, 4_000))
            event = {
                "event_id": f"{number:x}.{visitor:x}.{place}",
                "event_time": self.reported(now, platform),
                "visitor_id": f"v{visitor}",
                "user_id": user,
                "platform": platform,
                "page": page,
                "product_id": self.rng.randint(1, 200) if page == "product" else None,
                "referrer": referrer if place == 0 else None,
            }
            self.taken.append((now + latency + (back or timedelta()), event))
            now += timedelta(milliseconds=int(self.rng.lognormvariate(10, 1.2)))

    def send_again(self) -> None:
        """Single events, and whole bursts of a client that was cut off, come once more."""
        for at, event in list(self.taken):
            if self.rng.random() < 0.01:
                self.taken.append((at + timedelta(seconds=self.rng.randint(1, 90)), dict(event)))
        for _ in range(5):
            start = self.rng.randrange(len(self.taken))
            later = timedelta(hours=self.rng.randint(1, 30))
            for at, event in self.taken[start : start + 12]:
                self.taken.append((at + later, dict(event)))

    def reported(self, now: datetime, platform: str) -> Any:
        """A time as the platform's clients write it."""
        if platform in ("app", "mini", "alipay"):
            return millis(now)
        if platform == "wechat":
            return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"
        local = now + ZONE
        return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03d}+08:00"


def millis(at: datetime) -> int:
    """Milliseconds since 1970."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def encoded(events: Iterable[dict[str, Any]]) -> list[bytes]:
    """Lines without newlines."""
    return [
        json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() for event in events
    ]


def lines(seed: int = SEED) -> dict[int, list[bytes]]:
    """The sample's lines by partition: a visitor's events keep theirs."""
    events = Collector(seed).run(SESSIONS)
    return {
        number: encoded(
            event for event in events if int(event["visitor_id"][1:]) % PARTITIONS == number
        )
        for number in range(PARTITIONS)
    }


def write(folder: Path) -> list[Path]:
    """Write the sample below a landing folder; its files."""
    paths = []
    for number, content in lines().items():
        target = folder / "topics" / TOPIC / f"partition={number}"
        target.mkdir(parents=True, exist_ok=True)
        paths.append(target / f"{TOPIC}+{number}+{0:010d}.jsonl.gz")
        # no time and no name in the header: the same lines are the same bytes
        with paths[-1].open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file:
            file.write(b"".join(line + b"\n" for line in content))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="the landing folder")
    for path in write(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
