"""What each level of a count has to hold: days, months, years and totals, by the oracle."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from decimal import Decimal

from tests.support import oracle
from tests.support.warehouse import Counts, Warehouse, counts_of, differing

# the days are dates of the test's own
AS_OF = """
    {{% for day in {days} %}}
    select date '{{{{ day }}}}' as as_of, * from ({{{{ to_date(
        user_status(), ref('dws_trade__user_status_1d'), ref('dws_trade__user_status_1m'),
        ref('dws_trade__user_status_1y'), as_of=day
    ) }}}})
    {{{{ 'union all' if not loop.last }}}}
    {{% endfor %}}
"""


def month(day: date) -> date:
    return day.replace(day=1)


def year(day: date) -> date:
    return day.replace(month=1, day=1)


def summed_by(daily: dict, start_of: Callable[[date], date]) -> dict[tuple, tuple[int, Decimal]]:
    """Net changes of days summed up by month or year; those that come to nothing left out."""
    sums: dict[tuple, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for (day, user, status), (count, amount) in daily.items():
        key = (start_of(day), user, status)
        sums[key] = (sums[key][0] + count, sums[key][1] + amount)
    return {key: total for key, total in sums.items() if total[0] or total[1]}


class Levels:
    """What the levels have to hold after each build: a period that once closed stays closed."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.closed_months = self.closed_years = date.min

    def compare(self, changes: list[oracle.Change], where: str, rng: random.Random) -> int:
        """Compare every level, and the totals as of some days; the number of rows compared."""
        pairs = self.pairs(changes)
        days = sorted({key[0] for key in pairs[0][0]})
        chosen = rng.sample(days, min(4, len(days)))
        for day, got in self._as_of(chosen).items():
            pairs.append((oracle.counts_to_date(changes, as_of=day), got))
        for number, (expected, got) in enumerate(pairs):
            assert differing(expected, got) == [], f"{where}, comparison {number}"
        return sum(len(expected) for expected, _ in pairs)

    def pairs(self, changes: list[oracle.Change]) -> list[tuple[dict, dict]]:
        """What days, months, years and totals have to hold, each with what they hold."""
        daily = oracle.daily_counts(changes)
        days = sorted({key[0] for key in daily})
        months = {
            key: total
            for key, total in summed_by(daily, month).items()
            if key[0] < self._closes_months(days)
        }
        years = {
            key: total
            for key, total in summed_by(daily, year).items()
            if key[0] < self._closes_years([key[0] for key in months])
        }
        return [
            (daily, self.warehouse.daily()),
            (months, self.warehouse.daily("1m", "cut_month")),
            (years, self.warehouse.daily("1y", "cut_year")),
            (oracle.counts_to_date(changes), self.warehouse.td()),
        ]

    def _closes_months(self, days: list[date]) -> date:
        self.closed_months = max(self.closed_months, *(month(day) for day in days[-1:]))
        return self.closed_months

    def _closes_years(self, months: list[date]) -> date:
        self.closed_years = max(self.closed_years, *(year(month) for month in months), date.min)
        return self.closed_years

    def _as_of(self, days: list[date]) -> dict[date, Counts]:
        """Totals as of the end of each of some days."""
        asked = AS_OF.format(days=[str(day) for day in days])
        compiled = self.warehouse.run("compile", "--inline", asked)
        rows = self.warehouse.query(compiled.raw.results[0].node.compiled_code)
        return {day: counts_of(row for row in rows if row["as_of"] == day) for day in days}
