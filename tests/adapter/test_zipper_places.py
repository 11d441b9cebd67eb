"""Zippers over changes of a table: rows whose sequence shows no order are refused, each by name."""

from __future__ import annotations

import pytest

PLACED = {"sequence": "n", "time": "at", "row_kind": "row_kind"}
IGNORED = PLACED | {"unpaired_retraction": "ignored"}
ENDS = PLACED | {"unpaired_retraction": "ends"}
NO_KIND = {"sequence": "n", "time": "at"}
GROUPS = {
    "unpaired_retraction": "ends",
    "time": "at",
    "row_kind": "row_kind",
    "sequence_groups": {
        "of_v": {"sequence": "n", "columns": "v"},
        "of_w": {"sequence": "m", "columns": "w"},
    },
}
KEPT, BACK = "have changed or left, and their key has no row of a higher n", "rows came again"
GONE = "1 keys have gone from what its query reads the changes of"
# zipper -> its key, its config, a condition of its query, the key of its changes, what is done
# between two runs, then before the third, and why that is refused
ZIPPERS = {
    "kept": ("id", PLACED, "true", "id", "", "update {} set v = -1 where id = 2", KEPT),
    "of_partial_rows": (
        "id", IGNORED | {"ignore_nulls": True}, "true", "id", "",
        "update {} set v = -1 where id = 2", KEPT,
    ),
    "of_groups": (
        "id", GROUPS, "true", "id", "update {} set m = 3, w = 7 where id = 2",
        "update {} set v = -1, m = 4 where id = 2", KEPT,
    ),
    "lower": ("id", IGNORED, "true", "id", "", "update {} set n = 1, v = 9 where id = 2", KEPT),
    "moved": ("g", ENDS, "true", "id", "", "update {} set g = 9 where id = 2", KEPT),
    "left_out": (
        "id", ENDS, "v < 100", "id", "", "update {} set n = 3, v = 500 where id = 2", KEPT
    ),
    "without_key": ("id", IGNORED, "true", None, "", "update {} set v = -1 where id = 2", KEPT),
    "came_again": (
        "id", PLACED, "true", "id", "delete from {} where id = 2",
        "insert into {} values (2, 2, 2, 2, timestamp'2020-01-03', 1, 1)", BACK,
    ),
    "began_again": (
        "id", PLACED, "true", "id", "delete from {} where id = 2",
        "insert into {} values (2, 2, 2, 1, timestamp'2020-01-03', 1, 1)", BACK,
    ),
    "no_kind_kept": ("id", NO_KIND, "true", "id", "", "update {} set v = -1 where id = 2", KEPT),
    "no_kind_gone": ("id", NO_KIND, "true", "id", "", "delete from {} where id = 2", GONE),
    "no_kind_moved": (
        "g", NO_KIND, "true", "id", "", "update {} set g = 9, n = 3 where id = 2", GONE
    ),
    "no_kind_rises": (
        "id", NO_KIND, "true", "id", "update {} set n = 3, v = 9 where id = 2",
        "update {} set n = 4, v = 4 where id = 2", "",
    ),
    "given_alone": ("id", NO_KIND, "sign > 0", "id", "", "delete from {} where id = 2", ""),
    # each of these has a higher sequence
    "rises": (
        "id", IGNORED, "true", "id", "update {} set n = 3, v = 9 where id = 2; "
        "delete from {} where id = 1",
        "insert into {} values (1, 1, 7, 4, timestamp'2020-01-03', 1, 1)", "",
    ),
}  # fmt: skip


@pytest.mark.in_turn
def test_changes_whose_sequence_shows_no_order_are_refused(make_project):
    tables = ", ".join(f"{{name: {name}}}" for name in ZIPPERS)
    files = {"models/sources.yml": f"sources: [{{name: src, tables: [{tables}]}}]"}
    for name, (key, zipper, condition, by, *_) in ZIPPERS.items():
        config = f"materialized='folded', unique_key={key!r}, zipper={zipper}"
        by_key = f", by={by!r}" if by else ""
        changes = f"{{{{ new_changes(source('src', '{name}'){by_key}) }}}}"
        columns = f"{key}, v, n, at" + ", row_kind" * ("row_kind" in zipper)
        columns += ", w, m" * ("sequence_groups" in zipper)
        query = f"select {columns} from {changes} where {condition}"
        files[f"models/{name}.sql"] = f"{{{{ config({config}) }}}} {query}"
    project = make_project(files)
    project.query("create namespace if not exists src")
    for name in ZIPPERS:
        project.query(
            f"create table src.{name} using iceberg as select int(id) as id, int(id) as g, "
            "int(id) as v, 2 as n, timestamp'2020-01-02' as at, 1 as w, 1 as m from range(4)"
        )
    project.run("run")
    for step in (4, 5):
        for name, parts in ZIPPERS.items():
            for statement in filter(None, parts[step].split("; ")):
                project.query(statement.format(f"src.{name}"))
        outcome = project.run("run", expect_ok=step == 4)
    found = {name: outcome.results[name].message for name in ZIPPERS}
    named = {name: parts[-1] in found[name] for name, parts in ZIPPERS.items() if parts[-1]}
    assert named == dict.fromkeys(named, True), found
    versions = project.query("select id, v from dw.rises where is_current order by id")
    assert versions == [{"id": 0, "v": 0}, {"id": 1, "v": 7}, {"id": 2, "v": 9}, {"id": 3, "v": 3}]
    assert project.query("select v from dw.given_alone where id = 2 and is_current") == [{"v": 2}]


def test_a_table_may_have_a_column_sign_of_its_own(make_project):
    """As a keyed table that is made of retract rows has."""
    sources = "sources: [{name: src, tables: [{name: events}]}]"
    keyed = (
        "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'n'}) }} "
        "select id, n, at, v, 1 as sign from {{ new_rows(source('src', 'events')) }}"
    )
    zipper = (
        f"{{{{ config(materialized='folded', unique_key='id', zipper={NO_KIND}) }}}} "
        "select id, n, at, v from {{ new_changes(ref('keyed'), by='id') }}"
    )
    files = {"sources.yml": sources, "keyed.sql": keyed, "versions.sql": zipper}
    project = make_project({f"models/{name}": text for name, text in files.items()})
    project.query("create namespace if not exists src")
    project.query("create table src.events (id int, n int, at timestamp, v int) using iceberg")
    for n in (1, 2):
        project.query(f"insert into src.events select 1, {n}, timestamp'2026-03-0{n}', {n}")
        project.run("run")
    assert project.query("select v from dw.versions order by v") == [{"v": 1}, {"v": 2}]
