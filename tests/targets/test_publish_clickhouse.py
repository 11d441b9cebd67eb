"""Versions in ClickHouse, as its embedded build: row by row those of the warehouse."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.child import Child, ChildProject
from tests.support.dbt_project import DbtProject
from tests.support.published import (
    KILLS,
    SEED,
    Source,
    build_without_publishing,
    expected,
    files,
    give_another_key,
    kill,
    publishing,
    stop_publication,
    tables,
)

# one process at a time may have the folder, so it is asked by one that ends
ASK = """
import json, sys
from chdb.session import Session

session = Session(sys.argv[1])
for sql in sys.argv[2:]:
    print(json.dumps(str(session.query(sql, "JSONCompactEachRow"))))
session.close()
"""
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("chdb") is None, reason="chdb, the embedded ClickHouse, isn't there"
)


class Analytics:
    """A database of chdb."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clickhouse"

    def ask(self, *statements: str) -> list[list[list]]:
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(self.folder), "use serving", *statements],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()][1:]
        return [[json.loads(row) for row in answer.splitlines()] for answer in answers]

    def rows(self) -> dict[str, list[tuple]]:
        """Table -> its rows as `expected` gives those of the warehouse."""
        of_columns = "select name, type from system.columns where database = 'serving' and table = "
        names = list(tables())
        columns = self.ask(*(f"{of_columns}'{name}' order by position" for name in names))
        queries = [
            "select "
            + ", ".join(f"{text_of(*column)} as `{column[0]}`" for column in some)
            + f" from {name}"
            for name, some in zip(names, columns, strict=True)
        ]
        return {
            name: sorted(
                tuple(
                    (column[0], "null" if value is None else f"={as_float(column[1], value)}")
                    for column, value in zip(some, row, strict=True)
                )
                for row in found
            )
            for name, some, found in zip(names, columns, self.ask(*queries), strict=True)
        }

    def versions(self) -> dict[str, int]:
        (rows,) = self.ask("select table_name, record from published_version final")
        return {name: json.loads(record)["version"] for name, record in rows}


def text_of(name: str, kind: str) -> str:
    """SQL of a value as a text."""
    decimal = re.search(r"Decimal\(\d+, (\d+)\)", kind)
    if decimal:
        return f"toDecimalString(`{name}`, {decimal[1]})"
    if "Bool" in kind:
        return f"toString(toUInt8(`{name}`))"
    return f"lower(hex(`{name}`))" if name == "bytes" else f"toString(`{name}`)"


def as_float(kind: str, value: str) -> str:
    return str(float(value)) if "Float" in kind else value


@pytest.fixture
def analytics(tmp_path: Path) -> Analytics:
    return Analytics(tmp_path)


@pytest.fixture
def project(
    make_project: Callable[..., DbtProject], child: Child, analytics: Analytics, tmp_path: Path
) -> ChildProject:
    env = {
        "publish_targets": "analytics=clickhouse",
        "publish_analytics_url": f"chdb:{analytics.folder}/serving",
        "publish_analytics_folder": str(tmp_path / "files"),
    }
    return ChildProject(make_project(files("analytics", "clickhouse"), **env), child)


def test_each_version_is_there_row_by_row(project: ChildProject, analytics: Analytics) -> None:
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    assert "Target analytics holds version 1." in project.run("build").log
    assert analytics.rows() == expected(project)
    source.change(5, entries=3)
    assert "entries: 3 rows written, 0 removed\n" in project.run("build").log
    assert analytics.rows() == expected(project)

    # back to a version before, in the same way, and forth again
    source.change(5)
    project.run("build")
    project.run("run-operation", "publish_to", "--args", "{version: 2}")
    assert set(analytics.versions().values()) == {2}
    project.run("run-operation", "publish_to")
    assert analytics.rows() == expected(project)


def test_rows_of_another_key_give_way(project: ChildProject, analytics: Analytics) -> None:
    source = Source(project, SEED)
    source.change(20)
    project.run("build")
    give_another_key(project)

    log = project.run("run-operation", "publish_to").log
    source.change(20)
    project.run("build")

    assert analytics.rows() == expected(project)
    assert log.count("compared as a whole") == 1


