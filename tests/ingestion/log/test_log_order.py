"""A binlog that restarts: refused until it is declared, exact once it is; nothing else is."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.log.doubt import UNDECLARED
from python_udfs.ingestion.log.order import LogOrder
from tests.support.lines import TS
from tests.support.table_histories import Server
from tests.support.typed_model import COLUMNS, Model, as_texts, of_server, seeds

HOUR = 3600


def change(
    place: str, ts: int, amount: str, was: str | None = None, row: int = 1, **more: Any
) -> str:
    """Maxwell's message of a row: an insert, or an update of the amount that it had."""
    head = {"database": "shop", "table": "o", "ts": ts, "xid": ts, "commit": True}
    kind = {"type": "insert"} if was is None else {"type": "update", "old": {"amount": was}}
    data = {"id": row, "state": "new", "amount": amount}
    return json.dumps(head | kind | {"position": f"bin.{place}", "data": data} | more)


def taken(spark: SparkSession, *runs: dict[int, str], **source: Any) -> Model:
    model = Model(spark, source.pop("format", "maxwell"), ["id"])
    model.meta["source"] |= source
    for messages in runs:
        model.take(messages)
    return model


def refused(model: Model) -> dict[int, str]:
    """Offset -> reason of what the table refuses."""
    return {row.message_offset: row.reject_reason for row in model.rows if row.reject_reason}


def amounts(model: Model) -> list[str]:
    return [f"{row[2]:f}" for row in model.latest().values()]


@pytest.mark.in_turn
def test_a_change_behind_reset_master_is_refused_until_the_reset_is_declared(
    spark: SparkSession,
) -> None:
    model = taken(
        spark,
        {0: change("000150:1000", TS, "1.50")},
        {1: change("000001:500", TS + HOUR, "9.50", was="1.50")},
    )

    assert amounts(model) == ["1.50"]
    [(offset, reason)] = refused(model).items()
    assert offset == 1
    assert reason.startswith(UNDECLARED)
    assert "file 1, position 500" in reason
    assert "file 150, position 1000" in reason

    model.take({2: change("000001:900", TS + HOUR + 5, "9.75", was="9.50")})
    assert sorted(refused(model)) == [1, 2]  # and so is what follows

    declared = yaml.safe_load(reason.split("for example ")[1])
    model.meta["source"]["log_resets"] = declared
    model.take({3: change("000001:1300", TS + HOUR + 9, "9.80", was="9.75")})

    assert refused(model) == {}
    assert amounts(model) == ["9.80"]
    assert len(model.rows) == 4
    keys = {row.unique_key for row in model.rows}
    assert len(keys) == 4
    assert keys == {row.unique_key for row in rebuilt_as_declared(model).rows}
    assert max(row.binlog_file_number for row in model.rows) == 10_000_000_001


def rebuilt_as_declared(model: Model) -> Model:
    fresh = Model(model.spark, model.format, ["id"])
    fresh.meta["source"] = model.meta["source"]
    fresh.take_all(model.messages)
    return fresh


def debezium(file: str, pos: int, ms: int, amount: str, was: str | None = None) -> str:
    row = {"id": 1, "state": "new"}
    origin = {"db": "shop", "table": "o", "ts_ms": ms, "file": file, "pos": pos, "row": 0}
    before = None if was is None else row | {"amount": was}
    op = "c" if was is None else "u"
    body = {"before": before, "after": row | {"amount": amount}, "source": origin, "op": op}
    return json.dumps(body | {"ts_ms": ms})


def rows_of(file: int, ts: int, count: int = 12) -> list[str]:
    """Inserts of rows of their own, one each second, from position 200 on."""
    return [
        change(f"{file:06d}:{200 + 300 * n}", ts + n, "1.00", row=100 * file + n + ts % 97)
        for n in range(count)
    ]


