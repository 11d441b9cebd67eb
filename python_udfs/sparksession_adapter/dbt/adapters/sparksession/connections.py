"""Credentials and cursor of the in-process session."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal
from typing import Any

import agate
from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark import SparkConnectionManager, SparkCredentials
from dbt.adapters.sparksession.catalogs import REST, SQLITE, catalog_settings, scheme_of
from dbt.adapters.sparksession.deletes import (
    check_replaced,
    null_safe_delete,
    problem_of_prefix,
)
from dbt.adapters.sparksession.executors import LOCAL, is_local
from dbt.adapters.sparksession.private_files import dbt_folders, keep_private, umask
from dbt.adapters.sparksession.reading.view_marks import statement_of
from dbt.adapters.sparksession.session import (
    CHECKPOINTS,
    cancel_statements,
    message_of,
    own_session,
)
from dbt.adapters.sparksession.session_values import UTC_NAMES, ZONE
from dbt.adapters.sparksession.sql import literal
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

HIDDEN_SETTINGS = "(?i)secret|password|token|access[.]?key|credential"
HADOOP_STORES = ("hdfs",)  # without a jar beside Spark's own
DOUBLE_DIGITS = 15  # digits that a double always keeps
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass
class SparkSessionCredentials(SparkCredentials):
    """What a profile of `type: sparksession` may say.

    Attributes:
        schema: the namespace that models are built in.
        published_schema: the namespace of the views of the newest version.
        warehouse: folder of the tables and of the catalog file; relative to the project. Or a URI.
        catalog_type, catalog_uri: which catalog keeps the tables, see catalogs.py.
        catalog: name of the Iceberg catalog, the session's default one.
        packages: Maven coordinates of the jars; resolved once into `jars_dir`.
        extra_jars: more of them as one comma separated text: coordinates, `!group:artifact` to
            leave one out, and jar files (`*` allowed; relative to the project).
        jars_dir: folder that keeps the jars; relative to the project.
        jars_lock: file with the sha256 of each jar that coordinates may bring, see jars.py;
            relative to the project. "": they are taken as they come.
        verbose: leave Spark's log on the screen instead of logs/spark.log.
        python_packages: packages in the project's folder that its Python models import.
        declaration_checks: name in a model's `meta` -> function of the project, `module:function`,
            that judges the models which have it, see declared/checks.py.
        stores: module of the project that opens the stores which versions are published to, see
            versions/targets.py. "": there is none.
        offline: parse, compile and lint without a session; every relation counts as absent.
        runs_on: `local`, or what the profile is for: `connect` (needs SPARK_REMOTE) or `cluster`
            (needs a master outside of this process), see executors.py.
        executors_within: seconds in which executors have to come, where Spark isn't in this
            process. 0: whether they come, and what they lack, isn't looked at.
        executors_read: folders that executors read; relative to the project.
        server_side_parameters: Spark settings; they win over the adapter's own. An empty one counts
            as not given.
    """

    host: str | None = "session"
    method: str = "session"  # type: ignore[assignment]
    published_schema: str = "published"
    warehouse: str = "warehouse"
    catalog: str = "lake"
    catalog_type: str = SQLITE
    catalog_uri: str = ""
    packages: list[str] = field(default_factory=list)
    extra_jars: str = ""
    jars_dir: str = ".jars"
    jars_lock: str = ""
    python_packages: list[str] = field(default_factory=list)
    declaration_checks: dict[str, str] = field(default_factory=dict)
    stores: str = ""
    verbose: bool = False
    offline: bool = False
    runs_on: str = LOCAL
    executors_within: int = 30
    executors_read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # the adapter sets it: dbt doesn't read it from the profile
        self.project_root: str | None = None
        # an empty folder would be the project's own
        for name, value in {"warehouse": self.warehouse, "schema": self.schema}.items():
            if not str(value or "").strip():
                raise DbtRuntimeError(
                    f"{name} of the profile is empty, got {value!r}: set the environment variable "
                    f"{name.upper()} to a value, or unset it, so that the profile's own counts."
                )
        zone = self.server_side_parameters.get(ZONE)
        if zone and str(zone).upper() not in UTC_NAMES:
            raise DbtRuntimeError(
                f"{ZONE} of the profile's server_side_parameters is {zone!r}, and must be UTC, in "
                "which all times are stored and read: take it out. The zone of business days is "
                "the var business_zone."
            )
        ansi = self.server_side_parameters.get("spark.sql.ansi.enabled", "true")
        super().__post_init__()
        # dbt-spark forces ANSI off: an overflow or a bad cast would pass as null
        self.server_side_parameters["spark.sql.ansi.enabled"] = str(ansi).lower()

    @property
    def type(self) -> str:
        return "sparksession"

    @property
    def unique_field(self) -> str:
        return self.warehouse

    def _connection_keys(self) -> tuple[str, ...]:
        # where one of these changes dbt parses the whole project again: the folder changes nothing
        return ("schema", "catalog")

    def path(self, name: str) -> str:
        """`name` as an absolute path; a relative one counts from the project's folder. A URI stays
        as it is."""
        if scheme_of(name):
            return name
        root = self.project_root or os.getcwd()
        return os.path.abspath(os.path.join(root, os.path.expanduser(name)))

    def jars(self) -> tuple[list[str], list[str], list[str]]:
        """Coordinates to resolve, artifacts to leave out of them, and files.

        Raises:
            DbtRuntimeError: a name in `extra_jars` that ends in .jar is no file.
        """
        extra = [part.strip() for part in self.extra_jars.split(",") if part.strip()]
        left_out = [entry[1:] for entry in extra if entry.startswith("!")]
        patterns = [entry for entry in extra if entry.endswith(".jar")]
        coordinates = [
            entry for entry in extra if not entry.startswith("!") and entry not in patterns
        ]
        files = []
        for pattern in patterns:
            found = sorted(glob.glob(self.path(pattern)))
            if not found:
                raise DbtRuntimeError(
                    f"extra_jars of the profile names {pattern}, but there is no such file. "
                    "It must be jar files or coordinates (group:artifact:version)."
                )
            files += found
        return [*self.packages, *coordinates], left_out, files

    def shared_folders(self) -> tuple[list[str], list[str]]:
        """Local folders that executors have to see as this process does: those that both write,
        and those that are read."""
        kept = "spark.sql.catalog." + self.catalog not in self.server_side_parameters
        read = [self.path(path) for path in self.executors_read if path and not scheme_of(path)]
        folder = self.folder() if kept else None
        return [folder] if folder else [], read

    def folder(self) -> str | None:
        """The warehouse's folder; None where it is no folder of this host."""
        is_name = self.catalog_type == REST and "/" not in self.warehouse
        return None if is_name or scheme_of(self.warehouse) else self.path(self.warehouse)

    def _checkpoint_settings(self) -> dict[str, str]:
        """Where a run keeps rows that a lost executor must not take with it: beside the tables,
        unless these lie in a store that Hadoop has no file system for."""
        scheme = scheme_of(self.warehouse)
        folder = self.folder()
        if folder is None and scheme not in HADOOP_STORES:
            return {}
        place = f"file://{folder}" if folder is not None else self.warehouse.rstrip("/")
        return {
            CHECKPOINTS: f"{place}/.checkpoints",
            "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
        }

    def _catalogs_warehouse(self) -> str:
        return self.folder() or self.warehouse

    def spark_settings(self) -> dict[str, str]:
        """All Spark settings (key -> text): the adapter's own, overlaid by the profile's."""
        lake = f"spark.sql.catalog.{self.catalog}"
        scratch = self.path("target/spark")
        parameters = self.server_side_parameters.items()
        given = {key: str(value) for key, value in parameters if value not in ("", None)}
        own = {
            "spark.app.name": "binlog_warehouse",
            "spark.master": "local[*]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # the call site of each column would be asked of the JVM: half the time that a wide
            # model takes to be planned. Python's own traceback names the line as well
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            # everything temporary, native libraries included, stays in the project
            "spark.local.dir": scratch,
            "spark.driver.extraJavaOptions": (
                f"-XX:-UsePerfData -Djava.io.tmpdir={scratch}/tmp -Dderby.system.home={scratch}"
            ),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.sql.extensions": EXTENSIONS,
            "spark.sql.defaultCatalog": self.catalog,
            ZONE: "UTC",
            # `describe` would cut the type of a struct with more fields than this
            "spark.sql.debug.maxToStringFields": "2000",
            # each query's plan is written out for a UI; this is the form that costs least
            "spark.sql.ui.explainMode": "simple",
            # compiled code of queries that is kept; with its usual 100 each run of 60 models and
            # their tests compiles all of it again
            "spark.sql.codegen.cache.maxEntries": "1000",
            # the values of a list stay out of that code, so that other values need no other code
            "spark.sql.optimizer.inSetConversionThreshold": "1",
            "spark.sql.optimizer.inSetSwitchThreshold": "0",
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            # else ${env:NAME} in a text would become the variable's value
            "spark.sql.variable.substitute": "false",
            "spark.hadoop.fs.permissions.umask-mode": f"{umask():03o}",
        }
        if is_local(given.get("spark.master", "local[*]")):  # executors elsewhere have to reach it
            own |= {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                # a task writes its rows into one file, not into one for each task that reads them
                "spark.shuffle.sort.bypassMergeThreshold": "1",
            }
        else:
            own |= self._checkpoint_settings()
        if lake not in given:
            found = catalog_settings(
                self.catalog_type, self.catalog_uri, self._catalogs_warehouse()
            )
            # with a cache another session would read stale tables
            found = {"cache-enabled": "false"} | found
            own[lake] = "org.apache.iceberg.spark.SparkCatalog"
            own |= {f"{lake}.{key}": value for key, value in found.items()}
            if self.catalog_type == REST:  # Spark's own hides secrets, passwords and tokens
                own["spark.redaction.regex"] = HIDDEN_SETTINGS
        return own | given


