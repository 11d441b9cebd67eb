"""Rows of a metric over random retracting streams, against the plain-Python oracle.

Many streams are played into one table, each a tenant of its own. Their items change, move to other
times, are deleted; their rows come in any order over several builds, some with times that can't be
true. The zone's clocks change within the days that they are played on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject
from tests.support.warehouse import differing
from tests.support.window_oracle import Event, grouped, is_possible, there

ZONE = "America/New_York"
# midnights, UTC, before the days on which its clocks change
DAYS = (datetime(2026, 3, 7, 5, tzinfo=UTC), datetime(2026, 10, 31, 4, tzinfo=UTC))
SETS = {"all": (), "tenant": ("tenant",), "page": ("page",), "tenant_page": ("tenant", "page")}
PAGES = ("home", "list", None, "it's")
BOUNDS = {"event_max_ahead_hours": 1, "event_max_behind_days": 30}
METRIC = """
    {% macro sales() %}
        {% do return({
            'time': 'at',
            'dimension_sets': {
                'all': [], 'tenant': ['tenant'], 'page': ['page'],
                'tenant_page': ['tenant', 'page'],
            },
            'measures': {
                'sales': {'aggregate': 'count'},
                'amount': {'aggregate': 'sum', 'column': 'price', 'type': 'decimal(20, 2)'},
                'dear': {'aggregate': 'count', 'where': 'price > 50'},
                'buyers': {'aggregate': 'count_distinct', 'column': 'buyer'},
                'dear_buyers': {
                    'aggregate': 'count_distinct', 'column': 'buyer', 'where': 'price > 50',
                },
                'buyers_hll': {'aggregate': 'hll', 'column': 'buyer'},
                'buyers_theta': {'aggregate': 'theta', 'column': 'buyer'},
                'dear_theta': {'aggregate': 'theta', 'column': 'buyer', 'where': 'price > 50'},
            },
        }) %}
    {% endmacro %}
"""
COLUMNS = "tenant int, at timestamp, known_at timestamp, page string, buyer bigint, "
COLUMNS += "price decimal(12, 2), row_kind string, sign int"
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            schema: src
            tables: [{name: log}]
    """,
    "macros/sales.sql": METRIC,
    "models/events.sql": """
        {{ config(materialized='incremental', partition_by='cut_date') }}
        with rows as (select * from {{ new_rows(source('src', 'log')) }})
        {{ event_rows(
            'rows', ['tenant', 'at', 'page', 'buyer', 'price'], time='at', known_at='known_at'
        ) }}
    """,
    "models/windows.sql": """
        {{ config(
            materialized='incremental',
            incremental_strategy='replace_partitions',
            partition_by=['cut_date', 'grain'],
            sort_by=['dimension_set', 'window_start'],
        ) }}
        with events as (
            select * from {{ changed_partitions(ref('events'), by='cut_date') }}
            where reject_reason is null
        )
        {{ metric_rows(sales(), from_cte='events') }}
    """,
}
WINDOWS = """
    select
        dimension_set, grain, window_start, window_end, tenant, page, sales, amount, dear, buyers,
        dear_buyers, hll_sketch_estimate(buyers_hll) as hll,
        theta_sketch_estimate(buyers_theta) as theta, theta_sketch_estimate(dear_theta) as dear_hit,
        cut_date
    from dw.windows
"""


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    macros = REPO / "macros"
    paths = [*(macros / "metrics").glob("*.sql"), macros / "daily_cut" / "signed.sql"]
    files = {f"macros/{path.name}": path.read_text("utf-8") for path in paths}
    made = make_project(files | FILES)
    made.query("create namespace src")
    made.query(f"create table src.log ({COLUMNS}) using iceberg")
    return made


