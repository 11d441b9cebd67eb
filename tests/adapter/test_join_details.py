"""What joins owe that random histories seldom meet."""

from __future__ import annotations

import pytest

from tests.support.dbt_project import REPO, DbtProject

pytestmark = pytest.mark.in_turn

MACROS = {
    f"macros/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros" / "joins").glob("*.sql"))
}
SOURCES = "sources: [{name: src, tables: [{name: facts}, {name: others}]}]"
PRICED = """
    {{ config(materialized='folded') }}
    {{ temporal_join(
        left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'at'],
            'time': 'at'},
        right={'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid', 'price']},
        on={'k': 'k'},
        kind='left',
    ) }}
"""
PAIRS = """
    {{ config(materialized='folded') }}
    {{ many_to_many_join(
        left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k']},
        right={'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid']},
        on={'k': 'k'},
    ) }}
"""


def with_tables(make_project, model: str, facts: str, others: str) -> DbtProject:
    """A project whose sources are these queries."""
    project = make_project(MACROS | {"models/sources.yml": SOURCES, "models/joined.sql": model})
    project.query("create namespace if not exists src")
    project.query(f"create or replace table src.facts using iceberg as {facts}")
    project.query(f"create or replace table src.others using iceberg as {others}")
    project.run("run")
    return project


def test_a_version_that_goes_without_another_leaves_its_rows_without_it(make_project):
    at = "timestamp '2026-03-%s 00:00:00'"
    project = with_tables(
        make_project,
        PRICED,
        f"select * from values (1, 1, {at % '02'}), (2, 2, {at % '02'}) as t(id, k, at)",
        "select rid, rid as k, price, valid_from, cast(null as timestamp) as valid_to "
        f"from values (1, 5, {at % '01'}), (2, 6, {at % '01'}) as t(rid, price, valid_from)",
    )
    rows = "select id, rid, price from dw.joined order by id"
    assert [tuple(row.values()) for row in project.query(rows)] == [(1, 1, 5), (2, 2, 6)]

    project.query("delete from src.others where rid = 1")
    project.run("run")

    assert [tuple(row.values()) for row in project.query(rows)] == [(1, None, None), (2, 2, 6)]


def test_a_version_whose_end_or_price_changes_reaches_the_facts_of_its_time(make_project):
    day = "timestamp '2026-03-%02d 00:00:00'"
    project = with_tables(
        make_project,
        PRICED,
        f"select * from values (1, 1, {day % 5}), (2, 1, {day % 15}), (3, 1, {day % 25}) "
        "as t(id, k, at)",
        f"select 1 as rid, 1 as k, 5 as price, {day % 1} as valid_from, {day % 10} as valid_to",
    )

    def prices() -> list[int | None]:
        return project.column("select price from dw.joined order by id")

    assert prices() == [5, None, None]
    for change, expected in (
        (f"valid_to = {day % 20}", [5, 5, None]),
        ("price = 6", [6, 6, None]),
        (f"valid_to = {day % 10}", [6, None, None]),
    ):
        project.query(f"update src.others set {change}")
        project.run("run")
        assert prices() == expected, change


def test_keys_of_many_pairs_are_reported_the_largest_first(make_project):
    sides = {1: (3, 2), 2: (1, 6), 3: (4, 4), 4: (9, 1)}  # left and right rows of each key
    project = with_tables(make_project, PAIRS, "select 0 as id, 0 as k", "select 0 as rid, 0 as k")
    for table, side in (("facts", 0), ("others", 1)):
        rows = [f"({10 * k + n}, {k})" for k, sizes in sides.items() for n in range(sizes[side])]
        project.query(f"insert into src.{table} values {', '.join(rows)}")

    outcome = project.run("run", vars={"join_rows_per_key": 3})

    reported = (
        'keys with more than 3 rows in a join (var join_rows_per_key): key {"k":3}: 4 left rows '
        'x 4 right rows; key {"k":2}: 1 left rows x 6 right rows'
    )
    log = " ".join(outcome.log.split())
    assert reported in log, log
    assert '"k":1' not in log and '"k":4' not in log


