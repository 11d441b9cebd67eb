"""How Spark evaluates what a model reads: compiling a query for few rows takes longer than to
evaluate its expressions over them as they stand. The rows are the same: Spark's own tests run each
query both ways."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.read_plans import ReadPlan
from dbt.adapters.sparksession.session import is_remote

FEW_ROWS = 100_000  # of all inputs of a model, as far as it reads them; or below a data test
# of the model's own table: a strategy may read it, a compaction does
FEW_OWN_ROWS = 1_000_000
UNCOMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def are_few(rows: int) -> bool:
    """Whether a query over so many rows is evaluated sooner than it is compiled."""
    return rows <= FEW_ROWS


def reads_few(plan: ReadPlan) -> bool:
    """Whether a model adds to rows of its own, which aren't many, and reads few for that."""
    if plan.own is None or plan.rebuilds or plan.unpinned:
        return False
    own = plan.own.history.rows
    if own is None or own > FEW_OWN_ROWS:
        return False
    rows = [read.rows for read in plan.reads.values()]
    return None not in rows and are_few(sum(row or 0 for row in rows))


def leave_uncompiled(session: Foreign) -> None:
    """Let a session evaluate its queries without compiling them, until it is reset."""
    if not is_remote(session):
        for key, value in UNCOMPILED.items():
            session.conf.set(key, value)


def compile_again(session: Foreign) -> None:
    """Let a session compile its queries again."""
    if not is_remote(session):
        for key in UNCOMPILED:
            session.conf.unset(key)


def choose_evaluation(session: Foreign, plan: ReadPlan) -> None:
    """Let a session evaluate or compile the queries of a model, until the session is reset."""
    if reads_few(plan):
        leave_uncompiled(session)
    else:
        compile_again(session)
