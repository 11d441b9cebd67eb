"""Ranges of what a run touches: they hold all of it, are few, and leave files out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.inputs import Inputs
from dbt.adapters.sparksession.reading.ranges import (
    RANGE_COUNT,
    VALUE_COUNT,
    ColumnRanges,
    PruningColumn,
    bounds_query,
    merged_ranges,
    ranges_condition,
    values_and_ranges,
    widened,
)
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject


def wanted(**given: Any) -> PruningColumn:
    return PruningColumn(**({"column": "c", "kind": "bigint", "low": "v", "high": "v"} | given))


def test_ranges_hold_all_parts_and_leave_the_widest_gaps_out():
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        starts = [rng.randint(0, rng.choice([100, 10**6])) for _ in range(rng.randint(1, 200))]
        parts = [(Decimal(low), Decimal(low + rng.choice([0, 0, 3, 50]))) for low in starts]
        ranges = merged_ranges(parts)
        assert len(ranges) <= RANGE_COUNT
        assert all(item[1] < other[0] for item, other in itertools.pairwise(ranges))
        assert all(any(a <= low and high <= b for a, b in ranges) for low, high in parts)
        covered = sorted(parts)
        held = [other[0] - item[1] for item, other in itertools.pairwise(ranges)]
        reached, gaps = covered[0][1], []
        for low, high in covered[1:]:
            gaps += [low - reached] if low > reached else []
            reached = max(reached, high)
        assert sorted(held) == sorted(gaps)[-len(held) :] if held else not gaps


def test_values_and_ranges_hold_all_parts():
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        starts = [rng.randint(-1000, rng.choice([100, 10**6])) for _ in range(rng.randint(0, 300))]
        width = rng.choice([0, 0, 3, 5000])
        parts = [(Decimal(low), Decimal(low + rng.choice([0, width]))) for low in starts]
        values, ranges = values_and_ranges(parts)
        assert len(values) <= VALUE_COUNT
        assert len(ranges) <= RANGE_COUNT
        assert all(low < high for low, high in ranges)
        held = [*((value, value) for value in values), *ranges]
        assert all(any(a <= low and high <= b for a, b in held) for low, high in parts)
        for low, high in ranges:
            wide = widened(low, high)
            assert wide[0] <= low < high <= wide[1]
            assert (wide[1] - wide[0]) <= (high - low) * Decimal("1.05") + 2


def test_what_ends_before_it_begins_hides_no_other_part():
    far = [(Decimal(1_000 * number), Decimal(1_000 * number)) for number in range(1, RANGE_COUNT)]
    ranges = merged_ranges([(Decimal(1), Decimal(5)), (Decimal(7), Decimal(3)), *far])
    assert ranges == [(Decimal(1), Decimal(5)), *far]


@pytest.mark.parametrize(
    ("given", "parts", "condition"),
    [
        ({}, [], "false"),
        ({}, [(None, None)], "false"),
        ({"nulls": True}, [(None, None)], "(c is null)"),
        ({"nulls": True}, [(Decimal(1), Decimal(1))], "(c in (1, null))"),
        ({}, [(Decimal(99), Decimal(99)), (Decimal(1), Decimal(4))],
         "(c in (99, null) or c between 1 and 4)"),
        ({"high": "w"}, [(Decimal(5), None), (Decimal(3), None)], "(c >= 3)"),
        ({"high": "w"}, [(None, Decimal(5)), (None, Decimal(7))], "(c <= 7)"),
        ({"high": "w"}, [(None, None), (Decimal(1), Decimal(1))], "true"),
        ({"high": "w", "nulls": True}, [(Decimal(1), Decimal(2))],
         "(c between 1 and 2 or c is null)"),
        ({"kind": "date"}, [(Decimal(20513), Decimal(20513))], "(c in (date '2026-03-01', null))"),
        ({"kind": "date", "high": "w"}, [(Decimal(20513), Decimal(10**7))],
         "(c >= date '2026-03-01')"),
        ({"kind": "timestamp"}, [(Decimal(0), Decimal(1500))],
         "(c between timestamp '1970-01-01 00:00:00Z' and "
         "timestamp '1970-01-01 00:00:00.001500Z')"),
        ({"kind": "decimal(12,2)"}, [(Decimal("-1.50"), Decimal("-1.50"))],
         "(c in (cast('-1.50' as decimal(12,2)), null))"),
        ({}, [(Decimal(7), Decimal(7)), (Decimal(3), Decimal(3)), (Decimal(7), Decimal(7))],
         "(c in (3, 7))"),
        ({}, [(Decimal(n), Decimal(n)) for n in range(0, 1000, 2)], "(c between 0 and 999)"),
        ({}, [(Decimal(n), Decimal(n)) for n in range(-(2**63), 2**63, 2**55)],
         f"(c between {-(2**63)} and {2**63 - 2**55})"),
        ({}, [(Decimal(5), Decimal(5)), (Decimal(9000), Decimal(9100))],
         "(c in (5, null) or c between 9000 and 9100)"),
    ],
)  # fmt: skip
def test_a_condition_holds_for_the_parts(given, parts, condition):
    assert ranges_condition(wanted(**given), parts) == condition


def test_texts_and_numbers_that_fit_nowhere_have_no_ranges():
    assert not wanted(kind="string").is_ordered
    assert not wanted(kind="decimal(38,0)").is_ordered
    assert wanted(kind="decimal(20,0)").is_ordered


COLUMNS = {
    "tiny": ("tinyint", "cast(id % 100 as tinyint)"),
    "whole": ("bigint", "(id - 300) * id * 10007"),
    "far": ("bigint", "if(id % 2 = 0, -9223372036854775808, 9223372036854775807)"),
    "money": ("decimal(20,2)", "cast((id - 500) * 1.25 as decimal(20, 2))"),
    "day": ("date", "date_add(date '2026-03-01', cast(id * id % 4001 as int))"),
    "moment": ("timestamp", "timestamp_micros(id * id * 1000003)"),
    "local": ("timestamp_ntz", "cast(timestamp_micros(id * 7000003) as timestamp_ntz)"),
}


def asked(project: DbtProject, rows: str, columns: list[PruningColumn]) -> list[str]:
    """The conditions of the columns, as pruning_condition makes them."""
    parts: dict[int, list] = {}
    for row in project.query(bounds_query(rows, columns)):
        parts.setdefault(row["place"], []).append((row["low"], row["high"]))
    return [ranges_condition(column, parts.get(place, [])) for place, column in enumerate(columns)]


def test_conditions_of_every_type_hold_the_rows_and_reach_the_files(make_project):
    project = make_project({})
    made = ", ".join(f"{sql} as {name}" for name, (_, sql) in COLUMNS.items())
    project.query("create namespace if not exists dw")
    project.query(f"create table dw.held using iceberg as select id, {made} from range(1000)")
    chosen = "id in (3, 4, 77, 400, 401, 402, 990)"
    rows = f"(select * from dw.held where {chosen} union all select null, {nulls()})"
    columns = [
        PruningColumn(column=name, kind=kind, low=name, high=name, nulls=True)
        for name, (kind, _) in COLUMNS.items()
    ]

    conditions = asked(project, rows, columns)

    held = " and ".join(conditions)
    assert project.column(f"select count(*) from dw.held where {chosen} and {held}") == [7]
    for name, condition in zip(COLUMNS, conditions, strict=True):
        assert condition.endswith(f" or {name} is null)")
        passed = project.column(f"select count(*) from dw.held where {condition}")[0]
        assert passed < 1000 or name == "far", f"{name}: {condition}"
        plan = project.column(f"explain select * from dw.held where {condition}")[0]
        scan = plan[plan.index("filters=") :].partition("groupedBy")[0]
        assert f"{name} IS NULL" in scan, f"{name}: {scan}"


def nulls() -> str:
    return ", ".join(f"cast(null as {kind})" for kind, _ in COLUMNS.values())


FOLDED = """
    {{ config(materialized='folded', unique_key='id', fold={'sequence': 'at'}) }}
    select * from {{ new_rows(source('src', 'rows')) }}
