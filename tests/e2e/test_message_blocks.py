"""The account of all messages is kept by blocks of a million offsets: after every run, in any order
of deliveries, partial runs, lost rows and rebuilt tables, it is what a plain count gives."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.warehouse import Warehouse, sample_lines

TYPED = {"order_info": "ods_shop__order_info", "coupon": "ods_shop__coupon"}
BLOCK = 20_000  # as macros/quality/offsets_of_block.sql
SEED = int(os.environ.get("BLOCK_SEED", "0"))
TOPICS = ("maxwell", "maxwell_b")
Place = tuple[str, int]  # topic and offset of a message


class Log:
    """What has landed, what a run has read, and what its account must be."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines = [line for line in sample_lines() if is_change(json.loads(line))]
        self.messages: dict[Place, bytes] = {}
        # shortly before the end of a block, so that later messages lie in the next
        self.next_offset = {topic: BLOCK - rng.randrange(60) for topic in TOPICS}
        self.lost: set[tuple] = set()  # changes whose row went from its table

    def deliver(self, warehouse: Warehouse, count: int) -> None:
        """Land so many messages behind the others: new, sent again or damaged."""
        topic = self.rng.choice(TOPICS)
        known = list(self.messages.values())
        lines = []
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.25 and known:
                lines.append(self.rng.choice(known))
            elif kind < 0.3:
                lines.append(b'{"database": "shop", "ts": "soon"')
            else:
                lines.append(self.lines.pop(0))
        first = self.next_offset[topic]
        warehouse.land_lines(lines, first, topic=topic)
        for offset, line in enumerate(lines, first):
            self.messages[topic, offset] = line
            if line.endswith(b"}"):  # its table takes a lost change that comes again
                self.lost.discard(identity(line))
        # a gap now and then, also of whole blocks
        gap = self.rng.choice([0, 0, 3, BLOCK])
        self.next_offset[topic] = first + count + gap

    def account(self) -> dict[tuple[str, int], Counter]:
        """(topic, block) -> what became of its messages, once all has been read."""
        found: dict[tuple[str, int], Counter] = {}
        for (topic, offset), line in self.messages.items():
            counts = found.setdefault((topic, offset // BLOCK), Counter())
            counts["messages_in"] += 1
            counts[self._outcome(line)] += 1
        return found

    def _outcome(self, line: bytes) -> str:
        if not line.endswith(b"}"):
            return "rejected"
        return "unaccounted" if identity(line) in self.lost else "taken"


def is_change(row: dict[str, Any]) -> bool:
    return row["type"] in ("insert", "update", "delete") and row["table"] in TYPED


def identity(line: bytes) -> tuple:
    """What a change is recognized by: file and position, its place in its transaction."""
    row = json.loads(line)
    return (row["position"], row.get("xoffset"), row.get("commit"))


def kept(warehouse: Warehouse) -> dict[tuple[str, int], Counter]:
    """(topic, block) -> what the warehouse counts; which of equal messages was applied depends on
    the order in which they were read, so applied and duplicates are counted together."""
    rows = warehouse.query("select * from dw.meta_message_block")
    for row in rows:
        parts = ("applied", "duplicates", "filtered", "rejected", "unaccounted")
        assert row["messages_in"] == sum(row[name] for name in parts)
    return {
        (row["topic"], row["offset_block"]): Counter(
            messages_in=row["messages_in"],
            taken=row["applied"] + row["duplicates"],
            rejected=row["rejected"],
            unaccounted=row["unaccounted"],
        )
        for row in rows
    }


def steps(rng: random.Random, count: int) -> Iterator[str]:
    yield "all"
    for _ in range(count - 1):
        yield rng.choice(["all", "all", "log_only", "lose", "rebuild"])


def lose_a_change(log: Log, warehouse: Warehouse) -> None:
    """Delete the row of a change that came in several messages, if there is any."""
    table = "dw.ods_shop__order_info"
    rows = warehouse.query(
        "select binlog_file, binlog_position, row_number from dw.ods_binlog "
        "where table_name = 'order_info' and reject_reason is null "
        "group by all order by count(*) desc, 1, 2, 3 limit 3"
    )
    place = log.rng.choice(rows)
    same = " and ".join(f"{name} = {value!r}" for name, value in place.items())
    for row in warehouse.query(f"select topic, message_offset from {table} where {same}"):
        log.lost.add(identity(log.messages[row["topic"], row["message_offset"]]))
    warehouse.query(f"delete from {table} where {same}")


def check_history(folder: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    log, warehouse = Log(rng), Warehouse(folder)
    for number, step in enumerate(steps(rng, count)):
        print(f"seed {seed}, step {number}: {step}")
        options = {"vars": {"reject_threshold": 1}}
        if step == "lose":
            lose_a_change(log, warehouse)
        elif step == "rebuild":
            chosen = ("--select", *TYPED.values(), "--full-refresh")
            warehouse.run("run", *chosen, **options)
            log.lost.clear()
        else:
            log.deliver(warehouse, rng.randrange(1, 60))
        if step == "log_only":
            warehouse.run("run", "--select", "ods_binlog", "meta_message_block", **options)
            before = sum(log.account().values(), Counter())
            assert sum(kept(warehouse).values(), Counter())["messages_in"] == before["messages_in"]
        warehouse.run("run", "--select", "+meta_message_block", **options)
        wanted = {place: +counts for place, counts in log.account().items()}
        assert {place: +counts for place, counts in kept(warehouse).items()} == wanted
    incremental = warehouse.rows("meta_message_block")
    warehouse.run("run", "--select", "meta_message_block", "--full-refresh")
    assert warehouse.rows("meta_message_block") == incremental


@pytest.mark.in_turn
def test_the_account_of_each_block_is_that_of_a_plain_count(tmp_path: Path) -> None:
    check_history(tmp_path, SEED or 11, 5)


@pytest.mark.in_turn
def test_a_change_of_a_later_log_that_comes_again_is_a_duplicate(tmp_path: Path) -> None:
    declared = {"shop_log_resets": [{"offsets": {"maxwell": {"0": 5}}}]}
    warehouse = Warehouse(tmp_path)
    lines = [line for line in sample_lines() if is_change(json.loads(line))][:11]
    for first, landed in ((0, lines[:10]), (10, [lines[8], lines[10]])):
        warehouse.land_lines(landed, first)
        warehouse.run("run", "--select", "+meta_message_block", vars=declared)
    [row] = warehouse.query("select * from dw.meta_message_block")
    counted = {name: row[name] for name in ("messages_in", "applied", "duplicates", "unaccounted")}
    assert counted == {"messages_in": 12, "applied": 11, "duplicates": 1, "unaccounted": 0}


@pytest.mark.in_turn
def test_a_batch_that_is_named_later_is_accounted_for(tmp_path: Path) -> None:
    """Also where it leaves no row in a table: none of its blocks is touched."""
    warehouse = Warehouse(tmp_path)
    lines = [line for line in sample_lines() if is_change(json.loads(line))][:9]
    warehouse.land_lines(lines, 0)
    warehouse.land_lines(lines[3:6], 0, batch="fix")
    for batches, filtered in (["live"], 3), (["live", "fix"], 0), (["live"], 3):
        warehouse.run("run", "--select", "+meta_message_block", vars={"batches": batches})
        [row] = warehouse.query("select * from dw.meta_message_block where batch_id = 'fix'")
        assert (row["filtered"], row["duplicates"]) == (filtered, 3 - filtered)


@pytest.mark.soak
def test_long_histories_of_blocks_hold(tmp_path: Path) -> None:
    check_history(tmp_path, SEED or random.SystemRandom().randrange(10**6), 40)
