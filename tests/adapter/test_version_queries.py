"""Every view of a version reads the tables as that version has them."""

from __future__ import annotations

import pytest

from tests.support.small_warehouse import FILES, make_raw

pytestmark = pytest.mark.in_turn


@pytest.fixture
def project(make_project):
    made = make_project(FILES)
    make_raw(made)
    made.query("insert into dw.raw values (1), (2), (3), (11)")
    return made


def published_sums(project) -> tuple[int, int]:
    """The number of ids by the published table of days, and by the view over it."""
    (days,) = project.column("select sum(n) from published.days")
    (total,) = project.column("select n from published.total")
    return days, total


def test_a_view_that_reads_what_no_version_holds_is_not_published(project):
    project.run("build")
    project.query("insert into dw.raw values (4), (12)")
    project.run("run", "--select", "rows", "days")
    log = project.run("build", "--select", "total").log
    assert "Not published: total was made from rows of days that no version holds." in log
    assert published_sums(project) == (4, 4)
    project.run("build")
    assert published_sums(project) == (6, 6)


@pytest.mark.in_turn
def test_a_version_rewrites_the_views_that_the_run_did_not_build(project):
    project.run("build")
    for number in (4, 5, 6):
        project.query(f"insert into dw.raw values ({number}), ({number + 10})")
        project.run("build", "--select", "rows", "days", "latest")
    assert published_sums(project) == (10, 10)
    project.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    assert published_sums(project) == (10, 10)


def test_a_view_whose_sql_changed_is_built_before_it_is_published_over_other_tables(project):
    project.run("build")
    project.write({"models/total.sql": "select sum(n) + 0 as n from {{ ref('days') }}"})
    project.query("insert into dw.raw values (4)")
    log = project.run("build", "--select", "rows", "days", "latest").log
    assert "Not published: total isn't written any more as in version 1" in log
    assert published_sums(project) == (4, 4)
    project.run("build")
    assert published_sums(project) == (5, 5)


@pytest.mark.parametrize("before", ["ephemeral", pytest.param("table", marks=pytest.mark.soak)])
def test_a_view_over_an_ephemeral_model_is_published_over_what_that_reads(project, before):
    passed_on = "{{{{ config(materialized='{}') }}}} select n from {{{{ ref('days') }}}}"
    project.write(
        {
            "models/passed_on.sql": passed_on.format(before),
            "models/total.sql": "select sum(n) as n from {{ ref('passed_on') }}",
        }
    )
    project.run("build")
    project.write({"models/passed_on.sql": passed_on.format("ephemeral")})
    project.query("insert into dw.raw values (4), (12)")
    project.run("build")
    assert published_sums(project) == (6, 6)


HIDDEN = """
    {{ config(materialized='incremental', meta={'published': false}) }}
    select id from {{ new_rows(ref('rows')) }}
"""
SEEN = FILES["models/_models.yml"].replace("[{name: raw}]", "[{name: raw}, {name: seen}]")


@pytest.fixture
def outside(make_project):
    """A project whose views read tables that no version has: a source, and an unpublished model."""
    made = make_project(
        FILES
        | {
            "models/_models.yml": SEEN,
            "models/hidden.sql": HIDDEN,
            "models/counted.sql": "{{ config(materialized='table') }} "
            "select count(*) as n from {{ ref('hidden') }}",
            "models/of_hidden.sql": "select count(*) as n from {{ ref('hidden') }}",
            "models/of_seen.sql": "select count(*) as n from {{ source('raw', 'seen') }}",
            "models/of_both.sql": "select count(*) + (select sum(n) from {{ ref('days') }}) as n "
            "from {{ source('raw', 'seen') }}",
        }
    )
    make_raw(made)
    made.query("create table dw.seen (id bigint) using iceberg")
    made.query("insert into dw.seen values (1)")
    made.query("insert into dw.raw values (1), (2), (3), (11)")
    made.run("build")
    return made


def published(project, *names: str) -> list[int]:
    return [project.column(f"select n from published.{name}")[0] for name in names]


def test_rows_that_no_version_holds_are_seen_through_an_unpublished_model(outside):
    outside.query("insert into dw.raw values (4)")
    outside.run("run", "--select", "rows", "hidden")
    for name in ("counted", "of_hidden"):
        log = outside.run("build", "--select", name).log
        assert f"Not published: {name} was made from rows of rows that no version holds." in log
    assert published(outside, "counted", "of_hidden") == [4, 4]
    outside.run("build")
    assert published(outside, "counted", "of_hidden") == [5, 5]


def test_what_views_read_outside_of_versions_is_kept_for_them(outside):
    outside.query("insert into dw.seen values (2), (3)")
    outside.query("insert into dw.raw values (4)")
    outside.run("run", "--select", "rows", "hidden")
    outside.run("run-operation", "expire_versions", "--args", "{keep: 1, days: 0}")
    assert published(outside, "of_hidden", "of_seen", "of_both") == [4, 1, 5]


def test_a_view_over_a_source_that_went_on_is_written_for_a_version_that_did_not_build_it(outside):
    outside.query("insert into dw.seen values (2)")
    outside.query("insert into dw.raw values (4)")
    log = outside.run("build", "--select", "rows", "days", "latest", "hidden", "counted").log
    assert "Published as version 2" in log
    assert published(outside, "of_both", "total") == [7, 5]


def test_a_view_of_a_tables_metadata_is_published_as_it_is_now(project):
    project.write(
        {
            "models/commits.sql": "select operation from {{ ref('rows') }}.snapshots",
            "models/files.sql": "select f.record_count as n from {{ ref('rows') }}.files as f",
            "models/of_source.sql": "select count(*) as n from {{ source('raw', 'raw') }}.history",
            "models/over.sql": "select count(*) as n from {{ ref('commits') }}",
        }
    )
    assert "Published as version 1" in project.run("build").log
    project.query("insert into dw.raw values (4), (12)")
    project.run("build")
    assert project.column("select count(operation) from published.commits") == [2]
    assert sum(project.column("select n from published.files")) == 6
    assert project.column("select n from published.of_source") == [2]
    assert project.column("select n from published.over") == [2]
    project.write(
        {
            "models/read.sql": "{{ config(materialized='table') }}"
            " select operation from {{ ref('commits') }}"
        }
    )
    message = project.run("build", "-s", "read", expect_ok=False).results["read"].message
    assert "'.snapshots' behind a ref or source of dw.rows" in message
