"""Windows of event time: where they lie, and what each run makes of late and retracted rows.

Longer than 500 lines: all kinds of windows run in the same dbt runs and meet the same oracle.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dbt.adapters.sparksession.declared.windows import WindowError, read_window, spans_condition
from dbt.adapters.sparksession.session import own_session

from tests.support import event_window_oracle as oracle
from tests.support.dbt_project import REPO, DbtProject
from tests.support.event_window_oracle import Months

MACROS = {
    f"macros/windows/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/windows").glob("*.sql"))
}
MINUTES, HOURS, DAYS = (timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))
MILLIS, MICROS = (timedelta(**{unit: 1}) for unit in ("milliseconds", "microseconds"))
# zone -> a day on which its clocks change, or an ordinary one
CHANGES = {
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],  # by half an hour
    "America/Havana": ["2026-03-08", "2026-11-01"],  # at midnight
    "America/Sao_Paulo": ["2018-11-04", "2018-02-18"],  # at midnight, to the day before
    "America/St_Johns": ["2010-03-14", "2010-11-07"],  # a minute behind midnight
    "Antarctica/Troll": ["2026-03-29", "2026-10-25"],  # by two hours
    "Asia/Kathmandu": ["2026-03-01"],
    "+08:00": ["2026-03-01"],
    "UTC": ["2026-12-31"],
}
# macro call -> what the oracle lays out
GRIDS = {
    "tumble(size='5 minutes'": (oracle.tumbling, 5 * MINUTES),
    "tumble(size='1 hour'": (oracle.tumbling, HOURS),
    "tumble(size='6 hours'": (oracle.tumbling, 6 * HOURS),
    "tumble(size='1 day'": (oracle.tumbling, DAYS),
    "tumble(size='3 days'": (oracle.tumbling, 3 * DAYS),
    "tumble(size='1 week'": (oracle.tumbling, 7 * DAYS, True),
    "tumble(size='3 months'": (oracle.tumbling, Months(3)),
    "slide(size='1 hour', slide='20 minutes'": (oracle.sliding, HOURS, 20 * MINUTES),
    "slide(size='3 hours', slide='1 hour'": (oracle.sliding, 3 * HOURS, HOURS),
    "slide(size='12 hours', slide='4 hours'": (oracle.sliding, 12 * HOURS, 4 * HOURS),
    "slide(size='7 days', slide='1 day'": (oracle.sliding, 7 * DAYS, DAYS),
    "slide(size='3 months', slide='1 month'": (oracle.sliding, Months(3), Months(1)),
    "cumulate(size='1 hour', step='15 minutes'": (oracle.cumulating, HOURS, 15 * MINUTES),
    "cumulate(size='1 day', step='1 hour'": (oracle.cumulating, DAYS, HOURS),
    "cumulate(size='6 hours', step='30 minutes'": (oracle.cumulating, 6 * HOURS, 30 * MINUTES),
    "cumulate(size='1 day', step='6 hours'": (oracle.cumulating, DAYS, 6 * HOURS),
    "cumulate(size='1 day', step='2 hours'": (oracle.cumulating, DAYS, 2 * HOURS),
    "cumulate(size='1 month', step='1 day'": (oracle.cumulating, Months(1), DAYS),
    "cumulate(size='1 year', step='3 months'": (oracle.cumulating, Months(12), Months(3)),
}
# macro call with an offset -> the same, and the offset
LATER = {
    "tumble(size='1 hour', offset='-15 minutes'": (oracle.tumbling, HOURS, 45 * MINUTES),
    "tumble(size='5 minutes', offset='1500 milliseconds'": (
        oracle.tumbling, 5 * MINUTES, 1500 * MILLIS,
    ),
    "tumble(size='6 hours', offset='5 hours'": (oracle.tumbling, 6 * HOURS, 5 * HOURS),
    "tumble(size='1 day', offset='6 hours'": (oracle.tumbling, DAYS, 6 * HOURS),
    "tumble(size='1 week', offset='-1 day'": (oracle.tumbling, 7 * DAYS, True, -DAYS),
    "tumble(size='1 month', offset='14 days'": (oracle.tumbling, Months(1), 14 * DAYS),
    "slide(size='1 hour', slide='20 minutes', offset='7 minutes'": (
        oracle.sliding, HOURS, 20 * MINUTES, 7 * MINUTES,
    ),
    "slide(size='3 hours', slide='1 hour', offset='1 microsecond'": (
        oracle.sliding, 3 * HOURS, HOURS, MICROS,
    ),
    "slide(size='7 days', slide='1 day', offset='6 hours'": (
        oracle.sliding, 7 * DAYS, DAYS, 6 * HOURS,
    ),
    "slide(size='3 months', slide='1 month', offset='-2 hours'": (
        oracle.sliding, Months(3), Months(1), -2 * HOURS,
    ),
    "cumulate(size='1 hour', step='15 minutes', offset='10 minutes'": (
        oracle.cumulating_later, HOURS, 15 * MINUTES, 10 * MINUTES,
    ),
    "cumulate(size='1 day', step='1 hour', offset='6 hours'": (
        oracle.cumulating_later, DAYS, HOURS, 6 * HOURS,
    ),
    "cumulate(size='1 day', step='6 hours', offset='5 hours'": (
        oracle.cumulating_later, DAYS, 6 * HOURS, 5 * HOURS,
    ),
    "cumulate(size='1 month', step='1 day', offset='14 days'": (
        oracle.cumulating_later, Months(1), DAYS, 14 * DAYS,
    ),
}  # fmt: skip
# macro call below a second -> form, size, part, offset
SHORT = {
    "tumble(size='250 milliseconds'": ("tumble", 250 * MILLIS, None, 0 * DAYS),
    "tumble(size='8 microseconds', offset='3 microseconds'": (
        "tumble", 8 * MICROS, None, 3 * MICROS,
    ),
    "slide(size='1 second', slide='200 milliseconds'": (
        "slide", 1000 * MILLIS, 200 * MILLIS, 0 * DAYS,
    ),
    # no half hour is made of these
    "slide(size='4096 microseconds', slide='1024 microseconds', offset='1 microsecond'": (
        "slide", 4096 * MICROS, 1024 * MICROS, MICROS,
    ),
    "cumulate(size='1 second', step='125 milliseconds', offset='60 milliseconds'": (
        "cumulate", 1000 * MILLIS, 125 * MILLIS, 60 * MILLIS,
    ),
}  # fmt: skip


def zone_of(name: str) -> Any:
    return timezone(8 * HOURS) if name == "+08:00" else ZoneInfo(name)


def seeded() -> random.Random:
    seed = int(os.environ.get("WINDOW_SEED") or random.SystemRandom().randint(0, 10**9))
    print(f"seed {seed}")
    return random.Random(seed)


def append(project: DbtProject, table: str, rows: list[tuple]) -> None:
    session = own_session(project.credentials()).session
    session.createDataFrame(rows, session.table(table).schema).writeTo(table).append()


QUICK_ZONES = ["America/New_York", "Australia/Lord_Howe"]
EVEN = "slide(size='1 second', slide='200 milliseconds'"  # also where a zone's clocks change


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "zones", [QUICK_ZONES, pytest.param(list(CHANGES), marks=pytest.mark.soak)], ids=["few", "all"]
)
def test_windows_lie_where_the_zones_calendar_has_them(make_project, zones) -> None:
    rng = seeded()
    calls = [*GRIDS, *LATER, *SHORT]
    if zones == QUICK_ZONES:
        calls = [EVEN, *rng.sample([call for call in calls if call != EVEN], len(GRIDS) - 1)]
    models = {
        f"models/grid_{place}.sql": " union all ".join(
            f"select {number} as grid, id, window_start, window_end, window_date from ("
            f"{{{{ {call}, rows=source('src', 'times'), time='at', zone='{zone}', "
            f"where=\"zone = '{zone}'\") }}}})"
            for number, call in enumerate(calls)
        )
        for place, zone in enumerate(zones)
    }
    models["models/sources.yml"] = "sources: [{name: src, tables: [{name: times}]}]"
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query("create table src.times (id int, zone string, at timestamp) using iceberg")
    times: dict[str, dict[int, datetime]] = {}
    for zone in zones:
        days, found = CHANGES[zone], set()
        for day in days:
            midnight = oracle.instant(datetime.fromisoformat(day), zone_of(zone))
            for _ in range(25):
                found.add(midnight + rng.randint(-90, 50 * 60) * MINUTES)
                found.add(midnight + rng.randint(0, 10**11) * timedelta(microseconds=1))
            found |= {midnight, midnight - timedelta(microseconds=1)}
        times[zone] = dict(enumerate(sorted(found)))
    rows = [(key, zone, at) for zone, held in times.items() for key, at in held.items()]
    append(project, "src.times", rows)

    project.run("run")

    compared = 0
    for place, (zone, held) in enumerate(times.items()):
        within = zone_of(zone)
        per_day: dict[Any, None] = {}
        for at in held.values():
            first = oracle.day_of(at, within)
            per_day |= dict.fromkeys(first + n * DAYS for n in range(-8, 2))
        days = sorted(per_day)
        runs = [[day] for day in days[:1]]
        for day in days[1:]:
            runs[-1].append(day) if day - runs[-1][-1] == DAYS else runs.append([day])
        got = Counter(
            tuple(row.values()) for row in project.query(f"select * from dw.grid_{place}")
        )
        expected = Counter()
        for number, call in enumerate(calls):
            if call in SHORT:
                form, size, part, offset = SHORT[call]
                for key, at in held.items():
                    for start, end in oracle.holding(form, at, within, size, part, offset=offset):
                        expected[number, key, start, end, oracle.day_of(start, within).date()] += 1
                continue
            layout, size, *rest = (GRIDS | LATER)[call]
            if call in LATER:
                layout = partial(layout, offset=rest.pop())
            laid = set()
            for run in runs:
                whole = [run[0].replace(day=1) + n * DAYS for n in range(-95, 130)]
                long = isinstance(size, Months) or size > 8 * DAYS
                laid |= set(layout(whole if long else run, within, size, *rest))
            for key, at in held.items():
                for start, end in laid:
                    if start <= at < end:
                        expected[number, key, start, end, oracle.day_of(start, within).date()] += 1
        assert got == expected, (
            f"{zone}: too many {sorted(got - expected)[:5]}, missing {sorted(expected - got)[:5]}"
        )
        compared += len(expected)
    print(f"{compared} windows of rows compared, 0 differ")


# ---- what runs make of late, changed and retracted rows ------------------------------------

SHORT_CONFIG = "config(materialized='incremental', incremental_strategy='replace_windows')"
CONFIG = SHORT_CONFIG[:-1] + ", partition_by='window_date')"
SHARE_OF_SHORT = 0.5  # of the models, which leave window_date to the strategy
COUNTED = """
    {{{{ {config} }}}}
    with

    windowed as (
        {{{{ {call} }}}}
    )

    select
        {keys}window_start, window_end, {date}count(*) as n,
        count(distinct v) as values_seen, sum({sign}) as net
    from windowed
    group by {date}{keys}window_start, window_end
