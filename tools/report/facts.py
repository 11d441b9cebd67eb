"""What the report shows, asked of the warehouse in a handful of queries.

Each query aggregates in Spark and has a limit, so that the page stays small whatever the warehouse
holds. A table that isn't there yet gives no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.reading.ranges import merged_ranges
from dbt.adapters.sparksession.session import own_session

from tools.lineage.events import commits_query
from tools.report.declared import DAY, Counted

Row = dict[str, Any]
Rows = list[Row]
THREADS = 4
HOURS, DAYS, WINDOWS = 24 * 14, 184, 300  # newest that a chart shows
SERIES = 12  # lines of a chart
SAMPLE = 200  # characters of a refused message
BLOCK, BLOCK_RANGES = 1_000_000, 64  # offsets of a row of meta_message_block
MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")


def asker(settings: SparkSessionCredentials) -> Callable[[str], Rows]:
    """A function that gives the rows of a query, as exact Python values."""

    def ask(sql: str) -> Rows:
        try:
            frame = own_session(settings).session.sql(sql)
            return frame.toArrow().to_pylist(maps_as_pydicts="strict")
        except Exception as exc:
            if any(condition in str(exc) for condition in MISSING):
                return []
            raise

    return ask


@dataclass
class Facts:
    """Rows by the name of their query, see `queries`, and those of each counted table."""

    rows: dict[str, Rows] = field(default_factory=dict)
    counts: dict[str, Rows] = field(default_factory=dict)


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
        # the slowest begins first
        "commits": commits_query(schema),
        "versions": f"""
            select version, published_at, run_id, made_by, tag, changed, stale,
                size(snapshots) as tables
            from {schema}.meta_version
            order by version desc limit 20
        """,
        "publications": f"""
            select target, table_name, max(version) as version,
                max(published_at) as published_at
            from {schema}.meta_publication
            group by target, table_name order by target, table_name limit 200
        """,
        "topics": f"""
            select topic, sum(message_count) as messages, sum(refused_count) as refused,
                sum(missing_count) as missing, min(first_event_time) as first_event_time,
                max(last_event_time) as last_event_time, min(lag_seconds) as lag_seconds
            from {schema}.meta_topic_volume
            group by topic order by messages desc, topic limit 200
        """,
        "hours": f"""
            with newest as (
                select distinct event_hour from {schema}.meta_topic_hour
                where event_hour <= date_trunc('hour', current_timestamp())
                order by event_hour desc limit {HOURS}
            )
            select topic, event_hour as hour, message_count as messages
            from {schema}.meta_topic_hour left semi join newest using (event_hour)
            order by hour, topic limit 5000
        """,
        "accounting": f"""
            select topic, sum(messages_in) as messages_in, sum(applied) as applied,
                sum(duplicates) as duplicates, sum(filtered) as filtered,
                sum(rejected) as rejected, sum(unaccounted) as unaccounted
            from {schema}.meta_accounting
            group by topic order by messages_in desc, topic limit 200
        """,
        "late": f"""
            select cut_date, sum(change_count) as changes, max(days_behind) as days_behind
            from {schema}.meta_late_data
            group by cut_date order by cut_date desc limit {DAYS}
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


def blocks_query(schema: str) -> str:
    """Blocks of a million offsets that refused messages lie in, of any topic."""
    return f"""
        select message_offset div {BLOCK} as block from {schema}.ods_binlog
        where reject_reason is not null
        union
        select offset_block from {schema}.meta_message_block where rejected > 0
    """


def refused_query(schema: str, blocks: Sequence[int]) -> str:
    """The refused messages by reason; by blocks of a million offsets, so that files of others are
    left out where the log is searched for messages that were read again."""
    ranges = merged_ranges(((Decimal(block), Decimal(block)) for block in blocks), BLOCK_RANGES)
    offsets = " or ".join(
        f"message_offset between {first * BLOCK:f} and {last * BLOCK + BLOCK - 1:f}"
        for first, last in ranges
    )
    return f"""
        select refused_by, topic, left({REASON}, 200) as reason, count(*) as messages,
            min(left(raw_text, {SAMPLE})) as sample
        from {schema}.meta_quarantine where {offsets or "false"}
        group by 1, 2, 3 order by messages desc, refused_by, topic, reason limit 50
    """


