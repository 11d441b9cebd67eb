"""Queries around macros of joins and streams: which of them give, run after run, what all rows
give, and which are refused."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.read_plans import GivenRows
from dbt.adapters.sparksession.reading.given_queries import (
    LEFT_OUT,
    NOT_ALL,
    OF_A_RUN,
    problem_of_given,
    problem_of_index,
)
from dbt.adapters.sparksession.reading.news_queries import AGAIN

from tests.support.dbt_project import REPO, DbtProject

# what the macros give, which reads what is new
JOIN = "select x.id, x.k, x.v from (select * from dw.x) as x join dw.y on y.k = x.k"
UPSERTS = "select world, id, max(v) as v from (select * from dw.x) as x group by world, id"
APPENDS = "select id, v from (select * from dw.x) as changed"
NEW = "(select * from dw.x)"
GIVEN = {
    GivenRows(JOIN, "latest_join"),
    GivenRows(UPSERTS, "upsert_stream", ("world", "id")),
    GivenRows(APPENDS, "append_stream"),
}
OF_JOIN = OF_A_RUN.format(macro="latest_join")
OF_UPSERTS = LEFT_OUT.format(macro="upsert_stream")
QUERIES = {
    JOIN: None,
    f"with j as ({JOIN}) select * from j": None,
    f"with j as ({JOIN}) select j.*, v + 1 as w from j where v > 1": None,
    f"with j as ({JOIN}) select j.*, y.w from j left join dw.y as y on y.k = j.k": None,
    f"select id from ({JOIN}) as j -- count(*)": None,
    f"select id, k, v from ({JOIN}) union all select id, k, v from {NEW}": None,
    f"select id, sum(v) as v from ({JOIN}) group by id": OF_JOIN,
    f"with j as ({JOIN}) select *, row_number() over (partition by id order by v) as n from j":
        OF_JOIN,
    f"with j as ({JOIN}) select * from j where v = (select max(v) from j)": OF_JOIN,
    f"with j as ({JOIN}) select a.* from j as a join j as b on a.id = b.k": OF_JOIN,
    f"select j.* from ({JOIN}) as j join {NEW} as n on n.id = j.k": OF_JOIN,
    f"select * from ({JOIN}) limit 10": OF_JOIN,
    f"select * from ({UPSERTS}) where id > 1 and world <> 2": None,
    f"select * from ({UPSERTS}) where v > 1": OF_UPSERTS,
    f"select s.* from ({UPSERTS}) as s join dw.y as y on y.id = s.id": OF_UPSERTS,
    f"select max(v) from ({UPSERTS})": OF_A_RUN.format(macro="upsert_stream"),
    f"select * from ({APPENDS}) where v > 1": None,
    f"select count(*) from ({APPENDS})": OF_A_RUN.format(macro="append_stream"),
    f"select id, v from ({APPENDS}) union all select id, v from dw.y": AGAIN,
    # not seen: what a query has of none of them
    "select count(*) from dw.x": None,
}  # fmt: skip

INDEX = "select distinct k, at, id from (select *, '+I' as row_kind from dw.x where v > 1)"
OF_INDEX = {
    INDEX: None,
    f"with i as ({INDEX}) select * from i": None,
    f"with i as ({INDEX}) select i.id, at, k from i -- where k > 1": None,
    f"select * from ({INDEX}) where k <> 2": NOT_ALL,
    f"with i as ({INDEX}) select i.* from i join dw.y using (k)": NOT_ALL,
    f"with i as ({INDEX}) select i.* from i, dw.y where y.k = i.k": NOT_ALL,
    f"select k, date_trunc('day', at) as at, id from ({INDEX})": NOT_ALL,
    f"select k as id, at, id as k from ({INDEX})": NOT_ALL,
    f"{INDEX} limit 5": NOT_ALL,
    f"{INDEX} union all select k, at, id from dw.y": NOT_ALL,
    "select k, at, id from dw.y": None,  # it reads nothing new
}


@pytest.mark.parametrize("sql", OF_INDEX)
def test_an_index_holds_all_that_its_macro_gives(sql: str) -> None:
    text = INDEX.partition("from ")[2]
    assert problem_of_index(sql, [text]) == OF_INDEX[sql]


@pytest.mark.parametrize("sql", QUERIES)
def test_what_is_made_of_the_rows_of_a_run_is_looked_at(sql: str) -> None:
    given = {rows for rows in GIVEN if rows.text in sql}
    assert problem_of_given(sql, given, [NEW], adds=APPENDS in sql) == QUERIES[sql]


def test_models_around_such_macros_are_refused(make_project) -> None:
    files = {
        f"macros/{path.name}": path.read_text(encoding="utf-8")
        for folder in ("joins", "streams")
        for path in sorted((REPO / "macros" / folder).glob("*.sql"))
    }
    joined = """({{ many_to_one_join(
        left={'relation': source('src', 'x'), 'key': 'id', 'columns': ['id', 'k', 'v']},
        right={'relation': source('src', 'y'), 'key': 'k', 'columns': {'v': 'right_v'}},
        on={'k': 'k'}, kind='left',
    ) }})"""
    stream = "({{ upsert_stream(rows=source('src', 'x'), key='id', columns='v') }})"
    folded = "{{ config(materialized='folded') }}"
    adds = "{{ config(materialized='incremental', incremental_strategy='append') }}"
    files |= {
        "models/filtered.sql": f"{folded} select * from {joined} where v > 1",
        "models/ranked.sql": f"{folded} select *, row_number() over (order by v) as n from "
        f"{joined}",
        # however its SQL comes to have the macro's rows
        "models/in_branch.sql": f"{folded} {{% if true %}} select *, count(*) over () as n from "
        f"{joined} {{% endif %}}",
        "models/in_set.sql": f"{folded} {{% set rows %}}{joined}{{% endset %}} "
        "select *, lag(v) over (order by v) as n from {{ rows }}",
        "macros/wide_rows.sql": f"{{% macro wide_rows() %}}{joined}{{% endmacro %}}",
        "models/by_macro.sql": f"{folded} select * from {{{{ wide_rows() }}}} limit 1",
        "models/streamed.sql": f"{adds} select * from {stream} where id > 0",
        "models/left_out.sql": f"{adds} select * from {stream} where v > 1",
        "models/sources.yml": "sources: [{name: src, tables: [{name: x}, {name: y}]}]",
    }
    project: DbtProject = make_project(files)
    project.query("create namespace if not exists src")
    for name in "xy":
        project.query(f"create table src.{name} (id int, k int, v int) using iceberg")
        project.query(f"insert into src.{name} values (1, 1, 1), (2, 2, 2)")
    of_a_run = {"ranked", "in_branch", "in_set", "by_macro"}
    for _ in range(2):
        results = project.run("run", expect_ok=False).results
        failed = {name for name, result in results.items() if result.status == "error"}
        assert failed == {*of_a_run, "left_out"}
        for name in of_a_run:
            assert "aggregates or ranks what many_to_one_join(..)" in results[name].message
        project.query("update src.x set v = v + 1 where id = 1")
    assert "upsert_stream reads" in results["left_out"].message
    assert project.column("select id from dw.filtered order by id") == [1, 2]
