"""What the report shows, asked of the warehouse in a handful of queries.

Each query aggregates in Spark and has a limit, so that the page stays small whatever the warehouse
holds. A table that isn't there yet gives no rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.evaluation import are_few, leave_uncompiled
from dbt.adapters.sparksession.iceberg.metadata import loaded
from dbt.adapters.sparksession.reading.ranges import merged_ranges
from dbt.adapters.sparksession.session import is_remote, own_session
from dbt_common.exceptions import DbtRuntimeError

from tools.lineage.commits import commits_query, newest_commits
from tools.report.declared import DAY, Counted

Row = dict[str, Any]
Rows = list[Row]
THREADS = min(4, max(2, os.cpu_count() or 2))  # more only take each other's processor
HOURS, DAYS, WINDOWS = 24 * 14, 184, 300  # newest that a chart shows
LOG = "ods_binlog"
SERIES = 12  # lines of a chart
SAMPLE = 200  # characters of a refused message
# refused messages are looked for in so many ranges; those that lie near each other are in one
REFUSED_RANGES, NEAR_OFFSETS = 64, 20_000
# a column is missing where older code built the table
MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "UNRESOLVED_COLUMN")
MODELS = {  # query -> the model that it asks, which each build makes
    "topics": "meta_topic_volume",
    "hours": "meta_topic_hour",
    "accounting": "meta_accounting",
    "late": "meta_late_data",
    "breaks": "meta_order_chain_break",
    "refused": "meta_quarantine",
}


class Asker:
    """Asks one warehouse by one session, which threads share: each further session would open the
    catalog and read the same tables once more."""

    def __init__(self, settings: SparkSessionCredentials) -> None:
        self.schema = str(settings.schema)
        self._catalog = settings.catalog
        self._session = own_session(settings).session
        if self._has_few_messages():
            leave_uncompiled(self._session)

    def _has_few_messages(self) -> bool:
        """Whether the log is so small that queries over what was made of it are evaluated sooner
        than compiled."""
        try:
            log = loaded(self._session, self._catalog, f"{self.schema}.{LOG}")
        except DbtRuntimeError:  # each query finds out by itself
            return False
        newest = None if log is None else log.currentSnapshot()
        return newest is not None and are_few(int(newest.summary().get("total-records") or 0))

    def rows(self, sql: str) -> Rows | None:
        """The rows of a query, as exact Python values; None where a table of it isn't there."""
        try:
            return self._session.sql(sql).toArrow().to_pylist(maps_as_pydicts="strict")
        except Exception as exc:
            if any(condition in str(exc) for condition in MISSING):
                return None
            raise

    def commits(self) -> Rows | None:
        """The newest commits, see tools/lineage/commits.py."""
        if is_remote(self._session):
            return self.rows(commits_query(self.schema))
        return newest_commits(self._session, self._catalog, self.schema)


@dataclass
class Facts:
    """Rows by the name of their query, see `queries`, and those of each counted table; models that
    the warehouse doesn't have, or has as older code built them; of counted tables with days after
    tomorrow the number of these rows and days, the newest other day, and the last of all."""

    rows: dict[str, Rows] = field(default_factory=dict)
    counts: dict[str, Rows] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    beyond: dict[str, Row] = field(default_factory=dict)


REASON = """
case
    when instr(reject_reason, ' = ') > 0
        and instr(substring(reject_reason, instr(reject_reason, ' = ') + 3), ' is ') > 0
        then concat(
            substring_index(reject_reason, ' = ', 1),
            ' = .. is ',
            substring_index(reject_reason, ' is ', -1)
        )
    else reject_reason
end
"""


