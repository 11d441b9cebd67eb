"""Data tests that the metrics of a table's files answer, without a query."""

from __future__ import annotations

import re

from dbt.adapters.sparksession.edges import Foreign, Node, Settings
from dbt.adapters.sparksession.iceberg.metadata import is_null_free
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.clients.agate_helper import table_from_rows
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

TABLE = r"`?\w+`?\.`?\w+`?"
# the whole query of dbt's own test not_null, as it is without `limit`
NULLS = re.compile(
    rf"\s*select (?P<column>\w+)\s+from (?:(?P<table>{TABLE})"
    rf"|\(select \* from (?P<filtered>{TABLE}) where (?P<where>.+)\) dbt_subquery)"
    r"\s+where (?P=column) is null\s*",
    re.DOTALL,
)
# words by which a `where` could bring rows that its table doesn't hold
OTHER_ROWS = re.compile(r"(?i)\b(?:union|intersect|except|minus|select|from|join|values)\b")
DEFAULTS = {"fail_calc": "count(*)", "warn_if": "!= 0", "error_if": "!= 0", "limit": None}
BY_COUNT = ("fail_calc", "warn_if")  # of them those by which a test could pass in spite of failures


def column_without_nulls(sql: str) -> tuple[str, str] | None:
    """The table (schema.name) and the column of which a query wants the rows with a null, all or
    some of them; None of another query.

    >>> column_without_nulls("select id\\nfrom dw.`orders`\\nwhere id is null")
    ('dw.orders', 'id')
    >>> filtered = "(select * from dw.orders where day > 3) dbt_subquery"
    >>> column_without_nulls(f"select id from {filtered} where id is null")
    ('dw.orders', 'id')
    >>> column_without_nulls("select id from dw.orders where id is null and day > 3")
    """
    found = NULLS.fullmatch(sql)
    if found is None:
        return None
    where = found["where"] or ""
    if OTHER_ROWS.search(where) or not _closes_what_it_opens(where):
        return None
    table = found["table"] or found["filtered"]
    return table.replace("`", ""), found["column"]


def _closes_what_it_opens(where: str) -> bool:
    """Whether each closing parenthesis of a text has one that opens before it."""
    opened = 0
    for sign in where:
        opened += (sign == "(") - (sign == ")")
        if opened < 0:
            return False
    return opened == 0


def counts_failures(config: Settings) -> bool:
    """Whether a data test with a config passes where its query gives no row, and fails, or warns,
    elsewhere: it has no other measure and no other bounds."""
    return all(config.get(name, own) == own for name, own in DEFAULTS.items())


def passes_on_none_alone(config: Settings) -> bool:
    """Whether a data test with a config passes only where its query gives no row."""
    return all(config.get(name, DEFAULTS[name]) == DEFAULTS[name] for name in BY_COUNT)


def result_of_test(failures: int) -> Foreign:
    """What a data test found, as dbt takes it from a query: a table of one row.

    Args:
        failures: rows that it found; those of a test that passed or warned.
    """
    return table_from_rows(
        [(failures, failures > 0, False)], ["failures", "should_warn", "should_error"]
    )


class FileMetrics:
    """What Iceberg's metrics of data files answer."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def known_result(self, model: Node, sql: str) -> Foreign:
        """What a data test finds, as dbt takes it, where the metrics of a table's files prove that
        it finds no row; None of other tests.

        Args:
            model: the test's node.
            sql: its own query.
        """
        asked = column_without_nulls(sql)
        config = model["config"]
        if asked is None or not counts_failures(config):
            return None
        table, column = asked
        try:
            found = self._warehouse.loaded(table)
            if found is None or not is_null_free(self._warehouse.session(), found, column):
                return None
            if config.get("where"):  # one that can't be asked is no proof
                self._warehouse.session().sql(sql)
        except (DbtRuntimeError, Py4JError, PySparkException):  # a view, say: the query finds out
            return None
        return result_of_test(0)
