"""Files whose times don't show that they came since the last run."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion import binlog_messages
from python_udfs.ingestion.landing.files import LandedFile, list_files
from tests.support.landed_files import Log, messages, write

HOUR = 3600 * 10**9


def test_a_file_that_comes_behind_one_of_a_clock_that_was_ahead_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = {"t+0+10.jsonl": HOUR}

    def listed(landing: str) -> list[LandedFile]:
        return [
            replace(file, changed_ns=file.changed_ns + ahead.get(file.name, 0))
            for file in list_files(landing)
        ]

    monkeypatch.setattr(binlog_messages, "list_files", listed)
    log = Log(spark, tmp_path)
    write(tmp_path, "t+0+0.jsonl", messages(*range(10)))
    write(tmp_path, "t+0+10.jsonl", messages(*range(10, 20)))
    log.read(1)

    # its first message is held, as are those up to the next file
    write(tmp_path, "t+0+5.jsonl", messages(*range(5, 22)))
    assert log.read(1) == [(20, False), (21, False)]

    # the clock is put back behind a run that had the wrong time
    ahead["t+0+12.jsonl"] = HOUR
    write(tmp_path, "t+0+12.jsonl", messages(*range(12, 24)))
    with monkeypatch.context() as patched:
        now = time.time_ns()
        patched.setattr("python_udfs.ingestion.binlog_messages.time.time_ns", lambda: now + HOUR)
        assert log.read(1) == [(22, False), (23, False)]
    write(tmp_path, "t+0+6.jsonl", messages(*range(6, 25)))
    assert log.read(1) == [(24, False)]


def test_a_batch_that_is_moved_to_the_place_of_another_is_compared(
    spark: SparkSession, tmp_path: Path
) -> None:
    landing, prepared = tmp_path / "landing", tmp_path / "prepared"
    batch = landing / "batches" / "fix"
    for folder, first in ((batch, 0), (prepared, 50)):
        write(folder, "t+0+0.jsonl", messages(*range(first, first + 10)))
        write(folder, "t+0+10.jsonl", messages(*range(10, 20)))
    write(landing, "t+0+0.jsonl", messages(1))
    log = Log(spark, landing)
    assert len(log.read(1) or []) == 21

    batch.rename(tmp_path / "was")
    prepared.rename(batch)
    with pytest.raises(ValueError, match="another message than the warehouse at offset 0 of"):
        log.read(1)

    # so is a topic of it
    batch.rename(prepared)
    (tmp_path / "was").rename(batch)
    assert not log.read(1)
    (batch / "topics" / "t").rename(tmp_path / "topic")
    (prepared / "topics" / "t").rename(batch / "topics" / "t")
    with pytest.raises(ValueError, match="another message than the warehouse at offset 0 of"):
        log.read(1)