def queries(schema: str) -> dict[str, str]:
    """Name -> query over the meta tables of a schema."""
    return {
        "versions": f"""
            select version, published_at, run_id, made_by, tag, changed, stale,
                size(snapshots) as tables
            from {schema}.meta_version
            order by version desc limit 20
        """,
        "publications": f"""
            select target, table_name, max_by(version, struct(published_at, version)) as version,
                max(published_at) as published_at
            from {schema}.meta_publication
            group by target, table_name order by target, table_name limit 200
        """,
        "topics": f"""
            select topic, sum(message_count) as messages, sum(refused_count) as unreadable,
                sum(missing_count) as missing, min(first_event_time) as first_event_time,
                max(last_event_time) as last_event_time, min(lag_seconds) as lag_seconds
            from {schema}.meta_topic_volume
            group by topic order by messages desc, topic limit 200
        """,
        "hours": f"""
            with hours as (
                select topic, if(event_hour <= current_timestamp(), event_hour, null) as hour,
                    sum(message_count) as messages
                from {schema}.meta_topic_hour group by 1, 2
            ),
            placed as (
                select *, dense_rank() over (order by hour desc nulls last) as place from hours
            )
            select topic, hour, messages from placed where place <= {HOURS} or hour is null
            order by hour nulls first, topic limit 5000
        """,
        "accounting": f"""
            select topic, sum(messages_in) as messages_in, sum(applied) as applied,
                sum(duplicates) as duplicates, sum(filtered) as filtered,
                sum(rejected) as refused, sum(unaccounted) as unaccounted
            from {schema}.meta_accounting
            group by topic order by messages_in desc, topic limit 200
        """,
        "late": f"""
            select cut_date, sum(change_count) as changes, max(days_behind) as days_behind
            from {schema}.meta_late_data
            group by cut_date
            order by cut_date > current_date() + interval 1 day, cut_date desc limit {DAYS}
        """,
        "breaks": f"""
            select kind, count(*) as breaks, count(distinct order_id) as orders
            from {schema}.meta_order_chain_break group by kind order by breaks desc, kind
        """,
        "break_positions": f"""
            select order_id, kind, previous_binlog_file_number, previous_binlog_position,
                binlog_file_number, binlog_position, row_number, cut_date
            from {schema}.meta_order_chain_break
            order by binlog_file_number desc, binlog_position desc, row_number desc limit 50
        """,
        "quality": f"""
            select check_name, verdict, checked_at, groups_compared, groups_differing,
                count_got, count_expected
            from {schema}.meta_quality
            order by checked_at desc, check_name limit 500
        """,
        "compensations": f"""
            select table_name, request, cut_date, rows_added, rows_removed, committed_at
            from {schema}.meta_compensation
            order by committed_at desc, table_name, cut_date limit 100
        """,
    }


def offsets_query(schema: str) -> str:
    """Ranges of offsets that refused messages lie in, of any topic: first_offset, last_offset."""
    return f"""
        select min(message_offset) as first_offset, max(message_offset) as last_offset
        from {schema}.{LOG} where reject_reason is not null
        group by message_offset div {NEAR_OFFSETS}
        union
        select first_offset, last_offset from {schema}.meta_message_block where rejected > 0
    """


def refused_query(schema: str, offsets: Sequence[tuple[int, int]] | None) -> str:
    """The refused messages by reason; by ranges of offsets, so that files of others are left out
    where the log is searched for messages that were read again.

    Args:
        offsets: first and last of each range with refused messages; None where they aren't known,
            for a warehouse that older code built has no meta_message_block.
    """
    if offsets is None:
        return _reasons_query(schema, "true")
    ranges = merged_ranges(((Decimal(low), Decimal(high)) for low, high in offsets), REFUSED_RANGES)
    conditions = [f"message_offset between {low:f} and {high:f}" for low, high in ranges]
    return _reasons_query(schema, " or ".join(conditions) or "false")


def _reasons_query(schema: str, condition: str) -> str:
    return f"""
        select refused_by, topic, left({REASON}, 200) as reason, count(*) as messages,
            min(left(raw_text, {SAMPLE})) as sample
        from {schema}.meta_quarantine where {condition}
        group by 1, 2, 3 order by messages desc, refused_by, topic, reason limit 50
    """


def tables_of_runs(commits: Rows) -> Rows:
    """What each run wrote into each table, the newest run first: run_id, table_name, first_commit,
    last_commit (UTC), rows_added, rows_removed.

    Args:
        commits: as tools/lineage/commits.py gives them.
    """
    found: dict[tuple[str, str], Row] = {}
    ended: dict[str, datetime] = {}
    for row in commits:
        run, table, moment = row["run_id"], row["table_name"], row["committed_at"]
        wrote = found.setdefault(
            (run, table),
            {
                "run_id": run,
                "table_name": table,
                "first_commit": moment,
                "last_commit": moment,
                "rows_added": 0,
                "rows_removed": 0,
            },
        )
        wrote["first_commit"] = min(wrote["first_commit"], moment)
        wrote["last_commit"] = max(wrote["last_commit"], moment)
        wrote["rows_added"] += row["rows_added"]
        wrote["rows_removed"] += row["rows_removed"]
        ended[run] = max(ended.get(run, moment), moment)
    rows = sorted(found.values(), key=lambda row: (-row["rows_added"], row["table_name"]))
    return sorted(rows, key=lambda row: (ended[row["run_id"]], row["run_id"]), reverse=True)


