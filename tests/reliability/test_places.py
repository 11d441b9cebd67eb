"""A warehouse's own folder: copies, moves, a catalog that is lost or older than its tables."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from dbt.adapters.sparksession.session import own_session
from dbt.adapters.sparksession.versions.lease import Lease
from dbt.adapters.sparksession.versions.place import MARK, UNFINISHED, Place, lies_within
from dbt.adapters.sparksession.versions.recovery import MetadataFile, newest_of

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import FILES, make_raw
from tools.clean import CleanError, clean, drop_warehouse

WRITING = (
    ("build",),
    ("run", "--full-refresh"),
    ("run-operation", "remove_orphans"),
    ("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}"),
    ("run-operation", "compact"),
    ("run-operation", "roll_back", "--args", "{version: 1}"),
    ("run-operation", "keep_version", "--args", "{version: 1, tag: kept}"),
    ("run-operation", "copy_warehouse", "--args", "{to: ../nowhere}"),
)


def land(project: DbtProject, first: int, end: int) -> None:
    """Let ids first to end - 1 come in."""
    project.query(f"insert into dw.raw select id from range({first}, {end})")


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    """A warehouse of two versions, of the ids 0 to 19."""
    made = make_project(FILES)
    make_raw(made)
    for number in range(2):
        land(made, 10 * number, 10 * number + 10)
        made.run("build")
    return made


def beside(project: DbtProject, warehouse: Path) -> DbtProject:
    """The same project with another warehouse folder."""
    return DbtProject(project.root, warehouse, profiles=project.profiles)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def contents(project: DbtProject) -> dict[str, list[tuple[object, ...]]]:
    """Rows of all tables and views, as they are and as they are published, and the versions."""
    found = {
        f"{schema}.{name}": sorted(
            tuple(row.values()) for row in project.query(f"select * from {schema}.{name}")
        )
        for name in ("rows", "days", "latest", "total")
        for schema in ("dw", "published")
    }
    asked = "select version, run_id, snapshots from dw.meta_version order by version"
    return found | {"versions": [tuple(row.values()) for row in project.query(asked)]}


def wanted(ids: list[int]) -> dict[str, list[tuple[object, ...]]]:
    """What a warehouse holds when these ids have come in."""
    days = sorted({number // 10 for number in ids})
    answer: dict[str, list[tuple[object, ...]]] = {
        "rows": [(number, number % 7, number // 10) for number in sorted(ids)],
        "days": [(day, sum(number // 10 == day for number in ids)) for day in days],
        "latest": [
            (user, max(number for number in ids if number % 7 == user))
            for user in sorted({number % 7 for number in ids})
        ],
        "total": [(len(ids),)],
    }
    return {f"{schema}.{name}": answer[name] for name in answer for schema in ("dw", "published")}


def holds(project: DbtProject, ids: list[int]) -> None:
    found = contents(project)
    for name, rows in wanted(ids).items():
        assert found[name] == rows, name


@pytest.mark.in_turn
def test_a_folder_that_was_copied_touches_nothing_of_the_original(
    project: DbtProject, tmp_path: Path
) -> None:
    # copied while a run holds the lease: nobody holds the copy's, but it isn't the copy's either
    lease = Lease(lambda: own_session(project.credentials()).session, "dw.meta_lease", "a run")
    lease.take()
    shutil.copytree(project.warehouse, tmp_path / "copied")
    lease.give_back()
    # what each deletes if it is let: a file that no snapshot knows
    (folder,) = project.warehouse.rglob("dw/rows/data")
    (folder / "left.parquet").write_bytes(b"left behind")
    copied = beside(project, tmp_path / "copied")
    before, copied_before = files_of(project.warehouse), files_of(copied.warehouse)
    for command in WRITING:
        refused = copied.run(*command, expect_ok=False)
        output = f"{refused.exception}{refused.log}"
        assert "outside of this warehouse's folder" in output, (command, output)
        assert "copy_warehouse" in output, command
    assert files_of(project.warehouse) == before
    assert files_of(copied.warehouse) == copied_before

    # an obvious repair: the tables then lie in the copy, their rows still in the original
    tables = ("meta_lease", "meta_version", "raw", "rows", "days", "latest__runs")
    for table in tables:
        place = copied.warehouse / "data" / "dw" / table
        copied.query(f"alter table dw.{table} set location '{place}'")
    with closing(sqlite3.connect(copied.warehouse / "catalog.db")) as catalog, catalog:
        catalog.execute("delete from iceberg_tables where iceberg_type = 'VIEW'")
    for command in (("run",), ("run-operation", "expire_versions")):
        refused = copied.run(*command, expect_ok=False)
        output = f"{refused.exception}{refused.log}"
        assert "of table dw.meta_lease lies in" in output, (command, output)
    assert files_of(project.warehouse) == before

    # a folder that was moved works by a link
    project.warehouse.rename(tmp_path / "moved")
    project.warehouse.symlink_to(tmp_path / "moved")
    land(project, 20, 30)
    project.run("build")
    holds(project, list(range(30)))


@pytest.mark.soak
def test_one_table_that_lies_elsewhere_is_neither_written_nor_tidied(
    project: DbtProject,
    make_project: Callable[..., DbtProject],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = make_project(FILES)
    make_raw(other)
    other.run("build")
    (newest,) = project.column("select max_by(file, timestamp) from dw.days.metadata_log_entries")
    other.query("drop table dw.days")
    other.query(f"call lake.system.register_table(table => 'dw.days', metadata_file => '{newest}')")
    before = files_of(project.warehouse)
    land(other, 0, 10)
    other_before = files_of(other.warehouse)
    for command in (("run",), ("run-operation", "remove_orphans")):
        refused = other.run(*command, expect_ok=False)
        output = f"{refused.exception}{refused.log}"
        assert "Table or view dw.days lies in" in output, output
    assert files_of(project.warehouse) == before
    assert files_of(other.warehouse) == other_before, "nothing is written before all are looked at"

    # of a catalog that can't be looked through, tables are looked at as they are written
    monkeypatch.setattr(Place, "_places_in_catalog", lambda _: [])
    failed = other.run("run", expect_ok=False)
    output = f"{failed.exception}{failed.log}"
    assert "OK created sql incremental model dw.rows" in output
    assert "Table dw.days lies in" in output
    assert files_of(project.warehouse) == before


@pytest.mark.soak
def test_a_copy_holds_the_same_and_both_go_on_apart_from_each_other(
    project: DbtProject, tmp_path: Path
) -> None:
    project.query("create table dw.empty (id int) using iceberg")
    # files of deletes name the files that they are of
    project.query(
        "create table dw.merged_on_read using iceberg tblproperties ("
        "'write.delete.mode' = 'merge-on-read', 'format-version' = '2') as select id from range(9)"
    )
    project.query("delete from dw.merged_on_read where id = 4")
    before = contents(project)
    copy = ("run-operation", "copy_warehouse", "--args")
    output = project.run(*copy, f"{{to: '{tmp_path / 'copy'}'}}").log
    assert "7 tables and 6 views of" in output, output
    again = project.run(*copy, f"{{to: '{tmp_path / 'copy'}'}}", expect_ok=False)
    assert "new or empty" in f"{again.exception}{again.log}"
    inside = project.run(*copy, f"{{to: '{project.warehouse / 'copy'}'}}", expect_ok=False)
    assert "must lie outside" in f"{inside.exception}{inside.log}"
    copied = beside(project, tmp_path / "copy")
    assert contents(copied) == before
    less = copied.column("select id from dw.merged_on_read order by id")
    assert less == [0, 1, 2, 3, 5, 6, 7, 8]
    assert copied.column("select count(*) from dw.empty") == [0]
    for file in files_of(copied.warehouse).items():
        assert str(project.warehouse).encode() not in file[1], file[0]

    land(copied, 20, 25)
    land(project, 50, 55)
    for item in (copied, project):
        done = item.run("build")
        assert done.results["rows"].adapter_response["rows_affected"] == 5  # new rows alone
        assert "Published as version 3" in done.log
    kept = files_of(project.warehouse)
    for operation in ("remove_orphans", "expire_versions", "compact"):
        copied.run("run-operation", operation)
    copied.run("run-operation", "roll_back", "--args", "{version: 2}")
    holds(copied, list(range(20)))
    copied.run("build")
    assert files_of(project.warehouse) == kept
    holds(copied, list(range(25)))
    holds(project, [*range(20), *range(50, 55)])

    # the original is lost: a copy of the copy takes its place
    shutil.rmtree(project.warehouse)
    copied.run(*copy, f"{{to: '{project.warehouse}'}}")
    link = tmp_path / "link"
    link.symlink_to(project.warehouse)  # a session has the old catalog's file open
    restored = beside(project, link)
    land(restored, 25, 30)
    restored.run("build")
    holds(restored, list(range(30)))


@pytest.mark.in_turn
def test_a_copy_that_was_not_finished_is_not_taken_for_a_warehouse(
    project: DbtProject, tmp_path: Path
) -> None:
    data = tmp_path / "half" / "data"
    shutil.copytree(project.warehouse / "data", data)
    (data / UNFINISHED).touch()
    half = beside(project, data.parent)
    for command in (("build",), ("run-operation", "register_tables")):
        refused = half.run(*command, expect_ok=False)
        assert "was not finished" in f"{refused.exception}{refused.log}"


def orphan(project: DbtProject, table: str, **changed: object) -> Path:
    """A metadata file behind a table's newest one, as a commit leaves it that failed."""
    folder = project.warehouse / "data" / "dw" / table / "metadata"
    newest = max(path for path in folder.glob("*.metadata.json"))
    known = json.loads(newest.read_text())
    log = [
        *known["metadata-log"],
        {"metadata-file": str(newest), "timestamp-ms": known["last-updated-ms"]},
    ]
    number = int(newest.name.partition("-")[0]) + 1
    path = folder / f"{number:05}-orphan.metadata.json"
    path.write_text(json.dumps(known | {"metadata-log": log} | changed))
    return path


