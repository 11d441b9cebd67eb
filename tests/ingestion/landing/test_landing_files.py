"""Landed files: which are read, what of them, and what a broken one gives."""

from __future__ import annotations

import gzip
import json
import os
import time
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.binlog_messages import binlog_messages
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing import files as landing
from python_udfs.ingestion.landing.files import CHUNK, CUT_LINE, CUT_STREAM, LIVE, LandedFile
from python_udfs.ingestion.landing.offsets import held_until, merge
from python_udfs.ingestion.landing.spark import held_offsets, read_messages
from tests.support import lines as maxwell

LINES = [b'{"a":%d,"text":"\xe4\xba\xac %s"}' % (i, b"x" * (i % 37)) for i in range(60)]


def landed(first_offset: int, size: int = 10, partition: int = 0, gz: bool = False) -> LandedFile:
    """A listed file that need not exist."""
    name = f"t+{partition}+{first_offset:010d}.jsonl{'.gz' if gz else ''}"
    return LandedFile("t", partition, first_offset, f"landing/{name}", size)


def write(root: Path, name: str, content: bytes, folder: str | None = None) -> Path:
    """Write a file of topic t, partition 0 (or of another folder under topics)."""
    path = root / "topics" / (folder or "t/partition=0") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def read(path: Path) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """(whole lines, what is left of a broken file with the reason)."""
    good, cut = [], []
    for lines, reason in landing.read_lines(str(path)):
        assert not cut, "nothing may follow what is left of a broken file"
        if reason is None:
            good += lines
        else:
            cut += [(line, reason) for line in lines]
    assert len(cut) <= 1
    return good, cut


# Listing


def test_files_are_listed_in_order_of_topic_partition_and_offset(tmp_path):
    for topic, partition, offset, suffix in [
        ("t", 10, 5, ".jsonl"),
        ("t", 9, 100, ".jsonl.gz"),
        ("t", 9, 20, ".jsonl"),
        ("a+b", 0, 0, ".jsonl"),
    ]:
        folder = f"{topic}/partition={partition}"
        write(tmp_path, f"{topic}+{partition}+{offset}{suffix}", b"x\n", folder)

    found = landing.list_files(str(tmp_path))

    places = [(file.key, file.first_offset) for file in found]
    assert places == [("a+b/0", 0), ("t/9", 20), ("t/9", 100), ("t/10", 5)]
    assert [file.size for file in found] == [Path(file.path).stat().st_size for file in found]


def test_hidden_and_temporary_files_are_passed_over(tmp_path):
    for name in (".t+0+0.jsonl.crc", "_SUCCESS", "+tmp", "README.md", "t+0+0000000007.jsonl"):
        write(tmp_path, name, b"x\n")
    write(tmp_path, "anything", b"x\n", "+tmp/t/partition=0")
    assert [file.first_offset for file in landing.list_files(str(tmp_path))] == [7]


def test_misnamed_files_are_named_in_one_error(tmp_path):
    write(tmp_path, "t+0+0000000000.jsonl", b"x\n")
    wrong = [
        ("t+0+12.json", "t/partition=0"),
        ("t+0+x.jsonl", "t/partition=0"),
        ("t+1+12.jsonl", "t/partition=0"),
        ("u+0+12.jsonl", "t/partition=0"),
        ("t+0+12.jsonl", "t"),
        ("t+0+13.jsonl.bz2", "t/partition=0"),
    ]
    for name, folder in wrong:
        write(tmp_path, name, b"x\n", folder)
    with pytest.raises(ValueError, match="6 landed files don't fit the layout") as error:
        landing.list_files(str(tmp_path))
    for name, folder in wrong:
        assert f"topics/{folder}/{name}" in str(error.value)


@pytest.mark.parametrize("inside", ["", "data"])
def test_a_missing_landing_folder_is_told_with_the_layout(tmp_path, inside):
    with pytest.raises(FileNotFoundError, match="LANDING must name a folder that holds topics/"):
        landing.list_files(str(tmp_path / inside))