def count_query(counted: Counted, newest: date | None = None, totals: Counted | None = None) -> str:
    """What the report shows of a counted table.

    Args:
        newest: the table's newest day. Only days shortly before it are read, as many as a chart
            shows. None: all days.
        totals: the table of the same count to date, by which what lies before the days that are
            shown is known without a read of these days.
    """
    if counted.grains:
        return _windows_query(counted, newest)
    first = next(iter(counted.measures))
    sums = ", ".join(f"{counted.sum_of(name)} as {name}" for name in counted.measures)
    value = _value_of(counted)
    if not counted.has_days:
        ids = "".join(f", count(distinct {name}) as {name}s" for name in counted.ids)
        return f"""
            select {value} as value, {sums}{ids} from {counted.table}
            group by 1 order by {first} desc, value limit 50
        """
    shown = _since(newest, DAYS)
    measures, of_days, before = list(counted.measures), "", ""
    reads_before = newest is not None and counted.columns
    if reads_before and totals is None:
        # what lies before the days that are shown is one row a value without a day
        before = f"""
            union all
            select cast(null as date), {value}, {sums} from {counted.table}
            where not {shown} or {DAY} is null group by 2
        """
    elif reads_before and totals is not None:
        # the totals, from which the days that were read are taken
        to_date = ", ".join(f"{totals.sum_of(name)} as {name}" for name in measures)
        before = f"""
            union all
            select cast(null as date), {value}, {to_date} from {totals.table} group by 2
        """
        of_days = "".join(
            f", sum(if({DAY} is null, null, {name})) over (partition by value) as {name}_of_days"
            for name in measures
        )
        measures = [
            f"if({DAY} is null, {name} - {name}_of_days, {name}) as {name}" for name in measures
        ]
    # each table is read once: windows find the largest values
    return f"""
        with days as (
            select {DAY}, {value} as value, {sums} from {counted.table}
            where {shown} group by 1, 2
            {before}
        ),
        sized as (
            select *, sum(if({_until(newest)}, abs({first}), null))
                over (partition by value) as size{of_days}
            from days
        ),
        placed as (
            select *, dense_rank() over (order by size desc, value) as place
            from sized where size is not null
        )
        select {DAY}, value, {", ".join(measures)} from placed
        where place <= {SERIES} and ({DAY} is null or {_until(newest)})
        order by {DAY}, value
    """


def _value_of(counted: Counted) -> str:
    texts = [f"coalesce(cast({name} as string), '-')" for name in counted.dimensions]
    return " || ' / ' || ".join(texts) or "''"


def _since(newest: date | None, days: int) -> str:
    """Condition on the day: the newest so many days, and those behind them."""
    return f"{DAY} > date '{newest - timedelta(days=days)}'" if newest else "true"


def _until(newest: date | None) -> str:
    """Condition on the day: not behind the newest."""
    return f"{DAY} <= date '{newest}'" if newest else "true"


def _windows_query(counted: Counted, newest: date | None) -> str:
    """The newest windows of each grain, and those of a day by each set of one dimension."""
    columns = ", ".join(counted.measures)
    whole = "dimension_set = 'all'"
    chosen = [
        f"(grain = '{grain}' and {whole} and {_since(newest, _days_of_windows(grain))})"
        for grain in counted.grains
    ]
    if counted.sets:
        names = ", ".join(f"'{name}'" for name in counted.sets)
        of_sets = f"grain = '1d' and dimension_set in ({names})"
        chosen.append(f"({of_sets} and {_since(newest, DAYS)})")
    values = "".join(
        f" when '{name}' then cast(`{column}` as string)" for name, column in counted.sets.items()
    )
    value = f"case dimension_set{values} else '' end" if values else "''"
    return f"""
        with windows as (
            select grain, if({whole}, '', dimension_set) as dimension, {value} as value,
                window_start, {columns}
            from {counted.table} where ({" or ".join(chosen)}) and {_until(newest)}
        ),
        numbered as (
            select *, row_number() over (
                partition by grain, dimension order by window_start desc, value
            ) as number
            from windows
        )
        select grain, dimension, value, window_start, {columns} from numbered
        where number <= {WINDOWS} order by window_start, value
    """