@pytest.mark.in_turn
def test_a_lost_catalog_stops_the_run_and_the_tables_come_back(
    project: DbtProject, tmp_path: Path
) -> None:
    before = contents(project)
    # a commit that failed, and whose files are gone
    half = orphan(project, "days")
    known = json.loads(half.read_text())
    (head,) = [
        snapshot
        for snapshot in known["snapshots"]
        if snapshot["snapshot-id"] == known["current-snapshot-id"]
    ]
    lost = head | {
        "snapshot-id": 7,
        "sequence-number": known["last-sequence-number"] + 1,
        "parent-snapshot-id": head["snapshot-id"],
        "manifest-list": f"{known['location']}/metadata/snap-7.avro",
    }
    known |= {"snapshots": [*known["snapshots"], lost], "current-snapshot-id": 7}
    known["refs"]["main"]["snapshot-id"] = 7
    known["last-sequence-number"] += 1
    half.write_text(json.dumps(known))
    # and one that a killed writer left in the middle of a line
    orphan(project, "rows").write_text('{"format-version": 2, "table-')
    os.unlink(project.warehouse / "catalog.db")
    link = tmp_path / "link"
    link.symlink_to(project.warehouse)  # a session has the old catalog's file open
    left = beside(project, link)

    for command in (("build",), ("run-operation", "remove_orphans")):
        refused = left.run(*command, expect_ok=False)
        output = f"{refused.exception}{refused.log}"
        assert "holds 12 tables and views, but there is no catalog of them" in output, output
    printed = left.run("run-operation", "register_tables").log
    assert "dw.days: the commit of" in printed
    assert "It doesn't count" in printed
    assert contents(left) == before

    land(left, 20, 30)
    done = left.run("build")
    assert done.results["rows"].adapter_response["rows_affected"] == 10
    assert "Published as version 3" in done.log
    holds(left, list(range(30)))
    again = left.run("run-operation", "register_tables").log
    assert "was registered" not in again
    left.run("run-operation", "remove_orphans")
    holds(left, list(range(30)))