def stream(seed: int, tenant: int, steps: int = 12) -> list[Event]:
    """Retract rows of a tenant's items, in the order in which they happened."""
    rng = random.Random(seed)
    first, items, rows = rng.choice(DAYS), {}, []

    def image() -> Event:
        # the clocks change at two in the morning of the second day
        near = timedelta(hours=24 + 2, minutes=rng.randint(-90, 90), milliseconds=rng.randrange(9))
        at = first + (near if rng.random() < 0.5 else timedelta(seconds=rng.randrange(3 * 86_400)))
        known_at = at + timedelta(seconds=rng.randint(-3_600, 86_400))
        if rng.random() < 0.15:
            at = rng.choice(
                (
                    None,
                    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
                    datetime(1000, 1, 1, tzinfo=UTC),
                    known_at + timedelta(hours=1),  # as far ahead and back as may be
                    known_at - timedelta(days=30),
                    known_at + timedelta(hours=1, milliseconds=1),
                    known_at - timedelta(days=30, milliseconds=1),
                )
            )
        return {
            "tenant": tenant,
            "at": at,
            "known_at": known_at,
            "page": rng.choice(PAGES),
            "buyer": rng.choice((None, 1, 2, 3, 2**53 + 1, 2**53)),
            "price": Decimal(rng.randrange(10_000)) / 100,
        }

    for number in range(steps):
        known = rng.choice(list(items)) if items and rng.random() < 0.6 else None
        if known is None:
            items[number] = image()
            rows.append(items[number] | {"row_kind": "+I", "sign": 1})
        elif rng.random() < 0.4:
            rows.append(items.pop(known) | {"row_kind": "-D", "sign": -1})
        else:
            rows.append(items[known] | {"row_kind": "-U", "sign": -1})
            items[known] = items[known] | {
                key: value for key, value in image().items() if rng.random() < 0.5
            }
            rows.append(items[known] | {"row_kind": "+U", "sign": 1})
    return rows


def possible(row: Event) -> bool:
    return is_possible(row["at"], row["known_at"], ahead=1, behind=30)


def expected(rows: list[Event]) -> dict[tuple, tuple]:
    """The rows of the windows, as WINDOWS gives them."""
    zone, found = ZoneInfo(ZONE), {}
    for key, events in grouped(filter(possible, rows), SETS, zone).items():
        dear = [event for event in events if event["price"] > 50]
        count = sum(event["sign"] for event in events)
        amount = sum((event["sign"] * event["price"] for event in events), Decimal(0))
        dear_count = sum(row["sign"] for row in dear)
        buyers, dear_buyers = (
            there(some, lambda row: row["buyer"], zone) for some in (events, dear)
        )
        if count or amount or dear_count:
            measures = (count, amount, dear_count, buyers, dear_buyers, buyers, buyers, dear_buyers)
            found[key] = (*measures, key[2].astimezone(zone).date())
    return found


def stored(project: DbtProject) -> dict[tuple, tuple]:
    rows = [tuple(row.values()) for row in project.query(WINDOWS)]
    found = {row[:6]: row[6:] for row in rows}
    assert len(found) == len(rows)
    return found


def append(project: DbtProject, rows: list[Event]) -> None:
    session = own_session(project.credentials()).session
    zoned = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [
            ("tenant", pa.int32()),
            ("at", zoned),
            ("known_at", zoned),
            ("page", pa.string()),
            ("buyer", pa.int64()),
            ("price", pa.decimal128(12, 2)),
            ("row_kind", pa.string()),
            ("sign", pa.int32()),
        ]
    )
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    session.createDataFrame(table).writeTo("src.log").append()


def add_up(windows: dict[tuple, tuple]) -> None:
    """A day's coarser rows are the sum of its 5-minute rows."""
    sums: dict[str, dict[tuple, Any]] = {}
    for (item, grain, _, _, *values), (count, amount, *_, day) in windows.items():
        total = sums.setdefault(grain, {}).setdefault((item, day, *values), [0, Decimal(0)])
        total[0] += count
        total[1] += amount
    kept = {
        grain: {key: total for key, total in found.items() if any(total)}
        for grain, found in sums.items()
    }
    assert kept["5m"] == kept["10m"] == kept["1h"] == kept["1d"]


