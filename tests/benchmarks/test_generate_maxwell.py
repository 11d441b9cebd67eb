"""Tests of the generator of Maxwell logs."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate_maxwell import Generated, generate, main

ROWS = 12_000
DAYS = 3
COLUMNS = [
    "order_id",
    "user_id",
    "product_type",
    "plat_name",
    "ref_id",
    "amount",
    "order_status",
    "biz_status",
    "comment",
    "create_time",
    "update_time",
    "dispatch_time",
    "decision_time",
    "finish_time",
]


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file under ``folder`` by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lines_of(folder: Path) -> list[str]:
    """Return every line of the log, by partition and offset."""
    # Names sort by offset; splitlines would also split at other separators than the newline.
    return [
        line
        for content in contents(folder).values()
        for line in content.decode("utf-8").split("\n")[:-1]
    ]


def place(row: dict[str, Any]) -> tuple[int, int, float]:
    """Return what orders the rows of a binlog: file, position, place in the statement."""
    name, position = row["position"].split(":")
    return int(name.removeprefix("bin.")), int(position), row.get("xoffset", float("inf"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a log without late or repeated lines."""
    folder = tmp_path_factory.mktemp("log")
    done = generate(folder, ROWS, seed=7, days=DAYS, users=500, processes=1)
    assert (done.rows, done.lines, done.files) == (ROWS, ROWS, 16)
    assert done.size == sum(map(len, contents(folder).values()))
    return folder


@pytest.fixture(scope="module")
def parsed(log: Path) -> list[dict[str, Any]]:
    """Return the rows of the plain log."""
    return [json.loads(line, parse_float=Decimal) for line in lines_of(log)]


def test_same_bytes_whatever_the_processes(tmp_path: Path) -> None:
    """The options decide the bytes; the number of processes doesn't."""
    options = {"rows": 2000, "late_share": 0.1, "duplicate_share": 0.1, "compress": True}
    done = generate(tmp_path / "one", seed=3, processes=1, **options)
    assert generate(tmp_path / "two", seed=3, processes=2, **options) == done
    generate(tmp_path / "other", seed=4, processes=1, **options)
    first = contents(tmp_path / "one")
    assert first == contents(tmp_path / "two")
    assert first != contents(tmp_path / "other")


@pytest.mark.parametrize("compress", [False, True])
def test_layout_and_offsets(tmp_path: Path, compress: bool) -> None:
    """Only the topic is written, and each file begins at the offset behind the file before."""
    generate(
        tmp_path,
        1001,
        files=7,
        partitions=2,
        topic="t",
        late_share=0.05,
        duplicate_share=0.05,
        compress=compress,
        processes=1,
    )
    pattern = re.compile(
        r"topics/t/partition=(\d+)/t\+(\d+)\+(\d{10})\.jsonl" + (r"\.gz" if compress else "")
    )
    offsets: Counter[str] = Counter()
    written = contents(tmp_path)
    assert len(written) == 7
    for name, content in written.items():
        match = pattern.fullmatch(name)
        assert match, name
        assert match[1] == match[2]
        assert int(match[3]) == offsets[match[1]]
        text = (gzip.decompress(content) if compress else content).decode("utf-8")
        assert text.endswith("}\n")
        offsets[match[1]] += text.count("\n")
    assert set(offsets) == {"0", "1"}
    assert sum(offsets.values()) == 1001 + 50


def test_form_of_the_lines(log: Path, parsed: list[dict[str, Any]]) -> None:
    """Members, their order and the length of the lines are those of the real log."""
    head = ["database", "table", "type", "ts", "xid"]
    for row in parsed:
        mark = ["xoffset"] if "xoffset" in row else ["commit"]
        old = ["old"] if row["type"] == "update" else []
        assert list(row) == [*head, *mark, "position", "data", *old]
        assert list(row["data"]) == COLUMNS
        assert row.get("commit", True) is True
        assert -row["data"]["amount"].as_tuple().exponent == 2
    lines = lines_of(log)
    assert not any(" :" in line or ', "' in line for line in lines)
    # The shortest real update of this table has 481 bytes, the shortest insert 438.
    assert 500 < sum(len(line.encode()) for line in lines) / len(lines) < 600


def test_images_form_a_chain(parsed: list[dict[str, Any]]) -> None:
    """``data`` overlaid by ``old`` is the image before; ``old`` has changed columns only."""
    images: dict[int, dict[str, Any]] = {}
    gone: set[int] = set()
    nulls = 0
    for row in sorted(parsed, key=place):
        data, key = row["data"], row["data"]["order_id"]
        assert key not in gone
        if row["type"] == "insert":
            assert key not in images
        elif row["type"] == "delete":
            assert images.pop(key) == data
            gone.add(key)
            continue
        else:
            old = row["old"]
            assert old
            assert list(old) == [column for column in COLUMNS if column in old]
            assert all(data[column] != value for column, value in old.items())
            assert images[key] == {**data, **old}
            nulls += None in old.values()
        images[key] = data
    assert nulls > ROWS / 10
    assert len(gone) > 0