# what came by a partition -> the offsets that are refused
LOGS: dict[str, tuple[list[str], list[int]]] = {
    "a second log in the file of the first, in the same run": (
        [*rows_of(1, TS), *rows_of(1, TS + 60, 20)],
        [*range(12, 32)],
    ),
    "its first changes are of the second in which the first log ended": (
        [
            *rows_of(7, TS),
            change("000001:200", TS + 11, "2.00"),
            change("000001:500", TS + 11, "2.50", was="2.00"),
            change("000001:800", TS + 12, "3.00", was="2.50"),
        ],
        [12, 13, 14],
    ),
    "its first changes, which were sent again, are older than the end of the first log": (
        [
            *rows_of(7, TS),
            *(again := [*rows_of(1, TS + 9, 1), *rows_of(1, TS - 60, 2)[1:]]),
            *again,
            *rows_of(1, TS + 30, 20)[2:],
        ],
        [*range(12, 34)],
    ),
    "changes that the producer sent again are none": (
        [*rows_of(7, TS), *rows_of(8, TS + 20), *rows_of(7, TS)[4:], *rows_of(8, TS + 20, 20)],
        [],
    ),
    "nor is one that comes late": (
        [*rows_of(7, TS)[:-2], *rows_of(8, TS + 20), *rows_of(7, TS)[-2:]],
        [],
    ),
    "nor a long transaction that was written into the next file": (
        [*rows_of(7, TS), *rows_of(8, TS - HOUR, 3), *rows_of(9, TS + 99)],
        [],
    ),
    "two servers' logs, mixed": (
        [
            *(item for n in range(30) for item in (rows_of(7, TS, 30)[n], rows_of(900, TS, 30)[n])),
        ],
        [],
    ),
    "now and then a message of another server": (
        [
            *rows_of(900, TS, 60),
            rows_of(7, TS + 70, 1)[0],
            *rows_of(902, TS + 80, 60),
            rows_of(8, TS + 150, 1)[0],
            *rows_of(904, TS + 160, 60),
            rows_of(9, TS + 230, 1)[0],
            *rows_of(906, TS + 240, 60),
        ],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_what_is_refused_of_a_log_that_nobody_declared(spark: SparkSession, name: str) -> None:
    lines, wanted = LOGS[name]
    model = Model(spark, "maxwell", ["id"])
    messages = model.binlog({LIVE: dict(enumerate(lines))})
    order = LogOrder(model, table_source("ods_shop__o", model.meta["source"]))
    order.look(messages.groupBy(*order.groups()).agg(*order.summary()).collect(), messages)

    refused = messages.where(order.doubt.condition).collect() if order.doubt else []
    assert sorted(row.message_offset for row in refused) == wanted


def by_servers(servers: list[int], lines: list[str], **more: Any) -> list[str]:
    """The lines as these servers in turn wrote them."""
    turns = itertools.cycle(servers)
    return [json.dumps(json.loads(line) | {"server_id": next(turns)} | more) for line in lines]


MIXED = [item for n in range(30) for item in (rows_of(7, TS, 30)[n], rows_of(900, TS, 30)[n])]
# runs of messages that name their servers -> the offsets that are refused, what the reason names
NAMED_SERVERS: dict[str, tuple[list[list[str]], list[int], str]] = {
    "a failover to a lower place of the same file, while few messages are known": (
        [by_servers([1], rows_of(4, TS, 6)[3:5]), by_servers([2], rows_of(4, TS + 60, 2))],
        [2, 3],
        "server_id: 2 behind server_id: 1",
    ),
    "two servers' logs, mixed": ([by_servers([1, 2], MIXED)], [*range(2, 60)], "[{server_id: 1}]"),
    "changes of two servers in the log of one that follows both, some of them sent again": (
        [by_servers([1, 2], [*rows_of(4, TS), *rows_of(4, TS)[5:], *rows_of(5, TS + 60, 3)])],
        [],
        "",
    ),
    "a snapshot's rows, which Debezium states are of server 0": (
        [by_servers([7], rows_of(4, TS, 5)[3:]), by_servers([0], rows_of(4, TS + 60, 1))],
        [],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED_SERVERS)
def test_what_is_refused_where_messages_name_their_server(spark: SparkSession, name: str) -> None:
    runs, wanted, reported = NAMED_SERVERS[name]
    model, offset = Model(spark, "maxwell", ["id"]), 0
    for lines in runs:
        model.take(dict(enumerate(lines, offset)))
        offset += len(lines)

    assert sorted(refused(model)) == wanted
    assert all(reported in reason for reason in refused(model).values())


def test_mixed_logs_are_taken_once_their_servers_are_declared(spark: SparkSession) -> None:
    model = taken(spark, dict(enumerate(by_servers([1, 2], MIXED))))
    (reason,) = set(refused(model).values())
    assert "source and run the table with --full-refresh, for example [" in reason
    model.meta["source"]["log_resets"] = yaml.safe_load(reason.split("for example ")[1])

    again = rebuilt_as_declared(model)
    assert refused(again) == {}
    assert len(again.rows) == 60


@pytest.mark.in_turn
def test_debezium_too_and_a_statement_on_the_table(spark: SparkSession) -> None:
    truncate = {"op": "t", "ts_ms": 0, "before": None, "after": None}
    origin = {"db": "shop", "table": "o", "file": "bin.000002", "pos": 300, "row": 0}
    later = (TS + HOUR) * 1000
    options = {"decimal.handling.mode": "string"}
    model = taken(
        spark,
        {0: debezium("bin.000150", 1000, TS * 1000, "1.50")},
        {
            1: debezium("bin.000001", 500, later, "9.50", was="1.50"),
            2: json.dumps(truncate | {"source": origin | {"ts_ms": later + 1}}),
        },
        format="debezium",
        options=options,
    )

    assert sorted(refused(model)) == [1, 2]
    assert amounts(model) == ["1.50"]

    model.meta["source"]["log_resets"] = [{"offsets": {"t": {"0": 1}}}]
    model.take({})

    assert refused(model) == {}
    assert amounts(model) == []
    assert [row.binlog_file for row in model.rows if row.op_type == "delete"] == ["bin.000002@1"]


@pytest.mark.soak
def test_the_rest_of_a_lost_servers_log_comes_from_the_server_that_took_over(
    spark: SparkSession,
) -> None:
    """As MySQL 5.6 and Maxwell with gtid_mode write it: what the old server did last comes at the
    new server's positions, and names the old server. So its uuid is no sign of the log, its offset
    is."""
    old, new = "cf5adee4-e7eb-11f1-b5d6-02fc00000001", "d145f10b-e7eb-11f1-b5d6-02fc00000001"
    before = {0: change("000004:57671", TS, "1.00", gtid=f"{old}:50", server_id=1)}
    behind = {
        1: change("000001:62797", TS + 5, "1.10", was="1.00", gtid=f"{old}:65", server_id=1),
        2: change("000001:64185", TS + 8, "1.20", was="1.10", gtid=f"{new}:3", server_id=2),
    }
    model = taken(spark, before, behind)
    assert sorted(refused(model)) == [1, 2]

    model.meta["source"]["log_resets"] = [{"server_uuid": new}]
    model.take({})
    assert sorted(refused(model)) == [1]  # it would count as older than what it changes

    model.meta["source"]["log_resets"] = [{"offsets": {"t": {0: 1}}}]
    model.take({})
    assert refused(model) == {}
    assert amounts(model) == ["1.20"]

    # what the table holds keeps its place
    model.meta["source"]["log_resets"] = [{"offsets": {"t": {0: 2}}}]
    with pytest.raises(ValueError, match=r"offset 1.*--full-refresh"):
        model.take({})


def test_two_servers_are_distinguished_by_their_messages(spark: SparkSession) -> None:
    first = {0: change("000150:1000", TS, "1.50", server_id=1)}
    second = {1: change("000001:500", TS + HOUR, "7.00", row=2, server_id=2)}
    model = taken(spark, first, second, log_resets=[{"server_id": 2}])
    model.take({2: change("000150:1300", TS + HOUR + 1, "1.60", was="1.50", server_id=1)})

    assert refused(model) == {}
    assert sorted(amounts(model)) == ["1.60", "7.00"]


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("2026-03-02", "must be a list"),
        ([{}], "must have some of from, offsets"),
        ([{"since": "2026-03-02"}], "got since"),
        ([{"from": "yesterday"}], "`from` must be a time in UTC"),
        ([{"offsets": {"t": {"zero": 1}}}], "entry 1 of `log_resets`"),
        ([{"server_id": "two"}], "entry 1 of `log_resets`"),
        (
            [{"from": "x", "topic": 7, "offsets": {"t": 1}}],
            "`from` must be a time in UTC, got 'x'; `offsets` must map topics to partitions and "
            "their first offsets, got {'t': 1}; `topic` must be a topic or a list of them",
        ),
    ],
)
def test_a_declaration_that_cannot_be_read_is_a_problem_of_the_table(
    declared: Any, problem: str
) -> None:
    meta = {"database": "shop", "table": "o", "primary_key": ["id"], "columns": COLUMNS}
    with pytest.raises(ValueError, match=problem):
        table_source("ods_shop__o", meta | {"log_resets": declared})


def test_a_format_whose_positions_are_places_in_a_topic_has_no_resets() -> None:
    meta = {"database": "shop", "table": "o", "primary_key": ["id"], "columns": COLUMNS}
    for name in ("canal", "mongodb", "events"):
        with pytest.raises(ValueError, match="have positions in a binlog"):
            table_source("m", meta | {"format": name, "log_resets": [{"from": "2026-03-02"}]})


def sent(lines: list[str], rng: random.Random) -> list[str]:
    """The lines as a producer sends them that is started again now and then."""
    stream: list[str] = []
    for number, line in enumerate(lines):
        stream.append(line)
        if rng.random() < 0.05:
            stream += lines[max(0, number - rng.randrange(12)) : number + 1]
    return stream


def landed(stream: list[str], first: int, rng: random.Random) -> list[dict[int, str]]:
    """The stream in two runs: a stretch of the first comes with the second, but for the last
    message of the first log and the first message, at the offset `first`, of the second."""
    messages = list(enumerate(stream))
    cut = rng.randrange(len(messages) + 1)
    start = rng.randrange(cut + 1)
    late = messages[start : min(cut, start + rng.randrange(9))]
    late = [item for item in late if (item[0] < first) == (start < first)]
    late = [item for item in late if item[0] not in (first - 1, first)]
    early = [message for message in messages[:cut] if message not in late]
    return [dict(early), dict([*late, *messages[cut:]])]


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [pytest.param(None), *seeds(0)])
def test_random_logs_with_a_reset_somewhere(spark: SparkSession, seed: int | None) -> None:
    """Undeclared, the table is what the first log made it, and all of the second is refused;
    declared, then or from the beginning, it is what the server holds."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"seed {seed}")
    rng = random.Random(seed)
    server = Server(seed, "maxwell")
    server.run(rng.randrange(40, 70), table_events=False)
    end, left = len(server.lines), of_server(server)
    server.begin_log(rng.randrange(1, 4))
    server.run(rng.randrange(1, 60), table_events=False)
    stream = sent(server.lines[:end], rng)
    first = len(stream)
    stream += sent(server.lines[end:], rng)

    model = Model(spark, "maxwell", ["id"])
    for messages in landed(stream, first, rng):
        model.take(messages)
    assert set(refused(model)) == set(range(first, len(stream)))
    model_rows, model.rows = model.rows, [row for row in model.rows if not row.reject_reason]
    assert as_texts(model.held()) == left

    model.rows = model_rows
    model.meta["source"]["log_resets"] = [{"offsets": {"t": {0: first}}}]
    model.take({})
    assert as_texts(model.held()) == of_server(server)
    assert set(model.latest().values()) == set(model.held())
    assert len({row.unique_key for row in model.rows}) == len(model.rows)
