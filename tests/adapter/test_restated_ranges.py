"""A range of a zipper is restated, and what depends on it follows: what that writes, beside a full
refresh of the same models."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import REPO, DbtProject
from tests.support.zipper_oracle import versions

MACROS = {
    f"macros/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros" / "joins").glob("*.sql"))
}
START = datetime(2026, 3, 1, tzinfo=UTC)
DAYS, PRODUCTS, A_DAY = 40, 50, 60  # changes and orders
RESTATED = 17  # the day
FILES = MACROS | {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: changes}, {name: rates}, {name: orders}]
    """,
    # the rate of a change's day is looked up, as of the run: a later correction doesn't reach back
    "models/zip.sql": """
        {{ config(
            materialized='folded', unique_key='id', zipper={'sequence': 'place', 'time': 'time'}
        ) }}
        select
            changes.id,
            changes.place,
            changes.time,
            cast(changes.price * rates.rate as decimal(12, 4)) as price
        from {{ new_rows(source('src', 'changes')) }} as changes
        inner join {{ pinned(source('src', 'rates')) }} as rates
            on rates.day = datediff(date(changes.time), date '2026-03-01')
    """,
    "models/priced.sql": """
        {{ config(materialized='folded') }}
        {{ temporal_join(
            left={
                'relation': source('src', 'orders'), 'key': 'number',
                'columns': ['number', 'id', 'at'], 'time': 'at',
            },
            right={
                'relation': ref('zip'), 'key': ['id', 'valid_from'],
                'columns': {'id': 'priced_id', 'valid_from': 'valid_from', 'price': 'price'},
            },
            on={'id': 'id'},
            kind='left',
        ) }}
    """,
    "models/reported.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select id, price, valid_from, valid_to, row_kind, sign
        from {{ new_changes(ref('zip')) }}
    """,
}
TABLES = {"zip": "zip__runs", "priced": "priced__runs", "reported": "reported"}


def land(project: DbtProject, table: str, schema: str, rows: list[tuple]) -> None:
    session = own_session(project.credentials()).session
    session.createDataFrame(rows, schema).writeTo(f"src.{table}").using("iceberg").createOrReplace()


def written(project: DbtProject, since: dict[str, int]) -> dict[str, int]:
    """Rows that each model's commits added behind the first so many."""
    return {
        model: sum(
            int(row["n"] or 0)
            for row in project.query(
                f"select summary['added-records'] as n from dw.{table}.snapshots "
                "order by committed_at"
            )[since.get(model, 0) :]
        )
        for model, table in TABLES.items()
    }


def commits(project: DbtProject) -> dict[str, int]:
    return {
        model: project.column(f"select count(*) from dw.{table}.snapshots")[0]
        for model, table in TABLES.items()
    }


def expected(
    changes: list[tuple], orders: list[tuple], rates: dict[int, Decimal]
) -> tuple[set[tuple], set[tuple]]:
    """The versions of prices, and each order with its price."""
    by_id: dict[int, list[dict[str, Any]]] = {}
    for id, place, time, price in changes:
        rate = rates[(time - START).days]
        by_id.setdefault(id, []).append(
            {"place": place, "time": time, "price": price * rate, "kind": "+U"}
        )
    found = {
        id: versions(events, ["place"], "time", ["price"], "kind") for id, events in by_id.items()
    }
    zipped = {
        (id, start, end, last["price"]) for id, held in found.items() for start, end, last in held
    }
    priced = {
        (
            number,
            next(
                (
                    last["price"]
                    for start, end, last in found.get(id, [])
                    if start <= at and (end is None or at < end)
                ),
                None,
            ),
        )
        for number, id, at in orders
    }
    return zipped, priced


def compare(project: DbtProject, wanted: tuple[set[tuple], set[tuple]]) -> None:
    zipped = project.query("select id, valid_from, valid_to, price from dw.zip")
    assert {tuple(row.values()) for row in zipped} == wanted[0]
    priced = project.query("select number, price from dw.priced")
    assert {tuple(row.values()) for row in priced} == wanted[1]
    assert len(priced) == len(wanted[1])
    differing = project.query(
        "select id, valid_from, price, sum(n) from (select id, valid_from, valid_to, price, "
        "sign as n from dw.reported union all select id, valid_from, valid_to, price, -1 "
        "from dw.zip) group by id, valid_from, valid_to, price having sum(n) <> 0"
    )
    assert differing == []


@pytest.mark.in_turn
def test_a_restated_day_rewrites_what_depends_on_it_alone(make_project):
    seed = random.SystemRandom().randint(0, 10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    moments = sorted(rng.sample(range(DAYS * 86_400), DAYS * A_DAY))
    times = [START + timedelta(seconds=moment) for moment in moments]
    changes = [
        (rng.randrange(PRODUCTS), place, time, Decimal(rng.randrange(100, 10_000)) / 100)
        for place, time in enumerate(times)
    ]
    orders = [
        (number, rng.randrange(PRODUCTS), START + timedelta(seconds=rng.randrange(DAYS * 86_400)))
        for number in range(DAYS * A_DAY)
    ]
    rates = dict.fromkeys(range(DAYS), Decimal("1.00"))

    project = make_project(FILES)
    project.query("create namespace src")
    land(project, "changes", "id int, place int, time timestamp, price decimal(8, 2)", changes)
    land(project, "orders", "number int, id int, at timestamp", orders)
    land(project, "rates", "day int, rate decimal(8, 2)", [*rates.items()])
    project.run("run")
    compare(project, expected(changes, orders, rates))
    whole = written(project, {})

    before = expected(changes, orders, rates)
    rates[RESTATED] = Decimal("1.10")
    project.query(f"update src.rates set rate = 1.10 where day = {RESTATED}")
    project.run("run")
    compare(project, before)

    since = commits(project)
    first = START + timedelta(days=RESTATED)
    asked = {"from": f"{first:%Y-%m-%d}", "to": f"{first + timedelta(days=1):%Y-%m-%d}"}
    project.run("run", "-s", "zip", vars={"rebuild": asked})
    project.run("run")
    compare(project, expected(changes, orders, rates))
    restated = written(project, since)
    shares = {model: restated[model] / whole[model] for model in TABLES}
    print({model: f"{restated[model]} of {whole[model]} rows" for model in TABLES})

    project.run("run", "--full-refresh")
    compare(project, expected(changes, orders, rates))
    # a day of forty; versions of its prices last to the next change, and orders go by them
    assert shares["priced"] < 0.15, shares
    assert shares["reported"] < 0.15, shares
