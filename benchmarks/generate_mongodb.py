"""Generate the sample change stream of the MongoDB collection ``app.user_profile``.

The file is laid out as the file sinks of Kafka Connect do it, one change event of relaxed
Extended JSON a line::

    <folder>/topics/mongo_app/partition=0/mongo_app+0+0000000000.jsonl.gz

The collection is simulated, and what it writes down is what a stream with
``fullDocumentBeforeChange: whenAvailable`` and ``showExpandedEvents: true`` gives. On the first
morning updates have no document; from then on the stream has ``fullDocument: updateLookup``: the
document is looked up later, so that it may hold later changes too, or be null because it is gone
by then. The collection keeps pre-images from the last day on. The same seed gives the same lines.

Usage::

    python -m benchmarks.generate_mongodb landing
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Document = dict[str, Any]

SEED = 20260302
USERS = 40
CHANGES = 200
START = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)
LOOKUP_FROM = datetime(2026, 3, 2, 12, tzinfo=UTC)
PRE_IMAGES_FROM = datetime(2026, 3, 4, tzinfo=UTC)
PROCESS = 0x9E3779B97F  # the part of an ObjectId that distinguishes processes
UUID = "5b1f0c9ad2c34e6f8a7712f4c09e3d5a"
LONGEST_GAP_MS = 3_200_000  # between two cluster times
MAX_LAG = 60  # changes that a lookup may come late
NAMES = ("Ana", "Bo", "Chloé", "Đặng", "Emre", "王伟", "Íñigo", "O'Neil", "Zoë 😀", "Jürgen")
CITIES = (("Porto", "4000"), ("København", "1050"), ("上海", "200000"), ("São Paulo", "01000"))
STATUSES = ("new", "active", "active", "blocked", "dormant")


class Collection:
    """The simulated collection: its documents now, and the events that it wrote down."""

    def __init__(self, seed: int, longest_gap_ms: int = LONGEST_GAP_MS) -> None:
        self.rng = random.Random(seed)
        self.longest_gap_ms = longest_gap_ms
        self.now = START
        self.second, self.ordinal = 0, 0
        self.documents: dict[str, Document] = {}
        self.gone: list[str] = []
        self.events: list[Document] = []
        self.transactions = 0
        # (index of the event, number of changes at which its document is looked up)
        self.lookups: list[tuple[int, int]] = []
        self.changes = 0

    def run(self, users: int, changes: int) -> list[Document]:
        """The events of a history: two of DDL, then ``changes`` of documents."""
        self.ddl("create", {"idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}})
        indexes = [{"v": 2, "key": {"email": 1}, "name": "email_1"}]
        self.ddl("createIndexes", {"indexes": indexes})
        while self.changes < changes:
            known = len(self.documents) + len(self.gone)
            if known < users and self.rng.random() < 0.4:
                self.insert(f"{int(self.now.timestamp()):08x}{PROCESS:010x}{known:06x}")
            elif self.gone and self.rng.random() < 0.15:
                self.insert(self.gone.pop(self.rng.randrange(len(self.gone))))
            elif len(self.documents) > 3 and self.rng.random() < 0.08:
                self.transaction(min(self.rng.randint(2, 3), changes - self.changes))
            elif self.documents:
                self.touch()
        self.look_up(last=True)
        return self.events

    def ddl(self, kind: str, description: Document) -> None:
        time = self.tick()
        key = "466F7065726174696F6E4465736372697074696F6E00"
        event = self.head(kind, time, 0, key) | {"operationDescription": description}
        self.events.append(event)

    def touch(self, time: tuple[int, int] | None = None, place: int = 0) -> None:
        """Change or delete one document; with ``time`` as part of a transaction."""
        key = self.rng.choice(sorted(self.documents))
        kind = self.rng.random()
        if time is None and kind < 0.12:
            self.gone.append(key)
            before = self.documents.pop(key)
            self.write("delete", key, before)
        elif kind < 0.2:
            before = self.documents[key]
            self.documents[key] = self.profile(key, before["created_at"])
            document = copy.deepcopy(self.documents[key])
            self.write("replace", key, before, time, place, fullDocument=document)
        else:
            before = copy.deepcopy(self.documents[key])
            description = self.edit(self.documents[key])
            self.write("update", key, before, time, place, updateDescription=description)

    def insert(self, key: str) -> None:
        self.documents[key] = self.profile(key, None)
        self.write("insert", key, fullDocument=copy.deepcopy(self.documents[key]))

    def transaction(self, size: int) -> None:
        """Some changes that share one cluster time."""
        self.transactions += 1
        time = self.tick()
        for place in range(size):
            self.touch(time, place)

    def profile(self, key: str, created_at: Document | None) -> Document:
        """A whole new document of a user."""
        rng = self.rng
        name = rng.choice(NAMES)
        city, code = rng.choice(CITIES)
        made: Document = {"_id": {"$oid": key}, "name": name, "status": rng.choice(STATUSES)}
        if rng.random() < 0.85:
            made["email"] = f"user{int(key, 16) % 9973}@example.org"
        if rng.random() < 0.9:
            made["level"] = rng.randint(1, 9)
        made["balance"] = {"$numberDecimal": f"{rng.randint(-500, 90_000) / 100:.2f}"}
        if rng.random() < 0.85:
            made["address"] = {"city": city, "zip": code}
        made["tags"] = rng.sample(["vip", "beta", "staff", "press"], rng.randint(0, 3))
        made["preferences"] = {"theme": rng.choice(["dark", "light"]), "newsletter": True}
        if rng.random() < 0.4:
            made["devices"] = [{"os": rng.choice(["ios", "android"]), "seen": _date(self.now)}]
        if rng.random() < 0.3:
            made["phone"] = rng.choice([None, "+351 210 000 000"])
        if rng.random() < 0.2:
            made["visits"] = {"$numberLong": str(2**53 + rng.randint(1, 99))}
            made["score"] = round(rng.random(), 3)
        made["created_at"] = created_at or _date(self.now)
        made["updated_at"] = _date(self.now)
        return made

    def edit(self, document: Document) -> Document:
        """Change some fields of the document in place; the event's ``updateDescription``."""
        rng = self.rng
        updated: Document = {}
        removed: list[str] = []
        truncated: list[Document] = []
        for kind in rng.sample(sorted(EDITS), rng.randint(1, 3)):
            EDITS[kind](rng, document, updated, removed, truncated)
        if rng.random() < 0.9:
            updated["updated_at"] = document["updated_at"] = _date(self.now)
        described = {"updatedFields": updated, "removedFields": removed}
        return copy.deepcopy(described | {"truncatedArrays": truncated})

    def write(
        self,
        kind: str,
        key: str,
        before: Document | None = None,
        time: tuple[int, int] | None = None,
        place: int = 0,
        **fields: Any,
    ) -> None:
        """Write down the event of a change that was made just now."""
        changed = _text(kind)
        where = f"463C6F7065726174696F6E54797065003C{changed}0046646F63756D656E744B657900"
        token_end = f"{where}46645F69640064{key.upper()}0000"
        event = self.head(kind, time or self.tick(), place, token_end)
        event |= {"documentKey": {"_id": {"$oid": key}}, **fields}
        if time is not None:
            event["txnNumber"] = self.transactions
            event["lsid"] = {"id": {"$uuid": "0f5e1c52-9d47-4a57-9a55-2a7f41a0c1de"}}
        if kind != "insert":
            kept = self.now >= PRE_IMAGES_FROM
            event["fullDocumentBeforeChange"] = copy.deepcopy(before) if kept else None
        if kind == "update" and self.now >= LOOKUP_FROM:
            late = self.rng.random() < 0.4
            lag = self.rng.randint(1, MAX_LAG) if late else 0
            self.lookups.append((len(self.events), self.changes + 1 + lag))
        self.events.append(event)
        self.changes += 1
        self.look_up()

    def look_up(self, last: bool = False) -> None:
        """Give those updates their documents whose lookup is due."""
        due = [lookup for lookup in self.lookups if last or lookup[1] <= self.changes]
        for index, _ in due:
            key = self.events[index]["documentKey"]["_id"]["$oid"]
            self.events[index]["fullDocument"] = copy.deepcopy(self.documents.get(key))
        self.lookups = [lookup for lookup in self.lookups if lookup not in due]

    def tick(self) -> tuple[int, int]:
        """The next cluster time: seconds and the ordinal within that second."""
        if self.rng.random() < 0.85:
            self.now += timedelta(milliseconds=self.rng.randint(50, self.longest_gap_ms))
        second = int(self.now.timestamp())
        self.ordinal = self.ordinal + 1 if second == self.second else 1
        self.second = second
        return second, self.ordinal

    def head(self, kind: str, time: tuple[int, int], place: int, token_end: str) -> Document:
        second, ordinal = time
        number = f"2B{place * 2:02X}" if place else "29"
        token = f"82{second:08X}{ordinal:08X}2B042C0100{number}6E5A1004{UUID.upper()}"
        return {
            "_id": {"_data": f"{token}{token_end}04"},
            "operationType": kind,
            "clusterTime": {"$timestamp": {"t": second, "i": ordinal}},
            "wallTime": _date(self.now),
            "collectionUUID": {"$uuid": f"{UUID[:8]}-{UUID[8:12]}-{UUID[12:16]}-{UUID[16:20]}-"
                               f"{UUID[20:]}"},
            "ns": {"db": "app", "coll": "user_profile"},
        }  # fmt: skip