# Offsets


@pytest.mark.parametrize("seed", range(50))
def test_merged_intervals_hold_the_same_offsets_sorted_and_apart(seed):
    random = Random(seed)
    intervals = []
    for _ in range(random.randint(0, 12)):
        first = random.randint(0, 60)
        intervals.append((first, first + random.randint(0, 9)))
    offsets = {number for first, last in intervals for number in range(first, last + 1)}

    merged = merge(intervals)

    assert {number for first, last in merged for number in range(first, last + 1)} == offsets
    assert all(a[1] + 1 < b[0] for a, b in pairwise(merged))
    assert merge(merged) == merged
    for offset in range(75):
        until = offset
        while until in offsets:
            until += 1
        assert held_until(merged, offset) == (until - 1 if offset in offsets else None)


def test_offsets_beyond_the_range_of_an_int_are_held():
    assert held_until([(2**62, 2**63 - 1)], 2**63 - 1) == 2**63 - 1
    assert held_until([], 0) is None


# Which files to read


def chosen(files: list[LandedFile], held: dict, seen: dict[str, int] | None = None) -> list[int]:
    """First offsets of the files to read. None of them exists: nothing may be opened."""
    return [file.first_offset for file in landing.files_to_read(files, held, seen or {})]


def test_everything_is_read_at_first():
    assert chosen([landed(0), landed(10), landed(20)], {}) == [0, 10, 20]


def test_covered_files_are_passed_over_without_opening_them():
    files = [landed(0), landed(10), landed(20)]
    assert chosen(files, {"t/0": [(0, 24)]}) == [20]
    assert chosen(files, {"t/0": [(0, 24)]}, landing.open_ended(files, {"t/0": [(0, 24)]})) == []


def test_each_partition_has_its_own_offsets():
    files = [landed(0), landed(10), landed(0, partition=1), landed(10, partition=1)]
    assert chosen(files, {"t/1": [(0, 19)]}) == [0, 10, 10]


def test_the_last_file_is_read_again_when_it_has_grown():
    held = {"t/0": [(0, 14)]}
    seen = landing.open_ended([landed(0), landed(10, size=50)], held)
    assert seen == {"t+0+0000000010.jsonl": (50, 0)}
    assert chosen([landed(0), landed(10, size=50)], held, seen) == []
    assert chosen([landed(0), landed(10, size=80)], held, seen) == [10]


def test_a_file_that_was_cut_is_read_again_when_it_is_complete():
    # 0 .. 4 came before the cut, 10 .. 19 from the next file
    held = {"t/0": [(0, 4), (10, 19)]}
    cut, whole = landed(0, size=30), landed(0, size=60)
    seen = landing.open_ended([cut, landed(10)], held)
    assert chosen([cut, landed(10)], held, seen) == []
    assert chosen([whole, landed(10)], held, seen) == [0]
    assert chosen([whole, landed(10)], {"t/0": [(0, 19)]}, seen) == []


def test_a_file_that_is_written_again_at_its_size_is_read_again(tmp_path):
    """A copy reserves its size first: what is read then is cut, and what comes has that size."""
    content = b"".join(line + b"\n" for line in LINES[:20])
    path = write(tmp_path, "t+0+0000000000.jsonl", content[:100] + bytes(len(content) - 100))
    [reserved] = landing.list_files(str(tmp_path))
    good, cut = read(path)
    assert 0 < len(good) < 20 and cut[0][1] == landing.CUT_LINE
    held = {"t/0": [(0, len(good) - 1)]}
    # as they come back from a commit
    seen = json.loads(json.dumps(landing.open_ended([reserved], held)))
    assert landing.files_to_read([reserved], held, seen, reserved.changed_ns) == []
    time.sleep(0.02)

    with path.open("r+b") as file:
        file.write(content)

    [whole] = landing.list_files(str(tmp_path))
    assert whole.size == reserved.size
    assert landing.files_to_read([whole], held, seen, reserved.changed_ns) == [whole]
    by_size = {name: size for name, (size, _) in seen.items()}  # of an earlier version
    assert landing.files_to_read([whole], held, by_size, reserved.changed_ns) == []


