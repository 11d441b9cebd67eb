"""Bad input: the good rows are built, the bad rows are kept with their reason, the run reports
it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.support.warehouse import SAMPLE, Warehouse, differing, lines_of, sample_days, truth

BAD_LINES = [
    b"this is no JSON",
    b'{"database":"shop","table":"order_info","type":"insert"',
    b"[1, 2, 3]",
    b'{"a":1}{"b":2}',
    b"",
    b"\xff\xfe\x00 not UTF-8",
    b'{"database":"shop","table":"order_info","type":"insert","ts":1772467200,"xid":1,'
    b'"commit":true,"position":"bin.000900:4","data":{"user_id":1,"amount":1.00}}',
    b'{"database":"shop","table":"order_info","type":"insert","ts":1772467200,"xid":1,'
    b'"commit":true,"position":"bin.000900:5","data":{"order_id":5,"user_id":"many",'
    b'"amount":1.00,"biz_status":"x","update_time":"2026-03-02 00:00:00.000"}}',
    b'{"database":"shop","table":"order_info","type":"insert","ts":1772467200,"xid":1,'
    b'"commit":true,"position":"bin.000900:6","data":{"order_id":99999999999999999999999,'
    b'"user_id":1,"amount":1.00,"biz_status":"x","update_time":"2026-03-02 00:00:00.000"}}',
    b'{"database":"shop","table":"order_info","type":"insert","data":"' + b"x" * 10_000_000,
]


def _first_day() -> list[bytes]:
    path = sample_days()[0][1][0]
    return lines_of(path)


def test_bad_messages_are_kept_with_their_reason_and_the_rest_is_built(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    good = _first_day()
    mixed = good[:100] + BAD_LINES + good[100:]
    warehouse.land_lines(mixed, 0)

    outcome = warehouse.build("+meta_quarantine", data_tests=True)

    assert differing(truth("day0"), warehouse.td()) == []
    refused = warehouse.query(
        "select message_offset, reject_reason, raw_text, raw_bytes, topic, partition_number "
        "from dw.meta_quarantine order by message_offset"
    )
    assert [row["message_offset"] for row in refused] == list(range(100, 100 + len(BAD_LINES)))
    for row, line in zip(refused, BAD_LINES, strict=True):
        assert row["reject_reason"]
        assert (row["topic"], row["partition_number"]) == ("maxwell", 0)
        kept = row["raw_bytes"] if row["raw_bytes"] is not None else row["raw_text"].encode()
        assert kept == line
    assert f"{len(BAD_LINES)} of {len(mixed)} messages were refused" in outcome.log
    assert warehouse.column("select count(*) from dw.ods_binlog") == [len(mixed)]


@pytest.mark.in_turn
def test_too_many_bad_messages_fail_the_run_after_saving_them(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    good = _first_day()
    warehouse.land_lines(good + [b"broken"] * 60, 0)

    outcome = warehouse.build(expect_ok=False)

    assert "above reject_threshold" in outcome.log
    assert "keyboard interrupt" not in outcome.log
    assert "60 of maxwell: " in outcome.log  # and why
    assert differing(truth("day0"), warehouse.td()) == []
    assert warehouse.refused() == 60

    again = warehouse.build()  # what was refused was reported; it doesn't hold up the next run

    assert "Nothing new has landed" in again.log
    standing = "60 messages of maxwell that earlier runs refused still stand in meta_quarantine, "
    assert f"{standing}60 of them: not JSON" in again.log
    assert "earlier runs" not in outcome.log
    warehouse.land_lines([b"broken"] * 5, len(good) + 60)
    warehouse.land_lines(good[:3], 0, batch="later")
    few = warehouse.build()  # all of a small run, but fewer than reject_least
    assert "5 of 8 messages were refused" in few.log
    assert f"{standing}60 of them: not JSON" in few.log
    assert "Messages came of the batches later, which" in few.log
    misnamed = warehouse.build(vars={"batches": ["live", "latter"]})
    assert "names latter, of which no message has landed (there is later): land it" in misnamed.log


@pytest.mark.soak
def test_a_cut_file_is_taken_as_far_as_it_goes_and_heals(tmp_path: Path) -> None:
    """One is cut within a line, one within its gzip stream."""
    warehouse = Warehouse(tmp_path)
    good = _first_day()
    half = len(good) // 2
    paths = {
        "maxwell": warehouse.land_lines(good[:half], 0),
        "maxwell_gz": warehouse.land_lines(good[half:], 0, gz=True, topic="maxwell_gz"),
    }
    whole = {topic: path.read_bytes() for topic, path in paths.items()}
    for topic, path in paths.items():
        path.write_bytes(whole[topic][: len(whole[topic]) // 2])

    outcome = warehouse.build("+meta_quarantine")

    refused = warehouse.query("select topic, message_offset, reject_reason from dw.meta_quarantine")
    assert {row["topic"] for row in refused} == set(paths)
    assert len(refused) == len(paths)
    taken = 0
    for row in refused:
        [held] = warehouse.column(
            f"select count(*) from dw.ods_binlog where topic = '{row['topic']}' "
            "and cut_reason is null and reject_reason is null"
        )
        assert 0 < held == row["message_offset"] < half
        reason = row["reject_reason"]
        assert "cut" in reason or "within a line" in reason
        taken += held
    assert "2 of" in outcome.log and "were refused" in outcome.log

    still = warehouse.build()  # the same halves again: nothing new, and not refused twice
    for topic in paths:
        assert f"1 messages of {topic} that earlier runs refused still stand" in still.log
    assert warehouse.column("select count(*) from dw.ods_binlog") == [taken + len(paths)]

    for topic, path in paths.items():
        path.write_bytes(whole[topic])
    healed = warehouse.build()

    assert "earlier runs" not in healed.log
    assert differing(truth("day0"), warehouse.td()) == []
    assert warehouse.column("select count(*) from dw.meta_quarantine") == [0]


def test_a_missing_landing_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    shutil.rmtree(warehouse.landing)

    outcome = warehouse.build(expect_ok=False)

    message = outcome.results["ods_binlog"].message
    assert "No landing folder" in message
    assert "LANDING must name a folder" in message
    assert "Traceback" not in message


def test_a_file_that_does_not_fit_the_layout_is_named(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.land(*sorted(SAMPLE.iterdir())[:1])
    (warehouse.landing / "topics" / "maxwell" / "partition=0" / "notes.txt").write_text("x")

    outcome = warehouse.build(expect_ok=False)

    assert "notes.txt" in outcome.results["ods_binlog"].message


@pytest.mark.in_turn
@pytest.mark.parametrize("major", [None, pytest.param(11, marks=pytest.mark.soak)])
def test_missing_or_old_java_is_one_clear_sentence(tmp_path: Path, major: int | None) -> None:
    warehouse = Warehouse(tmp_path)
    folder = tmp_path / "path"
    folder.mkdir()
    if major is not None:
        java = folder / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{major}.0.1\"' >&2\n")
        java.chmod(0o755)
    # a Java that setup brought along would be found as well: this test is about having none
    if (Path(sys.prefix) / "jre").exists():
        pytest.skip("setup put a Java into .venv")

    done = warehouse.subprocess("build", env={"JAVA_HOME": None, "PATH": str(folder)})

    assert done.returncode != 0
    assert "Spark needs Java 17 to 24" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def _order(position: int, order_id: str, amount: str) -> bytes:
    return (
        '{"database":"shop","table":"order_info","type":"insert","ts":1772467200,"xid":1,'
        f'"commit":true,"position":"bin.000900:{position}","data":{{"order_id":{order_id},'
        f'"user_id":1,"amount":{amount},"biz_status":"x",'
        '"update_time":"2026-03-02 00:00:00.000"}}'
    ).encode()


@pytest.mark.soak
def test_refusals_of_earlier_runs_are_not_those_of_a_run_that_corrects_a_change(
    tmp_path: Path,
) -> None:
    warehouse, models = Warehouse(tmp_path), ("--select", "ods_binlog", "ods_shop__order_info")
    good = [_order(place, str(place), "1.00") for place in range(1, 41)]
    bad = [_order(place, '"many"', "1.00") for place in range(41, 50)]
    warehouse.land_lines(good + bad, 0)
    warehouse.run("run", *models)
    corrected = [_order(1, "1", "7.00"), _order(50, '"none"', "1.00")]
    warehouse.land_lines(corrected, 0, batch="fix")

    outcome = warehouse.run("run", *models, vars={"batches": ["live", "fix"]})

    assert warehouse.column("select amount from dw.ods_shop__order_info where order_id = 1") == [7]
    assert "1 of 2 messages were refused (50.00 %): 1 by ods_shop__order_info" in outcome.log
    assert "1 of maxwell: " in outcome.log
    assert warehouse.refused() == 10  # reject_least