def _exact(values: list[Any]) -> list[Any]:
    """A column's values; see SparkSessionConnectionManager.process_results."""
    decimals = [value for value in values if isinstance(value, Decimal)]
    if not decimals:
        return values
    if all(value.as_tuple().exponent == 0 for value in decimals):
        return [int(value) if value is not None else None for value in values]
    if any(len(value.as_tuple().digits) > DOUBLE_DIGITS for value in decimals):
        return [str(value) if value is not None else None for value in values]
    return values


class ShownTable(agate.Table):
    """A result as `dbt show` prints it: agate cuts each text and each name after 20 characters, so
    that nobody could read why a message was refused."""

    def print_table(self, **options: Any) -> None:
        super().print_table(**{"max_column_width": SHOWN} | options)


FAILED_RUN = "-- the run failed: "
SHOWN = 300  # characters of a text on the screen


class Handle:
    """One dbt connection: the thread's session, and the rows of its last statement."""

    def __init__(self, credentials: SparkSessionCredentials) -> None:
        self.own = own_session(credentials)
        self._frame: Any = None
        self._is_cancelled = False

    def cursor(self) -> Handle:
        return self

    def execute(self, sql: str, bindings: Any = None) -> None:
        """Run one statement. A `%s` in it takes the next binding as a literal.

        A hook at a run's end that returns a text behind FAILED_RUN fails with it: where its macro
        raised an error itself, dbt would say that the run was interrupted by a key.
        """
        sql = sql.strip().removesuffix(";")
        comment, failed, problem = sql.partition(FAILED_RUN)  # dbt's own comment goes before it
        if failed and (not comment or comment.rstrip().endswith("*/")):
            raise DbtRuntimeError(problem)
        if self._is_cancelled:
            raise DbtRuntimeError("The run was stopped before this statement began.")
        if bindings is not None:
            sql = sql % tuple(literal(value) for value in bindings)
        sql = null_safe_delete(statement_of(sql))
        check_replaced(sql)
        try:
            self._frame = self.own.session.sql(sql)
        except Exception as exc:
            of_prefix = problem_of_prefix(sql, str(exc))
            raise DbtRuntimeError(of_prefix or message_of(exc)) from exc

    def fetchall(self) -> list[Any]:
        return [] if self._frame is None else self._in_utc(self._frame.collect())

    def fetchmany(self, size: int) -> list[Any]:
        return [] if self._frame is None else self._in_utc(self._frame.take(size))

    def _in_utc(self, rows: list[Any]) -> list[Any]:
        """Rows with their times in UTC, without a zone: PySpark gives them in the machine's."""
        kinds = [] if self._frame is None else self._frame.schema.fields
        times = {
            place for place, field in enumerate(kinds) if field.dataType.typeName() == "timestamp"
        }
        if not times:
            return rows
        return [
            tuple(
                value.astimezone(UTC).replace(tzinfo=None)
                if place in times and value is not None
                else value
                for place, value in enumerate(row)
            )
            for row in rows
        ]

    def fetchone(self) -> Any:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    @property
    def description(self) -> list[tuple[Any, ...]]:
        if self._frame is None:
            return []
        return [
            (field.name, field.dataType.simpleString(), None, None, None, None, field.nullable)
            for field in self._frame.schema.fields
        ]

    def cancel(self) -> None:
        """End what Spark is doing, and begin nothing more; any thread may ask for it."""
        self._is_cancelled = True
        cancel_statements(self.own.session)

    def close(self) -> None:
        self._frame = None

    def rollback(self) -> None:
        """Nothing to undo: each statement commits for itself."""


