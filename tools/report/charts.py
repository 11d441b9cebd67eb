"""The report's charts: rows, and the Vega-Lite specs that Altair writes for them.

A spec holds no rows: the page keeps those once, for the chart and for the table beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import altair as alt

from tools.report.declared import DAY, Counted
from tools.report.parts import Chart, ChartGroup, grid, numbered

Rows = Sequence[Mapping[str, Any]]
HEIGHT = 240
LABEL = 60  # characters of a text
DOUBLE = 2**53  # integers above are texts: JavaScript would round them
OUTCOMES = ("applied", "duplicates", "filtered", "refused", "unaccounted")
DRAWN = 184  # days before the newest
LEAST = 0.02  # share of the rows that the newest days hold
FEW = 10  # days of which each has a label
TOPICS = 11  # that have a color of their own
OTHERS = "(other topics)"
# large numbers short: 40000000 as 40M
SHORT = (
    "abs(datum.value) < 1e6 ? format(datum.value, ',')"
    " : replace(format(datum.value, '.4~s'), 'G', 'B')"
)
AMOUNTS = alt.Axis(labelExpr=SHORT)
COUNTS = alt.Axis(labelExpr=SHORT, tickMinStep=1)
UTC_SCALE = alt.Scale(type="utc")


def plain(value: Any) -> Any:
    """A value as JSON holds it: exact numbers as texts, times as ISO texts in UTC, long texts cut.

    >>> plain(Decimal("1.10")), plain(2**60), plain(7), plain("x" * 99)[-4:]
    ('1.10', '1152921504606846976', 7, 'x ..')
    """
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) > DOUBLE):
        return str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, str):
        return value if len(value) <= LABEL else f"{value[:LABEL]} .."
    return value.isoformat() if isinstance(value, date) else value


def day_of(moment: date) -> date:
    """The day of a time or a day."""
    return moment.date() if isinstance(moment, datetime) else moment


def recent(
    rows: Rows, time: str, now: datetime, single: str, several: str
) -> tuple[list[Mapping[str, Any]], str]:
    """The rows of the newest DRAWN days, and a sentence about the others, which would squeeze the
    axis. Single rows far behind the others, or after tomorrow, don't make a day the newest.

    Args:
        time: column of days or times; rows without one are left out.
        now: in UTC; a business zone may be a day ahead.
        single, several: what a row is, and rows are.

    >>> days = [date(1969, 1, 1), date(2026, 3, 8), date(2099, 1, 1)]
    >>> shown, text = recent([{"day": d} for d in days], "day", datetime(2026, 3, 9), "day", "days")
    >>> [str(row["day"]) for row in shown]
    ['2026-03-08']
    >>> text.split(", ")[1]
    '1 day after 2026-03-08 (to 2099-01-01).'
    """
    dated = [row for row in rows if row[time] is not None]
    days = [day_of(row[time]) for row in dated]
    if not days:
        return [], ""
    newest = _newest(days, now.date() + timedelta(days=1))
    first = newest - timedelta(days=DRAWN - 1)
    before = [day for day in days if day < first]
    after = [day for day in days if day > newest]
    parts = []
    if before:
        count = numbered(len(before), single, several)
        parts.append(f"{count} before {first} (from {min(before)} on)")
    if after:
        parts.append(f"{numbered(len(after), single, several)} after {newest} (to {max(after)})")
    shown = [row for row, day in zip(dated, days, strict=True) if first <= day <= newest]
    return shown, f"Not drawn: {', '.join(parts)}." if parts else ""


def _newest(days: Sequence[date], tomorrow: date) -> date:
    """The newest day whose DRAWN days hold more than a few of all; where there is none the newest
    until tomorrow, or of all."""
    known = [day for day in days if day <= tomorrow] or days
    for newest in sorted({*known}, reverse=True):
        first = newest - timedelta(days=DRAWN - 1)
        if sum(first <= day <= newest for day in known) >= LEAST * len(known):
            return newest
    return max(known)


def _title(text: str, days: Sequence[date]) -> str:
    """An axis' title with the days that it shows, whose labels may be months or hours alone."""
    if not days:
        return text
    first, last = min(days), max(days)
    return f"{text}, {first}" if first == last else f"{text}, {first} to {last}"


def _axis_of_days(days: Sequence[date]) -> alt.Axis:
    """Vega labels the first of a month by the month alone, and a part of a day by its hour."""
    if not days or (max(days) - min(days)).days >= FEW:
        return alt.Axis()
    return alt.Axis(format="%b %-d", tickCount=alt.TimeIntervalStep(interval="day", step=1))


def words(name: str) -> str:
    """A column's name for a reader."""
    return name.replace("_", " ")


