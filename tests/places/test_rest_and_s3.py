"""A REST catalog and an S3 store: built, killed and run again, tidied and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.object_store import SECRET, java_of_nessie, nessie_and_s3, server_jars
from tests.support.child import child_process
from tests.support.dbt_project import DbtProject
from tests.support.killed_runs import kill, start, wait_for
from tests.support.small_warehouse import FILES


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("store")
    java, jars = java_of_nessie(), server_jars(folder / "jars")
    if java is None or jars is None:
        pytest.skip("needs a Java of 21 or later, and Nessie and s3mock from Maven (SERVER_JARS)")
    with nessie_and_s3(folder / "servers", jars, java) as found:
        yield found


@pytest.mark.soak
def test_a_run_that_is_killed_is_recovered_by_the_next_run(
    make_project: Callable[..., DbtProject], env: dict[str, str], tmp_path: Path
) -> None:
    project = make_project(FILES)
    project.env |= env
    log = tmp_path / "run.log"
    with child_process() as child:
        error = child.start(project)
        if "iceberg-aws-bundle" in error:
            pytest.skip(f"the jar of S3 could not be had; STORE_JARS may name it. {error[:300]}")
        assert not error, error
        child.query(project, "create namespace if not exists dw")
        child.query(project, "create table dw.raw (id bigint) using iceberg")
        child.query(project, "insert into dw.raw select id from range(10)")
        first = project.subprocess("build")
        assert first.returncode == 0, first.stdout
        for number, step in enumerate(("OK created sql incremental model dw.rows", "START")):
            first_id = 10 * number + 10
            child.query(
                project, f"insert into dw.raw select id from range({first_id}, {first_id + 10})"
            )
            run = start(project, log)
            assert wait_for(run, log, step)
            kill(run, with_java=True)
            done = project.subprocess("build")
            assert done.returncode == 0, done.stdout
            assert "took over the lease of a run that is gone" in done.stdout
            ids = child.query(project, "select id from dw.rows order by id")
            assert [row["id"] for row in ids] == list(range(first_id + 10)), number
            (row,) = child.query(project, "select n from published.total")
            assert row == {"n": first_id + 10}
        done = project.subprocess("run-operation", "remove_orphans")
        assert done.returncode == 0, done.stdout
        assert "its catalog keeps all of its files to itself (gc.enabled=false)" in done.stdout
        assert SECRET not in done.stdout
    names = {path.name for path in project.root.iterdir()}
    assert "s3:" not in names and "warehouse" not in names, names
