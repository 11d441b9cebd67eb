"""Extracts that can't be used are refused before anything is written; what a run opens of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.extract_project import MACRO, MACRO_AND_SOURCES

pytestmark = pytest.mark.in_turn

MODEL = """
    {{{{ config(
        materialized='folded',
        unique_key='id',
        fold={{
            'sequence': ['place', 'from_extract'], 'row_kind': 'row_kind',
            'hidden_columns': ['place', 'from_extract'],
        }},
        full_refresh=false,
    ) }}}}
    {{{{ extract_changes(
        extracts={{
            'rows': source('src', 'extract_rows'),
            'complete': source('src', 'extracts'),
            'id': 'extract_id',
            'row_count': 'row_count',
            {more}
        }},
        key='id',
        columns='a',
        sequence='place',
        log=source('src', 'changes'),
    ) }}}}
"""
FILES = {
    **MACRO_AND_SOURCES,
    "models/latest.sql": MODEL.format(more="'most_removed_percent': 50,"),
    "models/unit_tests.yml": """
        unit_tests:
          - name: what_an_extract_lacks_is_deleted
            model: latest
            given:
              - input: source('src', 'extracts')
                rows:
                  - {extract_id: 1, row_count: 2, place: 10}
                  - {extract_id: 2, row_count: 1, place: 20}
              - input: source('src', 'extract_rows')
                rows:
                  - {extract_id: 1, id: 1, a: x}
                  - {extract_id: 1, id: 2, a: x}
                  - {extract_id: 2, id: 1, a: y}
              - input: source('src', 'changes')
                rows:
                  - {id: 3, a: z, row_kind: +I, place: 10}
                  - {id: 4, a: z, row_kind: +I, place: 21}
            expect:
              rows:
                - {id: 3, a: z, row_kind: +I, place: 10, from_extract: 0}
                - {id: 4, a: z, row_kind: +I, place: 21, from_extract: 0}
                - {id: 1, a: x, row_kind: +I, place: 10, from_extract: 1}
                - {id: 2, a: x, row_kind: +I, place: 10, from_extract: 1}
                - {id: 3, a: null, row_kind: -D, place: 10, from_extract: 1}
                - {id: 1, a: y, row_kind: +U, place: 20, from_extract: 1}
                - {id: 2, a: null, row_kind: -D, place: 20, from_extract: 1}
    """,
}


@pytest.fixture(scope="module")
def made(make_project) -> DbtProject:
    return make_project(FILES)


@pytest.fixture
def project(made: DbtProject) -> DbtProject:
    """The project with two extracts: 1 has keys 1, 2 and null, 2 has 1 and 2."""
    made.query("create namespace if not exists src")
    made.query("drop view if exists dw.latest")
    made.query("drop table if exists dw.latest__runs")
    made.query(
        "create or replace table src.extracts (extract_id int, row_count int, place int) "
        "using iceberg"
    )
    made.query(
        "create or replace table src.extract_rows (extract_id int, id int, a string) using iceberg "
        "partitioned by (extract_id)"
    )
    made.query(
        "create or replace table src.changes (id int, a string, row_kind string, place int) "
        "using iceberg"
    )
    made.query("insert into src.changes values (9, 'old', '-D', 1)")
    land(made, 1, 10, {1: "x", 2: "x", None: "x"})
    land(made, 2, 20, {1: "x", 2: "y"})
    made.run("run")
    assert rows(made) == {(1, "x"), (2, "y")}
    return made


def land(
    project: DbtProject, extract: int, place: int, held: dict[int | None, str], count: int = -1
) -> None:
    """Land an extract whose declaration counts so many rows; -1 for those that it has."""
    cells = ", ".join(f"({extract}, {key or 'null'}, '{a}')" for key, a in held.items())
    if cells:
        project.query(f"insert into src.extract_rows values {cells}")
    count = len(held) if count < 0 else count
    project.query(f"insert into src.extracts values ({extract}, {count}, {place})")


def rows(project: DbtProject) -> set[tuple[int | None, str]]:
    return {(row["id"], row["a"]) for row in project.query("select id, a from dw.latest")}


def refusal(project: DbtProject) -> str:
    """The message of a run that is refused and writes nothing."""
    snapshots = project.query("select snapshot_id from dw.latest__runs.snapshots")
    message = project.run("run", expect_ok=False).results["latest"].message
    assert "latest: its extracts can't be used. Nothing was written." in message
    assert project.query("select snapshot_id from dw.latest__runs.snapshots") == snapshots
    return message


def test_a_cut_extract_is_refused_until_the_rest_has_landed(project: DbtProject):
    land(project, 3, 30, {2: "z"}, count=2)
    assert "extract 3 is declared with 2 rows and has 1 keys" in refusal(project)
    project.query("insert into src.extract_rows values (3, 5, 'new')")
    project.run("run")
    assert rows(project) == {(2, "z"), (5, "new")}


def test_an_extract_of_more_rows_than_it_declares_is_refused(project: DbtProject):
    land(project, 3, 30, {1: "x", 2: "y", 3: "z"}, count=2)
    assert "extract 3 is declared with 2 rows and has 3 keys" in refusal(project)


def test_an_empty_extract_whose_rows_are_missing_is_refused(project: DbtProject):
    land(project, 3, 30, {}, count=2)
    assert "extract 3 is declared with 2 rows and has 0 keys" in refusal(project)
    land(project, 4, 0, {}, count=2)  # before all others: there is nothing to compare it with
    assert "extract 4 is declared with 2 rows and has 0 keys" in refusal(project)


def test_an_extract_that_removes_too_much_is_refused(project: DbtProject):
    land(project, 3, 30, {})
    assert "extract 3 removes 2 of 2 keys, most_removed_percent is 50" in refusal(project)
    project.query("delete from src.extracts where extract_id = 3")
    land(project, 4, 30, {2: "y"})  # just as much as it may
    project.run("run")
    assert rows(project) == {(2, "y")}


def test_rows_of_a_key_that_differ_are_refused_and_equal_rows_count_once(project: DbtProject):
    land(project, 3, 30, {1: "x", 2: "y"})
    land(project, 3, 30, {1: "x", 2: "y"})
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y")}
    project.query("insert into src.extract_rows values (4, 1, 'one'), (4, 1, 'other'), (4, 2, 'y')")
    land(project, 4, 40, {}, count=2)
    assert "extract 4 has 1 keys with rows that differ" in refusal(project)


def test_declarations_that_contradict_each_other_are_all_named(project: DbtProject):
    land(project, 3, 20, {1: "x"})
    land(project, 2, 20, {}, count=7)
    project.query("insert into src.extracts values (9, null, 90), (null, 1, 95)")
    message = refusal(project)
    for part in (
        "a declaration of extract 9 has a null",
        "a declaration of extract null has a null",
        "extract 2 is declared in 2 ways",
        "extracts 2 and 3 have one place",
    ):
        assert part in message, part


def test_a_null_key_is_a_key_like_others(project: DbtProject):
    land(project, 3, 30, {1: "x", 2: "y", None: "back"})
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y"), (None, "back")}
    # a change of the log between two extracts that have the row alike
    project.query("insert into src.changes values (null, 'gone', '-D', 35), (7, 'new', '+I', 45)")
    land(project, 4, 40, {1: "x", 2: "y", None: "back"})
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y"), (None, "back"), (7, "new")}
    # of the log, and late: the extract behind it lacks the key
    project.query("insert into src.changes values (8, 'late', '+I', 36)")
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y"), (None, "back"), (7, "new")}


def test_a_unit_test_gives_extracts_and_a_log(project: DbtProject):
    ran = project.run("test", "-s", "latest,test_type:unit")
    assert ran.statuses() == {"what_an_extract_lacks_is_deleted": "pass"}


def test_a_run_opens_the_new_extract_and_the_extract_before_it_alone(project: DbtProject):
    """The files of the oldest extract are gone from the disk."""
    opened = project.column(
        "select file_path from src.extract_rows.files where partition.extract_id = 1"
    )
    for path in opened:
        Path(path.removeprefix("file:")).unlink()
    project.query("insert into src.changes values (3, 'log', '+I', 25)")
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y"), (3, "log")}
    land(project, 3, 30, {1: "z", 2: "y"})
    project.run("run")
    assert rows(project) == {(1, "z"), (2, "y")}


def test_an_extract_whose_rows_were_deleted_is_needed_by_late_extracts_alone(project: DbtProject):
    project.query("delete from src.extract_rows where extract_id = 1")
    land(project, 3, 30, {1: "z", 2: "y"})
    project.run("run")
    assert rows(project) == {(1, "z"), (2, "y")}
    land(project, 4, 15, {1: "late"})
    expected = (
        "extract 1, with which extract %d is compared, is declared with 3 rows and has 0 keys"
    )
    assert expected % 4 in refusal(project)
    land(project, 5, 12, {})  # without a row itself
    assert expected % 5 in refusal(project)


def test_an_extract_that_was_used_and_is_declared_no_more_is_refused(project: DbtProject):
    """The next extract would be compared with the extract before it, whose rows have gone."""
    land(project, 3, 30, {1: "x"})
    project.run("run")
    assert rows(project) == {(1, "x")}
    project.query("delete from src.extracts where extract_id = 3")
    gone = "extract 3 is the newest that the table was made of and is declared no more: declare it"
    assert gone in refusal(project)
    project.query("insert into src.changes values (9, 'new', '+I', 25)")
    assert gone in refusal(project)
    land(project, 4, 40, {1: "x", 2: "y"})
    assert gone in refusal(project)
    land(project, 3, 30, {}, count=1)
    project.run("run")
    assert rows(project) == {(1, "x"), (2, "y")}
    project.query("delete from src.extracts where extract_id < 4")  # older extracts may go
    land(project, 5, 50, {1: "z", 2: "y"})
    project.run("run")
    assert rows(project) == {(1, "z"), (2, "y")}


WRONG = {
    MACRO: FILES[MACRO],
    "models/sources.yml": FILES["models/sources.yml"],
    "models/of_arguments.sql": """
        {{ config(materialized='folded', unique_key='id', fold={'sequence': 'place'}) }}
        {{ extract_changes(
            extracts={'rows': 'a', 'id': 'extract_id', 'most_removed': 3},
            key='id', columns=[], sequence='place', log='b',
        ) }}
    """,
    "models/of_columns.sql": """
        {{ config(
            materialized='folded', unique_key='id',
            fold={'sequence': ['place', 'from_extract'], 'row_kind': 'row_kind'},
        ) }}
        {{ extract_changes(
            extracts={
                'rows': source('src', 'extract_rows'), 'complete': source('src', 'extracts'),
                'id': 'extract_id', 'row_count': 'rows', 'dated_by': 'a',
            },
            key='id', columns=['a', 'place'], sequence='place', log=source('src', 'changes'),
        ) }}
    """,
    "models/of_config.sql": """
        {{ config(
            materialized='folded', unique_key='id', zipper={'sequence': 'place', 'time': 'place'}
        ) }}
        {{ extract_changes(
            extracts={
                'rows': source('src', 'extract_rows'), 'complete': source('src', 'extracts'),
                'id': 'extract_id', 'row_count': 'row_count',
            },
            key='id', columns='a', sequence='place',
        ) }}
    """,
}


def test_every_problem_of_a_call_is_reported_at_once(make_project):
    project = make_project(WRONG)
    project.query("create namespace src")
    project.query(
        "create table src.extracts (extract_id int, row_count int, place int) using iceberg"
    )
    project.query("create table src.extract_rows (extract_id int, id int, a string) using iceberg")
    project.query(
        "create table src.changes (id bigint, a string, row_kind string, place int) using iceberg"
    )
    results = project.run("run", expect_ok=False).results
    for model, parts in {
        "of_arguments": (
            "extracts.most_removed is an unknown setting",
            "extracts.rows must be ref(..) or source(..), got 'a'",
            "extracts.complete must be ref(..) or source(..), got None",
            "extracts.row_count must name a column, got None",
            "columns must name columns, got []",
            "log must be ref(..) or source(..), got 'b'",
            "Example: extract_changes(extracts={'rows': source('shop', 'product_extract')",
        ),
        "of_columns": (
            "complete: there is no column rows; it has extract_id, row_count, place",
            "place is a column of the rows, and places or dates the extract",
            "extracts.dated_by dates the rows in place of the extract's time",
            "rows: id is int, but id of log is bigint; cast it",
            "fold.hidden_columns must have from_extract, place",
        ),
        "of_config": (
            "the model's config must be config(materialized='folded', unique_key=['id'], "
            "zipper={'sequence': ['place', 'from_extract'], 'row_kind': 'row_kind'})",
        ),
    }.items():
        for part in parts:
            assert part in results[model].message, (part, results[model].message)
    assert project.query("show tables in dw") == []
