"""A build every few minutes on growing data: what lies around doesn't grow with their number.

CYCLES sets how many builds; every tenth is followed by the maintenance that
docs/how-to/operate-versions.md asks for.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from dbt.adapters.sparksession.versions import orphans

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import FILES, make_raw

MAINTENANCE_EVERY = 10
OPERATIONS = (
    ("expire_versions", "{keep: 3, days: 0}"),
    ("compact", "{}"),
    ("expire_versions", "{keep: 3, days: 0}"),
    ("remove_orphans", "{}"),
)


@dataclass(frozen=True)
class Around:
    """What a warehouse's folder holds after its maintenance."""

    cycle: int
    files: int
    metadata_bytes: int
    snapshots: int
    seconds: float
    memory: int

    @classmethod
    def of(cls, project: DbtProject, cycle: int, seconds: list[float]) -> Around:
        paths = [path for path in project.warehouse.rglob("*") if path.is_file()]
        metadata = [path for path in paths if path.parent.name == "metadata"]
        tables = ("rows", "days", "latest__runs", "meta_version", "meta_lease")
        snapshots = (f"select snapshot_id from dw.{table}.snapshots" for table in tables)
        return cls(
            cycle,
            sum(path.suffix != ".crc" for path in paths),
            sum(path.stat().st_size for path in metadata),
            sum(len(project.column(sql)) for sql in snapshots),
            statistics.median(seconds),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        )


def is_right(project: DbtProject, end: int) -> None:
    for schema in ("dw", "published"):
        assert project.column(f"select id from {schema}.rows order by id") == list(range(end))
        assert project.column(f"select sum(n) from {schema}.days") == [end]
        latest = project.column(f"select id from {schema}.latest order by id")
        assert latest == list(range(end - 7, end))


@pytest.mark.soak
def test_nothing_grows_with_the_number_of_builds(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = int(os.environ.get("CYCLES", "100"))
    monkeypatch.setattr(orphans, "VIEW_FILES_STAY", 0)
    # the same few partitions again and again: files and manifests grow with the data alone
    rows = FILES["models/rows.sql"].replace("id div 10", "id div 10 % 8")
    project = make_project(FILES | {"models/rows.sql": rows})
    make_raw(project)
    seconds: list[float] = []
    seen: list[Around] = []
    for cycle in range(cycles):
        project.query(f"insert into dw.raw select id from range({7 * cycle}, {7 * cycle + 7})")
        start = time.perf_counter()
        project.run("build")
        seconds.append(time.perf_counter() - start)
        if (cycle + 1) % MAINTENANCE_EVERY == 0:
            is_right(project, 7 * (cycle + 1))
            for name, arguments in OPERATIONS:
                project.run("run-operation", name, "--args", arguments)
            is_right(project, 7 * (cycle + 1))
            seen.append(Around.of(project, cycle + 1, seconds[-MAINTENANCE_EVERY:]))
            print(f"\n{seen[-1]}")
    first, last = seen[1], seen[-1]
    assert last.files <= 1.2 * first.files
    assert last.metadata_bytes <= 1.3 * first.metadata_bytes
    assert last.snapshots <= 1.2 * first.snapshots
