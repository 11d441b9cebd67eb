"""Snapshots of a MongoDB collection whose changes have the documents before them."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.typed_model import Model

pytestmark = pytest.mark.in_turn

T = 1772416800
Document = dict[str, Any]


def document(key: int, state: str, **rest: Any) -> Document:
    return {"_id": key, "state": state, "amount": 1} | rest


def message(second: int, op: str, after: Document | None, before: Document | None = None) -> str:
    """Debezium's message of a change or of a row of a snapshot, op r."""
    place = {"db": "shop", "collection": "o", "ts_ms": (T + second) * 1000, "ord": 1}
    made: dict[str, Any] = {"op": op, "source": place}
    if after is not None:
        made["after"] = json.dumps(after)
    if before is not None:
        made["before"] = json.dumps(before)
    if op == "u":
        made["updateDescription"] = {"updatedFields": "{}"}
        if after is not None and before is not None:
            changed = {name: after[name] for name in after if after[name] != before[name]}
            made["updateDescription"]["updatedFields"] = json.dumps(changed)
    return json.dumps(made)


NEW, PAID, OLD = document(1, "new"), document(1, "paid"), document(2, "old")
SENT = document(2, "sent")
KEPT = document(3, "kept", note="n")
LOG = [
    message(10, "c", NEW),
    message(11, "u", PAID, NEW),
    message(12, "u", SENT, OLD),  # of a document that is older than the log
    message(13, "d", None, document(4, "gone")),
]
FIRST = [message(5, "r", loaded) for loaded in (OLD, KEPT, document(4, "gone"))]
SECOND = [message(20, "r", loaded) for loaded in (PAID, SENT, KEPT)]
HELD = Counter({(1, "paid", Decimal(1)): 1, (2, "sent", Decimal(1)): 1, (3, "kept", Decimal(1)): 1})


def model(spark: SparkSession) -> Model:
    made = Model(spark, "mongodb", ["id"])
    made.meta["source"] |= {"aliases": {"id": "_id"}, "options": {"pre_images": "required"}}
    return made


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), None])
def test_each_document_counts_once(spark: SparkSession, order: tuple[int, ...] | None) -> None:
    parts = [FIRST, LOG, SECOND]
    of, offset = model(spark), 0
    for part in [[*FIRST, *LOG, *SECOND]] if order is None else [parts[n] for n in order]:
        of.take(dict(enumerate(part, offset)))
        offset += len(part)
    assert of.held() == HELD
    loaded = [row for row in of.rows if row.metadata_op_type == "snapshot" and row.id == 3]
    assert [(row.op_type, row.document_rest) for row in loaded] == [("insert", '{"note":"n"}')]
