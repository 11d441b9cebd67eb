"""Landed files for tests, and the model that reads them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from python_udfs.ingestion.binlog_messages import binlog_messages
from python_udfs.ingestion.landing import files as landing
from tests.support import lines as maxwell

LINES = [b'{"a":%d,"text":"\xe4\xba\xac %s"}' % (i, b"x" * (i % 37)) for i in range(60)]


def write(root: Path, name: str, content: bytes, folder: str | None = None) -> Path:
    """Write a file of topic t, partition 0 (or of another folder under topics)."""
    path = root / "topics" / (folder or "t/partition=0") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def read(path: Path) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """(whole lines, what is left of a broken file with the reason)."""
    good, cut = [], []
    for lines, reason in landing.read_lines(str(path)):
        assert not cut, "nothing may follow what is left of a broken file"
        if reason is None:
            good += lines
        else:
            cut += [(line, reason) for line in lines]
    assert len(cut) <= 1
    return good, cut


def messages(*places: int) -> bytes:
    return b"".join(
        maxwell.line(position=f'"bin.000007:{place}"').encode() + b"\n" for place in places
    )


class Log:
    """The model ods_binlog in memory: what dbt and its table are to binlog_messages."""

    project_root, run_id, this, may_write_files = "/", "run", "landed_log", False

    def __init__(self, spark: SparkSession, landing: Path) -> None:
        self.spark, self.is_incremental = spark, False
        self.meta = {"landing": str(landing), "kafka": {"servers": ""}, "formats": {"*": "maxwell"}}
        self.properties: dict[str, str] = {}
        self.rows: list[Any] = []

    def project_var(self, _: str, default: Any) -> Any:
        return default

    def meta_of_readers(self) -> dict[str, dict[str, Any]]:
        return {}

    def snapshot_property(self, name: str, default: str | None = None) -> str | None:
        return self.committed.get(name, default) if self.is_incremental else default

    def set_snapshot_property(self, name: str, value: str) -> None:
        self.properties[name] = value

    def own_rows_since(self, _: str) -> DataFrame:
        return self.spark.createDataFrame(self.last, self.schema)

    def read(self, max_line_mb: float) -> list[tuple[int, bool]] | None:
        """Offset of each message that a run adds, and whether it was refused."""
        self.meta["max_line_mb"] = max_line_mb
        frame = binlog_messages(self, self.spark)
        if frame is None:
            return None
        self.schema, self.last = frame.schema, frame.collect()
        self.rows += self.last
        self.committed, self.is_incremental = dict(self.properties), True
        self.spark.createDataFrame(self.rows, self.schema).createOrReplaceTempView(self.this)
        return sorted((row.message_offset, row.reject_reason is not None) for row in self.last)
