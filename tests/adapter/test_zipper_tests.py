"""The generic tests of zippers: each finds what it is for, and lets sound versions pass."""

from __future__ import annotations

from tests.support.dbt_project import REPO

TESTS = (
    "continuous_validity",
    "latest_row_is_current",
    "no_overlap",
    "one_current_per_key",
    "valid_from_before_valid_to",
)
# table -> (rows of key, day of valid_from, day of valid_to, is_current; the tests that fail)
TABLES = {
    "sound": (
        "(1, 1, 3, false), (1, 3, null, true), (2, 1, null, true), (null, 1, null, true)",
        set(),
    ),
    "gone": ("(1, 1, 3, false)", set()),
    "empty_before_another": (
        "(1, 1, 3, false), (1, 1, 1, false), (1, 3, null, true)",
        {"valid_from_before_valid_to"},
    ),
    "overlapping": (
        "(1, 1, 4, false), (1, 3, null, true)",
        {"no_overlap", "continuous_validity"},
    ),
    "with_a_gap": ("(1, 1, 2, false), (1, 3, null, true)", {"continuous_validity"}),
    "twice_current": (
        "(1, 1, null, true), (1, 3, null, true)",
        {"one_current_per_key", "no_overlap", "continuous_validity"},
    ),
    "old_one_current": (
        "(1, 1, null, true), (1, 3, 5, false)",
        {"latest_row_is_current", "no_overlap", "continuous_validity"},
    ),
    "backwards": (
        "(1, 5, 3, false), (1, 6, null, true)",
        {"valid_from_before_valid_to", "continuous_validity"},
    ),
    "ended_but_current": ("(1, 1, 3, true)", {"valid_from_before_valid_to"}),
    "not_current_but_open": (
        "(1, 1, null, false)",
        {"valid_from_before_valid_to"},
    ),
    "without_a_beginning": (
        "(1, cast(null as int), null, true)",
        {"valid_from_before_valid_to"},
    ),
}


def test_each_finds_what_it_is_for(make_project) -> None:
    files = {
        f"macros/{name}.sql": (REPO / f"tests/dbt/generic/{name}.sql").read_text(encoding="utf-8")
        for name in TESTS
    }
    followed = "macros/quality/followed_versions.sql"
    files[followed] = (REPO / followed).read_text(encoding="utf-8")
    tables = []
    for table in TABLES:
        tests = []
        for name in TESTS:
            asked = "" if name == "valid_from_before_valid_to" else ", arguments: {key: [k]}"
            tests.append(f"{{{name}: {{name: {name}__{table}{asked}}}}}")
        tables.append(f"{{name: {table}, data_tests: [{', '.join(tests)}]}}")
    files["models/sources.yml"] = f"sources: [{{name: src, tables: [{', '.join(tables)}]}}]"
    project = make_project(files)
    project.query("create namespace if not exists src")
    for table, (rows, _) in TABLES.items():
        project.query(
            f"create table src.{table} using iceberg as select k, "
            "timestamp'2026-03-01' + make_dt_interval(begin) as valid_from, "
            "timestamp'2026-03-01' + make_dt_interval(ends) as valid_to, is_current "
            f"from values {rows} as t (k, begin, ends, is_current)"
        )

    outcome = project.run("test", expect_ok=False)

    failed = {name for name, status in outcome.statuses().items() if status == "fail"}
    assert failed == {f"{name}__{table}" for table, (_, names) in TABLES.items() for name in names}
    assert len(outcome.statuses()) == len(TABLES) * len(TESTS)
