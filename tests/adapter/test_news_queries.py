"""Queries over new rows: which of them give, run after run, what all rows give at once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dbt.adapters.sparksession.reading.news_queries import (
    AGAIN,
    COUNTED,
    DISTINCT,
    JOINED,
    NUMBERED,
    OUTER,
    RANKED,
    UNSEEN,
    UnreadableQuery,
    problem_of,
    problem_of_unseen,
)
from pyspark.sql import SparkSession

# as the adapter writes them; one that Spark reads and sqlglot can't
NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
TAKING_TWO = ("corr", "covar", "max_by", "min_by", "regr")
PAIR = f"with n as (select * from {NEW}), o as (select * from dw.y version as of 7) "

# query -> what is wrong where its rows are added, and where they are merged by a key
QUERIES: dict[str, tuple[str | None, str | None]] = {
    # each row by itself
    f"select id, v + 1 as v from {NEW} where v > 0": (None, None),
    f"select id, (select count(*) from dw.y) as n from {NEW}": (None, None),
    f"select id from {NEW} union all select -id from {NEW}": (None, None),
    PAIR + "select n.id from n left join o on n.id <=> o.id": (None, None),
    PAIR + "select n.id from o right join n on n.id <=> o.id": (None, None),
    PAIR + "select n.id from n left anti join o on n.id <=> o.id": (None, None),
    PAIR + "select id from n where exists (select 1 from o where o.id = n.id)": (None, None),
    PAIR + "select n.id from n, lateral (select max(v) as m from o where o.id = n.id)": (
        None,
        None,
    ),
    f"select n.id, item from {NEW} as n lateral view explode(n.items) as item": (None, None),
    f"select id, uuid() as name from {NEW} tablesample (10 percent)": (None, None),
    PAIR + "select n.id, o.v from n join (select * from o tablesample (5 rows)) as o on true": (
        None,
        None,
    ),
    PAIR + "select n.id, a.v from (select * from dw.x where id in (select id from n)) as a join n "
    "on a.id = n.id": (None, None),
    f"select * from {NEW} unpivot (v for name in (a, b))": (None, None),
    f"with recursive t as (select id from {NEW} union all select id + 1 from t where id < 3) "
    "select id from t": (None, None),
    f"select id from {NEW} union all select 0 as id where false": (None, None),
    f"select id from {NEW} where name like any ('a%', 'b%') or name ilike some ('c')": (None, None),
    f"select id from {NEW} where id = any (select id from dw.y)": (None, None),
    f"select id, v >>> 1 as v, a?::int as a from {NEW}": (None, None),
    f"from {NEW} |> set v = v >>> 1, a = concat(a, ',') |> drop b, c": (None, None),
    f"from {NEW} |> union all select * from {NEW}": (None, None),
    "select day, count(*) as n from dw.x group by day": (None, None),  # nothing new is read
    # counts
    f"select day, count(*) as n from {NEW} group by day": (COUNTED, COUNTED),
    f"select max(v) as v from {NEW}": (COUNTED, COUNTED),
    f"select window.start as at, count(*) as n from {NEW} group by window(at, '1 hour')": (
        COUNTED,
        COUNTED,
    ),
    f"from {NEW} |> set v = v + 1 |> drop a |> aggregate sum(v) as v group by id": (
        COUNTED,
        COUNTED,
    ),
    f"select count(*) as n from {NEW}; -- all of them": (COUNTED, COUNTED),
    f"from {NEW} |> drop a |> except table dw.y": (DISTINCT, None),
    f"from {NEW} |> union all table dw.y": (AGAIN, None),
    f"select mean(v) as v from {NEW}": (COUNTED, COUNTED),
    f"select id, any(v) as v from {NEW} group by id": (COUNTED, COUNTED),
    f"select n from dw.y, lateral (select count(*) as n from {NEW})": (COUNTED, COUNTED),
    f"select day from {NEW} group by day having count(*) > 1": (COUNTED, COUNTED),
    f"select * from (select a, v from {NEW}) pivot (sum(v) for a in (1, 2))": (COUNTED, COUNTED),
    PAIR + "select o.name, sum(n.v) from n join o on n.id <=> o.id group by o.name": (
        COUNTED,
        COUNTED,
    ),
    f"select id from {NEW} where v = (select max(v) from {NEW})": (COUNTED, COUNTED),
    f"select day, my_udaf(v) from {NEW} group by day": (COUNTED, COUNTED),
    f"select day, count(*) from (select distinct id, day from {NEW}) group by day": (
        COUNTED,
        COUNTED,
    ),
    # pipes
    f"from {NEW} |> where v > 1 |> extend v + 1 as w |> select id, w": (None, None),
    f"from {NEW} |> as n |> left join dw.y as o on n.id = o.id |> select n.id, o.v": (None, None),
    f"from {NEW} |> aggregate count(*) as n group by day": (COUNTED, COUNTED),
    f"from {NEW} |> as n |> aggregate count(*) as n group by day": (COUNTED, COUNTED),
    f"from {NEW} |> as n |> join {NEW} as m on n.id = m.parent": (JOINED, JOINED),
    f"from dw.y |> as o |> left join {NEW} as n on n.id = o.id |> select o.id": (OUTER, OUTER),
    f"from {NEW} |> select distinct id": (DISTINCT, None),
    f"select id from (from {NEW} |> select distinct id, abs(v) -- |>\n) where id > 1": (
        DISTINCT,
        None,
    ),
    f"from {NEW} |> where v > 1 |> tablesample (10 rows)": (RANKED, RANKED),
    # among themselves
    f"select * from (select *, row_number() over (partition by id order by v) as n from {NEW}) "
    "where n = 1": (RANKED, RANKED),
    f"select id from {NEW} qualify row_number() over (partition by id order by v) = 1": (
        RANKED,
        RANKED,
    ),
    f"select id, lag(v) over (order by id) as v from {NEW}": (RANKED, RANKED),
    f"select id from {NEW} order by v limit 3": (RANKED, RANKED),
    f"(select id from {NEW}) limit 3": (RANKED, RANKED),
    f"select id from dw.y except select id from {NEW}": (RANKED, RANKED),
    f"select id from dw.y except select id from dw.x where id in (select id from {NEW})": (
        RANKED,
        RANKED,
    ),
    f"select distinct day from {NEW} order by day limit 1": (RANKED, RANKED),
    PAIR + "select id from o except select o.id from o left semi join n on n.id <=> o.id": (
        RANKED,
        RANKED,
    ),
    f"select id from {NEW} tablesample (10 rows)": (RANKED, RANKED),
    PAIR + "select n.id from o join (select * from n) tablesample (10 rows) on o.id = n.id": (
        RANKED,
        RANKED,
    ),
    f"select id, monotonically_increasing_id() as n from {NEW}": (NUMBERED, NUMBERED),
    f"select 7 + Monotonically_Increasing_ID() as n from (select * from {NEW})": (
        NUMBERED,
        NUMBERED,
    ),
    # once
    f"select distinct id from {NEW}": (DISTINCT, None),
    f"select id from {NEW} group by id": (DISTINCT, None),
    f"select id from {NEW} union select -id from {NEW}": (DISTINCT, None),
    # with each other
    PAIR + "select n.id from n join n as m on n.id <=> m.parent": (JOINED, JOINED),
    PAIR + "select id from n where exists (select 1 from n as m where m.id = n.parent)": (
        JOINED,
        JOINED,
    ),
    PAIR + "select n.id from n left semi join n as m on n.id <=> m.parent": (JOINED, JOINED),
    PAIR + "select n.id, (select sum(v) from (select * from dw.x where id in (select id from n)) "
    "as a where a.id = n.id) as v from n": (JOINED, JOINED),
    # the other side of an outer join
    PAIR + "select o.id, a.v from o left join (select * from dw.x where id in (select id from n)) "
    "as a on a.id = o.id": (OUTER, OUTER),
    PAIR + "select o.id from o left join n on n.id <=> o.id": (OUTER, OUTER),
    PAIR + "select o.id from n right join o on n.id <=> o.id": (OUTER, OUTER),
    PAIR + "select o.id from n full outer join o on n.id <=> o.id": (OUTER, OUTER),
    # rows that aren't new
    PAIR + "select id from o": (AGAIN, None),
    PAIR + "select id from (select * from dw.x where id in (select id from n)) "
    "tablesample (3 rows)": (AGAIN, None),
    f"select id from {NEW} union all select id from dw.y": (AGAIN, None),
    f"select id from {NEW} union all select 0": (AGAIN, None),
    # without `recursive` it is a table that has the name of the CTE
    f"with n as (select id from {NEW} union all select id from n) select id from n": (AGAIN, None),
    f"select id from dw.y where day in (select day from {NEW})": (AGAIN, None),
    f"select day, sum(v) from dw.y where day in (select day from {NEW}) group by day": (
        AGAIN,
        None,
    ),
    f"with d as (select distinct day from {NEW}) "
    "select y.day, sum(y.v) from dw.y as y join d on y.day <=> d.day group by y.day": (AGAIN, None),
    PAIR + "select o.id from o left anti join n on n.id <=> o.id": (AGAIN, None),
}


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_of_new_rows_adds_up_or_is_named(sql: str) -> None:
    found = tuple(problem_of(sql, [NEW], adds) for adds in (True, False))
    assert found == QUERIES[sql]


def test_each_of_sparks_aggregates_is_found(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")
    functions = getattr(registry, "MODULE$")
    names, found = functions.functionSet().iterator(), []
    while names.hasNext():
        name = names.next()
        group = functions.builtin().lookupFunction(name).get().getGroup()
        if group == "agg_funcs" or name.funcName().endswith("_agg"):
            found.append(name.funcName())
    assert len(found) > 70
    for name in found:
        call = f"{name}(v, w)" if name.startswith(TAKING_TWO) else f"{name}(v)"
        assert problem_of(f"select {call} as r from {NEW}", [NEW], True) == COUNTED, name


def test_new_rows_are_found_by_their_text_alone() -> None:
    bare = "(select * from dw.x version as of 2)"
    assert problem_of(f"select count(*) from {bare}", [NEW], True) is None
    assert problem_of(f"select count(*) from {bare}", [NEW, bare], True) == COUNTED


def test_a_query_that_cannot_be_parsed_is_an_error() -> None:
    with pytest.raises(UnreadableQuery, match=re.escape("Expecting")):
        problem_of(f"select (from {NEW}", [NEW], True)


@pytest.mark.parametrize(
    "sql",
    [f"from {NEW} |> union all values (1)", f"select id from {NEW} |> limit 3"],
)
def test_pipes_that_the_parser_does_not_know_are_an_error(sql: str) -> None:
    with pytest.raises(UnreadableQuery, match=re.escape("It has pipes (|>)")):
        problem_of(sql, [NEW], True)


UNSEEN_QUERIES = {
    NEW: None,
    f"select id, upper(v) as v from {NEW} where id > 1": None,
    f"with u as (select id as key, v from {NEW}) select key as id from u": None,
    f"select key from (select id as key from {NEW}) where key > 1": None,
    f"select id from (select v as id from {NEW}) where id > 1": UNSEEN,
    f"select u.*, y.name from {NEW} as u left join dw.y as y on y.k = u.k": None,
    f"select u.*, y.n from {NEW} as u left join (select k, n from dw.y where n > 1) as y "
    "on y.k = u.k": None,
    f"select * from {NEW} where v > 1": UNSEEN,
    f"select * from (select * from {NEW}) where id > 1 or v > 1": UNSEEN,
    f"with u as (select * from {NEW}), w as (select * from u) select * from w where v > 1": UNSEEN,
    f"select u.* from {NEW} as u join dw.y as y on y.k = u.k": UNSEEN,
    f"select u.* from {NEW} as u left semi join dw.y as y on y.k = u.k": UNSEEN,
    f"select u.* from {NEW} as u qualify row_number() over (partition by id order by v) = 1":
        UNSEEN,
}  # fmt: skip


@pytest.mark.parametrize("sql", UNSEEN_QUERIES)
def test_a_model_that_looks_into_itself_holds_all_that_it_found(sql: str) -> None:
    query = f"select * from {sql}" if sql == NEW else sql
    assert problem_of_unseen(query, [NEW], ["ID"]) == UNSEEN_QUERIES[sql]