class SparkSessionConnectionManager(SparkConnectionManager):
    TYPE = "sparksession"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials = connection.credentials
        if credentials.offline:
            raise FailedToConnectError("The profile has `offline`: nothing can be run with it.")
        warehouse = credentials.folder()
        try:
            if warehouse is not None:
                os.makedirs(warehouse, exist_ok=True)
                keep_private(warehouse)
            keep_private(*map(credentials.path, dbt_folders()))
        except OSError as exc:
            raise FailedToConnectError(
                f"The warehouse folder {warehouse} can't be made ({exc.strerror}). "
                "Set WAREHOUSE to a folder that can be written."
            ) from exc
        connection.handle = Handle(credentials)
        connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Generator[None, None, None]:
        try:
            yield
        except DbtRuntimeError as exc:
            raise DbtDatabaseError(exc.msg) from exc
        except Exception as exc:
            raise DbtDatabaseError(message_of(exc)) from exc

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        return AdapterResponse(_message="OK")

    @classmethod
    def get_result_from_cursor(cls, cursor: Any, limit: int | None) -> agate.Table:
        found = super().get_result_from_cursor(cursor, limit)
        return ShownTable(found.rows, found.column_names, found.column_types, _is_fork=True)

    @classmethod
    def process_results(cls, column_names: Any, rows: Any) -> Any:
        """Rows for dbt, with decimals that its JSON output leaves exact.

        dbt writes a Decimal as a double: a key above 2^53 or a large sum would come out wrong.
        Whole decimals become int, columns with more than 15 digits text.
        """
        columns = [_exact(list(values)) for values in zip(*rows, strict=True)] if rows else []
        return super().process_results(column_names, list(zip(*columns, strict=True)))

    @classmethod
    def data_type_code_to_name(cls, type_code: Any) -> str:
        return str(type_code)
