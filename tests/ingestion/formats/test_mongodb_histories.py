"""Random histories of documents: the latest documents are those of the collection."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from python_udfs.ingestion.formats.mongodb import images
from tests.support.mongodb_events import (
    Message,
    T,
    debezium,
    declared,
    enveloped,
    key,
    stream,
    token,
)

# The latest document, folded from the rows

FOLD_COLUMNS = {
    "_id": "int",
    "status": "varchar(9)",
    "n": "bigint",
    "city": "varchar(9)",
    "tags": "json",
}
FOLD_META = {"primary_key": ["_id"], "aliases": {"city": "address.city"}}
FOLD = """
with changes as (
    select
        data._id as _id,
        op,
        data,
        known_columns,
        struct(binlog_position, row_number) as place
    from rows
),

columns_told as (
    select
        _id,
        max(place) as last,
        max_by(op, place) as last_op,
        -- a column is known by each row but updates of other columns only; a delete has
        -- that nothing is left
        {columns}
    from changes
    group by _id
)

select _id, {names} from columns_told where last_op <> 'delete'
"""


def fold_sql() -> str:
    names = [name for name in FOLD_COLUMNS if name != "_id"]
    reported = "op <> 'update' or known_columns is null or array_contains(known_columns, '{0}')"
    columns = [
        f"max_by(if(op = 'delete', null, data.{name}), place) "
        f"filter (where {reported.format(name)}) as {name}"
        for name in names
    ]
    return FOLD.format(columns=",\n        ".join(columns), names=", ".join(names))


class Collection:
    """A collection, in plain Python, that writes down its changes."""

    def __init__(self, rng: random.Random, debezium_s: bool, exact: bool) -> None:
        self.rng, self.debezium_s, self.exact = rng, debezium_s, exact
        self.documents: dict[int, dict[str, Any]] = {}
        self.log: list[Message] = []
        self.t, self.i, self.place = T, 0, 0
        self.in_transaction = 0
        self.pending: list[tuple[dict[str, Any], int]] = []

    def document(self, document_id: int) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {"_id": document_id}
        if rng.random() < 0.8:
            made["status"] = rng.choice(["new", "paid", None])
        if rng.random() < 0.8:
            made["n"] = rng.randint(0, 9)
        if rng.random() < 0.7:
            made["address"] = {"city": rng.choice("ABC"), "zip": rng.choice("12")}
        if rng.random() < 0.5:
            made["tags"] = [rng.randint(0, 3) for _ in range(rng.randint(0, 2))]
        return made | {"other": rng.randint(0, 9)}

    def change(self) -> None:
        rng = self.rng
        document_id = rng.randint(1, 6)
        present = self.documents.get(document_id)
        if present is None:
            self.documents[document_id] = self.document(document_id)
            self.write("insert", document_id, fullDocument=self.copy(document_id))
        elif rng.random() < 0.15:
            del self.documents[document_id]
            before = {"fullDocumentBeforeChange": present} if rng.random() < 0.3 else {}
            self.write("delete", document_id, **before)
        elif rng.random() < 0.2:
            self.documents[document_id] = self.document(document_id)
            self.write("replace", document_id, fullDocument=self.copy(document_id))
        else:
            self.update(document_id, present)

    def copy(self, document_id: int) -> dict[str, Any]:
        return json.loads(json.dumps(self.documents[document_id]))

    def update(self, document_id: int, present: dict[str, Any]) -> None:
        rng = self.rng
        updated: dict[str, Any] = {}
        removed: list[str] = []
        for name in rng.sample(["status", "n", "address", "tags", "other"], rng.randint(1, 3)):
            if name in present and rng.random() < 0.25:
                del present[name]
                removed.append(name)
            elif name == "address" and name in present and rng.random() < 0.7:
                part = rng.choice(["city", "zip"])
                if part in present[name] and rng.random() < 0.3:
                    del present[name][part]
                    removed.append(f"address.{part}")
                else:
                    present[name][part] = rng.choice("DEF")
                    updated[f"address.{part}"] = present[name][part]
            else:
                fresh = self.document(0)
                if name in fresh:
                    present[name] = updated[name] = fresh[name]
        patch = {"updatedFields": json.loads(json.dumps(updated)), "removedFields": removed}
        fields: dict[str, Any] = {"updateDescription": patch}
        if self.exact:
            fields["fullDocument"] = self.copy(document_id)
        elif rng.random() < 0.5:  # looked up: anything that comes later
            fields["fullDocument"] = self.document(document_id)
        self.write("update", document_id, **fields)

    def write(self, kind: str, document_id: int, **fields: Any) -> None:
        rng = self.rng
        if self.in_transaction:
            self.in_transaction -= 1
            self.place += 1
        else:
            self.t, self.i = (self.t + 1, 1) if rng.random() < 0.2 else (self.t, self.i + 1)
            self.place, self.in_transaction = 0, rng.choice([0, 0, 3, 140])
            self.session = self.in_transaction
        if not self.debezium_s:
            data = token(self.t, self.i, self.place, f"{document_id:02X}")
            time = {"$timestamp": {"t": self.t, "i": self.i}}
            more = {"txnNumber": 1} if self.session else {}
            event = stream(
                kind,
                _id={"_data": data},
                clusterTime=time,
                documentKey={"_id": document_id},
                **more,
                **fields,
            )
            self.log.append(event)
            return
        origin = {"db": "shop", "collection": "o", "ts_ms": self.t * 1000, "ord": self.i}
        message: dict[str, Any] = {}
        if self.session:
            origin["txnNumber"] = 1
            message["transaction"] = {"total_order": self.place + 1}
        renamed = {"fullDocument": "after", "fullDocumentBeforeChange": "before"}
        message |= {renamed.get(name, name): field for name, field in fields.items()}
        op = {"insert": "c", "delete": "d"}.get(kind, "u")
        self.log.append((debezium(op, source=origin, **message), key(document_id)))

    def latest(self) -> dict[int, tuple]:
        return {
            document["_id"]: (
                document.get("status"),
                document.get("n"),
                document.get("address", {}).get("city"),
                json.dumps(document["tags"], separators=(",", ":")) if "tags" in document else None,
            )
            for document in self.documents.values()
        }


@pytest.mark.parametrize("debezium_s", [False, True])
@pytest.mark.parametrize("full_document", ["lookup", "required"])
def test_the_latest_documents_of_random_histories(spark, debezium_s, full_document):
    declaration = declared(FOLD_COLUMNS, full_document=full_document, **FOLD_META)
    for _ in range(2):
        seed = random.SystemRandom().randrange(10**6)
        print(f"seed {seed}")
        rng = random.Random(seed)
        collection = Collection(rng, debezium_s, exact=full_document == "required")
        for _ in range(rng.choice([3, 60, 120])):
            collection.change()
        sent = [*collection.log, *rng.sample(collection.log, len(collection.log) // 3)]
        rng.shuffle(sent)
        binlog = enveloped(spark, sent)
        rows = images(binlog.where("reject_reason is null"), declaration).localCheckpoint()
        assert rows.where("image_reason is null").count() == len(sent)
        identity = rows.select("binlog_position", "row_number").distinct()
        assert identity.count() == len(collection.log)
        rows.createOrReplaceTempView("rows")
        found = {row[0]: tuple(row)[1:] for row in spark.sql(fold_sql()).collect()}
        assert found == collection.latest()
