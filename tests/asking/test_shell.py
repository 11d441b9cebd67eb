"""`make sql`: what it shows, what it refuses, and that it goes on after an error."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.adapters.sparksession.session import own_session
from dbt_common.exceptions import DbtRuntimeError

from tests.support.dbt_project import DbtProject
from tools.__main__ import cli
from tools.asking.shell import SHOWN, Shell, use_schema
from tools.sql import reading_credentials

WRITING = (
    "insert into dw.texts values (9, 'x')",
    "with a as (select 9 as id, 'x' as name) insert into dw.texts select * from a",
    "from dw.texts insert into dw.texts select *",
    "update dw.texts set name = 'x'",
    "delete from dw.texts",
    "with a as (select 1) delete from dw.texts",
    "merge into dw.texts using dw.texts as b on false when not matched then insert *",
    "drop table dw.texts",
    "create table dw.more (id int) using iceberg",
    "create or replace temporary view v as select 1",
    "alter table dw.texts add column more int",
    "truncate table dw.texts",
    "call lake.system.rewrite_data_files('dw.texts')",
    "set spark.sql.ansi.enabled = false",
    "explain call lake.system.expire_snapshots('dw.texts')",
    "explain insert into dw.texts values (9, 'x')",
    "cache table dw.texts",
    "add jar '/x.jar'",
    "begin insert into dw.texts values (9, 'x'); end",
)
TABLE = """\
| id | name       | amount |
|----|------------|--------|
|  1 | NULL       |   1.50 |
|  2 | ''         |   NULL |
|  3 | 'NULL'     |   0.00 |
|  4 | a\\n\\u001bb |   2.25 |
|  5 | \u5317\u4eac       |   3.00 |"""


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    project = make_project({"models/a.sql": "select 1 as id"})
    project.query("create namespace if not exists dw")
    project.query(
        "create table dw.texts using iceberg as select * from values (1, null, 1.50), "
        "(2, '', null), (3, 'NULL', 0.00), (4, 'a\\n\\u001bb', 2.25), (5, '\u5317\u4eac', 3.00) "
        "as given(id, name, amount)"
    )
    return project


@pytest.fixture
def session(project: DbtProject) -> Any:
    session = own_session(project.credentials()).session
    session.sql("use lake.dw")
    return session


class Screen(list[str]):
    """Lines that a shell wrote."""

    def write(self, line: str) -> None:
        self.append(line)


def shell_of(session: Any, **settings: Any) -> tuple[Shell, Screen]:
    screen = Screen()
    return Shell(session, write=screen.write, **settings), screen


def test_null_an_empty_text_and_controls_look_different(session: Any) -> None:
    shell, screen = shell_of(session)
    assert shell.take("select id, name, amount from texts order by id;")
    assert "\n".join(screen[:-1]) == TABLE
    assert screen[-1].startswith("(5 rows, ")


@pytest.mark.parametrize("statement", WRITING)
def test_what_writes_is_refused(
    statement: str, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, screen = shell_of(session)
    before = session.sql("select snapshot_id from dw.texts.snapshots").collect()
    assert not shell.run(statement)
    assert "`make sql` only reads" in capsys.readouterr().err
    assert screen == []
    assert session.sql("select snapshot_id from dw.texts.snapshots").collect() == before


def test_reading_statements_are_taken(session: Any) -> None:
    shell, screen = shell_of(session)
    for statement in (
        "with a as (select id from texts) select count(*) as n from a",
        "from texts select count(*) as n",
        "(select 1 as n) union all (values (2))",
        "table texts",
        "show tables",
        "describe table texts",
        "explain select * from texts",
        "select 'insert into' as n, `delete` from (select 1 as `delete`)",
    ):
        assert shell.run(statement), statement
    assert any("| 5 |" in line for line in screen)


def test_a_statement_has_several_lines_and_an_error_ends_no_shell(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell, screen = shell_of(session)
    assert not shell.take("select nothing from texts;")
    assert "UNRESOLVED_COLUMN" in capsys.readouterr().err
    assert not shell.take("select * from absent;")
    assert "\\d lists what the schema dw has" in capsys.readouterr().err
    assert shell.take("select ';' as mark, -- the end;") and shell.pending
    assert shell.take("count(*) as n from texts; select 2 as two;")
    assert [line for line in screen if line.startswith("| ;")] == ["| ;    | 5 |"]
    assert shell.pending == ""
    assert screen[-2] == "|   2 |"


def test_a_script_ends_at_its_first_error(session: Any) -> None:
    shell, screen = shell_of(session, output_format="csv")
    assert not shell.run_script(["select 1 as a;", "select nothing;", "select 2 as b"])
    assert screen == ["a", "1"]
    assert shell.run_script(["select 1 as a;", "-- the second", "/* and last */ select 2 as b"])
    assert screen[2:] == ["a", "1", "b", "2"]


def test_a_table_is_cut_with_a_word_and_csv_and_json_have_all_rows(session: Any) -> None:
    shell, screen = shell_of(session)
    shell.run(f"select id from range({SHOWN + 1})")
    assert screen[-1].startswith(f"(the first {SHOWN} rows, there are more")
    shell, screen = shell_of(session, output_format="csv")
    shell.run("select id, name from texts order by id limit 2")
    assert screen == ["id,name", "1,", '2,""']
    shell.run(f"select id from range({SHOWN + 1})")
    assert len(screen) == 3 + 1 + SHOWN + 1
    shell, screen = shell_of(session, output_format="json")
    shell.run("select id, name, array(1, null) as a from texts where id < 3 order by id")
    assert screen == [
        '{"id": "1", "name": null, "a": "[1, null]"}',
        '{"id": "2", "name": "", "a": "[1, null]"}',
    ]


def test_columns_of_one_name_and_every_type_are_shown(session: Any) -> None:
    shell, screen = shell_of(session)
    assert shell.run(
        "select 1 as a, 2 as a, cast('x' as binary) as b, cast(1.10 as decimal(38,18)) as d, "
        "timestamp '2026-03-01 00:00:00.123456' as t, map('k', struct(1)) as m, "
        "parse_json('{\"x\": 1}') as v, true as f"
    )
    assert screen[2] == (
        "| 1 | 2 | 78 | 1.100000000000000000 | 2026-03-01 00:00:00.123456 | {k -> {1}} | "
        '{"x":1} | true |'
    )


def test_wide_rows_stand_as_one_column_a_line(session: Any) -> None:
    shell, screen = shell_of(session)
    assert shell.take("\\x") and shell.take("select id, name from texts where id = 2;")
    assert screen[:3] == ["-- row 1", "id   | 2", "name | ''"]
    assert not shell.take("\\unknown")
    assert shell.take("\\d texts") and shell.take("\\d") and shell.take("\\?")


def test_the_published_schema_is_the_default_where_there_is_one(session: Any) -> None:
    assert use_schema(session, "lake", "published_absent", "dw") == "dw"
    with pytest.raises(DbtRuntimeError, match="has neither the schema a nor b: `make run`"):
        use_schema(session, "lake", "a", "b")
    session.sql("create namespace if not exists lake.published_here")
    assert use_schema(session, "lake", "published_here", "dw") == "published_here"


def test_the_catalog_is_opened_so_that_nothing_can_be_written(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in project.env.items():
        monkeypatch.setenv(name, value)
    credentials = reading_credentials()
    session = own_session(credentials).session
    assert session.sql("select count(*) from dw.texts").collect()[0][0] == 5
    with pytest.raises(Exception, match=r"(?i)readonly|read-only"):
        session.sql("insert into dw.texts values (9, 'x', 1.00)")
    assert project.column("select count(*) from dw.texts") == [5]


def test_without_a_warehouse_the_command_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["sql", "select 1"], env={"WAREHOUSE": str(tmp_path)})
    assert done.exit_code == 1
    assert done.output == (
        f"Error: {tmp_path} holds no warehouse: `make run` builds one, WAREHOUSE names another.\n"
    )


def test_the_command_line_answers_a_question_and_a_script(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = CliRunner().invoke(
        cli, ["sql", "--format", "csv", "select max(id) as id from dw.texts"], env=project.env
    )
    assert (done.exit_code, done.stdout) == (0, "id\n5\n"), done.output
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1 as a;\nselect 2 as b;\n"))
    done = CliRunner().invoke(
        cli, ["sql"], env=project.env | {"FORMAT": "csv"}, input="select 1 as a;\nselect 2 as b\n"
    )
    assert (done.exit_code, done.stdout) == (0, "a\n1\nb\n2\n"), done.output
    done = CliRunner().invoke(cli, ["sql", "drop table dw.texts"], env=project.env)
    assert done.exit_code == 1
