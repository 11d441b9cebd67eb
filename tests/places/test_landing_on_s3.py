"""The log is landed in an S3 store: read, delivered again, broken, changed, and written to."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.object_store import BUCKET, SECRET, landing_options, s3_store, server_jars
from benchmarks.spark_servers import standalone
from python_udfs.ingestion.landing import files as landing
from python_udfs.ingestion.landing.object_stores import store_of
from python_udfs.ingestion.landing.spark import read_messages
from python_udfs.source.full_load import LandingStore
from tests.support.warehouse import Warehouse, differing, sample_days, sample_lines, truth

URI = f"s3://{BUCKET}/log/landing"


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """LANDING_OPTIONS of an empty store."""
    jars = server_jars(tmp_path / "jars", ["s3mock"])
    if jars is None:
        pytest.skip("s3mock could be had from neither Maven nor SERVER_JARS")
    with s3_store(tmp_path / "store", jars) as endpoint:
        found = landing_options(endpoint)
        monkeypatch.setenv("LANDING_OPTIONS", found)
        yield found


def put(place: str, content: bytes) -> None:
    store_of(URI).write(f"{URI}/{place}", content)


def put_lines(lines: list[bytes], offset: int, folder: str = "topics") -> None:
    content = gzip.compress(b"".join(line + b"\n" for line in lines))
    put(f"{folder}/maxwell/partition=0/maxwell+0+{offset:010d}.jsonl.gz", content)


@pytest.mark.soak
def test_the_sample_is_read_from_a_store(tmp_path: Path, options: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.env |= {"LANDING": URI, "LANDING_OPTIONS": options}
    with pytest.raises(AssertionError, match="No landing folder s3://"):
        warehouse.build()
    days = sample_days()
    for file in [file for _, some in days[:2] for file in some]:
        put(f"topics/maxwell/partition=0/{file.name}", file.read_bytes())
    warehouse.build()
    assert differing(truth(days[1][0]), warehouse.td()) == []
    commits = len(warehouse.snapshots("ods_binlog"))
    warehouse.build()
    assert len(warehouse.snapshots("ods_binlog")) == commits  # nothing new, nothing written

    rest = [file for _, some in days[2:] for file in some]
    for file in rest[:-1]:
        put(f"topics/maxwell/partition=0/{file.name}", file.read_bytes())
    last = f"topics/maxwell/partition=0/{rest[-1].name}"
    put(last, rest[-1].read_bytes()[: rest[-1].stat().st_size // 2])  # a broken gzip stream
    warehouse.build()
    assert warehouse.column("select count(*) from dw.ods_binlog where cut_reason is not null") == [
        1
    ]
    put(last, rest[-1].read_bytes())
    lines = sample_lines()
    put_lines(lines[1000:3000], 1000)  # delivered again, cut at other places
    put_lines(lines[-1500:], len(lines) - 1500)
    time.sleep(1.1)
    warehouse.build()
    assert differing(truth("final"), warehouse.td()) == []
    offsets = "select message_offset from dw.ods_binlog where cut_reason is null order by 1"
    assert warehouse.column(offsets) == list(range(len(lines)))
    put_lines(lines[:10], 0, "batches/again/topics")
    assert next(file.batch for file in landing.list_files(URI)) == "again"
    written = [*warehouse.target.rglob("*"), *warehouse.logs.rglob("*")]
    texts = [path.read_bytes() for path in written if path.is_file()]
    assert not [text for text in texts if SECRET.encode() in text]


@pytest.mark.soak
def test_executors_read_the_store(tmp_path: Path, options: str) -> None:
    put_lines(sample_lines()[:500], 0)
    with standalone(tmp_path / "servers") as cluster:
        warehouse = Warehouse(tmp_path)
        warehouse.env |= cluster.env | {"LANDING": URI, "LANDING_OPTIONS": options}
        done = warehouse.subprocess("run", "--select", "ods_binlog")
        assert done.returncode == 0, done.stdout
    here = Warehouse(tmp_path)
    assert here.column("select count(*) from dw.ods_binlog") == [500]


@pytest.mark.soak
def test_a_full_load_is_written_to_a_store(spark: SparkSession, options: str) -> None:
    texts = spark.range(0, 100_000, 1, 3).selectExpr("concat('{\"n\": ', id, '}') as value")
    topic = f"{landing.FULL_LOAD}shop.t.20260301T000000000000Z"
    load = LandingStore(URI, topic)
    load.write_rows(texts)
    put_lines([b"{}"], 0)  # the store has something else to list
    assert [file.topic for file in landing.list_files(URI)] == ["maxwell"]
    load.finish('{"begin": 1}\n{"end": 1}\n')
    files = [file for file in landing.list_files(URI) if file.topic == topic]
    assert [file.partition for file in files] == [0, 1, 2, 3]
    frame = read_messages(spark, files, {}, store=store_of(URI))
    assert frame.distinct().count() == 100_002
