"""Levels above the days: which months and years a run rewrites, and what a total reads."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal

import pytest
from dbt.adapters.sparksession.reading.partition_reads import PartitionReads
from dbt.adapters.sparksession.sql import literal

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT

pytestmark = pytest.mark.in_turn

COUNT = """
    {% macro sales() %}
        {% do return({
            'dimensions': ['city'],
            'measures': {
                'sales': {'aggregate': 'count'},
                'amount_sum': {
                    'aggregate': 'sum', 'column': 'amount', 'type': 'decimal(38, 2)'
                },
                'share_sum': {
                    'aggregate': 'sum', 'column': 'share', 'type': 'decimal(38, 12)'
                },
                'amount_max': {'aggregate': 'max', 'column': 'amount'},
                'amount_min': {'aggregate': 'min', 'column': 'amount'},
                'buyers': {'aggregate': 'count_distinct', 'column': 'buyer'},
            },
        }) %}
    {% endmacro %}
"""
SETTINGS = "materialized='incremental', incremental_strategy='replace_partitions', sort_by='city'"
LEVEL = """
    {{{{ config({settings}, partition_by='{into}') }}}}
    with finer as (
        select * from {{{{ closed_periods(
            ref('{finer}'), by='{by}', period='{period}', into='{into}'
        ) }}}}
    )
    {{{{ roll_up(sales(), from_cte='finer', of_column='{by}', into='{into}') }}}}
"""
TOTALS = "{{ to_date(sales(), ref('sales_1d'), ref('sales_1m'), ref('sales_1y')) }}"
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            schema: src
            tables: [{name: log}]
    """,
    "macros/sales.sql": COUNT,
    "models/sales_1d.sql": f"""
        {{{{ config({SETTINGS}, partition_by='cut_date') }}}}
        with changes as (
            select *, cast(amount * 0.0000000001 as decimal(38, 12)) as share
            from {{{{ changed_partitions(source('src', 'log'), by='cut_date') }}}}
        )
        {{{{ daily_cut(sales(), from_cte='changes') }}}}
    """,
    "models/sales_1m.sql": LEVEL.format(
        settings=SETTINGS, finer="sales_1d", by="cut_date", period="month", into="cut_month"
    ),
    "models/sales_1y.sql": LEVEL.format(
        settings=SETTINGS, finer="sales_1m", by="cut_month", period="year", into="cut_year"
    ),
    "models/sales_td.sql": "{{ config(materialized='view') }} " + TOTALS,
}
SHARE = Decimal("0.0000000001")  # of an amount
Sale = tuple[date | None, str | None, int | None, Decimal | None, int]  # .., buyer, amount, sign


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    macros = REPO / "macros" / "daily_cut"
    files = {f"macros/{path.name}": path.read_text("utf-8") for path in macros.glob("*.sql")}
    made = make_project(files | FILES)
    made.query("create namespace src")
    made.query(
        "create table src.log (cut_date date, city string, buyer bigint, amount decimal(9, 2), "
        "sign int) using iceberg partitioned by (cut_date) "
        "tblproperties ('write.summary.partition-limit' = '5000')"
    )
    return made


def add(project: DbtProject, *sales: Sale) -> None:
    rows = ", ".join(f"({', '.join(literal(item) for item in sale)})" for sale in sales)
    project.query(f"insert into src.log values {rows}")


def sale(day: str, city: str | None = "Oslo", amount: str = "1.00", sign: int = 1) -> Sale:
    return date.fromisoformat(day), city, 7, Decimal(amount), sign


def months(project: DbtProject) -> dict[str, int]:
    rows = project.query(
        "select cut_month, sum(sales_change) as n from dw.sales_1m group by cut_month"
    )
    return {str(row["cut_month"])[:7]: row["n"] for row in rows}


def test_a_period_is_closed_once_a_later_one_began(project: DbtProject) -> None:
    add(project, sale("2025-11-03"), sale("2025-12-31"))
    project.run("run")
    assert months(project) == {"2025-11": 1}
    assert project.column("select count(*) from dw.sales_1y") == [0]

    add(project, sale("2026-01-01"))
    project.run("run")
    assert months(project) == {"2025-11": 1, "2025-12": 1}
    assert project.written_partitions("dw.sales_1m") == {"cut_month=2025-12-01"}

    # December has closed, but only a January that closed shows that the year's months are all there
    add(project, sale("2026-02-01"))
    project.run("run")
    assert project.query("select cut_year, sales_change from dw.sales_1y") == [
        {"cut_year": date(2025, 1, 1), "sales_change": 2}
    ]
    assert project.column("select sales from dw.sales_td") == [4]