def test_a_log_that_is_delivered_again_split_otherwise_is_not_read():
    # 0 .. 29 are held; the same offsets come again in files of other lengths
    again = [landed(0), landed(7), landed(14), landed(21)]
    assert chosen(again, {"t/0": [(0, 29)]}) == [21]
    assert chosen([*again, landed(30)], {"t/0": [(0, 29)]}) == [30]


def test_files_that_overlap_what_is_held_are_read_as_far_as_needed():
    # held up to 24: of the file from 20 only the end is new
    assert chosen([landed(5), landed(20), landed(40)], {"t/0": [(0, 24)]}) == [20, 40]
    # a hole in what is held
    assert chosen([landed(0), landed(10), landed(20)], {"t/0": [(0, 9), (20, 29)]}) == [10, 20]


def test_a_file_that_came_since_the_last_listing_is_read_whatever_its_neighbours_say():
    files = [landed(0), replace(landed(10), changed_ns=70), replace(landed(20), changed_ns=60)]
    held = {"t/0": [(0, 29)]}
    seen = {Path(files[2].path).name: files[2].size}
    assert landing.files_to_read(files, held, seen, seen_until_ns=70) == []
    assert landing.files_to_read(files, held, seen, seen_until_ns=69) == [files[1]]


# Lines


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_come_as_they_are(tmp_path, suffix):
    path = write(tmp_path, f"t+0+0{suffix}", b"\n".join(LINES) + b"\n")
    assert read(path) == (LINES, [])


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_what_a_line_may_hold(tmp_path, suffix):
    # CR stays (JSON's own blank), NUL stays, empty lines count, U+2028 and U+0085 end no line
    lines = [b"{}\r", b"", b"a\x00b", "a\u2028b\u0085c\x0b\x0cd".encode(), b"\xff\xfe", b"\r", b""]
    path = write(tmp_path, f"t+0+0{suffix}", b"\n".join(lines) + b"\n")
    assert read(path) == (lines, [])


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_an_empty_file_has_no_lines(tmp_path, suffix):
    assert read(write(tmp_path, f"t+0+0{suffix}", b"")) == ([], [])


def test_a_file_of_no_bytes_that_is_named_gz_has_no_lines(tmp_path):
    path = write(tmp_path, "t+0+0.jsonl.gz", b"")
    path.write_bytes(b"")
    assert read(path) == ([], [])


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_last_line_without_newline_is_not_taken_for_whole(tmp_path, suffix):
    path = write(tmp_path, f"t+0+0{suffix}", b'{"a":1}\n{"a":2}')
    assert read(path) == ([b'{"a":1}'], [(b'{"a":2}', CUT_LINE)])


def test_a_plain_file_cut_anywhere_gives_its_whole_lines_and_the_rest(tmp_path):
    content = b"\n".join(LINES[:8]) + b"\n"
    path = tmp_path / "t+0+0.jsonl"
    for end in range(len(content)):
        path.write_bytes(content[:end])
        *whole, rest = content[:end].split(b"\n")
        assert read(path) == (whole, [(rest, CUT_LINE)] if rest else [])


def test_gzip_members_follow_each_other(tmp_path):
    path = write(tmp_path, "t+0+0.jsonl.gz", b"")
    # members end within a line, and one is empty
    parts = [b'{"a":', b'1}\n{"a":2}\n', b"", b'{"a":3}\n']
    path.write_bytes(b"".join(gzip.compress(part) for part in parts))
    assert read(path) == ([b'{"a":1}', b'{"a":2}', b'{"a":3}'], [])


