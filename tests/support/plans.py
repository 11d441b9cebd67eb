"""What Spark planned for a query, and what its scans opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.bench_history import FILES, METRICS


@contextmanager
def settings(session: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Within it the session has these settings."""
    before = {key: session.conf.get(key, None) for key in values}
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


def ran(session: SparkSession, sql: str) -> tuple[list[Any], list[Any]]:
    """Rows of a query, and the nodes of the plan that it ended with."""
    frame = session.sql(sql)
    rows = frame.collect()
    return rows, list(nodes(frame))


def nodes(frame: Any) -> Iterator[Any]:
    """All nodes of a DataFrame's physical plan, as Java objects; of a command its query's too."""
    open_ends = [frame._jdf.queryExecution().executedPlan()]
    while open_ends:
        node = open_ends.pop()
        yield node
        kind = node.nodeName()
        if kind == "AdaptiveSparkPlan":
            open_ends.append(node.executedPlan())
        elif kind.endswith("QueryStage"):
            open_ends.append(node.plan())
        elif kind == "CommandResult":
            open_ends.append(node.commandPhysicalPlan())
        children = node.children()
        open_ends += [children.apply(index) for index in range(children.size())]


def shuffles(plan: list[Any]) -> list[str]:
    """The exchanges of rows in a plan, outermost first."""
    return [operator.nodeName() for operator in plan if "Exchange" in operator.nodeName()]


def opened_files(plan: list[Any]) -> int:
    """Data files that Iceberg planned for the scans of a plan that ran."""
    found = 0
    for node in plan:
        if node.nodeName().startswith("BatchScan"):
            metrics = node.metrics().valuesIterator()
            while metrics.hasNext():
                metric = metrics.next()
                if METRICS.get(metric.name().getOrElse(None)) == FILES:
                    found += metric.value()
    return found
