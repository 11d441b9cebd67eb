"""What analysts write in Spark's SQL beside plain selects, as queries of the columns id, day and v.

Each gives the same rows whenever it is asked of the same rows, in whatever order these lie.
"""

from __future__ import annotations

ORDER = "order by id nulls last, day nulls last, v nulls last"
CERTAIN = "rand() < 2 and current_date() > date '2020-01-01'"  # asks chance and the clock


def whole_queries(rows: str, others: str) -> tuple[str, ...]:
    """Queries over all rows of one or two relations, as they stand in a `from`."""
    found = _plain_queries(rows, others)
    found = (*found, *_queries_of_types(rows), *_queries_of_groups_of_types(rows))
    return (*found, *_grouped_queries(rows), *_queries_of_two(rows, others))


def _plain_queries(rows: str, others: str) -> tuple[str, ...]:
    return (
        f"from {rows} |> where v >= 0 |> extend v + 1 as w |> select id, day, w as v",
        f"from {rows} |> aggregate sum(v) as v, max(id) as id group by day |> select id, day, v",
        f"from {rows} |> select id, day, v |> union all select id, day, -v from {others}",
        f"from {rows} |> as one |> left join {others} as two on one.id = two.id and two.v > 6 "
        "|> select one.id, one.day, two.v |> where v is not null",
        f"from {rows} |> {ORDER} |> limit 3 |> select id, day, v",
        f"from {rows} as one select one.id, one.day, one.v where one.v > 0",
        f"select id, day, w as v from (select id, day, v, v + 1 as u from {rows}) "
        "unpivot include nulls (w for what in (v, u))",
        f"select id, day, a as v from {rows} lateral view outer explode(array(v, null)) as a",
        f"select id, day, p * 2 + c as v from {rows} lateral view posexplode(array(1, 2)) as p, c",
        f"select id, day, a as v from {rows}, "
        "lateral inline(array(struct(1 as a), struct(v as a)))",
        f"select * except (k) from (select id, day, v, 1 as k from {rows})",
        f"select id, day, x as v from (select id, day, v + 1 as w, w * 2 as x from {rows})",
        f"select m0.id, m0.day, m0.v from {rows} as m0 where m0.v > 0",
        f"select id, day, cast(cast(v as decimal(38, 10)) / 3 as int) as v from {rows}",
        "select id, to_date(from_utc_timestamp(cast(day as timestamp), 'America/Lima')) as day, v "
        f"from {rows}",
        f"select id, day, aggregate(array(v, 1), 0L, (s, x) -> s + x) as v from {rows}",
        f"select id, day, v from {rows} where {CERTAIN}",
        f"select id, day, v from {rows} tablesample (100 percent)",
        f"select /*+ broadcast(one) */ id, day, v from {rows} as one /* where v > 'it''s */",
        f"select id, day, v from {rows} {ORDER} limit 4 offset 1",
    )


def _queries_of_types(rows: str) -> tuple[str, ...]:
    """Queries with values of other types on their way."""
    variant = "variant_get(parse_json(to_json(struct(v))), '$.v', 'int')"
    return (
        f"from {rows} |> extend 1 as k |> set v = v + k, k = 2 |> drop k",
        f"select id, day, element_at(transform(array(v, 1), (x, i) -> x + i), 1) as v from {rows}",
        f"select id, day, map('a', v, 'b', 1)['a'] + named_struct('f', v).f as v from {rows}",
        f"select id, day, {variant} as v from {rows}",
        f"select id, day, x.v from {rows}, lateral stack(2, v, 1) as x(v)",
        f"select id, day, coalesce(x, -1) as v from {rows} lateral view outer explode("
        "filter(array(v), x -> x > 3)) as x",
        f"select id, day, cast(try_divide(v, id - 1) as int) as v from {rows}",
        f"select id, day, try_cast(nullif(cast(v as string), '3') as int) as v from {rows}",
        f"select id, day, cast(cast(v as decimal(10, 2)) * 1.55BD as int) as v from {rows}",
        f"select id, cast(day + interval 1 month as date) as day, v >>> 1 as v from {rows}",
        "select id, to_date(cast(day as timestamp_ntz) + interval '25' hour) as day, v "
        f"from {rows}",
        f"select id, day, int(trim(cast(cast(v as char(9)) as varchar(12)))) as v from {rows}",
        f"select ID as Id, DAY as Day, V as `V` from {rows} as `one two` where `one two`.ID > 1",
        f"select id, day, v as `select`, `select` + 1 as v from {rows}",
        f"select * except (`größe`) from (select *, v as `größe` from {rows})",
        f"select id, day, v from {rows} where cast(v as string) like any ('1%', '%2', '5')",
        f"select id, day, v from {rows} order by all limit 5",
        f"select id, day, v from {rows} where case when v > 3 then null else v >= 0 end",
    )


