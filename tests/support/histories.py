"""Random change logs with everything in them that makes a warehouse go wrong.

`generate` plays a chaotic order workload against a table in memory and writes down what Maxwell
would have written about it; the table itself is returned too, as the answer to compare with.
`deliver` then mistreats the log on its way (repeats, disorder, late arrival), and `write_batch`
puts what arrived into landing files. Everything follows from the seed: a failing seed is a
reproducible test case.

Longer than 500 lines: what is generated, delivered and written shares the seed and the shape of
a message.
"""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

Row = dict[str, Any]
Message = tuple[int, bytes]

MAX_UNSIGNED = 2**64 - 1
MAX_AMOUNT = Decimal("9999999999.99")
ZERO_TIME = "0000-00-00 00:00:00.000"
EPOCH = datetime(1970, 1, 1)
ZONE = timedelta(hours=8)
FIRST_DAY = date(2026, 3, 1)
FIRST_OF_GAPS = date(2018, 3, 1)  # years go by, all of them before now

# Days from one played day to the next, where they aren't neighbours.
GAPS = (1, 1, 2, 9, 28, 31, 62, 200)

# Binlog numbers to start from: each soon gains a digit, where text order goes wrong.
FIRST_BINLOGS = (1, 8, 98, 999998)
# A statement's rows are split into events of about this many rows, each with its own position.
ROWS_PER_EVENT = 8

ORDER_COLUMNS = (
    ("order_id", "bigint unsigned not null primary key"),
    ("user_id", "bigint unsigned null"),
    ("product_type", "varchar(20) not null"),
    ("plat_name", "varchar(40) null"),
    ("ref_id", "bigint null"),
    ("amount", "decimal(12,2) not null"),
    ("order_status", "int not null"),
    ("biz_status", "varchar(30) null"),
    ("comment", "text null"),
    ("create_time", "datetime(3) null"),
    ("update_time", "datetime(3) null"),
    ("dispatch_time", "datetime(3) null"),
    ("decision_time", "datetime(3) null"),
    ("finish_time", "datetime null"),
)

# Neighbours above 2^53 that a double would merge, and both ends of the range.
USERS = (None, 0, 1, 7, 8, 2**53, 2**53 + 1, 2**63 - 1, 2**63, MAX_UNSIGNED - 1, MAX_UNSIGNED)
BIZ_STATUSES = (
    None, "", "created", "paid", "in_trip", "closed ", "Cancelled", "cancelled", "null", "已完成",
    "\U0001f600", "it's \"ok\" \\", "{{ status }} %s", "a\nb",
)  # fmt: skip
TEXTS = (
    None,
    "",
    " ",
    "null",
    "NULL",
    "\\N",
    "trailing   ",
    "he said \"hi\" and 'bye'",
    'C:\\temp\\new \\u0041 \\"',
    "line1\nline2\r\nline3\ttab",
    "ctrl \x01\x1f\x7f",
    "\u2028 line sep \u2029 next \x85 line",
    "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467 family \U0001d54c\U0001d55f",
    "中文，全角！ é",
    "{{ ref('orders') }} {% raw %} {# note #} ${HOME} %s %(name)s %d 100%",
    '\'; drop table orders; -- /* select * from t where a = "b" */',
    '{"a": [1, null, "x"], "old": {"biz_status": null}}',
    '"old":{"amount":1.00},"commit":true',
    "a,b;c|d\te",
    "<b>&amp;</b>",
    "1e400",
    "0000-00-00",
    "x" * 300,
)
AMOUNTS = tuple(
    Decimal(text) for text in ("0.00", "0.01", "10.50", "99.90", "1000.00", str(MAX_AMOUNT))
)

SHORT_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f",
}  # fmt: skip
ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')


@dataclass(frozen=True)
class History:
    """A change log and what it adds up to.

    lines: Maxwell messages in binlog order, without line feeds; all different.
    rows: the order table after the last message: order_id -> row (int, Decimal, str, None).
    days: the business days played, in order. A transaction that was open over the first midnight
        may date its rows to the day before.
    reset_at: number of the lines before the binlog restarted; None where it didn't.
    """

    lines: list[bytes]
    rows: dict[int, Row]
    days: list[date]
    reset_at: int | None = None


