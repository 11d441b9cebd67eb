"""Every view of a version reads the tables as that version has them."""

from __future__ import annotations

import pytest

from tests.support.small_warehouse import FILES, make_raw


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


@pytest.mark.parametrize("before", ["ephemeral", "table"])
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
