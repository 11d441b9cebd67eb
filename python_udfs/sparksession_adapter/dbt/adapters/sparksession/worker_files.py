"""Files that the workers of a Python model write, and that its commit makes part of its table.

Spark's own writer takes every row through Java once more: more than half of what a row costs that a
worker has decoded. A model whose workers hold its rows in Arrow's form may let them write the files
of its table. They are no part of the table until the model's commit, which takes all of them at
once, with the properties that any commit of the model has, as Spark's would: an append, or in the
first build and a rebuild the table itself. What a failed or killed run leaves behind are orphans,
as with Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.flags import is_empty_run
from dbt.adapters.sparksession.iceberg.metadata import active, java_texts
from dbt.adapters.sparksession.iceberg.transforms import Transform
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING
from dbt.adapters.sparksession.interrupts import check_may_begin
from dbt.adapters.sparksession.session import is_remote, message_of, own_session
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JError

FILE = "file:"
TARGET_SIZE, TARGET_SIZE_DEFAULT = "write.target-file-size-bytes", 512 << 20
GROUP_SIZE, GROUP_SIZE_DEFAULT = "write.parquet.row-group-size-bytes", 128 << 20
# how properties of a table begin that don't touch what its files are like, or are heeded here
HEEDED = (
    *("comment", "commit.", "dbt.", "format-version", "gc.", "history.", "owner", "read."),
    *("write.delete.", "write.distribution-mode", "write.merge.", "write.metadata."),
    *("write.parquet.row-group-size-bytes", "write.spark.fanout", "write.summary."),
    *("write.target-file-size-bytes", "write.update."),
)
CODEC, ZSTD = "write.parquet.compression-codec", "zstd"
# types of the columns whose values may have files of their own
PARTITION_TYPES = ("date", "int", "string")


class FilePlace(NamedTuple):
    """Where and how the files of a table are written.

    Attributes:
        folder: of its files, on this host or one that executors share.
        schema: the table's columns, as JSON of Iceberg's table spec.
        partition: the columns whose values have files of their own.
        group_bytes: size of a row group.
        file_bytes: size from which a file is followed by another.
        run: a part that each file's name must have, and no other run's files have: by it the files
            are found that no commit takes.
    """

    folder: str
    schema: str
    partition: tuple[str, ...]
    group_bytes: int
    file_bytes: int
    run: str


class AddedFile(NamedTuple):
    """A file that is written.

    Attributes:
        path: absolute.
        partition: the value of each partition column, as Iceberg writes it as text; None for null.
        offsets: where its row groups begin.
    """

    path: str
    partition: Sequence[str | None]
    offsets: Sequence[int]


@dataclass
class ModelFiles:
    """What is held for a model until its commit.

    Attributes:
        makes_table: whether the commit makes the table, or makes it again.
        properties: the table's, where it is made.
        comment: the same; None for none.
        table: Iceberg's; None until the model's code asks for a place.
        staged: Spark's, of a table that is made; None of a table that is there.
        place: where they are written; None as long as none is asked for.
        added: the files.
    """

    makes_table: bool
    properties: Mapping[str, str]
    comment: str | None
    table: Foreign = None
    staged: Foreign = None
    place: FilePlace | None = None
    added: list[AddedFile] = field(default_factory=list)


class WorkerFiles:
    """The files of the models that are being built."""

    def __init__(self, warehouse: Warehouse, lease: HeldLease) -> None:
        self._warehouse = warehouse
        self._lease = lease
        self._models: dict[str, ModelFiles] = {}

    def allow(
        self, model: Node, makes_table: bool, properties: Mapping[str, str], comment: str | None
    ) -> None:
        """Before a Python model's code runs: let its workers write files, where they could.

        Args:
            makes_table, properties, comment: see ModelFiles.
        """
        is_here = self._warehouse.credentials.folder() is not None
        if is_here and not is_remote(self._warehouse.session()) and not is_empty_run():
            self._models[model["unique_id"]] = ModelFiles(makes_table, properties, comment)

    def are_allowed(self, model: Node) -> bool:
        """Whether it is worth asking for a place of the model's files."""
        return model["unique_id"] in self._models

    def place(self, model: Node, frame: Foreign) -> FilePlace | None:
        """Where the model's workers may write files; None where Spark has to write.

        Args:
            frame: a DataFrame with the columns of the model's table.
        """
        files = self._models.get(model["unique_id"])
        session = self._warehouse.session()
        if files is None:
            return None
        with active(session):
            if not files.makes_table:
                name = f"{model['schema']}.{model['alias']}"
                if not _has_columns(session.table(name).schema, frame.schema):
                    return None
                files.table = self._warehouse.loaded(name)
            else:
                columns = _plain_columns(model)
                if columns is None:
                    return None
                files.staged = self._staged(model, frame, files, columns)
                files.table = files.staged.table()
            found = _place(session, files.table)
        if found is None:
            self._models.pop(model["unique_id"])
            return None
        files.place = found
        return found

    def add(self, model: Node, added: Iterable[AddedFile]) -> None:
        """Note files that the model's workers have written."""
        self._models[model["unique_id"]].added.extend(added)

    def are_written(self, model: Node) -> bool:
        """Whether the model's workers wrote its rows, so that Spark has none of them."""
        files = self._models.get(model["unique_id"])
        return files is not None and bool(files.added)

    def give_up(self, model: Node) -> None:
        """Let Spark write all of the model's rows after all, and delete what workers wrote."""
        files = self._models.pop(model["unique_id"], None)
        if files is not None and files.place is not None:
            for path in Path(files.place.folder).rglob(f"*{files.place.run}*"):
                path.unlink()

    def commit(self, model: Node) -> None:
        """Make the files part of the model's table, in one commit.

        Raises:
            DbtRuntimeError: the run was stopped, or has lost its lease; or the table can't be
                written.
        """
        files = self._models.pop(model["unique_id"])
        session = self._warehouse.session()
        java = session._jvm.org.apache.iceberg
        own = own_session(self._warehouse.credentials)
        try:
            with active(session):
                append = files.table.newAppend()
                append.set("spark.app.id", session.sparkContext.applicationId)
                for key in own.set_with(PROPERTY_SETTING):
                    append.set(key, session.conf.get(PROPERTY_SETTING + key))
                metrics = java.MetricsConfig.forTable(files.table)
                for file in files.added:
                    append.appendFile(_data_file(session, files, file, metrics))
                check_may_begin()
                self._lease.check()
                append.commit()
                if files.staged is not None:
                    files.staged.commitStagedChanges()
        except Py4JError as exc:
            raise DbtRuntimeError(message_of(exc)) from exc
        catalog = self._warehouse.credentials.catalog
        session.catalog.refreshTable(f"{catalog}.{model['schema']}.{model['alias']}")

    def _staged(
        self, model: Node, frame: Foreign, files: ModelFiles, columns: Sequence[str]
    ) -> Foreign:
        """The table as Spark's `create or replace table .. as select` stages it."""
        session = self._warehouse.session()
        java, gateway = session._jvm, session.sparkContext._gateway
        expressions = java.org.apache.spark.sql.connector.expressions
        transforms = gateway.new_array(expressions.Transform, len(columns))
        for place, column in enumerate(columns):
            transforms[place] = expressions.Expressions.identity(column)
        levels = java_texts(session, [model["schema"]])
        name = java.org.apache.spark.sql.connector.catalog.Identifier.of(levels, model["alias"])
        owner = java.org.apache.spark.util.Utils.getCurrentUserName()
        properties = {**files.properties, "provider": "iceberg", "owner": owner}
        if files.comment is not None:
            properties["comment"] = files.comment
        manager = session._jsparkSession.sessionState().catalogManager()
        catalog = manager.catalog(self._warehouse.credentials.catalog)
        columns_of_rows = frame._jdf.schema().asNullable()
        return catalog.stageCreateOrReplace(name, columns_of_rows, transforms, properties)