def test_a_gzip_stream_cut_at_any_byte_gives_its_good_lines_and_one_rest(tmp_path):
    path = tmp_path / "t+0+0.jsonl.gz"
    content = b"\n".join(LINES) + b"\n"
    half = len(content) // 2
    packed = gzip.compress(content[:half]) + gzip.compress(content[half:], compresslevel=0)
    border = len(gzip.compress(content[:half]))
    most = 0
    for end in range(1, len(packed)):
        path.write_bytes(packed[:end])
        good, cut = read(path)
        assert good == LINES[: len(good)]
        assert len(good) >= most, "more bytes must not give fewer lines"
        most = len(good)
        # between two members nothing is broken: only the line may be
        reason = CUT_LINE if end == border else CUT_STREAM
        assert [item for _, item in cut] == [reason]
        assert content.startswith(b"".join(number + b"\n" for number in good) + cut[0][0])
    assert most == len(LINES)


def test_a_gzip_stream_with_a_wrong_byte_is_told(tmp_path):
    content = b"\n".join(LINES) + b"\n"
    packed = gzip.compress(content)
    path = tmp_path / "t+0+0.jsonl.gz"
    for place in range(0, len(packed), 3):
        # the header's time, flags and system may be anything
        if 2 < place < 10:
            continue
        path.write_bytes(packed[:place] + bytes([packed[place] ^ 0xFF]) + packed[place + 1 :])
        _, cut = read(path)
        assert [reason for _, reason in cut] == [CUT_STREAM]


@pytest.mark.parametrize("garbage", [b"no gzip\n" * 9, b"\n", b"\x00" * 99, b"\x1f\x8b"])
def test_garbage_instead_of_gzip_is_told(tmp_path, garbage):
    path = tmp_path / "t+0+0.jsonl.gz"
    path.write_bytes(garbage)
    assert read(path) == ([], [(b"", CUT_STREAM)])
    path.write_bytes(gzip.compress(b"good\n") + garbage)
    assert read(path) == ([b"good"], [(b"", CUT_STREAM)])


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_longer_than_a_chunk_come_whole(tmp_path, suffix):
    random = Random(1)
    lines = [b"short", random.randbytes(10 << 20).replace(b"\n", b" "), b"a" * (10 << 20), b"end"]
    # a newline as the first and as the last byte of a chunk
    lines += [b"b" * (CHUNK - sum(map(len, lines)) % CHUNK), b"c" * (CHUNK - 1), b"d" * CHUNK, b""]
    path = write(tmp_path, f"t+0+0{suffix}", b"\n".join(lines) + b"\n")
    assert read(path) == (lines, [])


# Messages


def naive(
    first_offset: int, lines: list[bytes], held: list[tuple[int, int]]
) -> list[tuple[int, int, bytes]]:
    """(run offset, offset, line) of the offsets that are not held, one by one."""
    rows, run = [], None
    for offset, line in enumerate(lines, first_offset):
        if any(first <= offset <= last for first, last in held):
            run = None
        else:
            run = offset if run is None else run
            rows.append((run, offset, line))
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_messages_are_exactly_those_not_held(seed, tmp_path, monkeypatch):
    random = Random(seed)
    # small chunks: runs and held intervals have to go over their borders
    monkeypatch.setattr(landing, "CHUNK", random.choice((5, 16, 100, 4096)))
    files, expected, held = [], [], {}
    for partition in range(2):
        intervals = []
        for _ in range(random.randint(0, 6)):
            first = random.randint(0, 90)
            intervals.append((first, first + random.randint(0, 20)))
        held[f"t/{partition}"] = merge(intervals)
        for number in range(random.randint(1, 3)):
            first_offset = random.randint(0, 60)
            lines = [b"%d" % random.randint(0, 10**6) for _ in range(random.randint(0, 40))]
            name = f"{number}.jsonl{random.choice(('', '.gz'))}"
            content = b"".join(line + b"\n" for line in lines)
            path = write(tmp_path, name, content, f"t/partition={partition}")
            files.append((str(path), LIVE, "t", partition, first_offset))
            found = naive(first_offset, lines, held[f"t/{partition}"])
            expected += [
                (LIVE, "t", partition, offset, run, None, item, None) for run, offset, item in found
            ]

    rows = []
    for columns in landing.message_batches(files, held):
        rows += list(zip(*columns.values(), strict=True))

    assert rows == expected


