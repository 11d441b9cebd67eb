"""Changes of PostgreSQL, which their lsn and their row's key identify, whatever their images."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.typed.rows import OTHER_CHANGE
from tests.support.typed_model import Model

pytestmark = pytest.mark.in_turn

COPIED = 100  # the lsn of rows that a COPY wrote
TS = 1772416800000
Image = dict[str, Any]


def image(number: int, amount: str) -> Image:
    return {"id": number, "state": "paid", "amount": amount}


def change(lsn: int, before: Image | None, after: Image | None) -> str:
    """Debezium's message of a change of a row."""
    op = "c" if before is None else "d" if after is None else "u"
    place = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "o"}
    place |= {"ts_ms": TS, "snapshot": "false", "lsn": lsn, "txId": 7}
    return json.dumps({"before": before, "after": after, "op": op, "source": place})


ROW, RAISED = image(1, "10.00"), image(1, "20.00")
LIVE_LOG = {
    0: change(COPIED, None, ROW),
    1: change(COPIED, None, image(2, "5.00")),
    2: change(200, ROW, RAISED),
}
# the raise was to 25
CORRECTION = {0: change(200, ROW, image(1, "25.00"))}


def model(spark: SparkSession, **source: Any) -> Model:
    made = Model(spark, "debezium", ["id"])
    made.meta["source"] |= {"table": "public.o", "options": {"decimal.handling.mode": "string"}}
    made.meta["source"] |= source
    return made


def amounts(of: Model) -> dict[int, Decimal]:
    """Key -> the amount that the changes add up to."""
    found: dict[int, Decimal] = {}
    for (number, _, amount), times in of.held().items():
        found[number] = found.get(number, Decimal(0)) + amount * times
    return found


def reasons(of: Model) -> dict[int, str]:
    """Offset -> reason of what the table refuses."""
    return {row.message_offset: row.reject_reason for row in of.rows if row.reject_reason}


def test_a_batch_takes_the_place_of_the_change_that_it_corrects(spark: SparkSession) -> None:
    corrected = {1: Decimal("25.00"), 2: Decimal("5.00")}
    later = model(spark)
    later.take(LIVE_LOG)
    later.take(CORRECTION, batch="fix")
    assert amounts(later) == corrected
    # the log brings the change again as it was
    later.take({3: LIVE_LOG[2]})
    assert amounts(later) == corrected

    first = model(spark)
    first.batches = ["live", "fix"]
    first.take(CORRECTION, batch="fix")
    first.take(LIVE_LOG)
    assert amounts(first) == corrected

    together = model(spark)
    together.take_all({"live": LIVE_LOG, "fix": CORRECTION})
    assert amounts(together) == corrected
    assert {row.unique_key for row in together.rows} == {row.unique_key for row in later.rows}


def test_other_images_of_a_change_that_was_taken_are_refused(spark: SparkSession) -> None:
    of_two_runs = model(spark)
    of_two_runs.take(LIVE_LOG)
    of_two_runs.take({3: CORRECTION[0]})
    of_a_run = model(spark)
    of_a_run.take(LIVE_LOG | {3: CORRECTION[0]})
    for of in (of_two_runs, of_a_run):
        assert reasons(of) == {3: OTHER_CHANGE}
        assert sorted(row.amount for row in of.rows if row.amount is not None) == [
            Decimal("5.00"),
            Decimal("10.00"),
            Decimal("20.00"),
        ]


def test_another_cluster_is_read_as_the_first(spark: SparkSession) -> None:
    """Its lsns aren't judged as places in a binlog, and a delete that holds the key alone is
    refused."""
    declared = [{"offsets": {"t": {0: 3}}}]
    other = model(spark, log_resets=declared)
    other.take(LIVE_LOG)
    # of transactions that are open at once the log has one behind the other, whatever their lsns
    lsns = [*range(500, 511), 450]
    rows = {3 + n: change(lsn, None, image(10 + n, "1.00")) for n, lsn in enumerate(lsns)}
    rows = {n: text.replace(str(TS), str(TS + n * 86_400_000)) for n, text in rows.items()}
    of_key = {"id": 2, "state": None, "amount": None}
    other.take(rows | {15: change(600, of_key, None)})
    assert reasons(other) == {15: "`before` holds the key alone"}
