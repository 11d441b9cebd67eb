"""Lines of landed files: plain, compressed, cut, too long."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.landing import files as landing
from python_udfs.ingestion.landing.files import CHUNK, CUT_LINE, CUT_STREAM, LIVE
from python_udfs.ingestion.landing.offsets import held_until, merge
from python_udfs.ingestion.landing.spark import held_offsets, read_messages
from tests.support.landed_files import LINES, read, write

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
    for end in range(len(packed)):  # of no bytes first: a copy that has only begun
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


def test_a_gzip_stream_with_a_wrong_byte_is_reported(tmp_path):
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
def test_garbage_instead_of_gzip_is_reported(tmp_path, garbage):
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


@pytest.mark.parametrize("seed", range(40))
def test_files_of_one_run_with_different_messages_at_one_offset_are_refused(
    seed, tmp_path, monkeypatch
):
    """One differing line anywhere in two files that overlap is found by the first of them, at its
    offset; the same line beyond what they share is not."""
    random = Random(seed)
    monkeypatch.setattr(landing, "CHUNK", random.choice((8, 64, 4 << 20)))
    log = [b"%d" % offset * random.randint(1, 3) for offset in range(90)]
    starts = sorted(random.sample(range(60), 2))
    ends = [first + random.randint(15, 30) for first in starts]
    differing = random.randrange(starts[1], ends[1])
    files = []
    for number, (first, end) in enumerate(zip(starts, ends, strict=True)):
        lines = log[first:end]
        if number:
            lines[differing - first] += b" of another log"
        content = b"".join(line + b"\n" for line in lines) + random.choice((b"", b"cut"))
        path = write(tmp_path, f"t+0+{first}.jsonl{random.choice(('', '.gz'))}", content)
        files.append((str(path), LIVE, "t", 0, first))
    together = {"t/0": [(first, path) for path, _, _, _, first in files]}
    held = {"t/0": merge([(0, random.randint(0, 80))])} if random.random() < 0.5 else {}

    def offsets() -> list[int]:
        return [
            offset
            for file in files
            for columns in landing.message_batches([file], held, together)
            for offset, reason in zip(columns["message_offset"], columns["cut_reason"], strict=True)
            if reason is None
        ]

    if differing < ends[0]:
        with pytest.raises(ValueError, match="different messages") as error:
            offsets()
        (first, _, _, _, _), (second, _, _, _, _) = files
        assert (
            f"{first} and {second} hold different messages at offset {differing} of partition 0 of"
            in str(error.value)
        )
    else:
        reached = {offset for place in zip(starts, ends, strict=True) for offset in range(*place)}
        expected = [o for o in reached if held_until(held.get("t/0", []), o) is None]
        assert sorted(offsets()) == sorted(expected)


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
def test_too_long_a_line_gives_its_begin_with_a_reason_and_the_next_lines_come(
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
def test_too_long_a_line_that_the_file_ends_in_has_both_reasons(tmp_path, suffix, length):
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
