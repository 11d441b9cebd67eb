"""What the report shows, asked of the warehouse in a handful of queries.

Each query aggregates in Spark and has a limit, so that the page stays small whatever the warehouse
holds. A table that isn't there yet gives no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.session import own_session

from tools.lineage.events import commits_query
from tools.report.declared import DAY, Counted

Rows = list[dict[str, Any]]
THREADS = 4
HOURS, DAYS, WINDOWS = 24 * 14, 366, 300  # newest that a chart shows
SERIES = 12  # lines of a chart
SAMPLE = 200  # characters of a refused message
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
    commits = f"""
        select distinct table_name, snapshot_id, committed_at, run_id, rows_added, rows_removed
        from {schema}.meta_lineage
        where run_id is not null
    """
    return {
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
        "run_tables": f"""
            select run_id, table_name, min(committed_at) as first_commit,
                max(committed_at) as last_commit, sum(rows_added) as rows_added,
                sum(rows_removed) as rows_removed,
                max(max(committed_at)) over (partition by run_id) as run_ended
            from ({commits})
            group by run_id, table_name
            order by run_ended desc, run_id, rows_added desc, table_name limit 1500
        """,
        "topics": f"""
            select topic, sum(message_count) as messages, sum(refused_count) as refused,
                sum(missing_count) as missing, min(first_event_time) as first_event_time,
                max(last_event_time) as last_event_time, min(lag_seconds) as lag_seconds
            from {schema}.meta_topic_volume
            group by topic order by messages desc, topic limit 200
        """,
        "hours": f"""
            with hours as (
                select topic, date_trunc('hour', event_time) as hour, count(*) as messages
                from {schema}.ods_binlog where event_time is not null group by 1, 2
            ),
            newest as (
                select distinct hour from hours
                where hour <= date_trunc('hour', current_timestamp())
                order by hour desc limit {HOURS}
            )
            select hours.* from hours inner join newest on hours.hour = newest.hour
            order by hours.hour, hours.topic limit 5000
        """,
        "accounting": f"""
            select topic, sum(messages_in) as messages_in, sum(applied) as applied,
                sum(duplicates) as duplicates, sum(filtered) as filtered,
                sum(rejected) as rejected, sum(unaccounted) as unaccounted
            from {schema}.meta_accounting
            group by topic order by messages_in desc, topic limit 200
        """,
        "refused": f"""
            select refused_by, topic, left({REASON}, 200) as reason, count(*) as messages,
                min(left(raw_text, {SAMPLE})) as sample
            from {schema}.meta_quarantine
            group by 1, 2, 3 order by messages desc, refused_by, topic, reason limit 50
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
        "commits": commits_query(schema),
        "compensations": f"""
            select table_name, request, cut_date, rows_added, rows_removed, committed_at
            from {schema}.meta_compensation
            order by committed_at desc, table_name, cut_date limit 100
        """,
    }


def count_query(counted: Counted) -> str:
    """What the report shows of a counted table."""
    if counted.grains:
        return _windows_query(counted)
    first = next(iter(counted.measures))
    sums = ", ".join(f"{counted.sum_of(name)} as {name}" for name in counted.measures)
    texts = [f"coalesce(cast({name} as string), '-')" for name in counted.dimensions]
    value = " || ' / ' || ".join(texts) or "''"
    if not counted.has_days:
        ids = "".join(f", count(distinct {name}) as {name}s" for name in counted.ids)
        return f"""
            select {value} as value, {sums}{ids} from {counted.table}
            group by 1 order by {first} desc, value limit 50
        """
    columns = ", ".join(f"days.{name}" for name in counted.measures)
    again = ", ".join(f"sum({name}) as {name}" for name in counted.measures)
    return f"""
        with days as (
            select {DAY}, {value} as value, {sums} from {counted.table} group by 1, 2
        ),
        largest as (
            select value from days group by value
            order by sum(abs({first})) desc, value limit {SERIES}
        ),
        shown as (
            select min({DAY}) as first_day
            from (select distinct {DAY} from days order by {DAY} desc limit {DAYS})
        ),
        -- what lies before the days that are shown is one row without a day
        cut as (
            select case when days.{DAY} >= shown.first_day then days.{DAY} end as {DAY},
                days.value, {columns}
            from days cross join shown left semi join largest on days.value = largest.value
        )
        select {DAY}, value, {again} from cut group by 1, 2 order by {DAY}, value
    """


def _windows_query(counted: Counted) -> str:
    """The newest windows of each grain, and those of a day by each set of one dimension."""
    columns = ", ".join(counted.measures)
    newest = f"order by window_start desc, value limit {WINDOWS}"
    parts = [
        f"""(
            select grain, '' as dimension, '' as value, window_start, {columns}
            from {counted.table} where dimension_set = 'all' and grain = '{grain}' {newest}
        )"""
        for grain in counted.grains
    ]
    parts += [
        f"""(
            select grain, '{name}' as dimension, cast(`{column}` as string) as value,
                window_start, {columns}
            from {counted.table} where dimension_set = '{name}' and grain = '1d' {newest}
        )"""
        for name, column in counted.sets.items()
    ]
    return f"select * from ({' union all '.join(parts)}) order by window_start, value"


def gather(ask: Callable[[str], Rows], schema: str, counted: Sequence[Counted]) -> Facts:
    """Ask all queries, a few at a time."""
    asked: Mapping[str, str] = queries(schema)
    facts = Facts()
    with ThreadPoolExecutor(THREADS) as pool:
        rows = {name: pool.submit(ask, sql) for name, sql in asked.items()}
        counts = {table.name: pool.submit(ask, count_query(table)) for table in counted}
        facts.rows = {name: future.result() for name, future in rows.items()}
        facts.counts = {name: future.result() for name, future in counts.items()}
    return facts
