"""Models that pages and the macros' own comments show are right as they stand there."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from tests.support.dbt_project import REPO

pytestmark = pytest.mark.in_turn

FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)
INDENTED = re.compile(r"^ {8}\{\{ config\(.*\n(?: {8}.*\n)*", re.MULTILINE)
# pages whose models call a macro that a model may be made of
PAGES = (
    "how-to/take-full-extracts",
    *(f"reference/{name}" for name in ("joins", "streams", "keyed-tables", "windows", "zippers")),
)
CALL = re.compile(r"\{\{ (?!config\b)\w+\(")
FOLDED = "{{ config(materialized='folded') }}"
# input -> its columns, and two rows: of the first and of the second run
INPUTS = {
    "order": (
        "order_id int, user_id int, amount decimal(12, 2), create_time timestamp",
        "(1, 7, 1.10, timestamp'2026-03-01 10:00:00')",
        "(2, 8, 2.20, timestamp'2026-03-02 10:00:00')",
    ),
    "payment": (
        "payment_id int, order_id int, amount decimal(12, 2), pay_time timestamp",
        "(11, 2, 2.20, timestamp'2026-03-02 10:30:00')",
        "(12, 1, 1.10, timestamp'2026-03-01 11:00:00')",
    ),
    "trade": (
        "trade_id int, symbol string, traded_at timestamp",
        "(1, 'A', timestamp'2026-03-01 10:00:05')",
        "(2, 'A', timestamp'2026-03-01 10:09:00')",
    ),
    "quote": (
        "quote_id int, symbol string, price decimal(12, 2), quoted_at timestamp, position bigint",
        "(1, 'A', 9.50, timestamp'2026-03-01 10:00:00', 1)",
        "(2, 'A', 9.75, timestamp'2026-03-01 10:00:05', 2)",
    ),
    "order_window": (
        "order_id int, user_id int, window_start timestamp, window_end timestamp, "
        "create_time timestamp",
        "(1, 7, timestamp'2026-03-01 10:00:00', timestamp'2026-03-01 10:10:00', "
        "timestamp'2026-03-01 10:01:00')",
        "(2, 7, timestamp'2026-03-01 10:00:00', timestamp'2026-03-01 10:10:00', "
        "timestamp'2026-03-01 10:02:00')",
    ),
    "payment_window": (
        "payment_id int, user_id int, window_start timestamp, pay_time timestamp",
        "(11, 7, timestamp'2026-03-01 10:00:00', timestamp'2026-03-01 10:03:00')",
        "(12, 7, timestamp'2026-03-01 10:00:00', timestamp'2026-03-01 10:04:00')",
    ),
    "dwd_trade__order_wide": (
        "order_id int, ref_id int, amount decimal(12, 2), biz_status string, create_time timestamp",
        "(1, 5, 1.10, 'paid', timestamp'2026-03-01 10:00:00')",
        "(2, 5, 2.20, 'sent', timestamp'2026-03-02 10:00:00')",
    ),
    "dim_product_price_zip": (
        "product_id int, price decimal(12, 2), valid_from timestamp, valid_to timestamp",
        "(5, 1.10, timestamp'2026-02-01 00:00:00', timestamp'2026-03-02 00:00:00')",
        "(5, 1.20, timestamp'2026-03-02 00:00:00', null)",
    ),
    "dim_product_price_bizip": (
        "product_id int, price decimal(12, 2), valid_from timestamp, valid_to timestamp, "
        "known_from timestamp, known_to timestamp",
        "(5, 1.10, timestamp'2026-02-01 00:00:00', null, timestamp'2026-02-01 00:00:00', null)",
        "(6, 1.10, timestamp'2026-02-01 00:00:00', null, timestamp'2026-02-01 00:00:00', null)",
    ),
    "dwd_traffic__page_view": (
        "view_id int, visitor_id int, viewed_at timestamp",
        "(1, 7, timestamp'2026-03-01 10:00:00')",
        "(2, 7, timestamp'2026-03-01 10:20:00')",
    ),
    "ods_view": (
        "view_id int, view_time timestamp, partition int, offset bigint",
        "(1, timestamp'2026-03-01 10:00:00', 0, 1)",
        "(2, timestamp'2026-03-01 10:00:00', 0, 2)",
    ),
    "x": (
        "event_id int, user_id int, order_count int, view_id int, view_date date, partition int, "
        "offset bigint",
        "(1, 7, 1, 1, date'2026-03-01', 0, 1)",
        "(2, 8, 1, 2, date'2026-03-01', 0, 2)",
    ),
    "changes": (
        "order_id int, product_id int, product_name string, price decimal(12, 2), "
        "event_time timestamp, binlog_file_number int, binlog_position bigint, row_number int, "
        "row_kind string",
        "(1, 5, 'a', 1.10, timestamp'2026-03-01 10:00:00', 1, 10, 0, '+I')",
        "(1, 5, 'a', 1.20, timestamp'2026-03-02 10:00:00', 1, 20, 0, '+U')",
    ),
    "product_extract": (
        "extract_id int, product_id int, product_name string, price decimal(12, 2)",
        "(1, 5, 'a', 1.10)",
        "(2, 5, 'a', 1.20)",
    ),
    "product_extract_done": (
        "extract_id int, row_count bigint, taken_at timestamp",
        "(1, 1, timestamp'2026-03-01 10:00:00')",
        "(2, 1, timestamp'2026-03-02 10:00:00')",
    ),
}


# models that those on pages name, by a text of theirs
NAMED = {"x_seen": "filter='x_seen'", "dwd_view_seen": "filter='dwd_view_seen'"}
FILTER = """
    {{ config(materialized='folded', unique_key='block_number',
        fold={'aggregates': {'bits': 'bitmap_or'}}) }}
    {{ key_filter(rows=ref('{stream}'), key='view_id', expected_keys=1000) }}
