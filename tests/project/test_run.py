"""What `make run` adds to dbt."""

from __future__ import annotations

from pathlib import Path

from tools import run


def test_a_small_log_is_run_without_javas_second_compiler(tmp_path: Path) -> None:
    part = tmp_path / "topics" / "maxwell" / "partition=0"
    part.mkdir(parents=True)
    (part / "maxwell+0+0000000000.jsonl").write_bytes(b"{}\n")
    assert run.java_options(tmp_path) == run.QUICK_COMPILER
    assert run.java_options(tmp_path / "none") == run.QUICK_COMPILER

    with (part / "maxwell+0+0000000001.jsonl").open("wb") as file:
        file.truncate(run.SMALL_LOG)
    assert run.java_options(tmp_path) == ""