def check(project: DbtProject, seeds: range, builds: int) -> None:
    rng = random.Random(seeds[0])
    rows = [row for tenant, seed in enumerate(seeds) for row in stream(seed, tenant)]
    arriving = [rng.randrange(builds) for _ in rows]
    variables, arrived, compared = {"business_zone": ZONE} | BOUNDS, [], 0
    for build in range(builds):
        batch = [row for row, place in zip(rows, arriving, strict=True) if place == build]
        append(project, batch)
        arrived += batch
        project.run("run", vars=variables)

        wanted, got = expected(arrived), stored(project)
        assert differing(wanted, got) == [], f"seeds {seeds}, build {build}"
        add_up(got)
        compared += len(got)
        refused = project.column("select count(*) from dw.events where reject_reason is not null")
        assert refused == [sum(not possible(row) for row in arrived)]
    # a batch of one day writes that day alone
    [row] = [row for row in rows if possible(row)][:1]
    append(project, [row])
    arrived.append(row)
    project.run("run", vars=variables)
    day = row["at"].astimezone(ZoneInfo(ZONE)).date()
    assert {
        written_partition.split("/")[0]
        for written_partition in project.written_partitions("dw.windows")
    } == {f"cut_date={day}"}
    incremental = stored(project)
    assert differing(expected(arrived), incremental) == []

    project.run("run", "--full-refresh", vars=variables)

    assert stored(project) == incremental
    print(f"{len(seeds)} seeds from {seeds[0]}: {len(arrived)} rows, {compared} windows compared")


@pytest.mark.in_turn
def test_windows_equal_the_oracle_after_every_build(project: DbtProject) -> None:
    first = random.SystemRandom().randrange(10**6)
    check(project, range(first, first + 25), builds=2)
    # windows of two declarations don't mix
    project.write({"macros/sales.sql": METRIC.replace("price > 50", "price > 60")})
    reported = project.run("run", vars={"business_zone": ZONE} | BOUNDS, expect_ok=False).results
    assert "what is stored was counted differently" in reported["windows"].message


def test_a_window_is_there_while_it_has_events(project: DbtProject) -> None:
    """Whatever its sums come to, also where no measure counts all events. A measure may have the
    name of a column, or of what else is asked."""
    project.write(
        {
            "macros/sales.sql": """
                {% macro sales() %}
                    {% do return({
                        'time': 'at',
                        'grains': ['1d'],
                        'measures': {
                            'amount': {'aggregate': 'sum', 'column': 'price', 'type': 'int'},
                            'dear': {'aggregate': 'count', 'where': 'price > 50'},
                            'buyers': {'aggregate': 'count_distinct', 'column': 'buyer'},
                            'buyer': {
                                'aggregate': 'count_distinct', 'column': 'tenant',
                                'where': 'tenant > 1',
                            },
                            'rows': {
                                'aggregate': 'count_distinct', 'column': 'buyer',
                                'where': 'tenant > 2',
                            },
                        },
                    }) %}
                {% endmacro %}
            """
        }
    )
    at = DAYS[0] + timedelta(hours=12)
    event = {"at": at, "known_at": at, "page": None, "row_kind": "+I", "sign": 1}
    there = [(1, 10, -5), (2, 11, 5), (3, 12, 0)]
    came = [event | {"tenant": t, "buyer": b, "price": Decimal(p)} for t, b, p in there]
    # of the next day nothing is left
    gone = came[0] | {"at": at + timedelta(days=1), "known_at": at + timedelta(days=1)}
    append(project, [*came, gone, gone | {"row_kind": "-D", "sign": -1}])

    project.run("run", vars={"business_zone": ZONE} | BOUNDS)

    measures = "amount, dear, buyers, buyer, rows"
    assert project.query(f"select cut_date, {measures} from dw.windows") == [
        {"cut_date": at.date(), "amount": 0, "dear": 0, "buyers": 3, "buyer": 2, "rows": 1}
    ]
    assert set(project.query("select * from dw.windows")[0]) == {
        *("dimension_set", "grain", "window_start", "window_end", "cut_date"),
        *measures.split(", "),
    }


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, int(os.environ.get("METRIC_SEEDS", "500")), 125))
def test_windows_of_many_streams(project: DbtProject, first: int) -> None:
    check(project, range(first, first + 125), builds=4)


