"""Versions in MySQL and MariaDB: row by row those of the warehouse, whatever is killed when."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.child import ChildProject
from tests.support.mysql_server import PASSWORD, USER, MysqlClient, MysqlServer, mysql_client
from tests.support.published import SEED, Source, expected
from tests.support.transactional import (
    Serving,
    Stop,
    check_each_version_row_by_row,
    check_kills,
    check_nothing_of_others_is_dropped,
    check_rows_of_another_key_give_way,
    check_stop,
    problem_of,
)


class MysqlServing(Serving):
    kind, password = "mysql", PASSWORD
    versions_query = "select group_concat(distinct version) from published_version"

    def connect(self) -> MysqlClient:
        client = self.server.connect()
        client.execute(f"use {self.name}")
        return client

    def settings(self) -> dict[str, str]:
        return {
            "publish_serving_url": f"{self.server.url}{self.name}",
            "publish_serving_user": USER,
            "publish_serving_password": PASSWORD,
            "mysql_jars": str(mysql_client()),
        }

    def staging_tables(self) -> list[str]:
        return [str(name) for (name,) in self.client.query("show tables like 'staging%'")]

    def rows_of(self, table: str) -> list[tuple]:
        columns = self.client.query(
            "select column_name, data_type from information_schema.columns "
            f"where table_schema = database() and table_name = '{table}' "
            "and column_name <> 'row_key' order by ordinal_position"
        )
        rows = self.client.table([f"`{name}`" for name, _ in columns], f"from {table}")
        found = []
        for row in rows:
            texts = []
            for (name, kind), value in zip(columns, row.values(), strict=True):
                if value is None:
                    text = None
                else:
                    text = value.hex() if "blob" in str(kind) else value.decode()
                if kind == "double" and text is not None:
                    text = str(float(text))
                texts.append((name, "null" if text is None else f"={text}"))
            found.append(tuple(texts))
        return sorted(found)


@pytest.fixture
def serving(mysql: MysqlServer) -> MysqlServing:
    return MysqlServing(mysql)


def test_a_store_holds_each_version_row_by_row(
    project: ChildProject, serving: MysqlServing
) -> None:
    check_each_version_row_by_row(project, serving)


def test_only_what_bears_the_warehouses_mark_is_dropped(
    project: ChildProject, serving: MysqlServing
) -> None:
    check_nothing_of_others_is_dropped(project, serving)


def test_rows_of_another_key_give_way(project: ChildProject, serving: MysqlServing) -> None:
    check_rows_of_another_key_give_way(project, serving)


def test_a_store_that_is_another_or_refuses_is_reported_in_one_sentence(
    project: ChildProject, serving: MysqlServing
) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")

    def problem(**env: str) -> str:
        return problem_of(project, PASSWORD, **env)

    before = serving.rows()
    serving.client.execute("alter table entries drop column kind, add column more int null")
    serving.client.execute("alter table user_status modify n int null")
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert "Published as version 2" in failed
    wrong = problem()
    # both tables differ; the first that is staged is reported
    assert "table entries differs from the model: column kind is missing, " in wrong
    assert "column more is not the model's" in wrong
    assert serving.rows_of("facts_now") == before["facts_now"]
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


def test_a_read_only_server_is_reported(project: ChildProject, serving: MysqlServing) -> None:
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


@pytest.mark.live
def test_a_publication_that_is_killed_and_run_again_leaves_each_row_once(
    project: ChildProject, serving: MysqlServing
) -> None:
    check_kills(project, serving)


@pytest.mark.live  # half a minute each
@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(Stop(signal.SIGINT, ("build",), True), id="held_up_in_a_build"),
        pytest.param(
            Stop(signal.SIGTERM, ("run-operation", "publish_to"), False), id="while_rows_are_staged"
        ),
    ],
)
def test_a_publication_that_is_stopped_leaves_the_old_version_or_the_new_version(
    project: ChildProject, serving: MysqlServing, tmp_path: Path, stop: Stop
) -> None:
    check_stop(project, serving, tmp_path, stop)
