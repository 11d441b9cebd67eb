"""The benchmark of make follow: what it lands and how it reads a cycle's line."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bench_follow


def test_batches_are_the_last_messages_in_their_order() -> None:
    messages = [b"%d" % number for number in range(10_054)]
    there, brought = bench_follow.held_back(messages, 2, 10_000)
    assert [len(batch) for batch in brought] == [18, 10_000, 18, 18]
    assert [*there, *(message for batch in brought for message in batch)] == messages


def test_a_batch_appears_whole_under_the_offset_of_its_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_follow, "LANDING", tmp_path)
    assert bench_follow.land([b"a", b"b"], 7) == 9
    (file,) = (tmp_path / "topics" / "maxwell" / "partition=0").iterdir()
    assert (file.name, file.read_bytes()) == ("maxwell+0+0000000007.jsonl", b"a\nb\n")


def test_the_line_of_a_cycle_gives_its_changes_and_seconds() -> None:
    line = "2026-03-07 16:00:12Z version 2: 10,000 changes in 21.4 s, newest change 24.0 s before"
    found = bench_follow.CYCLE.search(line)
    assert found is not None
    assert found.groups() == ("2", "10,000", "21.4")
    assert bench_follow.CYCLE.search("version 2 stands: 0 changes in 1.0 s") is not None


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert bench_follow.percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert bench_follow.percentile([5.0], 0.95) == 5.0
