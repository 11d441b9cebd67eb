"""Where the rows of a frame lie in a table's files: read there they are the rows of the frame."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from dbt.adapters.sparksession.row_places import row_places
from dbt.adapters.sparksession.session import own_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

MODEL = (
    "{{ config(materialized='incremental') }} select id, v from {{ new_rows(source('src', 'x')) }}"
)
# name -> what a frame takes of the table, whose rows all lie in its files
TAKEN: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all": lambda rows: rows,
    "some rows": lambda rows: rows.where("v % 3 = 1 and id > 2"),
    "some columns": lambda rows: rows.where("v > 20").select("v", "id"),
    "none": lambda rows: rows.where("id < 0"),
}
# name -> what has no place, or other columns than lie there
ELSEWHERE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a computed column": lambda rows: rows.select("id", (F.col("v") + 1).alias("v")),
    "a column by another name": lambda rows: rows.select(F.col("v").alias("id"), "v"),
    "two columns that change their names": lambda rows: rows.selectExpr("v as id", "id as v"),
    "a cast": lambda rows: rows.select("id", F.col("v").cast("bigint")),
    "a join": lambda rows: rows.join(rows.select(F.col("id").alias("other")), F.expr("id = other")),
    "a semi join": lambda rows: rows.join(rows.sparkSession.range(9), "id", "left_semi"),
    "a union": lambda rows: rows.union(rows),
    "an aggregate": lambda rows: rows.groupBy("id").agg(F.max("v").alias("v")),
    "rows of no table": lambda rows: rows.sparkSession.range(3),
    "a checkpoint": lambda rows: rows.localCheckpoint(),
}


@pytest.fixture
def made(make_project: Callable[..., DbtProject]) -> DbtProject:
    values = ", ".join(f"({number}, {number * 10})" for number in range(1, 21))
    made = project_with_source(
        make_project, {"models/m.sql": MODEL}, f"insert into src.x values {values}"
    )
    made.run("run")
    made.query("insert into src.x values (101, 1010), (102, 1020)")
    made.run("run")
    return made


def session_of(made: DbtProject) -> SparkSession:
    return own_session(made.credentials()).session


def read_there(frame: DataFrame) -> list[tuple]:
    """The rows of a frame as its table's files have them at their places, sorted."""
    places = row_places(frame, ["id"])
    assert places is not None
    names = [field["name"] for field in json.loads(places.schema)["fields"]]
    assert set(frame.columns) <= set(names)
    found = []
    for path, number, key in places.frame.collect():
        file = pq.read_table(path.removeprefix("file:"), partitioning=None)
        row = file.slice(number, 1).to_pylist()[0]
        assert row["id"] == key
        found.append(tuple(row[name] for name in frame.columns))
    return sorted(found)


def rows_of(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_rows_are_those_of_their_places_and_what_has_no_place_has_none(made: DbtProject) -> None:
    rows = session_of(made).table("lake.dw.m")
    for name, taken in TAKEN.items():
        assert read_there(taken(rows)) == rows_of(taken(rows)), name
    for name, taken in ELSEWHERE.items():
        assert row_places(taken(rows), []) is None, name
    [first] = made.column("select snapshot_id from dw.m.snapshots order by committed_at limit 1")
    as_of = session_of(made).read.option("versionAsOf", first).table("lake.dw.m")
    assert len(read_there(as_of)) == 20


def test_deleted_rows_have_no_places_and_rewritten_rows_have_others(made: DbtProject) -> None:
    made.query("alter table dw.m set tblproperties ('write.delete.mode' = 'merge-on-read')")
    made.query("delete from dw.m where id in (3, 4, 102)")
    rows = session_of(made).table("lake.dw.m")
    assert rows.count() == 19
    assert read_there(rows) == rows_of(rows)
    made.query("alter table dw.m add column more string")
    made.query("insert into dw.m values (200, 1, 'later')")
    both = session_of(made).table("lake.dw.m").select("id", "v")
    assert read_there(both) == rows_of(both)


def test_files_elsewhere_or_of_another_form_are_left_to_spark(made: DbtProject) -> None:
    rows = session_of(made).table("lake.dw.m")
    assert row_places(rows, []) is not None
    made.query("alter table dw.m set tblproperties ('write.data.path' = '/tmp/elsewhere')")
    assert row_places(session_of(made).table("lake.dw.m"), []) is None


def test_a_schema_names_the_columns_with_their_ids(made: DbtProject) -> None:
    places = row_places(session_of(made).table("lake.dw.m"), ["v"])
    assert places is not None
    assert places.frame.columns == ["_file", "_pos", "v"]
    assert [(field["id"], field["name"]) for field in json.loads(places.schema)["fields"]] == [
        (1, "id"),
        (2, "v"),
    ]


def test_the_new_rows_of_a_python_model_have_places(
    make_project: Callable[..., DbtProject],
) -> None:
    code = """
        from dbt.adapters.sparksession.row_places import row_places
        from pyspark.sql import functions as F

        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append")
            rows = dbt.new_rows(dbt.source("src", "x"))
            places = row_places(rows.where("id > 0"), ["id"])
            found = -1 if places is None else places.frame.count()
            return rows.withColumn("places", F.lit(found))
    """
    made = project_with_source(
        make_project, {"models/m.py": code}, "insert into src.x values (1, 10), (2, 20)"
    )
    made.run("run")
    made.query("insert into src.x values (3, 30)")
    made.run("run")
    rows = made.query("select id, places from dw.m order by id")
    assert [tuple(row.values()) for row in rows] == [(1, 2), (2, 2), (3, 1)]
