"""A typed ODS model in memory, without dbt and without a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.evaluation import leave_uncompiled
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.registry import with_envelope
from python_udfs.ingestion.landing.files import LIVE
from python_udfs.ingestion.landing.spark import RAW_SCHEMA
from python_udfs.ingestion.table_changes import table_changes
from tests.support.lines import ZONE
from tests.support.table_histories import Server

COLUMNS = {"id": "int", "state": "varchar(9)", "amount": "decimal(9,2)"}


def seeds(quick: int) -> list[Any]:
    """Twenty seeds, of which `make test` takes the first few."""
    rest = [pytest.param(n, marks=pytest.mark.soak) for n in range(quick + 1, 21)]
    return [*range(1, quick + 1), *rest]


@cache
def uncompiled(spark: SparkSession) -> SparkSession:
    """A session of the same Spark, as the fixture's but that it compiles nothing: it has few rows.
    The tests of single values (formats, types) and of the sample run compiled code."""
    session = spark.newSession()
    for name in ("session.timeZone", "ansi.enabled", "shuffle.partitions"):
        session.conf.set(f"spark.sql.{name}", spark.conf.get(f"spark.sql.{name}"))
    leave_uncompiled(session)
    return session


class Model:
    """A typed model in memory: what dbt and its table are to table_changes."""

    def __init__(self, spark: SparkSession, format_name: str, key: list[str]) -> None:
        self.spark, self.format = uncompiled(spark), format_name
        self.meta = {
            "source": {
                **{"database": "shop", "table": "o", "primary_key": key},
                **{"columns": COLUMNS, "format": format_name},
            },
            **{"business_zone": ZONE, "cut_time_max_ahead_hours": 24, "batches": [LIVE]},
        }
        self.this = SimpleNamespace(identifier="ods_shop__o")
        self.properties: dict[str, str] = {}
        self.rows: list[Row] = []
        self.is_incremental = False
        self.may_write_files = False  # its rows are in memory
        self.run_id = "run"
        self.messages: dict[str, dict[int, str]] = {}  # batch -> offset -> text
        # the rows of ods_binlog of these messages, and what they were made of
        self._log: DataFrame | None = None
        self._log_of: tuple[str, dict[str, dict[int, str]]] | None = None
        self.vars: dict[str, Any] = {}
        self.batches: list[str] | None = None  # to be read, or None for all
        self.schema: Any = None
        self.replaces = False

    def snapshot_property(self, name: str, default: str | None = None) -> str | None:
        return self.properties.get(name, default) if self.is_incremental else default

    def set_snapshot_property(self, name: str, value: str) -> None:
        self.properties[name] = value

    def meta_of(self, _: DataFrame) -> dict[str, Any]:
        return {}

    def project_var(self, name: str, default: Any = None) -> Any:
        return self.vars.get(name, default)

    def inputs_unchanged(self) -> bool:
        return False

    def input_properties(self, _: DataFrame, *__: str) -> None:
        """Its log's commits aren't known."""

    def new_rows(self, _: DataFrame) -> DataFrame:
        return self._new

    def merge_rows(self, by: list[str], within: list[str], gone_when: str) -> None:
        assert by == ["unique_key"] and within and gone_when.endswith(".op_type is null")
        self.replaces = True

    def binlog(self, batches: dict[str, dict[int, str]]) -> DataFrame:
        rows = [
            (batch, "t", 0, offset, 0, None, text.encode(), None)
            for batch, messages in batches.items()
            for offset, text in messages.items()
        ]
        frame = self.spark.createDataFrame(rows, RAW_SCHEMA).repartition(1)
        binlog = with_envelope(frame, self.format).withColumn("load_id", F.lit("load"))
        return binlog.localCheckpoint()

    def take(self, messages: dict[int, str], batch: str = LIVE) -> None:
        """Run the model on these new messages of a batch: offset -> text."""
        self.take_all({batch: messages})

    def take_all(self, batches: dict[str, dict[int, str]]) -> None:
        new = self.binlog(batches)
        self._take(new, batches, self._added(new, batches))

    def take_frame(self, new: DataFrame, batches: dict[str, dict[int, str]]) -> None:
        """Run the model on these rows of ods_binlog, which the messages became."""
        self._take(new, batches, None)

    def _added(self, new: DataFrame, batches: dict[str, dict[int, str]]) -> DataFrame | None:
        """The log with new rows, without reading the old messages again; None where it has rows
        of other texts, or in another format."""
        if not self.messages:  # columns of their own: the model may join both
            return new.select(*(F.col(name).alias(name) for name in new.columns))
        if self._log is None or self._log_of != (self.format, self.messages):
            return None
        if any(self.messages.get(batch, {}).keys() & batches[batch].keys() for batch in batches):
            return None
        return self._log.unionByName(new).coalesce(1)

    def _take(
        self, new: DataFrame, batches: dict[str, dict[int, str]], log: DataFrame | None
    ) -> None:
        self._new = new
        for batch, messages in batches.items():
            self.messages[batch] = self.messages.get(batch, {}) | messages
        self._log = self.binlog(self.messages) if log is None else log
        self._log_of = self.format, {name: dict(held) for name, held in self.messages.items()}
        self.meta["batches"] = self.batches or list(self.messages)
        self.replaces = False
        session = SimpleNamespace(table=lambda _: self.frame(), conf=self.spark.conf)
        frame = table_changes(self, session, self._log)
        self.schema, rows = frame.schema, frame.collect()
        if self.replaces:
            keys = {row.unique_key for row in rows}
            self.rows = [row for row in self.rows if row.unique_key not in keys]
        self.rows += [row for row in rows if row.op_type is not None]
        self.is_incremental = True

    def frame(self) -> DataFrame:
        return self.spark.createDataFrame(self.rows, self.schema)

    def sums(self) -> Counter:
        """(cut_date, row) -> how often the changes added it less how often they took it away."""
        found: Counter = Counter()
        for row in self.rows:
            if row.op_type == "rename" and "aren't all known" in (row.reject_reason or ""):
                continue  # the making of the table that was renamed came later, or never
            assert row.reject_reason is None, row.reject_reason
            image = tuple(row[name] for name in COLUMNS)
            if row.op_type != "delete":
                found[row.cut_date, image] += 1
            if row.before is not None:
                found[row.cut_date, tuple(row.before[name] for name in COLUMNS)] -= 1
        return Counter({key: n for key, n in found.items() if n})

    def held(self) -> Counter:
        """Row -> how often it is there after all changes."""
        found: Counter = Counter()
        for (_, image), number in self.sums().items():
            found[image] += number
        return Counter({image: number for image, number in found.items() if number})

    def latest(self) -> dict[int, tuple]:
        """Key -> row by the highest position, as latest_rows reads it."""
        newest: dict[int, tuple] = {}
        for row in self.rows:
            if row.reject_reason is not None:
                continue
            place = (row.binlog_file_number, row.binlog_position, row.row_number)
            steps = []
            if row.op_type == "delete" or (row.before is not None and row.before.id != row.id):
                steps.append((row.before.id, (*place, False), None))
            if row.op_type != "delete":
                steps.append((row.id, (*place, True), tuple(row[name] for name in COLUMNS)))
            for key, order, image in steps:
                if key not in newest or newest[key][0] < order:
                    newest[key] = (order, image)
        return {key: image for key, (_, image) in newest.items() if image is not None}


def of_server(server: Server) -> Counter:
    rows = server.tables["o"] or []
    return Counter((row[0], row[1], f"{row[2]}") for row in rows)


def as_texts(held: Iterable[tuple]) -> Counter:
    return Counter({(row[0], row[1], f"{row[2]:f}"): n for row, n in dict(held).items()})


def collection_event(i: int, kind: str, **fields: Any) -> str:
    """An event of MongoDB's collection shop.o, as a change stream sends it."""
    time = 1772416800 + i
    event = {
        "_id": {"_data": f"82{time:08X}000000012B042C0100296E5A1004{i:032X}04"},
        "operationType": kind,
        "clusterTime": {"$timestamp": {"t": time, "i": 1}},
        "ns": {"db": "shop", "coll": "o"},
    }
    return json.dumps(event | fields)
