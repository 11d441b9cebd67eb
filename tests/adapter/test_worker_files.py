"""Files that a Python model writes by itself: its commit adds them, or none of them stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

WRITING = """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from dbt.adapters.sparksession.worker_files import AddedFile
    from pathlib import Path

    def model(dbt, session):
        dbt.config(materialized="incremental", incremental_strategy="append"{config})
        rows = dbt.new_rows(dbt.source("src", "x"))
        place = dbt.file_place(rows)
        if place is None or rows.isEmpty():
            return rows
        folder = Path(place.folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"own-{{place.run}}.parquet"
        schema = pa.schema(
            pa.field(name, pa.int32(), metadata={{"PARQUET:field_id": str(number)}})
            for number, name in enumerate(["id", "v"], 1)
        )
        found = [row.asDict() for row in rows.collect()]
        pq.write_table(pa.Table.from_pylist(found, schema=schema), path)
        if dbt.project_var("fails", False):
            raise ValueError("not today")
        dbt.add_files([AddedFile(str(path), (), [4])])
        return rows if dbt.project_var("returns_them_too", False) else rows.where("false")
"""


def own_files(made: DbtProject, table: str = "m") -> list[Path]:
    """Files that the model wrote, in the table or not."""
    return sorted(made.warehouse.rglob(f"{table}/data/own-*.parquet"))


def project(make_project: Callable[..., DbtProject], config: str = "") -> DbtProject:
    code = WRITING.format(config=config)
    return project_with_source(
        make_project, {"models/m.py": code}, "insert into src.x values (1, 10), (2, 20)"
    )


def rows(made: DbtProject) -> list[tuple]:
    return sorted(tuple(row.values()) for row in made.query("select id, v from dw.m"))


def test_a_commit_adds_files_to_a_new_table_and_to_a_standing_table(
    make_project: Callable[..., DbtProject],
) -> None:
    made = project(make_project)
    made.run("run")
    assert rows(made) == [(1, 10), (2, 20)] and len(own_files(made)) == 1
    made.query("insert into src.x values (3, 30)")
    assert "+1 rows" in made.run("run").log
    assert rows(made) == [(1, 10), (2, 20), (3, 30)] and len(own_files(made)) == 2
    # what its commits record: it has read all
    assert "nothing new" in made.run("run").log
    assert len(own_files(made)) == 2
    made.run("run", "--full-refresh")
    assert rows(made) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.in_turn
def test_files_of_a_failed_run_are_deleted_and_their_rows_come_by_the_next_run(
    make_project: Callable[..., DbtProject],
) -> None:
    made = project(make_project)
    assert "not today" in made.run("run", vars={"fails": True}, expect_ok=False).log
    assert own_files(made) == []
    made.run("run")
    made.query("insert into src.x values (3, 30)")
    made.run("run", vars={"fails": True}, expect_ok=False)
    assert len(own_files(made)) == 1 and len(rows(made)) == 2
    made.run("run")
    assert rows(made) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.in_turn
def test_rows_beside_files_are_refused(make_project: Callable[..., DbtProject]) -> None:
    made = project(make_project)
    log = made.run("run", vars={"returns_them_too": True}, expect_ok=False).log
    assert "m returned rows, or asked to merge them, beside the files that it gave" in log
    assert own_files(made) == []


@pytest.mark.in_turn
def test_all_rows_are_written_by_spark_where_the_input_was_replaced(
    make_project: Callable[..., DbtProject],
) -> None:
    made = project(make_project)
    made.run("run")
    made.query("insert overwrite src.x values (1, 11), (4, 40)")
    made.run("run")
    assert rows(made) == [(1, 11), (4, 40)]


BY_VALUES = """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from dbt.adapters.sparksession.worker_files import AddedFile
    from pathlib import Path

    def model(dbt, session):
        dbt.config(materialized="incremental", incremental_strategy="append",
                   partition_by=["name", "day", "id"])
        rows = dbt.new_rows(dbt.source("src", "x"))
        place = dbt.file_place(rows)
        folder = Path(place.folder)
        folder.mkdir(parents=True, exist_ok=True)
        kinds = (pa.int32(), pa.string(), pa.date32())
        schema = pa.schema(
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for number, (name, kind) in enumerate(zip(["id", "name", "day"], kinds), 1)
        )
        for number, row in enumerate(rows.collect()):
            path = folder / f"own-{number}-{place.run}.parquet"
            pq.write_table(pa.Table.from_pylist([row.asDict()], schema=schema), path)
            texts = (None if row[name] is None else str(row[name]) for name in place.partition)
            dbt.add_files([AddedFile(str(path), list(texts), [4])])
        return rows.where("false")
"""


@pytest.mark.in_turn
def test_files_lie_in_the_partitions_of_their_values(
    make_project: Callable[..., DbtProject],
) -> None:
    values = (
        "(1, 'a/b=c d~*', date '2026-03-01'), (2, '__HIVE_DEFAULT_PARTITION__', null), "
        "(null, null, date '1969-12-31'), (4, '', date '9999-12-31')"
    )
    made = project_with_source(
        make_project,
        {
            "models/by_workers.py": BY_VALUES,
            "models/by_spark.sql": """
                {{ config(materialized='table', partition_by=['name', 'day', 'id']) }}
                select * from {{ source('src', 'x') }}
            """,
        },
        "drop table src.x",
        "create table src.x (id int, name string, day date) using iceberg",
        f"insert into src.x values {values}",
    )
    made.run("run")
    assert len(own_files(made, "by_workers")) == 4
    by_workers, by_spark = (
        [
            sorted(made.query(sql.format(table=f"dw.{name}")), key=str)
            for sql in (
                "select * from {table}",
                "select partition, record_count, file_count from {table}.partitions",
                "select * from {table} where name is null or id = 4",
            )
        ]
        for name in ("by_workers", "by_spark")
    )
    assert by_workers == by_spark


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "config",
    [
        ', partition_by="bucket(4, id)"',
        ', sort_by="id"',
        ', tblproperties={"write.parquet.bloom-filter-enabled.column.id": "true"}',
        ', tblproperties={"write.parquet.compression-codec": "gzip"}',
        ', tblproperties={"write.object-storage.enabled": "true"}',
    ],
)
def test_what_only_icebergs_own_writer_does_is_left_to_it(
    make_project: Callable[..., DbtProject], config: str
) -> None:
    made = project(make_project, config)
    made.run("run")
    made.query("insert into src.x values (3, 30)")
    made.run("run")
    assert rows(made) == [(1, 10), (2, 20), (3, 30)] and own_files(made) == []
