"""Versions in PostgreSQL: row by row those of the warehouse, whatever is killed when."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.child import Child, ChildProject
from tests.support.dbt_project import DbtProject
from tests.support.postgres_server import PASSWORD, USER, PostgresServer
from tests.support.published import EXPOSURE, FILES, SEED, Source, expected
from tests.support.sql_client import SqlClient
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

pytestmark = pytest.mark.in_turn

# column -> values of Spark at the ends of its type, and what PostgreSQL has then, as a text
EDGES = {
    "whole": [("int('-2147483648')", "-2147483648"), ("2147483647", "2147483647")],
    "flag": [("true", "true"), ("false", "false")],
    "big": [("bigint('-9223372036854775808')", "-9223372036854775808"), ("0L", "0")],
    "money": [
        (f"cast('{'-' + '9' * 28}.{'9' * 10}' as decimal(38, 10))", f"-{'9' * 28}.{'9' * 10}"),
        ("cast('0.0000000001' as decimal(38, 10))", "0.0000000001"),
    ],
    "unsigned": [
        ("cast('18446744073709551615' as decimal(20, 0))", "18446744073709551615"),
        ("cast('0' as decimal(20, 0))", "0"),
    ],
    "fits": [
        ("cast('-9223372036854775808' as decimal(20, 0))", "-9223372036854775808"),
        ("cast('9223372036854775807' as decimal(20, 0))", "9223372036854775807"),
    ],
    "half": [("float('0.1')", "0.10000000149011612"), ("float('inf')", "Infinity")],
    "share": [("double('4.9E-324')", "5e-324"), ("double('nan')", "NaN")],
    "sign_of_0": [("double('-0.0')", "-0"), ("double('0.0')", "0")],
    "most": [("1.7976931348623157E308D", "1.7976931348623157e+308"), ("-1e-7D", "-1e-07")],
    "words": [(r"'a\\b\'c\td '", "a\\b'c\td "), ("''", "")],
    "id": [
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
    ],
    "bytes": [("x'00ff5c27'", r"\x00ff5c27"), ("x''", r"\x")],
    "day": [("date'0001-01-01'", "0001-01-01"), ("date'9999-12-31'", "9999-12-31")],
    "far_day": [("date'-0043-03-15'", "0044-03-15 BC"), ("date'+12345-01-02'", "12345-01-02")],
    "at": [
        ("timestamp'0001-01-01 00:00:00.000001'", "0001-01-01 00:00:00.000001+00"),
        ("timestamp'9999-12-31 23:59:59.999999'", "9999-12-31 23:59:59.999999+00"),
    ],
    "far_at": [
        ("timestamp'-4712-01-01 00:00:00.5'", "4713-01-01 00:00:00.5+00 BC"),
        ("timestamp'+294246-12-31 23:59:59.999999'", "294246-12-31 23:59:59.999999+00"),
    ],
    "wall": [
        ("timestamp_ntz'2026-03-29 02:30:00.1'", "2026-03-29 02:30:00.1"),
        ("timestamp_ntz'1582-10-10 00:00:00'", "1582-10-10 00:00:00"),
    ],
    "zoned_wall": [
        ("timestamp_ntz'2026-03-29 02:30:00.1'", "2026-03-29 02:30:00.1+00"),
        ("timestamp_ntz'1582-10-10 00:00:00'", "1582-10-10 00:00:00+00"),
    ],
    "plain_at": [
        ("timestamp'2026-03-01 23:59:59.999999'", "2026-03-01 23:59:59.999999"),
        ("timestamp'1970-01-01 00:00:00'", "1970-01-01 00:00:00"),
    ],
    "pair": [
        (r"named_struct('b', 'x\u0000y', 'a', 1)", r'{"b":"x\u0000y","a":1}'),
        ("named_struct('b', string(null), 'a', int(null))", '{"b":null,"a":null}'),
    ],
    'odd "name': [("'x'", "x"), ("'y'", "y")],
    "Zahl": [("1", "1"), ("2", "2")],
}
PUBLISH = ("run-operation", "publish_to")
TYPES = {
    "fits": "bigint",
    "words": "varchar(8)",
    "id": "uuid",
    "plain_at": "timestamp",
    "zoned_wall": "timestamptz",
}


class PostgresServing(Serving):
    kind, password = "postgres", PASSWORD
    versions_query = "select string_agg(distinct cast(version as text), ',') from published_version"

    def connect(self) -> SqlClient:
        return self.server.connect(self.name)

    def settings(self) -> dict[str, str]:
        return {
            "publish_serving_url": self.server.url(self.name),
            "publish_serving_user": USER,
            "publish_serving_password": PASSWORD,
        }

    def staging_tables(self) -> list[str]:
        rows = self.client.query(
            "select relname from pg_class where relkind = 'r' and relname like 'staging%'"
        )
        return [str(name) for (name,) in rows]

    def rows_of(self, table: str) -> list[tuple]:
        columns = self.client.query(
            "select column_name, data_type from information_schema.columns "
            f"where table_name = '{table}' and column_name <> 'row_key' order by ordinal_position"
        )
        texts = [text_of(f'"{name}"', str(kind)) for name, kind in columns]
        rows = self.client.query(f"select {', '.join(texts)} from {table}")
        return sorted(
            tuple(
                (name, "null" if value is None else f"={as_float(str(kind), value)}")
                for (name, kind), value in zip(columns, row, strict=True)
            )
            for row in rows
        )


def text_of(name: str, kind: str) -> str:
    """SQL of a value as a text that no other value has."""
    if kind == "timestamp with time zone":
        return f"to_char({name} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    if kind == "boolean":
        return f"cast({name} as integer)"
    return f"encode({name}, 'hex')" if kind == "bytea" else f"cast({name} as text)"


def as_float(kind: str, value: str) -> str:
    return str(float(value)) if kind == "double precision" else value


@pytest.fixture
def serving(postgres: PostgresServer) -> PostgresServing:
    return PostgresServing(postgres)


def test_a_store_holds_each_version_row_by_row(
    project: ChildProject, serving: PostgresServing
) -> None:
    check_each_version_row_by_row(project, serving)


def test_only_what_bears_the_warehouses_mark_is_dropped(
    project: ChildProject, serving: PostgresServing
) -> None:
    check_nothing_of_others_is_dropped(project, serving)


def test_rows_of_another_key_give_way(project: ChildProject, serving: PostgresServing) -> None:
    check_rows_of_another_key_give_way(project, serving)


@pytest.mark.live  # half a minute
def test_a_store_that_is_another_or_refuses_is_reported_in_one_sentence(
    project: ChildProject, serving: PostgresServing
) -> None:
    source, execute = Source(project, SEED), serving.client.execute
    source.change(4)
    project.run("build")

    def problem(**env: str) -> str:
        return problem_of(project, PASSWORD, **env)

    before = serving.rows()
    execute("alter table entries drop column kind, add column more int")
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert "Published as version 2" in failed
    wrong = problem()
    assert "table entries differs from the model: column kind is missing, " in wrong
    assert "column more is not the model's" in wrong
    assert serving.rows_of("facts_now") == before["facts_now"]
    execute("alter table entries rename to kept")
    execute("create view entries as select * from kept")
    assert "it is a view (alter it, or drop it and publish again)" in problem()
    execute("drop view entries")
    execute("create unlogged table entries (row_key bytea unique)")
    wrong = problem()
    assert "it is unlogged, so a crash of the server would empty it" in wrong
    assert "its primary key is not row_key, it has a unique key entries_row_key_key" in wrong
    execute("drop table entries")
    execute("alter table total alter n type integer, add constraint one unique (status)")
    execute("create function f() returns trigger language plpgsql as 'begin return null; end'")
    execute("create trigger t before insert on total for each row execute function f()")
    assert (
        "table total differs from the model: column n is integer, not bigint, it has a unique key "
        "one, its trigger t may change rows"
    ) in problem()
    execute("drop trigger t on total")
    execute("alter table total alter n type bigint, drop constraint one")

    # servers that can't be reached, that are read-only, and users who may not
    url = str(project.inner.env["PUBLISH_SERVING_URL"])
    assert "can't be reached" in problem(
        PUBLISH_SERVING_URL="jdbc:postgresql://127.0.0.1:1/serving"
    )
    assert "password authentication failed" in problem(PUBLISH_SERVING_PASSWORD="not-the-password")
    assert "PUBLISH_SERVING_URL must look like" in problem(PUBLISH_SERVING_URL="serving")
    schema = problem(PUBLISH_SERVING_URL=f"{url}?currentSchema=nowhere")
    assert "the schema that its URL names isn't there" in schema
    execute(f"create role reader login password '{PASSWORD}'")
    execute("grant select on all tables in schema public to reader")
    assert "permission denied for schema public" in problem(PUBLISH_SERVING_USER="reader")
    execute("drop owned by reader")
    execute("drop role reader")
    execute(f"alter database {serving.name} set default_transaction_read_only = on")
    assert "in a read-only transaction" in problem()
    execute("set default_transaction_read_only = off")
    execute(f"alter database {serving.name} set default_transaction_read_only = off")

    # mended: all of it
    project.run("run-operation", "publish_to")
    assert serving.rows() == expected(project)
    assert serving.staging_tables() == []


def model_of(values: dict[str, list[str]]) -> str:
    """A model with a row for each of the values that columns have, and one of nulls."""
    columns = ([f"{value} as `{column}`" for value in some] for column, some in values.items())
    rows = zip(*columns, strict=True)
    nulls = ", ".join(["-1", *["null"] * (len(values) - 1)])
    selects = [*(f"select {', '.join(row)}" for row in rows), f"select {nulls}"]
    return "{{ config(materialized='table') }}\n" + "\nunion all ".join(selects)


def test_values_are_as_they_were_or_refused(
    make_project: Callable[..., DbtProject], child: Child, serving: PostgresServing
) -> None:
    execute, query = serving.client.execute, serving.client.query
    execute('create schema "Shop"')
    publish = {"target": "serving", "table": "Edges", "key": ["whole"], "types": TYPES}
    exposure = EXPOSURE.format(name="edges", model="edges", publish=json.dumps(publish))
    files = {
        "dbt_project.yml": FILES["dbt_project.yml"],
        "models/_models.yml": "        version: 2\n        exposures:" + exposure,
    }
    made = make_project(files, **serving.env)
    made.env["PUBLISH_SERVING_URL"] += "?currentSchema=%22Shop%22"
    project = ChildProject(made, child)
    good = {name: [value for value, _ in some] for name, some in EDGES.items()}
    project.write({"models/edges.sql": model_of(good)})
    project.run("build")
    execute("set time zone 'UTC'")
    names = ", ".join('cast("' + edge.replace('"', '""') + '" as text)' for edge in EDGES)
    rows = f'select {names} from "Shop"."Edges" order by "Edges".whole'
    found = query(rows)
    reported = [tuple(text for _, text in row) for row in zip(*EDGES.values(), strict=True)]
    assert found == [reported[0], ("-1", *[None] * (len(EDGES) - 1)), reported[1]]

    # of each value that PostgreSQL has no place for the column is named
    nul = "has a text with the character NUL, which PostgreSQL has no place for"
    for column, value, item in (
        ("words", "concat('a', char(0), 'b')", f"column words {nul}"),
        ("words", "'12345678 '", "column words has a text that is longer than 8 characters"),
        ("far_day", "date'-5000-01-01'", "column far_day has a time outside 4713 BC to 294246"),
        ("fits", "cast('9223372036854775808' as decimal(20, 0))", "bigint out of range"),
    ):
        bad = good | {column: [good[column][0], value]}
        project.write({"models/edges.sql": model_of(bad)})
        log = " ".join(project.run("build", expect_ok=False).log.split())
        assert "Target serving: rows of table Edges were refused: " in log
        assert item in log
        assert query(rows) == found
    twice = {item: some * 2 for item, some in good.items()} | {"Zahl": ["1", "2", "3", "4"]}
    project.write({"models/edges.sql": model_of(twice)})
    execute("""update "Shop".published_version set mark = 'of another'""")  # all rows come then
    assert "has a key twice, so whole is no key" in project.run("build", expect_ok=False).log


@pytest.mark.live
def test_a_publication_that_is_killed_and_run_again_leaves_each_row_once(
    project: ChildProject, serving: PostgresServing
) -> None:
    check_kills(project, serving)


@pytest.mark.live  # half a minute each
@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(Stop(signal.SIGINT, ("build",), True), id="held_up_in_a_build"),
        pytest.param(Stop(signal.SIGTERM, PUBLISH, True), id="held_up_in_an_operation"),
        pytest.param(Stop(signal.SIGINT, PUBLISH, False), id="while_rows_are_staged"),
    ],
)
def test_a_publication_that_is_stopped_leaves_the_old_version_or_the_new_version(
    project: ChildProject, serving: PostgresServing, tmp_path: Path, stop: Stop
) -> None:
    check_stop(project, serving, tmp_path, stop)
