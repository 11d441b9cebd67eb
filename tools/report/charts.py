"""Vega-Lite specs of the report's charts, with their rows in them. Altair writes the specs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import altair as alt

from tools.report.declared import DAY, Counted

Rows = Sequence[dict[str, Any]]
HEIGHT = 220


def plain(value: Any) -> Any:
    """A value as Vega takes it: numbers as floats, times as ISO texts in UTC."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value.isoformat() if isinstance(value, date) else value


def _chart(rows: Rows, description: str) -> alt.Chart:
    values = [{name: plain(one) for name, one in row.items()} for row in rows]
    data = alt.Data(values=values)
    return alt.Chart(data, description=description, width="container", height=HEIGHT)


def _text(name: str) -> str:
    return name.replace("_", " ")


def _field(name: str) -> str:
    """A column's name as Vega reads it: dots and brackets would be paths."""
    return "".join(f"\\{one}" if one in ".[]'\"\\:" else one for one in name)


def stacked_hours(rows: Rows) -> dict[str, Any]:
    """Messages by hour, a colour a topic; rows of topic, hour, messages."""
    chart = _chart(rows, "Messages per hour and topic").mark_bar()
    chart = chart.encode(
        x=alt.X(field="hour", type="temporal", title="hour (UTC)", scale=alt.Scale(type="utc")),
        y=alt.Y(field="messages", type="quantitative", aggregate="sum", title="messages"),
        color=alt.Color(field="topic", type="nominal", title="topic"),
        tooltip=[
            alt.Tooltip(field="topic", type="nominal"),
            alt.Tooltip(field="hour", type="temporal", format="%Y-%m-%d %H:%M"),
            alt.Tooltip(field="messages", type="quantitative", format=","),
        ],
    )
    return chart.to_dict()


def outcomes(rows: Rows) -> dict[str, Any]:
    """What became of the messages of each topic, bars that add up to all of them."""
    parts = ("applied", "duplicates", "filtered", "rejected", "unaccounted")
    shown = [
        {"topic": row["topic"], "outcome": part, "messages": row[part], "place": place}
        for row in rows
        for place, part in enumerate(parts)
    ]
    chart = _chart(shown, "What became of the messages of each topic").mark_bar()
    chart = chart.encode(
        y=alt.Y(field="topic", type="nominal", title=None),
        x=alt.X(field="messages", type="quantitative", aggregate="sum", title="messages"),
        color=alt.Color(field="outcome", type="nominal", sort=list(parts), title="outcome"),
        order=alt.Order(field="place", type="quantitative"),
        tooltip=[
            alt.Tooltip(field="topic", type="nominal"),
            alt.Tooltip(field="outcome", type="nominal"),
            alt.Tooltip(field="messages", type="quantitative", format=","),
        ],
    )
    return chart.to_dict()


def bars(rows: Rows, label: str, measure: str, description: str) -> dict[str, Any]:
    """A bar a row; the largest first."""
    chart = _chart([{label: row[label], measure: row[measure]} for row in rows], description)
    chart = chart.mark_bar().encode(
        y=alt.Y(field=_field(label), type="nominal", sort="-x", title=_text(label)),
        x=alt.X(field=_field(measure), type="quantitative", title=_text(measure)),
        tooltip=[
            alt.Tooltip(field=_field(label), type="nominal"),
            alt.Tooltip(field=_field(measure), type="quantitative", format=",.2~f"),
        ],
    )
    return chart.to_dict()


def curve(rows: Rows, time: str, measure: str, color: str | None, text: str) -> dict[str, Any]:
    """A line over time, one line a value of `color`."""
    names = [time, measure, *([color] if color else [])]
    shown = [{name: row[name] for name in names} for row in rows if row[time] is not None]
    title = f"{_text(time)} (UTC)" if time != DAY else "business day"
    encoded: dict[str, Any] = {
        "x": alt.X(
            field=_field(time), type="temporal", title=title, scale=alt.Scale(type="utc")
        ),
        "y": alt.Y(field=_field(measure), type="quantitative", title=_text(measure)),
        "tooltip": [
            alt.Tooltip(
                field=_field(time),
                type="temporal",
                format="%Y-%m-%d" if time == DAY else "%Y-%m-%d %H:%M",
            ),
            alt.Tooltip(field=_field(measure), type="quantitative", format=",.2~f"),
        ],
    }
    if color:
        encoded["color"] = alt.Color(field=color, type="nominal", title=_text(color))
        encoded["tooltip"].append(alt.Tooltip(field=color, type="nominal"))
    return _chart(shown, text).mark_line(point=len(shown) < 400).encode(**encoded).to_dict()


def to_date(rows: Rows, measure: str) -> list[dict[str, Any]]:
    """Net changes of days added up: what each value comes to at each day that changed any."""
    days = sorted({row[DAY] for row in rows if row[DAY] is not None})
    values = list(dict.fromkeys(row["value"] for row in rows))
    changed: dict[Any, dict[Any, Any]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        changed[row["value"]][row[DAY]] += row[measure] or 0
    found = []
    for value in values:
        total = changed[value].pop(None, 0)  # what has no day was there before all days
        for day in days:
            total += changed[value].get(day, 0)
            found.append({DAY: day, "value": value, measure: total})
    return found


def of_count(counted: Counted, rows: Rows) -> list[tuple[str, dict[str, Any]]]:
    """Title -> spec of the charts of one counted table."""
    found = []
    if counted.grains:
        for grain in counted.grains:
            of_grain = [row for row in rows if row["grain"] == grain and not row["dimension"]]
            for measure in counted.measures if of_grain else ():
                title = f"{_text(measure)} by {grain}"
                found.append((title, curve(of_grain, "window_start", measure, None, title)))
        for name in counted.sets or {}:
            of_set = [row for row in rows if row["dimension"] == name]
            for measure in counted.measures if of_set else ():
                title = f"{_text(measure)} by day and {_text(name)}"
                found.append((title, curve(of_set, "window_start", measure, "value", title)))
        return found
    label = " / ".join(_text(name) for name in counted.dimensions) or "all"
    if counted.has_days:
        for measure in counted.measures if rows else ():
            title = f"{_text(measure)} over the days, by {label}"
            found.append((title, curve(to_date(rows, measure), DAY, measure, "value", title)))
        return found
    measures = [*counted.measures, *(f"{name}s" for name in counted.ids)]
    for measure in measures if rows else ():
        title = f"{_text(measure)} to date, by {label}"
        found.append((title, bars(rows, "value", measure, title)))
    return found
