"""Declarations of counts, metrics and chains, and arguments of macros: checked, and as plans."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from dbt.adapters.sparksession.declared.arguments import (
    check_arguments,
    check_grain,
    check_whole_numbers,
    columns_of_interest,
)
from dbt.adapters.sparksession.declared.chain_plans import chain_plan
from dbt.adapters.sparksession.declared.count_plans import count_plan, metric_plan
from dbt.adapters.sparksession.declared.declarations import DeclarationError, name_problems

SIZES = ["5m", "10m", "1h", "1d"]
ROWS = {"aggregate": "count"}
AMOUNT = {"aggregate": "sum", "column": "amount", "type": "decimal(38, 2)"}


def metric(declared: Any) -> dict[str, Any]:
    return metric_plan(declared, SIZES)


def arguments_of(macro: str) -> Callable[[Any], None]:
    return lambda given: check_arguments(macro, given)


def bounds(given: Any) -> None:
    check_whole_numbers("event_rows", 0, given, "event_max_ahead_hours: 1")


def grain(given: Any) -> None:
    check_grain("window_start", given, SIZES)


def interest(given: Any) -> None:
    columns_of_interest("ods_shop__order_info", *given)


def names(given: Any) -> None:
    if problems := list(name_problems(given)):
        raise DeclarationError("a macro", problems, "key='id'")


ODD = "column {}: the macro takes no name that needs backticks; give the column another name in its"
# check, what it is given -> its problems, all and in any order
WRONG: list[tuple[Callable[[Any], Any], Any, set[str]]] = [
    (
        names,
        ["id", "my id", "a-b", "`c.d`", "Ünïcode", "1a", "my id"],
        {
            f"{ODD.format(name)} model, such as {known}"
            for name, known in (
                ("my id", "`my id` as my_id"),
                ("a-b", "`a-b` as a_b"),
                ("`c.d`", "`c.d` as c_d"),
            )
        },
    ),
    (
        count_plan,
        {
            "cut_column": "the day",
            "dimensions": ["city", "my id", "`my own`"],
            "measures": {"n": ROWS, "o p": ROWS, "d": {"aggregate": "max", "column": "a-b"}},
        },
        {
            "the day needs backticks: write `the day`",
            "my id needs backticks: write `my id`",
            "a-b needs backticks: write `a-b`",
            "measure o p needs a name of letters, digits and _",
        },
    ),
    (
        count_plan,
        None,
        {
            "it must be a mapping, got None",
            "dimensions must be a list of column names, got None",
            "measures must be a mapping of names, got None",
        },
    ),
    (
        count_plan,
        {
            "dimension": ["city"],
            "dimensions": "city",
            "measures": {
                "sales": {"aggregate": "median"},
                "rows": {"aggregate": "count", "column": "id"},
                "high": {"aggregate": "max", "column": ""},
                "amount": {"aggregate": "sum", "column": "amount"},
                "bare": "count",
            },
        },
        {
            "it has dimension, but only cut_column, dimensions and measures are known",
            "dimensions must be a list of column names, got city",
            "measure sales must have an aggregate of count, sum, min, max or count_distinct, got "
            "{'aggregate': 'median'}",
            "measure rows counts rows and has no column, got id",
            "measure high must name its column, got {'aggregate': 'max', 'column': ''}",
            "measure amount must have a type with all places of amount, since what has more is "
            "rounded, got {'aggregate': 'sum', 'column': 'amount'}",
            "measure bare must have an aggregate of count, sum, min, max or count_distinct, got "
            "count",
        },
    ),
    (
        count_plan,
        {
            "dimensions": ["city"],
            "measures": {
                "rows": ROWS,
                "paid": ROWS | {"where": "is_paid"},
                "amount": AMOUNT | {"filter": "is_paid"},
                "high": {"aggregate": "max", "column": "amount", "where": "is_paid"},
            },
        },
        {
            "measure paid has where, but only aggregate, column and type are known",
            "measure amount has filter, but only aggregate, column and type are known",
            "measure high has where, but only aggregate, column and type are known",
        },
    ),
    (
        count_plan,
        {
            "dimensions": ["city"],
            "measures": {
                "rows": ROWS,
                "share": AMOUNT | {"type": "double"},
                "whole": AMOUNT | {"type": "BigInt"},
                "plain": AMOUNT | {"type": "numeric(9,2)"},
            },
        },
        {
            "measure share must have an exact type, a decimal or a whole number: a sum of floats "
            "depends on the order of its rows, and of what came and went a rest stays, got "
            "{'aggregate': 'sum', 'column': 'amount', 'type': 'double'}",
        },
    ),
    (
        count_plan,
        {"dimensions": [1], "measures": {"rows": ROWS}},
        {"dimensions must be a list of column names, got [1]"},
    ),
    (
        count_plan,
        {"dimensions": ["city"], "measures": {"amount": AMOUNT}},
        {"measures must include a count of rows: a group is there while its count is not 0"},
    ),
    (
        count_plan,
        {
            "cut_column": "a_change",
            "dimensions": ["B_Change", "city"],
            "measures": {
                "a": ROWS,
                "b": ROWS,
                "c": AMOUNT,
                "high": {"aggregate": "max", "column": "c_change"},
                "d": ROWS,
                "d_change": {"aggregate": "min", "column": "d"},
                "high_change": ROWS,  # a maximum keeps its name
            },
        },
        {
            "measure a needs another name: the levels keep its net changes as a_change, which is "
            "the cut column too",
            "measure b needs another name: the levels keep its net changes as b_change, which is "
            "a dimension too",
            "measure c needs another name: the levels keep its net changes as c_change, which is "
            "the column of a min, max or count_distinct too",
            "measure d needs another name: the levels keep its net changes as d_change, which is "
            "a measure too",
        },
    ),
    (
        metric,
        {
            "grains": ["5m", "7m"],
            "dimension_sets": {"page": "page"},
            "measures": {
                "uv": {"aggregate": "median", "column": "x"},
                "pv": {"aggregate": "count", "column": "x"},
                "visits": {"aggregate": "hll", "column": "x", "lg_k": 40},
                "paid": {"aggregate": "sum", "column": "x"},
                "seen": {"aggregate": "theta", "column": "x", "wher": "id > 1"},
                "users": {"aggregate": "count_distinct"},
            },
            "filter": "id > 1",
        },
        {
            "it has filter, but only time, grains, dimension_sets and measures are known",
            "time must name a column, got None",
            "grains must be a list of some of 5m, 10m, 1h, 1d, got ['5m', '7m']",
            "dimension set page must be a list of columns, got page",
            "measure uv must have an aggregate of count, sum, count_distinct, hll, theta, got "
            "{'aggregate': 'median', 'column': 'x'}",
            "measure pv counts rows and has no column, got {'aggregate': 'count', 'column': 'x'}",
            "measure visits: lg_k must be a whole number from 4 to 21, got 40",
            "measure paid must have a type with all places of x, since what has more is rounded, "
            "got {'aggregate': 'sum', 'column': 'x'}",
            "measure seen has wher, but only aggregate, column, type, where and lg_k are known",
            "measure users must name its column, got {'aggregate': 'count_distinct'}",
        },
    ),
    (
        metric,
        {"time": "at", "dimension_sets": {}, "measures": {"pv": ROWS}},
        {"dimension_sets must map names to lists of columns, got {}"},
    ),
    (
        metric,
        {"time": "at", "measures": {"uv": {"aggregate": "hll", "column": "x"}}},
        {"measures must have a count or a sum"},
    ),
    (
        chain_plan,
        {"key_columns": "id", "image_columns": ["id"], "keys": 1, "altered_columns": None},
        {
            "it has keys, but only key_columns, image_columns, altered_columns, date_column, "
            "key_block are known",
            "key_columns must be a list of column names, got id",
            "altered_columns must be a list of column names, got None",
        },
    ),
    (
        chain_plan,
        {
            "key_columns": ["id", "amount"],
            "image_columns": ["id", "amount"],
            "altered_columns": ["amount", "note"],
            "date_column": "amount",
        },
        {
            "key_columns must be image_columns that are not altered, got amount",
            "date_column must be one of image_columns that is not altered, got amount",
            "altered_columns must be image_columns, got note",
        },
    ),
    (
        arguments_of("retract_rows"),
        {"from_cte": 7, "image_columns": "id", "change_columns": []},
        {
            "from_cte must be the name of a CTE, got 7",
            "image_columns must be a list of column names, got id",
            "change_columns must be a list of column names, got []",
        },
    ),
    (
        arguments_of("side_by_side"),
        {"keys": "cut_date", "domains": {"traffic": ["pv"]}},
        {
            "keys must be a list of column names, got cut_date",
            "domains must map two CTEs or more to their measures, got {'traffic': ['pv']}",
        },
    ),
    (
        arguments_of("side_by_side"),
        {"keys": ["cut_date"], "domains": {"traffic": ["pv"], "orders": ["pv"]}},
        {"a measure may stand in one domain only, got {'traffic': ['pv'], 'orders': ['pv']}"},
    ),
    *(
        (arguments_of("to_date"), {"as_of": wrong}, {f"as_of must be a day, got '{wrong}'"})
        for wrong in ("2026-02-30", "2026-1-1' or true", "20260301", "", 20260301)
    ),
    (
        arguments_of("compared"),
        {"level": "years"},
        {"level must be totals, days or sums, got 'years'"},
    ),
    (
        bounds,
        {"max_ahead_hours": -1, "max_behind_days": "30"},
        {
            "max_ahead_hours must be a whole number from 0, got -1",
            "max_behind_days must be a whole number from 0, got 30",
        },
    ),
    (
        bounds,
        {"max_ahead_hours": True},
        {"max_ahead_hours must be a whole number from 0, got True"},
    ),
    (grain, "2h", {"grain must be one of 5m, 10m, 1h, 1d, got '2h'"}),
    (
        interest,
        (None, ["user_id"]),
        {
            "ods_shop__order_info must be a typed model whose meta.source has columns_of_interest",
        },
    ),
    (
        interest,
        (["user_id"], ["amount", "user_id", "city", "amount"]),
        {
            "the count goes by amount, city, which the columns_of_interest of ods_shop__order_info "
            "lack: changes of it would not be counted",
        },
    ),
]


def test_right_arguments_pass() -> None:
    for day in (None, "2026-03-01", date(2026, 3, 1)):
        check_arguments("to_date", {"as_of": day})
    check_arguments("compared", {"level": "sums"})
    bounds({"max_ahead_hours": 0, "max_behind_days": 30})
    grain("1h")
    assert columns_of_interest("orders", ["user_id", "amount"], ["amount"]) == ["user_id", "amount"]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_declaration_names_every_problem_and_an_example(case: int) -> None:
    check, given, problems = WRONG[case]
    with pytest.raises(DeclarationError) as error:
        check(given)
    text, _, example = str(error.value).partition("\nExample: ")
    if "\n" in text:
        found = {line.removeprefix("  - ") for line in text.splitlines()[1:]}
    else:
        found = {text.partition(": ")[2].removesuffix(".")}
    assert found == problems
    assert example


def test_a_count_is_planned_with_its_defaults() -> None:
    measures = {
        "sales": ROWS,
        "amount": AMOUNT,
        "buyers": {"aggregate": "count_distinct", "column": "buyer"},
        "last_buyer": {"aggregate": "max", "column": "buyer"},
        "high": {"aggregate": "max", "column": "city"},
        "again": ROWS,
    }
    assert count_plan({"dimensions": ("city",), "measures": measures}) == {
        "cut_column": "cut_date",
        "dimensions": ["city"],
        # each column once, and none that is a dimension already
        "values": ["buyer"],
        "sums": {
            "sales": {"column": None, "type": "bigint", "change": "sales_change"} | ROWS,
            "amount": {"change": "amount_change"} | AMOUNT,
            "again": {"column": None, "type": "bigint", "change": "again_change"} | ROWS,
        },
        "count": "sales",
        "measures": measures,
    }


def test_a_metric_is_planned_with_its_defaults() -> None:
    sets = {"all": [], "page": ["page"], "place": ["page", "city"]}
    uv = {"aggregate": "hll", "column": "visitor", "where": "is_new"}
    plan = metric({"time": "at", "dimension_sets": sets, "measures": {"pv": ROWS, "uv": uv}})
    nothing = {"column": None, "type": None, "where": None, "lg_k": 12}
    assert plan == {
        "time": "at",
        "grains": ["5m", "10m", "1h", "1d"],
        "sets": ["all", "page", "place"],
        "dimensions": ["page", "city"],
        "sets_with": {"page": ["page", "place"], "city": ["place"]},
        "measures": {"pv": nothing | ROWS, "uv": nothing | uv},
    }
    assert metric({"time": "at", "measures": {"pv": ROWS}})["sets"] == ["all"]


def test_a_chain_is_planned_with_its_defaults() -> None:
    declared = {"key_columns": ["id", "part"], "image_columns": ["id", "part", "amount"]}
    plan = {"altered_columns": [], "date_column": None}
    plan |= {"key_block": "pmod(xxhash64(id, part), 64)"} | declared
    assert chain_plan(declared) == plan
    assert chain_plan(declared | {"key_block": "id % 8"})["key_block"] == "id % 8"
