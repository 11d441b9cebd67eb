"""What becomes of each message: in = applied + duplicates + filtered + rejected, to the message."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.warehouse import Warehouse, sample_lines

SEED = 20260521
CORRUPTED = {"maxwell": 0.0, "maxwell_a": 0.001, "maxwell_b": 0.05, "maxwell_c": 0.5}
TAKEN = {"order_info", "order_address", "coupon", "product_price", "user_account", "audit_nopk"}
EACH = 2_000
OUTCOMES = ("applied", "duplicates", "filtered", "rejected")


def corrupt(line: bytes, rng: random.Random) -> bytes:
    """The line, damaged in one of the ways that logs are."""
    row = json.loads(line)
    ways: list[bytes] = [
        line[: rng.randrange(1, len(line))],
        line[:-20] + b"\xff\xfe" + line[-18:],
        b"",
        line + line,
        b"null",
        json.dumps({**row, "type": "upsert"}).encode(),
        json.dumps({**row, "ts": "soon"}).encode(),
    ]
    if row["type"] in ("insert", "update", "delete"):
        ways.append(json.dumps({**row, "position": "bin:x"}).encode())
        if row["table"] in TAKEN:
            ways.append(json.dumps({**row, "data": None}).encode())
    return rng.choice(ways)


def expected(lines: list[tuple[bytes, bool]]) -> Counter:
    """Outcome -> number of messages, of lines that are damaged or not, in their order."""
    found: Counter = Counter()
    seen = set()
    for line, is_damaged in lines:
        if is_damaged:
            found["rejected"] += 1
            continue
        row = json.loads(line)
        if row["type"] not in ("insert", "update", "delete"):
            swap_or_drop = row["type"] == "table-drop" or (
                row["type"] == "table-alter" and row["old"]["table"] != row["def"]["table"]
            )
            found["applied" if swap_or_drop and row["table"] in TAKEN else "filtered"] += 1
        elif row["table"] not in TAKEN:
            found["filtered"] += 1
        else:
            identity = (row["position"], row.get("xoffset"), row.get("commit"))
            found["duplicates" if identity in seen else "applied"] += 1
            seen.add(identity)
    return found


def deliveries() -> dict[str, list[tuple[bytes, bool]]]:
    """Topic -> its lines: each has a stretch of the sample of its own, a tenth of it twice."""
    lines = sample_lines()
    rng = random.Random(SEED)
    found = {}
    # the swap of the prices lies in the last stretch
    starts = (0, 8_000, 16_000, len(lines) - 4 * EACH)
    for (topic, share), start in zip(CORRUPTED.items(), starts, strict=True):
        mine = lines[start : start + EACH]
        mine += rng.sample(mine, EACH // 10)
        damaged = set(rng.sample(range(len(mine)), round(share * len(mine))))
        found[topic] = [
            (corrupt(line, rng), True) if place in damaged else (line, False)
            for place, line in enumerate(mine)
        ]
    return found


@pytest.mark.soak
def test_every_message_is_accounted_for(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    warehouse = Warehouse(tmp_path)
    wanted: dict[str, dict[str, int]] = {}
    for topic, lines in deliveries().items():
        warehouse.land_lines([line for line, _ in lines], 0, topic=topic)
        wanted[topic] = {name: expected(lines)[name] for name in OUTCOMES}

    models = ("+meta_accounting", "+meta_topic_volume", "+meta_quarantine")
    warehouse.run("run", "--select", *models, vars={"reject_threshold": 1})

    rows = warehouse.query("select * from dw.meta_accounting")
    got = {row["topic"]: {name: row[name] for name in OUTCOMES} for row in rows}
    assert got == wanted
    for row in rows:
        assert row["messages_in"] == sum(row[name] for name in OUTCOMES) == EACH * 11 // 10
        assert row["unaccounted"] == 0
        print(f"{row['topic']}: {row['messages_in']} messages, {got[row['topic']]}")
    check_volume(warehouse.query("select * from dw.meta_topic_volume"), wanted)
    quarantine = warehouse.query("select topic, count(*) as n from dw.meta_quarantine group by 1")
    refused = {row["topic"]: row["n"] for row in quarantine}
    assert refused == {topic: row["rejected"] for topic, row in wanted.items() if row["rejected"]}
    check_a_lost_row(warehouse)


def check_a_lost_row(warehouse: Warehouse) -> None:
    """A row that goes from a typed table is missed, with the messages that report it."""
    of_change = "dw.ods_shop__order_info where op_type = 'insert' and topic = 'maxwell_a'"
    [place] = warehouse.query(
        f"select binlog_file, binlog_position, row_number from {of_change} limit 1"
    )
    same = " and ".join(f"{name} = {value!r}" for name, value in place.items())
    [reported] = warehouse.column(f"select count(*) from dw.ods_binlog where {same}")
    warehouse.query(f"delete from dw.ods_shop__order_info where {same}")

    warehouse.run("run", "--select", "meta_message_block")
    rows = warehouse.query("select topic, unaccounted from dw.meta_accounting")
    missed = {row["topic"]: row["unaccounted"] for row in rows if row["unaccounted"]}
    assert missed == {"maxwell_a": reported}


def check_volume(rows: list[dict[str, Any]], wanted: dict[str, dict[str, int]]) -> None:
    assert {row["topic"]: row["message_count"] for row in rows} == {
        topic: sum(item.values()) for topic, item in wanted.items()
    }
    for row in rows:
        assert (row["batch_id"], row["partition_number"], row["missing_count"]) == ("live", 0, 0)
        assert (row["first_offset"], row["last_offset"]) == (0, row["message_count"] - 1)
        assert row["refused_count"] <= wanted[row["topic"]]["rejected"]
        assert row["lag_seconds"] > 0
