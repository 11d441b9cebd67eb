"""Models whose rows are looked up in a table that changes, once rows are taken back: what takes a
row back finds something else than the row did."""

from __future__ import annotations

import pytest

CHANGES = "{{ new_changes(source('src', 'events'), by='id') }} as e"
LOG = "{{ new_rows(source('src', 'log')) }} as e"
RATES = "{{ source('src', 'rates') }} as r on r.k = e.k"
SUMS = "materialized='folded', unique_key='k', fold={'row_kind': 'row_kind', 'count_rows': true, "
SUMS += "'aggregates': {'total': 'sum'}}"
LAST = "materialized='folded', unique_key='id', fold={'row_kind': 'row_kind', 'sequence': 'at'}"
MERGED = "materialized='incremental', unique_key='v'"
TOTAL = "select e.k, e.v * r.rate as total, e.row_kind"
# model -> its config, its query, and what the query would give of all rows
SUMS_OF_ALL = "select e.k, sum(e.v * r.rate) as total from src.events as e join src.rates as r on "
SUMS_OF_ALL += "r.k = e.k group by e.k"
MODELS = {
    "sums": (SUMS, f"{TOTAL} from {CHANGES} join {RATES}", SUMS_OF_ALL),
    "sums_of_log": (SUMS, f"{TOTAL} from {LOG} join {RATES}", SUMS_OF_ALL),
    "sums_by_sign": (
        "materialized='folded', unique_key='k', fold={'aggregates': {'total': 'sum'}}",
        "select e.k, if(e.row_kind in ('+I', '+U'), 1, -1) * e.v * r.rate as total "
        f"from {LOG} join {RATES}",
        SUMS_OF_ALL,
    ),
    "last_of_known": (
        LAST,
        f"select e.id, e.v, e.at, e.row_kind from {CHANGES} join {RATES} and r.rate > 1",
        "select e.id, e.v, e.at from src.events as e join src.rates as r on r.k = e.k and rate > 1",
    ),
    "merged": (
        MERGED,
        f"select e.v, e.id from {CHANGES} join {RATES} and r.rate > 1 where e.sign > 0",
        "select e.v, e.id from src.events as e join src.rates as r on r.k = e.k and rate > 1",
    ),
    # a log of changes, of which the sum is looked at
    "log": (
        "materialized='incremental', incremental_strategy='append'",
        f"{TOTAL} from {CHANGES} join {RATES}",
        "select k, total, '+I' as row_kind from (select e.k, e.v * r.rate as total from src.events "
        "as e join src.rates as r on r.k = e.k)",
    ),
    # beside its own table
    "of_own": (
        LAST,
        f"select e.id, e.v, e.at, e.row_kind from {CHANGES} where e.v >= (select max(v) - 5 "
        "from {{ source('src', 'events') }})",
        "select id, v, at from src.events where v >= (select max(v) - 5 from src.events)",
    ),
}
# statements, and whether all rows are as they would be made again
HELD = {  # how the rows that there are come of what a table holds
    "log": "select {} from (select k, total, '+I' as row_kind from dw.{} group by k, total "
    "having sum(if(row_kind in ('+I', '+U'), 1, -1)) > 0)"
}
STEPS = (
    ("events +I", "values (1, 1, 10, 1), (2, 1, 20, 1), (3, 2, 13, 1)", True),
    ("rates", "values (1, 1), (2, 3)", False),  # no row is made again for it alone
    ("events +I", "values (4, 2, 17, 1)", False),
    ("events -D", "select * from src.events where id = 1", True),
    ("events +U", "select id, k, 18, 2 from src.events where id = 3", True),
)


def statements(kind: str, rows: str) -> list[str]:
    """SQL that changes a table, and the log of its changes."""
    if kind == "rates":
        return [f"insert overwrite src.rates {rows}"]
    row_kind = kind[-2:]
    log = f"insert into src.log select *, '{row_kind}' from ({rows}) as t(id, k, v, at)"
    if row_kind == "+I":
        return [log, f"insert into src.events {rows}"]
    ids = f"select id from ({rows}) as t(id, k, v, at)"
    gone = f"delete from src.events where id in ({ids})"
    if row_kind == "-D":
        return [log, gone]
    before = f"insert into src.log select *, '-U' from src.events where id in ({ids})"
    kept = f"create table src.kept using iceberg as {rows}"
    return [before, log, kept, gone, "insert into src.events select * from src.kept"]


@pytest.mark.in_turn
def test_rows_that_are_taken_back_after_a_look_up_has_changed(make_project) -> None:
    tables = "[{name: events}, {name: log}, {name: rates}]"
    files = {"models/sources.yml": f"sources: [{{name: src, tables: {tables}}}]"}
    for name, (config, query, _) in MODELS.items():
        files[f"models/{name}.sql"] = f"{{{{ config({config}) }}}} {query}"
    project = make_project(files)
    project.query("create namespace if not exists src")
    project.query("create table src.events (id int, k int, v int, at int) using iceberg")
    project.query(
        "create table src.log (id int, k int, v int, at int, row_kind string) using iceberg"
    )
    project.query(
        "create table src.rates using iceberg as select 1 as k, 2 as rate union all select 2, 2"
    )
    for kind, rows, is_whole in STEPS:
        for statement in statements(kind, rows):
            project.query(statement)
        results = project.run("run").results
        for name, (_, _, all_rows) in MODELS.items() if is_whole else ():
            expected = project.query(f"select * from ({all_rows}) order by all")
            held = project.query(
                HELD.get(name, "select {} from dw.{}").format(", ".join(expected[0]), name)
                + " order by all"
            )
            assert (kind, name, held) == (kind, name, expected), results[name].message