def tables_of_runs(commits: Rows) -> Rows:
    """What each run wrote into each table, the newest run first: run_id, table_name, first_commit,
    last_commit (UTC), rows_added, rows_removed.

    Args:
        commits: rows of `commits_query`.
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
    measures = ", ".join(counted.measures)
    shown = _since(newest, DAYS)
    if newest is None or not counted.columns:
        before = ""
    elif totals is None:
        # what lies before the days that are shown is one row without a day
        before = f"""
            union all
            select cast(null as date), {value}, {sums} from {counted.table}
            where not {shown} group by 2
        """
    else:
        to_date = ", ".join(f"{totals.sum_of(name)} as {name}" for name in counted.measures)
        again = ", ".join(f"sum({name}) as {name}" for name in counted.measures)
        left = ", ".join(
            f"to_date.{name} - coalesce(of_days.{name}, 0)" for name in counted.measures
        )
        before = f"""
            union all
            select cast(null as date), to_date.value, {left}
            from (select {value} as value, {to_date} from {totals.table} group by 1) as to_date
            left join (select value, {again} from days group by value) as of_days
                on to_date.value = of_days.value
        """
    return f"""
        with days as (
            select {DAY}, {value} as value, {sums} from {counted.table}
            where {shown} group by 1, 2
        ),
        largest as (
            select value from days group by value
            order by sum(abs({first})) desc, value limit {SERIES}
        ),
        shown as (
            select {DAY}, value, {measures} from days
            {before}
        )
        select {DAY}, value, {measures} from shown left semi join largest
            on shown.value = largest.value
        order by {DAY}, value
    """


def _value_of(counted: Counted) -> str:
    texts = [f"coalesce(cast({name} as string), '-')" for name in counted.dimensions]
    return " || ' / ' || ".join(texts) or "''"


def _since(newest: date | None, days: int) -> str:
    """Condition on the day: the newest so many days."""
    return f"{DAY} > date '{newest - timedelta(days=days)}'" if newest else "true"


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
        chosen.append(f"({of_sets} and {_since(newest, WINDOWS)})")
    values = "".join(
        f" when '{name}' then cast(`{column}` as string)" for name, column in counted.sets.items()
    )
    value = f"case dimension_set{values} else '' end" if values else "''"
    return f"""
        with windows as (
            select grain, if({whole}, '', dimension_set) as dimension, {value} as value,
                window_start, {columns}
            from {counted.table} where {" or ".join(chosen)}
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
    (3, 301)
    """
    minutes = {"m": 1, "h": 60, "d": 1440, "w": 10_080}.get(grain[-1:], 44_640)
    return int(grain[:-1]) * minutes * WINDOWS // 1440 + 1 + (minutes < 1440)


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

    def __init__(self, ask: Callable[[str], Rows], schema: str) -> None:
        """
        Args:
            ask: gives the rows of a query; threads call it.
        """
        self._ask = ask
        self._schema = schema
        self._pool = ThreadPoolExecutor(THREADS)
        self._rows = {name: self._pool.submit(ask, sql) for name, sql in queries(schema).items()}
        self._rows["refused"] = self._pool.submit(self._refused)

    def facts(self, counted: Sequence[Counted]) -> Facts:
        """All rows, those of the counted tables among them; it can be called once."""
        found = Facts()
        with self._pool as pool:
            counts = {table.name: pool.submit(self._count, table, counted) for table in counted}
            found.rows = {name: future.result() for name, future in self._rows.items()}
            found.counts = {name: future.result() for name, future in counts.items()}
        found.rows["run_tables"] = tables_of_runs(found.rows["commits"])
        return found

    def _refused(self) -> Rows:
        blocks = [row["block"] for row in self._ask(blocks_query(self._schema))]
        return self._ask(refused_query(self._schema, blocks)) if blocks else []

    def _count(self, table: Counted, counted: Sequence[Counted]) -> Rows:
        if not table.has_days and not table.grains:
            return self._ask(count_query(table))
        # Iceberg's metadata answers this
        days = self._ask(f"select max({DAY}) as newest from {table.table}")
        newest = days[0]["newest"] if days else None
        return self._ask(count_query(table, newest, _totals_of(table, counted)))
