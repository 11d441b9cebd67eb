"""Views that aren't of the project: nobody records what was read of them, so no model adds what is
new there. Clones of clones are read as what they were made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial

import pytest

from tests.support.dbt_project import REPO, DbtProject
from tests.support.small_source import project_with_source

ADDS = "{{ config(materialized='incremental', incremental_strategy='append') }} "
MERGES = "{{ config(materialized='incremental', unique_key='id') }} "
SUMS = "{{ config(materialized='folded', unique_key='id', fold={'aggregates': {'v': 'sum'}}) }} "
LAST = "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'v'}) }} "
NEW = "select id, v from {{ new_rows(source('src', 'plain_view')) }}"
CHANGED = "select id, v from {{ new_changes(source('src', 'plain_view')) }}"
UNSEEN = "{{ unseen_rows(rows=new_rows(source('src', 'plain_view')), key='id', order_by='v') }}"
REFUSED = {
    "added": ADDS + NEW,
    "added_or_replaced": ADDS.replace("'append'", "'append_new_rows'") + NEW,
    "summed": SUMS + NEW,
}
UNKNOWN = {"followed": ADDS + CHANGED, "followed_by_merge": MERGES + CHANGED}
RIGHT = {
    "merged": MERGES + NEW,
    "latest": LAST + NEW,
    "unseen": ADDS + UNSEEN,
    "itself": ADDS
    + NEW
    + "{% if is_incremental() %} where id not in (select id from {{ this }}){% endif %}",
}
IN_PYTHON = """
    def model(dbt, session):
        dbt.config(materialized="incremental", incremental_strategy="append")
        return dbt.new_changes(dbt.source("src", "plain_view")).select("id", "v")
"""


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> Callable[..., DbtProject]:
    return partial(project_with_source, make_project)


@pytest.mark.in_turn
def test_what_is_new_in_a_view_outside_of_the_project_is_not_added(
    project: Callable[..., DbtProject],
) -> None:
    macros = (REPO / "macros/deduplication").glob("*.sql")
    models = REFUSED | UNKNOWN | RIGHT
    small = project(
        {f"macros/{path.name}": path.read_text(encoding="utf-8") for path in macros}
        | {f"models/{name}.sql": sql for name, sql in models.items()}
        | {"models/in_python.py": IN_PYTHON},
        "create view src.plain_view as select * from src.x",
        "insert into src.x values (1, 1)",
    )
    small.run("run", expect_ok=False)
    small.query("insert into src.x values (2, 2)")
    results = small.run("run", expect_ok=False).results
    for name in REFUSED:
        assert "would add all its rows again" in results[name].message, name
    for name in UNKNOWN:
        assert "is a view that isn't of the project, so what changed" in results[name].message, name
    assert "new_changes: src.plain_view is a view" in results["in_python"].message
    for name in RIGHT:
        assert small.column(f"select id from dw.{name} order by id") == [1, 2], name


@pytest.mark.in_turn
def test_the_changes_of_a_table_without_a_commit_are_none_until_it_has_rows(
    project: Callable[..., DbtProject],
) -> None:
    changes = "select id, v, row_kind, sign from {{ new_changes(source('src', 'x')) }}"
    small = project(
        {
            "models/log.sql": ADDS + changes,
            "models/totals.sql": SUMS.replace("'sum'}", "'sum'}, 'row_kind': 'row_kind'")
            + changes.replace(", sign", ""),
            "models/in_python.py": IN_PYTHON.replace("plain_view", "x"),
        }
    )
    small.run("run")
    assert small.query("select * from dw.log") == small.query("select * from dw.totals") == []
    small.query("insert into src.x values (1, 1), (2, 5)")
    small.run("run")
    small.query("delete from src.x where id = 2")
    small.run("run")
    kinds = [("+I", 1, 1), ("+I", 2, 5), ("-D", 2, 5)]
    rows = small.query("select row_kind, id, v from dw.log order by row_kind, id")
    assert [tuple(row.values()) for row in rows] == kinds
    assert small.query("select * from dw.totals where v <> 0") == [{"id": 1, "v": 1}]


TARGETS = """
    other:
      <<: *local
      schema: other
    third:
      <<: *local
      schema: third
"""


@pytest.mark.in_turn
def test_a_clone_of_a_clone_is_read_by_what_is_new_in_its_original(
    project: Callable[..., DbtProject],
) -> None:
    small = project(
        {
            "models/kept.sql": ADDS + "select id, v from {{ new_rows(source('src', 'x')) }}",
            "models/latest.sql": LAST + "select id, v from {{ new_rows(source('src', 'x')) }}",
            "models/passed_on.sql": ADDS + "select id from {{ new_rows(ref('kept')) }}",
            "models/followed.sql": ADDS + "select id, sign from {{ new_changes(ref('latest')) }}",
        },
        "insert into src.x values (1, 1)",
    )
    profiles = small.profiles / "profiles.yml"
    profiles.write_text(profiles.read_text(encoding="utf-8") + TARGETS, encoding="utf-8")
    cloned = ("kept", "latest")
    for target, chosen in (("local", "run"), ("other", "clone")):
        state = ("--state", str(small.root / "local")) if chosen == "clone" else ()
        small.run(chosen, "--target", target, "-s", *cloned, *state, "--write-json")
        small.run("compile", "--target", target, "--write-json")
        shutil.copytree(small.target, small.root / target)
    small.run("clone", "--target", "third", "-s", *cloned, "--state", str(small.root / "other"))
    readers = ("run", "--target", "third", "-s", "passed_on", "followed")
    small.run(*readers)
    small.query("insert into src.x values (2, 2)")
    small.run("run", "-s", *cloned)
    small.run(*readers)
    small.run(*readers)
    for name in ("passed_on", "followed"):
        assert small.column(f"select id from third.{name} order by id") == [1, 2], name