# Edits: each changes the document in place and writes down what it did as MongoDB reports it


def _status(rng: random.Random, document: Document, updated: Document, *_: Any) -> None:
    document["status"] = updated["status"] = _other(rng, STATUSES, document["status"])


def _level(rng: random.Random, document: Document, updated: Document, *_: Any) -> None:
    document["level"] = updated["level"] = document.get("level", 0) + rng.randint(1, 2)


def _balance(rng: random.Random, document: Document, updated: Document, *_: Any) -> None:
    amount = {"$numberDecimal": f"{rng.randint(0, 99_999) / 100:.2f}"}
    document["balance"] = updated["balance"] = amount


def _address(
    rng: random.Random, document: Document, updated: Document, removed: list[str], *_: Any
) -> None:
    city, code = rng.choice(CITIES)
    if "address" not in document or rng.random() < 0.2:
        document["address"] = updated["address"] = {"city": city, "zip": code}
    elif "zip" in document["address"] and rng.random() < 0.3:
        del document["address"]["zip"]
        removed.append("address.zip")
    elif "city" in document["address"] and rng.random() < 0.2:
        del document["address"]["city"]
        removed.append("address.city")
    else:
        city = _other(rng, [item for item, _ in CITIES], document["address"].get("city"))
        document["address"]["city"] = updated["address.city"] = city


