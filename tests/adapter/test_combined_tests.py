"""Data tests of one relation that state when they fail are asked in one query, and find what each
of them finds by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from dbt.adapters.sparksession.versions.combined_tests import CombinedTests, sought

from tests.support.dbt_project import DbtProject
from tests.support.small_warehouse import PROJECT, generic_tests

pytestmark = pytest.mark.in_turn

GENERIC = (
    *("latest_row_is_current", "not_negative", "one_current_per_key", "signs_balance"),
    *("unique_combination", "valid_from_before_valid_to"),
)
RIGHT = "(1, 'a', 0, null, true, '+I', 1)"
MODEL = """
    {{ config(materialized='%s') }}
    select id, name, valid_from, cast(valid_to as int) as valid_to, is_current, row_kind, sign
    from values ROWS
        as t(id, name, valid_from, valid_to, is_current, row_kind, sign)
"""
# name of a test -> its kind, arguments, `where`, and rows beside the right row of which it fails
TESTS: Mapping[str, tuple[str, dict[str, Any], str | None, str]] = {
    "of_nulls": ("not_null", {"column_name": "id"}, None, "(null, 'b', 0, null, true, '+I', 1)"),
    "of_some_nulls": (
        *("not_null", {"column_name": "id"}, "rows.valid_from > 3"),
        "(null, 'b', 4, null, true, '+I', 1)",
    ),
    "of_ids": ("unique", {"column_name": "id"}, None, "(1, 'b', -1, 0, false, '+I', 1)"),
    "of_signs": (
        *("accepted_values", {"column_name": "sign", "values": [1, -1], "quote": False}, None),
        "(2, 'b', 0, null, true, '+I', 2)",
    ),
    "of_kinds": (
        *("accepted_values", {"column_name": "row_kind", "values": ["+I", "-D"]}, None),
        "(2, 'b', 0, null, true, null, 1), (3, 'c', 0, null, true, '+X', 1)",
    ),
    "below_zero": (
        *("not_negative", {"column_name": "valid_from"}, None),
        "(2, 'b', -1, null, true, '+I', 1)",
    ),
    "of_latest": (
        *("latest_row_is_current", {"key": ["id"], "deletes": False}, None),
        "(2, 'b', 0, 5, false, '+I', 1), (null, 'c', null, null, null, '+I', 1)",
    ),
    "of_current": (
        *("one_current_per_key", {"key": ["id"]}, None),
        "(null, 'b', 0, null, true, '+I', 1), (null, 'c', 1, null, true, '+I', 1)",
    ),
    "of_changes": (
        *("signs_balance", {"change_key": "name"}, None),
        "(2, 'b', 0, null, true, '-U', 1)",
    ),
    "of_pairs": (
        *("unique_combination", {"columns": ["id", "valid_to"]}, None),
        "(null, 'b', 0, null, true, '+I', 1), (null, 'c', 0, null, true, '+I', 1)",
    ),
    "of_times": ("valid_from_before_valid_to", {}, None, "(2, 'b', 3, 3, false, '+I', 1)"),
}
LOTS = 3  # of wrong rows, so that each test passes beside others that fail


def declared(*names: str, **more: tuple[str, dict[str, Any], str | None]) -> str:
    """YAML of data tests of the model `rows`, each of severity warn.

    Args:
        names: of TESTS; none of them for all.
        more: further tests, by their names.
    """
    chosen = {name: TESTS[name][:3] for name in names or TESTS} | more
    tests = []
    for name, (kind, arguments, where) in chosen.items():
        config = {"severity": "warn"} | ({"where": where} if where else {})
        tests.append({kind: {"name": name, "arguments": arguments, "config": config}})
    return yaml.safe_dump({"models": [{"name": "rows", "data_tests": tests}]})


@pytest.fixture(scope="module")
def asked() -> list[tuple[int, int]]:
    """Of each query that answered tests together: tests that it was asked for, and passed."""
    return []


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    files = {"dbt_project.yml": PROJECT, "models/_models.yml": "models: []"}
    made = make_project(files | generic_tests(*GENERIC))
    made.query("create namespace if not exists dw")
    return made


@pytest.fixture(autouse=True)
def _count(asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    ask = CombinedTests._ask
    asked.clear()

    def counted(self: CombinedTests, tests: Mapping, *rest: object) -> frozenset[str]:
        passed = ask(self, tests, *rest)
        asked.append((len(tests), len(passed)))
        return passed

    monkeypatch.setattr(CombinedTests, "_ask", counted)


def failures(project: DbtProject, *command: str, **vars: object) -> dict[str, int | str | None]:
    """Data tests that warned, and of how many failures; of what failed otherwise its status."""
    done = project.run(*command, vars=vars, expect_ok=None)
    return {
        name: result.failures if result.status == "warn" else str(result.status)
        for name, result in done.results.items()
        if result.status in ("warn", "fail", "error")
    }


def model_of(rows: str, materialized: str = "table") -> dict[str, str]:
    return {"models/rows.sql": MODEL.replace("ROWS", rows) % materialized}


@pytest.mark.parametrize("materialized", ["table", "view"])
def test_tests_together_find_what_each_finds_by_itself(
    project: DbtProject, asked: list[tuple[int, int]], materialized: str
) -> None:
    project.write({"models/_models.yml": declared(), **model_of(RIGHT, materialized)})
    assert failures(project, "build", test_again=True) == {}
    assert not asked
    # signs_balance and unique_combination group by other columns
    others = {"of_changes", "of_pairs"}
    for lot in range(LOTS):
        wrong = dict(list(TESTS.items())[lot::LOTS])
        rows = ", ".join([RIGHT, *(rows for *_, rows in wrong.values())])
        project.write(model_of(rows, materialized))
        asked.clear()
        together = failures(project, "build")
        assert len(asked) == 1
        counted, passed = asked[0]
        assert counted == len(TESTS) - len(others)
        assert passed == counted - len(together.keys() - others)
        assert together == failures(project, "test")
        assert len(asked) == 1
        assert wrong.keys() <= together.keys()


def test_a_condition_that_cannot_be_asked_leaves_the_others_to_themselves(
    project: DbtProject, asked: list[tuple[int, int]]
) -> None:
    of_nothing = ("not_null", {"column_name": "id"}, "nothing > 1")
    models = declared(of_nothing=of_nothing)
    project.write({"models/_models.yml": models, **model_of(RIGHT, "view")})
    assert failures(project, "build") == {"of_nothing": "error"}
    assert asked == [(len(TESTS) + 1 - 2, 0)]


def test_a_test_that_the_project_redefines_is_its_own_query(project: DbtProject) -> None:
    redefined = """
        {% macro default__test_not_null(model, column_name) %}
        select * from {{ model }} where {{ column_name }} = 1
        {% endmacro %}
        {% macro default__test_unique(model, column_name) %}
        select {{ column_name }} from {{ model }} where {{ column_name }} is null
        {% endmacro %}
    """
    models = declared("of_nulls", "of_some_nulls", "of_ids", "of_signs")
    project.write({"macros/redefined.sql": redefined, "models/_models.yml": models})
    project.write(model_of(RIGHT))
    found = failures(project, "build")
    project.write({"macros/redefined.sql": ""})
    assert found == {"of_nulls": 1}


def test_what_a_config_makes_of_failures_is_left_to_the_query() -> None:
    test = {
        "config": {"meta": {}, "where": None},
        "test_metadata": {"name": "unique", "namespace": None, "kwargs": {"column_name": "id"}},
    }
    found = sought(test, "dw.`a`")
    assert found is not None
    assert (found.group, found.condition) == (("id",), "id is not null and count(*) > 1")
    for config in (
        *({"limit": 3}, {"fail_calc": "sum(id)"}, {"warn_if": ">3"}, {"error_if": "= 0"}),
        *({"store_failures": True}, {"where": "id > {{ var('least') }}"}, {"where": "id > 1"}),
    ):
        assert sought({**test, "config": {**test["config"], **config}}, "dw.`a`") is None
    stated = {"group_by": ["id"], "condition": "count(*) > 2"}
    # what a run reads again of it is another matter
    meta = {"fails_within": ["day"], "fails_having": stated}
    by_id = sought({**test, "config": {"meta": meta, "where": None}}, "dw.`a`")
    assert by_id is not None
    assert (by_id.group, by_id.condition) == (("id",), "count(*) > 2")
    of_package = {**test["test_metadata"], "namespace": "other"}
    assert sought({**test, "test_metadata": of_package}, "dw.`a`") is None
