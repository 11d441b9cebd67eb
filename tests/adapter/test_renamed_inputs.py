"""A model reads each row once where a project, a model or a source gets another name."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.dbt_project import DbtProject
from tests.support.small_source import SOURCES, project_with_source

pytestmark = pytest.mark.in_turn

ADDS = "{{ config(materialized='incremental') }}\n"
RENAMED = {
    "models/log.sql": ADDS + "select id, v from {{ new_rows(source('src', 'x')) }}",
    "models/added.sql": "{{ config(materialized='incremental', "
    "incremental_strategy='append_new_rows') }} select id, v from {{ new_rows(ref('log')) }}",
    "models/events.sql": "{{ config(materialized='incremental', "
    "incremental_strategy='append_new_rows') }} "
    "select id, v, sign from {{ new_changes(ref('log')) }}",
    "models/reported.sql": ADDS + "select id, v, sign from {{ new_changes(ref('log')) }}",
    "models/summed.sql": "{{ config(materialized='folded', unique_key='k', "
    "fold={'aggregates': {'total': 'sum'}, 'row_kind': 'row_kind'}) }} "
    "select 1 as k, v as total, row_kind from {{ new_changes(ref('log')) }}",
}


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def rows_after_renaming(small, log: str) -> tuple:
    return (
        sorted(small.column(f"select v from {log}")),
        sorted(small.column("select v from dw.added")),
        sorted(
            small.column("select v * sum(sign) from dw.events group by v having sum(sign) <> 0")
        ),
        small.column("select sum(v * sign) from dw.reported"),
        small.column("select total from dw.summed"),
    )


def test_a_renamed_project_adds_no_row_again(project):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    text = (small.root / "dbt_project.yml").read_text()
    small.write({"dbt_project.yml": text.replace("name: small", "name: other")})
    small.query("insert into src.x values (3, 30)")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30]] * 3, [60], [60])


@pytest.mark.parametrize(
    ("setting", "stored"), [("alias='journal'", "dw.journal"), ("schema='moved'", "dw_moved.log")]
)
def test_an_input_that_is_stored_under_another_name_is_read_as_a_whole(project, setting, stored):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    log = RENAMED["models/log.sql"].replace("incremental'", f"incremental', {setting}", 1)
    small.write({"models/log.sql": log})
    small.query("insert into src.x values (3, 30)")
    small.run("run")
    small.run("run")
    assert rows_after_renaming(small, stored) == (*[[10, 20, 30]] * 3, [60], [60])
    # readers hold what they made of the other table, whatever they read of this table before
    small.write({"models/log.sql": RENAMED["models/log.sql"]})
    small.query("insert into src.x values (4, 40)")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30, 40]] * 3, [100], [100])


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("{name: x}", "{name: x, identifier: y}", "src.y"),
        ("- name: src", "- name: src\n        schema: elsewhere", "elsewhere.x"),
    ],
)
def test_a_source_that_names_another_table_is_read_as_a_whole(project, before, after, place):
    small = project(
        RENAMED,
        "insert into src.x values (1, 10), (2, 20)",
        "create namespace if not exists elsewhere",
        f"create table {place} (id int, v int) using iceberg",
        f"insert into {place} values (1, 10), (2, 20), (3, 30)",
    )
    small.run("run")
    small.write({"models/_sources.yml": SOURCES.replace(before, after)})
    small.run("run")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30]] * 3, [60], [60])
    small.write({"models/_sources.yml": SOURCES})
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20]] * 3, [30], [30])


def test_an_input_is_known_by_its_table_and_not_by_its_name(project):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    small.query("alter table src.x rename to src.z")
    small.query("insert into src.z values (3, 30)")
    small.write({"models/_sources.yml": SOURCES.replace("{name: x}", "{name: x, identifier: z}")})
    outcome = small.run("run")
    assert outcome.results["log"].message == "+1 rows"  # the table of that name is followed
    assert rows_after_renaming(small, "dw.log") == (*[[10, 20, 30]] * 3, [60], [60])
    small.query("create table src.x (id int, v int) using iceberg")
    small.query("insert into src.x values (1, 10), (7, 70)")
    small.write({"models/_sources.yml": SOURCES})
    small.run("run")  # another table under the name that the first table had
    assert rows_after_renaming(small, "dw.log") == (*[[10, 70]] * 3, [80], [80])
    small.query("drop table src.x")
    small.query("create table src.x (id int, v int) using iceberg")
    small.query("insert into src.x values (5, 50)")
    small.run("run")
    assert rows_after_renaming(small, "dw.log") == (*[[50]] * 3, [50], [50])


def test_a_renamed_model_that_is_read_by_its_new_name_is_refused_until_a_full_refresh(project):
    small = project(RENAMED, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    (small.root / "models/log.sql").unlink()
    renamed = {name: text.replace("'log'", "'journal'") for name, text in RENAMED.items()}
    renamed["models/journal.sql"] = renamed.pop("models/log.sql")
    small.write(renamed)
    outcome = small.run("run", expect_ok=False)
    for model in ("added", "events", "reported", "summed"):
        assert "made by another definition: its SQL" in outcome.results[model].message
    small.run("run", "--full-refresh")
    assert rows_after_renaming(small, "dw.journal") == (*[[10, 20]] * 3, [30], [30])


TWO_INPUTS = """
    sources:
      - name: src
        tables: [{name: a, identifier: %s}, {name: b, identifier: %s}]
