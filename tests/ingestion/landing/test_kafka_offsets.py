"""What is read of Kafka: from the offsets that the table holds and those that the broker has."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from python_udfs.ingestion.landing.kafka import (
    beginnings,
    compacted_topics,
    first_gaps,
    first_offsets,
    kafka_source,
    lost_holes,
    ranges_to_read,
)
from python_udfs.ingestion.landing.offsets import merge
from python_udfs.servers.kafka import BrokerTopic, KafkaSource, OffsetRange, _fitting

SERVERS = "127.0.0.1:9092"


def topic(topic_id: str = "id1", **offsets: tuple[int, int]) -> dict[str, BrokerTopic]:
    """Topic t; p0=(3, 10): partition 0 has the offsets 3 to 9."""
    return {"t": BrokerTopic(topic_id, {int(name[1:]): ends for name, ends in offsets.items()})}


def test_a_partition_that_was_never_seen_is_read_from_its_earliest_offset():
    broker = topic(p0=(3, 10), p1=(0, 0), p2=(4, 4))
    assert ranges_to_read(broker, {}, {}) == [OffsetRange("t", 0, 3, 9)]
    note = first_gaps(broker, {}, {})
    assert "no longer has these offsets: t partition 0: 0 to 2; t partition 2: 0 to 3. " in note
    # reported once: from there on it is read
    held, begun = {"t/0": [(3, 9)]}, beginnings(broker, {})
    assert first_gaps(broker, held, {}) is first_gaps(broker, {}, begun) is None
    assert ranges_to_read(broker, held, {}, begun=begun) == []
    with pytest.raises(ValueError, match=r"no longer has these offsets.*: t partition 2: 4 to 5\."):
        ranges_to_read(topic(p0=(9, 10), p2=(6, 8)), held, {}, begun=begun)
    assert beginnings(topic(p2=(6, 8)), begun, accept_gap=True)["t/2"] == 6
    assert first_gaps(topic(p0=(0, 10)), {}, {}) is None


def test_a_new_partition_whose_first_messages_are_gone_is_a_gap():
    held, broker = {"t/0": [(0, 9)]}, topic(p0=(0, 10), p1=(5, 8), p2=(0, 2))
    with pytest.raises(ValueError, match=r"no longer has these offsets.*: t partition 1: 0 to 4\."):
        ranges_to_read(broker, held, {})
    assert ranges_to_read(broker, held, {}, accept_gap=True) == [
        OffsetRange("t", 1, 5, 7),
        OffsetRange("t", 2, 0, 1),
    ]


def test_reading_goes_on_behind_what_is_held_and_finds_new_partitions():
    held = {"t/0": [(0, 6)], "t/1": [(0, 4)]}
    broker = topic(p0=(0, 10), p1=(0, 5), p2=(0, 2), p3=(0, 0))
    assert ranges_to_read(broker, held, {"t": "id1"}) == [
        OffsetRange("t", 0, 7, 9),
        OffsetRange("t", 2, 0, 1),
    ]


def test_topics_of_the_files_alone_and_other_batches_do_not_count():
    held = {"other/0": [(0, 99)], "again:t/0": [(0, 99)]}
    assert ranges_to_read(topic(p0=(0, 10)), held, {}) == [OffsetRange("t", 0, 0, 9)]


def test_holes_that_files_left_are_read_as_far_as_the_broker_has_them():
    held = {"t/0": [(0, 1), (4, 5), (8, 8)]}
    assert ranges_to_read(topic(p0=(0, 12)), held, {}) == [
        OffsetRange("t", 0, first, last) for first, last in [(2, 3), (6, 7), (9, 11)]
    ]
    assert ranges_to_read(topic(p0=(7, 12)), held, {}) == [
        OffsetRange("t", 0, first, last) for first, last in [(7, 7), (9, 11)]
    ]


def test_holes_of_files_that_the_broker_has_lost_are_named_once():
    held = {"t/0": [(2, 4), (7, 9), (20, 29)], "t/1": [(0, 9)]}
    broker = topic(p0=(15, 40), p1=(12, 20))
    note = lost_holes(broker, held, {}, {})
    assert note is not None
    assert ": t partition 0: 0 to 1; t partition 0: 5 to 6; t partition 0: 10 to 14. " in note
    assert ranges_to_read(topic(p0=(15, 40)), {"t/0": held["t/0"]}, {}) == [
        OffsetRange("t", 0, 15, 19),
        OffsetRange("t", 0, 30, 39),
    ]
    assert lost_holes(broker, held, {}, first_offsets(broker)) is None
    # a hole that the broker still had when the others were reported
    later = lost_holes(topic(p0=(25, 40)), held, {}, first_offsets(broker))
    assert later is not None and "left these offsets out" in later
    assert ": t partition 0: 10 to 19. " in later
    # where reading began is no hole, nor is what the broker still has
    assert lost_holes(topic(p0=(2, 40)), {"t/0": [(2, 4)]}, {"t/0": 2}, {}) is None
    assert lost_holes(topic(p0=(0, 40)), held, {}, {}) is None
    assert lost_holes(broker, {}, {}, {}) is None


def test_random_offsets_that_nothing_brings_are_all_named():
    for seed in range(300):
        random = Random(seed)
        had = {offset for offset in range(30) if random.random() < 0.7}
        earliest = random.randint(0, 30)
        if not had:
            continue
        broker = topic(p0=(earliest, 31))
        held = {"t/0": merge([(offset, offset) for offset in had])}
        note = lost_holes(broker, held, {}, {}) or ""
        named: set[int] = set()
        for first, last in re.findall(r"partition 0: (\d+) to (\d+)", note):
            named |= set(range(int(first), int(last) + 1))
        lost = {offset for offset in range(min(earliest, max(had))) if offset not in had}
        assert named == lost, f"seed {seed}"


def test_compacted_topics_of_which_a_run_reads_are_named():
    def topics(**cleanup: str | None) -> dict[str, BrokerTopic]:
        return {name: BrokerTopic("", {0: (0, 9)}, policy) for name, policy in cleanup.items()}

    some = topics(a="delete", b="compact", c="compact,delete", d=None)
    note = compacted_topics(some, ["a", "b", "c", "d", "d"])
    assert note is not None
    assert "Kafka compacts the topics b, c (cleanup.policy=compact)" in note
    assert "doesn't show the settings of the topics d," in note
    assert compacted_topics(some, ["a"]) is None
    assert compacted_topics(some, []) is None


def test_messages_that_are_all_held_may_go_from_the_broker():
    assert ranges_to_read(topic(p0=(7, 7)), {"t/0": [(0, 6)]}, {}) == []


def test_messages_gone_before_they_were_read_are_named_or_accepted():
    held = {"t/0": [(0, 6)], "t/1": [(0, 6)], "t/2": [(0, 6)]}
    broker = topic(p0=(9, 12), p1=(7, 9), p2=(8, 8))
    with pytest.raises(ValueError) as error:
        ranges_to_read(broker, held, {})
    text = str(error.value)
    assert "t partition 0: 7 to 8; t partition 2: 7 to 7" in text
    assert "partition 1" not in text
    assert "kafka_accept_gap" in text
    assert ranges_to_read(broker, held, {}, accept_gap=True) == [
        OffsetRange("t", 0, 9, 11),
        OffsetRange("t", 1, 7, 8),
    ]


@pytest.mark.parametrize("broker", [topic(p0=(0, 5)), topic(p1=(0, 5))])
@pytest.mark.parametrize("accept_gap", [False, True])
def test_a_topic_that_ends_before_what_is_held_was_recreated(broker, accept_gap):
    with pytest.raises(ValueError, match=r"recreated: t partition 0 \(ends .*, held to 6\)"):
        ranges_to_read(broker, {"t/0": [(0, 6)]}, {}, accept_gap)


def test_a_recreated_topic_that_has_grown_since_is_known_by_its_id():
    held, broker = {"t/0": [(0, 6)]}, topic("id2", p0=(0, 10))
    with pytest.raises(ValueError, match=r"recreated: t \(id id2, was id1\)"):
        ranges_to_read(broker, held, {"t": "id1"})
    for known, accept_gap in [({"t": "id1"}, True), ({"t": "id2"}, False), ({"t": ""}, False)]:
        assert ranges_to_read(broker, held, known, accept_gap) == [OffsetRange("t", 0, 7, 9)]
    assert ranges_to_read(topic("", p0=(0, 10)), held, {"t": "id1"}) == [OffsetRange("t", 0, 7, 9)]


def test_every_offset_of_the_broker_is_held_or_read_and_none_is_both():
    seed = Random().randrange(10**6)
    random = Random(seed)
    for _ in range(300):
        cuts = sorted(random.sample(range(60), 6))
        held = merge(zip(cuts[::2], cuts[1::2], strict=True))
        earliest = random.randrange(held[-1][1] + 2)
        latest = random.randrange(held[-1][1] + 1, 70)
        read = ranges_to_read(topic(p0=(earliest, latest)), {"t/0": held}, {})
        offsets = [offset for item in read for offset in range(item.first, item.last + 1)]
        known = {offset for first, last in held for offset in range(first, last + 1)}
        expected = sorted(set(range(earliest, latest)) - known)
        assert offsets == expected, f"seed {seed}: {held} {earliest} {latest}"


def test_no_servers_no_kafka(monkeypatch):
    monkeypatch.setenv("KAFKA_OPTIONS", "not looked at")
    assert kafka_source({"servers": "", "topics": "t", "accept_gap": False}) is None


def test_options_come_from_the_environment_and_are_never_shown(monkeypatch):
    options = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "s3cret", "x": True, "y": 5}
    monkeypatch.setenv("KAFKA_OPTIONS", json.dumps(options))
    source = kafka_source({"servers": SERVERS, "topics": "t", "accept_gap": False})
    assert source.client_options == {
        "isolation.level": "read_committed",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "s3cret",
        "x": "true",
        "y": "5",
        "bootstrap.servers": SERVERS,
    }
    assert "s3cret" not in repr(source)


@pytest.mark.parametrize(
    "text", ['{"sasl.jaas.config": "s3cret"', '["s3cret"]', '{"a": ["s3cret"]}']
)
def test_options_that_are_no_json_object_are_reported_without_their_text(monkeypatch, text):
    monkeypatch.setenv("KAFKA_OPTIONS", text)
    with pytest.raises(ValueError, match="KAFKA_OPTIONS must be a JSON object") as error:
        kafka_source({"servers": SERVERS, "topics": "t", "accept_gap": False})
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("own", [{}, {"request.timeout.ms": "1000"}])
def test_a_shorter_timeout_holds_for_one_call_too(own):
    # any client refuses default.api.timeout.ms below request.timeout.ms, which is 30 s by default
    options = {"default.api.timeout.ms": "5000", **own}
    given = KafkaSource(SERVERS, "t", options=options).client_options
    assert given["request.timeout.ms"] == own.get("request.timeout.ms", "5000")


@pytest.mark.parametrize("topics", ["", " ", "~", ","])
def test_servers_without_topics_are_an_error(topics):
    with pytest.raises(ValueError, match="KAFKA_TOPICS names no topic"):
        kafka_source({"servers": SERVERS, "topics": topics})


def test_topics_are_names_or_a_pattern_of_whole_names():
    there = {"maxwell", "maxwell.eu", "my.maxwell", "canal"}

    def fitting(topics: str) -> list[str]:
        return _fitting(KafkaSource(SERVERS, topics), there)

    assert fitting("maxwell, canal") == ["canal", "maxwell"]
    assert fitting(r"~maxwell(\..*)?") == ["maxwell", "maxwell.eu"]
    for topics, message in [
        ("maxwell,maxwel", "names maxwel, which .* doesn't have; it has: canal, maxwell"),
        ("~debezium.*", "No topic of .* fits KAFKA_TOPICS"),
        ("~(", "no regular expression"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitting(topics)
