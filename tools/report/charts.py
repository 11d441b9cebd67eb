"""The report's charts: rows, and the Vega-Lite specs that Altair writes for them.

A spec holds no rows: the page keeps those once, for the chart and for the table beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import altair as alt

from tools.report.declared import DAY, Counted
from tools.report.parts import Chart, ChartGroup, grid

Rows = Sequence[Mapping[str, Any]]
HEIGHT = 240
LABEL = 60  # characters of a text
DOUBLE = 2**53  # integers above are texts: JavaScript would round them
OUTCOMES = ("applied", "duplicates", "filtered", "rejected", "unaccounted")
SHOWN_AS = {"rejected": "refused", "unaccounted": "lost"}  # outcome -> as readers know it
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


def hours(rows: Rows) -> Chart:
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
            title="hour (UTC)",
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
    return _chart("Messages per hour and topic", chart, shown, columns, ["messages"])


def outcomes(rows: Rows) -> Chart:
    """What became of the messages of each topic: bars that add up to the messages."""
    shown = [
        {
            "topic": row["topic"],
            "outcome": SHOWN_AS.get(part, part),
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
                    domain=[SHOWN_AS.get(part, part) for part in OUTCOMES],
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
) -> Chart:
    """A line over time, a line a value of `color`; rows without a time are left out."""
    shown = [row for row in rows if row[time] is not None]
    kind: Literal["day", "temporal"] = "day" if time == DAY else "temporal"
    encoded: dict[str, Any] = {
        "x": alt.X(
            field=time,
            type="temporal",
            title="business day" if kind == "day" else f"{words(time)} (UTC)",
            scale=UTC_SCALE,
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
    return _chart(title, chart, shown, columns, [measure])


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


def of_count(counted: Counted, rows: Rows) -> ChartGroup:
    """The charts and tables of one counted table."""
    if counted.grains:
        return ChartGroup(counted.name, _of_windows(counted, rows))
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
        return ChartGroup(counted.name, charts)
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
