"""Whether a statement only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dbt.adapters.sparksession.session import is_remote
from dbt.adapters.sparksession.sql_texts import QUOTED

FIRST_WORD = re.compile(r"[\s(]*+(\w++)")
READING_WORDS = frozenset(
    {"select", "with", "from", "values", "table", "show", "describe", "desc", "explain", "use"}
)
WRITING_WORD = re.compile(r"\b(?:insert|call)\b", re.IGNORECASE)
# commands of Spark that change the shell's own schema alone, by the names of their classes
READING_COMMANDS = ("Show", "Describe", "SetCatalogAndNamespace", "SetNamespaceCommand")
PLANS = "org.apache.spark.sql.catalyst.plans.logical."
WRITING_PLANS = ("Command", "ParsedStatement", "UnaryParsedStatement", "CompoundPlanStatement")
PROCEDURES = ("Call", "CallStatement", "IcebergCall")  # of which explain may run a part
REFUSAL = (
    "`make sql` only reads: it takes queries, show, describe, explain and use, got {got!r}. Tables "
    "are written by models: dbt run."
)


class WritingError(Exception):
    """A statement that may change something, in a sentence."""


def check_reads(session: Any, statement: str) -> None:
    """Refuse what isn't known to read only.

    Args:
        session: of Spark. In this process it parses the statement; a remote session can't, and the
            words of the statement have to do.
        statement: one statement.

    Raises:
        WritingError: it may change something.
        ParseException: Spark can't parse it.
    """
    first = FIRST_WORD.match(statement)
    word = first[1].lower() if first else statement[:20]
    if word not in READING_WORDS:
        raise WritingError(REFUSAL.format(got=word))
    if is_remote(session):
        found = WRITING_WORD.search(re.sub(QUOTED, "''", statement, flags=re.DOTALL))
        if found:
            raise WritingError(REFUSAL.format(got=found[0].lower()))
        return
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    if plan.getClass().getSimpleName() == "ExplainCommand":
        plan = plan.logicalPlan()
    if plan.getClass().getSimpleName().startswith(READING_COMMANDS):
        return
    writing = [session._jvm.java.lang.Class.forName(PLANS + name) for name in WRITING_PLANS]
    for node in _nodes(plan):
        name = node.getClass().getSimpleName()
        if name in PROCEDURES or any(kind.isInstance(node) for kind in writing):
            raise WritingError(REFUSAL.format(got=name))


def _nodes(plan: Any) -> Iterator[Any]:
    """A parsed plan and all below it but its named queries, in which Spark takes only queries."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