def _queries_of_groups_of_types(rows: str) -> tuple[str, ...]:
    """Queries that group by values of other types."""
    double = "if(v = 1, double('NaN'), v % 2 * -0.0D)"
    texts = "listagg(cast(v as string), ',') within group (order by v)"
    return (
        f"select max(id) as id, day, count(*) as v from {rows} group by day, {double}",
        f"select max(id) as id, to_date(window.start) as day, count(*) as v from {rows} "
        "group by window(cast(day as timestamp), '2 days')",
        f"select max(id) as id, max(day) as day, count(v) as v from {rows} "
        "group by session_window(cast(day as timestamp), '25 hours')",
        "select max(s.id) as id, s.day, count(*) as v from "
        f"(select struct(id, day) as s from {rows}) group by s",
        f"select id, day, length({texts}) as v from {rows} group by id, day",
        f"select id, max(day) as day, count_if(v > 3) + grouping_id(id) as v from {rows} "
        "group by rollup(id)",
        f"select max(id) as id, day, cast(percentile_cont(0.5) within group (order by v) as int) "
        f"as v from {rows} group by day",
        f"select max(id) as id, day, count(*) as v from {rows} "
        "group by day, if(v > 3, 'A', 'a') collate utf8_lcase",
        "select id, day, aggregate(array_sort(collect_list(v)), 0L, (s, x) -> s * 2 + x) as v "
        f"from {rows} group by id, day",
        "select distinct id, day, cardinality(map_from_arrays(array(1), array(v))) as v "
        f"from {rows}",
    )


def _grouped_queries(rows: str) -> tuple[str, ...]:
    return (
        f"select 1 as id, day, coalesce(a, 0) - coalesce(b, 0) as v from (select id, day, v from "
        f"{rows}) pivot (sum(v) for id in (1 as a, 2 as b))",
        f"select id, day, sum(v) as v from {rows} group by cube(id, day)",
        f"select id, day, sum(v) as v from {rows} group by id, day with rollup",
        f"select id, day, count(v) + grouping(id) as v from {rows} "
        "group by grouping sets ((id), (day), ())",
        f"select id, day, count(*) as v from {rows} group by all",
        f"select max(id) as id, day, sum(v) filter (where v > 0) as v from {rows} group by day",
        "select id, max(day) as day, size(collect_set(v)) + coalesce(array_max(collect_list(v)), "
        f"0) as v from {rows} group by id",
        f"select id, max_by(day, struct(day, v)) as day, max(v) as v from {rows} "
        "group by id having count(*) > 1",
        "select id, day, sum(v) over (partition by id order by day, v rows between 1 preceding "
        f"and current row) as v from {rows}",
        f"select id, day, count(*) over w as v from {rows} "
        "window w as (partition by day order by v)",
        "select id, day, sum(v) over (partition by id order by day range between interval 1 day "
        f"preceding and current row) as v from {rows} where day is not null",
    )


def _queries_of_two(rows: str, others: str) -> tuple[str, ...]:
    return (
        f"select id, day, v from {rows} minus select id, day, v from {others}",
        f"select id, day, v from {rows} intersect all select id, day, v from {others}",
        f"select id, day, v from {rows} union select id, day, v from {others}",
        f"(select id, day, v from {rows} except select id, day, v from {others}) union all "
        f"(select id, day, 1 from {others} where id = 1)",
        f"select id, day, v from {rows} where id not in (select id from {others} where v > 3)",
        f"select id, day, v from {rows} as one where v > 7 or exists "
        f"(select 1 from {others} as two where two.id = one.id and two.day > one.day)",
        f"select id, day, v + (select count(*) from {others} as two where two.id = one.id) as v "
        f"from {rows} as one",
        f"select id, day, v from {rows} where (id, v) in (select id, v from {others})",
        f"with events as (select * from {rows}), m0 as (select * from events) select a.id, "
        "max(b.day) as day, a.v from m0 as a join m0 as b on a.id = b.id group by a.id, a.v",
        f"with a as (select id, day, v from {rows}) select * from a union all "
        f"select * from (with a as (select id, day, v from {others}) select * from a)",
        f"select id, b.day, max(b.v) as v from {rows} as a join {others} as b using (id) "
        "group by id, b.day",
        f"select coalesce(a.id, b.id) as id, coalesce(a.day, b.day) as day, max(b.v) as v "
        f"from {rows} as a full outer join {others} as b "
        "on a.id = b.id and a.day = b.day group by all",
        f"select distinct a.id, a.day, b.v from {rows} as a join {others} as b "
        "on cast(a.id as string) = b.id",
        f"select one.id, one.day, found.v from {rows} as one left join lateral "
        f"(select sum(two.v) as v from {others} as two where two.day = one.day) as found on true",
    )


