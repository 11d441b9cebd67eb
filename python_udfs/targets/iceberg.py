"""Plain Iceberg tables beside the warehouse's own, for tools that read no views of Spark.

    PUBLISH_<NAME>_SCHEMA      schema of the tables, in the warehouse's own catalog; by default the
                               target's name. Publishing makes it, and nothing else writes there
    PUBLISH_<NAME>_KEEP_HOURS  how long a reader may go on with a version that isn't the newest any
                               more; by default 24

Each publication is one commit a table, and the commit itself states which version it is of: a
killed publication leaves the table as it was. A first version, and one that is compared as a
whole, is written sorted by the key. Of the next versions MERGE writes the changed rows, and marks
the rows that they replace as deleted (merge-on-read, Iceberg's format 2): the cost is that of the
changed rows, of a read of the key's columns in the files that may have them, and now and then of a
rewrite of files with many deleted rows. There is no commit across tables: each table is of one
version, several may be of two for a moment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.iceberg.metadata import loaded
from dbt.adapters.sparksession.inputs import PROPERTY_SETTING
from dbt.adapters.sparksession.session import message_of
from dbt.adapters.sparksession.sql import is_absent, literal, quoted
from dbt.adapters.sparksession.versions.targets import (
    ROW_KEY,
    SIGN,
    PublishError,
    StoreState,
    TableUpdate,
    UpdateResult,
)
from dbt_common.exceptions import DbtRuntimeError

from python_udfs.targets import setting
from python_udfs.targets.columns import column_differences
from python_udfs.targets.row_counts import check_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = re.compile(r"[a-z][a-z0-9_]*")
# of a commit: what the table holds; of a schema: which warehouse's publications it is for
VERSION, MARK, WAREHOUSE = "published.version", "published.mark", "published.warehouse"
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.merge.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
REWRITE = "replace"  # operation of a commit that changes files and no row
MANY_SNAPSHOTS = 20  # from then on those that nobody needs any more go
MANY_DELETE_FILES = 50  # from then on files with deleted rows are written again
# types whose values bound the files that MERGE reads; they are written as whole numbers or days
BOUNDED = ("tinyint", "smallint", "int", "bigint", "date")


@dataclass(frozen=True)
class _Counts:
    """What a part has to do.

    Attributes:
        there: rows that the table has then, as they are now.
        gone: rows that go.
        twice: rows whose key another row has.
        least, most: of the key's first column, as SQL; None where files aren't bounded by it.
    """

    there: int
    gone: int
    twice: int
    least: str | None = None
    most: str | None = None


def open_store(session: SparkSession, target: str, warehouse: str) -> IcebergStore:
    schema = setting(target, "SCHEMA", target)
    if not NAME.fullmatch(schema):
        raise PublishError(
            f"PUBLISH_{target.upper()}_SCHEMA must be a lower case name, got {schema!r}"
        )
    hours = setting(target, "KEEP_HOURS", "24")
    if not hours.isdecimal():
        raise PublishError(
            f"PUBLISH_{target.upper()}_KEEP_HOURS must be a whole number of hours, got {hours!r}"
        )
    return IcebergStore(session, schema, warehouse, int(hours))


class IcebergStore:
    """A schema of plain tables in the warehouse's catalog.

    Args:
        warehouse: id of the warehouse that publishes.
        keep_hours: how long snapshots stay that aren't the newest.

    Raises:
        PublishError: the schema is for something else.
    """

    together = False

    def __init__(self, session: SparkSession, schema: str, warehouse: str, keep_hours: int) -> None:
        self._session, self._schema, self._warehouse = session, schema, warehouse
        self._keep = keep_hours * 3_600_000
        self._catalog = str(session.conf.get("spark.sql.defaultCatalog"))
        self._make_or_check_schema()

    def close(self) -> None:
        pass

    def held(self, tables: Sequence[str]) -> dict[str, StoreState]:
        """Table -> what it holds, of those that have been published to."""
        found = {}
        for table in tables:
            iceberg = self._loaded(table)
            if iceberg is not None and (record := self._record_of(table, iceberg)):
                found[table] = StoreState(int(record[VERSION]), record[MARK])
        return found

    def take(self, parts: Sequence[TableUpdate]) -> list[UpdateResult]:
        """Let each part's table hold its version."""
        return [self._take(part) for part in parts]

    def _make_or_check_schema(self) -> None:
        # the schema of somebody else's tables isn't ours to write
        self._session.sql(
            f"create namespace if not exists {self._schema} "
            f"with dbproperties ({literal(WAREHOUSE)} = {literal(self._warehouse)})"
        )
        rows = self._session.sql(f"describe namespace extended {self._schema}").collect()
        if not any(WAREHOUSE in str(row.info_value) for row in rows):
            raise PublishError(
                f"schema {self._schema} is there, and was not made by publishing: name another by "
                "PUBLISH_<NAME>_SCHEMA"
            )

    def _name(self, table: str) -> str:
        return f"{self._schema}.{quoted(table)}"

    def _loaded(self, table: str) -> Any:
        """Iceberg's table object; None where there is no such table."""
        try:
            return loaded(self._session, self._catalog, self._name(table))
        except DbtRuntimeError as exc:
            if is_absent(exc):
                return None
            raise

    def _record_of(self, table: str, iceberg: Any) -> Mapping[str, str] | None:
        """What the newest publication's commit states; None where it has expired.

        Raises:
            PublishError: somebody else has changed the rows.
        """
        snapshot = iceberg.currentSnapshot()
        while snapshot is not None:
            summary = snapshot.summary()
            if summary.containsKey(VERSION):
                return {key: str(summary.get(key)) for key in (VERSION, MARK)}
            if snapshot.operation() != REWRITE:
                raise PublishError(
                    f"table {self._schema}.{table} was changed by a commit that is no publication "
                    f"(snapshot {snapshot.snapshotId()}, {snapshot.operation()}): drop it and "
                    "publish again"
                )
            parent = snapshot.parentId()
            snapshot = iceberg.snapshot(parent) if parent is not None else None
        return None

    def _take(self, part: TableUpdate) -> UpdateResult:
        table = part.publication.table
        if part.publication.mode:
            raise PublishError(f"mode of table {table} is for topics alone")
        if part.publication.types:
            raise PublishError(f"types of table {table}: a plain table has the model's own types")
        name, iceberg = self._name(table), self._loaded(table)
        if part.rows is None:
            nothing = self._session.table(name).limit(0)
            self._written(nothing.writeTo(name), part).append()
            return UpdateResult(part, 0, 0)
        if iceberg is not None:
            self._check_columns(table, part.kinds)
        rows = part.rows.persist()
        try:
            counts = self._counts(part, rows)
            if counts.twice:
                raise PublishError(part.duplicate_key_message())
            if iceberg is None or part.whole:
                gone = self._write_whole(part, rows, iceberg)
                result = UpdateResult(part, counts.there, gone)
            else:
                self._merge(part, rows, counts)
                result = UpdateResult(part, counts.there, counts.gone)
        except PublishError:
            raise
        except Exception as exc:
            reason = message_of(exc).split("\n")[0]
            raise PublishError(f"rows of {table} were refused: {reason}") from None
        finally:
            rows.unpersist()
        self._check_written(part, counts)
        self._tidy(table)
        return result

    def _counts(self, part: TableUpdate, rows: DataFrame) -> _Counts:
        from pyspark.sql import functions as F

        (first, *_), sign = part.publication.key, F.col(SIGN)
        asked = {
            "there": F.count_if(sign == 1),
            "gone": F.count_if(sign == -1),
            "twice": F.count(F.lit(1)) - F.count_distinct(ROW_KEY),
        }
        kind = part.kinds[first]
        if kind in BOUNDED:
            key = F.col(quoted(first))
            asked |= {
                "least": F.min(key),
                "most": F.max(key),
                "nulls": F.count_if(key.isNull()),
            }
        (row,) = rows.agg(*(item.alias(name) for name, item in asked.items())).collect()
        found = row.asDict()
        bounds = (found.pop("least", None), found.pop("most", None))
        if found.pop("nulls", 1) or None in bounds:
            return _Counts(**found)
        least, most = (
            f"date {literal(value.isoformat())}" if kind == "date" else str(int(value))
            for value in bounds
        )
        return _Counts(**found, least=least, most=most)

    def _write_whole(self, part: TableUpdate, rows: DataFrame, iceberg: Any) -> int:
        """Let the rows be all that the table has; how many went that it had beside."""
        from pyspark.sql import functions as F

        name, key = self._name(part.publication.table), part.publication.key
        all_rows = rows.where(F.col(SIGN) == 1).select(*map(quoted, part.kinds))
        wanted = all_rows.orderBy(*map(quoted, key))
        if iceberg is None:
            writer = self._written(wanted.writeTo(name), part).using("iceberg")
            for option, value in TABLE_PROPERTIES.items():
                writer = writer.tableProperty(option, value)
            writer.create()
            return 0
        there = self._session.table(name).alias("there")
        kept = all_rows.alias("kept")
        same = [
            F.col(f"there.{quoted(item)}").eqNullSafe(F.col(f"kept.{quoted(item)}")) for item in key
        ]
        gone = there.join(kept, same, "left_anti").count()
        writer = self._written(wanted.writeTo(name), part)
        snapshot = iceberg.currentSnapshot()
        if snapshot is not None:
            # not over what another process has committed since
            writer = writer.option("validate-from-snapshot-id", str(snapshot.snapshotId()))
        writer.option("isolation-level", "serializable").overwrite(F.lit(True))
        return gone

    def _merge(self, part: TableUpdate, rows: DataFrame, counts: _Counts) -> None:
        """Let the table have the changed rows, in one commit."""
        key, view = part.publication.key, f"published_changes_{part.version}"
        same = [f"held.{quoted(item)} <=> came.{quoted(item)}" for item in key]
        if counts.least is not None:
            same.append(f"held.{quoted(key[0])} between {counts.least} and {counts.most}")
        rows.createOrReplaceTempView(view)
        try:
            with self._properties(part):
                self._session.sql(
                    f"merge into {self._name(part.publication.table)} as held using {view} as came "
                    f"on {' and '.join(same)} "
                    f"when matched and came.{SIGN} = -1 then delete "
                    "when matched then update set * "
                    f"when not matched and came.{SIGN} = 1 then insert *"
                )
        finally:
            self._session.catalog.dropTempView(view)

    @staticmethod
    def _written(writer: Any, part: TableUpdate) -> Any:
        """The writer, whose commit states which version it is of."""
        for name, value in _record(part).items():
            writer = writer.option(f"snapshot-property.{name}", value)
        return writer

    @contextmanager
    def _properties(self, part: TableUpdate) -> Iterator[None]:
        """Within it a statement's commit states which version it is of."""
        conf, names = self._session.conf, list(_record(part))
        try:
            for name, value in _record(part).items():
                conf.set(PROPERTY_SETTING + name, value)
            yield
        finally:
            for name in names:
                conf.unset(PROPERTY_SETTING + name)

    def _check_columns(self, table: str, kinds: Mapping[str, str]) -> None:
        """See that a table has the columns that it would be made with.

        Raises:
            PublishError: it has others.
        """
        fields = self._session.table(self._name(table)).schema
        found = {field.name: field.dataType.simpleString() for field in fields}
        wanted = {column: _stored_kind(kind) for column, kind in kinds.items()}
        problems = column_differences(wanted, found, str)
        if problems:
            raise PublishError(
                f"table {self._schema}.{table} differs from the model: {', '.join(problems)} "
                "(alter it, or drop it and publish again)"
            )

    def _check_written(self, part: TableUpdate, counts: _Counts) -> None:
        """See that the commit has what was sent."""
        iceberg = self._loaded(part.publication.table)
        summary = iceberg.currentSnapshot().summary()
        is_ours = (summary.get(VERSION), summary.get(MARK)) == (str(part.version), part.mark)
        added = int(summary.get("added-records") or 0) if is_ours else 0
        check_rows(part.publication.table, counts.there, added, "its commit")

    def _tidy(self, table: str) -> None:
        """Let snapshots go that no reader needs any more, and write files again that have many
        deleted rows. A catalog that keeps all of its files to itself does both by its own rules."""
        iceberg = self._loaded(table)
        if str(iceberg.properties().get("gc.enabled")) == "false":
            return
        summary = iceberg.currentSnapshot().summary()
        if int(summary.get("total-delete-files") or 0) >= MANY_DELETE_FILES:
            self._session.sql(
                f"call {self._catalog}.system.rewrite_data_files("
                f"table => {literal(self._name(table))}, options => map("
                "'delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))"
            )
            iceberg.refresh()
        until = int(time.time() * 1000) - self._keep
        old = [item for item in iceberg.snapshots() if item.timestampMillis() < until]
        if len(old) >= MANY_SNAPSHOTS:
            iceberg.expireSnapshots().expireOlderThan(until).retainLast(2).commit()


def _record(part: TableUpdate) -> dict[str, str]:
    return {VERSION: str(part.version), MARK: part.mark}


def _stored_kind(kind: str) -> str:
    """The type that Iceberg keeps a type of Spark as, by Spark's name.

    >>> _stored_kind("array<smallint>"), _stored_kind("varchar(20)")
    ('array<int>', 'string')
    """
    kind = re.sub(r"\b(?:tinyint|smallint)\b", "int", kind)
    return re.sub(r"\b(?:var)?char\(\d+\)", "string", kind)
