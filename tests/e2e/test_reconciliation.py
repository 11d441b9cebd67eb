"""Late data, reconciliations and compensation over random histories, against the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import histories, oracle
from tests.support.levels import Levels, month
from tests.support.warehouse import Counts, Warehouse, differing
from tools.compensate import CompensateError, compensate, days_between

OPEN_DAYS = 3  # as the var open_window_days
DAYS = "dw.dws_trade__user_status_1d"
MODELS = ("+dws_trade__user_status_td",)
COUPONS = ("+dws_trade__user_coupon_td",)
# tables that nothing here is played of; meta_late_data looks at all typed tables
NOT_PLAYED = ("app__user_profile", "shop__audit_nopk", "shop__order_address")
NOT_PLAYED += ("shop__product_price", "shop__user_account")
NOT_PLAYED += ("school__class_booking", "school__class_session", "traffic__page_view")
AHEAD = "2099-05-05"
ITS_TESTS = ("totals_reconcile_with_the_latest_rows", "days_reconcile_with_the_changelog")
ITS_TESTS += ("--indirect-selection", "cautious", "--exclude-resource-type", "unit_test")
CHECKS = ("dqc_trade__user_status_reconciliation", "dqc_trade__user_status_1d_reconciliation")
LEVELS = ("dqc_trade__user_status_1m_reconciliation", "dqc_trade__user_status_1y_reconciliation")


@dataclass
class Played:
    """A warehouse and what has come into it.

    Attributes:
        late: of each load, oldest first: (newest day before it, business day -> late changes).
        to_come: batches that haven't come in yet.
    """

    warehouse: Warehouse
    lines: list[bytes] = field(default_factory=list)
    late: list[tuple[date | None, dict[date, int]]] = field(default_factory=list)
    to_come: list[list[histories.Message]] = field(default_factory=list)

    @property
    def changes(self) -> list[oracle.Change]:
        return oracle.read_messages(self.lines)

    def land(self, models: tuple[str, ...] = MODELS) -> None:
        """Let the next batch come, and run these models."""
        batch = self.to_come.pop(0)
        before = {change.identity: oracle.cut_date(change) for change in self.changes}
        newest = max(before.values(), default=None)
        histories.write_batch(self.warehouse.landing, batch, max_lines=50_000)
        self.lines += [line for _, line in batch]
        new = Counter(
            oracle.cut_date(change) for change in self.changes if change.identity not in before
        )
        late = {
            day: count
            for day, count in new.items()
            if newest is not None and (newest - day).days >= OPEN_DAYS
        }
        self.late.append((newest, late))
        self.warehouse.run("run", "--select", *models)

    def check(self) -> None:
        """Every level is the oracle's."""
        for expected, got in Levels(self.warehouse).pairs(self.changes):
            assert differing(expected, got) == []

    def dbt(self, words: list[str], variables: dict[str, Any]) -> Any:
        """What tools.compensate runs dbt by."""
        done = self.warehouse.run(*words, vars=variables, expect_ok=None)
        return SimpleNamespace(success=done.ok, exception=done.exception, result=done.raw)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    found = Played(Warehouse(tmp_path_factory.mktemp("played")))
    found.to_come = histories.pack(range(40, 42), 3, gaps=True)
    found.land(models=MODELS + COUPONS)
    found.land()
    found.land()  # all has come: the latest rows are what the signs add up to
    for name in NOT_PLAYED:
        found.warehouse.query(
            f"create table dw.ods_{name} (cut_date date, reject_reason string) using iceberg "
            "partitioned by (cut_date) tblproperties ('write.summary.partition-limit' = '100')"
        )
    for day in ("2026-03-05", AHEAD, "2026-03-06", "2026-03-01"):
        found.warehouse.query(
            f"insert into dw.ods_{NOT_PLAYED[0]} (cut_date) values (date '{day}')"
        )
    found.warehouse.run("run", "--select", "meta_late_data", "meta_compensation")
    return found