def row_queries(news: str, value: str, known: str) -> tuple[str, ...]:
    """Queries that treat each row by itself.

    Args:
        news: what reads new rows.
        value: an expression of a row.
        known: a query of a single number that never changes.
    """
    return (
        f"from {news} |> where v is not null |> extend {value} as w |> select id, day, w as v",
        f"select id, day, {value} + a as v from {news} lateral view explode(array(1, 2)) as a",
        f"select id, day, w as v from (select id, day, v, {value} as u from {news}) "
        "unpivot (w for what in (v, u))",
        f"with n as (select id, day, {value} as v from {news}) select id, day, v from n "
        "where v >= 0 union all select id, day, v + 1 as v from n where not v >= 0",
        f"select n.id, n.day, {value} + found.k as v from {news} as n, "
        f"lateral (select n.id + {known} as k) as found",
        f"select id, day, {value} as v from {news} where rand() < 2",
        f"from {news} as n select n.id, n.day, {value} + {known} as v where exists {known}",
        f"select id, day, aggregate(array(v, 1), 0L, (s, x) -> s + x) + {value} as v from {news}",
        f"with recursive steps(id, day, v, k) as (select id, day, {value}, 0 from {news} union all "
        "select id, day, v + 1, k + 1 from steps where k < 2) select id, day, v from steps "
        "where k = 2",
        f"from {news} |> extend {value} as w |> set v = w |> drop w |> select id, day, v",
        f"from {news} |> select id, day, v |> union all select id, day, v + 1 from {news}",
        f"select id, day, {value} as v from {news} where cast(v as string) like any ('1%', '%2')",
        f"select id, day, cast({value} as bigint) >>> 1 as v from {news}",
        f"select id, day, variant_get(parse_json(string({value})), '$', 'int') as v from {news}",
        f"select id, day, x.v from (select *, {value} as u from {news}), "
        "lateral stack(2, v, u) as x(v)",
        f"select id, day, w + 1 as v from (select id, day, {value} as u, u * 2 as w from {news})",
        f"select id, day, int(trim(cast(cast({value} as char(9)) as string))) as v from {news}",
        f"select ID, Day, {value} as V from {news} as `new rows`",
        f"select id, day, try_add(int({value}), 1) as v from {news} order by all",
        f"select n.id, n.day, {value} as v from {news} as n left join (values (1), (2)) as one(id) "
        "on n.id = one.id",
        f"select n.id, n.day, {value} as v from {news} as n "
        "left semi join (values (1), (2), (3)) as one(id) on n.id = one.id",
    )


def summed_queries(changes: str) -> tuple[str, ...]:
    """Queries over changes whose `v` a keyed table sums, by id and day."""
    kept = "where id is not null and day is not null"
    return (
        f"select id, day, cast(v as bigint) as v, row_kind from {changes} {kept}",
        f"select id, day, sum(v) as v, row_kind from {changes} {kept} group by all",
        f"from {changes} |> {kept} |> aggregate sum(v) as v group by id, day, row_kind "
        "|> select id, day, v, row_kind",
        f"select id, day, cast(v * a as bigint) as v, row_kind from {changes} "
        f"lateral view explode(array(1, 2)) as a {kept}",
        f"select id, day, x.v, row_kind from {changes}, lateral stack(2, v, 1) as x(v) {kept}",
        f"select id, day, count_if(v > 3) as v, row_kind from {changes} {kept} group by all",
        f"select id, day, count(*) as v, row_kind from {changes} {kept} "
        "group by window(cast(day as timestamp), '1 day'), id, day, row_kind",
    )