STREAMED = """
    {{ config(materialized='folded') }}
    {{ many_to_one_join(
        left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'rid'],
            'sequence': ['file', 'place']},
        right={'relation': source('src', 'others'), 'key': 'rid', 'columns': ['v'],
            'sequence': 'place'},
        on={'rid': 'rid'},
        kind='left',
    ) }}
"""


def test_of_a_stream_the_row_of_the_last_place_counts_whatever_its_values(make_project):
    facts = "select * from values {rows} as t(id, rid, file, place, row_kind)"
    others = "select * from values {rows} as t(rid, v, place, row_kind)"
    project = with_tables(
        make_project,
        STREAMED,
        # an update's two rows share their place; a row of a later file comes at a lower place
        facts.format(
            rows="(1, 5, 1, 9, '+I'), (1, 5, 2, 3, '-U'), (1, 4, 2, 3, '+U'), "
            "(2, 5, 1, 1, '+I'), (2, 5, 1, 2, '-D'), (3, 4, 1, 1, '+I'), (3, 4, 1, 2, '-D'), "
            "(3, 5, 1, 3, '+I')"
        ),
        others.format(
            rows="(4, 'z', 1, '+I'), (4, 'z', 2, '-U'), (4, 'a', 2, '+U'), "
            "(5, 'a', 1, '+I'), (5, 'a', 2, '-D'), (5, 'b', 3, '+I')"
        ),
    )
    rows = "select id, rid, v from dw.joined order by id"
    assert [tuple(row.values()) for row in project.query(rows)] == [(1, 4, "a"), (3, 5, "b")]

    project.query("insert into src.others values (4, 'a', 3, '-U'), (4, '0', 3, '+U')")
    project.query("insert into src.facts values (1, 4, 2, 4, '-D'), (2, 4, 2, 1, '+I')")
    project.run("run")

    assert [tuple(row.values()) for row in project.query(rows)] == [(2, 4, "0"), (3, 5, "b")]
    project.query("insert into src.others values (5, 'b', 4, '-D')")
    project.run("run")
    assert [tuple(row.values()) for row in project.query(rows)] == [(2, 4, "0"), (3, 5, None)]


NEAREST = """
    {{ config(materialized='folded') }}
    {{ asof_join(
        left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id'], 'time': 'at'},
        right={'relation': source('src', 'others'), 'key': 'rid', 'columns': ['rid'],
            'time': 'right_at'},
        on={'k': 'k'},
        direction='%s',
        kind='left',
    ) }}
"""


@pytest.mark.parametrize(
    ("direction", "first", "with_late", "without_first"),
    [
        # at the same distance from both the earlier row is the nearest
        ("nearest", [1, 1, 2, 2], [3, 3, 3, 2], [3, 3, 3, 2]),
        ("backward", [1, 1, 1, 2], [1, 3, 3, 2], [None, 3, 3, 2]),
        ("forward", [2, 2, 2, None], [3, 2, 2, None], [3, 2, 2, None]),
    ],
)
def test_a_row_that_comes_late_or_goes_takes_over_on_its_own_side(
    make_project, direction, first, with_late, without_first
):
    at = "timestamp '2026-03-01 00:00:%02d'"
    facts = ", ".join(f"({second}, 1, {at % second})" for second in (5, 10, 14, 25))
    project = with_tables(
        make_project,
        NEAREST % direction,
        f"select * from values {facts} as t(id, k, at)",
        f"select * from values (1, 1, {at % 0}), (2, 1, {at % 20}) as t(rid, k, right_at)",
    )
    rows = "select rid from dw.joined order by id"
    assert project.column(rows) == first

    project.query(f"insert into src.others values (3, 1, {at % 8})")
    project.run("run")
    assert project.column(rows) == with_late

    project.query("delete from src.others where rid = 1")
    project.run("run")
    assert project.column(rows) == without_first
