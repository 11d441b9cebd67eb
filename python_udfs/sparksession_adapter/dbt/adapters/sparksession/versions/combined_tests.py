"""Data tests of one relation that one query answers: most of what a test of few rows costs is its
query's planning and start."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.sparksession.edges import Context, Node
from dbt.adapters.sparksession.reading.file_metrics import counts_failures
from dbt.adapters.sparksession.versions.nodes import tests_of_run
from dbt.adapters.sparksession.warehouse import Warehouse
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# by which meta a generic test states its failures: a condition of a row; {group_by: [..],
# condition: ..} of a group of rows
FAILS_WHERE, FAILS_HAVING = "fails_where", "fails_having"
LEAST_TESTS = 2  # of one relation
# dbt's own tests as they are without `where`: the whole query, and what makes a failure
OF_DBT = {
    "not_null": ("select {column} from {rows} where {column} is null", "{column} is null"),
    "accepted_values": (
        "with all_values as ( select {column} as value_field, count(*) as n_records from {rows} "
        "group by {column} ) select * from all_values where value_field not in ( {values} )",
        "{column} not in ({values})",
    ),
    "unique": (
        "select {column} as unique_field, count(*) as n_records from {rows} "
        "where {column} is not null group by {column} having count(*) > 1",
        "{column} is not null and count(*) > 1",
    ),
}


@dataclass(frozen=True)
class Sought:
    """What a data test looks for.

    Attributes:
        group: columns that the rows of a failure share; none where each row fails by itself.
        condition: SQL condition of a failure, on one row, or on the rows of a group.
        query: the test's own query where that is known, its white space as single spaces.
    """

    group: tuple[str, ...]
    condition: str
    query: str | None = None


@dataclass
class Together:
    """Data tests of one relation that one query answers.

    Attributes:
        tests: id of each -> what it looks for.
        text: pinned query of the rows that the query was asked over; None before.
        passed: ids of those that find nothing in these rows.
    """

    tests: Mapping[str, Sought]
    lock: threading.Lock = field(default_factory=threading.Lock)
    text: str | None = None
    passed: frozenset[str] = frozenset()


def sought(test: Node, relation: str) -> Sought | None:
    """What a data test looks for in the rows of one relation; None where it isn't known, or depends
    on more than its rows.

    Args:
        relation: the relation as the test's query names it.
    """
    config = test["config"]
    meta, where = config.get("meta") or {}, config.get("where")
    if not counts_failures(config) or config.get("store_failures") or config.get("sql_header"):
        return None
    if where and "{" in where:  # dbt has rendered it in the test's query alone
        return None
    if FAILS_WHERE in meta:
        found = Sought((), str(meta[FAILS_WHERE]))
    elif FAILS_HAVING in meta:
        # fails_within may be stated otherwise in YAML, for the rows that a run touched
        stated = meta[FAILS_HAVING]
        found = Sought(tuple(stated["group_by"]), str(stated["condition"]))
    else:
        rows = f"(select * from {relation} where {where}) dbt_subquery" if where else relation
        known = _of_dbt(test, rows)
        if known is None:
            return None
        found = known
    if not where:
        return found
    # the rows of a group can't be left out by a condition on the group
    return None if found.group else Sought((), f"({where}) and ({found.condition})", found.query)


def _of_dbt(test: Node, rows: str) -> Sought | None:
    """What one of dbt's own tests looks for in some rows; None of another test."""
    metadata = test.get("test_metadata") or {}
    texts = OF_DBT.get(metadata.get("name", ""))
    if texts is None or metadata.get("namespace") is not None:
        return None
    arguments = metadata["kwargs"]
    column = str(arguments["column_name"])
    quote = "'" if arguments.get("quote", True) else ""
    values = ",".join(f"{quote}{value}{quote}" for value in arguments.get("values", ()))
    query, condition = (text.format(column=column, rows=rows, values=values) for text in texts)
    group = (column,) if metadata["name"] == "unique" else ()
    return Sought(group, condition, _on_one_line(query))


def _on_one_line(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).strip()