def latest_queries(news: str) -> tuple[str, ...]:
    """Queries over new rows of which a keyed table keeps the last of each id, by day and v."""
    kept = "where id is not null and day is not null and v is not null"
    number = "row_number() over (partition by id order by day desc, v desc)"
    return (
        f"select id, day, v from {news} {kept}",
        f"select id, day, v from (select *, {number} as n from {news} {kept}) where n = 1",
        f"from {news} |> {kept} |> extend {number} as n |> where n = 1 |> select id, day, v",
        f"from {news} |> {kept} |> set v = v + 0 |> extend 1 as k |> drop k |> select id, day, v",
    )


def daily_queries(rows: str, value: str) -> tuple[str, ...]:
    """Queries that make a day's rows of that day's rows alone.

    Args:
        rows: a relation of the days, in parentheses.
        value: an expression that is added to `v`.
    """
    return (
        f"select max(id) as id, day, sum(v) + {value} as v from {rows} group by day",
        f"from {rows} |> aggregate sum(v) as v, max(id) as id group by day "
        f"|> select id, day, v + {value} as v",
        f"select id, day, sum(v) + {value} as v from {rows} group by 2, 1",
        f"select id, day, v + {value} as v from (select *, dense_rank() over "
        f"(partition by day order by v) as n from {rows}) where n < 3",
        f"select 1 as id, day, coalesce(a, b) + {value} as v from {rows} "
        "pivot (sum(v) for id in (1 as a, 2 as b))",
        f"select distinct id, day, v + {value} as v from {rows}",
        f"with d as (select id, day, v from {rows}) select a.id, a.day, max(b.v) + {value} as v "
        "from d as a join d as b on a.day <=> b.day group by a.id, a.day",
        f"with d as (select id, day, v from {rows}) select id, day, v + {value} as v from d as one "
        "where v >= (select max(two.v) from d as two where two.day = one.day)",
        f"select max(id) as id, day, count(v) + {value} as v from {rows} "
        "group by window(cast(day as timestamp), '1 day'), day",
        f"select id, day, sum(v) + {value} as v from {rows} group by day, rollup(id)",
        f"from {rows} |> extend 1 as k |> set v = v + k |> drop k |> aggregate max(v) as v, "
        f"max(id) as id group by day |> select id, day, v + {value} as v",
        f"select id, day, lag(v) over w + {value} as v from {rows} window w as (partition by day "
        "order by id nulls last, v nulls last)",
        f"select max(id) as id, day, count(*) + {value} as v from {rows} "
        "group by day, if(v = 1, double('NaN'), v % 2 * -0.0D)",
    )


def chosen_queries(rows: str, news: str) -> tuple[str, ...]:
    """Queries that make a row of each id again, of all rows of the ids that new rows have.

    Args:
        rows: all rows of a relation.
        news: its new rows.
    """
    chosen = f"from {rows} where id in (select id from {news})"
    return (
        f"select id, max(day) as day, sum(v) as v {chosen} group by id",
        f"from {rows} |> where id in (select id from {news}) "
        "|> aggregate sum(v) as v, max(day) as day group by id |> select id, day, v",
        f"select distinct id, max(day) over (partition by id) as day, sum(v) over (partition by id)"
        f" as v {chosen}",
        "select id, day, v from (select *, row_number() over (partition by id order by day desc, v "
        f"desc) as n {chosen}) where n = 1",
        "select id, date '2026-03-01' as day, coalesce(a, 0) - coalesce(b, 0) as v from (select "
        f"id, v, v % 2 = 0 as k {chosen}) pivot (sum(v) for k in (true as a, false as b))",
        f"select id, max_by(day, struct(day, v)) as day, count_if(v > 3) as v {chosen} group by id",
        f"select id, max(day) as day, size(collect_set(v)) as v from {rows} as kept "
        f"where exists (select 1 from {news} as n where n.id = kept.id) group by id",
        f"select id, max(day) as day, sum(v) as v from {rows} "
        f"left semi join (select distinct id from {news}) using (id) group by id",
        f"from {rows} |> where id in (select id from {news}) |> set v = v + 1 "
        "|> aggregate sum(v) as v, max(day) as day group by id |> select id, day, v",
    )