"""
OF_A, OF_B = (
    f"select id, v, '{name}' as kind from {{{{ new_rows(source('src', '{name}')) }}}}"
    for name in ("a", "b")
)
BOTH = f"{OF_A} union all {OF_B}"
OF_BOTH = {
    "models/added.sql": ADDS + BOTH,
    "models/merged.sql": "{{ config(materialized='incremental', unique_key='id') }} " + BOTH,
    "models/folded.sql": "{{ config(materialized='folded', unique_key='id', "
    "fold={'sequence': 'v'}) }} " + BOTH,
    "models/seen.sql": "{{ config(meta={'row_wise': true}) }} "
    + BOTH.replace("new_rows(source('src', 'a'))", "source('src', 'a')").replace(
        "new_rows(source('src', 'b'))", "source('src', 'b')"
    ),
    "models/by_view.sql": ADDS + "select id, v, kind from {{ new_rows(ref('seen')) }}",
}
READERS_OF_BOTH = ("added", "merged", "folded", "by_view")


def two_inputs(make_project) -> DbtProject:
    """A project of OF_BOTH after its first run: src.ta has the id 1, src.tb the id 2."""
    made = make_project(OF_BOTH | {"models/_sources.yml": TWO_INPUTS % ("ta", "tb")})
    made.query("create namespace if not exists src")
    for number, table in ((1, "src.ta"), (2, "src.tb")):
        made.query(f"create table {table} (id int, v int) using iceberg")
        made.query(f"insert into {table} values ({number}, {number})")
    made.run("run")
    return made


def kinds(small: DbtProject, *models: str) -> list[list[str]]:
    """id and kind of the models' rows, in order: a list for all models that have the same."""
    found: list[list[str]] = []
    for name in models or READERS_OF_BOTH:
        rows = small.column(f"select concat(id, kind) from dw.{name} order by 1")
        found += [] if rows in found else [rows]
    return found


@pytest.mark.parametrize("by", ["identifiers", "tables"])
def test_inputs_that_change_places_are_refused_until_a_full_refresh(make_project, by):
    small = two_inputs(make_project)
    if by == "identifiers":
        small.write({"models/_sources.yml": TWO_INPUTS % ("tb", "ta")})
    else:
        for old, new in (("ta", "tmp"), ("tb", "ta"), ("tmp", "tb")):
            small.query(f"alter table src.{old} rename to src.{new}")
    refused = small.run("run", expect_ok=False).results
    for model in READERS_OF_BOTH:
        message = "source src.a is the table that source src.b was; source src.b is the table"
        assert message in refused[model].message
    small.run("run", "--full-refresh")
    assert kinds(small) == [["1b", "2a"]]
    small.query("insert into src.{} values (3, 3)".format("ta" if by == "identifiers" else "tb"))
    small.run("run")
    assert kinds(small) == [["1b", "2a", "3b"]]


def test_an_input_that_becomes_the_table_of_another_is_refused(make_project):
    small = two_inputs(make_project)
    small.write({"models/_sources.yml": TWO_INPUTS % ("ta", "ta")})
    refused = small.run("run", "--select", "added", expect_ok=False).results["added"]
    assert "source src.b is the table that source src.a was" in refused.message
    small.run("run", "--full-refresh", "--select", "added")
    assert kinds(small, "added") == [["1a", "1b"]]


LAST = "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'v'}) }} "
STANDS = "{{ config(materialized='table') }} select id, v from {{ source('src', 'x') }}"
BARE = {
    "models/stored.sql": STANDS,
    "models/of_source.sql": LAST + "select id, v from {{ source('src', 'x') }}",
    "models/of_model.sql": LAST + "select id, v from {{ ref('stored') }}",
    "models/of_view.sql": LAST + "select id, v from {{ ref('seen') }}",
    "models/seen.sql": "select id, v from {{ source('src', 'x') }}",
    "models/of_both.sql": LAST + "select id, v from {{ ref('stored') }} union all "
    "select id, v from {{ source('src', 'x') }}",
    "models/in_python.py": """
        def model(dbt, session):
            dbt.config(materialized="folded", unique_key="id", fold={"sequence": "v"})
            return dbt.source("src", "x").select("id", "v")
    """,
}
OF_SOURCE = ("of_source", "of_view", "of_both", "in_python")


def test_a_keyed_table_over_a_bare_input_is_not_made_of_two_tables(project):
    small = project(BARE, "insert into src.x values (1, 10), (2, 20)")
    small.run("run")
    small.query("alter table src.x rename to src.z")
    small.query("insert into src.z values (3, 30)")
    small.write({"models/_sources.yml": SOURCES.replace("{name: x}", "{name: x, identifier: z}")})
    small.run("run")  # the same table under another name
    assert [small.column(f"select max(v) from dw.{name}") for name in OF_SOURCE] == [[30]] * 4

    small.query("drop table src.z")
    small.query("create table src.z (id int, v int) using iceberg")
    small.query("insert into src.z values (1, 10)")
    results = small.run("run", expect_ok=False).results
    for name in OF_SOURCE:
        assert "source src.x is another table than they were made of" in results[name].message
    small.run("run", "--vars", "accept_definition: [of_source]", "-s", "of_source")
    small.run("run", "--full-refresh", "-s", *OF_SOURCE[1:])
    ids = [sorted(small.column(f"select id from dw.{name}")) for name in OF_SOURCE]
    assert ids == [[1, 2, 3], [1], [1], [1]]
    small.run("run")

    small.write({"models/stored.sql": STANDS.replace("'table'", "'table', alias='other'")})
    results = small.run("run", expect_ok=False).results
    for name in ("of_model", "of_both"):
        assert "ref stored is another table than they were made of" in results[name].message
    small.write({"models/stored.sql": STANDS})
    small.run("run")

    small.query("alter table src.z rename to src.below")
    small.query("create view src.z as select id, v from src.below where id > 1")
    results = small.run("run", expect_ok=False).results
    for name in OF_SOURCE:
        assert "source src.x is another table than they were made of" in results[name].message
