"""A landing folder that is named by a URI: listed and read as a folder is."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import python_udfs
from python_udfs.ingestion.landing import files as landing
from python_udfs.ingestion.landing.files import LIVE, LandedFile, message_batches
from python_udfs.ingestion.landing.object_stores import ObjectStore, landing_place, store_of
from python_udfs.ingestion.landing.spark import RAW_SCHEMA, read_messages
from python_udfs.source.full_load import LandingStore
from tests.support.warehouse import Warehouse, sample_lines

FILE = ObjectStore("file")


def put(folder: Path, place: str, content: bytes = b"x\n") -> Path:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_uri_is_listed_as_its_folder_is(tmp_path: Path) -> None:
    for place in (
        "topics/t/partition=9/t+9+100.jsonl.gz",
        "topics/t/partition=9/t+9+20.jsonl",
        "topics/a+b/partition=0/a+b+0+0.jsonl",
        "topics/t/partition=9/README.md",
        "topics/t/partition=9/.t+9+1.jsonl.crc",
        "topics/+tmp/t/partition=0/anything",
        "batches/again/topics/t/partition=9/t+9+20.jsonl",
        "batches/again/notes.txt",
        "batches/_hidden/topics/anything",
    ):
        put(tmp_path, place)
    here, there = landing.list_files(str(tmp_path)), landing.list_files(f"file://{tmp_path}")
    assert [(file.name, file.key, file.size) for file in here] == [
        (file.name, file.key, file.size) for file in there
    ]
    assert len(there) == 4
    assert all(file.path.startswith(f"file://{tmp_path}/") for file in there)


def test_names_that_do_not_fit_and_links_are_named(tmp_path: Path) -> None:
    put(tmp_path, "topics/t/partition=0/t+0+0.jsonl")
    put(tmp_path, "topics/t/partition=0/t+1+0.jsonl")
    put(tmp_path, "batches/live/topics/t/partition=0/t+0+0.jsonl")
    put(tmp_path, "batches/empty/t+0+0.jsonl")
    with pytest.raises(ValueError, match="3 landed files don't fit the layout") as error:
        landing.list_files(f"file://{tmp_path}")
    for name in ("t+1+0.jsonl", "batches/live", "batches/empty"):
        assert name in str(error.value)
    os.symlink(put(tmp_path, "elsewhere"), tmp_path / "topics/t/partition=0/t+0+9.jsonl")
    with pytest.raises(ValueError, match="symbolic links, pipes or devices"):
        landing.list_files(f"file://{tmp_path}")


def test_what_is_no_landing_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="LANDING must name a folder that holds topics/"):
        landing.list_files(f"file://{tmp_path}")
    with pytest.raises(ValueError, match=r"begins with one of s3, .* got ftp://host/landing"):
        landing.list_files("ftp://host/landing")
    for wrong in ("no object", "[]"):
        monkeypatch.setenv("LANDING_OPTIONS", wrong)
        with pytest.raises(ValueError, match="LANDING_OPTIONS must be a JSON object"):
            landing.list_files("s3://bucket/landing")
    monkeypatch.setenv("LANDING_OPTIONS", '{"secret_key_of": "a-secret-word"}')
    with pytest.raises(ValueError, match="LANDING_OPTIONS doesn't fit") as error:
        landing.list_files("s3://bucket/landing")
    assert "a-secret-word" not in str(error.value)
    assert landing_place("/project", "landing") == "/project/landing"
    assert landing_place("/project", "s3://bucket/landing/") == "s3://bucket/landing"


def test_a_full_load_is_there_once_its_partition_0_is(tmp_path: Path) -> None:
    topic = "full_load.shop.t.20260301T000000000000Z"
    put(tmp_path, f"topics/{topic}/partition=1/{topic}+1+0.jsonl")
    put(tmp_path, "topics/t/partition=1/t+1+0.jsonl")
    uri = f"file://{tmp_path}"
    assert [file.topic for file in landing.list_files(uri)] == ["t"]
    put(tmp_path, f"topics/{topic}/partition=0/{topic}+0+0.jsonl")
    assert [file.topic for file in landing.list_files(uri)] == [topic, topic, "t"]


def in_store(offset: int, changed_s: float, size: int = 100) -> LandedFile:
    name = f"s3://bucket/topics/t/partition=0/t+0+{offset:010d}.jsonl"
    return LandedFile("t", 0, offset, name, size, int(changed_s * 10**9))


def test_an_object_that_appears_with_an_older_time_is_read() -> None:
    held = {"t/0": [(0, 29)]}
    before = [in_store(0, 1000), in_store(10, 9000), in_store(20, 10000), in_store(30, 10000)]
    sizes = json.loads(json.dumps(landing.open_ended(before, held)))
    newest = 10000 * 10**9
    late = landing.late_files(before, newest)

    def chosen(files: list[LandedFile], late_seen: str = late) -> list[LandedFile]:
        since = landing.new_since(files, newest, late_seen)
        return landing.files_to_read(sorted(files), held, sizes, since)

    assert chosen(before) == []
    for time in (9990, 10000, 6400):  # its upload began before that of the newest one
        assert in_store(5, time) in chosen([*before, in_store(5, time)])
        assert in_store(5, time) not in chosen([*before, in_store(5, time)], "")  # of a folder
    # what came long before isn't read again
    assert in_store(0, 1000) not in chosen([*before, in_store(5, 9990)])
    assert in_store(5, 10001) in chosen([*before, in_store(5, 10001)])
    assert chosen([*before[:1], in_store(10, 9500), *before[2:]])[0] == in_store(10, 9500)


def test_broken_and_long_files_are_read_as_in_a_folder(tmp_path: Path) -> None:
    content = b"".join(b'{"n": %d}\n' % number for number in range(1000))
    for name, some in {
        "whole.jsonl.gz": gzip.compress(content[:500]) + gzip.compress(content[500:]),
        "cut.jsonl.gz": gzip.compress(content)[:-20],
        "cut.jsonl": content[:-3],
        "empty.jsonl": b"",
        "long.jsonl": b"a" * 200 + b"\n" + content,
    }.items():
        path = put(tmp_path, name, some)
        here = list(landing.read_lines(str(path), 100))
        assert list(landing.read_lines(f"file://{path}", 100, FILE)) == here
        assert landing.count_lines(f"file://{path}", FILE) == landing.count_lines(str(path))


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, "t.jsonl", b"x\n" * landing.CHUNK)
    lines = landing.read_lines(f"file://{path}", store=FILE)
    next(lines)
    path.write_bytes(b"y\n" * (landing.CHUNK + 1))
    with pytest.raises(OSError, match=r"was replaced while it was read\. Run again"):
        list(lines)


WITHOUT_THE_PROJECT = """
import pickle, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("dbt", "python_udfs"):
            raise ImportError(name)

