"""Files that tasks write: each row once, in its day's file, in groups and files of a size."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from python_udfs.ingestion.fast.file_schema import arrow_schema
from python_udfs.ingestion.fast.files import Files, TaskFiles

DAY = date(2026, 3, 1)
SCHEMA = (
    '{"type": "struct", "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}, '
    '{"id": 2, "name": "text", "required": false, "type": "string"}, '
    '{"id": 3, "name": "day", "required": false, "type": "date"}]}'
)


def files(folder: Path, **changes: object) -> Files:
    """Files of a table of days."""
    found = Files(
        folder=str(folder / "data"),
        schema=arrow_schema(SCHEMA),
        partition=("day",),
        group_bytes=4_000,
        held_bytes=9_000,
        file_bytes=20_000,
        run="run",
    )
    return found._replace(**changes)


def rows(given: list[tuple[int, str, date | None]]) -> pa.Table:
    columns = [list(column) for column in zip(*given, strict=True)]
    schema = arrow_schema(SCHEMA)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


@pytest.mark.parametrize("seed", range(1, 9))
def test_random_rows_lie_in_their_days_files(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    days = [*(DAY + timedelta(n) for n in range(rng.choice([1, 3, 40]))), None]
    task = TaskFiles(files(tmp_path), "00001-7")
    given: list[tuple[int, str, date | None]] = []
    for _ in range(rng.randint(1, 12)):
        batch = [
            (rng.randrange(99), "x" * rng.randrange(90), rng.choice(days))
            for _ in range(rng.randint(1, 80))
        ]
        given += batch
        task.add(rows(batch))
        assert task.held <= 9_000
    written = task.close()
    assert {Path(file.path) for file in written} == set(tmp_path.rglob("*.parquet"))
    found: list[tuple[int, str, date | None]] = []
    for file in written:
        table = pq.ParquetFile(file.path).read()
        held = set(table["day"].to_pylist())
        (day,) = file.partition
        assert held == {None if day is None else date.fromisoformat(day)}
        assert Path(file.path).parent.name == f"day={day or 'null'}"
        assert len(file.offsets) == pq.read_metadata(file.path).num_row_groups
        found += [tuple(row.values()) for row in table.to_pylist()]
    assert Counter(found) == Counter(given)


def test_a_task_of_many_days_has_few_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("python_udfs.ingestion.fast.files._MOST_OPEN", 5)
    task, most = TaskFiles(files(tmp_path, held_bytes=500), "00001-7"), 0
    for number in range(300):
        task.add(rows([(number, "x" * 40, DAY + timedelta(number * 7 % 50))]))
        opened = [
            os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
        ]
        most = max(most, sum(str(tmp_path) in path for path in opened))
    written = task.close()
    assert 3 <= most <= 5
    found = [row for file in written for row in pq.ParquetFile(file.path).read()["id"].to_pylist()]
    assert sorted(found) == list(range(300))


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    rng = random.Random(5)
    task = TaskFiles(files(tmp_path, file_bytes=10_000), "00001-7")
    for number in range(40):
        task.add(rows([(number, rng.randbytes(2_500).hex(), DAY)]))
    written = task.close()
    sizes = [Path(file.path).stat().st_size for file in written]
    assert len(written) > 3 and all(10_000 <= size < 25_000 for size in sizes[:-1])


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert TaskFiles(files(tmp_path), "00001-7").close() == []
    assert not (tmp_path / "data").exists()


def test_columns_have_icebergs_ids_and_types(tmp_path: Path) -> None:
    text = """{"type": "struct", "fields": [
        {"id": 1, "name": "a", "required": true, "type": "decimal(20, 0)"},
        {"id": 2, "name": "b", "required": false, "type": {"type": "struct", "fields": [
            {"id": 6, "name": "c", "required": false, "type": "timestamptz"}]}},
        {"id": 3, "name": "d", "required": false, "type": {"type": "list", "element-id": 7,
            "element": "timestamp", "element-required": false}},
        {"id": 4, "name": "e", "required": false, "type": {"type": "map", "key-id": 8,
            "key": "string", "value-id": 9, "value": "decimal(9,2)", "value-required": false}}]}"""
    schema = arrow_schema(text)
    assert [field.type for field in schema] == [
        pa.decimal128(20),
        pa.struct([pa.field("c", pa.timestamp("us", "UTC"))]),
        pa.list_(pa.timestamp("us")),
        pa.map_(pa.string(), pa.decimal128(9, 2)),
    ]
    path = tmp_path / "file.parquet"
    pq.write_table(schema.empty_table(), path)
    ids = [
        line.split("field_id=")[1].split()[0]
        for line in str(pq.read_metadata(path).schema).splitlines()
        if "field_id=" in line
    ]
    assert [number for number in ids if number != "-1"] == ["1", "2", "6", "3", "7", "4", "8", "9"]


def test_a_type_that_arrow_has_not_is_refused() -> None:
    field = {"id": 1, "name": "v", "required": False, "type": "variant"}
    text = json.dumps({"type": "struct", "fields": [field]})
    with pytest.raises(ValueError, match="no column of Arrow holds Iceberg's type variant"):
        arrow_schema(text)
