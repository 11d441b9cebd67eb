"""Stores that take a version of all their tables in one transaction, by JDBC.

Spark writes the rows of each table into a staging table that nobody reads. Then one transaction
moves the rows of all staging tables into their tables and records the version of each
(published_version). So a reader's statement sees all tables as of one version, also where the
publication is killed. The next publication of the same warehouse drops staging tables that were
left: their names hold the warehouse's id.

The primary key is row_key, a hash of the key's values: null equals null, and texts are compared by
their bytes in every collation.
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dbt.adapters.sparksession.executors import is_local
from dbt.adapters.sparksession.versions.targets import (
    ROW_KEY,
    SIGN,
    PublishError,
    StoreState,
    TableUpdate,
    UpdateResult,
)

from python_udfs.servers.errors import ServerError, server_error
from python_udfs.servers.jdbc import JdbcServer
from python_udfs.targets import RECORDS_TABLE, is_tls_wanted, setting
from python_udfs.targets.row_counts import check_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

NO_CONNECTION = re.compile(
    r"connection refused|timed out|no route to host|unreachable|unknown ?host", re.IGNORECASE
)
STAGING = "staging__"
LOCK_SECONDS = 60  # that a publication waits for another to end, living or killed
WRITERS = 4  # connections that fill a staging table
BATCH_ROWS = 5_000


def login(target: str, scheme: str, tls: tuple[str, str]) -> dict[str, str]:
    """JDBC options of a target: url, user, password.

    Args:
        tls: the driver's option, and its value, for a connection over TLS to a server whose
            certificate is checked; set where PUBLISH_<TARGET>_TLS asks for it.

    Raises:
        PublishError: one isn't set, the URL is none of `jdbc:<scheme>` with a database, or asks
            for less than TLS.
    """
    url = setting(target, "URL")
    if not re.fullmatch(rf"jdbc:{scheme}://[^/?]+/[^/?]+(\?.*)?", url):
        raise PublishError(
            f"PUBLISH_{target.upper()}_URL must look like jdbc:{scheme}://host:port/database"
        )
    wanted = is_tls_wanted(target)
    address, _, options = (unquote(part).lower() for part in url.partition("?"))
    # whether the URL or an option counts depends on the driver
    has_own = re.search(r"(?:^|&)(?:use|require|verifyserver)?ssl[a-z]*=", options)
    if wanted and (has_own or re.search(r"[(=]", address)):  # (host=h,sslMode=DISABLED)
        raise PublishError(
            f"PUBLISH_{target.upper()}_TLS asks for TLS, which sets {tls[0]}={tls[1]}: leave the "
            "options of TLS out of its URL"
        )
    return ({tls[0]: tls[1]} if wanted else {}) | {
        "url": url,
        "user": setting(target, "USER"),
        "password": setting(target, "PASSWORD", ""),
    }


def column_types(
    store: str,
    kinds: Mapping[str, str],
    given: Mapping[str, str],
    usual: Callable[[str], str | None],
    problem: Callable[[str, str], str | None],
) -> dict[str, str]:
    """Column -> the store's type.

    Args:
        store: its name, for the error text.
        kinds: column -> Spark's type.
        given: column -> the store's type, as an exposure declares it.
        usual: Spark's type -> the store's type that holds all its values, None without such a type.
        problem: declared type in lower case, Spark's type -> error text, else None.

    Raises:
        PublishError: columns without a type.
    """
    problems = [f"types names {name}, which the rows lack" for name in given if name not in kinds]
    types = {}
    for column, declared in given.items():
        wrong = problem(str(declared).lower(), kinds.get(column, ""))
        if wrong:
            problems.append(f"{declared!r} of column {column} {wrong}")
    for column, kind in kinds.items():
        found = given.get(column) or usual(kind)
        if not found:
            problems.append(f"{store} has no type for column {column} ({kind})")
        types[column] = str(found).lower()
    if problems:
        raise PublishError("; ".join(problems))
    return types


def misfit(wanted: str, kind: str, fitting: Mapping[str, str]) -> str | None:
    """What is wrong with a type of the store that an exposure names for one of Spark's: the store
    would change values of it without a word. None where each value is held or refused.

    Args:
        fitting: patterns of Spark's types -> of the store's, beside decimals for numbers.
    """
    numbers = re.fullmatch(r"(?:numeric|decimal)\(\d+,(\d+)\)", wanted)
    if numbers and re.fullmatch(r"tinyint|smallint|int|bigint|decimal\(\d+,\d+\)", kind):
        places = re.search(r",(\d+)", kind)
        rounds = places is not None and int(numbers[1]) < int(places[1])
        return f"would round a {kind}" if rounds else None
    for own, others in fitting.items():
        if re.fullmatch(own, kind) and re.fullmatch(others, wanted):
            return None
    return f"is no type that holds any {kind}"


def is_nested(kind: str) -> bool:
    """Whether a type of Spark is nested, so that its values are written as JSON."""
    return kind.startswith(("array", "struct", "map"))


def as_json(column: Column) -> Column:
    """A nested value as JSON, with its nulls, and times to the microsecond."""
    from pyspark.sql import functions as F

    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
    return F.to_json(column, options)


class TransactionalStore(ABC):
    """One database of a server, locked against other publications.

    Attributes:
        make: class of the server's connection.

    Args:
        warehouse: id of the warehouse that publishes.

    Raises:
        PublishError: the server can't be reached or refuses.
    """

    together = True
    make: type[JdbcServer]

    def __init__(self, session: SparkSession, options: dict[str, str], warehouse: str) -> None:
        self._session, self._options = session, options
        self._staging = f"{STAGING}{warehouse}_"  # how names of its staging tables begin
        try:
            self._server = self.make(session, options)
        except ServerError as exc:
            raise PublishError(sentence(exc)) from None
        try:
            if not self._lock():
                raise PublishError("another publication to it is going on")
        except PublishError:
            self.close()
            raise
        self._held: dict[str, StoreState] = {}
        self._sent: dict[str, int] = {}  # staging table -> rows that Spark wrote into it

    def close(self) -> None:
        self._server.close()

    def held(self, tables: Sequence[str]) -> dict[str, StoreState]:
        """Table -> what it holds, for the tables that have been published to."""
        if not self._columns(RECORDS_TABLE):
            return {}
        # a table that was dropped has to be published as a whole
        there = {table for table in tables if self._columns(table)}
        rows = self._query(self._versions_of(there))
        self._held = {
            str(table): StoreState(int(version or 0), str(mark)) for table, version, mark in rows
        }
        return self._held

    def take(self, parts: Sequence[TableUpdate]) -> list[UpdateResult]:
        """Bring all tables to their versions, in one transaction."""
        if not self._columns(RECORDS_TABLE):
            self._execute(self._create_versions())
        for (old,) in self._query(self._staging_left()):
            self._execute(f"drop table {self._name(str(old))}")
        staged: dict[str, str] = {}
        try:
            for part in parts:
                if part.rows is not None:
                    staged[part.publication.table] = self._stage(part)
        except PublishError:
            self._drop(staged.values())
            raise
        # a drop may commit: behind a failed transaction it would commit half of it
        taken = self._commit(parts, staged)
        self._drop(staged.values())
        return taken

    def _stage(self, part: TableUpdate) -> str:
        """Write the rows of a part into a staging table; the name of that table."""
        from pyspark import StorageLevel

        publication = part.publication
        types = self._types(part)
        self._make_or_check(publication.table, types, publication.key)
        name = f"{self._staging}{secrets.token_hex(8)}"
        self._execute(self._create_staging(name, types))
        frame = part.rows.select(ROW_KEY, SIGN, *self._written(part, types))
        options = self._options | {"driver": self.make.driver, "dbtable": self._name(name)}
        options |= {"numPartitions": str(WRITERS), "batchsize": str(BATCH_ROWS)}
        # Spark's JDBC writer reports no count, and an Observation of it is 0
        kept = frame.persist(StorageLevel.DISK_ONLY)
        try:
            self._sent[name] = kept.count()
            kept.write.format("jdbc").mode("append").options(**options).save()
            self._seal(name)
        except Exception as exc:
            self._drop([name])
            message = str(server_error(exc, "")).removeprefix(": ").split("\n")[0]
            problem = self._out_of_reach(message) or self._refusal(message, part)
            raise PublishError(problem) from None
        finally:
            kept.unpersist()
        return name

    def _out_of_reach(self, message: str) -> str | None:
        """Why executors on other hosts can't write: they don't reach the server, as the driver
        does."""
        is_local_spark = is_local(self._session.sparkContext.master or "local")
        if is_local_spark or not NO_CONNECTION.search(message):
            return None
        url = self._options["url"].split("?")[0]
        return (
            f"the driver reaches {url}, and the executors, which write the rows, don't "
            f"({message}); set a URL whose host and port they reach, too"
        )

    def _make_or_check(self, table: str, types: Mapping[str, str], key: Sequence[str]) -> None:
        """Create a table, or check that it is as it would be created.

        Raises:
            PublishError: it differs.
        """
        found = self._columns(table)
        if not found:
            # a dropped table still has its version recorded: it would count if the run stopped here
            self._execute(
                f"delete from {self._name(RECORDS_TABLE)} where table_name = {self._literal(table)}"
            )
            for statement in self._create(table, types, key):
                self._execute(statement)
            return
        problems = self._differences(table, types, found)
        if table not in self._held and self._query(f"select 1 from {self._name(table)} limit 1"):
            problems.append(f"it has rows, and {RECORDS_TABLE} doesn't know it")
        if problems:
            raise PublishError(
                f"table {table} differs from the model: {', '.join(problems)}"
                " (alter it, or drop it and publish again)"
            )

    def _commit(
        self, parts: Sequence[TableUpdate], staged: Mapping[str, str]
    ) -> list[UpdateResult]:
        self._execute("start transaction")
        rows = self._query(
            f"{self._versions_of(part.publication.table for part in parts)} for update"
        )
        now = {
            str(table): StoreState(int(version or 0), str(mark)) for table, version, mark in rows
        }
        if any(
            part.publication.table in self._held
            and now.get(part.publication.table) != self._held[part.publication.table]
            for part in parts
        ):
            raise PublishError(f"{RECORDS_TABLE} was changed by somebody else meanwhile")
        taken = [self._apply(part, staged.get(part.publication.table)) for part in parts]
        for part in parts:
            self._execute(self._record_version(part))
        self._execute("commit")
        return taken

    def _apply(self, part: TableUpdate, staging: str | None) -> UpdateResult:
        if staging is None:
            return UpdateResult(part, 0, 0)
        written = f"count(case when {SIGN} = 1 then 1 end)"
        counts = self._query(f"select count(*), {written} from {self._name(staging)}")[0]
        staged, count = (int(count or 0) for count in counts)
        check_rows(part.publication.table, self._sent[staging], staged, "the staging table")
        removed = self._change(self._remove(part, self._name(staging)))
        self._change(self._put(part, self._name(staging)))
        self._check_held(part, self._name(staging), count)
        return UpdateResult(part, count, removed)

    def _check_held(self, part: TableUpdate, staging: str, count: int) -> None:
        """Check that the table of a part holds its rows, and none that had to be deleted.

        A trigger or a rule of the table may have changed what the statements did.

        Args:
            count: rows of the staging table that the table has to have.

        Raises:
            PublishError: it doesn't hold the version.
        """
        table, name = part.publication.table, self._name(part.publication.table)
        of_sign = "count(case when staged.{sign} = {value} then 1 end)"
        found, left = (of_sign.format(sign=SIGN, value=sign) for sign in (1, -1))
        counts = self._query(
            f"select {found}, {left} from {staging} as staged "
            f"join {name} as held on held.{ROW_KEY} = staged.{ROW_KEY}"
        )[0]
        held, surplus = (int(count or 0) for count in counts)
        if part.whole:
            surplus = int(self._query(f"select count(*) from {name}")[0][0] or 0) - held
        advice = "look for a trigger or a rule of the table, and publish again"
        check_rows(table, count, held, "the table", advice)
        if surplus:
            raise PublishError(
                f"{surplus} rows that had to go are still in table {table}: {advice}"
            )

    def _columns(self, table: str) -> dict[str, str]:
        """Column -> type of a table; empty without a table."""
        return {str(name): str(kind) for name, kind in self._query(self._columns_of(table))}

    def _versions_of(self, tables: Iterable[str]) -> str:
        """Query of the versions that tables hold: table_name, version, mark."""
        names = ", ".join(map(self._literal, tables)) or "''"
        return (
            f"select table_name, version, mark from {self._name(RECORDS_TABLE)} "
            f"where table_name in ({names})"
        )

    def _drop(self, staging: Iterable[str]) -> None:
        """Drop staging tables. The next publication drops those that can't be dropped now."""
        for name in staging:
            with suppress(ServerError):
                self._server.execute(f"drop table if exists {self._name(name)}")

    def _execute(self, sql: str) -> None:
        try:
            self._server.execute(sql)
        except ServerError as exc:
            raise PublishError(sentence(exc)) from None

    def _change(self, sql: str) -> int:
        try:
            return self._server.change(sql)
        except ServerError as exc:
            raise PublishError(sentence(exc)) from None

    def _query(self, sql: str) -> list[tuple[str | None, ...]]:
        try:
            return self._server.query(sql)
        except ServerError as exc:
            raise PublishError(sentence(exc)) from None

    # ---- the parts that differ by make of server ----

    @abstractmethod
    def _lock(self) -> bool:
        """Wait until no other publication runs; False if one still does after LOCK_SECONDS."""

    @abstractmethod
    def _name(self, table: str) -> str:
        """The quoted name of a table of the database."""

    @abstractmethod
    def _literal(self, text: str) -> str:
        """A text literal."""

    @abstractmethod
    def _columns_of(self, table: str) -> str:
        """Query of a table's columns and their types; no rows where there is no table."""

    @abstractmethod
    def _staging_left(self) -> str:
        """Query of the staging tables that publications of this warehouse left."""

    @abstractmethod
    def _types(self, part: TableUpdate) -> dict[str, str]:
        """Column -> type of a part's table.

        Raises:
            PublishError: it can't be made like that.
        """

    @abstractmethod
    def _create_versions(self) -> str:
        """DDL of published_version."""

    @abstractmethod
    def _create(self, table: str, types: Mapping[str, str], key: Sequence[str]) -> list[str]:
        """DDL of a table: row_key, its primary key, the columns, and an index by the key's."""

    @abstractmethod
    def _create_staging(self, name: str, types: Mapping[str, str]) -> str:
        """DDL of a staging table: row_key, sign, and a column for each of the table's."""

    @abstractmethod
    def _differences(
        self, table: str, types: Mapping[str, str], found: Mapping[str, str]
    ) -> list[str]:
        """How a table differs from what was published; see `differences`."""

    @abstractmethod
    def _written(self, part: TableUpdate, types: Mapping[str, str]) -> list[Column]:
        """The columns of a part in types that the driver writes, named as in the staging table."""

    def _seal(self, name: str) -> None:
        """Finish a filled staging table.

        Raises:
            ServerError: a key is duplicate.
        """
        return

    @abstractmethod
    def _refusal(self, message: str, part: TableUpdate) -> str:
        """Error text for rows that could not be written; values only as in the server's message."""

    @abstractmethod
    def _remove(self, part: TableUpdate, staged: str) -> str:
        """Statement that deletes rows that are gone; `staged`: quoted name of the staging table."""

    @abstractmethod
    def _put(self, part: TableUpdate, staged: str) -> str:
        """Statement that upserts the new rows by row_key."""

    @abstractmethod
    def _record_version(self, part: TableUpdate) -> str:
        """Statement that records which version the table of a part holds."""


def sentence(exc: ServerError) -> str:
    """The message of an error on one line, to follow a colon."""
    text = " ".join(str(exc).split())
    return text[:1].lower() + text[1:]