def test_only_what_a_late_change_touches_is_rewritten_and_read(project: DbtProject) -> None:
    add(project, *[sale(f"{year}-{month:02}-15") for year in (2024, 2025) for month in (1, 5, 9)])
    add(project, sale("2026-01-10"), sale("2026-02-10"))
    project.run("run")
    full = months(project)

    (path,) = (project.target / "run").rglob("sales_td.sql")
    sql = path.read_text(encoding="utf-8")
    assert "where cut_year < date '2026-01-01'" in sql
    assert "where cut_month >= date '2026-01-01' and cut_month < date '2026-02-01'" in sql
    assert "where cut_date >= date '2026-02-01'" in sql
    assert project.column("select sales from dw.sales_td") == [8]

    add(project, sale("2026-02-11"))
    done = project.run("run")
    assert (
        project.written_partitions("dw.sales_1m")
        == project.written_partitions("dw.sales_1y")
        == set()
    )
    assert done.results["sales_1m"].adapter_response["code"] == "0"  # rows read

    add(project, sale("2024-05-16", sign=-1), sale("2024-05-15", "Bergen"))
    done = project.run("run")
    assert project.written_partitions("dw.sales_1m") == {"cut_month=2024-05-01"}
    assert project.written_partitions("dw.sales_1y") == {"cut_year=2024-01-01"}
    assert done.results["sales_1m"].adapter_response["code"] == "3"
    assert months(project) == full | {"2024-05": 1}
    assert sum(project.column("select sales from dw.sales_td")) == 9


def test_a_closed_period_stays_closed(project: DbtProject) -> None:
    add(project, sale("2026-01-10"), sale("2026-03-01"))
    project.run("run")
    project.query("delete from src.log where cut_date = date '2026-03-01'")
    add(project, sale("2026-01-11"))

    project.run("run")
    assert months(project) == {"2026-01": 2}
    project.run("run", "--full-refresh")
    assert months(project) == {"2026-01": 2}
    assert project.column("select sales from dw.sales_td") == [2]


def test_a_day_ahead_of_the_clock_closes_nothing(project: DbtProject) -> None:
    add(project, sale("2026-01-10"), sale("2026-02-01"), sale("2099-05-05"))
    project.run("run")
    assert months(project) == {"2026-01": 1}
    assert project.column("select sales from dw.sales_td") == [3]

    # what such a day had closed is open again, but for what is over by now
    ahead = "spark.sql.iceberg.snapshot-property.level.closed_before"
    project.query(f"set `{ahead}` = 2099-05-01")
    project.query(
        "insert into dw.sales_1m by name "
        "select * except (cut_month), date '2099-04-01' as cut_month from dw.sales_1m"
    )
    project.query(f"reset `{ahead}`")
    add(project, sale("2026-02-02"), sale("2099-05-06"))
    project.run("run")
    assert months(project) == {"2026-01": 1, "2026-02": 2}
    assert project.column("select sales from dw.sales_td") == [5]