def combined(tests: Mapping[str, Sought]) -> dict[str, Sought]:
    """Those of some data tests of a relation that one query answers: all that look at single rows,
    and those that group the rows in one way, that of most of them."""
    groups = Counter(test.group for test in tests.values() if test.group)
    group = max(groups, key=lambda columns: (groups[columns], columns), default=())
    return {name: test for name, test in tests.items() if test.group in ((), group)}


def query_of(tests: Sequence[Sought], relation: str) -> str:
    """SQL of a single row: of each test that `combined` gave, whether it finds a failure.

    >>> print(query_of([Sought((), "id is null"), Sought(("id",), "count(*) > 1")], "dw.a"))
    select coalesce(bool_or(fails_0), false),
    coalesce(bool_or(fails_1), false)
    from (
    select bool_or(id is null) as fails_0,
    (count(*) > 1) as fails_1
    from dw.a
    group by id
    )
    """
    group = next((test.group for test in tests if test.group), ())
    of_rows = "bool_or({})" if group else "({})"
    found = [
        f"{('({})' if test.group else of_rows).format(test.condition)} as fails_{place}"
        for place, test in enumerate(tests)
    ]
    answers = [f"coalesce(bool_or(fails_{place}), false)" for place in range(len(tests))]
    by = f"group by {', '.join(group)}\n" if group else ""
    inner = "select " + ",\n".join(found) + f"\nfrom {relation}\n{by}"
    return "select " + ",\n".join(answers) + f"\nfrom (\n{inner})"


class CombinedTests:
    """Answers data tests of one relation together."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._together: dict[str, Together] | None = None

    def passes(
        self,
        test: Node,
        sql: str,
        parent: Node,
        text: str,
        context: Context,
        over: Callable[[str], str],
    ) -> bool:
        """Whether a query that answers several data tests proves that a test finds nothing.

        Args:
            sql: the test's own query.
            parent: node of the only relation that it reads.
            text: pinned query of the relation's rows.
            over: takes a query over the relation; gives the query to ask.
        """
        together = self._of_run(context).get(parent["unique_id"])
        asked = together.tests.get(test["unique_id"]) if together else None
        if together is None or asked is None:
            return False
        if asked.query is not None and asked.query != _on_one_line(sql):
            return False
        with together.lock:
            if together.text is None:
                together.passed = self._ask(together.tests, parent, over)
                together.text = text
            return together.text == text and test["unique_id"] in together.passed

    def _ask(
        self, tests: Mapping[str, Sought], parent: Node, over: Callable[[str], str]
    ) -> frozenset[str]:
        relation = self._warehouse.relation_of_node(parent).render()
        query = over(query_of(list(tests.values()), relation))
        try:
            (row,) = self._warehouse.session().sql(query).collect()
        except (PySparkException, Py4JError):
            # the condition of any may be at fault: each asks by itself
            return frozenset()
        return frozenset(name for name, fails in zip(tests, row, strict=True) if not fails)

    def _of_run(self, context: Context) -> Mapping[str, Together]:
        """Relations of which several of the run's data tests can be answered together, by id."""
        with self._lock:
            if self._together is None:
                found = {name: combined(tests) for name, tests in self._sought(context).items()}
                self._together = {
                    name: Together(tests)
                    for name, tests in found.items()
                    if len(tests) >= LEAST_TESTS
                }
            return self._together

    def _sought(self, context: Context) -> Mapping[str, dict[str, Sought]]:
        """What the run's data tests of one relation each look for, by the relation's id."""
        nodes = context["graph"]["nodes"]
        found: dict[str, dict[str, Sought]] = {}
        for test in tests_of_run(context):
            parents = [nodes.get(parent) for parent in test["depends_on"]["nodes"]]
            if len(parents) != 1 or parents[0] is None:
                continue
            (parent,) = parents
            looked_for = sought(test, self._warehouse.relation_of_node(parent).render())
            if looked_for is not None:
                found.setdefault(parent["unique_id"], {})[test["unique_id"]] = looked_for
        return found
