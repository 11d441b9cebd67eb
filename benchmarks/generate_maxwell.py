"""Generate large, realistic Maxwell logs of ``shop.order_info``.

The log has the layout a Kafka Connect file sink leaves behind::

    <folder>/topics/<topic>/partition=<n>/<topic>+<n>+<first offset, 10 digits>.jsonl[.gz]

Offsets are consecutive within a partition: a line's offset is the first offset in the name of
its file plus its index in the file. Every Kafka partition is simulated on its own, from a random
stream of its own, with orders of its own: hence the bytes written depend on the options alone and
never on the number of processes. All partitions read one and the same binlog: its files change
for all of them at the same time, and within a file partition ``n`` of ``p`` owns the positions
``= n (mod p)``, so positions are unique over the whole log, grow with time, and grow strictly
within a partition.

Usage::

    python -m benchmarks.generate_maxwell FOLDER --rows 2000000 --days 3 --late-share 0.01

Longer than 500 lines: it runs as one file, and a seed is one log, drawn by all parts in turn.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import gzip
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

# Business time is UTC+8: the datetime columns hold it, while ``ts`` is UTC.
BUSINESS_OFFSET_S = 8 * 3600
FIRST_ORDER_ID = 7_200_000_000_000_000_001  # Above 2**53: no double can hold these keys.

_ROWS_PER_FILE = 50_000  # Default size of a file of the sink.
_BINLOG_BYTES = 1 << 30  # max_binlog_size of a MySQL server.
_BINLOG_HEADER = 120  # The first event with rows stands behind the header events.
_ROW_BYTES = 400  # Upper estimate of the binlog bytes one row moves the position.
_MAX_OPEN = 100_000  # Open orders a partition holds in memory.
_ZIPF = 0.8  # Exponent of the users' popularity.

_INSERT_SHARE = 0.225
_INSERT_SHARE_GROWING = 0.38  # While there are fewer open orders than wanted.
_DELETE_SHARE = 0.01
_SIDE_SHARE = 0.1  # Updates that leave the status alone.
_SAME_STATEMENT_SHARE = 0.25
_LAG_SHARE = 0.1  # Transactions whose statements ran before those logged ahead of them.
_MAX_LAG_MS = 4000
_MAX_RESEND = 200  # Lines a restarted producer sends again in one go.


def _raw(text: str) -> str:
    """Return ``text`` with one character per UTF-8 byte.

    Lines are put together from such strings and encoded as Latin-1, a plain copy of memory.
    Ordinary strings with Chinese in them would double every buffer and slow the encoder down.
    """
    return text.encode("utf-8").decode("latin-1")


_PRODUCTS = ("taxi", "express", "pool", "luxury", "bike", "freight")
_PLATFORMS = tuple(
    _raw(text) for text in ('"app"', '"WeChat"', '"h5"', '"mini"', '"alipay"', '"京东"', "null")
)
_REFS = ("null", "null", "null", "0", "12345", "-1", "9007199254740993")
# JSON texts as Maxwell writes them: emoji as escapes, other scripts as they are.
_COMMENTS = tuple(
    _raw(text)
    for text in (
        '""',
        '" "',
        '"null"',
        '"中文，全角！"',
        '"a,b;c|d"',
        r'"he said \"hi\" and bye"',
        r'"line1\nline2"',
        r'"\uD83D\uDE00 thanks"',
        r'"back\\slash"',
        '"call before arrival"',
    )
)

_CREATED, _DISPATCHED, _ACCEPTED, _IN_TRIP, _FINISHED, _CANCELLED = range(6)
_STATUS = (
    '"order_status":10,"biz_status":"created"',
    '"order_status":20,"biz_status":"dispatched"',
    '"order_status":30,"biz_status":"accepted"',
    '"order_status":40,"biz_status":"in_trip"',
    '"order_status":50,"biz_status":"finished"',
    '"order_status":90,"biz_status":"cancelled"',
)
# Chance that an order in this status is cancelled next; it makes about three updates an order.
_CANCEL_SHARE = (0.22, 0.13, 0.06, 0.0)

_HEAD = '{"database":"shop","table":"order_info","type":"'
_INSERT, _UPDATE, _DELETE = (_HEAD + kind + '","ts":' for kind in ("insert", "update", "delete"))


class Generated(NamedTuple):
    """What was written: row changes, lines (rows and duplicates), files, bytes on disk."""

    rows: int
    lines: int
    files: int
    size: int


@dataclass(frozen=True)
class _Plan:
    """What one process needs to know to write one Kafka partition.

    ``rows`` and ``files`` are those of the partition; ``start`` is the first business day.
    """

    folder: Path
    topic: str
    partition: int
    partitions: int
    rows: int
    files: int
    binlogs: int
    seed: int
    start: dt.date
    days: int
    users: int
    late_share: float
    late_files: int
    duplicate_share: float
    compress: bool


class _Order:
    """The current image of an order: every column as the JSON text it has in the log."""

    __slots__ = (
        "amount",
        "comment",
        "create",
        "decision",
        "dispatch",
        "finish",
        "key",
        "platform",
        "product",
        "ref",
        "step",
        "update",
        "user",
    )

    key: int
    user: int
    product: str
    platform: str
    ref: str
    amount: str
    step: int
    comment: str
    create: str
    update: str
    dispatch: str
    decision: str
    finish: str

    def image(self) -> str:
        """Return the members of ``data``, without the braces."""
        return (
            f'"order_id":{self.key},"user_id":{self.user},"product_type":"{self.product}",'
            f'"plat_name":{self.platform},"ref_id":{self.ref},"amount":{self.amount},'
            f'{_STATUS[self.step]},"comment":{self.comment},"create_time":{self.create},'
            f'"update_time":{self.update},"dispatch_time":{self.dispatch},'
            f'"decision_time":{self.decision},"finish_time":{self.finish}'
        )


@lru_cache(maxsize=1)
def _clock_texts() -> tuple[list[str], list[str]]:
    """Return ``HH:MM:SS`` for each second of a day and ``.mmm`` for each millisecond."""
    seconds = [
        f"{hour:02d}:{minute:02d}:{second:02d}"
        for hour in range(24)
        for minute in range(60)
        for second in range(60)
    ]
    return seconds, [f".{milli:03d}" for milli in range(1000)]


def _user_picker(users: int, rnd: Callable[[], float]) -> Callable[[], int]:
    """Return a function that draws a user 1..``users``; user ``u`` has a weight near u**-0.8."""
    # The inverse of the distribution function needs no table, however many users there are.
    power = 1.0 / (1.0 - _ZIPF)
    scale = (users + 1) ** (1.0 - _ZIPF) - 1.0

    def pick() -> int:
        # Rounding may reach users + 1 when the draw is almost 1.
        return min(users, int((1.0 + rnd() * scale) ** power))

    return pick


def _progress(order: _Order, now: str, draw: float) -> str:
    """Move ``order`` one status on and return the members of ``old``.

    ``now`` is the quoted business time with milliseconds, ``draw`` a number in [0, 1).
    ``old`` has the changed columns only, in the order of the table.
    """
    step = order.step
    old = _STATUS[step]
    if order.update != now:
        old = f'{old},"update_time":{order.update}'
        order.update = now
    if draw < _CANCEL_SHARE[step]:
        order.step = _CANCELLED
        return old
    order.step = step + 1
    if step == _CREATED:
        order.dispatch = now
        return old + ',"dispatch_time":null'
    if step == _DISPATCHED:
        order.decision = now
        return old + ',"decision_time":null'
    if step == _IN_TRIP:
        order.finish = now[:20] + '"'  # This column has no fraction of a second.
        return old + ',"finish_time":null'
    return old


def _side_change(
    order: _Order, now: str, rnd: Callable[[], float], pick_user: Callable[[], int]
) -> str:
    """Change one column of ``order`` besides its status and return the members of ``old``."""
    draw = rnd()
    old = ""
    if draw < 0.2:
        amount = f"{5 + rnd() * 800:.2f}"
        if amount != order.amount:
            old = f'"amount":{order.amount}'
            order.amount = amount
    elif draw < 0.35:
        platform = _PLATFORMS[int(rnd() * len(_PLATFORMS))]
        if platform != order.platform:
            old = f'"plat_name":{order.platform}'
            order.platform = platform
    elif draw < 0.5:
        ref = _REFS[int(rnd() * len(_REFS))]
        if ref != order.ref:
            old = f'"ref_id":{order.ref}'
            order.ref = ref
    elif draw < 0.6:
        user = pick_user()
        if user != order.user:
            old = f'"user_id":{order.user}'
            order.user = user
    if not old:
        # A change of nothing leaves no trace in a binlog, so change the comment then.
        old = f'"comment":{order.comment}'
        if order.comment == "null":
            order.comment = _COMMENTS[int(rnd() * len(_COMMENTS))]
        else:
            order.comment = "null"
    if order.update != now:
        old = f'{old},"update_time":{order.update}'
        order.update = now
    return old


class _Sink:
    """The files of one partition, with the late and the repeated lines put among the others.

    It draws from a random stream of its own, so the shares change where lines stand and how
    often, but never the changes themselves.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._random = random.Random(f"{plan.seed}/{plan.partition}/sink")
        self._directory = plan.folder / "topics" / plan.topic / f"partition={plan.partition}"
        self._late = round(plan.late_share * plan.rows)
        self._late_done = 0
        self._repeats = round(plan.duplicate_share * plan.rows)
        self._repeats_done = 0
        self._coming: dict[int, list[list[str]]] = {}  # File -> runs of lines that go there.
        self._file = 0
        self.lines = 0
        self.files = 0
        self.size = 0

    def write(self, lines: list[str]) -> None:
        """Write the next file, whose place in the log is that of ``lines``."""
        rng, plan, file = self._random, self._plan, self._file
        lines = self._hold_back(lines)
        inserts: list[tuple[int, list[str]]] = []
        last = plan.files - 1
        due = self._repeats * (file + 1) // plan.files - self._repeats_done
        while due > 0 and lines:
            first = rng.randrange(len(lines))
            run = lines[first : first + min(due, rng.randint(1, _MAX_RESEND))]
            due -= len(run)
            self._repeats_done += len(run)
            target = min(last, file + rng.choice((0, 0, rng.randint(1, plan.late_files))))
            if target == file:
                inserts.append((rng.randint(first + len(run), len(lines)), run))
            else:
                self._coming.setdefault(target, []).append(run)
        for run in self._coming.pop(file, ()):
            inserts.append((rng.randint(0, len(lines)), run))
        self._store(_merged(lines, inserts))
        self._file += 1

    def _hold_back(self, lines: list[str]) -> list[str]:
        """Keep this file's part of the late lines for files to come; return the others."""
        rng, plan, last = self._random, self._plan, self._plan.files - 1
        if not self._late or self._file == last:
            return lines
        due = min(self._late * (self._file + 1) // last - self._late_done, len(lines))
        self._late_done += due
        late = set(rng.sample(range(len(lines)), due))
        for index in sorted(late):
            target = min(last, self._file + rng.randint(1, plan.late_files))
            self._coming.setdefault(target, []).append([lines[index]])
        return [line for index, line in enumerate(lines) if index not in late]

    def _store(self, lines: Sequence[str]) -> None:
        """Write one file at the next offset; the sink leaves no empty files."""
        if not lines:
            return
        plan = self._plan
        content = "".join(lines).encode("latin-1")
        name = f"{plan.topic}+{plan.partition}+{self.lines:010d}.jsonl"
        if plan.compress:
            # Without a time in the header the same log has the same bytes.
            content = gzip.compress(content, 1, mtime=0)
            name += ".gz"
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / name).write_bytes(content)
        self.lines += len(lines)
        self.files += 1
        self.size += len(content)