"""
NEW_YORK, TEXT_BOUNDS = "zone='America/New_York'", "bounds={'latest': '2027-01-01'}"
# model -> (macro's call, columns beside the window's, what is summed)
CALLS = {
    "tumbled": (
        "tumble(rows=ref('kept'), time='at', size='10 minutes', zone='UTC', where=\"v <> 'z'\")",
        "world, ", "1",
    ),
    "net": (
        f"tumble(rows=ref('changes'), time='at', size='6 hours', {NEW_YORK})", "world, ", "sign",
    ),
    "slid": (
        f"slide(rows=source('src', 'held'), time='at', size='1 hour', slide='20 minutes', "
        f"{NEW_YORK})", "world, ", "1",
    ),
    "cumulated": (
        f"cumulate(rows=source('src', 'log'), time='raw_at', size='1 day', step='6 hours', "
        f"{NEW_YORK}, {TEXT_BOUNDS})", "world, ", "1",
    ),
    "later": (
        f"tumble(rows=source('src', 'held'), time='at', size='1 day', offset='6 hours', "
        f"{NEW_YORK})", "world, ", "1",
    ),
    "split": (
        "slide(rows=ref('kept'), time='at', size='1 second', slide='250 milliseconds', "
        f"offset='30 milliseconds', {NEW_YORK})", "world, ", "1",
    ),
    "quick_sessions": (
        "session(rows=ref('kept'), time='at', key=['world', 'k'], gap='300 milliseconds')",
        "world, k, ", "1",
    ),
    "sessions_of_all": (
        "session(rows=ref('kept'), time='at', gap='1 minute')", "", "1",
    ),
    "sessions": (
        "session(rows=ref('kept'), time='at', key=['world', 'k'], gap='15 minutes')",
        "world, k, ", "1",
    ),
    "log_sessions": (
        f"session(rows=source('src', 'log'), time='raw_at', key=['world', 'k'], "
        f"gap='40 minutes', {NEW_YORK}, {TEXT_BOUNDS})", "world, k, ", "1",
    ),
}  # fmt: skip
EVENTS = "world int, id bigint, k int, at timestamp, v string, position bigint, row_kind string"
FILES = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: events}, {name: log}, "
    "{name: held}]}]",
    "models/kept.sql": """
        {{ config(materialized='folded', unique_key=['world', 'id'],
            fold={'sequence': 'position', 'row_kind': 'row_kind', 'tier_runs': 3}) }}
        select * from {{ new_rows(source('src', 'events')) }}
    """,
    # each change as the row that it was before and the row that it is
    "models/changes.sql": """
        {{ config(materialized='view', meta={'row_wise': true}) }}
        select *, if(row_kind in ('+I', '+U'), 1, -1) as sign from {{ source('src', 'events') }}
    """,
    "models/refused.sql": f"""
        {{{{ config(materialized='incremental') }}}}
        {{{{ window_rejects(rows=new_rows(source('src', 'log')), time='raw_at', {TEXT_BOUNDS}) }}}}
    """,
}
QUICK_CALLS = ("cumulated", "sessions")  # and another of the models above
BAD = {
    None: "event time is null",
    "yesterday": "event time can't be read",
    "0001-01-01 00:00:00": "event time lies before 2000-01-01",
    "2027-01-01T00:00:00Z": "event time lies behind 2027-01-01",
    "9999-12-31 23:59:59": "event time lies behind 2027-01-01",
}
STARTS = [
    datetime(2026, 3, 8, 4, tzinfo=UTC),  # New York skips an hour at 07:00
    datetime(2026, 11, 1, 3, tzinfo=UTC),  # and has one twice from 05:00
    datetime(2026, 5, 31, 20, tzinfo=UTC),
]


def files(names: Iterable[str], short: Iterable[str]) -> dict[str, str]:
    """The project with these of the models, of which some don't carry window_date."""
    models = {}
    for name in names:
        call, keys, sign = CALLS[name]
        models[f"models/{name}.sql"] = COUNTED.format(
            config=SHORT_CONFIG if name in short else CONFIG,
            date="" if name in short else "window_date, ",
            call=call,
            keys=keys,
            sign=sign,
        )
    return MACROS | FILES | models


