"""Python models whose strategy adds, or whose fold counts, and what they ask for to find what is
new."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.small_source import project_with_source

ADDS = "materialized='incremental', incremental_strategy='append'"
COUNTS = "materialized='folded', unique_key='id', fold={'aggregates': {'v': 'sum'}}"
KEEPS = "materialized='folded', unique_key='id', fold={'sequence': 'v'}"
# what they return -> rows of the source that a model which adds has after two runs
RIGHT = {
    "new": ("dbt.new_rows(dbt.source('src', 'x'))", 3),
    "itself": ("dbt.source('src', 'x').where('v > 1' if dbt.is_incremental else 'true')", 3),
}
BARE = "dbt.source('src', 'x')"


def model(config: str, rows: str) -> str:
    return f"def model(dbt, session):\n    dbt.config({config})\n    return {rows}\n"


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def test_a_model_that_asks_for_nothing_new_is_refused_where_each_run_would_add_all_again(project):
    small = project(
        {
            "models/added.py": model(ADDS, BARE),
            "models/counted.py": model(COUNTS, BARE),
            "models/kept.py": model(KEEPS, BARE),
            "models/meant.py": model(f"{ADDS}, appends_all_rows=True", BARE),
            **{f"models/{name}.py": model(ADDS, rows) for name, (rows, _) in RIGHT.items()},
        },
        "insert into src.x values (1, 1), (2, 1)",
    )

    outcome = small.run("run", expect_ok=False)
    small.query("insert into src.x values (2, 2)")
    small.run("run", "--exclude", "added", "counted")

    assert "added: strategy 'append' adds all that it gives to what it holds" in outcome.log
    assert "counted gives its fold all rows of its inputs to count" in outcome.log
    assert outcome.log.count("set appends_all_rows=true") == 2 * outcome.log.count(
        "counted gives its fold"
    )
    for name, (_, rows) in RIGHT.items():
        assert small.column(f"select count(*) from dw.{name}") == [rows]
    assert small.column("select count(*) from dw.meant") == [2 + 3]
    assert small.column("select v from dw.kept order by id") == [1, 2]


def test_no_rows_take_the_place_of_those_that_a_model_held(project):
    above = "dbt.source('src', 'x').where('v > ' + Path(__file__).with_name('least').read_text())"
    small = project(
        {
            "models/open.py": "from pathlib import Path\n\n"
            + model("materialized='incremental', incremental_strategy='replace_all'", above),
            "models/least": "0",
        },
        "insert into src.x values (1, 1), (2, 2)",
    )
    for least, held in ((0, [1, 2]), (1, [2]), (5, []), (0, [1, 2])):
        small.write({"models/least": str(least)})
        small.run("run")
        assert sorted(small.column("select id from dw.open")) == held


def test_rows_that_a_run_did_not_ask_for_are_new_in_the_next(project):
    branched = """
        def model(dbt, session):
            dbt.config({config})
            rows = dbt.source("src", "x")
            if dbt.is_incremental and rows.count() == 2:
                return rows{branch}
            return dbt.new_rows(rows)
    """
    small = project(
        {
            "models/waits.py": branched.format(config=ADDS, branch=".limit(0)"),
            "models/waits_to_count.py": branched.format(config=COUNTS, branch=".limit(0)"),
            "models/adds.py": branched.format(config=ADDS, branch=".where('id > 1')"),
            "models/of_all.py": """
                def model(dbt, session):
                    dbt.config(
                        materialized="incremental", incremental_strategy="merge", unique_key="id"
                    )
                    return dbt.source("src", "x")  # the rates are few: no need of dbt.new_rows
            """,
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 2)")
    results = small.run("run", expect_ok=False).results
    small.query("insert into src.x values (3, 3)")
    small.run("run")

    assert {results[name].message for name in ("waits", "waits_to_count")} == {"nothing new"}
    assert "adds adds rows in a run that asked for nothing new, though" in results["adds"].message
    for name in results:
        assert small.column(f"select id from dw.{name} order by id") == [1, 2, 3], name
