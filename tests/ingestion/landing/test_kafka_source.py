"""ods_binlog on a real Kafka broker: every message once, and nothing lost in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.child_warehouse import ChildWarehouse
from tests.support.dbt_project import REPO
from tests.support.kafka_broker import PASSWORD, KafkaBroker, Message, login
from tests.support.warehouse import SAMPLE, lines_of

Place = tuple[str, int, int]  # topic, partition, offset


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """Messages as Maxwell wrote them."""
    return lines_of(sorted(SAMPLE.iterdir())[0])[:200]


def held(warehouse: ChildWarehouse) -> dict[Place, Message]:
    """What ods_binlog holds; a message that it holds twice is an error."""
    rows = warehouse.query(
        "select topic, partition_number, message_offset, message_key, payload, op, reject_reason "
        "from dw.ods_binlog"
    )
    found: dict[Place, Message] = {}
    for row in rows:
        place = (row["topic"], row["partition_number"], row["message_offset"])
        assert place not in found
        assert row["reject_reason"] is None
        assert (row["payload"] is None) == (row["op"] == "control")
        found[place] = tuple(
            None if row[name] is None else row[name].encode() for name in ("message_key", "payload")
        )
    return found


def commits(warehouse: ChildWarehouse) -> int:
    return warehouse.query("select count(*) as n from dw.ods_binlog.snapshots")[0]["n"]


def error_of(warehouse: ChildWarehouse, **env: str) -> str:
    return warehouse.build(expect_ok=False, **env).results["ods_binlog"].message


def test_each_run_reads_what_is_new_of_all_topics_and_files(
    broker: KafkaBroker, warehouse: ChildWarehouse, lines: list[bytes]
) -> None:
    warehouse.env["kafka_topics"] = r"~maxwell(\.\w+)?"
    expected: dict[Place, Message] = {}

    def send(topic: str, partition: int, first: int, messages: list[Message], **how: bool) -> None:
        broker.send(topic, messages, partition, **how)
        for offset, message in enumerate(messages, first):
            if how.get("transaction", True):
                expected[topic, partition, offset] = message

    for topic, partitions in [("maxwell", 2), ("maxwell.eu", 1), ("unrelated", 1)]:
        broker.create(topic, partitions)
    broker.send("unrelated", [(None, b"none of ours")])
    send("maxwell", 0, 0, [(b"key %d" % i, line) for i, line in enumerate(lines[:20])])
    send("maxwell", 1, 0, [(None, line) for line in lines[20:30]])
    send("maxwell.eu", 0, 0, [(b"\xe4\xba\xac", lines[30]), (b"gone", None), (None, None)])
    # a transaction takes one more offset, for its end; what it took back isn't read
    send("maxwell.eu", 0, 3, [(None, line) for line in lines[31:33]], transaction=True)
    send("maxwell.eu", 0, 6, [(None, line) for line in lines[33:35]], transaction=False)
    # the sink's files of the same topic: offsets 15 to 19 are in both, 50 to 54 in the file alone
    warehouse.here.land_lines(lines[15:20], 15)
    warehouse.here.land_lines(lines[50:55], 50)
    from_file = {("maxwell", 0, 50 + i): (None, line) for i, line in enumerate(lines[50:55])}

    # the broker ends before the file's offsets: they aren't this topic's
    warehouse.build()
    assert held(warehouse) == expected | from_file
    assert commits(warehouse) == 1
    assert "ends before offset 20, held to 54" in error_of(warehouse)

    send("maxwell", 0, 20, [(b"key %d" % i, line) for i, line in enumerate(lines[20:60])])
    expected |= from_file
    warehouse.build()  # around those that the file brought
    assert held(warehouse) == expected
    again = warehouse.build()
    assert "Nothing new has landed" in again.log
    assert commits(warehouse) == 2

    broker.add_partitions("maxwell", 3)
    broker.create("maxwell.us", 1)
    send("maxwell", 2, 0, [(None, lines[60])])
    send("maxwell.us", 0, 0, [(b"k", lines[61])])
    send("maxwell.eu", 0, 9, [(None, lines[62])])
    outcome = warehouse.build()
    assert held(warehouse) == expected
    assert outcome.results["ods_binlog"].adapter_response["rows_affected"] == 3
    assert commits(warehouse) == 3

    # without Kafka the files go on, and bring nothing that came by Kafka
    warehouse.here.land_lines(lines[55:70], 55)
    warehouse.build(kafka_servers="", kafka_topics="")
    expected |= {("maxwell", 0, offset): (None, lines[offset]) for offset in range(60, 70)}
    assert held(warehouse) == expected


def test_lost_messages_are_reported_until_they_are_accepted(
    broker: KafkaBroker, warehouse: ChildWarehouse, lines: list[bytes]
) -> None:
    warehouse.env |= {"kafka_topics": "short, kept", "landing": ""}
    broker.create("short")
    broker.create("kept")
    for topic in ("short", "kept"):
        broker.send(topic, [(None, line) for line in lines[:6]])
    broker.lose("short", 0, 2)
    first = warehouse.build()
    assert "Kafka no longer has these offsets: short partition 0: 0 to 1." in first.log
    expected = {("kept", 0, i): (None, lines[i]) for i in range(6)}
    expected |= {("short", 0, i): (None, lines[i]) for i in range(2, 6)}
    assert held(warehouse) == expected

    for topic in ("short", "kept"):
        broker.send(topic, [(None, line) for line in lines[6:12]])
        broker.lose(topic, 0, 8 if topic == "short" else 6)
    message = error_of(warehouse)
    assert "never read" in message and "short partition 0: 6 to 7." in message
    assert "kafka_accept_gap" in message
    assert held(warehouse) == expected

    accept = ("--vars", "kafka_accept_gap: true")
    warehouse.build(*accept)
    expected |= {("kept", 0, i): (None, lines[i]) for i in range(6, 12)}
    expected |= {("short", 0, i): (None, lines[i]) for i in range(8, 12)}
    assert held(warehouse) == expected
    assert "Nothing new has landed" in warehouse.build().log

    broker.delete("kept")
    broker.create("kept")
    broker.send("kept", [(None, line) for line in lines[:20]])
    message = error_of(warehouse)
    assert "recreated: kept (id " in message
    assert held(warehouse) == expected


def test_topics_that_lose_messages_by_themselves_and_holes_of_files_are_named(
    broker: KafkaBroker, warehouse: ChildWarehouse, lines: list[bytes]
) -> None:
    warehouse.env["kafka_topics"] = "maxwell_holes, squeezed"
    broker.create("maxwell_holes")
    broker.create("squeezed", config={"cleanup.policy": "compact"})
    broker.send("squeezed", [(b"key", lines[0])])
    # a transaction's marker at offset 10, behind which nothing was lost
    broker.send("maxwell_holes", [(None, line) for line in lines[:10]], transaction=True)
    broker.send("maxwell_holes", [(None, line) for line in lines[10:20]])
    broker.lose("maxwell_holes", 0, 8)
    # the sink's files lack the offsets 0 to 4, and 7
    for first, end in ((5, 7), (8, 9)):
        warehouse.here.land_lines(lines[first:end], first, topic="maxwell_holes")

    log = warehouse.build().log

    assert "Kafka compacts the topics squeezed (cleanup.policy=compact)" in log
    assert (
        "Kafka no longer has them: maxwell_holes partition 0: 0 to 4; "
        "maxwell_holes partition 0: 7 to 7. "
    ) in log
    found = {offset for topic, _, offset in held(warehouse) if topic == "maxwell_holes"}
    assert found == {5, 6, *range(8, 10), *range(11, 21)}
    again = warehouse.build().log
    assert "Kafka compacts" not in again
    assert "Kafka no longer has" not in again


def test_a_broker_that_asks_for_a_password_gets_it_and_nobody_else(
    broker: KafkaBroker,
    warehouse: ChildWarehouse,
    lines: list[bytes],
    event_folder: Path,
    tmp_path: Path,
) -> None:
    spark_log = REPO / "logs" / "spark.log"
    start = spark_log.stat().st_size if spark_log.exists() else 0
    broker.create("guarded")
    broker.send("guarded", [(None, lines[0])])
    warehouse.env |= {
        "kafka_topics": "guarded",
        "landing": "",
        "kafka_servers": broker.sasl_servers,
    }
    wrong = error_of(warehouse, kafka_options=json.dumps(login("not-the-word")))
    assert "SaslAuthenticationException" in wrong and broker.sasl_servers in wrong
    assert "not-the-word" not in wrong

    warehouse.build("--write-json", kafka_options=json.dumps(login()))

    assert held(warehouse) == {("guarded", 0, 0): (None, lines[0])}
    events = [path for path in event_folder.rglob("*") if path.is_file()]
    written = [*events, *(path for path in tmp_path.rglob("*") if path.is_file())]
    assert events
    assert any(path.name == "manifest.json" for path in written)
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
    with spark_log.open("rb") as log:
        log.seek(start)
        assert PASSWORD.encode() not in log.read()


def test_what_is_wrong_with_the_source_is_one_clear_sentence(
    broker: KafkaBroker, warehouse: ChildWarehouse
) -> None:
    warehouse.env |= {"kafka_topics": "absent", "landing": ""}
    assert f"absent, which {broker.servers} doesn't have" in error_of(warehouse)
    quick = json.dumps({"default.api.timeout.ms": 2000, "sasl.jaas.config": PASSWORD})
    message = error_of(warehouse, kafka_servers="127.0.0.1:1", kafka_options=quick)
    assert "Kafka at 127.0.0.1:1 did not answer with its offsets within 2 s" in message
    assert "KAFKA_SERVERS" in message and PASSWORD not in message