@pytest.mark.in_turn
def test_late_data_is_healed_and_what_is_behind_the_open_window_is_reported(
    played: Played,
) -> None:
    rows = played.warehouse.query(
        "select *, dense_rank() over (order by committed_at) as place from dw.meta_late_data "
        "where table_name = 'ods_shop__order_info'"
    )
    got: dict[Any, dict[date, int]] = {}
    for row in rows:
        got.setdefault(row["newest_day_before"], {})[row["cut_date"]] = row["change_count"]
        assert row["days_behind"] == (row["newest_day_before"] - row["cut_date"]).days
    expected = [(newest, late) for newest, late in played.late if late]
    print(
        f"{sum(map(len, got.values()))} late days, {sum(row['change_count'] for row in rows)} "
        "late changes"
    )
    assert expected
    assert got == dict(expected)
    # a day ahead of the clock makes no other one late
    (row,) = played.warehouse.query(
        f"select * from dw.meta_late_data where table_name = 'ods_{NOT_PLAYED[0]}'"
    )
    assert (row["cut_date"], row["newest_day_before"]) == (date(2026, 3, 1), date(2026, 3, 6))
    played.check()


def reconcile(played: Played, expect_ok: bool) -> dict[str, dict[str, Any]]:
    """Check name -> its newest row of meta_quality."""
    warehouse = played.warehouse
    checks = (*CHECKS, *LEVELS, "meta_quality")
    warehouse.run("build", "--select", *checks, *ITS_TESTS, expect_ok=expect_ok)
    rows = warehouse.query("select * from dw.meta_quality order by checked_at")
    return {row["check_name"]: row for row in rows}


def listed(played: Played, check: str, *keys: str) -> dict[tuple, tuple[Any, Any]]:
    """Group -> (what the count states, what it must be), each (count, sum), 0 where it is
    missing."""
    rows = played.warehouse.query(f"select * from dw.{check} where not is_total")
    change = "_change" if "cut_date" in keys else ""
    found = {}
    for row in rows:
        key = tuple(row[key] for key in keys)
        found[key] = tuple(
            (row[f"order_count{change}_{side}"], row[f"amount_sum{change}_{side}"])
            for side in ("got", "expected")
        )
    assert len(found) == len(rows)
    return found


def wanted(expected: dict, got: Counts) -> dict[tuple, tuple[Any, Any]]:
    return {
        key: (theirs or (0, 0), ours or (0, 0)) for key, ours, theirs in differing(expected, got)
    }


