"""Models that tell by themselves what is new: what their later runs leave out is warned of, or
refused where it would be lost at once."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import DbtProject
from tests.support.small_source import project_with_source

ALL = "select id, v from {{ source('src', 'x') }}"
NEWEST = "what lies behind its newest row is taken for read"
BRANCH = "its later runs read what a branch of is_incremental() lets in"
KEYED = "{{ config(materialized='incremental', unique_key='id') }}"
ADDS = "{{ config(materialized='incremental') }}"
LATER = "{% if is_incremental() %} where v > 1 {% endif %}"
# model -> its text, and what the run warns of
MODELS = {
    "by_macro": (f"{ADDS}{ALL} {{{{ since('v') }}}}", NEWEST),
    "asked_before": (
        "{{ config(materialized='incremental') }} {%- if is_incremental() -%}"
        "{%- set last = run_query('select max(v) from ' ~ this).columns[0].values()[0] -%}"
        "{%- endif -%}" + ALL + " {% if is_incremental() %} where v > {{ last }} {% endif %}",
        NEWEST,
    ),
    "by_format": (
        "{{ config(materialized='incremental') }}{% set last = 'select max(v) from {}'"
        ".format(this) %}" + ALL + " {% if is_incremental() %} where v > ({{ last }}) {% endif %}",
        NEWEST,
    ),
    "last_of_all": (
        f"{ADDS}{ALL} {{% if is_incremental() %}} where v > (select v from {{{{ this }}}} "
        "order by v desc limit 1) {% endif %}",
        NEWEST,
    ),
    "overwritten": (
        "{{ config(materialized='incremental', incremental_strategy='insert_overwrite', "
        f"partition_by='v') }}}}{ALL} {{% if is_incremental() %}} where v >= "
        "(select max(v) from {{ this }}) {% endif %}",
        NEWEST,
    ),
    "a_part": (
        KEYED + "select id, count(*) as v from {{ source('src', 'x') }} " + LATER + " group by id",
        BRANCH,
    ),
    "meant": (KEYED.replace(") }}", ", partial_runs=true) }}") + ALL + LATER, ""),
    "rows_without": (
        f"{ADDS}{ALL} as x {{% if is_incremental() %}} left anti join {{{{ this }}}} as held "
        "on held.id = x.id {% endif %}",
        "",
    ),
    "news": (ADDS + "select id, v from {{ new_rows(source('src', 'x')) }} " + LATER, ""),
    "commented": (KEYED + ALL + "{# {% if is_incremental() %} where v > 1 {% endif %} #}", ""),
}
REPLACED = (
    "{{ config(materialized='incremental', incremental_strategy='replace_all') }}" + ALL + LATER
)
SINCE = """
    {% macro since(column) %}
        {% if is_incremental() %}
            where {{ column }} > (select max({{ column }}) from {{ this }})
        {% endif %}
    {% endmacro %}
"""


def test_what_later_runs_leave_out_is_warned_of_or_refused(
    make_project: Callable[..., DbtProject],
) -> None:
    files = {f"models/{name}.sql": text for name, (text, _) in MODELS.items()}
    files |= {"models/replaced.sql": REPLACED, "macros/since.sql": SINCE}
    project = project_with_source(make_project, files, "insert into src.x values (1, 1), (2, 2)")
    outcome = project.run("run", expect_ok=False)
    for name, (_, warned) in MODELS.items():
        found = [text for text in (NEWEST, BRANCH) if f" {name}: {text}" in outcome.log]
        assert found == ([warned] if warned else []), name
        assert outcome.results[name].status == "success", name
    message = outcome.results["replaced"].message
    assert "replaced: strategy 'replace_all' leaves the rows alone that a run gives" in message
    project.query("insert into src.x values (1, 0), (2, 0)")
    project.run("run", "-s", "a_part")
    held = project.query("select id, v from dw.a_part order by id")
    assert held == [{"id": 1, "v": 1}, {"id": 2, "v": 1}]  # of two rows each
