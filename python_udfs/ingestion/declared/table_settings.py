"""Settings of a typed table beside its source: where they come from, and whether they can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

# what a table may set in its own meta; else it is as `meta.table_defaults` of the log's model says
SETTINGS = ("business_zone", "cut_time_max_ahead_hours", "batches")
OFFSET = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")


def table_settings(own: Mapping[str, Any], of_log: Mapping[str, Any]) -> dict[str, Any]:
    """Each of SETTINGS that the table or the log's model says.

    Args:
        own, of_log: config meta of the table's model and of the log's.
    """
    given = dict(of_log.get("table_defaults") or {}) | dict(own)
    return {name: given[name] for name in SETTINGS if given.get(name) is not None}


def settings_problem(model: str, settings: Mapping[str, Any]) -> str | None:
    """What is wrong with a table's settings, as one sentence; None: nothing."""
    problems = [
        f"`{name}` is set neither in its meta nor in meta.table_defaults of the log's model"
        for name in SETTINGS
        if name not in settings
    ]
    zone = settings.get("business_zone")
    if zone is not None and not _is_zone(str(zone)):
        problems.append(f"`business_zone` must be a zone's name or an offset, got {zone!r}")
    hours = settings.get("cut_time_max_ahead_hours")
    if hours is not None and not re.fullmatch("[0-9]{1,6}", str(hours)):
        problems.append(f"`cut_time_max_ahead_hours` must be a whole number, got {hours!r}")
    batches = settings.get("batches")
    is_list = isinstance(batches, list) and all(isinstance(one, str) for one in batches)
    if batches is not None and (not is_list or not batches):
        problems.append(f"`batches` must be a list of names, got {batches!r}")
    if not problems:
        return None
    return (
        f"{model}: {'; '.join(problems)}. Example: business_zone: '+08:00', "
        "cut_time_max_ahead_hours: 24, batches: [live]"
    )


def _is_zone(name: str) -> bool:
    if OFFSET.fullmatch(name):
        return True
    try:
        ZoneInfo(name)
    except Exception:  # it may be any text
        return False
    return True
