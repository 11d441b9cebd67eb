"""What has to hold of each store that takes a version in one transaction, whatever its make."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.child import ChildProject
from tests.support.dbt_project import DbtProject
from tests.support.published import (
    KILLS,
    SEED,
    Source,
    build_without_publishing,
    expected,
    give_another_key,
    kill,
    publishing,
    stop_publication,
    tables,
)
from tests.support.sql_client import SqlClient, SqlError

numbers = itertools.count(1)


class Serving(ABC):
    """A database of the server that a project publishes to.

    Attributes:
        kind: of the target.
        password: what no file and no log may have.
        versions_query: which versions the tables are of, as one text.
        env: environment variables of the project.
    """

    kind: str
    password: str
    versions_query: str

    def __init__(self, server: Any) -> None:
        self.name, self.server = f"serving{next(numbers)}", server
        client = server.connect()
        client.execute(f"create database {self.name}")
        client.close()
        self.client = self.connect()
        self.env = {"publish_targets": f"serving={self.kind}", **self.settings()}

    @abstractmethod
    def connect(self) -> SqlClient:
        """A new connection to it."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Environment variables that say where it is."""

    @abstractmethod
    def staging_tables(self) -> list[str]:
        """Their names, in SQL."""

    @abstractmethod
    def rows_of(self, table: str) -> list[tuple]:
        """A table's rows as `expected` gives those of the warehouse."""

    def rows(self) -> dict[str, list[tuple]]:
        """Table -> its rows."""
        return {table: self.rows_of(table) for table in tables()}

    def versions(self) -> dict[str, int]:
        rows = self.client.query("select table_name, version from published_version")
        return {str(name): int(version or 0) for name, version in rows}


def problem_of(project: ChildProject, password: str, version: int = 2, **env: str) -> str:
    """What `publish_to` states of a version, with other environment variables, where it fails."""
    kept = dict(project.inner.env)
    project.inner.env |= env
    try:
        log = project.run("run-operation", "publish_to", expect_ok=False).log
    finally:
        project.inner.env = kept
    assert password not in log and "not-the-password" not in log
    (line,) = [line.strip() for line in log.splitlines() if "Target " in line]
    assert line.startswith("Target serving: ")
    assert line.endswith(f"version {version} is not published there.")
    return line


def secrets_in(project: DbtProject, password: str) -> list[Path]:
    """Files of dbt and Spark that hold the password."""
    written = [*project.target.rglob("*"), *project.logs.rglob("*")]
    return [path for path in written if path.is_file() and password.encode() in path.read_bytes()]


def check_each_version_row_by_row(project: ChildProject, serving: Serving) -> None:
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    first = project.run("build").log
    assert "Target serving holds version 1." in first
    assert "user_status: " in first
    assert serving.rows() == expected(project)
    assert serving.password not in first

    # what changed alone is written: of the appended table the new rows
    source.change(6, entries=3)
    second = project.run("build").log
    assert "entries: 3 rows written, 0 removed\n" in second
    assert "compared as a whole" not in second
    assert serving.rows() == expected(project)
    assert set(serving.versions().values()) == {2}

    # versions that were not published are caught up with; one of the past is gone back to
    for _ in range(2):
        source.change(5)
        project.run("build", vars={"publish_versions": True}, expect_ok=None)
    now = expected(project)
    assert serving.rows() == now
    project.run("run-operation", "publish_to", "--args", "{target: serving, version: 2}")
    assert set(serving.versions().values()) == {2}
    assert serving.rows() != now
    project.run("run-operation", "publish_to")
    assert serving.rows() == now

    # nothing new: nothing is written; a table that somebody dropped comes whole
    assert "rows written" not in project.run("run-operation", "publish_to").log
    serving.client.execute("drop table total")
    assert "total: " in project.run("run-operation", "publish_to").log
    assert serving.rows() == now

    # what another warehouse left is compared as a whole: what it has beside goes
    serving.client.execute("update published_version set mark = 'of another'")
    serving.client.execute("insert into total (row_key, status, n) values ('stray', 'stray', 1)")
    serving.client.execute("update entries set status = 'another'")
    assert "compared as a whole" in project.run("run-operation", "publish_to").log
    assert serving.rows() == now

    # the warehouse knows, and nothing that dbt writes has the password
    known = project.query(
        "select table_name, max_by(version, published_at) as version from dw.meta_publication "
        "where target = 'serving' group by table_name"
    )
    assert {row["table_name"]: row["version"] for row in known} == serving.versions()
    assert secrets_in(project, serving.password) == []
    assert serving.staging_tables() == []


def check_nothing_of_others_is_dropped(project: ChildProject, serving: Serving) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")
    (own,) = [
        row["value"]
        for row in project.query("show tblproperties dw.meta_lease")
        if row["key"] == "warehouse.id"
    ]
    others = {"staging__of_somebody", f"staging__{'0' * 16}_{'1' * 16}"}
    left = f"staging__{own}_{'2' * 16}"
    kind = "unlogged table" if serving.kind == "postgres" else "table"
    for name in {left} | others:
        serving.client.execute(f"create {kind} {name} (id int)")
    source.change(4)
    project.run("build")
    assert set(serving.staging_tables()) == others  # what a killed publication of its own left goes
    for name in others:
        serving.client.execute(f"drop table {name}")

    # a table that publishing didn't make, of just the right columns
    serving.client.execute("delete from published_version where table_name = 'total'")
    before = serving.rows()
    source.change(4)
    project.run("build", expect_ok=False)
    reported = problem_of(project, serving.password, version=3)
    assert (
        "table total differs from the model: it has rows, and published_version doesn't" in reported
    )
    assert serving.rows() == before
    serving.client.execute("delete from total")
    project.run("run-operation", "publish_to")
    assert serving.rows() == expected(project)