@pytest.mark.soak
def test_a_level_gives_up_no_period_that_its_readers_expect(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(project, sale("2026-08-03"), sale("2026-10-03"), sale("2026-11-03"))
    with monkeypatch.context() as clock:
        clock.setattr(PartitionReads, "_today", lambda *_: date(2027, 3, 5))
        add(project, sale("2027-02-01"), sale("2027-03-01"))
        project.run("run")
    monkeypatch.setattr(PartitionReads, "_today", lambda *_: date(2026, 11, 24))
    add(project, sale("2026-08-04"), sale("2026-11-04"))
    for models in (["sales_1d"], ["sales_1m"], ["sales_1y"], ["sales_1m", "sales_td"]):
        project.run("run", "-s", *models)
    assert project.column("select sales from dw.sales_td") == [7]
    assert months(project) == {"2026-08": 2, "2026-10": 1, "2026-11": 2, "2027-02": 1}

    # all that reads it is built as well
    add(project, sale("2026-11-05"))
    project.run("run")
    assert months(project) == {"2026-08": 2, "2026-10": 1}
    assert project.column("select count(*) from dw.sales_1y") == [0]
    assert project.column("select sales from dw.sales_td") == [8]


def test_a_level_does_not_count_periods_that_the_finer_one_gave_up(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(project, *map(sale, ("2026-08-03", "2026-10-03", "2027-02-01", "2027-03-01")))
    with monkeypatch.context() as clock:
        clock.setattr(PartitionReads, "_today", lambda *_: date(2027, 3, 5))
        project.run("run")
    monkeypatch.setattr(PartitionReads, "_today", lambda *_: date(2026, 9, 24))
    years = FILES["models/sales_1y.sql"]
    project.write({"models/sales_1y.sql": years + " where no_such_column"})
    add(project, sale("2026-09-03"))
    project.run("run", expect_ok=False)
    assert months(project) == {"2026-08": 1}
    project.write({"models/sales_1y.sql": years})
    message = project.run("run", "-s", "sales_1y", expect_ok=False).results["sales_1y"].message
    assert "holds periods before 2027-01-01, dw.sales_1m only those before 2026-09-01" in message
    project.run("run", "-s", "sales_1m+")
    assert project.column("select sales from dw.sales_td") == [5]


def test_rows_without_a_day_count_in_the_total(project: DbtProject) -> None:
    undated = (None, "Oslo", 7, Decimal("1.00"), 1)
    add(project, sale("2025-08-03"), undated)
    project.run("run")
    assert project.column("select sales from dw.sales_td") == [2]
    add(project, sale("2026-09-03"), sale("2026-10-03"))
    project.run("run")
    assert project.column("select sales from dw.sales_td") == [4]
    add(project, undated)
    project.query("insert into src.log values (date '+12026-10-03', 'Oslo', 7, 1.00, 1)")
    project.run("run")
    assert project.column("select sales from dw.sales_td") == [6]
    assert months(project) == {"2025-08": 1, "2026-09": 1}
    sql = TOTALS.replace(")) }}", "), as_of='2026-09-30') }}")
    compiled = project.run("compile", "--inline", sql).raw.results[0].node.compiled_code
    assert [row["sales"] for row in project.query(compiled)] == [2]


@pytest.mark.soak
def test_the_total_of_an_older_version_reads_the_periods_that_were_closed_then(
    project: DbtProject,
) -> None:
    project.write({"dbt_project.yml": PROJECT})
    add(project, sale("2025-12-10"), sale("2026-01-10"))
    project.run("build")
    add(project, sale("2026-01-11"), sale("2026-02-01"))
    project.run("build")
    for version, sales in ((1, 2), (2, 4)):
        asked = project.run("compile", "--inline", TOTALS, vars={"as_of_version": version})
        rows = project.query(asked.raw.results[0].node.compiled_code)
        assert [row["sales"] for row in rows] == [sales], version


@pytest.mark.soak
def test_days_of_two_declarations_do_not_mix(project: DbtProject) -> None:
    days = FILES["models/sales_1d.sql"]
    add(project, sale("2026-01-10"), sale("2026-02-01"))
    project.run("run")

    def refused(*args: str) -> list[str]:
        results = project.run("run", *args, expect_ok=None).results
        reported = "what is stored was counted differently"
        return [name for name, result in results.items() if reported in result.message]

    count = COUNT.replace("['city']", "['city', 'sign']")
    project.write({"macros/sales.sql": count})
    assert refused() == ["sales_1d"]  # though nothing new has come
    assert refused("--full-refresh", "--exclude", "sales_1m", "sales_1y") == []
    assert refused() == ["sales_1m"]
    project.run("run", "--full-refresh")

    # what has no effect on the rows may change, and a measure that the same days give
    spaced = "-- of each city\n" + days.replace("        ", "    ").replace("sort_by='city', ", "")
    more = "'amount_least': {'aggregate': 'min', 'column': 'amount'}, 'buyers'"
    project.write({"models/sales_1d.sql": spaced})
    project.write({"macros/sales.sql": count.replace("'buyers'", more)})
    add(project, sale("2026-02-01"))
    project.run("run")
    assert sum(project.column("select sales from dw.sales_td")) == 3

    project.write({"models/sales_1d.sql": days.replace("        )\n", "        where sign > 0)\n")})
    add(project, sale("2026-02-01", sign=-1))
    assert refused() == ["sales_1d"]
    project.run("run", "--full-refresh")
    assert sum(project.column("select sales from dw.sales_td")) == 3


def test_an_invalid_day_is_refused(project: DbtProject) -> None:
    asked = TOTALS.replace(")) }}", '), as_of="2026-1-1\' or true") }}')
    outcome = project.run("compile", "--inline", asked, expect_ok=False)
    assert "as_of must be a day" in f"{outcome.log} {outcome.exception}"


def test_every_mistake_of_a_declaration_is_reported(project: DbtProject) -> None:
    wrong = {
        "dimension": ["city"],
        "dimensions": "city",
        "measures": {
            "sales": {"aggregate": "median"},
            "amount_sum": {"aggregate": "sum"},
            "share_sum": {"aggregate": "sum", "column": "share"},
        },
    }
    project.write(
        {"macros/sales.sql": f"{{% macro sales() %}}{{% do return({wrong}) %}}{{% endmacro %}}"}
    )
    outcome = project.run("compile", expect_ok=False)
    output = f"{outcome.log} {outcome.exception}"
    assert "it has dimension, but only cut_column, dimensions and measures are known" in output
    assert "dimensions must be a list of column names, got city" in output
    assert "measure sales must have an aggregate of count, sum, min, max" in output
    assert "measure amount_sum must name its column" in output
    assert "measure share_sum must have a type with all places of share" in output
    assert "Example: " in output


# ---- random histories -----------------------------------------------------------------------


def totals(log: list[Sale], as_of: date | None = None) -> dict:
    """The answer in plain Python: city -> (sales, sums, max, min, number of buyers)."""
    there: dict[str | None, Counter] = defaultdict(Counter)
    sums: dict[str | None, Decimal] = defaultdict(Decimal)
    for day, city, buyer, amount, sign in log:
        if as_of is None or day <= as_of:
            there[city][buyer, amount] += sign
            sums[city] += sign * (amount or 0)
    found = {}
    for city, rows in there.items():
        if not sum(rows.values()):
            continue
        amounts = [amount for (_, amount), n in rows.items() if n > 0 and amount is not None]
        buyers = {buyer for (buyer, _), n in rows.items() if n > 0 and buyer is not None}
        extremes = (max(amounts, default=None), min(amounts, default=None))
        total = (sums[city], sums[city] * SHARE)
        found[city] = (sum(rows.values()), *total, *extremes, len(buyers))
    return found


def answered(project: DbtProject, sql: str) -> dict:
    return {
        row["city"]: tuple(row[name] for name in row if name != "city")
        for row in project.query(sql)
    }


def random_log(rng: random.Random) -> list[Sale]:
    """Sales that come, change their amount, buyer or city, and go, over some three years."""
    day, there, log = date(2019, 10, 1), [], []
    for _ in range(120):
        day += timedelta(days=rng.choice((0, 0, 1, 3, 20, 45)))
        if there and rng.random() < 0.5:
            old = there.pop(rng.randrange(len(there)))
            log.append((day, *old, -1))
            if rng.random() < 0.3:
                continue
        new = (
            rng.choice((None, "Oslo", "Bergen", "", "it's")),
            rng.choice((None, 1, 2, 3, 2**62)),
            rng.choice((None, Decimal("0.00"), Decimal("-3.50"), Decimal("9999999.99"))),
        )
        there.append(new)
        log.append((day, *new, 1))
    return log


SEEDS = [1, *[pytest.param(n, marks=pytest.mark.soak) for n in range(2, 10)]]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_measure_equals_plain_python(project: DbtProject, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    log = random_log(rng)
    late = [item for item in log if rng.random() < 0.1]
    rest = [item for item in log if item not in late]
    batches = [rest[:60], rest[60:], late]
    arrived: list[Sale] = []
    for batch in batches:
        add(project, *batch)
        arrived += batch
        project.run("run")
        assert answered(project, "select * from dw.sales_td") == totals(arrived)
        for day in rng.sample(sorted({item[0] for item in arrived}), 2):
            sql = TOTALS.replace(")) }}", f"), as_of='{day}') }}}}")
            compiled = project.run("compile", "--inline", sql).raw.results[0].node.compiled_code
            assert answered(project, compiled) == totals(arrived, as_of=day)
    assert project.column("select count(*) > 0 from dw.sales_1y") == [True]
    project.run("run", "--full-refresh")
    assert answered(project, "select * from dw.sales_td") == totals(arrived)


# ---- two answers side by side ----------------------------------------------------------------

ANSWERS = """
    with got as (
        select city, sales, amount as amount_sum, 0 as share_sum
        from values ('Oslo', 3, 5.00), ('Bergen', 2, 1.00), (null, 1, 1.00)
        as t(city, sales, amount)
    ),
    expected as (
        select city, sales, amount as amount_sum, 0 as share_sum
        from values ('Oslo', 3, 5.00), ('Bergen', 2, 2.50), ('Bodo', 4, 4.00), (null, 1, 1.00)
        as t(city, sales, amount)
    ),
    both as ({{ compared(sales(), 'got', 'expected', level='sums') }}),
    reached as (select %s as is_reached)
    select * from ({{ reconciliation(sales(), 'both', level='sums', reached_cte='reached') }})
"""


def test_groups_that_differ_are_named_and_all_are_counted(project: DbtProject) -> None:
    def reconciled(is_reached: str) -> dict:
        text = ANSWERS % is_reached
        compiled = project.run("compile", "--inline", text).raw.results[0].node.compiled_code
        return {
            (row["is_total"], row["city"]): (
                *(row[f"sales_{part}"] for part in ("got", "expected", "difference")),
                *(row[f"amount_sum_{part}"] for part in ("got", "expected", "difference")),
                *(row[f"{part}"] for part in ("is_compared", "groups_compared")),
                row["groups_differing"],
            )
            for row in project.query(compiled)
        }

    amounts = (Decimal("1.00"), Decimal("2.50"), Decimal("-1.50"))
    assert reconciled("true") == {
        (False, "Bergen"): (2, 2, 0, *amounts, True, 1, 1),
        (False, "Bodo"): (0, 4, -4, 0, 4, -4, True, 1, 1),
        (True, None): (6, 10, 4, 7, Decimal("12.50"), Decimal("5.50"), True, 4, 2),
    }
    # answers that can't be compared yet: the row of all states that nothing was
    assert reconciled("false") == {(True, None): (*[0] * 6, False, 0, 0)}


def test_a_sum_of_nulls_is_0_also_from_scratch(project: DbtProject) -> None:
    text = """
        with sales_now as (
            select * from values
                ('Oslo', null, null, null), (null, 7, null, 0.5), (null, 7, 2.50, null)
            as t(city, buyer, amount, share)
        )
        select city, sales, amount_sum, share_sum, amount_max, amount_min, buyers
        from ({{ count_rows(sales(), 'sales_now') }})
    """
    compiled = project.run("compile", "--inline", text).raw.results[0].node.compiled_code
    amount, nothing = Decimal("2.50"), Decimal(0)
    assert {tuple(row.values()) for row in project.query(compiled)} == {
        ("Oslo", 1, nothing, nothing, None, None, 0),
        (None, 2, amount, Decimal("0.5"), amount, amount, 1),
    }


def test_the_totals_have_a_measure_whose_column_is_a_dimension(project: DbtProject) -> None:
    measures = {"sales": {"aggregate": "count"}, "city_min": {"aggregate": "min", "column": "city"}}
    count = {"dimensions": ["city"], "measures": measures}
    add(project, sale("2026-01-10"), sale("2026-01-11"), sale("2026-01-11", "Bergen"))
    project.run("run", "-s", "sales_1d")
    ran = project.run("compile", "--inline", f"{{{{ to_date({count}, ref('sales_1d')) }}}}")
    rows = project.query(f"{ran.raw.results[0].node.compiled_code} order by city")
    assert [tuple(row.values()) for row in rows] == [("Bergen", 1, "Bergen"), ("Oslo", 2, "Oslo")]


def test_the_rows_of_a_file_are_sorted(project: DbtProject) -> None:
    cities = [f"city {number:03}" for number in range(40)]
    random.Random(5).shuffle(cities)
    add(project, *[sale("2026-01-10", city) for city in cities])
    project.run("run", "-s", "sales_1d")
    assert project.column("select city from dw.sales_1d") == sorted(cities)
    add(project, *[sale("2026-01-10", f"{city} b") for city in cities])
    project.run("run", "-s", "sales_1d")
    assert project.column("select city from dw.sales_1d") == sorted(
        [*cities, *(f"{city} b" for city in cities)]
    )
