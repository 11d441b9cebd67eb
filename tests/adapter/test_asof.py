"""The join with the nearest row: which left rows a changed right row touches, and what is wrong
with its arguments. Its rows meet the oracle in test_joins.py."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.declared.joins import Join, JoinConfigError, read_join

from tests.support.dbt_project import REPO

MACROS = {
    f"macros/joins/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/joins").glob("*.sql"))
}
FOLDED = (
    "{{{{ config(materialized='folded', unique_key='{key}', "
    "fold={{'sequence': 'n', 'row_kind': 'row_kind'}}) }}}} "
    "select * from {{{{ new_rows(source('src', '{source}')) }}}}"
)
QUOTED = """
    {{{{ config(materialized='folded', unique_key=['id', 'rid'], fold={{
        'sequence': 'commit_number', 'row_kind': 'row_kind'}}) }}}}
    {{{{ asof_join(
        left={{'relation': ref('trades'), 'key': 'id', 'columns': ['id'], 'time': 'at'}},
        right={{'relation': ref('quotes'), 'key': 'rid', 'columns': ['rid', 'price'],
            'time': 'quoted', 'tie_break': 'n'}},
        on={{'k': 'k'}},
        {arguments}
    ) }}}}
"""
# model -> its arguments, and the trades that a quote of day 20 touches between those of 0 and 50
JOINS = {
    "backward": ("kind='left'", (20, 49)),
    "backward_strict": ("strict=true", (21, 50)),
    "backward_near": ("tolerance='5 days', kind='left'", (20, 25)),
    "forward": ("direction='forward'", (1, 20)),
    "forward_strict": ("direction='forward', strict=true, kind='left'", (0, 19)),
    "nearest": ("direction='nearest', kind='left'", (0, 50)),
    "nearest_near": ("direction='nearest', tolerance='3 days'", (17, 23)),
}
# the rid of the quote that a trade has, by the trade's day
QUOTES = {1: 0, 2: 50, 3: 20}


def nearest(day: int, rids: list[int], arguments: str) -> int | None:
    """The quote of a trade of this day, for the arguments of JOINS."""
    allowed = [
        (abs(QUOTES[rid] - day), QUOTES[rid], rid)
        for rid in rids
        if ("direction" in arguments or QUOTES[rid] <= day)
        and ("forward" not in arguments or QUOTES[rid] >= day)
        and ("strict" not in arguments or QUOTES[rid] != day)
        and (abs(QUOTES[rid] - day) <= int(re.search(r"(\d+) days|$", arguments)[1] or 1000))
    ]
    return min(allowed)[2] if allowed else None


@pytest.mark.soak
def test_a_late_row_touches_the_left_rows_up_to_its_neighbours_alone(make_project):
    models = {
        "models/sources.yml": "sources: [{name: src, tables: [{name: trades}, {name: quotes}]}]",
        "models/trades.sql": FOLDED.format(key="id", source="trades"),
        "models/quotes.sql": FOLDED.format(key="rid", source="quotes"),
    }
    models |= {
        f"models/{name}.sql": QUOTED.format(arguments=arguments)
        for name, (arguments, _) in JOINS.items()
    }
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    day = "timestamp'2026-01-01' + make_dt_interval(cast({} as int))"
    project.query(
        f"create table src.trades using iceberg as select id, 0 as n, '+I' as row_kind, 1 as k, "
        f"{day.format('id')} as at from range(100)"
    )

    def quote(rid: int, n: int, kind: str) -> str:
        return (
            f"select {rid} as rid, {n} as n, '{kind}' as row_kind, 1 as k, 5 as price, "
            f"{day.format(QUOTES[rid])} as quoted"
        )

    project.query(
        f"create table src.quotes using iceberg as {quote(1, 0, '+I')} union all "
        + quote(2, 0, "+I")
    )

    def compare(rids: list[int]) -> None:
        for name, (arguments, _) in JOINS.items():
            expected = {day: nearest(day, rids, arguments) for day in range(100)}
            rows = project.query(f"select id, rid from dw.{name}")
            wanted = {(day, rid) for day, rid in expected.items() if rid or "'left'" in arguments}
            assert {(row["id"], row["rid"]) for row in rows} == wanted, name
            assert len(rows) == len(wanted)

    def touched(name: str) -> tuple[int, int]:
        (compiled,) = (project.target / "compiled").rglob(f"{name}.sql")
        text = compiled.read_text(encoding="utf-8")
        found = re.findall(r"\bid`? (?:= (\d+)|between (\d+ and \d+)|in \(([\d, ]+)\))", text)
        ids = [int(number) for parts in found for number in re.findall(r"\d+", " ".join(parts))]
        return min(ids), max(ids)

    project.run("run")
    compare([1, 2])
    project.query(f"insert into src.quotes {quote(3, 0, '+I')}")
    project.run("run")
    compare([1, 2, 3])
    assert {name: touched(name) for name in JOINS} == {
        name: bounds for name, (_, bounds) in JOINS.items()
    }
    for name, (arguments, _) in JOINS.items():
        taken = sum(nearest(day, [1, 2, 3], arguments) == 3 for day in range(100))
        written = f"select count(*) from dw.{name} where commit_number = 2"
        assert project.column(written) == [taken], name

    # and back
    project.query(f"insert into src.quotes {quote(3, 1, '-D')}")
    project.run("run")
    compare([1, 2])
    assert {name: touched(name) for name in JOINS} == {
        name: bounds for name, (_, bounds) in JOINS.items()
    }


# ---- what is declared
# -------------------------------------------

TYPES = {
    "trades": {"id": "int", "k": "int", "at": "timestamp"},
    "quotes": {"rid": "int", "k": "int", "quoted": "timestamp", "n": "bigint", "tags": "map<a,b>"},
}
CONFIG = {
    "materialized": "folded",
    "unique_key": ["id", "rid"],
    "fold": {"sequence": "commit_number", "row_kind": "row_kind"},
}


def join(right: dict[str, Any] | None = None, **given: Any) -> Join:
    def relation(name: str) -> Any:
        return SimpleNamespace(render=lambda: name, name_only=SimpleNamespace(render=lambda: name))

    sides = {
        "left": {"relation": relation("trades"), "key": "id", "columns": ["id"], "time": "at"},
        "right": {"relation": relation("quotes"), "key": "rid", "columns": ["rid"]}
        | {"time": "quoted"}
        | (right or {}),
    }
    arguments = sides | {"form": "asof_join", "on": {"k": "k"}, "kind": "inner"}
    arguments |= {"direction": "backward", "tolerance": None, "strict": False} | given
    model = {"resource_type": "model", "config": CONFIG}
    return read_join(arguments, model, lambda side: TYPES[side.render()])


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(JoinConfigError) as raised:
        join(right={"tie_break": [3]}, direction="back", tolerance="2 months", strict="yes")
    for problem in (
        "right.tie_break must name columns, got [3]",
        "direction must be one of backward, forward, nearest, got 'back'",
        "strict must be true or false, got 'yes'",
        "tolerance must be a whole number of microseconds, milliseconds, seconds, minutes, hours, "
        "days or weeks",
    ):
        assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("right", "given", "problem"),
    [
        ({}, {"tolerance": "0 days"}, "tolerance must be above zero, got '0 days'"),
        ({}, {"tolerance": "-5 minutes"}, "tolerance must be above zero, got '-5 minutes'"),
        ({"tie_break": "seen"}, {}, "right (quotes): there is no column seen"),
        ({"tie_break": "tags"}, {}, "column tags is map<a,b>, of which no two can be compared"),
        ({}, {"kind": "semi"}, "kind must be inner or left, got 'semi'; whether there is any row"),
        ({"time": "n"}, {}, "time column n is bigint, must be a timestamp or a date"),
    ],
)
def test_a_wrong_argument_is_named(right: dict[str, Any], given: dict, problem: str) -> None:
    with pytest.raises(JoinConfigError) as raised:
        join(right, **given)
    assert problem in str(raised.value)


def test_a_condition_on_pairs_that_asks_the_clock_is_refused() -> None:
    with pytest.raises(JoinConfigError) as raised:
        join(form="many_to_many_join", condition="left_row.at < now()")
    assert "condition must be a SQL condition that asks neither the clock" in str(raised.value)


def test_columns_of_a_side_that_only_filters_are_refused() -> None:
    with pytest.raises(JoinConfigError) as raised:
        join(kind="anti", form="many_to_many_join")
    assert "right.columns must not be given: a join of kind anti has none" in str(raised.value)


def test_another_choice_asks_for_a_full_refresh() -> None:
    stored = join().definition
    assert not join().differs_from(stored)
    for right, given in (
        ({}, {"direction": "forward"}),
        ({}, {"direction": "nearest"}),
        ({}, {"strict": True}),
        ({}, {"tolerance": "1 day"}),
        ({"tie_break": "n"}, {}),
    ):
        assert join(right, **given).differs_from(stored)