def test_a_lost_catalog_of_tables_of_other_schemas_stops_the_first_run_too(
    make_project: Callable[..., DbtProject], tmp_path: Path
) -> None:
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.raw (id bigint) using iceberg")
    os.unlink(project.warehouse / "catalog.db")
    link = tmp_path / "link"
    link.symlink_to(project.warehouse)
    refused = beside(project, link).run("run", expect_ok=False)
    output = f"{refused.exception}{refused.log}"
    assert "holds 1 tables and views, but there is no catalog of them" in output, output


@pytest.mark.soak
def test_a_catalog_that_is_older_than_its_tables_stops_the_run(
    project: DbtProject, tmp_path: Path
) -> None:
    old = (project.warehouse / "catalog.db").read_bytes()
    land(project, 20, 30)
    project.run("build")
    before = contents(project)
    os.unlink(project.warehouse / "catalog.db")
    (project.warehouse / "catalog.db").write_bytes(old)
    # a table's many commits have deleted the file that the old catalog names
    with sqlite3.connect(project.warehouse / "catalog.db") as catalog:
        asked = (
            "select metadata_location from iceberg_tables where table_name = 'days' "
            "and table_namespace = 'dw'"
        )
        ((named,),) = catalog.execute(asked).fetchall()
    catalog.close()
    os.unlink(named.removeprefix("file:"))
    link = tmp_path / "link"
    link.symlink_to(project.warehouse)
    restored = beside(project, link)
    for command in (("build",), ("run-operation", "remove_orphans")):
        refused = restored.run(*command, expect_ok=False)
        assert "The catalog is older than the tables" in f"{refused.exception}{refused.log}"
    restored.run("run-operation", "register_tables")
    assert contents(restored) == before
    land(restored, 30, 35)
    restored.run("build")
    holds(restored, list(range(35)))
    assert json.loads((link / "data" / MARK).read_text())["generations"]["dw.meta_lease"] > 0