def generate(
    seed: int,
    days: int = 10,
    keys: int = 40,
    tenant: int | None = None,
    gaps: bool = False,
    wide: bool = False,
    *,
    reset: bool = False,
) -> History:
    """Return a history of `days` business days over at most `keys` order ids.

    The same arguments give the same bytes. Raises ValueError when days < 1 or keys < 3 (a key
    swap takes two rows and a free key).

    tenant: number of the history among others that are played into one table: it has order ids,
        users and binlog files of its own; the null user and the greatest one it shares.
    gaps: days aren't neighbours; months and years go by between some of them.
    wide: more of what is written beside the orders: addresses whose order changes, coupons that
        are used for orders.
    reset: between two days, somewhere in the middle, the server begins its binlog again (RESET
        MASTER), at the number that it began with or at one behind it that it has come to.
    """
    if days < 1 or keys < 3:
        raise ValueError(f"generate: days must be >= 1 and keys >= 3, got {days} and {keys}")
    return _Workload(Random(seed), keys, tenant, wide).play(days, gaps, reset)


def pack(seeds: Sequence[int], batches: int, **options: Any) -> list[list[Message]]:
    """Play a history per seed into one table and deliver them together.

    options: of `generate`; each history is one tenant. Returns what `deliver` does: batches of
    (offset, line), each with its share of every history.
    """
    arriving: list[list[bytes]] = [[] for _ in range(batches)]
    for tenant, seed in enumerate(seeds):
        history = generate(seed, tenant=tenant, **options)
        late_files = tenant % 2 == 1
        delivered = deliver(history, seed, batches=batches, late_files=late_files)
        for number, batch in enumerate(delivered):
            arriving[number] += [line for _, line in batch]
    offset, packed = 0, []
    for lines in arriving:
        packed.append(list(enumerate(lines, offset)))
        offset += len(lines)
    return packed


def deliver(
    history: History,
    seed: int,
    duplicates: bool = True,
    shuffle: bool = True,
    batches: int = 5,
    late: bool = True,
    *,
    late_files: bool = False,
) -> list[list[Message]]:
    """Deliver a history in batches of (offset, line) and return them in order of arrival.

    Every message arrives at least once; offsets 0, 1, 2, .. number the arrivals, each once.

    duplicates: the producer sends some messages again, single messages and whole runs, at new
        offsets, in the same batch or a later batch.
    shuffle: messages of a batch come in any order.
    late: some messages are held back and arrive with a later batch.
    late_files: some stretches of offsets show up a batch late, after higher offsets, as when one
        task of a sink lags behind.
    batches: number of batches, >= 1; a batch may turn out empty. Raises ValueError.
    """
    if batches < 1:
        raise ValueError(f"deliver: batches must be >= 1, got {batches}")
    random = Random(seed)
    count = len(history.lines)
    cuts = sorted(random.randint(0, count) for _ in range(batches - 1))
    bounds = [0, *cuts, count]
    arriving: list[list[bytes]] = [[] for _ in range(batches)]
    for batch in range(batches):
        for line in history.lines[bounds[batch] : bounds[batch + 1]]:
            held_back = late and batch + 1 < batches and random.random() < 0.05
            arriving[random.randint(batch + 1, batches - 1) if held_back else batch].append(line)

    if duplicates:
        sent = [list(lines) for lines in arriving]
        for batch, lines in enumerate(sent):
            for line in lines:
                if random.random() < 0.03:
                    arriving[random.randint(batch, batches - 1)].append(line)
            if lines and random.random() < 0.7:
                # A producer that restarts sends what it sent since its last saved position.
                start = random.randrange(len(lines))
                again = lines[start : start + random.randint(1, 60)]
                arriving[random.randint(batch, batches - 1)].extend(again)

    delivered: list[list[Message]] = []
    offset = 0
    for lines in arriving:
        if shuffle:
            random.shuffle(lines)
        delivered.append(list(enumerate(lines, offset)))
        offset += len(lines)

    if late_files:
        for batch in range(batches - 1):
            messages = delivered[batch]
            if len(messages) > 2:
                start = random.randrange(len(messages) - 1)
                end = random.randint(start + 1, len(messages) - 1)
                delivered[batch + 1].extend(messages[start:end])
                del messages[start:end]
    return delivered


