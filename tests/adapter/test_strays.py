"""A table's folder is looked through for files of no snapshot: none that is there is missed, and a
table without such is known to have none. What is named stays.

STRAYS_SEED plays the same history again, STRAYS_STEPS is its length.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.iceberg.metadata import loaded
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.versions.strays import may_have_strays

from tests.support.dbt_project import DbtProject

SEED = int(os.environ.get("STRAYS_SEED", random.randrange(10**6)))
STEPS = int(os.environ.get("STRAYS_STEPS", 5))
TABLE = "dw.t"
# values of the partitions: what stands in the names of their folders
PLACES = ("a", "b c", "d:e", "f/g", "h%20i", "_j", ".k", "ü", "l=m", "")


def step(rng: random.Random, project: DbtProject) -> str:
    """A change of the table, or of its metadata."""
    place = rng.choice(PLACES)
    rows = f"select id, '{place}' from range({rng.randrange(100)}, 100)"
    snapshots = project.column(f"select snapshot_id from {TABLE}.snapshots order by committed_at")
    catalog = project.credentials().catalog
    return rng.choice(
        [
            f"insert into {TABLE} {rows}",
            f"insert into {TABLE} {rows}",
            f"insert overwrite {TABLE} {rows}",
            f"delete from {TABLE} where id % 7 = {rng.randrange(7)}",
            f"update {TABLE} set id = id + 1 where id % 5 = {rng.randrange(5)}",
            f"call {catalog}.system.rewrite_manifests('{TABLE}')",
            f"call {catalog}.system.rewrite_data_files('{TABLE}')",
            f"call {catalog}.system.compute_table_stats('{TABLE}')",
            f"call {catalog}.system.rollback_to_snapshot('{TABLE}', {rng.choice(snapshots)})",
            f"call {catalog}.system.expire_snapshots(table => '{TABLE}', retain_last => "
            f"{rng.randint(1, 3)}, older_than => current_timestamp())",
            f"alter table {TABLE} create or replace tag t{rng.randrange(3)} as of version "
            f"{rng.choice(snapshots)}",
            f"alter table {TABLE} set tblproperties ('some' = '{rng.random()}')",
        ]
    )


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    found = make_project({})
    found.query("create namespace if not exists dw")
    found.query(
        f"create table {TABLE} (id bigint, place string) using iceberg partitioned by (place) "
        "tblproperties ('write.metadata.previous-versions-max' = '3')"
    )
    return found


def session_and_table(project: DbtProject) -> tuple[Any, Any]:
    session = own_session(project.credentials()).session
    table = loaded(session, project.credentials().catalog, TABLE)
    table.refresh()
    return session, table


def look(project: DbtProject, since: datetime | None = None) -> bool:
    return may_have_strays(*session_and_table(project), since)


def deleted_by_iceberg(project: DbtProject) -> set[str]:
    """Paths of what Iceberg's action deletes."""
    session, table = session_and_table(project)
    actions = session._jvm.org.apache.iceberg.spark.actions.SparkActions
    action = actions.get(session._jsparkSession).deleteOrphanFiles(table)
    found = action.olderThan(int(time.time() * 1000) + 1000).execute()
    return {path.removeprefix("file:") for path in found.orphanFileLocations()}


def folder_of(project: DbtProject) -> Path:
    (found,) = project.warehouse.rglob("dw/t/data")
    return found.parent


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_files_of_no_snapshot_are_found_in_any_history(project: DbtProject) -> None:
    print(f"STRAYS_SEED={SEED}")
    rng = random.Random(SEED)
    project.query(f"insert into {TABLE} select id, 'a' from range(5)")
    folder = folder_of(project)
    for _ in range(STEPS):
        project.query(step(rng, project))
        has_strays = look(project)
        if rng.random() < 0.5:
            # a copy of a file that is named, under another name in its folder
            some = rng.choice(files_in(folder))
            stray = some.with_name(f"stray-{some.name.lstrip('.')}")
            stray.write_bytes(some.read_bytes())
            assert look(project)
            assert str(stray) in deleted_by_iceberg(project)
            assert not stray.exists()
        elif has_strays:
            # left by the change itself, such as metadata that the table no longer lists
            assert deleted_by_iceberg(project)
        assert not look(project)
        assert not deleted_by_iceberg(project)


def test_only_files_that_were_written_since_are_looked_at(project: DbtProject) -> None:
    project.query(f"insert into {TABLE} select id, 'a' from range(5)")
    stray = folder_of(project) / "data" / "stray.parquet"
    stray.write_bytes(b"of a run that was killed")
    hour_ago = time.time() - 3600
    now = datetime.now(UTC).replace(tzinfo=None)
    assert look(project, now - timedelta(minutes=30))
    os.utime(stray, (hour_ago, hour_ago))
    assert not look(project, now - timedelta(minutes=30))
    assert look(project, now - timedelta(minutes=90))
    assert look(project)
    # the newest rows alone are named by what was written since
    for path in files_in(folder_of(project)):
        os.utime(path, (hour_ago, hour_ago))
    project.query(f"insert into {TABLE} select id, 'b' from range(5)")
    assert not look(project, now - timedelta(minutes=30))


def test_a_table_with_files_of_deletes_is_left_to_iceberg(project: DbtProject) -> None:
    project.query(
        f"alter table {TABLE} set tblproperties "
        "('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    project.query(f"insert into {TABLE} select id, 'a' from range(0, 50, 1, 1)")
    project.query(f"delete from {TABLE} where id % 7 = 1")
    assert project.column(f"select count(*) from {TABLE}.delete_files") == [1]
    assert look(project)
    assert not deleted_by_iceberg(project)
