"""How the files of folded tables lie: what a read opens, and that a fold needs no shuffle."""

from __future__ import annotations

import re

import pytest
from dbt.adapters.sparksession.connections import Handle
from dbt.adapters.sparksession.keyed.tables import GROUPED_READS
from dbt.adapters.sparksession.session import own_session
from pyspark.sql import SparkSession

from tests.support.dbt_project import DbtProject
from tests.support.plans import nodes, opened_files, ran, settings, shuffles

KEYS, PARTS, RUNS = 20_000, 4, 3  # a file's size is looked at every 1,000 rows
# as dwd_trade__order_wide: groups of several inputs, sums, and a condition over the fold
WIDE = """
    {{{{ config(
        materialized='folded',
        unique_key='id',
        tblproperties={{'write.target-file-size-bytes': '4096'}},
        fold={{
            'row_kind': 'kind',
            'sequence_groups': {{
                'of_one': {{'sequence': ['one'], 'columns': ['a'], 'on_delete': 'remove_row'}},
                'of_two': {{'sequence': ['two'], 'columns': ['b']}},
            }},
            'aggregates': {{'total': 'sum'}},
            'on_delete': 'retract',
            'keep_when': 'one is not null',
            'partition_by': '{}',
        }},
    ) }}}}
    select cast(id as decimal(20, 0)) as id, '+U' as kind, batch as one, batch as two,
        concat('a', batch) as a, concat('b', id) as b, 1 as total
    from {{{{ new_rows(source('src', 'events')) }}}}
"""
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: events}]
    """,
    "models/by_hash.sql": WIDE.format(f"bucket({PARTS}, id)"),
    "models/by_range.sql": WIDE.format(f"truncate({KEYS // PARTS}, id)"),
    "models/reader.sql": """
        {{ config(materialized='table') }}
        select id, total from {{ pinned(ref('by_hash')) }}
    """,
    "models/plain.sql": f"""
        {{{{ config(
            materialized='table',
            partition_by=['bucket({PARTS}, id)', 'days(time)'],
            sort_by='id',
            tblproperties={{'write.target-file-size-bytes': '4096'}},
        ) }}}}
        select id, timestamp '2026-03-01 10:00:00' as time
        from {{{{ source('src', 'events') }}}} where batch = 0
    """,
}
POINT = "id = 7777"
WITHIN = "id between 7000 and 7099"  # of one part of by_range
ACROSS = "id >= 4990 and id < 5010"  # of two


class Tables:
    """A project with a folded table for each layout."""

    def __init__(self, project: DbtProject) -> None:
        self.project = project
        self.session: SparkSession = own_session(project.credentials()).session
        self.shuffles: dict[str, list[str]] = {}  # of what was written last: table -> exchanges

    def run(self, **variables: object) -> None:
        """dbt run; notes how each table was written."""
        execute = Handle.execute

        def noted(handle: Handle, sql: str, bindings: object = None) -> None:
            execute(handle, sql, bindings)
            written = re.search(r"^\s*(?:create or replace table|insert into) dw\.(\w+)", sql, re.M)
            if written:
                self.shuffles[written[1]] = shuffles(list(nodes(handle._frame)))

        self.shuffles.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Handle, "execute", noted)
            self.project.run("run", vars=variables)

    def files(self, model: str) -> int:
        return self.project.column(f"select count(*) from dw.{model}__runs.files")[0]

    def opened(self, model: str, where: str) -> int:
        """Files that a read opens; its rows have to be those of the last run."""
        found, plan = ran(self.session, f"select id, a, b, total from dw.{model} where {where}")
        wanted = self.project.column(f"select id from src.events where {where} and batch = 0")
        assert sorted(map(tuple, found)) == [
            (item, f"a{RUNS - 1}", f"b{item}", RUNS) for item in sorted(wanted)
        ]
        return opened_files(plan)

    def all_opened(self, model: str) -> list[int]:
        return [self.opened(model, where) for where in (POINT, WITHIN, ACROSS)]


@pytest.fixture(scope="module")
def tables(make_project) -> Tables:
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.events (id bigint, batch int) using iceberg")
    tables = Tables(project)
    for batch in range(RUNS):
        project.query(f"insert into src.events select id, {batch} from range({KEYS})")
        tables.run()
    return tables


@pytest.mark.in_turn
def test_the_fold_of_a_bucketed_table_needs_no_shuffle(tables: Tables):
    def exchanges(model: str) -> list[str]:
        rows, plan = ran(
            tables.session, f"select count(*), sum(total) from (select * from {model})"
        )
        assert tuple(rows[0]) == (KEYS, RUNS * KEYS)
        return shuffles(plan)[1:]  # but for that of the count itself

    assert exchanges("dw.by_hash") == ["Exchange"]
    with settings(tables.session, GROUPED_READS):
        assert exchanges("dw.by_hash") == []
        # Spark doesn't know the parts of truncate
        assert exchanges("dw.by_range") == ["Exchange"]
    # a model that reads folded models alone has the settings by itself
    assert tables.shuffles["reader"] == []


def test_a_table_is_sorted_within_partitions_that_transforms_make(tables: Tables):
    assert tables.project.column("select count(*) from dw.plain.files")[0] > 2 * PARTS
    plans = {w: ran(tables.session, f"select * from dw.plain where {w}") for w in (POINT, WITHIN)}
    assert {w: (len(rows), opened_files(plan)) for w, (rows, plan) in plans.items()} == {
        POINT: (1, 1),
        WITHIN: (100, PARTS),
    }


def test_a_read_of_a_key_or_of_a_range_opens_few_files(tables: Tables):
    files = {model: tables.files(model) for model in ("by_hash", "by_range")}
    assert min(files.values()) > 4 * RUNS * PARTS
    # of each run one file; neighbours lie in every bucket, but in one file of it
    assert tables.all_opened("by_hash") == [RUNS, RUNS * PARTS, RUNS * PARTS]
    assert tables.all_opened("by_range") == [RUNS, RUNS, 2 * RUNS]

    tables.run(merge_runs=True)

    assert all(tables.files(model) > files[model] / RUNS - 1 > PARTS for model in files)
    assert tables.all_opened("by_hash") == [1, PARTS, PARTS]
    assert tables.all_opened("by_range") == [1, 1, 2]
    # rows of a bucket are folded where they are read, and go to its file by one shuffle
    assert tables.shuffles["by_hash__runs"] == ["Exchange"]
