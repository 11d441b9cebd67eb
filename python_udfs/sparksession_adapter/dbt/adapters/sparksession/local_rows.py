"""Few rows that Spark's driver holds by itself: a query over them alone is answered without a job,
and Spark plans by their number."""

from __future__ import annotations

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.session import is_remote

MOST_ROWS = 1_000
MOST_BYTES = 1 << 20


def as_local(rows: Foreign) -> tuple[Foreign, int] | None:
    """The rows of a frame that is a local checkpoint, as a frame that Spark's driver holds, and how
    many they are; None where they are many or large, or the session is remote.

    They are taken over as Spark stores them, so no value changes on the way.
    """
    session = rows.sparkSession
    if is_remote(session):
        return None
    plan, jvm = rows._jdf.queryExecution().logical(), session._jvm
    held = plan.rdd().toJavaRDD().take(MOST_ROWS + 1)
    count = len(held)
    if count > MOST_ROWS:
        return None
    if sum(row.getSizeInBytes() for row in held) > MOST_BYTES:
        return None
    local = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
        plan.output(), jvm.PythonUtils.toSeq(held), False, jvm.scala.Option.empty()
    )
    frame = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, local)
    return type(rows)(frame, session), count
