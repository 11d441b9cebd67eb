"""Where a message holds its documents: a change stream's event, or Debezium's message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

DOCUMENT = "map<string, variant>"


def event_schema(fields: dict[str, str]) -> str:
    """A struct's DDL of the fields, at the top or within Debezium's `payload`."""
    listed = ", ".join(f"`{name}` {kind}" for name, kind in fields.items())
    return f"struct<{listed}, payload struct<{listed}>>"


def event_of(read: Column, fields: dict[str, str]) -> Column:
    """The struct of fields that event_schema reads, from where it stands."""
    from pyspark.sql import functions as F

    top = F.struct(*[read[name].alias(name) for name in fields])
    return F.coalesce(read["payload"], top)


def key_document(event: Column) -> Column:
    """A document that holds the key as `_id`.

    Debezium's key has it as JSON text, in a sharded collection the shard key's fields behind it.
    """
    from pyspark.sql import functions as F

    key = F.from_json("message_key", "struct<id string, payload struct<id string>>")
    id_text = F.coalesce(key["payload"]["id"], key["id"])
    texts = (
        event["documentKey"],
        F.concat(F.lit('{"_id":'), id_text, F.lit("}")),
        event["after"],
        event["before"],
    )
    return F.coalesce(*[F.from_json(text, DOCUMENT) for text in texts])