def _chart(
    title: str,
    chart: alt.Chart,
    rows: Rows,
    columns: Sequence[str],
    numbers: Iterable[str],
    *,
    is_dated: bool = True,
) -> Chart:
    """A chart of rows; its id is given by the page."""
    spec = chart.properties(width="container", height=HEIGHT, description=title).to_dict()
    spec["data"] = {"name": "rows", "format": {"parse": dict.fromkeys(numbers, "number")}}
    values = [[plain(row[name]) for name in columns] for row in rows]
    return Chart("", title, spec, columns, values, is_dated)


def _tooltip(name: str, kind: Literal["nominal", "quantitative", "temporal", "day"]) -> alt.Tooltip:
    formats = {"quantitative": ",.12~g", "day": "%Y-%m-%d", "temporal": "%Y-%m-%d %H:%M"}
    of_vega = "temporal" if kind == "day" else kind
    tooltip = alt.Tooltip(field=name, type=of_vega, title=words(name))
    return tooltip.format(formats[kind]) if kind in formats else tooltip


def hours(rows: Rows, note: str = "") -> Chart:
    """Messages by hour, a colour a topic; rows of topic, hour, messages."""
    sizes: dict[str, int] = defaultdict(int)
    for row in rows:
        sizes[row["topic"]] += row["messages"]
    largest = sorted(sizes, key=lambda topic: (-sizes[topic], topic))
    largest = largest if len(largest) <= TOPICS + 1 else largest[:TOPICS]
    messages: dict[tuple[datetime, str], int] = defaultdict(int)
    for row in rows:
        topic = row["topic"] if row["topic"] in largest else OTHERS
        messages[row["hour"], topic] += row["messages"]
    shown = [
        {"hour": hour, "topic": topic, "messages": count}
        for (hour, topic), count in sorted(messages.items())
    ]
    chart = alt.Chart(alt.NamedData(name="rows")).mark_bar()
    chart = chart.encode(
        x=alt.X(
            field="hour",
            type="temporal",
            timeUnit="utcyearmonthdatehours",
            title=_title("hour (UTC)", [day_of(hour) for hour, _ in messages]),
            axis=alt.Axis(grid=False, labelOverlap=True),
        ),
        y=alt.Y(field="messages", type="quantitative", stack="zero", title="messages", axis=COUNTS),
        color=alt.Color(field="topic", type="nominal", title="topic"),
        tooltip=[
            _tooltip("topic", "nominal"),
            _tooltip("hour", "temporal"),
            _tooltip("messages", "quantitative"),
        ],
    )
    columns = ("hour", "topic", "messages")
    found = _chart("Messages per hour and topic", chart, shown, columns, ["messages"])
    return replace(found, note=note)


def outcomes(rows: Rows) -> Chart:
    """What became of the messages of each topic: bars that add up to the messages."""
    shown = [
        {
            "topic": row["topic"],
            "outcome": part,
            "messages": row[part],
            "place": place,
        }
        for row in rows
        for place, part in enumerate(OUTCOMES)
    ]
    chart = (
        alt.Chart(alt.NamedData(name="rows"))
        .mark_bar()
        .encode(
            y=alt.Y(field="topic", type="nominal", title=None),
            x=alt.X(field="messages", type="quantitative", stack="zero", title="messages"),
            color=alt.Color(
                field="outcome",
                type="nominal",
                scale=alt.Scale(
                    domain=list(OUTCOMES),
                    range=["#2c7fb8", "#9e9ac8", "#a6bddb", "#d95f02", "#e7298a"],
                ),
                title="outcome",
            ),
            order=alt.Order(field="place", type="quantitative"),
            tooltip=[
                _tooltip("topic", "nominal"),
                _tooltip("outcome", "nominal"),
                _tooltip("messages", "quantitative"),
            ],
        )
    )
    columns = ("topic", "outcome", "messages", "place")
    title = "What became of the messages: in = applied + duplicates + filtered + refused"
    return _chart(title, chart, shown, columns, ["messages"], is_dated=False)


def bars(title: str, rows: Rows, label: str, measure: str, *, axis: alt.Axis = COUNTS) -> Chart:
    """A bar a row, the largest first."""
    chart = (
        alt.Chart(alt.NamedData(name="rows"))
        .mark_bar()
        .encode(
            y=alt.Y(field=label, type="nominal", sort="-x", title=words(label)),
            x=alt.X(field=measure, type="quantitative", title=words(measure), axis=axis),
            tooltip=[_tooltip(label, "nominal"), _tooltip(measure, "quantitative")],
        )
    )
    return _chart(title, chart, rows, (label, measure), [measure], is_dated=False)


