"""What a statement of Spark SQL reads by names, as Spark's parser shows it."""

from __future__ import annotations

import re
from functools import lru_cache

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.session import is_remote

# a relation on a line of a parsed plan; one that is read as of a snapshot stands behind other words
RELATION = re.compile(
    r"^[ :+|-]*'UnresolvedRelation \[(?P<name>.*?)\], \[(?P<options>.*?)\], (?:true|false)$",
    re.MULTILINE,
)
# the same of a relation as of a snapshot's number, a branch or tag, or a time
AS_OF = re.compile(
    r"^[ :+|-]*'RelationTimeTravel 'UnresolvedRelation \[(?P<name>.*?)\], \[.*?\], "
    r"(?:true|false), (?P<as_of>.*)$",
    re.MULTILINE,
)
# the same of a relation whose name is a value, as in identifier('dw.' || 'x')
BY_VALUE = re.compile(
    r"^[ :+|-]*(?P<as_of>'RelationTimeTravel )?'PlanWithUnresolvedIdentifier (?P<value>.*), "
    r"org\.apache\.spark\.[^ ]*(?:, (?P<tail>.*))?$",
    re.MULTILINE,
)
NAME = re.compile(r"[\w`]+(?:\.[\w`]+)*")
SNAPSHOT = re.compile(r"\d+")
MAIN = "main"  # Iceberg's branch of the rows that a table has

Named = set[tuple[str, ...]]  # names, part by part


def relations_named(session: Foreign, sql: str) -> Named:
    """Names, part by part, of what a statement reads as it is now, CTEs and temporary views among
    them. Nothing on a remote session, which has no parser here, and of what can't be parsed."""
    plan = _parsed_plan(session, sql)
    found = {
        tuple(match["name"].split(", "))
        for match in RELATION.finditer(plan)
        if not re.search(r"(?<![\w-])snapshot-id=", match["options"])
        and "end-snapshot-id=" not in match["options"]
    }
    found |= {
        tuple(match["name"].split(", ")) for match in AS_OF.finditer(plan) if match["as_of"] == MAIN
    }
    return found | {
        tuple(match["value"].replace("`", "").split("."))
        for match in BY_VALUE.finditer(plan)
        if not match["as_of"] and NAME.fullmatch(match["value"])
    }


def moving_reads(session: Foreign, sql: str) -> dict[str, tuple[str, ...]]:
    """What a statement reads past the rows that a table has now and that may be another thing in
    the next run: a branch or tag, the rows of a time, a relation whose name is a value.

    Returns:
        How the plan shows it -> name of the relation, part by part; () where only Spark knows it.
    """
    plan = _parsed_plan(session, sql)
    found: dict[str, tuple[str, ...]] = {}
    for match in AS_OF.finditer(plan):
        parts, as_of = tuple(match["name"].split(", ")), match["as_of"]
        if as_of != MAIN and not SNAPSHOT.fullmatch(as_of):
            found[f"{'.'.join(parts)} as of {as_of}"] = parts
    for match in BY_VALUE.finditer(plan):
        if match["as_of"] or not NAME.fullmatch(match["value"]):
            found[f"identifier({match['value']})"] = ()
    return found


@lru_cache(maxsize=4)  # a statement is asked for both, one behind the other
def _parsed_plan(session: Foreign, sql: str) -> str:
    """A statement's parsed plan as a text; "" where there is none."""
    if is_remote(session):
        return ""
    parser = session._jsparkSession.sessionState().sqlParser()
    try:
        plan: str = parser.parsePlan(sql).treeString()
    except Exception:  # Spark reports the error where the SQL is run
        return ""
    return plan
