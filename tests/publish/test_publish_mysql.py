"""Versions in MySQL and MariaDB: row by row what the warehouse says, whatever is killed when."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.child import Child, ChildProject
from tests.support.dbt_project import DbtProject
from tests.support.mysql_server import (
    PASSWORD,
    USER,
    MysqlClient,
    MysqlError,
    MysqlServer,
    mysql_client,
)
from tests.support.published import (
    KILLS,
    SEED,
    Source,
    build_without_publishing,
    expected,
    files,
    kill,
    publishing,
    tables,
)

numbers = itertools.count(1)


class Serving:
    """A database of the server that a project publishes to."""

    def __init__(self, mysql: MysqlServer) -> None:
        self.name, self.client = f"serving{next(numbers)}", mysql.connect()
        self.client.execute(f"create database {self.name}")
        self.client.execute(f"use {self.name}")
        self.env = {
            "publish_targets": "serving=mysql",
            "publish_serving_url": f"{mysql.url}{self.name}",
            "publish_serving_user": USER,
            "publish_serving_password": PASSWORD,
            "mysql_jars": str(mysql_client()),
        }

    def rows(self) -> dict[str, list[tuple]]:
        """Table -> its rows as `expected` gives those of the warehouse."""
        return {table: rows_of(self.client, table) for table in tables()}

    def versions(self) -> dict[str, int]:
        rows = self.client.query("select table_name, version from published_version")
        return {str(name): int(version or 0) for name, version in rows}


def rows_of(client: MysqlClient, table: str) -> list[tuple]:
    columns = client.query(
        "select column_name, data_type from information_schema.columns "
        f"where table_schema = database() and table_name = '{table}' "
        "and column_name <> 'row_key' order by ordinal_position"
    )
    rows = client.table([f"`{name}`" for name, _ in columns], f"from {table}")
    found = []
    for row in rows:
        texts = []
        for (name, kind), value in zip(columns, row.values(), strict=True):
            text = None if value is None else value.hex() if "blob" in str(kind) else value.decode()
            if kind == "double" and text is not None:
                text = str(float(text))
            texts.append((name, "null" if text is None else f"={text}"))
        found.append(tuple(texts))
    return sorted(found)


@pytest.fixture
def serving(mysql: MysqlServer) -> Serving:
    return Serving(mysql)


@pytest.fixture
def project(
    make_project: Callable[..., DbtProject], child: Child, serving: Serving
) -> ChildProject:
    made = make_project(files("serving"), **serving.env)
    error = child.start(made)
    assert not error, error
    return ChildProject(made, child)


def secrets_in(project: DbtProject) -> list[Path]:
    """Files of dbt and Spark that hold the password."""
    written = [*project.target.rglob("*"), *project.logs.rglob("*")]
    return [one for one in written if one.is_file() and PASSWORD.encode() in one.read_bytes()]


def test_a_store_holds_each_version_row_by_row(project: ChildProject, serving: Serving) -> None:
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    first = project.run("build").log
    assert "Target serving holds version 1." in first
    assert "user_status: " in first
    assert serving.rows() == expected(project)
    assert PASSWORD not in first

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

    # the warehouse knows, and nothing that dbt writes has the password
    known = project.query(
        "select table_name, max_by(version, published_at) as version from dw.meta_publication "
        "where target = 'serving' group by table_name"
    )
    assert {row["table_name"]: row["version"] for row in known} == serving.versions()
    assert secrets_in(project) == []
    left = serving.client.query("show tables like 'staging%'")
    assert left == []


def test_a_store_that_is_another_or_refuses_says_so_in_one_sentence(
    project: ChildProject, serving: Serving, mysql: MysqlServer
) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")

    def problem(**env: str) -> str:
        kept = dict(project.inner.env)
        project.inner.env |= env
        try:
            log = project.run("run-operation", "publish_to", expect_ok=False).log
        finally:
            project.inner.env = kept
        assert PASSWORD not in log and "not-the-password" not in log
        (line,) = [one.strip() for one in log.splitlines() if "Target " in one]
        assert line.startswith("Target serving: ")
        assert line.endswith("version 2 is not published there.")
        return line

    before = serving.rows()
    serving.client.execute("alter table entries drop column kind, add column more int null")
    serving.client.execute("alter table user_status modify n int null")
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert "Published as version 2" in failed
    wrong = problem()
    # both tables differ; the first that is staged is told
    assert "table entries differs from the model: column kind is missing, " in wrong
    assert "column more is not the model's" in wrong
    assert rows_of(serving.client, "facts_now") == before["facts_now"]
    assert set(serving.versions().values()) == {1}
    serving.client.execute("drop table entries")
    assert "table user_status differs from the model: column n is int" in problem()
    serving.client.execute(
        "alter table user_status modify n bigint null, add unique key u (row_key, n)"
    )
    assert "it has a unique key u" in problem()
    serving.client.execute("alter table user_status drop key u")

    # servers that can't be reached, and users who may not
    assert "can't be reached" in problem(PUBLISH_SERVING_URL="jdbc:mysql://127.0.0.1:1/serving")
    assert "Access denied" in problem(PUBLISH_SERVING_PASSWORD="not-the-password")
    assert "PUBLISH_SERVING_URL must look like" in problem(PUBLISH_SERVING_URL="serving")
    serving.client.execute("create user 'reader'@'127.0.0.1' identified by 'word-of-the-app'")
    serving.client.execute(f"grant select on {serving.name}.* to 'reader'@'127.0.0.1'")
    assert "denied" in problem(PUBLISH_SERVING_USER="reader")
    serving.client.execute("drop user 'reader'@'127.0.0.1'")
    assert set(serving.versions().values()) == {1}

    # mended: all of it
    project.run("run-operation", "publish_to")
    assert serving.rows() == expected(project)


def test_a_read_only_server_says_so(
    mysql: MysqlServer, project: ChildProject, serving: Serving
) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")
    before = serving.rows()
    # a user without SUPER, whom read_only binds
    serving.client.execute("create user 'writer'@'127.0.0.1' identified by 'word-of-the-app'")
    serving.client.execute(
        "grant select, insert, update, delete, create, drop, alter, index "
        f"on {serving.name}.* to 'writer'@'127.0.0.1'"
    )
    project.inner.env["PUBLISH_SERVING_USER"] = "writer"
    serving.client.execute("set global read_only = 1")
    try:
        source.change(4)
        failed = project.run("build", expect_ok=False).log
    finally:
        serving.client.execute("set global read_only = 0")
    assert "Target serving: " in failed and "read-only" in failed.replace("read_only", "read-only")
    assert serving.rows() == before
    project.run("run-operation", "publish_to")
    assert serving.rows() == expected(project)
    serving.client.execute("drop user 'writer'@'127.0.0.1'")


class Reader(threading.Thread):
    """Asks a store, in one transaction each time, whether its tables are of one version."""

    QUERY = (
        "select (select group_concat(distinct version) from published_version), "
        "(select sum(n) from user_status), (select sum(n) from total), "
        "(select count(*) from facts_now)"
    )

    def __init__(self, mysql: MysqlServer, name: str) -> None:
        super().__init__(daemon=True)
        self.client, self.done = mysql.connect(), threading.Event()
        self.client.execute(f"use {name}")
        self.seen: set[tuple] = set()
        self.problem: Exception | None = None

    def run(self) -> None:
        while not self.done.wait(0.1):
            try:
                (row,) = self.client.query(self.QUERY)
            except MysqlError as exc:
                self.problem = exc
                return
            self.seen.add(row)


def staged_rows(serving: Serving) -> Iterator[int]:
    """How many rows the staging tables hold, now and now again."""
    while True:
        time.sleep(0.05)
        names = serving.client.query(
            "select table_name from information_schema.tables where table_schema = database() "
            "and table_name like 'staging%'"
        )
        try:
            yield sum(
                int(serving.client.query(f"select count(*) from {name}")[0][0] or 0)
                for (name,) in names
            )
        except MysqlError:  # it went in this moment
            continue


@pytest.mark.live
def test_a_publication_that_is_killed_and_run_again_leaves_each_row_once(
    mysql: MysqlServer, project: ChildProject, serving: Serving
) -> None:
    pick = random.Random(SEED)
    source = Source(project, SEED)
    source.change(30)
    project.run("build")
    reader = Reader(mysql, serving.name)
    reader.start()
    killed = 0
    for number in range(2 * KILLS):
        before = serving.rows()
        source.change(200)
        build_without_publishing(project)
        run = publishing(project.inner)
        # half of them while rows are staged, half while they are taken, held up by a lock
        if number % 2:
            holder = mysql.connect()
            holder.execute(f"use {serving.name}")
            holder.execute("set autocommit = 0")
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
            mysql.kill()
            mysql.start()
            serving.client = mysql.connect()
            serving.client.execute(f"use {serving.name}")
        project.run("run-operation", "publish_to")
        assert serving.rows() == expected(project)
    reader.done.set()
    assert killed >= KILLS
    assert reader.problem is None
    # a reader never saw tables of two versions
    assert len(reader.seen) > 1
    assert all(row[1] == row[2] == row[3] and "," not in str(row[0]) for row in reader.seen)