@pytest.mark.soak
def test_an_old_catalog_whose_files_later_runs_have_deleted_names_the_way_out(
    project: DbtProject, tmp_path: Path
) -> None:
    old = (project.warehouse / "catalog.db").read_bytes()
    for number in range(2, 5):  # so many runs keep none of the lease's files of that time
        land(project, 10 * number, 10 * number + 10)
        project.run("build")
    before = contents(project)
    os.unlink(project.warehouse / "catalog.db")
    (project.warehouse / "catalog.db").write_bytes(old)
    link = tmp_path / "link"
    link.symlink_to(project.warehouse)  # a session has the newer catalog's file open
    restored = beside(project, link)

    for command in (("build",), ("run-operation", "remove_orphans")):
        refused = restored.run(*command, expect_ok=False)
        refusal = f"{refused.exception}{refused.log}"
        assert "dw.meta_lease can't be read: the catalog names its file" in refusal, refusal
        assert "dbt run-operation register_tables" in refusal, refusal
    restored.run("run-operation", "register_tables")

    assert contents(restored) == before
    land(restored, 50, 55)
    restored.run("build")
    holds(restored, list(range(55)))


@pytest.mark.soak
def test_a_lease_whose_files_are_all_gone_is_made_again(
    project: DbtProject,
) -> None:
    before = contents(project)
    shutil.rmtree(project.warehouse / "data" / "dw" / "meta_lease")

    refused = project.run("build", expect_ok=False)

    assert "dbt run-operation register_tables" in f"{refused.exception}{refused.log}"
    project.run("run-operation", "register_tables")
    assert contents(project) == before
    land(project, 20, 25)
    project.run("build")
    holds(project, list(range(25)))