def _merged(lines: list[str], inserts: list[tuple[int, list[str]]]) -> list[str]:
    """Return ``lines`` with each run put in front of the line of its index."""
    if not inserts:
        return lines
    inserts.sort(key=lambda insert: insert[0])
    merged: list[str] = []
    done = 0
    for index, run in inserts:
        merged += lines[done:index]
        merged += run
        done = index
    merged += lines[done:]
    return merged


class _Simulation:
    """The orders of one partition and the place in the binlog the next change is written to."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._rnd = random.Random(f"{plan.seed}/{plan.partition}/orders").random
        self._pick_user = _user_picker(plan.users, self._rnd)
        self._open: list[_Order] = []
        self._next_key = FIRST_ORDER_ID + plan.partition
        # Orders live about a day (a few hours, if the whole log is about a day long).
        per_day = plan.rows * _INSERT_SHARE / plan.days
        self._wanted_open = max(4, min(_MAX_OPEN, int(1.5 * per_day), plan.rows // 25))

        midnight = dt.datetime.combine(plan.start, dt.time(), dt.UTC)
        self._epoch = int(midnight.timestamp()) - BUSINESS_OFFSET_S
        self._days = [f'"{plan.start + dt.timedelta(days=day)} ' for day in range(plan.days)]
        self._row_ms = plan.days * 86_400_000 / max(1, plan.rows)
        self._seconds, self._millis = _clock_texts()

    def run(self, sink: _Sink) -> None:
        """Simulate every row of the partition and hand the lines to ``sink``, file by file."""
        plan, rnd = self._plan, self._rnd
        own, step = plan.partition, plan.partitions
        rows, row = plan.rows, 0
        binlog, rotate_at, offset = 0, 0, _BINLOG_HEADER
        xid = 5000
        for file in range(1, plan.files + 1):
            file_end = rows * file // plan.files
            lines: list[str] = []
            while row < file_end:
                if row >= rotate_at:
                    # All partitions rotate after the same part of their rows and of the time.
                    binlog = row * plan.binlogs // rows + 1
                    rotate_at = -(-binlog * rows // plan.binlogs)
                    offset = _BINLOG_HEADER
                draw = rnd()
                size = 1 if draw < 0.5 else 2 if draw < 0.78 else 3 if draw < 0.92 else 4
                # A transaction never spans two files: that keeps the files' sizes exact.
                size = min(size, file_end - row)
                xid += 1 + int(draw * 8)
                offset += 150
                offset = self._transaction(
                    lines, row, size, f"bin.{binlog:06d}", offset, xid * step + own
                )
                row += size
            sink.write(lines)

    def _transaction(
        self, lines: list[str], row: int, size: int, binlog: str, offset: int, xid: int
    ) -> int:
        """Append a transaction of ``size`` rows to ``lines`` and return the offset behind it.

        ``row`` is the number of rows before it; offsets are the partition's own, before they
        are interleaved with those of the other partitions.
        """
        rnd, orders = self._rnd, self._open
        own, step = self._plan.partition, self._plan.partitions
        lag = int(rnd() * _MAX_LAG_MS) if rnd() < _LAG_SHARE else 0
        ts, now = 0, ""
        position = 0
        before, head_before = None, ""
        for index in range(size):
            draw = rnd()
            insert = _INSERT_SHARE if len(orders) >= self._wanted_open else _INSERT_SHARE_GROWING
            old = ""
            slot = -1
            if draw < insert or not orders:
                head = _INSERT
                order = _Order()
            else:
                head = _DELETE if draw > 1.0 - _DELETE_SHARE else _UPDATE
                slot = int(rnd() * len(orders))
                order = orders[slot]
            # Two rows of one statement have one position and one time, but never one key.
            if head is head_before and order is not before and rnd() < _SAME_STATEMENT_SHARE:
                head_before = ""
            else:
                position = offset * step + own
                ts, now = self._time(row + index, lag)
                head_before = head
            offset += 240 + int(draw * 150)
            before = order
            if head is _INSERT:
                self._create(order, now)
            elif head is _UPDATE:
                if rnd() < _SIDE_SHARE:
                    changed = _side_change(order, now, rnd, self._pick_user)
                else:
                    changed = _progress(order, now, rnd())
                old = f',"old":{{{changed}}}'
            if slot >= 0 and (head is _DELETE or order.step >= _FINISHED):
                last = orders.pop()
                if last is not order:
                    orders[slot] = last
            mark = f'"xoffset":{index}' if index < size - 1 else '"commit":true'
            lines.append(
                f'{head}{ts},"xid":{xid},{mark},"position":"{binlog}:{position}",'
                f'"data":{{{order.image()}}}{old}}}\n'
            )
        return offset

    def _time(self, row: int, lag: int) -> tuple[int, str]:
        """Return ``ts`` (epoch s) and the quoted business time of a row, ``lag`` ms back."""
        elapsed = max(0, int((row + self._rnd()) * self._row_ms) - lag)
        second, milli = divmod(elapsed, 1000)
        day, of_day = divmod(second, 86400)
        text = f'{self._days[day]}{self._seconds[of_day]}{self._millis[milli]}"'
        return self._epoch + second, text

    def _create(self, order: _Order, now: str) -> None:
        """Fill in a new order and add it to the open orders."""
        rnd = self._rnd
        draw = rnd()
        order.key = self._next_key
        self._next_key += self._plan.partitions
        order.user = self._pick_user()
        order.product = _PRODUCTS[int(draw * len(_PRODUCTS))]
        order.platform = _PLATFORMS[int(rnd() * len(_PLATFORMS))]
        order.ref = _REFS[int(rnd() * len(_REFS))]
        order.amount = f"{5 + rnd() * 800:.2f}"
        order.step = _CREATED
        order.comment = "null" if rnd() < 0.7 else _COMMENTS[int(rnd() * len(_COMMENTS))]
        order.create = order.update = now
        order.dispatch = order.decision = order.finish = "null"
        self._open.append(order)


def _write_partition(plan: _Plan) -> Generated:
    """Write one Kafka partition."""
    sink = _Sink(plan)
    # Nothing here forms cycles; the collector would only walk the open orders again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        _Simulation(plan).run(sink)
    finally:
        if collecting:
            gc.enable()
    return Generated(plan.rows, sink.lines, sink.files, sink.size)


def _check(plan: _Plan, files: int) -> None:
    """Raise ValueError if the log can't be made as wanted (``plan`` with the totals)."""
    for name in ("partitions", "days", "users", "late_files"):
        if getattr(plan, name) < 1:
            raise ValueError(f"{name} must be at least 1")
    if plan.rows < 0:
        raise ValueError("rows must not be negative")
    if files < plan.partitions:
        raise ValueError("files must be at least the number of partitions")
    if not 0.0 <= plan.duplicate_share <= 1.0:
        raise ValueError("duplicate_share must be in 0..1")
    # The rows of a partition's last file have no later file to go to.
    per_partition = files // plan.partitions
    if not 0.0 <= plan.late_share <= 1.0 - 1.0 / per_partition:
        raise ValueError(
            f"late_share must be in 0..{1.0 - 1.0 / per_partition:.3f}"
            f" with {per_partition} files a partition"
        )


