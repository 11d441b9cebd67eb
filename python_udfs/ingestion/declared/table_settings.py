"""Settings of a typed table beside its source: where they come from, and whether they can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, StrictStr

from python_udfs.ingestion.declared.fields import Fields

# what a table may set in its own meta; else `meta.table_defaults` of the log's model counts
SETTINGS = ("business_zone", "cut_time_max_ahead_hours", "batches")
OFFSET = re.compile(r"[+-](?:(?:0\d|1[0-7]):[0-5]\d|18:00)")
# of Python's zones those that Java doesn't have
OF_PYTHON = re.compile(r"(?:localtime|posixrules|Factory|posix/.*|right/.*)")


def table_settings(own: Mapping[str, Any], of_log: Mapping[str, Any]) -> dict[str, Any]:
    """Each of SETTINGS that the table or the log's model sets.

    Args:
        own, of_log: config meta of the table's model and of the log's.
    """
    given = dict(of_log.get("table_defaults") or {}) | dict(own)
    return {name: given[name] for name in SETTINGS if given.get(name) is not None}


def _zone(value: Any) -> str:
    if not _is_zone(str(value)):
        raise ValueError("no zone")
    return str(value)


class TableSettings(Fields):
    """The settings of a table, each judged by itself."""

    business_zone: Annotated[
        str | None, BeforeValidator(_zone), Field(description="be a zone's name or an offset")
    ] = None
    cut_time_max_ahead_hours: Annotated[
        str | None,
        BeforeValidator(str),
        Field(description="be a whole number", pattern="^[0-9]{1,6}$"),
    ] = None
    batches: Annotated[
        list[StrictStr] | None, Field(description="be a list of names", min_length=1, strict=True)
    ] = None


def settings_problem(model: str, settings: Mapping[str, Any]) -> str | None:
    """Error text for a table's settings, one sentence with all problems; None without any."""
    problems = [
        f"`{name}` is set neither in its meta nor in meta.table_defaults of the log's model"
        for name in SETTINGS
        if name not in settings
    ]
    given = {name: settings.get(name) for name in SETTINGS}
    _, wrong = TableSettings.read(
        {name: value for name, value in given.items() if value is not None}
    )
    problems += wrong
    if not problems:
        return None
    return (
        f"{model}: {'; '.join(problems)}. Example: business_zone: '+08:00', "
        "cut_time_max_ahead_hours: 24, batches: [live]"
    )


def _is_zone(name: str) -> bool:
    if OFFSET.fullmatch(name):
        return True
    if OF_PYTHON.fullmatch(name):
        return False
    try:
        ZoneInfo(name)
    except Exception:  # it may be any text
        return False
    return True