def deliver_by_day(history: History, seed: int, late_by: int = 7) -> list[tuple[date, bytes]]:
    """Deliver a history with gaps that heal: (day of arrival, line), in no order.

    A message arrives on its own day. Some single messages and some stretches of the log, as when a
    producer was down, are missing and are issued again 1 to `late_by` days later; others that were
    there are issued again all the same.
    """
    random = Random(seed)
    count = len(history.lines)
    own = [_day_of(line) for line in history.lines]
    delay = [0 if random.random() < 0.98 else random.randint(1, late_by) for _ in own]
    for _ in range(random.randint(1, 3)):
        start, missing_for = random.randrange(count), random.randint(1, late_by)
        for place in range(start, min(count, start + random.randint(1, 60))):
            delay[place] = missing_for
    arriving = [
        (day + timedelta(days=late), line)
        for day, late, line in zip(own, delay, history.lines, strict=True)
    ]
    again = [place for place in range(count) if random.random() < 0.03]
    start = random.randrange(count)
    again += range(start, min(count, start + random.randint(1, 60)))
    for place in again:
        day = own[place] + timedelta(days=delay[place] + random.randint(0, late_by))
        arriving.append((day, history.lines[place]))
    random.shuffle(arriving)
    return arriving


def import_again(
    lines: Sequence[bytes], days: Sequence[date], seed: int, corrected: float = 0.2
) -> list[bytes]:
    """The orders' messages of some business days once more, of which some now say something else.

    corrected: share of messages whose rows have another user, status, amount, time or, seldom,
        order, after the change or before it. They stand where they stood in the log.
    """
    random = Random(seed)
    again = []
    for line in sorted(set(lines)):
        if b'"table":"order_info","type":"' not in line or _day_of(line) not in days:
            continue
        message = json.loads(line, parse_float=Decimal)
        if message["type"] in ("insert", "update", "delete") and random.random() < corrected:
            _correct(message, random)
        again.append(_encode(message).encode())
    random.shuffle(again)
    return again


def _correct(message: Row, random: Random) -> None:
    """Let a message say something else of its row than it did."""
    name, values = random.choices(
        (
            ("user_id", USERS),
            ("biz_status", BIZ_STATUSES),
            ("amount", AMOUNTS),
            ("update_time", (None, ZERO_TIME, "2026-03-02 10:00:00.000")),
            ("order_id", (message["data"]["order_id"] ^ 1,)),
        ),
        (30, 30, 20, 15, 5),
    )[0]
    image = message["data"]
    if name in message.get("old", {}) and random.random() < 0.5:
        image = message["old"]
    image[name] = random.choice(values)


def _day_of(line: bytes) -> date:
    """Return the business day of a message's binlog time."""
    seconds = json.loads(line)["ts"]
    # DDL has milliseconds
    seconds = seconds // 1000 if seconds > 10**11 else seconds
    return (EPOCH + timedelta(seconds=seconds) + ZONE).date()


def write_batch(
    landing_dir: Path,
    batch: Sequence[Message],
    topic: str = "maxwell",
    partition: int = 0,
    max_lines: int = 500,
) -> list[Path]:
    """Write a batch as landing files and return their paths, in offset order.

    A file holds consecutive offsets, at most `max_lines` of them, and is named by the first line:
    topics/<topic>/partition=<n>/<topic>+<n>+<offset>.jsonl or, every other file, .jsonl.gz.
    Raises FileExistsError rather than write an offset's file twice.
    """
    folder = Path(landing_dir) / "topics" / topic / f"partition={partition}"
    folder.mkdir(parents=True, exist_ok=True)
    files: list[list[Message]] = []
    for message in sorted(batch, key=lambda message: message[0]):
        follows = files and files[-1][-1][0] + 1 == message[0] and len(files[-1]) < max_lines
        if follows:
            files[-1].append(message)
        else:
            files.append([message])
    already_there = sum(1 for _ in folder.iterdir())
    paths = []
    for number, messages in enumerate(files, already_there):
        packed = number % 2 == 1
        suffix = ".jsonl.gz" if packed else ".jsonl"
        path = folder / f"{topic}+{partition}+{messages[0][0]:010d}{suffix}"
        content = b"".join(line + b"\n" for _, line in messages)
        with path.open("xb") as stream:
            stream.write(gzip.compress(content, mtime=0) if packed else content)
        paths.append(path)
    return paths


