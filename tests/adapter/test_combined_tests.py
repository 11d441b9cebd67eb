"""Data tests of one relation that state when they fail are asked in one query, and find what each
of them finds by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from dbt.adapters.sparksession.versions.combined_tests import CombinedTests, sought

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_warehouse import PROJECT

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
# name of a test -> its declaration, and rows beside the right row of which it fails
TESTS: Mapping[str, tuple[str, str]] = {
    "of_nulls": ("not_null: {COLUMN: id}", "(null, 'b', 0, null, true, '+I', 1)"),
    "of_some_nulls": (
        "not_null: {COLUMN: id, config: {where: rows.valid_from > 3}}",
        "(null, 'b', 4, null, true, '+I', 1)",
    ),
    "of_ids": ("unique: {COLUMN: id}", "(1, 'b', -1, 0, false, '+I', 1)"),
    "of_signs": (
        "accepted_values: {COLUMN: sign, VALUES: [1, -1], quote: false}",
        "(2, 'b', 0, null, true, '+I', 2)",
    ),
    "of_kinds": (
        "accepted_values: {COLUMN: row_kind, VALUES: ['+I', '-D']}",
        "(2, 'b', 0, null, true, null, 1), (3, 'c', 0, null, true, '+X', 1)",
    ),
    "below_zero": ("not_negative: {COLUMN: valid_from}", "(2, 'b', -1, null, true, '+I', 1)"),
    "of_latest": (
        "latest_row_is_current: {KEY: [id], deletes: false}",
        "(2, 'b', 0, 5, false, '+I', 1), (null, 'c', null, null, null, '+I', 1)",
    ),
    "of_current": (
        "one_current_per_key: {KEY: [id]}",
        "(null, 'b', 0, null, true, '+I', 1), (null, 'c', 1, null, true, '+I', 1)",
    ),
    "of_changes": ("signs_balance: {CHANGE: name}", "(2, 'b', 0, null, true, '-U', 1)"),
    "of_pairs": (
        "unique_combination: {COLUMNS: [id, valid_to]}",
        "(null, 'b', 0, null, true, '+I', 1), (null, 'c', 0, null, true, '+I', 1)",
    ),
    "of_times": ("valid_from_before_valid_to: {}", "(2, 'b', 3, 3, false, '+I', 1)"),
}
LOTS = 3  # of wrong rows, so that each test passes beside others that fail
NAMES = {
    "COLUMN": "column_name",
    **{"VALUES": "values", "KEY": "key", "CHANGE": "change_key", "COLUMNS": "columns"},
}


def declared(tests: Mapping[str, str]) -> str:
    """YAML of data tests of the model `rows`, each with its name and severity warn."""
    lines = ["models:", "  - name: rows", "    data_tests:"]
    for name, test in tests.items():
        kind, _, arguments = test.partition(": ")
        for short, word in NAMES.items():
            arguments = arguments.replace(f"{short}:", f"{word}:")
        inside, _, config = arguments.strip("{}").partition(", config: ")
        lines += [f"      - {kind}:", f"          name: {name}"]
        if inside:
            lines.append(f"          arguments: {{{inside}}}")
        where = config.strip("{}") + ", " if config else ""
        lines.append(f"          config: {{{where}severity: warn}}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def asked() -> list[tuple[int, int]]:
    """Of each query that answered tests together: tests that it was asked for, and passed."""
    return []


@pytest.fixture(scope="module")
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    macros = [REPO / "tests" / "dbt" / "generic" / f"{name}.sql" for name in GENERIC]
    made = make_project(
        {"dbt_project.yml": PROJECT, "models/_models.yml": "models: []"}
        | {f"macros/{path.name}": path.read_text("utf-8") for path in macros}
    )
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


def failures(project: DbtProject, *command: str, **vars: object) -> dict[str, int]:
    """Data tests that found something, and how many failures."""
    done = project.run(*command, vars=vars, expect_ok=None)
    found = {
        name: result.failures if result.status == "warn" else str(result.status)
        for name, result in done.results.items()
        if result.status in ("warn", "fail", "error")
    }
    return found


def model_of(rows: str, materialized: str = "table") -> dict[str, str]:
    return {"models/rows.sql": MODEL.replace("ROWS", rows) % materialized}


@pytest.mark.parametrize("materialized", ["table", "view"])
def test_tests_together_find_what_each_finds_by_itself(
    project: DbtProject, asked: list[tuple[int, int]], materialized: str
) -> None:
    tests = {name: test for name, (test, _) in TESTS.items()}
    project.write({"models/_models.yml": declared(tests), **model_of(RIGHT, materialized)})
    assert failures(project, "build", test_again=True) == {}
    assert not asked
    # signs_balance and unique_combination group by other columns
    others = {"of_changes", "of_pairs"}
    for lot in range(LOTS):
        wrong = dict(list(TESTS.items())[lot::LOTS])
        rows = ", ".join([RIGHT, *(rows for _, rows in wrong.values())])
        project.write(model_of(rows, materialized))
        asked.clear()
        together = failures(project, "build")
        assert len(asked) == 1
        counted, passed = asked[0]
        assert counted == len(tests) - len(others)
        assert passed == counted - len(together.keys() - others)
        assert together == failures(project, "test")
        assert len(asked) == 1
        assert wrong.keys() <= together.keys()


def test_a_condition_that_cannot_be_asked_leaves_the_others_to_themselves(
    project: DbtProject, asked: list[tuple[int, int]]
) -> None:
    tests = {name: test for name, (test, _) in TESTS.items()}
    tests["of_nothing"] = "not_null: {COLUMN: id, config: {where: nothing > 1}}"
    project.write({"models/_models.yml": declared(tests), **model_of(RIGHT, "view")})
    assert failures(project, "build") == {"of_nothing": "error"}
    assert asked == [(len(tests) - 2, 0)]


def test_a_test_that_the_project_redefines_is_its_own_query(project: DbtProject) -> None:
    redefined = """
        {% macro default__test_not_null(model, column_name) %}
        select * from {{ model }} where {{ column_name }} = 1
        {% endmacro %}
        {% macro default__test_unique(model, column_name) %}
        select {{ column_name }} from {{ model }} where {{ column_name }} is null
        {% endmacro %}
    """
    tests = {name: TESTS[name][0] for name in ("of_nulls", "of_some_nulls", "of_ids", "of_signs")}
    project.write({"macros/redefined.sql": redefined})
    project.write({"models/_models.yml": declared(tests), **model_of(RIGHT)})
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
