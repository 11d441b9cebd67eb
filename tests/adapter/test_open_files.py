"""How rows come to the files of partitions: a task holds one file open at a time, whatever the
number of partitions, and a file's rows lie in the order that the model asks for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject
from tests.support.plans import nodes, shuffles

DAYS = 40
ROWS = f"""
    select id % {DAYS} as day, cast(hash(id) as bigint) as id, current_catalog() as catalog
    from range(0, 4000, 1, 4)
"""
SORTED = "partition_by='day', sort_by='id'"
MODELS = {
    "models/sorted.sql": f"{{{{ config(materialized='table', {SORTED}) }}}} {ROWS}",
    "models/unsorted.sql": f"{{{{ config(materialized='table', partition_by='day') }}}} {ROWS}",
    "models/rewritten.sql": f"""
        {{{{ config(
            materialized='incremental', incremental_strategy='replace_partitions', {SORTED}
        ) }}}}
        select day, id, catalog from {{{{ changed_partitions(ref('unsorted'), by='day') }}}}
    """,
    "models/added.sql": f"""
        {{{{ config(materialized='incremental', incremental_strategy='append', {SORTED}) }}}}
        select day, id, catalog from {{{{ new_rows(ref('unsorted')) }}}}
    """,
    "models/chosen.sql": f"""
        {{{{ config(
            materialized='table',
            partition_by='day',
            tblproperties={{'write.spark.fanout.enabled': 'true'}},
        ) }}}} {ROWS}
    """,
}
FANOUT, DISTRIBUTION = "write.spark.fanout.enabled", "write.distribution-mode"


@pytest.fixture(scope="module")
def built(make_project: Any) -> DbtProject:
    project = make_project(MODELS)
    project.run("run")
    return project


def properties(project: DbtProject, table: str) -> dict[str, str]:
    rows = project.query(f"show tblproperties dw.{table}")
    return {row["key"]: row["value"] for row in rows if row["key"] in (FANOUT, DISTRIBUTION)}


def rows_out_of_order(project: DbtProject, table: str) -> int:
    """Rows whose id is less than that of the row before it in the file."""
    [count] = project.column(
        "select count_if(id < before) from (select id, lag(id) over (partition by _file "
        f"order by _pos) as before from dw.{table})"
    )
    return count


def files_by_day(project: DbtProject, table: str) -> Counter[int]:
    return Counter(project.column(f"select partition.day from dw.{table}.files"))


def test_sorted_tables_close_each_file_and_keep_their_order(built: DbtProject) -> None:
    for table in ("sorted", "rewritten"):
        assert properties(built, table) == {FANOUT: "false", DISTRIBUTION: "none"}
        assert rows_out_of_order(built, table) == 0
        files = files_by_day(built, table)
        # a day lies in two files at most: it may begin in one task and end in the next
        assert len(files) == DAYS and max(files.values()) <= 2


def test_tables_without_an_order_have_a_file_a_day(built: DbtProject) -> None:
    assert properties(built, "unsorted") == {FANOUT: "false"}
    assert set(files_by_day(built, "unsorted").values()) == {1}


def test_what_a_model_sets_itself_stays(built: DbtProject) -> None:
    assert properties(built, "chosen") == {FANOUT: "true"}
    # rows are added as they come: Iceberg's own way
    assert properties(built, "added") == {}


def test_sorted_rows_are_sent_around_once(built: DbtProject) -> None:
    spark = own_session(built.credentials()).session
    frame = spark.sql(
        "insert into dw.sorted replace where true select * from (select * from dw.unsorted) "
        "order by day, id"
    )
    assert len(shuffles(list(nodes(frame)))) == 1


def test_rewritten_days_keep_their_order(built: DbtProject) -> None:
    built.query("insert into dw.unsorted select 7, cast(-id as bigint), 'x' from range(0, 500)")
    built.run("run", "--select", "rewritten")
    assert rows_out_of_order(built, "rewritten") == 0
    [count] = built.column("select count(*) from dw.rewritten where day = 7")
    assert count == 4000 // DAYS + 500
