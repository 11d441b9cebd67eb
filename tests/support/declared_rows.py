"""Messages of a table whose declaration changes."""

from __future__ import annotations

import json

from tests.support.lines import TS, line
from tests.support.typed_model import Model


def insert(key: int, position: int, state: str = '"a"', more: str = "") -> str:
    return line(
        data=f'{{"id":{key},"state":{state},"amount":1.00{more}}}',
        position=f'"bin.000007:{position}"',
    )


def states(model: Model) -> dict[int, str | None]:
    return {row.id: row.state for row in model.rows if row.reject_reason is None}


def canal(rows: list[tuple[int, str]], **more: str) -> str:
    data = [{"id": str(key), "state": state, "amount": "1"} for key, state in rows]
    head = {"database": "shop", "table": "o", "type": "INSERT", "es": TS * 1000}
    return json.dumps(head | {"data": data, "mysqlType": {"state": "varchar(9)"}} | more)


def change(format_name: str, key: int, position: int, more: dict[str, str] | None = None) -> str:
    """A message that inserts a row, with texts in further columns."""
    texts = {"state": "a"} | (more or {})
    if format_name == "canal":
        row = {"id": str(key), **texts, "amount": "1"}
        return json.dumps(json.loads(canal([(key, "a")])) | {"data": [row]})
    if format_name == "maxwell":
        row = {"id": key, **texts, "amount": 1}
        return line(data=json.dumps(row), position=f'"bin.000007:{position}"')
    origin = {"connector": "mysql", "db": "shop", "table": "o", "ts_ms": TS * 1000}
    origin |= {"file": "bin.000007", "pos": position, "row": 0, "snapshot": "false"}
    row = {"id": key, **texts, "amount": "ZA=="}
    return json.dumps({"op": "c", "source": origin, "before": None, "after": row})
