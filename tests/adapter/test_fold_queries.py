"""Queries of keyed tables over new rows: which of them their fold puts together right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from dbt.adapters.sparksession.keyed.folds import Fold
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.reading.fold_queries import (
    AGAIN,
    ALL_AGAIN,
    COUNTED,
    FILTERED,
    GROUPED,
    MADE_AGAIN,
    RANKED,
    counts_rows,
    problem_of_all_rows,
    problem_of_fold,
)
from dbt.adapters.sparksession.reading.news_queries import DISTINCT, JOINED, NUMBERED, OUTER

from tests.support.dbt_project import DbtProject

NEW = "(select * from dw.x with (`start-snapshot-id` = '1', `end-snapshot-id` = '2'))"
LAST = {"sequence": "at"}
FIRST = {"sequence": [{"column": "at", "order": "descending"}]}
SUMS = {"aggregates": {"v": "sum", "n": "sum"}}
MIXED = {"sequence": "at", "aggregates": {"v": "sum"}}
RANGE = {"aggregates": {"v": "max", "n": "min"}}
LISTS = {"aggregates": {"v": {"function": "collect", "elements": True}}}
ARRAYS = {"aggregates": {"v": "collect"}}
NET = {"aggregates": {"v": {"function": "max", "net": True}}}
NET_LISTS = {"aggregates": {"v": {"function": "collect", "elements": True, "net": True}}}
COUNTING = {"aggregates": {"v": "sum"}, "row_kind": "row_kind", "count_rows": True}
BY_KIND = "group by id, row_kind"
BITMAP = {"aggregates": {"v": "bitmap_or"}}
LAST_OF_DAY = "row_number() over (partition by id order by at desc) as nth"
RANKED_ROWS = f"select *, {LAST_OF_DAY} from {NEW}"
FIRST_OF_KEY = "row_number() over (partition by id order by at desc)"
BY_KEY = "group by id"
COUNTED_AGAIN, OF_CHOSEN = (
    "select id, count(*) as v",
    f"from dw.x where id in (select id from {NEW}) {BY_KEY}",
)
TOTAL = f"select id, sum(v) as total from {NEW} {BY_KEY}"


def counted(column: str) -> str:
    return COUNTED.format(column=column)


def filtered(column: str) -> str:
    return FILTERED.format(column=column)


# (fold, query) -> what is wrong
QUERIES: list[tuple[dict[str, object], str, str | None]] = [
    (LAST, f"select id, at, v from {NEW} where v > 1", None),
    (LAST, f"select id, at, v from {NEW} union all select id, at, v from dw.y", None),
    (LAST, f"select distinct id, at, v from {NEW}", None),
    (LAST, f"select id, max(at) as at, max_by(v, at) as v from {NEW} {BY_KEY}", None),
    (FIRST, f"select id, min(at) as at, min_by(v, at) as v from {NEW} {BY_KEY}", None),
    (LAST, f"select * from (select *, {LAST_OF_DAY} from {NEW}) where nth = 1", None),
    (LAST, f"select id, at, v from dw.x where id in (select id from {NEW})", None),
    (LAST, f"{COUNTED_AGAIN}, current_timestamp() as at {OF_CHOSEN}", None),
    (LAST, f"select * from ({COUNTED_AGAIN}, now() as at {OF_CHOSEN})", None),
    (RANGE, f"select id, max(v) as v, min(v) as n {OF_CHOSEN}", None),
    (SUMS, f"select id, v, 1 as n from {NEW}", None),
    (SUMS, f"select id, sum(v) as v, count(*) as n from {NEW} {BY_KEY}", None),
    (SUMS, f"select id, cast(coalesce(sum(v), 0) as bigint) as v, count_if(v > 1) as n from {NEW} "
     f"{BY_KEY}", None),
    (SUMS, f"with s as (select id, sum(v) as total from {NEW} {BY_KEY}) "
     "select id, total as v, 0 as n from s", None),
    (SUMS, f"select x.id, sum(x.v * y.rate) as v, count(*) as n from {NEW} as x join dw.y as y "
     "on x.k = y.k group by x.id", None),
    (SUMS, f"with s as (select id, sum(v) as n from {NEW} {BY_KEY}) "
     "select id, n as v, 0 as n from s", None),
    (SUMS, f"with s (k, total) as ({TOTAL}) select t.a as id, t.b as v, 0 as n from s as t (a, b)",
     None),
    (SUMS, f"select * except (total), total as v, 0 as n from ({TOTAL})", None),
    (SUMS, f"select id, sum(c) as v, 0 as n from (select id, count(*) as c from {NEW} "
     f"group by id, day) {BY_KEY}", None),
    (SUMS, f"select id, sum(total) as v, null as n from ({TOTAL}, day) {BY_KEY}", None),
    (SUMS, f"select s.* from (select id, sum(v) as v, count(*) as n from {NEW} {BY_KEY}) as s "
     f"union all select id, v, 1 from {NEW}", None),
    (SUMS, f"select id, v * (select max(rate) from dw.y) as v, 1 as n from {NEW}", None),
    (LAST, f"select id, max(t) as at, max_by(v, t) as v from {NEW} {BY_KEY}", None),
    (LAST, "select id, max(at) as at, max_by(v, at) as v from (select id, max(at) as at, "
     f"max_by(v, at) as v from {NEW} group by id, day) {BY_KEY}", None),
    (RANGE, "select id, max(highest) as v, min(n) as n from (select id, max(v) as highest, "
     f"min(v) as n from {NEW} group by id, day) {BY_KEY}", None),
    (RANGE, f"select id, max(v) as v, min(v) as n from {NEW} {BY_KEY}", None),
    (LISTS, f"select id, collect_set(v) as v from {NEW} {BY_KEY}", None),
    (BITMAP, f"select id, bitmap_construct_agg(v) as v from {NEW} {BY_KEY}", None),
    # values that are taken back by their counts, and rows that are counted
    (NET_LISTS, f"select id, collect_list(v) as v from {NEW} {BY_KEY}", None),
    (NET_LISTS, f"select id, collect_set(v) as v from {NEW} {BY_KEY}", counted("v")),
    (NET, f"select id, max(v) as v from {NEW} {BY_KEY}", counted("v")),
    (NET, f"select id, v from {NEW}", None),
    (ARRAYS, f"select id, collect_list(v) as v from {NEW} {BY_KEY}", counted("v")),
    (COUNTING, f"select id, v, row_kind from {NEW}", None),
    (COUNTING, f"select id, sum(v) as v, row_kind from {NEW} {BY_KIND}", GROUPED),
    (COUNTING, f"select * from (select id, sum(v) as v, row_kind from {NEW} {BY_KIND})", GROUPED),
    # windows with a name
    (LAST, f"select id, at, v from (select *, row_number() over w as n from {NEW} window w as "
     "(partition by id order by at desc)) where n = 1", None),
    (LAST, f"select id, at, v from (select *, row_number() over (w order by at) as n from {NEW} "
     "window w as (partition by id)) where n = 1", RANKED),
    # what is made of all rows of a key again
    (LAST, f"{COUNTED_AGAIN}, at {OF_CHOSEN}, at", MADE_AGAIN.format(column="v")),
    (LAST, f"{COUNTED_AGAIN}, min(at) as at {OF_CHOSEN}", MADE_AGAIN.format(column="v")),
    (LAST, f"select id, at, v from (select id, at, k, n {OF_CHOSEN.replace(BY_KEY, '')}) pivot "
     "(sum(n) for k in (1 as v))", MADE_AGAIN.format(column="v")),
    (LAST, f"select id, v, min(at) over (partition by id) as at from dw.x where id in (select id "
     f"from {NEW})", MADE_AGAIN.format(column="at")),
    (RANGE, f"select id, sum(v) as v, 1 as n {OF_CHOSEN}", MADE_AGAIN.format(column="v")),
    (SUMS, f"select x.id, x.v, 1 as n from dw.x as x join {NEW} as n on n.k = x.k", AGAIN),
    (SUMS, f"select n.id, x.v, 1 as n from {NEW} as n left join dw.x as x on n.k = x.id", AGAIN),
    (LAST, "select x.id, x.at, row_number() over (partition by x.id order by x.at desc) as v "
     f"from dw.x as x join {NEW} as n on n.id = x.id", RANKED),
    (SUMS, f"select n.id, y.v, 1 as n from dw.y as y join {NEW} as n on n.k = y.k", None),
    # counts that are kept as values
    (LAST, f"select id, max(at) as at, count(*) as v from {NEW} {BY_KEY}", counted("v")),
    (LAST, f"select id, 1 as at, max_by(v, at) as v from {NEW} {BY_KEY}", counted("v")),
    (LAST, f"select id, at, max_by(v, at) as v from {NEW} {BY_KEY}, at", None),
    (LAST, f"select max_by(id, at) as id, max(at) as at, k as v from {NEW} group by k",
     counted("id")),
    (LAST, f"select id, min(at) as at, max(v) as v from {NEW} {BY_KEY}", counted("at")),
    (LAST, f"select id, max(at) as at, min_by(v, at) as v from {NEW} {BY_KEY}", counted("v")),
    (SUMS, f"select id, max(v) as v, 1 as n from {NEW} {BY_KEY}", counted("v")),
    (SUMS, f"select id, sum(v) as v, count(distinct k) as n from {NEW} {BY_KEY}", counted("n")),
    (SUMS, f"select id, sum(distinct v) as v, 0 as n from {NEW} {BY_KEY}", counted("v")),
    (RANGE, f"select id, avg(v) as v, 1 as n from {NEW} {BY_KEY}", counted("v")),
    (RANGE, f"select id, v, min(v) as n from {NEW} group by id, v having count(*) > 1",
     counted("groups")),
    (RANGE, f"select id, any(v) as v, 1 as n from {NEW} {BY_KEY}", counted("v")),
    (SUMS, f"select max(id) as id, sum(v) as v, 1 as n from {NEW} group by k", counted("id")),
    (MIXED, f"select id, max(at) as at, sum(v) as v, sum(v) as n from {NEW} {BY_KEY}",
     counted("n")),
    (MIXED, f"with s as (select id, max(at) as at, sum(v) as v from {NEW} {BY_KEY}) "
     "select id, at, v, v as n from s", counted("n")),
    (SUMS, f"select id, sum(v) as v, 0 as n from {NEW} {BY_KEY} "
     f"union all select id, max(v), 0 from {NEW} {BY_KEY}", counted("v")),
    (SUMS, f"select * from (select id, sum(v) as v, max(v) as n from {NEW} {BY_KEY})",
     counted("n")),
    (SUMS, f"select id, sum(total) as v, 0 as n from ({TOTAL} union all select id, max(v) as total "
     f"from {NEW} {BY_KEY}) {BY_KEY}", counted("v")),
    (SUMS, f"select id, 0 as v, count(*) as n from (select id from ({TOTAL}, day)) {BY_KEY}",
     counted("n")),
    (LAST, "select id, at, 2 * total as v from (select id, max(at) as at, sum(v) as total "
     f"from {NEW} {BY_KEY})", counted("v")),
    (LAST, f"select id, max(at) as at, my_last(v) as v from {NEW} {BY_KEY}", counted("v")),
    (SUMS, f"select id, 2 * total as v, 0 as n from ({TOTAL})", counted("v")),
    (SUMS, f"select id, sum(v) as v, sum(n) as n from (select id, sum(v) as v, 1 as n from {NEW} "
     f"group by id, day) {BY_KEY}", counted("n")),
    (RANGE, f"select id, max(total) as v, 0 as n from ({TOTAL}, day) {BY_KEY}", counted("v")),
    # values and rows of groups, which come again in each run
    (SUMS, f"select id, v, count(*) as n from {NEW} group by id, v", counted("v")),
    (SUMS, f"select id, sum(v) as v, 1 as n from {NEW} {BY_KEY}", counted("n")),
    (SUMS, f"select id, total as v, 1 as n from ({TOTAL})", counted("n")),
    (SUMS, f"select id, sum(total) as v, count(*) as n from ({TOTAL}, day) {BY_KEY}", counted("n")),
    (SUMS, f"select s.id, y.rate as v, s.total as n from ({TOTAL}) as s join dw.y using (id)",
     counted("v")),
    # rows that parts of sums choose
    (SUMS, f"select id, total as v, 0 as n from ({TOTAL}) where total > 10", filtered("total")),
    (SUMS, f"select id, total as v, 0 as n from ({TOTAL}) as s join dw.y on s.total > y.least",
     filtered("total")),
    (SUMS, f"select total as id, sum(v) as v, 0 as n from ({TOTAL}) group by total",
     filtered("total")),
    (LAST, f"select y.id, y.at, y.v from dw.y as y left semi join ({TOTAL}) as s "
     "on s.total = y.v", filtered("total")),
    (SUMS, f"select s.id, y.w as v, 0 as n from (select id, max(k) as k from {NEW} {BY_KEY}) as s "
     "join dw.y as y on y.k = s.k and y.id = s.id", filtered("k")),
    (LAST, f"select s.id, s.at, y.w as v from (select id, max(at) as at from {NEW} {BY_KEY}) as s "
     "left join dw.y as y on y.at = s.at", filtered("at")),
    # the last row of each key
    (LAST, f"select id, at, upper(v) as v from ({RANKED_ROWS}) where nth = 1", None),
    (LAST, f"select id, at, v from ({RANKED_ROWS}) where nth = 1 and v > 1", filtered("v")),
    (LAST, f"select id, at, v from ({RANKED_ROWS}) where nth = 1 and id > 1", None),
    (LAST, f"select id, at, v from ({RANKED_ROWS}) where nth = 2", filtered("nth")),
    (LAST, f"select id, at, v from ({RANKED_ROWS}) where nth <= 3", None),
    (LAST, f"select id, at, v from (select * from ({RANKED_ROWS}) where nth = 1) where v > 1",
     filtered("v")),
    (LAST, f"select id, at, v from {NEW} qualify {FIRST_OF_KEY} = 1", None),
    (LAST, f"select id, at, v from {NEW} qualify {FIRST_OF_KEY} = 1 and v > 1", filtered("v")),
    (LAST, f"select r.id, r.at, y.v from (select * from ({RANKED_ROWS}) where nth = 1) as r "
     "left join dw.y as y on y.k = r.k", None),
    (LAST, f"select r.id, r.at, y.v from (select * from ({RANKED_ROWS}) where nth = 1) as r "
     "join dw.y as y on y.k = r.k", filtered("k")),
    (LAST, f"select id, k as at, v from ({RANKED_ROWS}) where nth = 1", RANKED),
    (LAST, f"select id, k as at, nth as v from ({RANKED_ROWS})", RANKED),
    (LAST, f"select k as id, at, v from ({RANKED_ROWS}) where nth = 1", RANKED),
    (LAST, f"select key as id, t as at, v from (select id as key, at as t, v from ({RANKED_ROWS}) "
     "where nth = 1)", None),
    (SUMS, f"select id, sum(k) as v, v as n from {NEW} {BY_KEY}", None),
    (MIXED, f"select id, max(at) as at, sum(k) as v, v as n from {NEW} {BY_KEY}", counted("n")),
    # among themselves
    (LAST, f"select *, row_number() over (partition by id order by v) as nth from {NEW}", RANKED),
    (LAST, f"select id, at, row_number() over (order by at desc) as v from {NEW}", RANKED),
    (LAST, f"select id, at, count(*) over () as v from {NEW}", RANKED),
    (LAST, f"select id, at, v from {NEW} order by v limit 3", RANKED),
    (LAST, f"select id, at, v from {NEW} tablesample (3 rows)", RANKED),
    (LAST, f"select monotonically_increasing_id() as id, at, v from {NEW}", NUMBERED),
    (SUMS, f"select *, {LAST_OF_DAY} from {NEW}", RANKED),
    (LAST, f"select a.id, a.at, b.v from {NEW} as a join {NEW} as b on a.id = b.parent", JOINED),
    (LAST, f"select y.id, x.at, x.v from dw.y as y left join {NEW} as x on x.id = y.id", OUTER),
    # again
    (SUMS, f"select distinct id, v, n from {NEW}", DISTINCT),
    (SUMS, f"select id, v, n from {NEW} union all select id, v, n from dw.y", AGAIN),
    (SUMS, f"select id, v, n from dw.y where id in (select id from {NEW})", AGAIN),
]  # fmt: skip


@pytest.mark.parametrize(("config", "sql", "problem"), QUERIES)
def test_a_fold_puts_the_runs_together_or_the_query_is_named(
    config: dict[str, object], sql: str, problem: str | None
) -> None:
    kinds = {"collect": "array<int>", "bitmap_or": "binary"}
    fold = Fold.read("m", "id", config)
    kind = kinds.get(fold.aggregates["v"].function, "int") if "v" in fold.aggregates else "int"
    columns = [("id", "int"), ("v", kind)]
    columns += [(name, "int") for name in ("at", "n", "row_kind") if f"'{name}'" in str(config)]
    assert problem_of_fold(sql, [NEW], fold.bound(columns)) == problem


ALL_ROWS: list[tuple[dict[str, object], str, str | None]] = [
    (LAST, "select id, at, v from dw.x where v > 1", None),
    (LAST, "select id, max(at) as at, max_by(v, at) as v from dw.x group by id", None),
    (LAST, "select id, now() as at, sum(v) as v from dw.x group by id", None),
    (RANGE, "select id, max(v) as v, min(v) as n from dw.x group by id", None),
    (LAST, "select id, max(at) as at, sum(v) as v from dw.x group by id", "v"),
    (LAST, "select id, min(at) as at, 1 as v from dw.x group by id", "at"),
    (LAST, "select id, at, row_number() over (partition by k order by at) as v from dw.x", "v"),
    (LAST, "select id, at, v from dw.x pivot (sum(n) for k in (1 as v, 2 as w))", "v"),
    (LAST, "select id, now() as at, v from dw.x pivot (sum(n) for k in (1 as v, 2 as w))", None),
    (LAST, "select id, at, v from (select id, at, count(*) as v from dw.x group by id, at)", "v"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "sql", "column"), ALL_ROWS)
def test_a_fold_takes_what_is_made_of_all_rows_or_the_query_is_named(
    config: dict[str, object], sql: str, column: str | None
) -> None:
    names = ("id", "v", "n") if config is RANGE else ("id", "v", "at")
    fold = Fold.read("m", "id", config).bound([(name, "int") for name in names])
    expected = MADE_AGAIN.format(column=column) if column else None
    assert problem_of_all_rows(sql, fold) == expected
    beside = f"with unused as (select * from {NEW}) {sql}"
    assert problem_of_fold(beside, [NEW], fold) == expected


def test_each_change_of_a_zipper_counts() -> None:
    config = {"sequence": "n", "time": "at"}
    columns = [("id", "int"), ("n", "int"), ("at", "timestamp"), ("v", "int")]
    zipper = Zipper.read("m", "id", config).bound(columns)
    assert not counts_rows(zipper)
    rows = f"select *, row_number() over (partition by {{}} order by n desc) as nth from {NEW}"
    assert problem_of_fold(rows.format("id"), [NEW], zipper) == RANKED
    assert problem_of_fold(rows.format("id, n, at"), [NEW], zipper) is None
    assert problem_of_fold(f"select id, n, at, v from {NEW}", [NEW], zipper) is None
    daily = f"select id, max(n) as n, max(at) as at, max_by(v, n) as v from {NEW} group by id"
    assert problem_of_fold(daily, [NEW], zipper) == counted("v")


SUMMED = "materialized='folded', unique_key='id', fold={'aggregates': {'v': 'sum'}}"
MODELS = {
    "all_rows": (SUMMED, "select id, v from {{ source('src', 'x') }}", ALL_AGAIN),
    "meant": (
        f"{SUMMED}, appends_all_rows=true", "select id, v from {{ source('src', 'x') }}", None
    ),
    "counted": (
        "materialized='folded', unique_key='id', fold={'sequence': 'v'}",
        "select id, max(v) as v, count(*) as n from {{ new_rows(source('src', 'x')) }} group by id",
        counted("n"),
    ),
    "chosen": (
        SUMMED,
        "select id, v from (select id, sum(v) as v from {{ new_rows(source('src', 'x')) }} "
        "group by id) where v > 2",
        filtered("v"),
    ),
    "summed": (
        SUMMED,
        "select id, sum(v) as v from {{ new_rows(source('src', 'x')) }} group by id",
        None,
    ),
}  # fmt: skip


def test_a_keyed_table_that_would_count_a_part_is_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    files = {"models/sources.yml": "sources: [{name: src, tables: [{name: x}]}]"}
    for name, (config, query, _) in MODELS.items():
        files[f"models/{name}.sql"] = f"{{{{ config({config}) }}}} {query}"
    project = make_project(files)
    project.query("create namespace if not exists src")
    project.query("create table src.x (id int, v int) using iceberg")
    project.query("insert into src.x values (1, 1), (1, 2), (2, 3)")
    results = project.run("run", expect_ok=False).results
    for name, (_, _, problem) in MODELS.items():
        assert results[name].status == ("error" if problem else "success"), results[name].message
        assert f"{name} {problem}; or" in results[name].message or not problem
    project.query("insert into src.x values (1, 4)")
    project.run("run", "-s", "summed", "meant")
    assert project.column("select v from dw.summed order by id") == [7, 3]
