"""Landed files: which are read, what of them, and what a broken one gives."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing import files as landing
from python_udfs.ingestion.landing.files import LandedFile
from python_udfs.ingestion.landing.offsets import held_until, merge
from python_udfs.ingestion.landing.spark import held_offsets, read_messages
from tests.support import lines as maxwell
from tests.support.landed_files import LINES, Log, messages, read, write


def landed(first_offset: int, size: int = 10, partition: int = 0, gz: bool = False) -> LandedFile:
    """A listed file that need not exist."""
    name = f"t+{partition}+{first_offset:010d}.jsonl{'.gz' if gz else ''}"
    return LandedFile("t", partition, first_offset, f"landing/{name}", size)


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
def test_a_missing_landing_folder_is_reported_with_the_layout(tmp_path, inside):
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
def test_names_that_no_sink_writes_are_shown_escaped(tmp_path, name):
    name = os.fsdecode(name)
    write(tmp_path, name, b"1\n", folder=f"{name.partition('+')[0]}/partition=0")
    with pytest.raises(ValueError, match="1 landed files don't fit the layout") as error:
        landing.list_files(str(tmp_path))
    assert str(error.value).isprintable()


def test_a_partition_beyond_all_numbers_is_reported(tmp_path):
    number = 2**31
    write(tmp_path, f"t+{number}+0.jsonl", b"1\n", folder=f"t/partition={number}")
    with pytest.raises(ValueError, match="1 landed files don't fit the layout"):
        landing.list_files(str(tmp_path))


def test_a_file_in_the_place_of_the_batches_is_reported(tmp_path):
    write(tmp_path, "t+0+0.jsonl", b"1\n")
    (tmp_path / "batches").write_bytes(b"1\n")
    with pytest.raises(ValueError, match="1 landed files don't fit the layout") as error:
        landing.list_files(str(tmp_path))
    assert "offset of at most 2^62): batches. " in str(error.value)


def test_too_long_a_line_is_held_and_refused(spark: SparkSession, tmp_path):
    write(tmp_path, "t+0+0.jsonl", b"x" * 5000 + b"\n")
    files = landing.list_files(str(tmp_path))
    rows = with_envelope(read_messages(spark, files, {}, longest=1000), "maxwell")
    [row] = rows.select("reject_reason", "cut_reason", "payload").collect()
    assert row.reject_reason.startswith("the line is longer than 1000 bytes (max_line_mb)")
    assert (row.cut_reason, row.payload) == (None, "x" * 5000)
    assert held_offsets(rows) == {"t/0": [(0, 0)]}


@pytest.mark.in_turn
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


def test_the_sample_gets_in_among_no_other_log_where_landing_is_no_longer_set(
    spark: SparkSession, tmp_path
):
    own, sample = tmp_path / "own", tmp_path / "landing"
    write(own, "t+0+0.jsonl", messages(10))
    write(sample, "s+0+0.jsonl", messages(20), folder="s/partition=0")
    log = Log(spark, own)
    log.project_root = str(tmp_path)
    assert log.read(1) == [(0, False)]

    log.meta |= {"landing": "landing", "landing_is_set": False}
    with pytest.raises(ValueError, match="LANDING isn't set, and this warehouse was made of the"):
        log.read(1)
    log.meta |= {"landing": "./landing", "landing_is_set": True}
    assert log.read(1) == [(0, False)]
    log.meta |= {"landing": "landing", "landing_is_set": False}
    assert log.read(1) is None
    log.meta |= {"landing": str(own), "landing_is_set": True}
    assert not log.read(1)

    # nor does another log get in among the sample
    first = Log(spark, sample)
    first.project_root = str(tmp_path)
    first.meta |= {"landing_is_set": False}
    assert first.read(1) == [(0, False)]
    first.meta |= {"landing": str(own), "landing_is_set": True}
    with pytest.raises(ValueError, match="was made of the project's sample in"):
        first.read(1)
    (sample / "topics").rename(sample / "gone")
    assert first.read(1) == [(0, False)]