def damage(played: Played) -> dict[str, date]:
    """Three days that are wrong, each in another way; how -> which."""
    found = played.warehouse.query(
        f"select cut_date, count(*) as n from {DAYS} group by 1 having n > 3 order by 1"
    )
    days = [row["cut_date"] for row in found]
    wrong = {"gone": days[0], "doubled": days[len(days) // 2], "partly gone": days[-1]}
    assert len(set(wrong.values())) == 3
    query = played.warehouse.query
    query(f"delete from {DAYS} where cut_date = date '{wrong['gone']}'")
    query(f"insert into {DAYS} select * from {DAYS} where cut_date = date '{wrong['doubled']}'")
    partly = f"cut_date = date '{wrong['partly gone']}' and order_count_change > 0"
    query(f"delete from {DAYS} where {partly}")
    return wrong


def damage_levels(played: Played, days: Collection[date]) -> None:
    """Take a closed month away that these days don't lie in, and add a year that has no months: no
    run writes them again for the sake of the days."""
    years, months = DAYS.replace("1d", "1y"), DAYS.replace("1d", "1m")
    query, touched = played.warehouse.query, {month(day) for day in days}
    gone = min(set(played.warehouse.column(f"select cut_month from {months}")) - touched)
    query(f"delete from {months} where cut_month = date '{gone}'")
    query(
        f"insert into {years} by name select * except (cut_year), "
        f"add_months(cut_year, -12) as cut_year from {years} where cut_year = "
        f"(select min(cut_year) from {years})"
    )


def doubled(daily: dict, day: date) -> dict:
    return {
        key: (2 * count, 2 * amount) if key[0] == day else (count, amount)
        for key, (count, amount) in daily.items()
    }


@pytest.mark.in_turn
def test_damaged_days_are_listed_found_and_rewritten(played: Played) -> None:
    daily = oracle.daily_counts(played.changes)
    totals = oracle.counts_to_date(played.changes)
    good = reconcile(played, expect_ok=True)
    assert {row["verdict"] for row in good.values()} == {"passed"}
    assert good["user_status: totals as the latest rows"]["groups_compared"] == len(totals)
    assert good["user_status: days as the changelog"]["groups_compared"] == len(daily)

    wrong = damage(played)
    bad = reconcile(played, expect_ok=False)

    # the rows that are twice there read as one key: what they add up to is what is compared
    held = doubled(played.warehouse.daily(), wrong["doubled"])
    by_day = wanted(daily, held)
    assert {key[0] for key in by_day} == set(wrong.values())
    assert listed(played, CHECKS[1], "cut_date", "user_id", "biz_status") == by_day
    by_group = wanted(totals, played.warehouse.td())
    assert listed(played, CHECKS[0], "user_id", "biz_status") == by_group
    verdict = bad["user_status: days as the changelog"]
    assert (verdict["verdict"], verdict["groups_differing"]) == ("failed", len(by_day))
    assert verdict["count_difference"] == sum(
        abs(got[0] - expected[0]) for got, expected in by_day.values()
    )
    totals_verdict = bad["user_status: totals as the latest rows"]
    assert totals_verdict["groups_differing"] == len(by_group)

    damage_levels(played, wrong.values())
    assert compensate(played.dbt) == 0

    rows = played.warehouse.query("select table_name, cut_date from dw.meta_compensation")
    assert sorted(row["cut_date"] for row in rows) == sorted(wrong.values())
    assert {row["table_name"] for row in rows} == {"dws_trade__user_status_1d"}
    played.check()
    verdicts = [row["verdict"] for row in reconcile(played, expect_ok=True).values()]
    assert set(verdicts) == {"passed"}
    names = ", ".join(f"'{name}'" for name in good)
    sql = f"select count(*) from dw.meta_quality where check_name in ({names})"
    assert played.warehouse.column(sql) == [3 * len(good)]


@pytest.mark.in_turn
def test_rows_without_a_day_are_rewritten_too(played: Played) -> None:
    """They come to the totals and to no range; a month has none of them at all."""
    query, months = played.warehouse.query, DAYS.replace("1d", "1m")
    for table, column in ((DAYS, "cut_date"), (months, "cut_month")):
        query(
            f"insert into {table} by name select * except ({column}), cast(null as date) as "
            f"{column} from {table} where {column} = (select min({column}) from {table})"
        )
    assert compensate(played.dbt) == 0
    for table, column in ((DAYS, "cut_date"), (months, "cut_month")):
        assert query(f"select * from {table} where {column} is null") == []
    state = "select cut_date from dw.meta_compensation where cut_date is null"
    assert played.warehouse.column(state) == [None]
    played.check()


@pytest.mark.soak
def test_a_range_that_was_cut_short_goes_on_where_it_was(played: Played) -> None:
    day = max(key[0] for key in played.warehouse.daily())
    first, last = str(day.replace(day=1)), str(day.replace(day=3))
    days = days_between(first, last)
    query = played.warehouse.query
    query(f"delete from {DAYS} where cut_date between date '{first}' and date '{last}'")
    done: list[str] = []

    def dbt(words: list[str], variables: dict[str, Any], failing: str = "") -> Any:
        asked = variables.get("compensate_days")
        if asked == [failing]:
            return SimpleNamespace(success=False, exception=None, result=None)
        done.extend(asked or [])
        return played.dbt(words, variables)

    assert compensate(lambda *words: dbt(*words, failing=days[1]), first, last) == 1
    assert done == [days[0], days[2]]
    done.clear()
    assert compensate(dbt, first, last) == 0
    assert done == [days[1]]
    played.check()
    rows = query(f"select * from dw.meta_compensation where request like '{first}..%'")
    assert len({row["request"] for row in rows}) == 1
    assert Counter(str(row["cut_date"]) for row in rows) == dict.fromkeys(days, 2)  # two tables


def test_a_range_must_be_days() -> None:
    for first, last in (("2026-03-02", "2026-03-01"), ("2026-3-1", "2026-03-02"), ("", "today")):
        with pytest.raises(CompensateError, match="FROM and TO must be days"):
            days_between(first, last)