@pytest.mark.parametrize("seed", range(40))
def test_each_message_of_files_that_overlap_comes_once(seed, tmp_path):
    random = Random(seed)
    log = [b"%d" % offset for offset in range(100)]
    files = []
    for number in range(random.randint(1, 6)):
        first = random.randint(0, 80)
        content = b"".join(number + b"\n" for number in log[first : first + random.randint(0, 60)])
        path = write(tmp_path, f"{number}.jsonl{random.choice(('', '.gz'))}", content)
        files.append((str(path), LIVE, "t", 0, first))
    held = {"t/0": merge([(random.randint(0, 50), 50)])}
    together = {"t/0": sorted((first, path) for path, _, _, _, first in files)}
    expected = set()
    for path, _, _, _, first in files:
        good, _ = read(Path(path))
        expected |= set(range(first, first + len(good)))
    expected -= {offset for offset in expected if held_until(held["t/0"], offset) is not None}

    # each file for itself, as tasks read them
    rows = []
    for file in files:
        for columns in landing.message_batches([file], held, together):
            rows += zip(columns["message_offset"], columns["payload"], strict=True)

    assert sorted(offset for offset, _ in rows) == sorted(expected)
    assert all(payload == log[offset] for offset, payload in rows)


def test_what_is_left_of_a_cut_file_has_the_next_offset(tmp_path):
    path = write(tmp_path, "t+0+40.jsonl", b"a\nb\nc")
    batches = list(landing.message_batches([(str(path), LIVE, "t", 0, 40)], {"t/0": [(40, 40)]}))
    rows = [row for columns in batches for row in zip(*columns.values(), strict=True)]
    assert rows == [
        (LIVE, "t", 0, 41, 41, None, b"b", None),
        (LIVE, "t", 0, 42, 41, None, b"c", CUT_LINE),
    ]


