"""Functions and variables that statements of a hook or a `sql_header` have made in a session: what
they give may be made of a table, and no query shows of which. And the time zone that they set."""

from __future__ import annotations

import re

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.session import is_remote

WORD = re.compile(r"\w++")
ZONE = "spark.sql.session.timeZone"
UTC_NAMES = ("UTC", "ETC/UTC")
VARIABLES = "variables of its session"
# a statement that makes some
MAKES_VALUES = re.compile(r"\b(?:function|declare|set\s++var(?:iable)?)\b", re.IGNORECASE)


def values_asked(session: Foreign, sql: str) -> list[str]:
    """Functions of a session that a statement names, and its variables where it has any, which the
    statement may name. Nothing on a remote session, which doesn't show them."""
    if is_remote(session):
        return []
    words = {word.lower() for word in WORD.findall(sql)}
    found = [name for name in _functions(session) if name.lower() in words]
    return found if _variables(session).isEmpty() else [*found, VARIABLES]


def forget_values(session: Foreign) -> None:
    """Let a session have none of them any more."""
    if is_remote(session):
        return
    for name in _functions(session):
        session._jsparkSession.sessionState().catalog().dropTempFunction(name, True)
    _variables(session).clear()


def zone_of(session: Foreign) -> str:
    """The time zone in which a session shows times and reads texts."""
    return str(session.conf.get(ZONE))


def _functions(session: Foreign) -> list[str]:
    found = session._jsparkSession.sessionState().catalog().listTemporaryFunctions()
    return [found.apply(index).funcName() for index in range(found.size())]


def _variables(session: Foreign) -> Foreign:
    return session._jsparkSession.sessionState().catalogManager().tempVariableManager()