sys.meta_path.insert(0, Refused())
read = pickle.load(sys.stdin.buffer)
assert [columns["payload"] for columns in read()] == [[b"x"]]
"""


def test_workers_need_nothing_but_pyarrow(tmp_path: Path) -> None:
    path = put(tmp_path, "t.jsonl")

    def read() -> list[dict]:
        file = (f"file://{path}", LIVE, "t", 0, 0)
        return list(message_batches([file], {}, store=store))

    store = pickle.loads(pickle.dumps(FILE))
    packages = (python_udfs, sys.modules[__name__])
    for package in packages:
        cloudpickle.register_pickle_by_value(package)
    try:
        sent = cloudpickle.dumps(read)
    finally:
        for package in packages:
            cloudpickle.unregister_pickle_by_value(package)
    command = [sys.executable, "-c", WITHOUT_THE_PROJECT]
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_full_load_is_written_there(spark: SparkSession, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}"
    texts = spark.range(0, 1000, 1, 3).selectExpr("concat('{\"n\": ', id, '}') as value")
    topic = f"{landing.FULL_LOAD}shop.t.20260301T000000000000Z"
    load = LandingStore(uri, topic)
    load.write_rows(texts.where("id < 900").unionByName(texts.where("id < 0")))
    assert not list(tmp_path.glob("topics/[!_]*"))
    assert load.finish('{"begin": 1}\n{"end": 1}\n') == f"{uri}/topics/{topic}"
    files = landing.list_files(uri)
    assert [file.partition for file in files] == [0, 1, 2, 3]
    frame = read_messages(spark, files, {}, store=store_of(uri))
    assert frame.columns == [field.split()[0] for field in RAW_SCHEMA.split(", ")]
    found = sorted(bytes(row.payload) for row in frame.collect())
    assert found == sorted(
        [b'{"begin": 1}', b'{"end": 1}', *(b'{"n": %d}' % number for number in range(900))]
    )
    assert os.listdir(tmp_path / "topics") == [topic]
    failed = LandingStore(uri, f"{topic}2")
    failed.write_rows(texts)
    failed.discard()
    assert os.listdir(tmp_path / "topics") == [topic]


@pytest.mark.in_turn
def test_the_log_is_taken_from_a_uri(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.env["LANDING"] = f"file://{warehouse.landing}"
    lines = sample_lines()[:600]
    path = warehouse.land_lines(lines[:200], 0, gz=True)
    broken = warehouse.land_lines(lines[200:400], 200, gz=True)
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])

    def build() -> dict:
        response = warehouse.run("run", "--select", "ods_binlog").results["ods_binlog"]
        return response.adapter_response

    build()
    offsets = "select message_offset from dw.ods_binlog where cut_reason is null order by 1"
    assert 200 <= len(warehouse.column(offsets)) < 400
    broken.write_bytes(whole)
    os.unlink(path)  # what was read may go
    warehouse.land_lines(lines[300:600], 300)  # it overlaps, cut at another place
    build()
    assert warehouse.column(offsets) == list(range(600))
    commits = len(warehouse.snapshots("ods_binlog"))
    build()
    assert len(warehouse.snapshots("ods_binlog")) == commits
