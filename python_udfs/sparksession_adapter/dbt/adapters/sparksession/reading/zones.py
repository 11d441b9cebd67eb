"""The time zone that a model's own statements set: what was asked before it, and views whose rows
go by it."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign, Node
from dbt.adapters.sparksession.reading.view_marks import compiled_readings, statement_of
from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.session_values import UTC_NAMES, ZONE, zone_of
from dbt_common.exceptions import CompilationError

OF_SESSIONS = "UTC"  # what a session's zone is before a model sets another
REMEDY = (
    "take that statement out, and convert times by from_utc_timestamp(..), or by a window macro's "
    "argument zone."
)


def check_zone(session: Foreign, model: Node, asked_in: str | None) -> None:
    """Look at the zone of a session behind the statements that a model runs before its query.

    Args:
        asked_in: the zone in which the model's macros asked for rows, or cut windows; None where
            they did neither.

    Raises:
        CompilationError: they asked in another, or the model would see other rows of a view than
            all who read the view.
    """
    zone = zone_of(session)
    if asked_in is not None and zone != asked_in:
        raise CompilationError(
            f"{model['name']}: its sql_header or pre_hook sets the time zone {zone}, but its "
            "macros cut windows and ask for rows before these statements run, in "
            f"{asked_in}, so that rows would be lost or doubled; {REMEDY}"
        )
    if zone.upper() in UTC_NAMES or model["language"] != "sql":
        return
    for name, query in compiled_readings.marked_in(model["compiled_code"]):
        if _goes_by_zone(session, statement_of(query), zone):
            raise CompilationError(
                f"{model['name']}: its sql_header or pre_hook sets the time zone {zone}, and the "
                f"rows of {name}, which it reads, go by the zone: it would have others than {name} "
                f"shows, whose days and times are of {OF_SESSIONS}; {REMEDY}"
            )


def _goes_by_zone(session: Foreign, query: str, zone: str) -> bool:
    """Whether Spark makes another plan of a query in a zone than in UTC. A remote session makes its
    plans later, in the zone that it has by then."""
    if is_remote(session):
        return False
    in_zone = session.sql(query)
    session.conf.set(ZONE, OF_SESSIONS)
    try:
        in_utc = session.sql(query)
    finally:
        session.conf.set(ZONE, zone)
    return not in_zone.sameSemantics(in_utc)