"""


def test_a_condition_on_its_key_reaches_the_files_of_a_folded_table(make_project):
    sources = "sources: [{name: src, tables: [{name: rows}]}]"
    project = make_project({"models/sources.yml": sources, "models/latest.sql": FOLDED})
    project.query("create namespace if not exists src")
    project.query("create table src.rows (id bigint, at int, v string) using iceberg")
    for at in (1, 2):
        project.query(f"insert into src.rows select id, {at}, 'x' from range(100)")
        project.run("run")
    plan = project.column("explain select * from dw.latest where (id between 5 and 6 or id = 9)")[0]
    scan = plan[plan.index("filters=") :].partition("groupedBy")[0]
    assert "id >= 5" in scan
    assert "id = 9" in scan


def test_rows_kept_by_another_thread_for_a_model_of_the_same_alias_are_others(
    make_project: Callable[..., DbtProject],
) -> None:
    credentials = make_project({}).credentials()
    warehouse: Any = SimpleNamespace(
        inputs=Inputs(), session=lambda: own_session(credentials).session
    )
    ranges = ColumnRanges(warehouse)
    models = [{"alias": "x", "unique_id": f"model.small.{name}"} for name in ("full", "empty")]
    rows = ranges.materialize_once(models[0], "batch", "select id as v from range(3)")
    with ThreadPoolExecutor(1) as pool:
        nothing = "select id as v from range(0)"
        assert pool.submit(ranges.materialize_once, models[1], "batch", nothing).result() == rows
    near = ranges.pruning_condition(rows, [vars(wanted())])
    assert near == {"condition": "(c in (0, 1, 2))", "row_count": 3}