def curve(
    title: str,
    rows: Rows,
    time: str,
    measure: str,
    color: str | None = None,
    *,
    axis: alt.Axis = COUNTS,
    note: str = "",
) -> Chart:
    """A line over time, a line a value of `color`; rows without a time are left out."""
    shown = [row for row in rows if row[time] is not None]
    kind: Literal["day", "temporal"] = "day" if time == DAY else "temporal"
    days = [day_of(row[time]) for row in shown]
    encoded: dict[str, Any] = {
        "x": alt.X(
            field=time,
            type="temporal",
            title=_title("business day" if kind == "day" else f"{words(time)} (UTC)", days),
            scale=UTC_SCALE,
            axis=_axis_of_days(days) if kind == "day" else alt.Axis(),
        ),
        "y": alt.Y(field=measure, type="quantitative", title=words(measure), axis=axis),
        "tooltip": [_tooltip(time, kind), _tooltip(measure, "quantitative")],
    }
    columns = [time, measure]
    if color:
        encoded["color"] = alt.Color(field=color, type="nominal", title=words(color))
        encoded["tooltip"].insert(1, _tooltip(color, "nominal"))
        columns.insert(1, color)
    chart = (
        alt.Chart(alt.NamedData(name="rows")).mark_line(point=len(shown) < 200).encode(**encoded)
    )
    return replace(_chart(title, chart, shown, columns, [measure]), note=note)


def to_date(rows: Rows, measure: str) -> list[dict[str, Any]]:
    """Net changes of days added up: the total of each value at each day that changed any.

    Args:
        rows: cut_date (null: before the days that are shown), value, measure.
    """
    days = sorted({row[DAY] for row in rows if row[DAY] is not None})
    changed: dict[Any, dict[Any, Any]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        changed[row["value"]][row[DAY]] += row[measure] or 0
    totals = {value: by_day.pop(None, 0) for value, by_day in changed.items()}
    found = []
    for day in days:
        for value, by_day in changed.items():
            totals[value] += by_day.get(day, 0)
            found.append({DAY: day, "value": value, measure: totals[value]})
    return found


def _as_they_are(rows: Rows, measure: str) -> list[dict[str, Any]]:
    return [{DAY: row[DAY], "value": row["value"], measure: row[measure]} for row in rows]


def of_count(counted: Counted, rows: Rows, beyond: Mapping[str, Any] | None = None) -> ChartGroup:
    """The charts and tables of one counted table.

    Args:
        beyond: rows, days, newest and last of what lies after the newest day that is drawn.
    """
    note = ""
    if beyond is not None:
        behind = numbered(beyond["days"], "day", "days")
        count = numbered(beyond["count"], "row", "rows")
        note = f"Not drawn: {count} of {behind} after {beyond['newest']} (to {beyond['last']})."
    if counted.grains:
        return ChartGroup(counted.name, _of_windows(counted, rows), note=note)
    label = " / ".join(words(name) for name in counted.dimensions) or "all"
    if counted.has_days:
        # the days of a count hold what changed, those of a daily table the day's own number
        of_days, kind = (to_date, "to date") if counted.columns else (_as_they_are, "a day")
        charts = [
            curve(
                f"{words(measure)} {kind}, by {label}",
                of_days(rows, measure),
                DAY,
                measure,
                "value",
                axis=_axis(counted, measure),
            )
            for measure in (counted.measures if rows else ())
        ]
        return ChartGroup(counted.name, charts, note=note)
    measures = [*counted.measures, *(f"{name}s" for name in counted.ids)]
    named = [{label: row["value"], **{name: row[name] for name in measures}} for row in rows]
    charts = [
        bars(
            f"{words(measure)} to date, by {label}",
            named,
            label,
            measure,
            axis=_axis(counted, measure),
        )
        for measure in (measures if rows else ())
    ]
    table = grid(f"count-{counted.name}", f"{counted.name}, to date", named)
    return ChartGroup(counted.name, charts, [table])


def _axis(counted: Counted, measure: str) -> alt.Axis:
    return AMOUNTS if counted.measures.get(measure) == "sum" else COUNTS


def _of_windows(counted: Counted, rows: Rows) -> list[Chart]:
    charts = []
    for measure in counted.measures:
        axis = _axis(counted, measure)
        for grain in counted.grains:
            found = [row for row in rows if row["grain"] == grain and not row["dimension"]]
            if found:
                title = f"{words(measure)} by {grain}"
                charts.append(curve(title, found, "window_start", measure, axis=axis))
        for name in counted.sets:
            found = [row for row in rows if row["dimension"] == name]
            if found:
                title = f"{words(measure)} by day and {words(name)}"
                charts.append(curve(title, found, "window_start", measure, "value", axis=axis))
    return charts