def test_a_warehouse_is_dropped_after_a_question_and_never_under_a_run(
    project: DbtProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.warehouse / "notes.txt").write_text("not the warehouse's")
    lease = Lease(lambda: own_session(project.credentials()).session, "dw.meta_lease", "a run")
    lease.take()
    before = files_of(project.warehouse)
    with pytest.raises(CleanError, match=rf"is being written by .* pid {os.getpid()}, "):
        drop_warehouse(project.warehouse, "warehouse")
    with pytest.raises(CleanError, match="is being written by"):
        clean(tmp_path, project.warehouse)
    assert files_of(project.warehouse).keys() == before.keys()
    lease.give_back()
    before = files_of(project.warehouse)
    for answer in ("", "y", "another"):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        with pytest.raises(CleanError, match="Nothing was deleted"):
            drop_warehouse(project.warehouse, None)
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CleanError, match="holds no warehouse"):
            drop_warehouse(folder, folder.name)
    (tmp_path / "target").mkdir()
    (tmp_path / "src").mkdir()
    assert clean(tmp_path, project.warehouse) == ["target"]
    assert files_of(project.warehouse) == before
    monkeypatch.setattr("builtins.input", lambda _: "warehouse")
    drop_warehouse(project.warehouse, None)
    assert files_of(project.warehouse).keys() == {"notes.txt"}
    assert [path.name for path in tmp_path.iterdir()] == ["src"]


@pytest.mark.parametrize(
    ("goal", "recipe"),
    [
        (("clean",), "python -m tools clean"),
        (("drop-warehouse",), "python -m tools drop-warehouse"),
        (("drop-warehouse", "YES=a b"), 'python -m tools drop-warehouse --yes "a b"'),
    ],
)
def test_make_deletes_by_the_tool_alone(goal: tuple[str, ...], recipe: str) -> None:
    """A recipe that deleted by itself would ask nobody, nor look at the lease."""
    command = ["make", "-n", "--no-print-directory", *goal]
    reported = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert reported.returncode == 0, reported.stderr
    *_, last = reported.stdout.strip().splitlines()
    assert last.strip().endswith(recipe)
    assert not re.search(r"\brm\b|-delete", reported.stdout)


def metadata_file(
    number: int, name: str, after: str | None = None, **given: object
) -> MetadataFile:
    values = {"uuid": "t", "is_view": False, "updated_ms": number, "head": number, "reads": {}}
    return MetadataFile(
        path=f"/t/{name}",
        number=number,
        location="/t",
        previous=(after,) if after else (),
        **(values | given),  # type: ignore[arg-type]
    )


def test_the_metadata_file_that_counts() -> None:
    first = metadata_file(1, "1")
    good = metadata_file(2, "2", after="1", updated_ms=20)
    assert newest_of([]) is None
    assert newest_of([first, good]) == good
    # a commit that failed, before the commit that was made from the same
    failed = metadata_file(2, "2-failed", after="1", updated_ms=15, head=15)
    assert newest_of([first, failed, good]) == good
    # what somebody has read was committed, whatever the clocks say
    assert newest_of([first, failed, good], named={15}) == failed
    # with a commit behind it there is no doubt
    later = metadata_file(3, "3", after="2", updated_ms=10)
    assert newest_of([first, failed, good, later], named={15}) == later
    # a table that was dropped, and one of its name since
    renewed = metadata_file(0, "0", uuid="other", updated_ms=30)
    assert newest_of([first, good, renewed]) == renewed


def test_places_compare_by_their_real_path(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert lies_within(f"{tmp_path}/data/dw/a", f"{tmp_path}/link")
    assert lies_within(f"file:{tmp_path}/link/../data/dw", f"{tmp_path}/data/")
    assert not lies_within(f"{tmp_path}/data", f"{tmp_path}/data")
    assert not lies_within(f"{tmp_path}/database/a", f"{tmp_path}/data")
    assert not lies_within(f"{tmp_path}/data/../other", f"{tmp_path}/data")
    assert not lies_within("s3://lake/data/a", f"{tmp_path}/data")
    assert not lies_within("s3://lake2/a", "s3://lake")