def _days_of_windows(grain: str) -> int:
    """Days that hold the newest windows that a chart shows.

    >>> _days_of_windows("5m"), _days_of_windows("1d")
    (3, 184)
    """
    minutes = {"m": 1, "h": 60, "d": 1440, "w": 10_080}.get(grain[-1:], 44_640)
    days = int(grain[:-1]) * minutes * WINDOWS // 1440 + 1 + (minutes < 1440)
    return days if minutes > 1440 else min(days, DAYS)


def _totals_of(counted: Counted, others: Sequence[Counted]) -> Counted | None:
    """The table of the same count to date."""
    for other in others:
        if (
            other.count == counted.count
            and not other.has_days
            and not other.grains
            and other.dimensions == counted.dimensions
            and other.measures.keys() >= counted.measures.keys()
        ):
            return other
    return None


class Gathering:
    """Asks the queries, a few at a time. Those that need the schema alone begin at once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._beyond: dict[str, Row] = {}
        self._counts: dict[str, Future[Rows | None]] = {}
        self._pool = ThreadPoolExecutor(THREADS)
        self._rows: dict[str, Future[Rows | None]] = {"commits": self._pool.submit(asker.commits)}
        for name, sql in queries(asker.schema).items():
            self._rows[name] = self._pool.submit(asker.rows, sql)
        self._rows["refused"] = self._pool.submit(self._refused)

    def ask(self, counted: Sequence[Counted]) -> None:
        """Ask for the counted tables, too."""
        for table in counted:
            self._counts[table.name] = self._pool.submit(self._count, table, counted)

    def facts(self) -> Facts:
        """All rows that were asked for, once they are there; it can be called once."""
        with self._pool:
            rows = {name: future.result() for name, future in self._rows.items()}
            of_counts = {name: future.result() for name, future in self._counts.items()}
        missing = [model for name, model in MODELS.items() if rows[name] is None]
        missing += [name for name, found in of_counts.items() if found is None]
        beyond = {name: self._beyond[name] for name in of_counts if name in self._beyond}
        facts = Facts(
            {name: found or [] for name, found in rows.items()},
            {name: found or [] for name, found in of_counts.items()},
            missing,
            beyond,
        )
        facts.rows["run_tables"] = tables_of_runs(facts.rows["commits"])
        return facts

    def _refused(self) -> Rows | None:
        schema = self._asker.schema
        found = self._asker.rows(offsets_query(schema))
        if found is None:
            return self._asker.rows(refused_query(schema, None))
        offsets = [(row["first_offset"], row["last_offset"]) for row in found]
        return self._asker.rows(refused_query(schema, offsets)) if offsets else []

    def _count(self, table: Counted, counted: Sequence[Counted]) -> Rows | None:
        if not table.has_days and not table.grains:
            return self._asker.rows(count_query(table))
        newest, beyond = self._newest(table)
        if beyond is not None:
            self._beyond[table.name] = beyond
        return self._asker.rows(count_query(table, newest, _totals_of(table, counted)))

    def _newest(self, table: Counted) -> tuple[date | None, Row | None]:
        """A table's newest day; a day after tomorrow is none, if there are others: then what lies
        behind the newest, too. Iceberg's metadata answers these queries, or names the few files."""
        newest = f"select max({DAY}) as newest from {table.table}"
        found = self._asker.rows(newest)
        last = found[0]["newest"] if found else None
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        if last is None or last <= tomorrow:
            return last, None
        found = self._asker.rows(f"{newest} where {_until(tomorrow)}")
        before = found[0]["newest"] if found else None
        if before is None:
            return last, None
        behind = self._asker.rows(f"""
            select count(*) as count, count(distinct {DAY}) as days
            from {table.table} where {DAY} > date '{tomorrow}'
        """)
        return before, {**behind[0], "newest": before, "last": last} if behind else None
