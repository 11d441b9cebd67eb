"""Parallel models don't meet; nothing is written outside the project's own folders."""

from __future__ import annotations

import os
import threading
from copy import copy
from pathlib import Path

import pytest
from dbt.adapters.sparksession.session import OwnSession

from tests.support.variables import Variables

PARALLEL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='n',
    pre_hook=[
        "set binlog.mine = {number}",
        "set spark.sql.session.timeZone = +0{number}:00",
        "set spark.sql.shuffle.partitions = {number}",
        "create or replace temporary view same_name as select {number} as n",
    ],
) }}}}
select n, current_timezone() as mine, {number} + 0 * count(*) over () as counted from same_name
"""
LEAK = """
def model(dbt, session):
    dbt.config(materialized="table")
    # after all the others
    dbt.ref("parallel1"), dbt.ref("parallel2"), dbt.ref("parallel3"), dbt.ref("parallel4")
    dbt.ref("parallel5"), dbt.ref("parallel6"), dbt.ref("parallel7"), dbt.ref("parallel8")
    views = [one.name for one in session.catalog.listTables() if one.isTemporary]
    about = (
        session.conf.get("binlog.mine", "none"),
        session.conf.get("spark.sql.shuffle.partitions"),
        ", ".join(views),
    )
    return session.createDataFrame([about], "mine string, partitions string, views string")
"""


@pytest.mark.parametrize(("threads", "runs"), [("1", 1), ("4", 2)])
def test_parallel_models_do_not_meet(make_project, threads, runs):
    models = {f"models/parallel{n}.sql": PARALLEL.format(number=n) for n in range(1, 9)}
    project = make_project({**models, "models/leak.py": LEAK})
    for _ in range(runs):
        project.run("run", "--threads", threads)
    rows = [project.query(f"select * from dw.parallel{n}") for n in range(1, 9)]
    assert rows == [[{"n": n, "mine": f"+0{n}:00", "counted": n}] for n in range(1, 9)]
    partitions = project.credentials().spark_settings()["spark.sql.shuffle.partitions"]
    assert project.query("select * from dw.leak") == [
        {"mine": "none", "partitions": partitions, "views": ""}
    ]


def test_variables_of_projects_go_in_whatever_order_they_are_left(monkeypatch):
    """A thread that read a profile within a run of another left the run's variables behind."""
    variables = Variables()
    monkeypatch.setenv("SOME_TARGET", "mine")
    monkeypatch.delenv("SOME_LOG", raising=False)
    first = variables.within({"SOME_TARGET": "a", "SOME_LOG": "a"})
    second = variables.within({"SOME_TARGET": "b", "SOME_LOG": "b"})
    first.__enter__()
    second.__enter__()
    assert (os.environ["SOME_TARGET"], os.environ["SOME_LOG"]) == ("b", "b")
    first.__exit__(None, None, None)
    assert (os.environ["SOME_TARGET"], os.environ["SOME_LOG"]) == ("b", "b")
    second.__exit__(None, None, None)
    assert (os.environ["SOME_TARGET"], os.environ.get("SOME_LOG")) == ("mine", None)
    with variables.within({"SOME_LOG": "c"}), variables.within({"SOME_LOG": "d"}):
        assert os.environ["SOME_LOG"] == "d"
    assert "SOME_LOG" not in os.environ


def test_many_threads_may_open_a_new_warehouse_at_once(make_project, tmp_path):
    """Iceberg adds a column to a new catalog's tables without looking whether another session has
    just done so."""
    project = make_project({})
    errors: list[str] = []

    def look(begin: threading.Barrier, folder: Path) -> None:
        credentials = copy(project.credentials())
        credentials.warehouse = str(folder)
        begin.wait()
        try:
            OwnSession(credentials).session.sql("show namespaces").collect()
        except Exception as exc:
            errors.append(str(exc)[:1500])

    for number in range(5):
        begin, folder = threading.Barrier(6), tmp_path / f"new_{number}"
        folder.mkdir()
        threads = [threading.Thread(target=look, args=(begin, folder)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


# ---- isolation -------------------------------------------------------------------------------

FILES = {
    "seeds/names.csv": "id,name\n1,a\n",
    "models/by_sql.sql": """
        {{ config(materialized='incremental', appends_all_rows=true) }}
        select * from {{ ref('names') }}
    """,
    "models/by_python.py": """
        def same(batches):
            yield from batches


        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="id")
            return dbt.ref("by_sql").mapInArrow(same, "id bigint, name string")
    """,
    "models/seen.sql": "select * from {{ ref('by_python') }}",
    "snapshots/snapped.yml": """
        snapshots:
          - name: snapped
            relation: ref('by_sql')
            config: {unique_key: id, strategy: check, check_cols: all}
    """,
    "tests/passes.sql": "select 1 from {{ ref('seen') }} where id is null",
}


def tree(folder: Path) -> set[str]:
    """Paths of all files and folders below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.soak
def test_nothing_is_written_elsewhere(make_project, tmp_path):
    project = make_project(FILES)
    folders = {name: tmp_path / name for name in ("home", "tmp", "cwd")}
    for folder in folders.values():
        folder.mkdir()
    profiles = project.root / "profiles" / "profiles.yml"
    before, jars = tree(project.root), tree(Path(project.env["JARS_DIR"]))
    done = project.subprocess(
        "build",
        cwd=folders["cwd"],
        env={
            "HOME": str(folders["home"]),
            "TMPDIR": str(folders["tmp"]),
            "WAREHOUSE": None,
            "DBT_TARGET_PATH": None,
            "DBT_LOG_PATH": None,
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=6" in done.stdout
    assert done.stderr == ""
    assert {name: tree(folder) for name, folder in folders.items()} == {
        "home": set(),
        "tmp": set(),
        "cwd": set(),
    }
    new = {path.split(os.sep)[0] for path in tree(project.root) - before}
    assert new == {"target", "logs", "warehouse"}
    assert profiles.parent.name == "profiles" and tree(profiles.parent) == {"profiles.yml"}
    assert tree(Path(project.env["JARS_DIR"])) == jars
    names = {Path(path).name for path in tree(project.root)}
    assert not names & {"metastore_db", "derby.log", "spark-warehouse"}


def test_failed_run_has_exit_code_one_and_a_readable_end(make_project):
    project = make_project({"models/broken.sql": "select nowhere"})
    done = project.subprocess("run", env={"JAVA_HOME": "/nowhere", "PATH": "/usr/bin-none"})
    assert done.returncode != 0
    assert "Spark needs Java 17 to 24" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
