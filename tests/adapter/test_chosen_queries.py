"""Queries over rows that new rows choose: which of them give, run after run, what all rows give."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.reading.chosen_queries import (
    ABSENT,
    COUNTED,
    FILTERED,
    ITSELF,
    KEYED,
    LOOKED_UP,
    RANKED,
    TWICE,
    problem_of_choice,
)
from dbt.adapters.sparksession.reading.chosen_queries import JOINED as JOINED_OTHERWISE
from dbt.adapters.sparksession.reading.news_queries import (
    JOINED,
    NUMBERED,
    OUTER,
    problem_of,
)

NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
KEYS = f"with k as (select distinct id from {NEW})"
OF_IDS = f"{KEYS}, a as (select * from dw.x where id in (from k))"
LAST_ROWS = (
    "select * from (select *, row_number() over (partition by id order by at desc) as n from a) "
    "as r"
)
QUERIES: dict[str, str | None] = {
    f"select id, count(*) as n from dw.x where id in (select id from {NEW}) group by id": None,
    f"select id, count(*) as n from dw.x where id in (select id from {NEW}) group by 1": None,
    f"select day, id, sum(v) from dw.x where day in (select day from {NEW}) group by all": None,
    f"select a.id, sum(a.v) from dw.x as a left semi join {NEW} as n on a.id = n.id group by a.id":
        None,
    "select a.id, sum(v) from dw.x as a "
    f"where exists (select 1 from {NEW} as n where n.id = a.id) group by a.id": None,
    f"{KEYS} "
    "select x.id, sum(x.v) from dw.x as x join k on x.id <=> k.id group by x.id": None,
    f"{KEYS} "
    "select x.id, sum(x.v) from dw.x as x, k where x.id = k.id group by x.id": None,
    f"{OF_IDS}, r as (select *, rank() over (partition by id order by v) as r from a) "
    "select id, max(r) from r group by id": None,
    f"{OF_IDS} select id as user_id, v from a": None,
    f"{OF_IDS}, b as (select id as user_id, v from a) "
    "select user_id, sum(v) from b group by user_id": None,
    f"select id, sum(v) from dw.x group by id having id in (select id from {NEW})": None,
    f"select * from dw.x where id in (select id from {NEW}) or parent in (select id from {NEW})":
        None,
    f"select * from dw.x where cast(at as date) in (select cast(n.at as date) from {NEW} as n)":
        None,
    f"select * from dw.x where id in (select id from {NEW} where id is not null and not false)":
        ITSELF,
    f"select * from dw.x where id in (select id from {NEW} where id is not null)": None,
    f"select * from dw.x where day(at) in (select day(at) from {NEW})": None,
    f"select * from dw.x where (id, k) in (select id, k from {NEW})": None,
    f"select * from dw.y where parent in (select id from {NEW} where v > 1)": None,
    f"{OF_IDS} select a.id, b.v from a join a as b on a.id = b.id": None,
    f"select * from dw.x where id in (select id from {NEW} where v > 1 union select id from {NEW})":
        None,
    f"select * from dw.x where id in (select id from {NEW} union select id from {NEW} where v > 1)":
        None,
    "select a.* from (select id as key, v from dw.x) as a join "
    f"(select distinct id from {NEW}) as k on a.key = k.id": None,
    # a new row that only an old row chooses
    "select * from (select x.* from dw.x as x join dw.y as y on x.k = y.k) as a "
    f"where parent in (select id from {NEW})": ITSELF,
    f"select * from dw.x where (id, k) in (select id, day from {NEW})": ITSELF,
    f"select * from dw.x as a where exists (select 1 from {NEW} as n where n.id = a.parent)":
        ITSELF,
    f"select * from dw.x where id in (select id from {NEW} limit 5)": ITSELF,
    f"select * from dw.x where parent in (select id from {NEW})": ITSELF,
    f"select * from dw.x where id in (select id from {NEW} where v > 1)": ITSELF,
    f"select * from dw.x as a where exists (select 1 from {NEW} as n where n.id = a.id and v > 1)":
        ITSELF,
    f"select a.* from dw.x as a join (select distinct id from {NEW} where v > 1) as k "
    "on a.id = k.id": ITSELF,
    f"select a.* from dw.x as a join {NEW} as n on a.id = n.id where n.v > 1": ITSELF,
    f"select a.*, n.k from dw.x as a join {NEW} as n on a.id = n.id where n.v > 1": None,
    f"select n.id, w.total from (select count(*) as total from dw.x) as w cross join {NEW} as n":
        None,
    f"{OF_IDS} select b.* from dw.x as b join a on a.parent = b.id": ITSELF,
    # what was made of them leaves them out
    f"select id, sum(v) as v from dw.x where id in (select id from {NEW}) group by id "
    "having sum(v) > 1": FILTERED,
    f"select * from (select id, sum(v) as v from dw.x where id in (select id from {NEW}) "
    "group by id) where v > 1": FILTERED,
    f"{OF_IDS} select * from (select *, count(*) over (partition by id) as n from a) where n = 1":
        FILTERED,
    f"{OF_IDS} select * from (select *, row_number() over (partition by id order by at) as n "
    "from a) where n = 1": None,
    f"{OF_IDS} select a.* from a join (select id, max(at) as at from a group by id) as m "
    "on a.id = m.id and a.at = m.at": None,
    f"{OF_IDS} select a.* from a join (select id, max(at) as at from a group by id) as m "
    "on a.id = m.id and a.at = m.at where a.v > 1": FILTERED,
    f"{OF_IDS} select a.* from a join (select id, max(at) as at from a group by id) as m "
    "on a.id = m.id and a.v = m.at": FILTERED,
    f"{OF_IDS} select m.*, y.w from dw.y as y "
    "join (select id, max(k) as k from a group by id) as m on y.k = m.k": FILTERED,
    f"{OF_IDS} select a.* from a join (select id, max(at) as at from a group by id) as m "
    "on a.id = m.id and a.v > m.at": FILTERED,
    f"select id, sum(v) as total from dw.x where id in (select id from {NEW}) group by id "
    "having total > 1": FILTERED,
    f"{OF_IDS} select s.*, y.name from (select id, max_by(k, at) as k from a group by id) as s "
    "left join dw.y as y on y.k = s.k": None,
    f"{OF_IDS} select s.*, y.name from (select id, max_by(k, at) as k from a group by id) as s "
    "join dw.y as y on y.k = s.k": FILTERED,
    f"{OF_IDS} select s.*, y.name from (select id, max_by(k, at) as k from a group by id) as s "
    "join dw.y as y using (k)": FILTERED,
    f"{OF_IDS} select s.* from (select id, max_by(k, at) as k from a group by id) as s "
    "left anti join dw.y as y on y.k = s.k": FILTERED,
    f"{OF_IDS} select * from (select id, max_by(k, at) as k from a group by id) as s "
    "where exists (select 1 from dw.y as y where y.k = s.k)": FILTERED,
    f"{OF_IDS} select id, k from {NEW} intersect select id, max(k) from a group by id": FILTERED,
    # the last row of each key, which what follows may not leave out
    f"{OF_IDS} {LAST_ROWS} where n = 1 and v > 1": FILTERED,
    f"{OF_IDS} {LAST_ROWS} where n = 1 and id > 1": None,
    f"{OF_IDS} {LAST_ROWS} where n <= 1": None,
    f"{OF_IDS} {LAST_ROWS} where n < 2": None,
    f"{OF_IDS} {LAST_ROWS} where n = v": FILTERED,
    f"{OF_IDS} {LAST_ROWS} where n > 1": FILTERED,
    f"{OF_IDS} {LAST_ROWS} where n = 2": FILTERED,
    f"{OF_IDS} {LAST_ROWS} where n = 1 and exists (select 1 from dw.y as y where y.k = r.k)":
        FILTERED,
    f"{OF_IDS} select * from ({LAST_ROWS} where n = 1) where v > 1": FILTERED,
    f"{OF_IDS} select * from ({LAST_ROWS} where n = 1) where id > 1": None,
    f"{OF_IDS} select id, v from (select id, upper(v) as v from ({LAST_ROWS} where n = 1)) "
    "where v > 'a'": FILTERED,
    f"{OF_IDS} select day as id, v from ({LAST_ROWS} where n = 1)": FILTERED,
    f"{OF_IDS} select t.* from (select id as i, v as w from ({LAST_ROWS} where n = 1)) t (id, v)":
        None,
    f"{OF_IDS} select * from a qualify row_number() over (partition by id order by at desc) = 1":
        None,
    f"{OF_IDS} select * from a where v > 1 "
    "qualify row_number() over (partition by id order by at desc) = 1": None,
    f"{OF_IDS} select *, row_number() over (partition by id order by at desc) as n from a "
    "qualify n = 1": None,
    f"{OF_IDS} select *, row_number() over (partition by id order by at desc) as n from a "
    "qualify n = 1 and v > 1": FILTERED,
    f"{OF_IDS} select * from a qualify count(*) over (partition by id) = 1": FILTERED,
    # values that become columns
    f"{OF_IDS} select * from a pivot (sum(v) for k in (1 as one, 2 as two))": None,
    f"{OF_IDS} select p.id, p.one from a pivot (sum(v) for k in (1 as one)) as p": None,
    f"{OF_IDS} select day, one from a pivot (sum(v) for id in (1 as one, 2 as two))": COUNTED,
    f"{OF_IDS} select * from a |> pivot (max(id) for k in (1 as one))": COUNTED,
    f"{OF_IDS} select * from (select day, v, k from a) pivot (sum(v) for k in (1 as id))": COUNTED,
    f"{OF_IDS} select id, one from a pivot (sum(v) for k in (1 as one)) where one > 3": FILTERED,
    f"{OF_IDS} select p.one as id from a pivot (sum(v) for k in (1 as one)) as p": KEYED,
    f"{OF_IDS} select day, value from a unpivot (value for name in (v, k))": None,
    # keys that come and go
    f"{OF_IDS} select count(*) as id, max(v) as v from a group by id": KEYED,
    f"{OF_IDS} select n as id, v from (select id, count(*) as n, max(v) as v from a group by 1)":
        KEYED,
    f"{OF_IDS} select rank() over (partition by id order by v) as id, v from a": KEYED,
    f"{OF_IDS} select row_number() over (partition by id order by v) as id, v from a": None,
    f"{OF_IDS} select concat(id, day) as id, count(*) as n from a group by id, day": None,
    # looked up, not chosen
    f"select y.*, exists (select 1 from {NEW} as n where n.id = y.id) as is_new from dw.y as y":
        LOOKED_UP,
    f"select * from dw.x where (id in (select id from {NEW})) = (v > 1)": LOOKED_UP,
    f"select * from dw.x where case when id in (select id from {NEW}) then v > 1 else true end":
        LOOKED_UP,
    # joins with others choose nothing
    f"select x.id, count(*) as n from dw.x as x join (select distinct k from {NEW}) as k "
    "on x.k = k.k left anti join dw.y as y on y.id = x.id group by x.id": COUNTED,
    # twice, or with each other
    f"select * from dw.x where id in (select id from {NEW}) and k in (select k from {NEW})": TWICE,
    f"{OF_IDS} select a.id, b.v from a join a as b on a.id = b.parent": JOINED_OTHERWISE,
    # by others
    f"select v, count(*) from (select v from dw.x where id in (select id from {NEW})) group by v":
        COUNTED,
    f"select v, count(*) from dw.x where id in (select id from {NEW}) group by v": COUNTED,
    f"select 1 as k, sum(v) from dw.x where id in (select id from {NEW})": COUNTED,
    f"{OF_IDS} select v, count(*) from a group by v": COUNTED,
    f"{OF_IDS}, b as (select id as user_id, v from a) select v, sum(v) from b group by v": COUNTED,
    f"select a.v, sum(a.v) from dw.x as a left semi join {NEW} as n on a.id = n.id group by a.v":
        COUNTED,
    "select a.v, sum(v) from dw.x as a "
    f"where exists (select 1 from {NEW} as n where n.id = a.id) group by a.v": COUNTED,
    f"{KEYS} "
    "select x.v, sum(x.v) from dw.x as x join k on x.id <=> k.id group by x.v": COUNTED,
    f"{OF_IDS} select id, rank() over (order by v) as r from a": RANKED,
    f"{OF_IDS} select id, lag(v) over (partition by day order by v) as r from a": RANKED,
    f"{OF_IDS} select id, sum(v), sum(sum(v)) over () from a group by id": RANKED,
    f"{OF_IDS} select id from a order by v limit 3": RANKED,
    f"{OF_IDS} select id from a tablesample (3 rows)": RANKED,
    f"{OF_IDS} select id, monotonically_increasing_id() as n from a": NUMBERED,
    # by what is absent
    f"select id from dw.x where id not in (select id from {NEW})": ABSENT,
    f"select id from dw.x as a where not exists (select 1 from {NEW} as n where n.id = a.id)":
        ABSENT,
    f"select a.id from dw.x as a left anti join {NEW} as n on a.id = n.id": ABSENT,
    f"select y.id from dw.y as y left anti join (select id from dw.x where id in (select id from "
    f"{NEW})) as a on a.id = y.id": ABSENT,
    f"with k as (select id from {NEW}) select id from dw.x where not (id in (from k))": ABSENT,
    f"select y.id from (with k as (select id from {NEW}) select * from dw.y) as y "
    f"where id not in (select id from {NEW})": ABSENT,
    f"with k as (select count(*) from {NEW}), l as (from k) select * from {NEW}": None,
    f"select n.id from {NEW} as n left anti join dw.x as a on a.id = n.id": None,
    f"select id from {NEW} where id not in (select id from dw.y)": None,
}  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_what_is_made_of_chosen_rows_is_whole_or_is_named(sql: str) -> None:
    assert problem_of_choice(sql, [NEW], ["id"]) == QUERIES[sql]


NESTED_JOINS = {
    f"from {NEW} as a join {NEW} as b on a.id < b.id select a.id": JOINED,
    f"select * from ({NEW} as a join {NEW} as b on a.id < b.id)": JOINED,
    f"select * from dw.y as y left join ({NEW} as a join dw.z as z on a.id = z.id) on true": OUTER,
    f"from {NEW} as a join dw.y as b on a.id < b.id select a.id": None,
    f"select * from ({NEW} as a left join dw.y as b on a.id < b.id)": None,
}


@pytest.mark.parametrize("sql", NESTED_JOINS)
def test_joins_are_found_wherever_they_stand(sql: str) -> None:
    assert problem_of(sql, [NEW], False) == NESTED_JOINS[sql]
