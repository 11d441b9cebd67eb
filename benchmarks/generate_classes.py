"""Generate the sample change log of a school: classes, and the bookings of them.

The file is laid out as the file sinks of Kafka Connect do it, each line a change as Maxwell writes
it::

    <folder>/topics/school/partition=0/school+0+0000000000.jsonl.gz

Tables are simulated: users book a class days or weeks before, change what they booked, cancel (the
row stays, or is deleted); classes are moved to another day, renamed and called off. Now and then
the producer sends a change again. The same seed gives the same lines.

Usage::

    python -m benchmarks.generate_classes landing
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SEED = 20260301
CLASSES, CHANGES = 40, 700
KEYS = {"class_session": "class_id", "class_booking": "booking_id"}
START = datetime(2026, 3, 1, 1, tzinfo=UTC)
ZONE = timedelta(hours=8)  # of the server's datetime columns
TITLES = (
    "Yoga",
    "Spanish A1",
    "Drawing",
    "Swimming",
    "Guitar",
    "Cooking",
    "C++ & friends",
    "太极拳",
)
LONGEST_BEFORE = 45  # days


class School:
    """The simulated tables, and the changes that they wrote down."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now, self.position = START, 4
        self.tables: dict[str, dict[int, dict[str, Any]]] = {table: {} for table in KEYS}
        self.next_id = dict.fromkeys(self.tables, 1)
        self.messages: list[dict[str, Any]] = []

    def run(self, classes: int, changes: int) -> list[dict[str, Any]]:
        """The messages of a history."""
        while len(self.messages) < changes:
            self.now += timedelta(seconds=self.rng.randint(30, 1_500))
            sessions = self.tables["class_session"]
            if self.next_id["class_session"] <= classes and self.rng.random() < 0.12:
                self.add("class_session", title=self.rng.choice(TITLES), starts_at=self.soon())
            elif sessions and self.rng.random() < 0.1:
                self.change_class(self.rng.choice(list(sessions)))
            elif self.tables["class_booking"] and self.rng.random() < 0.25:
                self.change_booking(self.rng.choice(list(self.tables["class_booking"])))
            elif sessions:
                self.book(self.rng.choice(list(sessions)))
            if self.messages and self.rng.random() < 0.03:
                self.messages.append(self.rng.choice(self.messages[-20:]))
        return self.messages

    def soon(self) -> datetime:
        days = self.rng.randint(1, LONGEST_BEFORE)
        return (self.now + timedelta(days=days)).replace(minute=0, second=0)

    def book(self, class_id: int) -> None:
        starts_at = self.tables["class_session"][class_id]["starts_at"]
        # an app that was offline sends a booking late: its own time lies before
        booked_at = self.now - timedelta(minutes=self.rng.choice([0, 0, 0, 5, 600]))
        if booked_at < starts_at:
            user = self.rng.randint(1, 60)
            self.add(
                "class_booking",
                class_id=class_id,
                user_id=user,
                booked_at=booked_at,
                state="booked",
            )

    def change_class(self, class_id: int) -> None:
        change = self.rng.random()
        if change < 0.15:
            self.remove("class_session", class_id)
        elif change < 0.6:
            self.update("class_session", class_id, starts_at=self.soon())
        else:
            self.update("class_session", class_id, title=self.rng.choice(TITLES))

    def change_booking(self, booking_id: int) -> None:
        change = self.rng.random()
        if change < 0.3:
            self.remove("class_booking", booking_id)
        elif change < 0.6:
            self.update("class_booking", booking_id, state=self.rng.choice(["kept", "cancelled"]))
        else:
            other = self.rng.choice(list(self.tables["class_session"]))
            self.update("class_booking", booking_id, class_id=other, booked_at=self.now)

    def add(self, table: str, **values: Any) -> None:
        key = self.next_id[table]
        self.next_id[table] += 1
        row = {KEYS[table]: key} | values | {"updated_at": self.now}
        self.tables[table][key] = row
        self.tell(table, "insert", row)

    def update(self, table: str, key: int, **values: Any) -> None:
        row = self.tables[table][key]
        new = row | values | {"updated_at": self.now}
        self.tables[table][key] = new
        old = {name: row[name] for name in row if row[name] != new[name]}
        self.tell(table, "update", new, old)

    def remove(self, table: str, key: int) -> None:
        self.tell(table, "delete", self.tables[table].pop(key))

    def tell(
        self, table: str, kind: str, row: dict[str, Any], old: dict[str, Any] | None = None
    ) -> None:
        self.position += self.rng.randint(150, 400)
        message = {
            "database": "school",
            "table": table,
            "type": kind,
            "ts": int(self.now.timestamp()),
            "xid": 1_000 + self.position,
            "commit": True,
            "position": f"school.000001:{self.position}",
            "data": {name: written(value) for name, value in row.items()},
        }
        if old is not None:
            message["old"] = {name: written(value) for name, value in old.items()}
        self.messages.append(message)


def written(value: Any) -> Any:
    """A value as Maxwell writes it: times in the server's zone."""
    if isinstance(value, datetime):
        return f"{value + ZONE:%Y-%m-%d %H:%M:%S}"
    return value


def lines(seed: int = SEED) -> list[bytes]:
    """The sample's lines, without newlines."""
    messages = School(seed).run(CLASSES, CHANGES)
    return [
        json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        for message in messages
    ]


def write(folder: Path) -> Path:
    """Write the sample below a landing folder; its file."""
    target = folder / "topics" / "school" / "partition=0"
    target.mkdir(parents=True, exist_ok=True)
    path = target / "school+0+0000000000.jsonl.gz"
    # no time and no name in the header: the same lines are the same bytes
    with path.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file:
        file.write(b"".join(line + b"\n" for line in lines()))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="the landing folder")
    print(write(parser.parse_args().folder))


if __name__ == "__main__":
    main()
