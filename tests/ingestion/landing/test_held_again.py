"""Files that hold offsets which the warehouse holds: the same messages, or they are refused."""

from __future__ import annotations

from random import Random
from zlib import crc32

import pytest
from dbt.adapters.sparksession.session import message_of
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from python_udfs.ingestion.landing import held_again
from python_udfs.ingestion.landing import spark as landing
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.held_again import checksums_at, held_stretches
from python_udfs.ingestion.landing.offsets import held_until, merge
from python_udfs.ingestion.log import another_log
from tests.support import lines as maxwell
from tests.support.landed_files import Log, messages, write

pytestmark = pytest.mark.in_turn


def test_another_log_at_offsets_that_are_held_is_refused(spark: SparkSession, tmp_path):
    """As where a topic was deleted and created again, or the folder is that of another log."""
    write(tmp_path, "t+0+0.jsonl", messages(10, 20))
    log = Log(spark, tmp_path)
    assert log.read(1) == [(0, False), (1, False)]

    write(tmp_path, "t+0+0.jsonl", messages(40, 50, 60))
    with pytest.raises(ValueError, match="another message than the warehouse at") as error:
        log.read(1)
    assert "t+0+0.jsonl holds another message" in str(error.value)
    assert (
        "at offset 0 of partition 0 of t, so it was edited, or is of another log: its messages up "
        "to offset 1 would be passed over" in (str(error.value))
    )
    # a first line that isn't whole proves nothing; nor is what a file holds again another log
    write(tmp_path, "t+0+0.jsonl", messages(40)[:-20])
    assert not log.read(1)
    write(tmp_path, "t+0+0.jsonl", messages(10, 20, 30))
    write(tmp_path, "t+0+1.jsonl", messages(20, 30, 70))
    assert log.read(1) == [(2, False), (3, False)]


