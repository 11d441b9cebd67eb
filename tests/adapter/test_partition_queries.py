"""Queries over changed partitions: which of them make a partition of its own rows alone."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.reading.news_queries import NUMBERED
from dbt.adapters.sparksession.reading.partition_queries import (
    COUNTED,
    JOINED,
    MOVED,
    RANKED,
    problem_of_partitions,
)

NEW = "(select * from dw.x version as of 3 where day in (date '2026-03-01'))"
OTHER = "(select * from dw.y version as of 5 where day in (date '2026-03-01'))"
PAIR = f"with x as (select * from {NEW}), y as (select id, day as cut, v from {OTHER}) "

QUERIES: dict[str, str | None] = {
    f"select id, day, v from {NEW} where v > 0": None,
    f"select day, sum(v) as v from {NEW} group by day": None,
    f"select 2 * sum(v) as v, day as d from {NEW} group by d": None,
    f"select day as d, sum(v) as v from {NEW} group by 1": None,
    f"select day, id, sum(v) as v from {NEW} group by all": None,
    f"select cast(day as date) as d, sum(v) as v from {NEW} group by cast(day as date)": None,
    f"select id, row_number() over (partition by day, id order by v) as n, day from {NEW}": None,
    f"select distinct day, id from {NEW}": None,
    f"select day, count(*) over w as n, rank() over (u order by v) as r from {NEW} "
    "window W as (partition by day), u as w": None,
    f"select day, count(*) over w as n from {NEW} window w as (partition by id)": RANKED,
    f"select day, n from (select day, sum(v) over w as n from {NEW} window w as (order by v)) "
    "window w as (partition by day)": RANKED,
    f"from {NEW} |> as x |> select distinct x.day, x.id": None,
    f"select day, sum(v) from (select day, v from {NEW} union all select day, v from {OTHER}) "
    "group by day": None,
    PAIR + "select x.day, y.v from x join y on x.day <=> y.cut and x.id = y.id": None,
    PAIR + "select x.day, y.v from x, y where x.day = y.cut": None,
    PAIR + "select day, y.v from x join y on day = cut": None,
    PAIR + "select x.day, sum(p.price) from x join dw.price as p on p.id = x.id group by x.day": (
        None
    ),
    "select day, count(*) from dw.x group by id, day": None,
    PAIR + "select y.cut as day, x.v from x join y on x.day = y.cut": None,
    PAIR + "select p.day, x.v from x join dw.p as p on p.day = x.day": None,
    f"select x.day, p.v from dw.p as p join {NEW} as x on p.id = x.id": None,
    f"select day, v - (select max(b.v) from {NEW} as b where b.day = a.day) as v from {NEW} as a":
        None,
    f"select day, v from {NEW} as a where exists "
    f"(select 1 from {NEW} as b where b.day = a.day and b.id = a.id)": None,
    f"select day, sum(v) as v from dw.p where day in (select day from {NEW}) group by day": None,
    f"select cast(date_trunc('hour', at) as date) as day, sum(v) from (select at, v from {NEW}) "
    "group by date_trunc('hour', at)": None,
    f"select id, day from {NEW} where day in (select day from {NEW})": None,
    PAIR + "select coalesce(x.day, y.cut) as day, y.v from x full join y on x.day = y.cut": None,
    f"with d (cut, v) as (select day, sum(v) from {NEW} group by day) select cut as day, v from d":
        None,
    f"select t.b as day, t.a as v from (select v, day from {NEW}) as t (a, b)": None,
    f"select * from (select id, day, v from {NEW}) pivot (sum(v) for id in (1 as a, 2 as b))": None,
    f"from {NEW} |> pivot (sum(v) for id in (1 as a)) |> select day, a as v": None,
    f"select p.id, cast(p.cut as date) as day from (select id, day, day as cut, v from {NEW}) "
    "pivot (max(day) for v in (1 as a)) as p": None,
    # over several partitions
    f"select cast(a as date) as day, b from {NEW} pivot (max(day) as d for id in (1 as a, 2 as b))":
        COUNTED,
    f"with d (day, k) as (select id, day from {NEW}) select day, count(*) from d group by day":
        COUNTED,
    f"select coalesce(day, cut) as day, sum(v) from {NEW} group by coalesce(day, cut)": COUNTED,
    f"select day, sum(v) as v from dw.p where day not in (select day from {NEW}) group by day":
        JOINED,
    f"from {NEW} |> as x |> join {OTHER} as y on x.id = y.id |> select x.day, y.v": JOINED,
    f"select day, v from dw.p where id in (select id from {NEW})": JOINED,
    f"select day, v from {NEW} as a where id in (select id from {NEW})": JOINED,
    f"select day, v from {NEW} as a where exists (select 1 from {NEW} as b where b.id = a.id)":
        JOINED,
    PAIR + "select x.day, y.v from x join y on x.day = y.cut or x.id = y.id": JOINED,
    PAIR + "select y.cut as day, x.v from x left join y on x.day = y.cut": MOVED,
    f"select p.day, s.v from (select id, sum(v) as v from {NEW} group by id, day) as s "
    "join dw.p as p on p.id = s.id": MOVED,
    f"select id, v from {NEW} except select id, v from {OTHER}": RANKED,
    f"select p.day, x.v from {NEW} as x join dw.p as p on p.id = x.id": MOVED,
    f"select k as day, day as k, v from {NEW}": MOVED,
    f"select t.day, t.k from (select k, day from {NEW}) as t (day, k)": MOVED,
    f"select n as day, day as k from (select day, count(*) as n from {NEW} group by day)": MOVED,
    f"select 1 as day, day as k from {NEW}": MOVED,
    f"select day as d, v from {NEW}": None,
    f"select id, sum(v) as v, max(day) as day from {NEW} group by id": COUNTED,
    f"select sum(v) as v from {NEW}": COUNTED,
    f"select try_sum(v) as v from {NEW}": COUNTED,
    f"select month(day) as month, sum(v) as v from {NEW} group by month(day)": COUNTED,
    f"select day, sum(v) as v from {NEW} group by rollup (day)": COUNTED,
    f"select month, sum(v) from (select month(day) as month, v from {NEW}) group by month": MOVED,
    f"select day, id, v - (select avg(v) from {NEW}) as v from {NEW}": COUNTED,
    f"select day, sum(v) over (order by day) as total from {NEW}": RANKED,
    f"select day, lag(v) over (partition by id order by day) as before from {NEW}": RANKED,
    f"with d as (select day as cut, id, v from {NEW}) "
    "select cut as day from d qualify row_number() over (partition by id order by cut) = 1": RANKED,
    f"select day, v from {NEW} order by v limit 3": RANKED,
    f"select day, v from {NEW} tablesample (3 rows)": RANKED,
    f"select day, monotonically_increasing_id() as n from {NEW}": NUMBERED,
    f"select monotonically_increasing_id() as n from (select id from {NEW})": NUMBERED,
    PAIR + "select x.day, y.v from x join y on x.id = y.id": JOINED,
    PAIR + "select x.day, y.v from x join y using (id)": JOINED,
}  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_of_changed_partitions_keeps_to_each_of_them_or_is_named(sql: str) -> None:
    found = problem_of_partitions(sql, [NEW, OTHER], "day")
    wanted = QUERIES[sql]
    assert found == wanted if wanted is None else str(found).startswith(wanted.format(by="day"))
