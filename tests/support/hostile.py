"""Messages that hold, at each place, what nobody expects there."""

from __future__ import annotations

import json
from typing import Any

from python_udfs.ingestion.formats.ddl import MAX_STATEMENT

# what a message can hold where a name or a statement is expected
VALUES: list[Any] = [
    *(None, 5, -1.5, True, [], [1], {}, {"o": 1}, "", " ", "*", "o", "\ud800", "\0", "`", "o`"),
    *("'", "drop table", "drop table o", "truncate o", "truncate table `o", "truncate table o /*"),
    *("rename table o", "rename table o to", "alter table o rename", "alter table o rename to"),
    *("drop table o, , o", "alter table o truncate partition p0", "drop database", "/*", "/*!"),
    *("rename table o to o2, o2 to", "alter table `o` rename to `o``", "x" * 100, "('" * 500),
    *("drop table o -- \ud800", "create or replace table", "ALTER TABLE o\u0301 RENAME o\u0301"),
]


DEEP = "nests 990 levels"  # stands for an object that does
NESTED = '{"a":' * 990 + "1" + "}" * 990


def canal_messages() -> list[dict]:
    head = {"es": 1772416800000, "isDdl": True, "data": None, "old": None}
    kinds = ("TRUNCATE", "ERASE", "RENAME", "ALTER", "QUERY", "CREATE")
    named = {"database": "shop", "table": "o"}
    found = [head | {"type": kind, "sql": value} for kind in kinds for value in VALUES]
    found += [head | named | {"type": kind, "sql": value} for kind in kinds for value in VALUES]
    found += [head | {"type": "TRUNCATE", "database": value, "table": value} for value in VALUES]
    found.append(head | named | {"type": "TRUNCATE", "sql": "truncate o", "x": DEEP})
    found.append(head | named | {"type": "ALTER", "sql": "alter table o " + "(" * MAX_STATEMENT})
    return found


def maxwell_messages() -> list[dict]:
    table = {"database": "shop", "table": "o"}
    head = table | {"ts": 1772416800000}
    alter = head | {"type": "table-alter", "old": table, "def": table | {"table": "o2"}}
    found = [
        alter | {part: table | {name: value}}
        for part in ("old", "def")
        for name in table
        for value in VALUES
    ]
    found += [alter | {part: value} for part in ("old", "def", "sql") for value in VALUES]
    found += [alter | {"def": table, "sql": value} for value in VALUES]
    for kind in ("table-drop", "database-drop", "table-create", "database-alter"):
        found += [
            head | {"type": kind, name: value} for name in (*table, "sql") for value in VALUES
        ]
    found.append(alter | {"x": DEEP})
    lacking = [{key: item for key, item in alter.items() if key != part} for part in ("old", "def")]
    return found + lacking


def debezium_messages() -> list[dict]:
    source = {"connector": "mysql", "db": "shop", "table": "o", "ts_ms": 1772416800000}
    source |= {"file": "bin.000001", "snapshot": "false", "row": 0}
    head = {"source": source, "databaseName": "shop", "ddl": "drop table o", "tableChanges": []}
    found = [head | {name: value} for name in head if name != "source" for value in VALUES]
    found += [head | {"source": source | {name: value}} for name in source for value in VALUES]
    found += [{"payload": value, **head} for value in VALUES]
    found.append(head | {"x": DEEP})
    return found


def mongodb_messages() -> list[dict]:
    head = {"operationType": "rename", "ns": {"db": "shop", "coll": "o"}}
    head |= {"to": {"db": "shop", "coll": "o2"}}
    found = [head | {"to": {"db": value, "coll": "o2"}} for value in VALUES]
    found += [head | {"to": {"db": "shop", "coll": value}} for value in VALUES]
    found += [head | {name: value} for name in head for value in VALUES]
    return found