def _email(
    rng: random.Random, document: Document, updated: Document, removed: list[str], *_: Any
) -> None:
    if "email" in document and rng.random() < 0.5:
        del document["email"]
        removed.append("email")
    else:
        document["email"] = updated["email"] = f"new{rng.randint(1, 999)}@example.org"


def _tags(
    rng: random.Random,
    document: Document,
    updated: Document,
    removed: list[str],
    truncated: list[Document],
) -> None:
    tags = document["tags"]
    if len(tags) > 1 and rng.random() < 0.5:
        del tags[1:]
        truncated.append({"field": "tags", "newSize": 1})
    else:
        updated[f"tags.{len(tags)}"] = "added"
        tags.append("added")


def _undeclared(
    rng: random.Random, document: Document, updated: Document, removed: list[str], *_: Any
) -> None:
    if document.get("devices", [{"os": "web"}])[0]["os"] != "web":
        document["devices"][0]["os"] = updated["devices.0.os"] = "web"
    elif "phone" in document and rng.random() < 0.5:
        del document["phone"]
        removed.append("phone")
    else:
        theme = _other(rng, ["dark", "light", "system"], document["preferences"]["theme"])
        document["preferences"]["theme"] = updated["preferences.theme"] = theme


EDITS = {
    "address": _address,
    "balance": _balance,
    "email": _email,
    "level": _level,
    "status": _status,
    "tags": _tags,
    "undeclared": _undeclared,
}


def _other(rng: random.Random, values: Sequence[str], now: str | None) -> str:
    """One of the values that is not the present one: setting that would be no change."""
    return rng.choice([value for value in values if value != now])


def _date(time: datetime) -> Document:
    return {"$date": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"}


def _text(text: str) -> str:
    return text.encode().hex().upper()


def lines(
    seed: int = SEED,
    users: int = USERS,
    changes: int = CHANGES,
    longest_gap_ms: int = LONGEST_GAP_MS,
) -> list[bytes]:
    """The events as the sink writes them, a line each, without newlines.

    Args:
        longest_gap_ms: most milliseconds between two cluster times, half of it on average.
    """
    events = Collection(seed, longest_gap_ms).run(users, changes)
    return [
        json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() for event in events
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the sample below a landing folder."""
    parser = argparse.ArgumentParser(prog="generate_mongodb", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the landing folder")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--changes", type=int, default=CHANGES)
    options = parser.parse_args(arguments)
    target = options.folder / "topics" / "mongo_app" / "partition=0"
    target.mkdir(parents=True, exist_ok=True)
    written = lines(options.seed, options.users, options.changes)
    content = b"".join(number + b"\n" for number in written)
    path = target / "mongo_app+0+0000000000.jsonl.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    print(f"{len(written)} events, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
