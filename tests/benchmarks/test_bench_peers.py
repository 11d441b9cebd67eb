"""Tests of what the benchmarks share: answers of other engines, joined files, watched memory."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.bench_peers import folded, has, join_files
from benchmarks.common import memory_of, resident_of, run_child


def test_a_changelog_comes_to_its_inserts_less_its_deletes(tmp_path: Path) -> None:
    line = '{{"data":{{"user_id":{},"order_count":{},"amount_sum":{}}},"type":"{}"}}\n'
    changes = [(1, 2, "10.25", "insert"), (1, 2, "10.25", "delete"), (1, 3, "12.50", "insert")]
    changes.append(("2.53E+3", 1, "1E+2", "insert"))
    (tmp_path / "part-0").write_text("".join(line.format(*change) for change in changes))

    assert folded(tmp_path) == (2, 4, Decimal("112.50"))


def test_joined_files_hold_the_lines_in_their_order(tmp_path: Path) -> None:
    folder = tmp_path / "topics" / "maxwell" / "partition=0"
    folder.mkdir(parents=True)
    for offset in (2, 0, 1):
        (folder / f"maxwell+0+{offset:010d}.jsonl").write_text(f"{offset}\n")

    join_files(tmp_path)

    (joined,) = folder.iterdir()
    assert joined.name == "maxwell+0+0000000000.jsonl"
    assert joined.read_text() == "0\n1\n2\n"


def test_an_interpreter_that_is_missing_or_lacks_a_module_is_reported(tmp_path: Path) -> None:
    assert has(sys.executable, "json")
    assert not has(sys.executable, "no_such_module")
    assert not has(str(tmp_path / "python"), "json")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")
def test_memory_is_of_a_process_and_those_below_it() -> None:
    script = "import sys; held = bytearray(64 << 20); print(1, flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", outer], stdin=pipe, stdout=pipe) as child:
        child.stdout.readline()
        assert 64 << 20 < memory_of(child.pid) <= resident_of(child.pid) < 256 << 20
        child.stdin.close()


def test_a_child_that_fails_ends_the_benchmark_with_its_words() -> None:
    assert run_child([sys.executable, "-c", "print('well')"]).output == "well\n"
    with pytest.raises(SystemExit, match="no luck"):
        run_child([sys.executable, "-c", "raise SystemExit('no luck')"])