def test_another_log_that_reaches_into_what_is_held_is_refused(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+2.jsonl", messages(30, 40))
    log = Log(spark, tmp_path)
    assert log.read(1) == [(2, False), (3, False)]

    write(tmp_path, "t+0+0.jsonl", messages(10, 20, 35, 40))
    with pytest.raises(ValueError, match="another message than the warehouse at offset 2 of"):
        log.read(1)
    write(tmp_path, "t+0+0.jsonl", messages(10, 20, 30, 40))
    assert log.read(1) == [(0, False), (1, False)]


def test_files_of_one_run_that_are_of_two_logs_are_refused(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+0.jsonl", messages(10, 20, 30))
    other = write(tmp_path, "t+0+1.jsonl", messages(20, 50))
    log = Log(spark, tmp_path)
    with pytest.raises(PythonException) as error:
        log.read(1)
    assert message_of(error.value) == (
        f"{tmp_path}/topics/t/partition=0/t+0+0.jsonl and {other} hold different messages at "
        "offset 2 of partition 0 of t, so one of them is of another log, and nothing was added. "
        "Was the topic deleted and created again? Land the new log under another topic. Is one of "
        "the files wrong? Take it away."
    )

    # another file at the same offset, and the same messages once more
    other.unlink()
    write(tmp_path, "t+0+0.jsonl.gz", messages(10, 20, 30, 40))
    assert log.read(1) == [(0, False), (1, False), (2, False), (3, False)]


def test_a_held_line_that_was_edited_is_refused_wherever_it_stands(spark: SparkSession, tmp_path):
    """As where someone corrects an amount in a landed file: the warehouse would never show it."""
    lines = messages(10, 20, 30, 40).splitlines(keepends=True)
    path = write(tmp_path, "t+0+0.jsonl", b"".join(lines))
    log = Log(spark, tmp_path)
    assert log.read(1) == [(offset, False) for offset in range(4)]

    edited = maxwell.line(position='"bin.000007:30"', comment='"another"').encode() + b"\n"
    for changed, first in (
        ([*lines[:2], edited, lines[3]], 2),
        ([*lines[:2], edited, lines[3], *messages(50).splitlines(keepends=True)], 2),
        ([lines[0], lines[2], lines[1], lines[3]], 1),
        ([lines[0], b"no message\n", lines[2], lines[3]], 1),
        ([lines[0], *lines[2:]], 1),
    ):
        write(tmp_path, "t+0+0.jsonl", b"".join(changed))
        with pytest.raises(ValueError) as error:
            log.read(1)
        assert str(error.value) == (
            f"{path} holds another message than the warehouse at offset {first} of partition 0 of "
            "t, so it was edited, or is of another log: its messages up to offset 3 would be "
            "passed over as known. Was a message corrected? Put the file back as it was, and land "
            "the correction as a batch. Was the topic deleted and created again? Land the new log "
            "under another topic. Does LANDING or WAREHOUSE name the wrong folder? Set it. Is the "
            "file wrong? Take it away."
        )

    # the same lines in another file, more of them, less of them, and a correction as a batch
    write(tmp_path, "t+0+0.jsonl", b"".join(lines) + messages(50))
    write(tmp_path, "t+0+1.jsonl.gz", b"".join(lines[1:]))
    write(tmp_path / "batches" / "fix", "t+0+0.jsonl", edited)
    assert log.read(1) == [(0, False), (4, False)]
    write(tmp_path, "t+0+0.jsonl", b"".join(lines[:3]))
    assert not log.read(1)


def test_what_was_refused_and_read_again_is_the_same_message(
    spark: SparkSession, tmp_path, monkeypatch
):
    """A message that is held twice, too long a line, and one of invalid bytes."""
    long = maxwell.line(position='"bin.000007:20"', comment=f'"{"x" * 3000}"').encode() + b"\n"
    lines = [messages(10), long, b"\xff\xfe\n", b"\n", messages(30)]
    write(tmp_path, "t+0+0.jsonl", b"".join(lines))
    log = Log(spark, tmp_path)
    log.meta["formats"] = {"*": "canal"}
    assert log.read(0.002) == [(offset, True) for offset in range(5)]
    log.meta["formats"] = {"*": "maxwell"}
    assert log.read(0.002) == [(0, False), (1, False), (4, False)]

    sides = ((another_log.MOST_AT_ONCE, 1, (0, 3)), (0, 0.002, (2, 4)))
    for most_at_once, longest, edits in sides:
        monkeypatch.setattr(another_log, "MOST_AT_ONCE", most_at_once)
        write(tmp_path, "t+0+0.jsonl", b"".join(lines))
        assert not log.read(longest)
        for edited in edits:
            changed = [*lines[:edited], messages(99), *lines[edited + 1 :]]
            write(tmp_path, "t+0+0.jsonl", b"".join(changed))
            with pytest.raises(ValueError, match=f"the warehouse at offset {edited} of"):
                log.read(longest)


def test_many_partitions_that_are_read_again_are_not_asked_for_one_by_one(
    spark: SparkSession, tmp_path, monkeypatch
):
    monkeypatch.setattr(another_log, "MOST_NAMED", 2)
    for number in range(4):
        write(tmp_path, f"t+{number}+0.jsonl", messages(10, 20), f"t/partition={number}")
    log = Log(spark, tmp_path)
    assert len(log.read(1)) == 8

    for number in range(4):
        write(tmp_path, f"t+{number}+0.jsonl", messages(10, 20, 30), f"t/partition={number}")
    write(tmp_path, "t+2+0.jsonl", messages(10, 21, 30), "t/partition=2")
    with pytest.raises(ValueError, match="at offset 1 of partition 2 of t"):
        log.read(1)
    write(tmp_path, "t+2+0.jsonl", messages(10, 20, 30), "t/partition=2")
    assert log.read(1) == [(2, False)] * 4


@pytest.mark.parametrize("seed", range(4))
def test_the_first_line_that_differs_is_found_in_any_files(
    seed, spark: SparkSession, tmp_path, monkeypatch
):
    """Files of any cut, read here or by workers, compared line by line or by stretches first."""
    random = Random(seed)
    monkeypatch.setattr(landing, "FEW_BYTES", random.choice((0, landing.FEW_BYTES)))
    monkeypatch.setattr(another_log, "MOST_AT_ONCE", random.choice((1, 10, 50_000)))
    log = Log(spark, tmp_path)
    lines = messages(*range(10, 10 + 40 * 5, 5)).splitlines(keepends=True)
    for first, end in ((0, 9), (12, 25), (25, 31)):
        write(tmp_path, f"t+0+{first}.jsonl", b"".join(lines[first:end]))
    log.read(1)
    held = {*range(9), *range(12, 31)}

    starts = sorted(random.sample(range(30), 3))
    for again in (False, True):
        edited = sorted(random.sample(range(40), random.randint(1, 3))) if again else []
        found = []
        for first in starts:
            own = list(lines)
            for offset in edited:
                own[offset] = messages(1000 + offset)
            suffix = random.choice(("", ".gz"))
            end = random.randint(first, 40)
            write(tmp_path, f"t+0+{first:03}.jsonl{suffix}", b"".join(own[first:end]))
            found += [offset for offset in edited if first <= offset < end and offset in held]
        print(f"seed {seed}: edited {edited}, of that held {found}")
        if found:
            with pytest.raises(ValueError, match=f"the warehouse at offset {found[0]} of"):
                log.read(1)
        elif not again:
            added = log.read(1) or []
            held |= {offset for offset, _ in added}


@pytest.mark.parametrize("seed", range(40))
def test_stretches_are_exactly_the_held_lines(seed, tmp_path, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(held_again, "STRETCH", random.choice((1, 3, 10, 1000)))
    first_offset = random.randint(0, 40)
    lines = [b"%d" % random.randint(0, 10**6) for _ in range(random.randint(0, 60))]
    content = b"".join(line + b"\n" for line in lines) + random.choice((b"", b"cut"))
    path = str(write(tmp_path, random.choice(("a.jsonl", "a.jsonl.gz")), content))
    starts = [random.randint(0, 90) for _ in range(random.randint(0, 6))]
    held = merge((first, first + random.randint(0, 20)) for first in starts)

    found = list(held_stretches([(path, LIVE, "t", 0, first_offset)], {"t/0": held}))

    covered = [offset for item in found for offset in range(item.first, item.last + 1)]
    behind = first_offset + len(lines)
    expected = {
        offset: crc32(lines[offset - first_offset])
        for offset in range(first_offset, behind)
        if held_until(held, offset) is not None
    }
    assert covered == list(expected)
    assert not found or checksums_at(found, first_offset) == expected
    size = held_again.STRETCH
    for item in found:
        assert item.first // size == item.last // size
        offsets = range(item.first, item.last + 1)
        assert item.checksum == sum(expected[at] * (at % size + 1) for at in offsets)
