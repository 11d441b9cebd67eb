"""A column `row_kind` that is one of the data, not the kind of a change."""

from __future__ import annotations

SEATS = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: seats}]}]",
    # a table that is rewritten, and whose data has the name of a change's kind
    "models/renamed.sql": """
        {{ config(materialized='incremental', incremental_strategy='replace_all') }}
        select id, row_kind as kind_of_row from {{ pinned(source('src', 'seats')) }}
    """,
    "models/of_renamed.sql": """
        {{ config(materialized='incremental') }}
        select * from {{ new_changes(ref('renamed'), by='id') }}
    """,
    "models/of_seats.sql": """
        {{ config(materialized='incremental') }}
        select * from {{ new_changes(source('src', 'seats'), by='id') }}
    """,
    "models/keyed.sql": """
        {{ config(materialized='folded', unique_key='id', fold={'sequence': 'n'}) }}
        select id, n, row_kind from {{ new_rows(source('src', 'seats')) }}
    """,
    "models/of_keyed.sql": """
        {{ config(materialized='incremental') }}
        select id, sign from {{ new_changes(ref('keyed')) }}
    """,
}


def test_a_column_of_the_data_is_not_taken_for_the_kind_of_a_change(make_project):
    project = make_project(SEATS)
    project.query("create namespace if not exists src")
    project.query("create table src.seats (id int, n int, row_kind string) using iceberg")
    project.query("insert into src.seats values (1, 1, 'balcony'), (2, 1, 'stalls')")
    outcome = project.run("run", expect_ok=False)
    assert outcome.statuses() == {
        "renamed": "success",
        "of_renamed": "success",
        "of_seats": "error",
        "keyed": "success",
        "of_keyed": "error",
    }
    message = outcome.results["of_seats"].message
    assert "src.seats: its column row_kind has to hold +I, -U, +U or -D; where it is" in message
    assert "Got balcony" in message or "Got stalls" in message
    message = outcome.results["of_keyed"].message
    assert "new_changes: dw.keyed has a column row_kind, which each of its changes has" in message
    # under another name it is followed, whatever happens to the table
    project.query("update src.seats set row_kind = 'gallery' where id = 1")
    project.query("delete from src.seats where id = 2")
    project.run("run", "-s", "renamed", "of_renamed")
    held = project.query(
        "select id, kind_of_row, sum(sign) as n from dw.of_renamed group by all having n <> 0"
    )
    assert held == [{"id": 1, "kind_of_row": "gallery", "n": 1}]
    # hidden, it is none of what the changes of a keyed table show
    hiding = SEATS["models/keyed.sql"].replace("'n'}", "'n', 'hidden_columns': 'row_kind'}")
    project.write({"models/keyed.sql": hiding})
    project.run("run", "-s", "keyed", "of_keyed", "--full-refresh")
    assert project.query("select id, sign from dw.of_keyed") == [{"id": 1, "sign": 1}]
