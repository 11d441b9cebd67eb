"""`make follow` on the sample: small batches that land one after another, in one process.

    python -m benchmarks.bench_follow --cycles 20 --changes 18

The sample is landed and built. Then changes of orders, their addresses, coupons and prices land in
files of `changes` messages, each after the version that holds the file before it. Printed: the
first cycle of the process (cold), percentiles of the others, seconds of processor (Java's among
them), memory, and what an idle look costs. With --select less than the whole project is built.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, SCRATCH, processor_seconds_of
from tools.follow import JAVA
from tools.following.builds import Builds
from tools.following.loop import Follower, Settings, options_of

SEED = 11
TOPIC = "maxwell"
BINLOG = "bin.000008"  # behind the sample's files
FIRST_ORDER = 7300000000000000000
SHOWN = 10  # cycles that are printed one by one
IDLE_LOOKS = 60


def changes(seed: int) -> Iterator[dict[str, Any]]:
    """Maxwell's messages of a shop without end: orders that are placed and go on, and what comes
    with them. Times are those of the clock."""
    rng, offset = random.Random(seed), 0
    orders: list[dict[str, Any]] = []
    prices: dict[int, int] = {}
    for xid in itertools.count(100_000):
        now = datetime.now(UTC)
        local = f"{now + timedelta(hours=8):%Y-%m-%d %H:%M:%S}"
        offset += 1000
        head = {"database": "shop", "ts": int(now.timestamp()), "xid": xid, "commit": True}
        head["position"] = f"{BINLOG}:{offset}"
        kind = rng.choices(("place", "go on", "coupon", "price"), (5, 10, 1, 1))[0]
        if kind == "price":
            product = rng.randint(10_000, 10_050)
            was, prices[product] = prices.get(product), rng.randint(50, 900)
            data = {"product_id": product, "product_name": f"prod {product}"}
            data |= {"price": prices[product], "updated_at": local}
            message = head | {"table": "product_price", "type": "insert", "data": data}
            if was is not None:
                message |= {"type": "update", "old": {"price": was}}
            yield message
        elif kind == "coupon":
            data = {"user_id": rng.randint(1, 3000), "coupon_code": f"B{xid}", "amount": 5.25}
            data |= {"state": "new", "valid_until": None, "used_order": None, "update_time": local}
            yield head | {"table": "coupon", "type": "insert", "data": data}
        elif kind == "place" or not orders:
            order = {"order_id": FIRST_ORDER + xid, "user_id": rng.randint(1, 3000)}
            order |= {"product_type": "bike", "plat_name": "web", "ref_id": -1, "comment": None}
            order |= {"amount": rng.randint(1, 500), "order_status": 10, "biz_status": "created"}
            order |= {"create_time": local, "update_time": local, "dispatch_time": None}
            order |= {"decision_time": None, "finish_time": None, "priority": 5}
            orders.append(order)
            yield head | {"table": "order_info", "type": "insert", "data": dict(order)}
        else:
            order = rng.choice(orders[-200:])
            old = {name: order[name] for name in ("order_status", "biz_status", "update_time")}
            status = rng.choice(((20, "paid"), (30, "finished"), (99, "cancelled")))
            order |= {"order_status": status[0], "biz_status": status[1], "update_time": local}
            update = {"table": "order_info", "type": "update", "data": dict(order)}
            yield head | update | {"old": old}


def land(landing: Path, messages: Sequence[dict[str, Any]], first: int) -> None:
    """Land messages as one file, in one step."""
    folder = landing / "topics" / TOPIC / "partition=0"
    text = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in messages)
    new = folder / f".{first}"
    new.write_text(text, encoding="utf-8")
    new.replace(folder / f"{TOPIC}+0+{first:010d}.jsonl")


def percentiles(values: Sequence[float]) -> str:
    """Median, 95th percentile and greatest of some values.

    >>> percentiles([1.0, 2.0, 3.0])
    'median 2.0, p95 3.0, most 3.0'
    """
    ordered = sorted(values)
    late = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return f"median {statistics.median(ordered):.1f}, p95 {late:.1f}, most {ordered[-1]:.1f}"


def files_below(folder: Path) -> int:
    """How many files lie below a folder."""
    return sum(len(names) for _, _, names in os.walk(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--changes", type=int, default=18)
    parser.add_argument("--select", default="")
    given = parser.parse_args()
    landing, warehouse = SCRATCH / "landing", SCRATCH / "warehouse"
    shutil.rmtree(SCRATCH, ignore_errors=True)
    shutil.copytree(ROOT / "landing", landing)
    os.environ |= {"LANDING": str(landing), "WAREHOUSE": str(warehouse)}
    os.environ |= {"DBT_TARGET_PATH": str(SCRATCH / "target"), "SPARK_SUBMIT_OPTS": JAVA}
    settings = Settings(
        root=ROOT,
        profiles=ROOT / "profiles",
        folder=SCRATCH / "follow",
        select=tuple(given.select.split()),
    )
    follower = Follower(settings, Builds(options_of(settings), settings.select))
    source, first = changes(SEED), 40_000  # behind the sample's offsets
    wall, processor, memory = [], [], []
    for cycle in range(given.cycles + 1):
        begun, used = time.perf_counter(), processor_seconds_of(os.getpid())
        assert follower.step(), "there was no news"
        assert follower.health.problem is None, follower.health.problem
        wall.append(time.perf_counter() - begun)
        processor.append(processor_seconds_of(os.getpid()) - used)
        memory.append(follower.health.memory / 2**30)
        if cycle < SHOWN or cycle == given.cycles:
            print(
                f"cycle {cycle}: {wall[-1]:.1f} s, processor {processor[-1]:.1f} s, memory "
                f"{memory[-1]:.2f} GiB, {files_below(warehouse):,} files, version "
                f"{follower.health.version}",
                flush=True,
            )
        if cycle == given.cycles:
            break
        land(landing, list(itertools.islice(source, given.changes)), first)
        first += given.changes
    begun, used = time.perf_counter(), processor_seconds_of(os.getpid())
    for _ in range(IDLE_LOOKS):
        assert not follower.step()
    idle = (time.perf_counter() - begun) / IDLE_LOOKS
    idle_processor = (processor_seconds_of(os.getpid()) - used) / IDLE_LOOKS
    print(f"\n{given.cycles} cycles of {given.changes} changes behind the first build")
    print(f"seconds: {percentiles(wall[1:])}; of processor: {percentiles(processor[1:])}")
    print(f"an idle look: {idle:.3f} s, {idle_processor:.3f} s of processor")
    print(f"memory: {memory[0]:.2f} GiB after the first build, {memory[-1]:.2f} at the end")


if __name__ == "__main__":
    main()