class Histories:
    """Random histories, side by side by their world."""

    def __init__(
        self, project: DbtProject, rng: random.Random, worlds: int, names: Iterable[str]
    ) -> None:
        self.project, self.rng, self.worlds, self.names = project, rng, worlds, names
        self.position = 0
        self.events: list[tuple] = []
        self.log: list[tuple] = []
        self.held: dict[tuple, tuple] = {}
        self.late: list[tuple] = []
        project.query("create namespace if not exists src")
        for name, columns in {
            "events": EVENTS,
            "held": EVENTS,
            "log": "world int, k int, raw_at string, v string",
        }.items():
            project.query(f"create or replace table src.{name} ({columns}) using iceberg")

    def more(self, share: float, times: int = 1) -> None:
        """Let that share of the worlds go on, by a few events each, so many times."""
        rng = self.rng
        events, log = [], []
        for world in range(self.worlds):
            if rng.random() >= share:
                continue
            for _ in range(times * rng.choice([0, 1, 2, 5])):
                self.position += 1
                at = STARTS[world % len(STARTS)] + rng.randint(0, 300) * MINUTES
                if world // len(STARTS) % 3 == 0:  # others lie just the gaps apart
                    at += rng.choice([0, 0, 250, 400, 999]) * MILLIS
                k, v = rng.choice([None, 1, 1, 1, 2]), rng.choice(["x", "y", "z"])
                known = at if rng.random() < 0.95 else None
                kind = rng.choice(["+I", "+U", "+U", "-D"])
                key = world * 100 + rng.randint(1, 8)
                events.append((world, key, k, known, v, self.position, kind))
                text = at.isoformat(sep=rng.choice([" ", "T"]))
                bad = rng.random() < 0.1
                log.append((world, k, rng.choice(list(BAD)) if bad else text, v))
        rng.shuffle(events)
        kept_back = events[: len(events) // 4]
        come = events[len(events) // 4 :] + self.late
        come += rng.sample(self.events, min(len(self.events), 3))  # sent again
        self.late = kept_back
        for name, rows in {"events": come, "log": log}.items():
            if rows:
                append(self.project, f"src.{name}", rows)
        self.events += come
        self.log += log
        self.merge(come)

    def merge(self, come: list[tuple]) -> None:
        """The same as a batch job would keep it: a table that is merged into."""
        last = {item[:2]: item for item in come}
        if not last:
            return
        session = own_session(self.project.credentials()).session
        schema = session.table("src.held").schema
        session.createDataFrame(list(last.values()), schema).createOrReplaceTempView("come")
        self.project.query(
            "merge into src.held using come on held.world = come.world and held.id = come.id "
            "when matched and come.row_kind = '-D' then delete "
            "when matched then update set * "
            "when not matched and come.row_kind <> '-D' then insert *"
        )
        for key, item in last.items():
            if item[-1] == "-D":
                self.held.pop(key, None)
            else:
                self.held[key] = item

    def kept(self) -> list[tuple]:
        """The rows that the events leave."""
        last: dict[tuple, tuple] = {}
        for event in self.events:
            if event[:2] not in last or event[5] > last[event[:2]][5]:
                last[event[:2]] = event
        return [item for item in last.values() if item[-1] in ("+I", "+U")]

    def expected(self) -> dict[str, Counter]:
        """(world, key.., window) of each row of each model -> rows, values, sum."""
        new_york = ZoneInfo("America/New_York")
        days = [
            oracle.day_of(start, UTC) + n * DAYS for start in sorted(STARTS) for n in range(-1, 2)
        ]
        rows = {
            "tumbled": [(o[0], o[3], o[4], 1) for o in self.kept() if o[4] != "z"],
            "net": [(o[0], o[3], o[4], 1 if o[-1] in ("+I", "+U") else -1) for o in self.events],
            "slid": [(o[0], o[3], o[4], 1) for o in self.held.values()],
            "cumulated": [(o[0], when(o[2]), o[3], 1) for o in self.log],
        }
        rows["later"] = rows["slid"]
        laid = {
            "tumbled": oracle.tumbling(days, UTC, 10 * MINUTES),
            "net": parts(oracle.tumbling, days, new_york, 6 * HOURS),
            "slid": parts(oracle.sliding, days, new_york, HOURS, 20 * MINUTES),
            "cumulated": parts(oracle.cumulating, days, new_york, DAYS, 6 * HOURS),
            "later": parts(partial(oracle.tumbling, offset=6 * HOURS), days, new_york, DAYS),
        }
        found = {
            name: tally(
                ((world, *window), v, sign)
                for world, at, v, sign in rows[name]
                if at is not None
                for window in laid[name]
                if window[0] <= at < window[1]
            )
            for name in rows
        }
        found["split"] = tally(
            ((o[0], *window), o[4], 1)
            for o in self.kept()
            if o[3] is not None
            for window in oracle.holding(
                *("slide", o[3], new_york, 1000 * MILLIS, 250 * MILLIS), offset=30 * MILLIS
            )
        )
        of_log = [((o[0], o[1]), when(o[2]), o[3]) for o in self.log]
        of_kept = [((o[0], o[2]), o[3], o[4]) for o in self.kept()]
        for name, element, gap in (
            ("sessions", of_kept, 15 * MINUTES),
            ("quick_sessions", of_kept, 300 * MILLIS),
            ("log_sessions", of_log, 40 * MINUTES),
            ("sessions_of_all", [((), *item[1:]) for item in of_kept], MINUTES),
        ):
            element = [item for item in element if item[1] is not None]
            of_keys: dict[tuple, list[tuple]] = {}
            laid_out = oracle.sessions([item[:2] for item in element], gap)
            for (key, start), (end, _) in laid_out.items():
                of_keys.setdefault(key, []).append((start, end))
            found[name] = tally(
                ((*key, start, end), v, 1)
                for key, at, v in element
                for start, end in of_keys[key]
                if start <= at <= end - gap
            )
        return found

    def compare(self) -> int:
        compared = 0
        for name, expected in self.expected().items():
            if name not in self.names:
                continue
            keys = CALLS[name][1]
            rows = self.project.query(
                f"select {keys}window_start, window_end, n, values_seen, net from dw.{name}"
            )
            zone = ZoneInfo("America/New_York") if NEW_YORK in CALLS[name][0] else UTC
            days = self.project.query(f"select distinct window_start, window_date from dw.{name}")
            for day in days:
                assert day["window_date"] == oracle.day_of(day["window_start"], zone).date()
            got = {tuple(row.values())[:-3]: tuple(row.values())[-3:] for row in rows}
            assert len(got) == len(rows), f"{name} has a window twice"
            differ = sorted(
                {
                    item
                    for item in got.keys() | expected.keys()
                    if got.get(item) != expected.get(item)
                },
                key=str,
            )
            assert not differ, f"{name}: " + "; ".join(
                f"{item}: got {got.get(item)}, expected {expected.get(item)}" for item in differ[:5]
            )
            compared += len(got)
        reported = self.project.query(
            "select raw_at, reject_reason, count(*) as n from dw.refused group by all"
        )
        refused = Counter(item[2] for item in self.log if when(item[2]) is None)
        assert {(o["raw_at"], o["reject_reason"], o["n"]) for o in reported} == {
            (text, BAD[text], count) for text, count in refused.items()
        }
        return compared


def when(text: str | None) -> datetime | None:
    return None if text in BAD else datetime.fromisoformat(text)


def parts(layout: Any, days: list[datetime], *rest: Any) -> list:
    """The same of days that don't follow each other."""
    found: set = set()
    for day in days:
        found |= set(layout([day - DAYS, day], *rest))
    return sorted(found)


def tally(rows: Any) -> dict[tuple, tuple[int, int, int]]:
    counts: dict[tuple, tuple[int, set, int]] = {}
    for key, v, sign in rows:
        n, values, net = counts.get(key, (0, set(), 0))
        counts[key] = (n + 1, values | {v}, net + sign)
    return {key: (n, len(values), net) for key, (n, values, net) in counts.items()}


def check_histories(
    project: DbtProject, worlds: int, runs: int, names: Iterable[str] | None = None
) -> None:
    """Play histories into these models of CALLS and another, chosen at random; by default into
    all."""
    rng = seeded()
    others = [name for name in CALLS if name not in (names or CALLS)]
    names = [*(names or CALLS), *rng.sample(others, min(1, len(others)))]
    short = [name for name in names if rng.random() < SHARE_OF_SHORT]
    print(f"{', '.join(names)}; short are {short}")
    histories = Histories(project, rng, worlds, names)
    project.write(files(names, short))
    compared = 0
    for number in range(runs):
        # rows enough for the third run to change and delete them; the second has nothing new
        if number == 0:
            histories.more(1.0, times=3)
        elif number != 1:
            histories.more(0.8 if number == 2 else rng.choice([0.03, 0.3, 0.8]))
        outcome = project.run("run")
        compared += histories.compare()
        if number == 1:
            messages = [outcome.results[name].message for name in names]
            assert all("nothing new" in message for message in messages), messages
    project.run("run", "--full-refresh")
    compared += histories.compare()
    print(f"{worlds} histories, {runs} runs, {compared} windows compared, 0 differ")


@pytest.mark.in_turn
def test_every_run_equals_the_windows_of_all_rows(make_project) -> None:
    check_histories(make_project({}), worlds=30, runs=3, names=QUICK_CALLS)


@pytest.mark.soak
def test_500_histories_equal_the_windows_of_all_rows(make_project) -> None:
    worlds = int(os.environ.get("WINDOW_WORLDS", "500"))
    check_histories(make_project({}), worlds=worlds, runs=int(os.environ.get("WINDOW_RUNS", "8")))


def test_windows_slide_by_days_where_no_clock_changes(make_project) -> None:
    text = """
        with times as (select timestamp '2026-03-04 20:00:00' as at)
        select window_start, window_end, window_date from ({{ slide(
            rows='times', time='at', size='7 days', slide='1 day', zone='+08:00'
        ) }}) order by window_start
    """
    project = make_project(MACROS)
    compiled = project.run("compile", "--inline", text).raw.results[0].node.compiled_code
    first = datetime(2026, 2, 26, 16, tzinfo=UTC)
    assert [tuple(row.values()) for row in project.query(compiled)] == [
        (start, start + 7 * DAYS, (start + 8 * HOURS).date())
        for start in (first + number * DAYS for number in range(7))
    ]


# ---- what is wrong, and what it costs ------------------------------------------------------

MONTH = datetime(2026, 3, 1, tzinfo=UTC)
DAY_BOUNDS = {"earliest": "2000-01-01", "latest": "2100-01-01"}
# macro, its arguments over those that fit, what is reported
WRONG = [
    ("tumble", {"size": "7 minutes"}, "a length below an hour must divide it, got '7 minutes'"),
    ("tumble", {"size": "5 hours"}, "hours must be 1, 2, 3, 4, 6, 8 or 12"),
    ("tumble", {"size": "5 moons"}, "got '5 moons'"),
    ("tumble", {"size": "1 day", "zone": "Mars/Base"}, "got 'Mars/Base'"),
    *(
        ("tumble", {"size": "1 day", "zone": zone}, f"such as UTC or +08:00, got '{zone}'")
        for zone in ("", "localtime", "Factory", "right/UTC", "+18:30", "-19:00", "UTC+8")
    ),
    ("tumble", {"size": "1 day", "rows": 5}, "rows must be a relation"),
    ("tumble", {"size": "1 day", "bounds": {"since": 1}}, "bounds must be a mapping of"),
    ("tumble", {"size": "1 day", "bounds": DAY_BOUNDS | {"ahead": "1 day"}}, "need each other"),
    ("tumble", {"size": "1 day", "bounds": DAY_BOUNDS | {"latest": "soon"}}, "got 'soon'"),
    ("tumble", {"size": "7 milliseconds"}, "must divide it, got '7 milliseconds'"),
    ("tumble", {"size": "999999999 weeks"}, "got '999999999 weeks'"),
    ("tumble", {"size": "1 day", "offset": "1 month"}, "offset must be a whole number of micro"),
    (
        "tumble",
        {"size": "1 day", "offset": "30 minutes", "zone": "Europe/Berlin"},
        "offset must be of whole hours where windows are longer than an hour and the zone's "
        "clocks may change, got '30 minutes' in Europe/Berlin",
    ),
    ("tumble", {"size": "1 month", "offset": "-999999999 weeks"}, "at most 999,999 weeks"),
    ("slide", {"size": "1 day", "slide": "1 millisecond"}, "size must be at most 1,000,000 slides"),
    ("slide", {"size": "1 hour", "slide": "25 minutes"}, "size must be made of whole slides"),
    ("slide", {"size": "1 month", "slide": "1 day"}, "size must be made of whole slides"),
    ("cumulate", {"size": "1 week", "step": "1 hour"}, "one above a day of days or longer steps"),
    ("tumble", {"size": "1 day", "where": "at < now()"}, "where must be a SQL condition that asks"),
    ("session", {"key": "k", "gap": "-5 minutes"}, "gap must be above zero"),
    ("session", {"key": [], "gap": "5 minutes"}, "key must name the columns"),
]


@pytest.mark.parametrize(("form", "arguments", "expected"), WRONG)
def test_each_mistake_has_its_sentence(form: str, arguments: dict, expected: str) -> None:
    given = {"form": form, "rows": "x", "time": "at", "bounds": DAY_BOUNDS} | arguments
    with pytest.raises(WindowError, match=re.escape(expected)) as reported:
        read_window(given)
    assert f"Example: {form}(" in str(reported.value)


def test_what_shares_an_end_with_a_span_meets_it() -> None:
    """Rows that lie exactly the gap apart are of one session, so the ends of spans count."""
    with sqlite3.connect(":memory:") as database:
        for low, high, other_low, other_high in itertools.product(range(4), repeat=4):
            if low <= high and other_low <= other_high:
                spans = [(str(other_low), str(other_high)), ("8", "9")]
                condition = spans_condition(str(low), str(high), spans)
                (meets,) = database.execute(f"select {condition}").fetchone()
                shared = {*range(low, high + 1)} & {*range(other_low, other_high + 1)}
                assert meets == bool(shared), (low, high, other_low, other_high)
    assert spans_condition("0", "9", []) == "false"


# a day's midnight comes a minute before its clocks go back; clocks go on over the end of a window,
# and over a whole day
ODD_CHANGES = {
    "America/St_Johns": "2010-11-06",
    "Antarctica/Troll": "2026-10-24",
    "Pacific/Apia": "2011-12-29",
}
ODD_CALLS = [
    "tumble(size='30 minutes'",
    "tumble(size='2 hours'",
    "tumble(size='1 day'",
    "tumble(size='1 day', offset='1 hour'",
    "slide(size='12 hours', slide='4 hours'",
    "cumulate(size='1 month', step='1 day'",
    "session(key='zone', gap='7 minutes'",
]


@pytest.mark.in_turn
def test_late_rows_where_clocks_change_stay_in_their_windows(make_project) -> None:
    """Also rows whose hour comes twice, the second time when the next day has begun."""
    rng = seeded()
    calls = {
        f"{form}_{place}": f"{call}, rows=source('src', 'times'), time='at', zone='{zone}', "
        f"where=\"zone = '{zone}'\")"
        for place, zone in enumerate(ODD_CHANGES)
        for form, call in enumerate(ODD_CALLS)
    }
    models = {
        f"models/windows_{name}.sql": f"""
            {{{{ config(materialized='incremental', incremental_strategy='replace_windows') }}}}
            select window_start, window_end, count(*) as n, sum(id) as ids, min(at) as first_at,
                max(at) as last_at, zone
            from ({{{{ {call} }}}}) group by window_start, window_end, zone
        """
        for name, call in calls.items()
    }
    models["models/sources.yml"] = "sources: [{name: src, tables: [{name: times}]}]"
    project = make_project(MACROS | models)
    project.query("create namespace if not exists src")
    project.query("create table src.times (id int, zone string, at timestamp) using iceberg")
    rows = []
    for zone, day in ODD_CHANGES.items():
        noon = oracle.instant(datetime.fromisoformat(day) + 12 * HOURS, zone_of(zone))
        rows += [(len(rows) + n, zone, noon + 10 * n * MINUTES) for n in range(24 * 6)]
    rng.shuffle(rows)

    def shown() -> dict[str, Counter]:
        return {
            name: Counter(
                tuple(row.values()) for row in project.query(f"select * from dw.windows_{name}")
            )
            for name in calls
        }

    for cut, gone in ((0, -1), (1, 3), (2, 4)):
        append(project, "src.times", rows[cut::3])
        project.query(f"delete from src.times where id % 7 = {gone}")
        project.run("run")
    found = shown()
    for name, windows in found.items():
        for start, end, _, _, first, last, *_ in windows:
            assert start <= first and last < end, (calls[name], start, end, first, last)
        if not name.startswith("4_"):  # of windows that slide each row has several
            starts = Counter((start, end) for start, end, *_ in windows)
            assert set(starts.values()) == {1}, calls[name]
        if name[0] in "0123":
            rows_left = project.column(
                f"select count(*) from src.times where zone = '{list(ODD_CHANGES)[int(name[2])]}'"
            )
            assert [sum(n for _, _, n, *_ in windows)] == rows_left, calls[name]
    project.run("run", "--full-refresh")
    assert shown() == found


def test_a_late_row_reads_and_writes_its_own_windows(make_project) -> None:
    """A month of 5-minute windows: of a few late rows a day's files are opened and written."""
    counted = COUNTED.format(
        config=SHORT_CONFIG,
        date="",
        call="tumble(rows=source('src', 'facts'), time='at', size='5 minutes', zone='UTC')",
        keys="world, ",
        sign="1",
    )
    project = make_project(
        MACROS
        | {
            "models/sources.yml": "sources: [{name: src, tables: [{name: facts}]}]",
            "models/counted.sql": counted,
        }
    )
    project.query("create namespace if not exists src")
    project.query(
        "create table src.facts (world int, v int, at timestamp) using iceberg "
        "partitioned by (days(at))"
    )
    project.query(
        "insert into src.facts select 1, cast(id as int), "
        f"timestamp_seconds({MONTH.timestamp():.0f} + id * 180) from range({30 * 480})"
    )
    project.run("run")
    assert project.column("select count(*) from dw.counted") == [30 * 288]
    project.query("insert into src.facts values (1, -1, timestamp '2026-03-07 10:02:00')")

    project.run("run")

    assert project.written_partitions("dw.counted") == {"window_date=2026-03-07"}
    summary = project.summary("dw.counted")
    assert (summary["deleted-records"], summary["added-records"]) == ("288", "288")
    (compiled,) = (project.target / "run").rglob("counted.sql")
    text = (project.target / "compiled").rglob("counted.sql")
    assert "at between timestamp '2026-03-07 10:00:00Z' and" in next(text).read_text("utf-8")
    assert "replace where window_date in (date '2026-03-07')" in compiled.read_text("utf-8")
    got = project.query(
        "select n from dw.counted where window_start = timestamp '2026-03-07 10:00'"
    )
    assert got == [{"n": 3}]


def test_a_late_row_leaves_windows_that_begin_with_its_own_and_end_before_it(make_project) -> None:
    counted = """
        {{ config(materialized='incremental', incremental_strategy='replace_windows') }}
        select window_start, window_end, count(*) as n
        from ({{ cumulate(
            rows=source('src', 'facts'), time='at', size='1 day', step='6 hours', zone='UTC'
        ) }}) group by window_start, window_end
    """
    sources = "sources: [{name: src, tables: [{name: facts}]}]"
    project = make_project(MACROS | {"models/sources.yml": sources, "models/counted.sql": counted})
    project.query("create namespace if not exists src")
    project.query("create table src.facts (at timestamp) using iceberg")
    for time, expected in (
        ("01:00", [(6, 1), (12, 1), (18, 1), (24, 1)]),
        ("13:00", [(6, 1), (12, 1), (18, 2), (24, 2)]),
    ):
        project.query(f"insert into src.facts values (timestamp '2026-03-07 {time}:00')")
        project.run("run")
        rows = project.query(
            "select timestampdiff(hour, window_start, window_end) as hours, n from dw.counted "
            "order by 1"
        )
        assert [(row["hours"], row["n"]) for row in rows] == expected


def busy_sessions(rows: list[tuple[int | None, datetime]], gap: timedelta) -> Counter:
    """(key, begin and end in seconds, number of rows) of the sessions that have several rows."""
    found: Counter = Counter()
    for key in {key for key, _ in rows}:
        times = sorted(at for k, at in rows if k == key)
        session: list[datetime] = []
        for at in [*times, None]:
            if session and (at is None or at - session[-1] > gap):
                if len(session) > 1:
                    begin, end = (int(item.timestamp()) for item in (session[0], session[-1] + gap))
                    found[key, begin, end, len(session)] += 1
                session = []
            session.append(at)
    return found


BUSY = f"""
    {{{{ {CONFIG} }}}}
    with windowed as ({{{{ session(rows=source('src', 'clicks'), time='at', %(more)s) }}}})
    select %(key)swindow_start, window_end, window_date, count(*) as n
    from windowed group by all having count(*) > 1
"""


@pytest.mark.in_turn
def test_sessions_that_a_model_leaves_out_are_joined_all_the_same(make_project) -> None:
    rng = seeded()
    project = make_project(
        MACROS
        | {
            "models/sources.yml": "sources: [{name: src, tables: [{name: clicks}]}]",
            "models/busy.sql": BUSY % {"key": "k, ", "more": "key='k', gap='30 minutes'"},
            "models/busy_of_all.sql": BUSY % {"key": "", "more": "gap='12 minutes'"},
        }
    )
    project.query("create namespace if not exists src")
    project.query("create or replace table src.clicks (k int, at timestamp) using iceberg")
    held: list[tuple[int | None, datetime]] = []
    for number in range(7):
        come = [
            (rng.choice([None, *range(12)]), MONTH + rng.randint(0, 100) * 12 * MINUTES)
            for _ in range(60 if number == 0 else 8)
        ]
        append(project, "src.clicks", come)
        held += come
        if number % 2:
            k, at = rng.choice(held)
            project.query(
                f"delete from src.clicks where k <=> {'null' if k is None else k} "
                f"and at = timestamp '{at.isoformat()}'"
            )
            held = [item for item in held if item != (k, at)]
        project.run("run")
        for name, key, expected in (
            ("busy", "k", busy_sessions(held, 30 * MINUTES)),
            ("busy_of_all", "null", busy_sessions([(None, at) for _, at in held], 12 * MINUTES)),
        ):
            rows = project.query(
                f"select {key} as k, unix_seconds(window_start) as first, "
                f"unix_seconds(window_end) as end, n from dw.{name}"
            )
            assert Counter(tuple(row.values()) for row in rows) == expected, (name, number)


CONTRACT = """
    models:
      - name: whole
        config: {contract: {enforced: true}, on_schema_change: fail}
        columns:
          - {name: window_start, data_type: timestamp}
          - {name: window_end, data_type: timestamp}
          - {name: n, data_type: bigint, constraints: [{type: not_null}]}
          - {name: window_date, data_type: date}
"""


def test_a_query_without_the_day_of_its_windows_is_given_it_or_refused(make_project) -> None:
    call = "tumble(rows=source('src', 'clicks'), time='at', size='1 hour', zone='%s')"
    counted = f"""
        {{{{ {SHORT_CONFIG} }}}}
        with windowed as ({{{{ {call % "+08:00"} }}}})
        select window_start, %s count(*) as n from windowed group by all
    """
    several = f"""
        {{{{ {SHORT_CONFIG} }}}}
        with windowed as (
            select * from ({{{{ {call % "+08:00"} }}}}) union all
            select * from ({{{{ {call % "UTC"} }}}})
        )
        select window_start, window_end, %s count(*) as n from windowed group by all
    """
    other = CONFIG.replace("'window_date'", "'window_start'")
    project = make_project(
        MACROS
        | {
            "models/sources.yml": "sources: [{name: src, tables: [{name: clicks}]}]",
            "models/without_end.sql": counted % "",
            "models/several.sql": several % "",
            "models/whole.sql": counted % "window_end, ",
            "models/whole.yml": CONTRACT,
            "models/partitioned.sql": (counted % "window_end, ").replace(SHORT_CONFIG, other),
        }
    )
    project.query("create namespace if not exists src")
    project.query(
        "create or replace table src.clicks using iceberg as "
        "select timestamp'2026-03-01 20:30' as at"
    )
    outcome = project.run("run", expect_ok=False)
    for name, sentence in {
        "without_end": "its rows must have the columns of their window, but there is no window_end",
        "several": "its rows must have the column window_date, as its windows lie in the zones "
        "+08:00, UTC",
        "partitioned": "partition_by of a model of strategy replace_windows must be 'window_date' "
        "or be left out, got 'window_start'",
    }.items():
        assert sentence in outcome.results[name].message, outcome.results[name].message
    row = "select cast(window_date as string) as day, n from dw.whole"
    assert project.query(row) == [{"day": "2026-03-02", "n": 1}]
    project.query("insert into src.clicks values (timestamp'2026-03-01 20:45')")
    project.run("run", "-s", "whole")
    assert project.query(row) == [{"day": "2026-03-02", "n": 2}]