@dataclass
class _Statement:
    """The row events of one statement: (type, data, old) each, all of one table."""

    time: datetime
    database: str
    table: str
    events: list[tuple[str, Row, Row | None]]


class _Workload:
    """The order table, its clock and its binlog."""

    def __init__(
        self, random: Random, keys: int, tenant: int | None = None, wide: bool = False
    ) -> None:
        self.random, self.wide = random, wide
        self.tenant = tenant
        self.users = USERS
        if tenant is not None:
            own = [1000 * (tenant + 1) + number for number in range(6)]
            self.users = (None, MAX_UNSIGNED, MAX_UNSIGNED - 1 - tenant, *own)
        self.lines: list[bytes] = []
        self.rows: dict[int, Row] = {}
        self.key_pool = self._choose_keys(keys)
        self.addresses: dict[int, Row] = {}
        self.prices: dict[int, Row] = {}
        self.coupons: dict[tuple[int, str], Row] = {}
        self.binlog = random.choice(FIRST_BINLOGS)
        if tenant is not None:
            self.binlog = 1 + 1000 * tenant
        self.pos = 120
        self.next_xid = random.randint(200, 900)
        self.spare_xids: list[int] = []
        self.now = datetime.combine(FIRST_DAY, datetime.min.time())
        self.transaction: list[_Statement] = []

    def play(self, days: int, gaps: bool = False, reset: bool = False) -> History:
        """Run the workload and return its history."""
        played = [FIRST_OF_GAPS if gaps else FIRST_DAY]
        while len(played) < days:
            gap = self.random.choice(GAPS) if gaps else 1
            played.append(played[-1] + timedelta(days=gap))
        # One day in mid-history without a single order: an empty partition.
        quiet = self.random.randrange(2, days) if days > 3 else None
        first_binlog, reset_at = self.binlog, None
        reset_on = self.random.randrange(1, days) if reset else None
        self._write_schema()
        for number, day in enumerate(played):
            if number == reset_on:
                last_binlog = int(re.split("[.:]", json.loads(self.lines[-1])["position"])[1])
                self.binlog = self.random.randint(first_binlog, last_binlog)
                self.pos, reset_at = 120, len(self.lines)
            midnight = datetime.combine(day, datetime.min.time())
            transactions = self.random.randint(12, 30)
            seconds = sorted(self.random.uniform(0, 86399) for _ in range(transactions))
            # Keep close to both ends of the day, where the cut is decided.
            seconds[0], seconds[-1] = self.random.uniform(0, 3), self.random.uniform(86395, 86399)
            for second in seconds:
                self.now = _to_milliseconds(midnight + timedelta(seconds=second))
                self._play_transaction(orders=number != quiet)
            if number == days // 2:
                self._write_alter()
            if self.random.random() < 0.6:
                self.binlog, self.pos = self.binlog + 1, 120
        return History(self.lines, self.rows, played, reset_at)

    # Transactions

    def _play_transaction(self, orders: bool) -> None:
        """Run one transaction of one to six steps and write it to the log."""
        steps = self.random.choice((1, 1, 1, 2, 3, 4, 6))
        committed_at = self.now
        # The binlog shows a transaction when it commits, but dates its rows by their statements:
        # so a long one steps back in time, at times to before midnight.
        open_for = self.random.choice((0, 0, 0, 2, 90, 7200))
        for left in range(steps, 0, -1):
            self.now = committed_at - timedelta(seconds=open_for * (left - 1) / steps)
            self.now = _to_milliseconds(self.now)
            if open_for and left == steps:
                self.now -= timedelta(seconds=self.random.randint(0, open_for))
            if orders and self.random.random() < (0.5 if self.wide else 0.8):
                self._pick_order_step()()
            else:
                self._pick_other_step()()
        self.now = committed_at
        self._commit()

    def _pick_order_step(self) -> Callable[[], None]:
        """Choose what to do to the order table next."""
        if len(self.rows) < 3:
            return self._insert
        weighted = (
            (self._insert, 20),
            (self._advance, 22),
            (self._change_amount, 8),
            (self._change_user, 8),
            (self._change_irrelevant, 8),
            (self._flip_null, 10),
            (self._burst, 5),
            (self._update_many, 5),
            (self._change_key, 6),
            (self._swap_keys, 4),
            (self._delete, 7),
            (self._delete_and_insert, 6),
        )
        steps, weights = zip(*weighted, strict=True)
        return self.random.choices(steps, weights)[0]

    def _pick_other_step(self) -> Callable[[], None]:
        """Choose what to do to another table next."""
        if self.wide:
            return self.random.choice((self._touch_address, self._move_address, self._touch_coupon))
        return self.random.choice(
            (self._touch_address, self._touch_address, self._touch_price, self._log, self._archive)
        )

    # The order table

    def _insert(self) -> None:
        """Insert one to three orders, in one statement."""
        free = [key for key in self.key_pool if key not in self.rows]
        if not free:
            self._delete()
            return
        chosen = self.random.sample(free, min(len(free), self.random.choice((1, 1, 1, 2, 3))))
        self._write_orders([("insert", self._new_row(key), None) for key in chosen])

    def _new_row(self, key: int) -> Row:
        """Put a new order into the table and return its image."""
        self.rows[key] = {
            "order_id": key,
            "user_id": self.random.choice(self.users),
            "product_type": self.random.choice(("taxi", "pool", "express", "freight")),
            "plat_name": self.random.choice((None, "app", "京东", "TikTok")),
            "ref_id": self.random.choice((None, 0, -1, 12345, 2**53 + 1)),
            "amount": self._any_amount(),
            "order_status": 10,
            "biz_status": self.random.choice(("created", "created", *BIZ_STATUSES)),
            "comment": self.random.choice(TEXTS),
            "create_time": self.random.choice((*[_text(self.now)] * 8, ZERO_TIME, None)),
            "update_time": self._stamp(_text(self.now)),
            "dispatch_time": None,
            "decision_time": None,
            "finish_time": None,
        }
        return dict(self.rows[key])

    def _update(self, key: int, **changes: Any) -> list[tuple[str, Row, Row | None]]:
        """Update one order; no event when no value changes, as in the real log."""
        row = self.rows[key]
        old = {name: row[name] for name in row if name in changes and row[name] != changes[name]}
        if not old:
            return []
        del self.rows[key]
        row = {name: changes.get(name, value) for name, value in row.items()}
        self.rows[row["order_id"]] = row
        return [("update", dict(row), old)]

    def _advance(self) -> None:
        """Move an order on to another status."""
        key = self._any_key()
        changes = {
            "order_status": self.random.choice((10, 20, 30, 40, 99)),
            "biz_status": self.random.choice(BIZ_STATUSES),
        }
        moved = self.random.choice(("dispatch_time", "decision_time", "finish_time"))
        stamp = self.random.choice((*[_text(self.now)] * 6, ZERO_TIME))
        # finish_time has no fraction of a second.
        changes[moved] = stamp[:19] if moved == "finish_time" else stamp
        self._write_orders(self._update(key, **changes, **self._update_time(key)))

    def _change_amount(self) -> None:
        """Change the amount, now and then to the same amount: a no-op."""
        key = self._any_key()
        changes = {"amount": self._any_amount(), **self._update_time(key)}
        self._write_orders(self._update(key, **changes))

    def _change_user(self) -> None:
        """Hand an order to another user, or to none."""
        key = self._any_key()
        changes = {"user_id": self.random.choice(self.users), **self._update_time(key)}
        self._write_orders(self._update(key, **changes))

    def _change_irrelevant(self) -> None:
        """Change what no count looks at."""
        key = self._any_key()
        changes: Row = {"comment": self.random.choice(TEXTS)}
        if self.random.random() < 0.5:
            changes["plat_name"] = self.random.choice((None, "app", "mini"))
        if self.random.random() < 0.5:
            changes |= self._update_time(key)
        self._write_orders(self._update(key, **changes))

    def _flip_null(self) -> None:
        """Turn a value into null, or null into a value; now and then back at once."""
        key = self._any_key()
        name, values = self.random.choice((("user_id", self.users), ("biz_status", BIZ_STATUSES)))
        before = self.rows[key][name]
        after = None if before is not None else self.random.choice(values[1:])
        self._write_orders(self._update(key, **{name: after}, **self._update_time(key)))
        if self.random.random() < 0.5:
            self._write_orders(self._update(key, **{name: before}, **self._update_time(key)))

    def _burst(self) -> None:
        """Update one order several times within the same second."""
        key = self._any_key()
        for _ in range(self.random.randint(2, 4)):
            changes = {"biz_status": self.random.choice(BIZ_STATUSES), **self._update_time(key)}
            self._write_orders(self._update(key, **changes))

    def _update_many(self) -> None:
        """Update many orders in one statement."""
        chosen = self.random.sample(sorted(self.rows), self.random.randint(2, len(self.rows)))
        status = self.random.choice(BIZ_STATUSES)
        events = []
        for key in chosen:
            events += self._update(key, biz_status=status, update_time=_text(self.now))
        self._write_orders(events)

    def _change_key(self) -> None:
        """Give an order another id: one update, with the old id in `old`."""
        free = [key for key in self.key_pool if key not in self.rows]
        if free:
            key = self._any_key()
            changes = {"order_id": self.random.choice(free), **self._update_time(key)}
            self._write_orders(self._update(key, **changes))

    def _swap_keys(self) -> None:
        """Swap the ids of two orders, by way of a free one, in one transaction."""
        free = [key for key in self.key_pool if key not in self.rows]
        if free:
            left, right = self.random.sample(sorted(self.rows), 2)
            between = self.random.choice(free)
            for key, new_key in ((left, between), (right, left), (between, right)):
                self._write_orders(self._update(key, order_id=new_key))

    def _delete(self) -> None:
        """Delete one or two orders."""
        chosen = self.random.sample(sorted(self.rows), self.random.choice((1, 1, 2)))
        self._write_orders([("delete", self.rows.pop(key), None) for key in chosen])

    def _delete_and_insert(self) -> None:
        """Delete an order and insert its id again in the same transaction."""
        key = self._any_key()
        self._write_orders([("delete", self.rows.pop(key), None)])
        self._write_orders([("insert", self._new_row(key), None)])

    def _update_time(self, key: int) -> Row:
        """Return the update_time part of an update: mostly now, at times not moved or absurd."""
        return {"update_time": self._stamp(self.rows[key]["update_time"])}

    def _stamp(self, unmoved: str | None) -> str | None:
        """Return an update_time for a change made now; `unmoved` is the time it had before."""
        # The log's time is in whole seconds; a day after it is the last time that is believed.
        logged = self.now.replace(microsecond=0)
        return self.random.choices(
            (
                _text(self.now),
                unmoved,
                _text(_to_milliseconds(self.now - timedelta(hours=self.random.uniform(0, 2)))),
                _text(_to_milliseconds(self.now + timedelta(hours=self.random.uniform(0, 23)))),
                _text(logged + timedelta(hours=24)),
                _text(logged + timedelta(hours=24, milliseconds=1)),
                "9999-12-31 23:59:59.999",
                "2038-01-19 03:14:08.000",
                "1970-01-01 08:00:00.000",
                ZERO_TIME,
                None,
            ),
            (70, 8, 8, 2, 1, 1, 2, 1, 1, 3, 3),
        )[0]

    def _any_key(self) -> int:
        """Return the id of some order in the table."""
        return self.random.choice(sorted(self.rows))

    def _any_amount(self) -> Decimal:
        """Return an amount that decimal(12,2) can hold, never negative."""
        if self.random.random() < 0.5:
            return self.random.choice(AMOUNTS)
        return Decimal(self.random.randint(0, 99999)).scaleb(-2)

    def _choose_keys(self, count: int) -> list[int]:
        """Return `count` order ids, with both ends and neighbours above 2^53 among them."""
        if self.tenant is not None:
            return [2**63 + 1000 * self.tenant + number for number in range(count)]
        chosen = [MAX_UNSIGNED, 1, MAX_UNSIGNED - 1, 2**53, 2**53 + 1, 2**63, 2**63 - 1][:count]
        chosen += [7200000000000000000 + number for number in range(count - len(chosen))]
        self.random.shuffle(chosen)
        return chosen

    # Other tables: nothing of them may leak into the orders

    def _touch_address(self) -> None:
        """Insert, update or delete in a table with the same key column."""
        key = self.random.choice(self.key_pool)
        stamp = _text(self.now)
        if key not in self.addresses:
            row = {"order_id": key, "start_city_name": "上海", "update_time": stamp}
            if self.wide:
                row["end_city_name"] = self.random.choice((None, "", "it's", "中文"))
            self.addresses[key] = row
            self._write("shop", "order_address", [("insert", dict(row), None)])
        elif self.random.random() < 0.3:
            row = self.addresses.pop(key)
            self._write("shop", "order_address", [("delete", row, None)])
        else:
            row = self.addresses[key]
            old = {"start_city_name": row["start_city_name"], "update_time": row["update_time"]}
            row |= {"start_city_name": f"city {self.random.random()}", "update_time": stamp}
            self._write("shop", "order_address", [("update", dict(row), old)])

    def _move_address(self) -> None:
        """Give an address to another order: one update, with the old order's id in `old`."""
        free = [key for key in self.key_pool if key not in self.addresses]
        if self.addresses and free:
            old = self.random.choice(sorted(self.addresses))
            row = self.addresses.pop(old) | {"order_id": self.random.choice(free)}
            self.addresses[row["order_id"]] = row
            self._write("shop", "order_address", [("update", dict(row), {"order_id": old})])

    def _touch_coupon(self) -> None:
        """Insert, update or delete a coupon; an update may use it, give it back, or change its
        key."""
        users = [user for user in self.users if user not in (None, MAX_UNSIGNED)]
        key = self.random.choice(users), f"C{self.random.randint(1, 3)}"
        row = self.coupons.pop(key, None)
        if row is not None and self.random.random() < 0.2:
            self._write("shop", "coupon", [("delete", row, None)])
            return
        new_key = self.random.choice(users), key[1]
        if row is None or new_key in self.coupons:
            new_key = key
        new = self.coupons[new_key] = self._coupon(new_key)
        if row is None:
            self._write("shop", "coupon", [("insert", dict(new), None)])
            return
        old = {name: row[name] for name in row if row[name] != new[name]}
        self._write("shop", "coupon", [("update", dict(new), old)] if old else [])

    def _coupon(self, key: tuple[int, str]) -> Row:
        """Return a coupon's image, used for some order or for none."""
        row = {
            "user_id": key[0],
            "coupon_code": key[1],
            "amount": Decimal(self.random.randint(0, 10**6)).scaleb(-4),
            "used_order": self.random.choice((None, *self.key_pool[:8])),
            "valid_until": None,
            "update_time": _text(self.now),
        }
        return row | {"state": "new" if row["used_order"] is None else "used"}

    def _touch_price(self) -> None:
        """Upsert several rows of a table without text in one statement."""
        events: list[tuple[str, Row, Row | None]] = []
        for key in self.random.sample(range(1, 40), self.random.randint(1, 20)):
            price = Decimal(self.random.randint(1, 10**8)).scaleb(-4)
            old = self.prices.get(key)
            self.prices[key] = {"product_id": key, "price": price}
            if old is None:
                events.append(("insert", dict(self.prices[key]), None))
            elif old["price"] != price:
                events.append(("update", dict(self.prices[key]), {"price": old["price"]}))
        # A statement writes either inserts or updates.
        for kind in ("insert", "update"):
            self._write("shop", "product_price", [event for event in events if event[0] == kind])

    def _log(self) -> None:
        """Insert into a table without a key."""
        row = {"kind": "login", "msg": "same", "at": _text(self.now)[:19]}
        self._write("shop", "audit_nopk", [("insert", row, None)])

    def _archive(self) -> None:
        """Insert into a table of the same name in another database."""
        if self.rows:
            row = dict(self.rows[self._any_key()])
            self._write("shop_archive", "order_info", [("insert", row, None)])

    # The log

    def _write_orders(self, events: list[tuple[str, Row, Row | None]]) -> None:
        """Add a statement on the order table to the open transaction."""
        self._write("shop", "order_info", events)

    def _write(self, database: str, table: str, events: list[tuple[str, Row, Row | None]]) -> None:
        """Add a statement to the open transaction; one that changed nothing leaves no trace."""
        if events:
            self.transaction.append(_Statement(self.now, database, table, events))

    def _commit(self) -> None:
        """Write the open transaction to the log, if anything was done in it."""
        count = sum(len(statement.events) for statement in self.transaction)
        xid = self._take_xid()
        number = 0
        for statement in self.transaction:
            for index, (kind, data, old) in enumerate(statement.events):
                if index % ROWS_PER_EVENT == 0:
                    self.pos += self.random.randint(90, 400)
                message: dict[str, Any] = {
                    "database": statement.database,
                    "table": statement.table,
                    "type": kind,
                    "ts": _epoch_seconds(statement.time),
                    "xid": xid,
                }
                number += 1
                # Only the last row of a transaction is marked, and it alone has no ordinal.
                message |= {"commit": True} if number == count else {"xoffset": number - 1}
                message |= {"position": self._position(), "data": data}
                if old is not None:
                    message["old"] = old
                self.lines.append(_encode(message).encode())
        self.transaction = []

    def _take_xid(self) -> int:
        """Return a transaction id: unique, but not always rising, as ids are taken at begin."""
        while len(self.spare_xids) < 3:
            self.next_xid += self.random.randint(1, 9)
            self.spare_xids.append(self.next_xid)
        return self.spare_xids.pop(self.random.randrange(3))

    def _position(self) -> str:
        """Return the current position, as Maxwell writes it."""
        return f"bin.{self.binlog:06d}:{self.pos}"

    def _write_schema(self) -> None:
        """Write the rows that describe new tables."""
        columns = ", ".join(f"{name} {kind}" for name, kind in ORDER_COLUMNS)
        self._write_ddl("database-create", "create database shop", charset="utf8mb4")
        self._write_ddl(
            "table-create",
            f"create table order_info({columns})",
            table="order_info",
            **{"def": _definition()},
        )

    def _write_alter(self) -> None:
        """Write the row that describes a changed table."""
        self._write_ddl(
            "table-alter",
            "alter table order_info\n add index k_biz(biz_status) /* \"old\": {'a': null} */",
            table="order_info",
            old=_definition(),
            **{"def": _definition()},
        )

    def _write_ddl(self, kind: str, sql: str, **fields: Any) -> None:
        """Write one DDL row. Its ts is in milliseconds, unlike that of other rows."""
        self.pos += self.random.randint(90, 400)
        message = {"type": kind, "database": "shop", **fields}
        message |= {"ts": _epoch_seconds(self.now) * 1000, "sql": sql}
        message["position"] = self._position()
        self.lines.append(_encode(message).encode())


