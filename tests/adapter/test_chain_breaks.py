"""Breaks of a chain, change by change: what its columns can't hold, columns that came later."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.dbt_project import REPO, DbtProject

CHAIN = {"key_columns": ["id"], "image_columns": ["id", "a", "b", "d"], "altered_columns": ["d"]}
FILES = {
    f"macros/chain/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/chain").glob("*.sql"))
} | {
    "models/sources.yml": "sources: [{name: src, tables: [{name: changes}]}]",
    "models/breaks.sql": f"""
        {{{{ config(materialized='table') }}}}
        with changes as (select * from {{{{ source('src', 'changes') }}}}),
        suspects as (select id from changes limit 0)
        select * from ({{{{ chain_breaks({CHAIN}, 'changes', 'suspects') }}}})
    """,
}
IMAGE = "id int, a date, b date, d int, raw_values map<string, string>"

Image = dict[str, Any]


def image(a: str | None = "2026-01-01", d: int | None = None, raw: Image | None = None) -> Image:
    """A row; `raw` is what stands in its date columns and is no date."""
    return {"a": a, "b": None, "d": d, "raw_values": raw or {}}


def change(
    key: int, place: int, before: Image | None, after: Image | None, row_number: int = 0
) -> str:
    """A row of a typed table, as SQL."""
    op_type = {(True, False): "insert", (False, True): "delete"}.get(
        (before is None, after is None), "update"
    )

    def of(row: Image | None) -> str:
        text = "null" if row is None else repr(json.dumps({"id": key} | row))
        return f"from_json({text}, '{IMAGE}')"

    return (
        f"select after.*, before, '{op_type}' as op_type, 1L as binlog_file_number, "
        f"{place}L as binlog_position, {row_number} as row_number, date '2026-01-01' as cut_date "
        f"from (select {of(before)} as before, {of(after)} as after)"
    )


def test_each_break_has_its_kind_and_what_differs(make_project: Callable[..., DbtProject]) -> None:
    given, changed = image("2026-01-01"), image("2026-02-02")
    changes = [
        # no dates, as texts
        change(1, 1, None, image(None, raw={"a": "0000-00-00"})),
        change(1, 2, image(None, raw={"a": "9999-00-00"}), given),
        # of two columns, one differs as a text
        change(2, 1, None, image(raw={"b": "x"})),
        change(2, 2, image(raw={"b": "x"}), image(raw={"b": "x"})),
        change(2, 3, image(raw={"b": "y"}), given),
        change(3, 1, None, given),
        change(3, 2, image(None), changed),
        # a column that wasn't there before
        change(4, 1, None, image(d=None)),
        change(4, 2, image(d=5), image(d=6)),
        change(4, 3, image(d=7), None),
        # what a TRUNCATE deleted, and was taken back since another row came before it
        change(5, 1, None, given),
        change(5, 2, given, None),
        change(5, 2, None, given, row_number=-1),
        change(5, 3, given, changed),
        change(6, 1, None, given),
        change(6, 2, given, None),
        change(6, 3, given, changed),
        change(7, 1, given, None),
        change(8, 1, None, given),
        change(8, 2, None, given),
    ]
    project = make_project(FILES)
    project.query("create namespace src")
    project.query(f"create table src.changes using iceberg as {' union all '.join(changes)}")

    project.run("run")

    rows = project.query("select id, kind, binlog_position, differences from dw.breaks order by id")
    assert [
        (*list(row.values())[:3], json.loads(row["differences"] or "null")) for row in rows
    ] == [
        (1, "image_differs", 2, {"a": {"left": "0000-00-00", "found": "9999-00-00"}}),
        (2, "image_differs", 3, {"b": {"left": "x", "found": "y"}}),
        (3, "image_differs", 2, {"a": {"left": "2026-01-01", "found": None}}),
        (4, "image_differs", 3, {"d": {"left": "6", "found": "7"}}),
        (6, "update_of_deleted", 3, None),
        (7, "delete_of_unknown", 1, None),
        (8, "insert_on_existing", 2, None),
    ]
