"""How Spark evaluates what a model reads: compiling a query for few rows takes longer than to
evaluate its expressions over them as they stand. The rows are the same: Spark's own tests run each
query both ways."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.inputs import ReadPlan
from dbt.adapters.sparksession.session import is_remote

FEW_ROWS = 100_000  # of all inputs of a model, as far as it reads them
UNCOMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def reads_few(plan: ReadPlan) -> bool:
    """Whether a model adds to its rows and reads few for that."""
    if plan.own is None or plan.own.history.head is None or plan.rebuilds or plan.unpinned:
        return False
    rows = [read.rows for read in plan.reads.values()]
    return None not in rows and sum(row or 0 for row in rows) <= FEW_ROWS


def leave_uncompiled(session: Foreign) -> None:
    """Let a session evaluate its queries without compiling them, until it is reset."""
    if not is_remote(session):
        for key, value in UNCOMPILED.items():
            session.conf.set(key, value)


def choose_evaluation(session: Foreign, plan: ReadPlan) -> None:
    """Let a session evaluate or compile the queries of a model, until the session is reset."""
    if reads_few(plan):
        leave_uncompiled(session)
    elif not is_remote(session):
        for key in UNCOMPILED:
            session.conf.unset(key)