def _definition() -> dict[str, Any]:
    """Return the order table's definition as DDL rows carry it."""
    columns = []
    for name, kind in ORDER_COLUMNS:
        type_name = re.match(r"\w+", kind).group()
        column: dict[str, Any] = {"type": type_name, "name": name}
        if type_name in ("bigint", "int"):
            column["signed"] = "unsigned" not in kind
        elif type_name in ("varchar", "text"):
            column["charset"] = "utf8mb4"
        elif type_name == "datetime":
            column["column-length"] = 3 if "(3)" in kind else 0
        columns.append(column)
    return {
        "database": "shop",
        "charset": "utf8mb4",
        "table": "order_info",
        "columns": columns,
        "primary-key": ["order_id"],
    }


def _encode(value: Any) -> str:
    """Encode as JSON the way Maxwell does.

    No blanks; decimals as bare numbers with their scale; characters beyond the basic plane and
    control characters as escapes with upper-case digits; everything else raw, U+2028 included.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{_encode(k)}:{_encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_encode(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + ESCAPED.sub(_escape, value) + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def _escape(match: re.Match[str]) -> str:
    """Return the JSON escape of one character."""
    character = match.group()
    if character in SHORT_ESCAPES:
        return SHORT_ESCAPES[character]
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def _to_milliseconds(time: datetime) -> datetime:
    """Cut a time to whole milliseconds, the precision of the order table."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def _text(time: datetime) -> str:
    """Return a datetime(3) in MySQL's text form."""
    return time.isoformat(sep=" ", timespec="milliseconds")


def _epoch_seconds(time: datetime) -> int:
    """Return the binlog's second of a business-local time."""
    return (time - ZONE - EPOCH) // timedelta(seconds=1)
