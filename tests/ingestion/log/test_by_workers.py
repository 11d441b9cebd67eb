"""Rows of ods_binlog that workers write: those that Spark makes of the same landed files."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.fast.envelopes import READ
from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LandedFile, list_files
from python_udfs.ingestion.landing.spark import read_messages
from python_udfs.ingestion.log.by_workers import written_by_workers
from tests.support import mutated_formats, mutated_rows
from tests.support.lines import line, numbered
from tests.support.mutated_formats import CONVERT, tables_of
from tests.support.mutated_rows import ORDERS
from tests.support.typed_model import uncompiled
from tests.support.written_rows import Folder

FORMATS = ("maxwell", *CONVERT)
LONGEST = 1 << 16
SEED = 11


class Handle(Folder):
    """What the model's handle is to written_by_workers.

    Args:
        settings: vars.
    """

    def __init__(self, path: Path, **settings: object) -> None:
        super().__init__(path, ("batch_id", "topic", "partition_number"))
        self.may_write_files, self.run_id = True, "load"
        self._settings = {"worker_decoding_from": 0} | settings

    def project_var(self, name: str, default: object = None) -> object:
        return self._settings.get(name, default)


@pytest.fixture(autouse=True)
def quick(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    uncompiled(spark)
    monkeypatch.delenv("WORKER_DECODING_FROM", raising=False)


def land(folder: Path, topic: str, offset: int, data: bytes, packed: bool = False) -> None:
    place = folder / "landing" / "topics" / topic / "partition=0"
    place.mkdir(parents=True, exist_ok=True)
    suffix = ".jsonl.gz" if packed else ".jsonl"
    (place / f"{topic}+0+{offset:010d}{suffix}").write_bytes(data)


def by_spark(spark: SparkSession, files: Mapping[str, list[LandedFile]]) -> DataFrame:
    rows = None
    for kind, some in files.items():
        read = with_envelope(read_messages(spark, some, {}, LONGEST), kind)
        rows = read if rows is None else rows.unionByName(read)
    return rows.withColumn("load_id", F.lit("load"))


def by_workers(
    spark: SparkSession, handle: Handle, files: Mapping[str, list[LandedFile]]
) -> DataFrame | None:
    """Rows of the files that workers write; None where Spark has to write all."""
    rows = by_spark(spark, files)
    left = written_by_workers(handle, spark, files, rows, ({}, LONGEST, None))
    if left is None:
        return None
    assert left.isEmpty() and left.columns == rows.columns
    return spark.read.schema(rows.schema).parquet(*[file.path for file in handle.added])


def in_order(rows: DataFrame) -> list[str]:
    return sorted(map(repr, rows.collect()))


@pytest.mark.in_turn
@pytest.mark.parametrize("log_format", FORMATS)
def test_files_of_anything_give_the_rows_that_spark_makes(
    spark: SparkSession, tmp_path: Path, log_format: str
) -> None:
    made = mutated_formats if log_format in CONVERT else mutated_rows
    table = tables_of(log_format)["orders"] if log_format in CONVERT else ORDERS
    normal = [text.encode() for text in made.normal(SEED, table, 300)]
    odd = [*made.mutated(SEED, table, 300), b"", b"x" * (LONGEST + 5), b"\xff{}", b"null"]
    lines = [found for pair in zip(normal, [*odd, *normal], strict=False) for found in pair]
    land(tmp_path, "t", 0, b"\n".join([*lines, b""]))
    land(tmp_path, "t", 10_000, b"\n".join([*normal, b'{"cut'])), land(tmp_path, "u.v", 7, b"")
    # a gzip file that is cut, and files that overlap
    packed = gzip.compress(b"\n".join([*normal, b""]))
    land(tmp_path, "u.v", 20, packed[: len(packed) * 2 // 3], packed=True)
    land(tmp_path, "w", 0, b"\n".join([*normal[:200], b""]))
    land(tmp_path, "w", 150, b"\n".join([*normal[150:], b""]))
    files = {log_format: list_files(str(tmp_path / "landing"))}
    handle = Handle(tmp_path / "table", worker_decoding_checked_in=3)
    rows = by_workers(spark, handle, files)
    assert in_order(rows) == in_order(by_spark(spark, files))
    topics = {Path(file.path).parents[1].name for file in handle.added}
    assert topics == {"topic=t", "topic=u.v", "topic=w"}


@pytest.mark.in_turn
def test_messages_of_other_formats_stand_beside_them_or_leave_all_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    change = b'{"operationType":"insert","ns":{"db":"a","coll":"b"},"documentKey":{"_id":1}}\n'
    land(tmp_path, "t", 0, "\n".join([*numbered([line()] * 900), ""]).encode())
    land(tmp_path, "m", 0, change * 2)
    land(tmp_path, "e", 0, b'{"received_at":1772416800512}\n' * 40)
    topics = {"maxwell": "t", "mongodb": "m", "events": "e"}
    found = list_files(str(tmp_path / "landing"))
    files = {
        kind: [file for file in found if file.topic == topic] for kind, topic in topics.items()
    }
    rows = by_workers(spark, Handle(tmp_path / "table"), files)
    assert in_order(rows) == in_order(by_spark(spark, files))
    del files["maxwell"]
    many = {**files, "mongodb": files["mongodb"] * 9}
    assert by_workers(spark, Handle(tmp_path / "other"), many) is None


@pytest.mark.parametrize(
    ("settings", "are_written"),
    [(1, True), (20, False), ("never", False)],
)
def test_few_messages_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, settings: object, are_written: bool
) -> None:
    land(tmp_path, "t", 0, b"\n".join([line().encode()] * 10))
    files = {"maxwell": list_files(str(tmp_path / "landing"))}
    handle = Handle(tmp_path / "table", worker_decoding_from=settings)
    assert (by_workers(spark, handle, files) is not None) == are_written
    handle = Handle(tmp_path / "table")
    handle.may_write_files = False
    assert by_workers(spark, handle, files) is None


def test_an_envelope_that_is_read_otherwise_fails_the_run_and_names_the_message(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(tmp_path, "t", 5, "\n".join([*numbered([line()] * 3), ""]).encode())
    files = {"maxwell": list_files(str(tmp_path / "landing"))}
    read = READ["maxwell"]

    def wrongly(texts: pa.StringArray, places: object) -> tuple[np.ndarray, dict]:
        kept, columns = read(texts, places)
        return kept, columns | {"xid": pa.array([7, 7, 8])}

    monkeypatch.setitem(READ, "maxwell", wrongly)
    error = ""
    try:
        by_workers(spark, Handle(tmp_path / "table", worker_decoding_checked_in=1), files)
    except Exception as exc:
        error = str(exc)
    assert "the message at live:t:0:7 (batch, topic, partition, offset) was read other" in error


def test_two_files_that_differ_at_an_offset_fail(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t", 0, "\n".join([*numbered([line()] * 3), ""]).encode())
    land(tmp_path, "t", 2, "\n".join([*numbered([line()] * 3), ""]).encode())
    files = {"maxwell": list_files(str(tmp_path / "landing"))}
    with pytest.raises(Exception, match="hold different messages at offset 2"):
        by_workers(spark, Handle(tmp_path / "table"), files)