def check_rows_of_another_key_give_way(project: ChildProject, serving: Serving) -> None:
    """Rows are known again by a hash of their key: by another key none of them would be."""
    source = Source(project, SEED)
    source.change(20)
    project.run("build")
    give_another_key(project)

    log = project.run("run-operation", "publish_to").log
    source.change(20)
    project.run("build")

    assert serving.rows() == expected(project)
    assert log.count("compared as a whole") == 1


class Reader(threading.Thread):
    """Asks a store, in one statement each time, whether its tables are of one version."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self.client, self.done = serving.connect(), threading.Event()
        self.query = (
            f"select ({serving.versions_query}), (select sum(n) from user_status), "
            "(select sum(n) from total), (select count(*) from facts_now)"
        )
        self.seen: set[tuple] = set()
        self.problem: Exception | None = None

    def run(self) -> None:
        while not self.done.wait(0.1):
            try:
                (row,) = self.client.query(self.query)
            except SqlError as exc:
                self.problem = exc
                return
            self.seen.add(row)


def staged_rows(serving: Serving) -> Iterator[int]:
    """How many rows the staging tables hold, now and now again."""
    while True:
        time.sleep(0.05)
        try:
            yield sum(
                int(serving.client.query(f"select count(*) from {name}")[0][0] or 0)
                for name in serving.staging_tables()
            )
        except SqlError:  # it went in this moment
            continue


def check_kills(project: ChildProject, serving: Serving) -> None:
    print(f"PUBLISH_SEED={SEED}")
    pick = random.Random(SEED)
    source = Source(project, SEED)
    source.change(30)
    project.run("build")
    reader = Reader(serving)
    reader.start()
    killed = 0
    for number in range(2 * KILLS):
        before = serving.rows()
        source.change(200)
        build_without_publishing(project)
        run = publishing(project.inner)
        # half of them while rows are staged, half while they are taken, held up by a lock
        if number % 2:
            holder = serving.connect()
            holder.execute("start transaction")
            table = pick.choice(["total", "user_status"])
            holder.execute(f"update {table} set n = n")
            holder.query(f"select * from {table} for update")
            wanted = 100
        else:
            holder, wanted = None, pick.choice([1, 50, 150])
        for rows in staged_rows(serving):
            if rows >= wanted or run.poll() is not None:
                break
        if number % 2:
            time.sleep(2)
        if run.poll() is None:
            killed += 1
        kill(run)
        if holder is not None:
            holder.execute("rollback")
            holder.close()
        half = serving.rows()
        assert half in (before, expected(project))
        if number == 1:  # and the server dies as well
            reader.done.set()
            reader.join()
            serving.server.kill()
            serving.server.start()
            serving.client = serving.connect()
        project.run("run-operation", "publish_to")
        assert serving.rows() == expected(project)
        assert serving.staging_tables() == []
    reader.done.set()
    assert killed >= KILLS
    assert reader.problem is None
    # a reader never saw tables of two versions
    assert len(reader.seen) > 1
    assert all(row[1] == row[2] == row[3] and "," not in str(row[0]) for row in reader.seen)


@dataclass(frozen=True)
class Stop:
    """A publication that is stopped.

    Attributes:
        signal: what stops it.
        command: of dbt, which publishes.
        is_held_up: whether it waits for a lock of the server then, else rows are staged.
    """

    signal: signal.Signals
    command: tuple[str, ...]
    is_held_up: bool


def check_stop(project: ChildProject, serving: Serving, folder: Path, stop: Stop) -> None:
    """One sentence comes, the store holds the version before, and the next one publishes."""
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    project.run("build")
    before = serving.rows()
    source.change(200)
    if stop.command[0] != "build":
        build_without_publishing(project)
    holder = serving.connect()
    if stop.is_held_up:
        holder.execute("start transaction")
        holder.execute("update total set n = n")
    log = folder / "stopped.log"
    with log.open("wb") as printed:
        run = publishing(project.inner, *stop.command, printed=printed)
    for rows in staged_rows(serving):
        if rows >= (200 if stop.is_held_up else 1) or run.poll() is not None:
            break
    time.sleep(3 if stop.is_held_up else 0)
    assert run.poll() is None, log.read_text()
    text = stop_publication(run, log, stop.signal)
    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}], text
    if stop.is_held_up:
        holder.execute("rollback")
    holder.close()
    now = expected(project)
    assert serving.rows() == before or (serving.rows() == now and not stop.is_held_up), text
    assert "took over" not in project.run("run-operation", "publish_to").log
    assert serving.rows() == now
    assert serving.staging_tables() == []