"""


def documented() -> dict[str, str]:
    """Name -> SQL of each model that is shown; a part of a model is made whole."""
    found = []
    for page in PAGES:
        text = (REPO / "docs" / f"{page}.md").read_text(encoding="utf-8")
        found += [(page, block) for block in FENCED.findall(text)]
    for path in sorted((REPO / "macros").rglob("*.sql")):
        comments = "".join(COMMENT.findall(path.read_text(encoding="utf-8")))
        found += [(path.stem, dedent(block)) for block in INDENTED.findall(comments)]
    models: dict[str, str] = {}
    for place, sql in found:
        if sql.startswith("{{ config(") and sql.count("{{") == 1:  # a config alone
            sql += "select * from {{ new_rows(ref('changes')) }}"
        if not CALL.search(sql):
            continue
        part = re.match(r"(\w+) as \(", sql)
        if part:
            sql = f"{FOLDED}\nwith\n\n{sql}\nselect * from {part[1]}"
        sql = re.sub(r"\bref\('|\bsource\('shop', '", "source('src', '", sql)
        models[f"{place.rpartition('/')[2].replace('-', '_')}_{len(models)}"] = sql
    return models


def rows(project, name: str) -> list[str]:
    """A table's rows without columns that count commits or hold their time."""
    columns = project.column(f"describe table dw.{name}")
    hidden = {"change_number", "known_time", "commit_number", "load_id"}
    shown = [column for column in columns if column and column not in hidden and "#" not in column]
    return sorted(map(str, project.query(f"select {', '.join(shown)} from dw.{name}")))


def test_models_that_are_shown_run_and_take_what_comes(make_project):
    models = documented()
    assert len(models) == 20, sorted(models)
    (example,) = (name for name, sql in models.items() if "'x_once'" in sql)
    filters = {"x_seen": models.pop(example).replace("source('src', 'x_once')", "ref('{stream}')")}
    for name, text in NAMED.items():
        (stream,) = (shown for shown, sql in models.items() if text in sql)
        models[name] = filters.get(name, FILTER).replace("{stream}", stream)
    sources = "".join(f"{{name: {name}}}, " for name in INPUTS)
    macros = {
        str(path.relative_to(REPO)): path.read_text(encoding="utf-8")
        for path in (REPO / "macros").rglob("*.sql")
    }
    made = make_project(
        macros
        | {f"models/{name}.sql": sql for name, sql in models.items()}
        | {"models/_sources.yml": f"sources: [{{name: src, tables: [{sources}]}}]"}
    )
    made.query("create namespace if not exists src")
    for name, (columns, first, _) in INPUTS.items():
        made.query(f"create table src.{name} ({columns}) using iceberg")
        made.query(f"insert into src.{name} values {first}")
    made.run("run")
    for name, (_, _, second) in INPUTS.items():
        made.query(f"insert into src.{name} values {second}")
    made.run("run")
    held = {name: rows(made, name) for name in models}
    assert all(held.values()), held
    made.run("run", "--full-refresh")
    for name, kept in held.items():
        # a stream holds each change, beliefs what was held once
        if not name.startswith(("append_stream", "beliefs", "streams", "upsert_stream", "zippers")):
            assert rows(made, name) == kept, name