@pytest.mark.live
def test_a_publication_that_is_killed_and_run_again_leaves_each_row_once(
    project: ChildProject, analytics: Analytics, tmp_path: Path
) -> None:
    print(f"PUBLISH_SEED={SEED}")
    pick = random.Random(SEED)
    source = Source(project, SEED)
    source.change(30)
    project.run("build")
    for number in range(KILLS):
        before = analytics.rows()
        source.change(40)
        build_without_publishing(project)
        run = publishing(project.inner)
        while run.poll() is None and not (tmp_path / "files").exists():
            time.sleep(0.01)
        time.sleep(pick.uniform(0, 1.5))
        kill(run)
        now, half = expected(project), analytics.rows()
        assert all(half[table] in (before[table], now[table]) for table in half)
        if number % 2 == 0:
            source.change(20)
            build_without_publishing(project)
        project.run("run-operation", "publish_to")
        assert analytics.rows() == expected(project)
        assert len(set(analytics.versions().values())) == 1


@pytest.mark.live
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_publication_that_is_stopped_leaves_tables_of_the_old_version_or_the_new_version(
    project: ChildProject, analytics: Analytics, tmp_path: Path, sign: signal.Signals
) -> None:
    print(f"PUBLISH_SEED={SEED}")
    source = Source(project, SEED)
    source.change(30)
    project.run("build")
    before = analytics.rows()
    source.change(400)
    build_without_publishing(project)
    log = tmp_path / "stopped.log"
    with log.open("wb") as printed:
        run = publishing(project.inner, printed=printed)
    while run.poll() is None and not any((tmp_path / "files").rglob("*.parquet")):
        time.sleep(0.01)
    time.sleep(random.Random(SEED).uniform(0, 0.5))
    assert run.poll() is None, log.read_text()

    text = stop_publication(run, log, sign)

    assert project.query("select run_id from dw.meta_lease") == [{"run_id": None}], text
    now, half = expected(project), analytics.rows()
    assert all(half[table] in (before[table], now[table]) for table in half), text
    assert "took over" not in project.run("run-operation", "publish_to").log
    assert analytics.rows() == now
    assert not any((tmp_path / "files").rglob("*.parquet"))


def test_only_what_bears_the_warehouses_mark_is_dropped(
    project: ChildProject, analytics: Analytics
) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")
    (own,) = [
        row["value"]
        for row in project.query("show tblproperties dw.meta_lease")
        if row["key"] == "warehouse.id"
    ]
    others = ["staging__of_somebody", f"staging__{'0' * 16}_{'1' * 16}"]
    make = "create table {} (id Int32) engine = MergeTree order by id"
    left = f"staging__{own}_{'2' * 16}"
    analytics.ask(*(make.format(name) for name in [left, *others]))
    source.change(4)
    project.run("build")
    asked = "select name from system.tables where name like 'staging%' order by name"
    assert sorted(name for (name,) in analytics.ask(asked)[0]) == sorted(others)
    # a table of an application in the place of the view
    analytics.ask("drop view total", make.format("total"), "insert into total values (1)")
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert "total is there, and was not made by publishing" in " ".join(failed.split())
    assert analytics.ask("select id from total") == [[[1]]]


def test_a_whole_number_that_does_not_fit_is_refused(
    project: ChildProject, analytics: Analytics
) -> None:
    """ClickHouse's own cast would make another number of it."""
    path = project.inner.root / "models" / "_models.yml"
    text = path.read_text(encoding="utf-8")
    narrow = text.replace('"types": {}', '"types": {"id": "Int8"}', 1)
    path.write_text(narrow, encoding="utf-8")
    Source(project, SEED).change(200)
    log = " ".join(project.run("build", expect_ok=False).log.split())
    assert "Int64 cannot be safely converted into type Int8" in log
    assert "version 1 is not published there" in log
    path.write_text(text.replace('"types": {}', '"types": {"id": "Int32"}', 1), encoding="utf-8")
    analytics.ask("drop view facts_now", "drop table facts_now__rows")
    project.run("run-operation", "publish_to")
    assert analytics.rows() == expected(project)


def test_a_table_of_another_make_is_reported(project: ChildProject, analytics: Analytics) -> None:
    source = Source(project, SEED)
    source.change(4)
    project.run("build")
    analytics.ask("alter table total__rows drop column n")
    source.change(4)
    failed = project.run("build", expect_ok=False).log
    assert "Published as version 2" in failed
    assert (
        "Target analytics: table total__rows differs from the model: column n is missing (alter "
        "it, or drop it and publish again); version 2 is not published there."
    ) in " ".join(failed.split())
    assert analytics.versions()["total"] == 1
    project.inner.env["PUBLISH_ANALYTICS_URL"] = "http://127.0.0.1:1/serving"
    down = project.run("run-operation", "publish_to", expect_ok=False).log
    assert "Target analytics: it can't be reached at http://127.0.0.1:1: " in down
