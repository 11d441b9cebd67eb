"""A data test is run again only where it could find something else than for the newest version."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from dbt.adapters.sparksession.edges import Node
from dbt.adapters.sparksession.versions.data_tests import DataTests

from tests.support.dbt_project import DbtProject
from tests.support.four_models import TESTS, D, F, four_models, land

pytestmark = pytest.mark.in_turn

KEPT = re.compile(r"(?:from|join) global_temp\.`dw__[a-z]+__tested`")


@pytest.fixture(scope="module")
def make(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    return partial(four_models, make_project)


def test_a_test_that_passed_is_run_again_only_on_other_rows(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    project.run("build")
    again = project.run("build")
    assert "3 data tests had passed or warned on these very rows" in again.log
    assert "Published" not in again.log
    assert "data tests had" not in project.run("build", vars={"test_again": True}).log
    # a row that no run brought: what had passed doesn't count any more
    project.query("insert into dw.a values (1, 'again')")
    failing = project.run("build", expect_ok=False)
    assert failing.statuses()["unique_a_id"] == "fail"
    assert project.column("select count(*) from published.a") == [3]


def test_what_warned_and_what_is_not_published_is_not_tested_again_either(
    make: Callable[..., DbtProject],
) -> None:
    own = "{{ config(materialized='%s', meta={'published': false}) }}\nselect * from {{ %s }}"
    project = make(
        own_table=own % ("incremental", "new_rows(ref('a'))"),
        own_view=own % ("view", "ref('own_table')"),
    )
    declared = """
      - name: c
        columns:
          - name: id
            data_tests: [{accepted_values: {arguments: {values: [7]}, config: {severity: warn}}}]
      - name: own_table
        columns: [{name: id, data_tests: [not_null]}]
      - name: own_view
        columns: [{name: id, data_tests: [unique]}]
    """
    project.write({"models/_models.yml": TESTS.rstrip() + declared})

    def warned() -> int | None:
        done = project.run("build")
        found = [name for name, status in done.statuses().items() if status == "warn"]
        assert found == ["accepted_values_c_id__7"]
        known = "6 data tests had passed or warned on these very rows" in done.log
        assert known == is_known
        return done.results[found[0]].failures

    is_known = False
    assert warned() == 3
    is_known = True
    assert warned() == 3
    land(project, 3, 5)
    is_known = False
    assert warned() == 5
    project.query("insert into dw.own_table values (null, 'by hand')")
    again = project.run("build", expect_ok=False)
    assert again.statuses()["not_null_own_table_id"] == "fail"


def test_tests_of_one_view_share_rows_that_are_computed_once(
    make: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(f=F)
    declared = """
      - name: f
        columns: [{name: id, data_tests: [ALONE]}]
    """
    # with a limit no other test is asked in the same query
    alone = "{unique: {config: {limit: 9}}}, {not_null: {config: {limit: 9}}}"
    related = "{relationships: {arguments: {to: ref('f'), field: id}}}"
    tested = TESTS.rstrip().removesuffix("[unique]") + f"[{alone}, {related}]"
    project.write({"models/_models.yml": tested + declared.replace("ALONE", alone)})
    queries: dict[str, str] = {}
    over_kept_rows = DataTests.over_kept_rows

    def recorded(self: DataTests, model: Node, *args: Any) -> str:
        queries[model["name"]] = over_kept_rows(self, model, *args)
        return queries[model["name"]]

    monkeypatch.setattr(DataTests, "over_kept_rows", recorded)

    def kept_in(**options: Any) -> tuple[Counter[str], list[str]]:
        """How often each test's query reads kept rows, and the tests that failed."""
        queries.clear()
        done = project.run("build", **options)
        assert not project.query("show views in global_temp")
        counts = {name: len(KEPT.findall(query)) for name, query in queries.items()}
        failed = [name for name, status in done.statuses().items() if status == "fail"]
        return Counter(counts), failed

    # every other run of a test takes few rows for many
    assert kept_in() == (Counter(), [])
    land(project, 3, 5)
    each_once = dict.fromkeys(("unique_d_id", "not_null_d_id", "unique_f_id", "not_null_f_id"), 1)
    related_name = "relationships_d_id__id__ref_f_"
    assert kept_in() == (Counter({**each_once, related_name: 2}), [])
    land(project, 5, 6)
    assert kept_in() == (Counter(), [])
    # a row by hand: found in the rows as they are by then
    project.query("insert into dw.b select * from dw.b where id = 1")
    found = Counter({"unique_d_id": 1, "not_null_d_id": 1, related_name: 2})
    assert kept_in(expect_ok=False) == (found, ["unique_d_id"])