def placed(format_name: str, messages: list[dict], file_number: int = 1) -> list[str]:
    """The messages as texts, each at a position of its own."""
    found = []
    for number, message in enumerate(messages):
        if format_name == "maxwell":
            message = {"position": f"bin.{file_number:06d}:{number}"} | message
        elif format_name == "debezium" and isinstance(message.get("source"), dict):
            message = message | {"source": {"pos": number} | message["source"]}
        elif format_name == "mongodb":
            message = {
                "clusterTime": {"$timestamp": {"t": 1772416800 + file_number, "i": number}}
            } | message
        found.append(json.dumps(message).replace(json.dumps(DEEP), NESTED))
    return found


MESSAGES = {
    "canal": canal_messages,
    "maxwell": maxwell_messages,
    "debezium": debezium_messages,
    "mongodb": mongodb_messages,
}


def put(message: dict, path: tuple[str, ...], value: Any) -> dict:
    """A copy of the message with this value at a place within it."""
    first, *rest = path
    inner = message.get(first)
    if rest:
        value = put(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return message | {first: value}


def spoiled(message: dict, paths: list[tuple[str, ...]]) -> list[dict]:
    """The message with each of VALUES at each of the places, and without each of them."""
    found = [put(message, path, value) for path in paths for value in VALUES]
    return [*found, *({k: v for k, v in message.items() if k != path[0]} for path in paths)]


def row_messages() -> dict[str, list[str]]:
    """Topic -> messages of rows in its format, of the project's own tables, as texts."""
    row = {"order_id": 1, "user_id": 1, "product_type": "t", "amount": 1, "order_status": 1}
    row |= {"biz_status": "new", "comment": "c", "create_time": "2026-03-02 00:00:00"}
    row |= {"update_time": "2026-03-02 00:00:00.000"}
    names = ("database", "table")
    table = dict(zip(names, ("shop", "order_info"), strict=True))
    maxwell = table | {"type": "update", "ts": 1772467200, "xid": 1, "xoffset": 0}
    maxwell |= {"data": row, "old": {"amount": 2}}
    places = [(item,) for item in maxwell] + [("data", item) for item in row] + [("old", "amount")]
    deep = row | {"comment": DEEP}
    of_maxwell = spoiled(maxwell, [*places, ("position",), ("commit",)])
    # at the first and the last place: what names the log has is looked up in these messages
    of_maxwell = [maxwell | {"data": deep}, *of_maxwell, maxwell | {"data": deep}]
    canal = table | {"type": "UPDATE", "es": 1772467200000, "isDdl": False, "data": [row]}
    canal |= {"old": [{"amount": "2"}], "mysqlType": {"biz_status": "enum('new')"}}
    source = {"connector": "mysql", "db": "shop", "table": "order_info", "snapshot": "false"}
    source |= {"ts_ms": 1772467200000, "file": "bin.000001", "row": 0}
    debezium = {"op": "u", "source": source, "before": row, "after": row, "ts_ms": 1772467200000}
    document = {"_id": {"$oid": "65e2a1000000000000000001"}, "name": "n", "level": 1}
    document |= {"balance": {"$numberDecimal": "1.00"}, "address": {"city": "c"}}
    mongodb = {"operationType": "insert", "ns": {"db": "app", "coll": "user_profile"}}
    mongodb |= {"_id": {"_data": "8265E2A1000000000129295A1004"}, "fullDocument": document}
    mongodb |= {"documentKey": {"_id": document["_id"]}}
    event = {"event_id": "e", "received_at": 1772467200000, "visitor_id": "v", "user_id": 1}
    event |= {"event_time": "2026-03-02T00:00:00Z", "page": "p", "city_id": 1, "platform": "p"}
    messages = {
        "maxwell": placed("maxwell", of_maxwell),
        "canal": placed(
            "canal", [*spoiled(canal, [(item,) for item in canal]), canal | {"data": [deep]}]
        ),
        "debezium": placed(
            "debezium",
            [
                *spoiled(
                    debezium,
                    [*((item,) for item in debezium), *(("source", item) for item in source)],
                ),
                debezium | {"after": deep},
            ],
        ),
        "mongo_app": placed(
            "mongodb",
            spoiled(
                mongodb,
                [*((item,) for item in mongodb), *(("fullDocument", item) for item in document)],
            ),
        ),
        "traffic.page_view": [
            json.dumps(element) for element in spoiled(event, [(item,) for item in event])
        ],
    }
    return messages