def _plain_columns(model: Node) -> list[str] | None:
    """The columns of a model's `partition_by`; None where it names more than columns."""
    transforms = Transform.read_all(model["config"].get("partition_by") or [])
    if any(transform.function for transform in transforms):
        return None
    return [transform.column for transform in transforms]


def _has_columns(held: Foreign, given: Foreign) -> bool:
    """Whether Spark's schemas have the same columns, whether null or not."""
    types, other = (
        {column.name: column.dataType.simpleString() for column in schema}
        for schema in (held, given)
    )
    return types == other


def _place(session: Foreign, table: Foreign) -> FilePlace | None:
    """Where the files of Iceberg's table are written; None where that needs Iceberg's own writer:
    in a store, by other partitions than values of these types, in an order, or by properties of its
    own."""
    location = table.location().removeprefix(FILE)
    location = f"/{location.lstrip('/')}" if location.startswith("/") else ""
    properties, fields = table.properties(), list(table.spec().fields())
    is_plain = all(key.startswith(HEEDED) or key == CODEC for key in properties)
    is_plain &= properties.get(CODEC) in (None, ZSTD)
    if not location or not is_plain or not table.sortOrder().isUnsorted():
        return None
    partition = []
    for field_ in fields:
        column = table.schema().findField(field_.sourceId())
        is_value = field_.transform().isIdentity() and field_.name() == column.name()
        if not is_value or column.type().toString() not in PARTITION_TYPES:
            return None
        partition.append(column.name())
    return FilePlace(
        folder=os.path.join(location, "data"),
        schema=session._jvm.org.apache.iceberg.SchemaParser.toJson(table.schema()),
        partition=tuple(partition),
        group_bytes=int(properties.get(GROUP_SIZE) or GROUP_SIZE_DEFAULT),
        file_bytes=int(properties.get(TARGET_SIZE) or TARGET_SIZE_DEFAULT),
        run=uuid4().hex,
    )


def _data_file(session: Foreign, files: ModelFiles, file: AddedFile, metrics: Foreign) -> Foreign:
    """A file as Iceberg's manifests name it, with the metrics that its footer has."""
    java = session._jvm.org.apache.iceberg
    given = files.table.io().newInputFile(file.path)
    builder = java.DataFiles.builder(files.table.spec()).withInputFile(given)
    builder = builder.withFormat("parquet").withSplitOffsets(_longs(session, file.offsets))
    builder = builder.withMetrics(java.parquet.ParquetUtil.fileMetrics(given, metrics))
    kinds = files.table.spec().partitionType()
    values = java.PartitionData(kinds)
    for place, (field_, text) in enumerate(zip(kinds.fields(), file.partition, strict=True)):
        is_text = text is None or field_.type().toString() == "string"
        read = java.types.Conversions.fromPartitionString
        values.set(place, text if is_text else read(field_.type(), text))
    return (builder.withPartition(values) if file.partition else builder).build()


def _longs(session: Foreign, values: Sequence[int]) -> Foreign:
    """Java's list of these; py4j would make small numbers Integer."""
    array = session.sparkContext._gateway.new_array(session._jvm.long, len(values))
    for place, value in enumerate(values):
        array[place] = value
    stream = session._jvm.java.util.stream
    return stream.LongStream.of(array).boxed().collect(stream.Collectors.toList())
