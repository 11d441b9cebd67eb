"""Statements and types that Spark knows and tables, views or Iceberg's parser don't: each refusal
is a sentence that names what to do."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject

TABLE = "{{ config(materialized='table') }}"
FUNCTION = "create temporary function twice(x int) returns int return 2 * x"
TIME = "A table or view holds no column of the type time; store it as text, as by "
INTERVAL = "A table holds no column of the type interval; store it as a number, such as "
# model -> its text, and what refuses it
REFUSED = {
    "time_of_day": (f"{TABLE} select time '12:00:00' as t", TIME),
    "shown_time": ("select time '12:00:00' as t", TIME),
    "span": (f"{TABLE} select make_interval(1, 2) as i", INTERVAL),
    "shown_span": ("select make_interval(1, 2) as i", INTERVAL),
    "function_of_sql": (
        "{{ config(materialized='table', pre_hook='" + FUNCTION + "') }} select twice(1) as id",
        "A function of SQL that takes parameters (create temporary function f(x int) ..) can't be "
        "made here: Iceberg's parser doesn't read them. Write a macro of dbt in its place.",
    ),
    "closed": (
        "select 1 as id; -- all",
        "closed: its SQL has a semicolon, and the query of a view stands within those of its "
        "readers: take the semicolon out.",
    ),
}
BUILT = {
    "quoted": "select ';' as a /* ; */",
    "closed_table": f"{TABLE} select 1 as id;",
    "elsewhere": "{{ config(materialized='table', database='other') }} select 1 as id",
    "by_name": "{{ config(materialized='table', database='lake') }} select 1 as id",
}


def test_what_cannot_be_built_is_refused_in_a_sentence(
    make_project: Callable[..., DbtProject],
) -> None:
    texts = {name: text for name, (text, _) in REFUSED.items()} | BUILT
    project = make_project({f"models/{name}.sql": text for name, text in texts.items()})
    outcome = project.run("run", expect_ok=False)
    for name, (_, message) in REFUSED.items():
        assert message in outcome.results[name].message, name
    assert [outcome.results[name].status for name in BUILT] == ["success"] * len(BUILT)
    assert "elsewhere: its config has database, which nothing goes by" in outcome.log
    assert "by_name: its config has" not in outcome.log
