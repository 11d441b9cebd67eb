"""Text from the data that looks like SQL, Jinja or JSON goes through every layer as it is, and
messages that can't be read are kept with their raw text."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.warehouse import Warehouse

TOKENS = [
    *("'", '"', "`", "\\", "\\'", "''", '\\"', "`;`", "$", "#", "%", "_", "?", "\\n", "\\N", "--"),
    *("';--", "'; drop table dw.ods_binlog; --", "' or '1'='1", "/* x */", "*/", "/*", "||", "&&"),
    *("{{ 7 * 7 }}", "{% set x = 1 %}", "{# note #}", "{{", "%}", "{{ this }}", "{{ ref('x') }}"),
    *("%s", "%(x)s", "{0}", "${spark.app.id}", "${jndi:ldap://127.0.0.1}", "$1", ":x", "@@version"),
    *("\0", "\x01", "\x1b[31m", "\x7f", "\t", "\r\n", "\n", " ", "", "\u2028", "\u202e", "\ufeff"),
    *("null", "NULL", "NaN", "Infinity", "true", "-0", "1e999", "0x1F", "0000-00-00", "2026-02-30"),
    *("é", "e\u0301", "ß", "İ", "中文", "\U0001f980", "\U0010ffff", "<script>", "../../etc", "a,b"),
    *('{"a":1}', "[1]", '"old":', '"type":"delete"', "\\u0041", "\\ud800", "bootstrap-start"),
]
WRAPPERS = ["{}", "'{}'", '"{}"', "`{}`", "x{}", "{}x", "({})", "{}\\"]
TEXTS = list(
    dict.fromkeys(
        wrapper.replace("{}", token) for wrapper, token in itertools.product(WRAPPERS, TOKENS)
    )
)
ROW = (
    b'{"database":"shop","table":"order_info","type":"insert","ts":1772467200,"xid":1,'
    b'"commit":true,"position":"bin.000900:%d","data":{"order_id":%d,"user_id":1,"amount":1.00,%s'
    b'"update_time":"2026-03-02 00:00:00.000"}}'
)
# what no row can be made of, or what a row can be made of in one way only
MESSAGES = [
    b'"order_status":' + b"9" * 400 + b",",
    b'"order_status":1e400,',
    b'"user_id":-1,',
    b'"comment":"\\ud800",',
    b'"comment":' + b'{"a":' * 1200 + b"1" + b"}" * 1200 + b",",
    b'"biz_status":{"$ne":null},',
    b'"create_time":"2026-02-30 25:61:00",',
    b'"create_time":"\'; drop table dw.ods_binlog; --",',
    b'"create_time":"+999999999-01-01 00:00:00",',
    b'"amount":"{{ 7 * 7 }}",',
    b'"amount":1e-30,',
    b'"amount":NaN,',
    b'"comment":"\xed\xa0\x80",',
    b'"comment":"\xc0\xaf",',
    b'"order_id":null,',
]


def change(kind: str, number: int, place: int, text: str, old: str | None = None) -> bytes:
    """A change of order `number`, as Maxwell writes it; text stands in two of its columns."""
    row: dict[str, Any] = {
        "order_id": number,
        "user_id": number,
        "product_type": "t",
        "amount": 1,
        "order_status": 1,
        "biz_status": text[:30],
        "comment": text,
        "update_time": "2026-03-02 00:00:00.000",
    }
    message = {
        "database": "shop",
        "table": "order_info",
        "type": kind,
        "ts": 1772467200 + place,
        "xid": place,
        "commit": True,
        "position": f"bin.000900:{place}",
        "data": row,
    }
    if old is not None:
        message["old"] = {"biz_status": old[:30], "comment": old}
    return json.dumps(message, ensure_ascii=place % 2 == 0).encode()


@pytest.mark.soak
def test_hostile_text_comes_through_every_layer_as_it_is(tmp_path: Path) -> None:
    assert len(TEXTS) + len(MESSAGES) >= 500
    warehouse = Warehouse(tmp_path)
    lines = [change("insert", n, n, text) for n, text in enumerate(TEXTS)]
    # each becomes the next text; those of even number go away again
    after = [TEXTS[(n + 1) % len(TEXTS)] for n in range(len(TEXTS))]
    places = itertools.count(len(TEXTS))
    for n, (old, text) in enumerate(zip(TEXTS, after, strict=True)):
        lines.append(change("update", n, next(places), text, old))
    for n in range(0, len(TEXTS), 2):
        lines.append(change("delete", n, next(places), after[n]))
    warehouse.land_lines(lines, 0)

    wide = ("dwd_trade__order_wide", "dwd_trade__order_latest", "meta_quarantine")
    chosen = ("--select", "+dws_trade__user_status_td", *(f"+{item}" for item in wide))
    warehouse.run("build", *chosen, "--exclude-resource-type", "unit_test")

    assert warehouse.column("select count(*) from dw.ods_binlog") == [len(lines)]
    assert warehouse.column("select count(*) from dw.meta_quarantine") == [0]
    raw = warehouse.query("select message_offset as n, payload from dw.ods_binlog")
    assert {message["n"]: message["payload"] for message in raw} == {
        n: line.decode() for n, line in enumerate(lines)
    }
    changes = warehouse.query(
        "select op_type, order_id as n, comment, before.comment as old from dw.ods_shop__order_info"
    )
    reported = {
        (change["op_type"], int(change["n"])): (change["comment"], change["old"])
        for change in changes
    }
    for n, (old, text) in enumerate(zip(TEXTS, after, strict=True)):
        assert reported["insert", n][0] == old
        assert reported["update", n] == (text, old)
        assert ("delete", n) in reported or n % 2
    left = {n: text for n, text in enumerate(after) if n % 2}
    for schema, table in itertools.product(("dw", "published"), wide[:2]):
        column, longest = ("comment", None) if table.endswith("_latest") else ("biz_status", 30)
        rows = warehouse.query(f"select order_id as n, {column} as text from {schema}.{table}")
        got = {int(row["n"]): row["text"] for row in rows}
        assert got == {n: text[:longest] for n, text in left.items()}, (schema, table)
    for schema in ("dw", "published"):
        counts = warehouse.td(f"{schema}.dws_trade__user_status_td")
        assert {key: count for key, (count, _) in counts.items()} == {
            (n, text[:30]): 1 for n, text in left.items()
        }


@pytest.mark.soak
def test_hostile_messages_are_rows_or_kept_with_their_reason(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    lines = [ROW % (n, n, part) for n, part in enumerate(MESSAGES, start=1)]
    warehouse.land_lines(lines, 0)
    options = ("--select", "+dws_trade__user_status_td", "+meta_quarantine")
    warehouse.run("run", *options, vars={"reject_threshold": 1})
    assert warehouse.column("select count(*) from dw.ods_binlog") == [len(lines)]
    kept = warehouse.query(
        "select message_offset as n, reject_reason as reason, raw_text, raw_bytes "
        "from dw.meta_quarantine"
    )
    taken = set(
        warehouse.column(
            "select message_offset from dw.ods_shop__order_info where reject_reason is null"
        )
    )
    assert {row["n"] for row in kept} | taken == set(range(len(lines)))
    assert {row["n"] for row in kept} & taken == set()
    for row in kept:
        raw = row["raw_bytes"] if row["raw_bytes"] is not None else row["raw_text"].encode()
        assert raw == lines[row["n"]]
        assert row["reason"]
    print(f"\n{len(kept)} of {len(lines)} are in quarantine, the others are rows")