def test_messages_as_a_frame_and_the_offsets_that_they_hold(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+0.jsonl", b"a0\n\xff\xfe\n\na3\na4\n")
    write(tmp_path, "t+0+5.jsonl.gz", b"a5\na6\na7")
    write(tmp_path, "t+0+9.jsonl", b"a9\n")
    write(tmp_path, "u+3+0.jsonl", b"u0\n", "u/partition=3")
    held = {"t/0": [(3, 3)]}

    frame = read_messages(spark, landing.list_files(str(tmp_path)), held)
    shown = frame.drop("batch_id", "message_key").orderBy("topic", "message_offset")
    rows = [tuple(row) for row in shown.collect()]

    assert rows == [
        ("t", 0, 0, 0, b"a0", None),
        ("t", 0, 1, 0, b"\xff\xfe", None),
        ("t", 0, 2, 0, b"", None),
        ("t", 0, 4, 4, b"a4", None),
        ("t", 0, 5, 5, b"a5", None),
        ("t", 0, 6, 5, b"a6", None),
        ("t", 0, 7, 5, b"a7", CUT_LINE),
        ("t", 0, 9, 9, b"a9", None),
        ("u", 3, 0, 0, b"u0", None),
    ]
    # what is left of the cut file is not held: its message may still come whole
    assert held_offsets(frame) == {"t/0": [(0, 2), (4, 6), (9, 9)], "u/3": [(0, 0)]}
    assert held_offsets(frame.where(F.lit(False))) == {}


def test_a_batch_is_listed_and_read_beside_the_running_log(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+0.jsonl", b"a0\na1\n")
    write(tmp_path / "batches" / "again", "t+0+0.jsonl", b"b0\nb1\nb2\n")

    files = landing.list_files(str(tmp_path))
    frame = read_messages(spark, files, {"t/0": [(0, 0)], "again:t/0": [(2, 2)]})
    columns = ("batch_id", "message_offset", "payload")
    rows = {tuple(row) for row in frame.select(*columns).collect()}

    assert [(file.key, file.name) for file in files] == [
        ("again:t/0", "again:t+0+0.jsonl"),
        ("t/0", "t+0+0.jsonl"),
    ]
    assert rows == {("live", 1, b"a1"), ("again", 0, b"b0"), ("again", 1, b"b1")}
    assert held_offsets(frame) == {"t/0": [(1, 1)], "again:t/0": [(0, 1)]}


@pytest.mark.parametrize("name", ["live", "a b", "a.b"])
def test_a_batch_whose_name_will_not_do_is_refused(tmp_path, name):
    write(tmp_path, "t+0+0.jsonl", b"a0\n")
    write(tmp_path / "batches" / name, "t+0+0.jsonl", b"b0\n")

    with pytest.raises(ValueError, match="a batch's name: letters, digits") as error:
        landing.list_files(str(tmp_path))

    assert f"batches/{name}" in str(error.value)


# What is hostile


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("longest", [100, 5 << 20])
def test_too_long_a_line_gives_its_begin_with_a_reason_and_the_next_ones_come(
    tmp_path, suffix, longest
):
    long = b"x" * (3 * CHUNK + 7)
    lines = [long, b"a", b"b" * 100, b"", long[: CHUNK * 2 + 1], b"c"]
    path = write(tmp_path, f"t+0+0{suffix}", b"\n".join(lines) + b"\n")
    found = [
        (line, reason) for some, reason in landing.read_lines(str(path), longest) for line in some
    ]

    assert len(found) == len(lines) == landing.count_lines(str(path))
    for (line, reason), whole in zip(found, lines, strict=True):
        if len(whole) > longest:
            assert whole.startswith(line) and len(line) == landing.KEPT_OF_LONG
            assert reason.startswith(landing.LONG_LINE) and not landing.is_cut(reason)
        else:
            assert (line, reason) == (whole, None)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("length", [101, 3 * CHUNK])
def test_too_long_a_line_that_the_file_ends_in_tells_both(tmp_path, suffix, length):
    """What was written of it so far is too long already; the rest may come yet."""
    path = write(tmp_path, f"t+0+0{suffix}", b"a\n" + b"x" * length)
    _, (begin, reason) = landing.read_lines(str(path), 100)
    assert begin == [b"x" * min(length, landing.KEPT_OF_LONG)]
    assert reason == f"{CUT_LINE}, and its last line is longer than 100 bytes (max_line_mb)"
    assert landing.is_cut(reason) and landing.count_lines(str(path)) == 1


def test_a_small_file_that_holds_a_very_long_line_takes_little_memory(tmp_path):
    size = 400 << 20
    path = tmp_path / "t+0+0.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(size >> 20):
            file.write(b"x" * (1 << 20))
        file.write(b"\nlast\n")
    assert path.stat().st_size < 4 << 20
    tracemalloc.start()
    found = [(len(line), reason) for some, reason in landing.read_lines(str(path)) for line in some]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [length for length, _ in found] == [landing.KEPT_OF_LONG, 4]
    assert found[0][1].startswith(landing.LONG_LINE)
    print(f"at most {peak >> 20} MB")
    assert peak < 3 * landing.LONGEST_LINE


def test_a_file_of_newlines_alone_comes_in_batches(tmp_path):
    path = write(tmp_path, "t+0+0.jsonl.gz", b"\n" * 1_000_000)
    sizes = [
        len(columns["payload"])
        for columns in landing.message_batches([(str(path), LIVE, "t", 0, 0)], {})
    ]
    assert (sum(sizes), max(sizes)) == (1_000_000, landing.LINES_A_BATCH)


def outside(tmp_path: Path) -> Path:
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "t+0+0000000000.jsonl").write_bytes(b"a secret\n")
    return secret


SPECIAL = {
    "a link to a file outside": lambda at, out: (at / "t+0+5.jsonl").symlink_to(
        out / "t+0+0000000000.jsonl"
    ),
    "a link to a system file": lambda at, out: (at / "t+0+5.jsonl").symlink_to("/etc/passwd"),
    "a broken link": lambda at, out: (at / "t+0+5.jsonl").symlink_to(out / "none"),
    "a link to itself": lambda at, out: (at / "t+0+5.jsonl").symlink_to(at / "t+0+5.jsonl"),
    "a pipe": lambda at, out: os.mkfifo(at / "t+0+5.jsonl"),
    "a folder outside": lambda at, out: (at.parent / "partition=1").symlink_to(out),
    "a loop of folders": lambda at, out: (at / "loop").symlink_to(at.parent.parent),
    "a topic outside": lambda at, out: (at.parent.parent / "u").symlink_to(out),
    "a batch outside": lambda at, out: _linked_batch(at.parents[2], out),
    "the topics of a batch": lambda at, out: _linked_topics(at.parents[2], out),
    "all topics": lambda at, out: _moved_and_linked(at.parents[1], out),
    "all batches": lambda at, out: (at.parents[2] / "batches").symlink_to(out),
    "batches that are not there": lambda at, out: (at.parents[2] / "batches").symlink_to("none"),
}


def _linked_batch(root: Path, out: Path) -> None:
    (root / "batches").mkdir()
    (root / "batches" / "again").symlink_to(out)


def _linked_topics(root: Path, out: Path) -> None:
    (root / "batches" / "again").mkdir(parents=True)
    (root / "batches" / "again" / "topics").symlink_to(out)


def _moved_and_linked(folder: Path, out: Path) -> None:
    folder.rename(out / folder.name)
    folder.symlink_to(out / folder.name)


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_named_and_nothing_of_it_is_read(tmp_path, kind):
    out = outside(tmp_path)
    write(tmp_path / "landing", "t+0+0.jsonl", b"1\n")
    SPECIAL[kind](tmp_path / "landing" / "topics" / "t" / "partition=0", out)
    with pytest.raises(ValueError, match="neither files nor folders but symbolic links") as error:
        landing.list_files(str(tmp_path / "landing"))
    assert "secret" not in str(error.value) and str(error.value).count("\n") == 0


def test_the_landing_folder_itself_may_be_a_link(tmp_path):
    write(tmp_path / "real", "t+0+0.jsonl", b"1\n")
    (tmp_path / "landing").symlink_to(tmp_path / "real")
    assert len(landing.list_files(str(tmp_path / "landing"))) == 1


def test_a_file_that_became_a_link_since_it_was_listed_is_not_read(tmp_path):
    path = write(tmp_path, "t+0+0.jsonl", b"1\n")
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic link"):
        list(landing.read_lines(str(path)))


@pytest.mark.parametrize("swapped", ["partition=0", "t", "topics"])
def test_a_folder_that_became_a_link_since_it_was_listed_is_not_read(tmp_path, swapped):
    write(tmp_path / "real", "t+0+0.jsonl", b"1\n")
    (tmp_path / "landing").symlink_to(tmp_path / "real")
    [file] = landing.list_files(str(tmp_path / "landing"))
    assert list(landing.read_lines(file.path)) == [([b"1"], None)]
    folder = next(parent for parent in Path(file.path).parents if parent.name == swapped)
    _moved_and_linked(folder, outside(tmp_path))
    with pytest.raises(OSError, match=f"symbolic link.*{swapped}"):
        list(landing.read_lines(file.path))


def test_a_file_that_is_renamed_while_it_is_listed_is_passed_over(tmp_path, monkeypatch):
    write(tmp_path, "t+0+0.jsonl", b"1\n")
    write(tmp_path, "t+0+1.jsonl", b"2\n")
    real = os.lstat

    def lstat(path, **options):
        if str(path).endswith("t+0+1.jsonl"):
            raise FileNotFoundError(path)
        return real(path, **options)

    monkeypatch.setattr(landing.os, "lstat", lstat)
    assert [file.first_offset for file in landing.list_files(str(tmp_path))] == [0]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    write(tmp_path, "t+0+0.jsonl", b"1\n")
    real = os.scandir

    def scandir(path):
        if str(path).endswith("partition=0"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ValueError, match=r"can't be read at .*partition=0: Permission denied"):
        landing.list_files(str(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        f"t+0+{2**63}.jsonl",
        f"t+0+{2**62 + 1}.jsonl",
        "t+0+" + "9" * 200 + ".jsonl",
        "t+0+\u0663.jsonl",
        "again:t+0+0.jsonl",
        "t\x1b[31m+0+0.jsonl",
        "t\n+0+0.jsonl",
        "t\u202e+0+0.jsonl",
        b"t\xff+0+0.jsonl",
    ],
)
def test_names_that_no_sink_writes_are_told_so_that_a_screen_can_show_them(tmp_path, name):
    name = os.fsdecode(name)
    write(tmp_path, name, b"1\n", folder=f"{name.partition('+')[0]}/partition=0")
    with pytest.raises(ValueError, match="1 landed files don't fit the layout") as error:
        landing.list_files(str(tmp_path))
    assert str(error.value).isprintable()


def test_a_partition_beyond_all_numbers_is_told(tmp_path):
    number = 2**31
    write(tmp_path, f"t+{number}+0.jsonl", b"1\n", folder=f"t/partition={number}")
    with pytest.raises(ValueError, match="1 landed files don't fit the layout"):
        landing.list_files(str(tmp_path))


def test_too_long_a_line_is_held_and_refused(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+0.jsonl", b"x" * 5000 + b"\n")
    files = landing.list_files(str(tmp_path))
    rows = with_envelope(read_messages(spark, files, {}, longest=1000), "maxwell")
    [row] = rows.select("reject_reason", "cut_reason", "payload").collect()
    assert row.reject_reason.startswith("the line is longer than 1000 bytes (max_line_mb)")
    assert (row.cut_reason, row.payload) == (None, "x" * 5000)
    assert held_offsets(rows) == {"t/0": [(0, 0)]}


class Log:
    """The model ods_binlog in memory: what dbt and its table are to binlog_messages."""

    project_root, run_id, this = "/", "run", "landed_log"

    def __init__(self, spark: SparkSession, landing: Path) -> None:
        self.spark, self.is_incremental = spark, False
        self.meta = {"landing": str(landing), "kafka": {"servers": ""}, "formats": {"*": "maxwell"}}
        self.properties: dict[str, str] = {}
        self.rows: list[Any] = []

    def snapshot_property(self, name: str, default: str | None = None) -> str | None:
        return self.committed.get(name, default) if self.is_incremental else default

    def set_snapshot_property(self, name: str, value: str) -> None:
        self.properties[name] = value

    def own_rows_since(self, _: str) -> DataFrame:
        return self.spark.createDataFrame(self.last, self.schema)

    def read(self, max_line_mb: float) -> list[tuple[int, bool]] | None:
        """Offset of each message that a run adds, and whether it was refused."""
        self.meta["max_line_mb"] = max_line_mb
        frame = binlog_messages(self, self.spark)
        if frame is None:
            return None
        self.schema, self.last = frame.schema, frame.collect()
        self.rows += self.last
        self.committed, self.is_incremental = dict(self.properties), True
        self.spark.createDataFrame(self.rows, self.schema).createOrReplaceTempView(self.this)
        return sorted((row.message_offset, row.reject_reason is not None) for row in self.last)


def test_too_long_a_line_is_read_when_max_line_mb_grew(spark: SparkSession, tmp_path):
    long = maxwell.line(position='"bin.000007:20"', comment=f'"{"x" * 3000}"')
    short = [maxwell.line(position=f'"bin.000007:{place}"') for place in (10, 30)]
    lines = [short[0], long, short[1]]
    write(tmp_path, "t+0+0.jsonl", "".join(f"{line}\n" for line in lines).encode())
    write(tmp_path, "t+0+3.jsonl", f"{long}\n".encode())
    log = Log(spark, tmp_path)
    assert log.read(0.001) == [(0, False), (1, True), (2, False), (3, True)]
    assert log.read(0.001) is None

    assert not log.read(0.002)  # too long still
    assert log.read(1) == [(1, False), (3, False)]
    assert log.read(1) is None
    assert not log.read(2)
