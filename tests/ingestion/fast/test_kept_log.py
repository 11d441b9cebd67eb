"""Messages of the kept log that a worker reads from its files, by their places."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from python_udfs.ingestion.fast.kept_log import messages_at

SEED = int(os.environ.get("PLACES_SEED", random.randrange(10**6)))


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        field("topic", pa.string(), 2),
        field("message_offset", pa.int64(), 4),
        field("event_time", TIME, 10),
        field("payload", pa.string(), 17),
        field("xid", pa.int64(), 15),
    ]
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of 1,000 messages in row groups of 130; the second has no xid, and calls the topic
    otherwise."""
    found = []
    for number in range(2):
        offsets = [number * 1000 + place for place in range(1000)]
        columns = {
            field("payload", pa.string(), 17): [
                f'{{"n":{at}}}' if at % 7 else "" for at in offsets
            ],
            field("topic" if number == 0 else "way", pa.string(), 2): [
                f"t{at % 3}" for at in offsets
            ],
            field("message_offset", pa.int64(), 4): offsets,
            field("event_time", TIME, 10): [at * 1000 for at in offsets],
        }
        if number == 0:
            columns[field("xid", pa.int64(), 15)] = [at if at % 5 else None for at in offsets]
        arrays = [pa.array(values, each.type) for each, values in columns.items()]
        path = tmp_path / f"f{number}.parquet"
        table = pa.Table.from_arrays(arrays, schema=pa.schema(list(columns)))
        pq.write_table(table, path, row_group_size=130, store_schema=False)
        found.append(str(path))
    return found


def places(batches: list[list[tuple[str, int, int]]]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        paths, numbers, offsets = zip(*batch, strict=True)
        arrays = [pa.array(paths), pa.array(numbers, pa.int64()), pa.array(offsets, pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, names=["_file", "_pos", "message_offset"])


def expected(number: int, place: int) -> dict[str, object]:
    at = number * 1000 + place
    return {
        "topic": f"t{at % 3}",
        "message_offset": at,
        "payload": (f'{{"n":{at}}}' if at % 7 else "") + "\n",
        "xid": at if number == 0 and at % 5 else None,
    }


def read(batches: list[list[tuple[str, int, int]]]) -> list[dict[str, object]]:
    found = list(messages_at(SCHEMA, places(batches)))
    assert all(batch.schema.names == SCHEMA.names for batch in found)
    rows = [row for batch in found for row in batch.to_pylist()]
    assert all(
        round(row.pop("event_time").timestamp() * 1000) == row["message_offset"] for row in rows
    )
    return rows


def test_rows_come_from_their_places_in_any_files_and_any_order(files: list[str]) -> None:
    print(f"PLACES_SEED={SEED}")
    chosen = random.Random(SEED)
    for _ in range(60):
        batches, right = [], []
        for _ in range(chosen.randint(1, 4)):
            batch = []
            for _ in range(chosen.randint(1, 3)):
                number = chosen.randrange(2)
                some = chosen.sample(range(1000), chosen.choice([1, 2, 50, 400]))
                if chosen.random() < 0.8:
                    some.sort()
                if chosen.random() < 0.3:
                    begin = chosen.randrange(900)
                    some = list(range(begin, begin + chosen.randint(1, 100)))
                prefix = chosen.choice(["", "file:", "file://"])
                batch += [(prefix + files[number], place, number * 1000 + place) for place in some]
                right += [expected(number, place) for place in some]
            batches.append(batch)
        assert read(batches) == right


def test_all_rows_of_all_files(files: list[str]) -> None:
    batch = [(files[n], place, n * 1000 + place) for n in range(2) for place in range(1000)]
    assert read([batch]) == [expected(n, place) for n in range(2) for place in range(1000)]
    assert read([]) == []


def test_another_message_at_a_place_fails(files: list[str]) -> None:
    with pytest.raises(ValueError, match=r"f0.parquet has other rows than Spark reads from it"):
        read([[(files[0], 5, 5), (files[0], 6, 7)]])