def generate(
    folder: str | os.PathLike[str],
    rows: int,
    seed: int = 1,
    days: int = 1,
    users: int = 100_000,
    files: int | None = None,
    *,
    late_share: float = 0.0,
    duplicate_share: float = 0.0,
    compress: bool = False,
    late_files: int = 2,
    partitions: int = 4,
    start: dt.date = dt.date(2026, 3, 1),
    topic: str = "maxwell",
    processes: int | None = None,
) -> Generated:
    """Write a Maxwell log of ``rows`` row changes of ``shop.order_info`` under ``folder``.

    The same options but ``folder`` and ``processes`` give the same bytes. Processes are spawned,
    so a script must call this below ``if __name__ == "__main__"``.

    Args:
        folder: Where ``topics/<topic>`` is made.
        rows: Row changes in the log, spread evenly over the days; duplicates come on top.
        seed: Start of the random numbers.
        days: Business days (UTC+8) the changes happen on.
        users: Users, 1..``users``; low numbers have far more orders than high numbers.
        files: Files in all partitions together, at least one each; by default files of about
            50,000 rows, at least four a partition. Files left without lines aren't written.
        late_share: Share of the rows that stand in a later file than their place, at random
            there. Those of a partition's last file can't be late.
        duplicate_share: Share of the rows written once more, byte for byte, further on in the
            file or in a later file, in runs of up to 200 lines as a restarted producer sends
            them. A line may be repeated more than once.
        compress: Write .jsonl.gz (level 1) instead of .jsonl.
        late_files: Most files a late or repeated line stands behind its place; the number is
            drawn from 1..``late_files`` (and never leads past the last file).
        partitions: Kafka partitions. All rows of an order are in the same partition.
        start: The first business day.
        topic: Name of the Kafka topic.
        processes: Processes to use, by default one for each CPU; never more than partitions.

    Returns:
        Counts of what was written, with size in bytes.

    Raises:
        ValueError: An option is out of its range.
        FileExistsError: The folder of the topic exists and isn't empty.
    """
    if files is None:
        files = max(4 * partitions, round(rows / _ROWS_PER_FILE))
    total = _Plan(
        folder=Path(folder),
        topic=topic,
        partition=0,
        partitions=partitions,
        rows=rows,
        files=files,
        # An odd number, so that files seldom end at midnight, as in real life.
        binlogs=max(2 * days + 1, -(-rows * _ROW_BYTES // _BINLOG_BYTES)),
        seed=seed,
        start=start,
        days=days,
        users=users,
        late_share=late_share,
        late_files=late_files,
        duplicate_share=duplicate_share,
        compress=compress,
    )
    _check(total, files)
    target = total.folder / "topics" / topic
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    plans = [
        replace(
            total,
            partition=partition,
            rows=rows // partitions + (partition < rows % partitions),
            files=files // partitions + (partition < files % partitions),
        )
        for partition in range(partitions)
    ]
    workers = min(processes or os.cpu_count() or 1, partitions)
    if workers == 1:
        return _sum(map(_write_partition, plans))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return _sum(pool.imap_unordered(_write_partition, plans, chunksize=1))


def _sum(parts: Iterable[Generated]) -> Generated:
    """Return the sums of the partitions' counts."""
    return Generated(*(sum(counts) for counts in zip(*parts, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generate_maxwell",
        description="Write a seeded, realistic Maxwell log of shop.order_info.",
    )
    parser.add_argument("folder", type=Path, help="topics/<topic> is made in it")
    parser.add_argument("--rows", type=int, required=True, help="row changes in the log")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=1, help="business days the log covers")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--files", type=int, help="files in all partitions together")
    parser.add_argument("--late-share", type=float, default=0.0, help="rows in a later file")
    parser.add_argument("--duplicate-share", type=float, default=0.0, help="rows sent again")
    parser.add_argument("--compress", action="store_true", help="write .jsonl.gz")
    parser.add_argument("--late-files", type=int, default=2, help="files they are late at most")
    parser.add_argument("--partitions", type=int, default=4, help="Kafka partitions")
    parser.add_argument("--start", type=dt.date.fromisoformat, default=dt.date(2026, 3, 1))
    parser.add_argument("--topic", default="maxwell")
    parser.add_argument("--processes", type=int, help="default: one for each CPU")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    try:
        done = generate(**vars(options))
    except (ValueError, FileExistsError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    seconds = time.perf_counter() - began
    print(
        f"{done.rows} rows, {done.lines} lines, {done.files} files, {done.size} bytes"
        f" in {seconds:.1f} s, {done.rows / seconds:,.0f} rows/s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