def test_a_query_may_name_columns_by_their_relation(make: Callable[..., DbtProject]) -> None:
    project = make(f=F)
    declared = """
      - name: f
        columns: [{name: id, data_tests: [{unique: {config: {where: f.id > 0, limit: 9}}}]}]
    """
    by_hand = "select f.id from {{ ref('f') }} where f.id %s 4"
    both = "select f.id from {{ ref('f') }} as f join {{ ref('f') }} as o on f.id = o.id - 9"
    project.write({"models/_models.yml": TESTS.rstrip() + declared})
    project.write({"tests/above.sql": by_hand % ">", "tests/both.sql": both})
    project.run("build")
    # every other run of a test takes few rows for many
    land(project, 3, 6)
    built = project.run("build", expect_ok=False).statuses()
    found = {name: built[name] for name in ("unique_f_id", "above", "both")}
    assert found == {"unique_f_id": "pass", "above": "fail", "both": "pass"}


@pytest.mark.soak
def test_a_test_of_rows_that_no_snapshot_holds_is_always_run(
    make: Callable[..., DbtProject],
) -> None:
    project = make(over_outside="select id from {{ source('raw', 'outside') }}")
    declared = TESTS.replace("{name: raw}]", "{name: raw}, {name: outside}]")
    tested = "      - name: over_outside\n        columns: [{name: id, data_tests: [not_null]}]\n"
    project.write({"models/_models.yml": declared.rstrip() + "\n" + tested})
    project.query("create table dw.elsewhere (id int) using iceberg")
    project.query("insert into dw.elsewhere values (1)")
    # a view whose table nobody declares, so the version names no snapshot of it
    project.query("create view dw.outside as select * from dw.elsewhere")
    project.run("build")
    project.query("insert into dw.elsewhere values (null)")
    again = project.run("build", expect_ok=False)
    assert again.statuses()["not_null_over_outside_id"] == "fail"
    assert "3 data tests had passed or warned on these very rows" in again.log


@pytest.mark.soak
def test_a_test_over_a_view_that_a_run_did_not_write_proves_nothing(
    make: Callable[..., DbtProject],
) -> None:
    project = make()
    related = (
        TESTS.rstrip()
        + """
      - name: b
        columns:
          - name: id
            data_tests: [{relationships: {arguments: {to: "ref('d')", field: id}}}]
    """
    )
    project.write({"models/_models.yml": related})
    project.run("build")
    name = "relationships_b_id__id__ref_d_"
    # what is there is still the view of before, in which all ids of b are found
    project.write({"models/d.sql": D + " where b.id > 0"})
    assert project.run("build", "--select", "b").statuses()[name] == "pass"
    assert project.run("build", expect_ok=False).statuses()[name] == "fail"


def test_a_test_that_reads_a_table_named_by_hand_is_always_run(
    make: Callable[..., DbtProject],
) -> None:
    project = make(by_hand="select id from dw.outside")
    tested = "      - name: by_hand\n        columns: [{name: id, data_tests: [not_null]}]\n"
    project.write({"models/_models.yml": TESTS.rstrip() + "\n" + tested})
    of_a = "select id from {{ ref('a') }} where id in (select id from dw.outside)"
    by_value = of_a.replace("dw.outside", "identifier('dw.' || 'outside')")
    project.write({"tests/of_a.sql": of_a, "tests/by_value.sql": by_value})
    project.query("create table dw.outside (id int) using iceberg")
    assert set(project.run("build").statuses().values()) == {"success", "pass"}
    project.query("insert into dw.outside values (1), (null)")
    again = project.run("build", expect_ok=False).statuses()
    for name in ("of_a", "by_value", "not_null_by_hand_id"):
        assert again[name] == "fail", name