def test_a_wrong_declaration_names_every_problem(project: DbtProject) -> None:
    project.write(
        {
            "models/wrong.sql": """
                with events as (select 1 as id)
                {{ metric_rows({
                    'grains': ['5m', '7m'],
                    'dimension_sets': {'page': 'page'},
                    'measures': {
                        'uv': {'aggregate': 'median', 'column': 'x'},
                        'pv': {'aggregate': 'count', 'column': 'x'},
                        'visits': {'aggregate': 'hll', 'column': 'x', 'lg_k': 40},
                        'paid': {'aggregate': 'sum', 'column': 'x'},
                    },
                    'filter': 'id > 1',
                }, from_cte='events') }}
            """
        }
    )
    variables = {"business_zone": ZONE} | BOUNDS
    outcome = project.run("compile", "--select", "wrong", vars=variables, expect_ok=False)
    output = f"{outcome.log} {outcome.exception}"
    for part in (
        "it has filter, but only time, grains",
        "time must name a column, got None",
        "grains must be a list of some of 5m, 10m, 15m, 30m, 1h, 1d, got ['5m', '7m']",
        "dimension set page must be a list of columns, got page",
        "measure uv must have an aggregate of count, sum, count_distinct, hll, theta",
        "measure pv counts rows and has no column",
        "measure paid must have a type with all places of x",
        "measure visits: lg_k must be a whole number from 4 to 21, got 40",
    ):
        assert part in output


OF_VALUES = """
    {{{{ config(materialized='{kind}'{more}) }}}}
    -- the rows ( of a metric
    with
    values_of_rows as (select * from values {rows} as t(v)),
    events as (select timestamp '2026-03-01 12:00:00' as at, 1 as sign, v from values_of_rows),
    metric as ({{{{ metric_rows({{
        'time': 'at', 'grains': ['1d'],
        'measures': {{
            'n': {{'aggregate': 'count'}},
            'uv': {{'aggregate': '{aggregate}', 'column': 'v'}},
        }},
    }}, from_cte='events') }}}})
    select n, uv, cut_date from metric
"""
# values of one text, and equal values of two texts
WITHOUT_TEXTS = {
    "array<string>": "array('a, b'), array('a', 'b')",
    "struct<a:string>": "named_struct('a', 'null'), named_struct('a', null)",
    "map<int,int>": "map(1, 1, 2, 2), map(2, 2, 1, 1)",
    "double": "0.0d, -0.0d",
    "float": "float('NaN'), float(-0.0)",
    "variant": """parse_json('1'), parse_json('"1"')""",
}
WITH_TEXTS = {
    "binary": ("X'FF', X'FE', X'FF'", 2),
    "decimal": ("1.0, 1.00, 2", 2),
    "string": ("('a'), ('A'), (' a'), (null)", 3),
    "boolean": ("(true), (false), (null)", 2),
    "times": ("timestamp '2026-03-01', timestamp '2026-03-01 00:00:00.000001'", 2),
}


def test_values_that_have_no_text_of_their_own_are_not_counted_by_texts(
    project: DbtProject,
) -> None:
    incremental = ", incremental_strategy='replace_all'"
    refused = {
        f"refused_{number}": (kind, values)
        for number, (kind, values) in enumerate(WITHOUT_TEXTS.items())
    }
    files = {
        name: OF_VALUES.format(
            kind="incremental" if place % 2 else "table",
            more=incremental if place % 2 else "",
            rows=values,
            aggregate=("count_distinct", "hll", "theta")[place % 3],
        )
        for place, (name, (_, values)) in enumerate(refused.items())
    }
    files |= {
        f"counted_{name}": OF_VALUES.format(
            kind="table", more="", rows=values, aggregate="count_distinct"
        )
        for name, (values, _) in WITH_TEXTS.items()
    }
    project.write({f"models/{name}.sql": text for name, text in files.items()})
    variables = {"business_zone": ZONE} | BOUNDS
    results = project.run("run", "--select", *files, vars=variables, expect_ok=False).results
    for name, (kind, _) in refused.items():
        message = results[name].message
        assert f"{name}: its metric compares the values of a column by their texts (" in message
        assert f"v is {kind}, and " in message
    assert {results[f"counted_{name}"].message for name in WITH_TEXTS} == {"+1 rows"}
    for name, (_, count) in WITH_TEXTS.items():
        assert project.column(f"select uv from dw.counted_{name}") == [count], name