def test_identity_and_transactions(log: Path, parsed: list[dict[str, Any]]) -> None:
    """Rows have an identity; transactions have 1..4 rows and end with the commit."""
    identities = {(row["position"], row.get("xoffset"), row.get("commit")) for row in parsed}
    assert len(identities) == ROWS
    assert len({place(row)[0] for row in parsed}) == 2 * DAYS + 1
    transactions: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in parsed:
        transactions[row["xid"]].append(row)
    for rows in transactions.values():
        assert [row.get("xoffset") for row in rows] == [*range(len(rows) - 1), None]
        assert [row.get("commit") for row in rows] == [None] * (len(rows) - 1) + [True]
    assert {len(rows) for rows in transactions.values()} == {1, 2, 3, 4}
    # Within a partition the file order is the binlog order, and a shared position is one
    # statement: one type, one time, different orders.
    statements: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for partition in sorted((log / "topics" / "maxwell").iterdir()):
        rows = [json.loads(line) for line in lines_of(partition)]
        places = [place(row) for row in rows]
        assert places == sorted(places)
        for row in rows:
            statements[row["position"]].append(row)
    shared = [rows for rows in statements.values() if len(rows) > 1]
    assert shared
    for rows in shared:
        assert len({(row["xid"], row["type"], row["ts"]) for row in rows}) == 1
        assert len({row["data"]["order_id"] for row in rows}) == len(rows)


def test_times(log: Path, parsed: list[dict[str, Any]]) -> None:
    """``update_time`` is ``ts`` in UTC+8; times step back little and seldom, over all days."""
    days = Counter()
    for row in parsed:
        local = datetime.fromtimestamp(row["ts"], UTC) + timedelta(hours=8)
        days[str(local.date())] += 1
        if row["type"] != "delete":
            assert row["data"]["update_time"][:19] == str(local)[:19]
    assert sorted(days) == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert all(abs(count - ROWS / DAYS) < 10 for count in days.values())
    times = [json.loads(line)["ts"] for line in lines_of(log / "topics/maxwell/partition=0")]
    back = [before - after for before, after in pairwise(times)]
    assert 0 <= max(back) <= 4
    # Files of the binlog follow each other in time over all partitions.
    starts: dict[int, int] = {}
    for row in parsed:
        starts[place(row)[0]] = min(row["ts"], starts.get(place(row)[0], row["ts"]))
    ordered = [starts[number] for number in sorted(starts)]
    assert ordered == sorted(ordered)


def test_small_back_steps_of_a_dense_log(tmp_path: Path) -> None:
    """With some rows a second, some of them step back."""
    generate(tmp_path, 250_000, partitions=1, files=50, processes=1)
    first = sorted((tmp_path / "topics/maxwell/partition=0").iterdir())[0]
    times = [json.loads(line)["ts"] for line in first.read_text("utf-8").split("\n")[:-1]]
    back = [a - b for a, b in pairwise(times) if a > b]
    assert 0.01 < len(back) / len(times) < 0.15
    assert max(back) <= 4


def test_mix(parsed: list[dict[str, Any]]) -> None:
    """About three updates an insert, 1 % deletes, few users with many orders, full statuses."""
    kinds = Counter(row["type"] for row in parsed)
    assert 2.4 < kinds["update"] / kinds["insert"] < 3.4
    assert 0.006 < kinds["delete"] / ROWS < 0.014
    users = Counter(row["data"]["user_id"] for row in parsed if row["type"] == "insert")
    assert set(users) <= set(range(1, 501))
    top = sum(count for _, count in users.most_common(50))
    assert 0.3 < top / sum(users.values()) < 0.8
    statuses = {row["data"]["biz_status"] for row in parsed}
    assert statuses == {
        "created",
        "dispatched",
        "accepted",
        "in_trip",
        "finished",
        "cancelled",
    }


def test_shares(tmp_path: Path, log: Path) -> None:
    """Late rows go to later files, repeats come later; the rows stay those of the plain log."""
    done = generate(
        tmp_path,
        ROWS,
        seed=7,
        days=DAYS,
        users=500,
        late_share=0.03,
        duplicate_share=0.05,
        late_files=2,
        processes=1,
    )
    assert done == Generated(ROWS, ROWS + ROWS // 20, 16, done.size)
    lines = lines_of(tmp_path)
    assert len(lines) == done.lines
    assert set(lines) == set(lines_of(log))

    late = 0
    for partition in sorted((log / "topics" / "maxwell").iterdir()):
        files = [
            content.decode("utf-8").split("\n")[:-1] for content in contents(partition).values()
        ]
        own = {line: number for number, lines in enumerate(files) for line in lines}
        mixed = tmp_path / "topics" / "maxwell" / partition.name
        seen: set[str] = set()
        for number, content in enumerate(contents(mixed).values()):
            for line in content.decode("utf-8").split("\n")[:-1]:
                assert 0 <= number - own[line] <= 2
                if line not in seen:
                    seen.add(line)
                    late += number > own[line]
    assert late == pytest.approx(0.03 * ROWS, abs=4)


def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Impossible options are reported, and a log is never mixed with another."""
    for options in (
        {"rows": -1},
        {"rows": 10, "days": 0},
        {"rows": 10, "users": 0},
        {"rows": 10, "partitions": 0},
        {"rows": 10, "late_files": 0},
        {"rows": 10, "files": 3},
        {"rows": 10, "files": 4, "late_share": 0.1},
        {"rows": 10, "late_share": 0.9},
        {"rows": 10, "duplicate_share": 1.5},
    ):
        with pytest.raises(ValueError):
            generate(tmp_path, **options)
    assert contents(tmp_path) == {}
    assert generate(tmp_path, 0, processes=1) == Generated(0, 0, 0, 0)
    arguments = [str(tmp_path), "--rows", "5", "--processes", "1"]
    assert main(arguments) == 0
    assert "5 rows, 5 lines" in capsys.readouterr().out
    assert main(arguments) == 2
    assert "not empty" in capsys.readouterr().err
