"""A model that reads by bare references is as exact as one that asks for its reads by macros."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.small_source import project_with_source

pytestmark = pytest.mark.in_turn

ADDS = "{{ config(materialized='incremental') }}\n"


@pytest.fixture
def project(make_project):
    return partial(project_with_source, make_project)


def test_a_bare_read_beside_new_rows_of_the_same_table_reads_all_its_rows(project):
    small = project(
        {
            "models/before.sql": ADDS
            + """
                select new.id, whole.total
                from (select count(*) as total from {{ source('src', 'x') }}) as whole
                cross join {{ new_rows(source('src', 'x')) }} as new
            """,
            "models/behind.sql": ADDS
            + """
                select id, (select count(*) from {{ source('src', 'x') }}) as total
                from {{ new_rows(source('src', 'x')) }}
            """,
            "models/changed.sql": ADDS
            + """
                select id, (select count(*) from {{ source('src', 'x') }}) as total
                from {{ new_changes(source('src', 'x')) }}
            """,
        },
        "insert into src.x values (1, 0), (2, 0), (3, 0)",
    )
    small.run("run")
    small.query("insert into src.x values (4, 0)")
    small.run("run")
    for model in ("before", "behind", "changed"):
        rows = small.query(f"select id, total from dw.{model} order by id")
        assert [(row["id"], row["total"]) for row in rows] == [(1, 3), (2, 3), (3, 3), (4, 4)]


def test_a_view_over_a_table_whose_new_rows_are_read_has_all_its_rows(project):
    small = project(
        {
            "models/newest.sql": "select id, max(v) as v from {{ source('src', 'x') }} group by id",
            "models/joined.sql": ADDS
            + """
                select
                    new.id,
                    new.v,
                    newest.v as newest,
                    (select count(*) from {{ ref('newest') }}) as n
                from {{ new_rows(source('src', 'x')) }} as new
                inner join {{ ref('newest') }} on newest.id = new.id
            """,
        },
        "insert into src.x values (1, 9), (2, 9), (3, 9)",
    )
    small.run("run")
    small.query("insert into src.x values (1, 5)")
    small.run("run")
    assert small.query("select * from dw.joined where v = 5") == [
        {"id": 1, "v": 5, "newest": 9, "n": 3}
    ]


def test_a_bare_view_keeps_its_name_and_takes_any_alias(project):
    small = project(
        {
            "models/latest.sql": "select id, v from {{ source('src', 'x') }}",
            "models/over_latest.sql": "select * from {{ ref('latest') }} where latest.id < 3",
            "models/named.sql": """
                {{ config(materialized='table') }}
                with first as (select latest.id, latest.v from {{ ref('latest') }}),
                second as (select l.id from {{ ref('latest') }} l),
                third as (select l.id from {{ ref('over_latest') }} -- a comment
                    as l),
                fourth as (select id from ({{ ref('latest') }}))
                select first.id from first
                inner join second using (id)
                inner join third using (id)
                inner join fourth using (id)
                inner join {{ ref('latest') }} using (id)
                left join {{ ref('over_latest') }} on over_latest.id = latest.id
                where latest.v > 0
                union all
                select max(id) from {{ ref('latest') }}
            """,
        },
        "insert into src.x values (1, 1), (2, 1), (3, 1)",
    )
    small.run("run")
    assert sorted(small.column("select id from dw.named")) == [1, 2, 3]


def test_a_commit_records_what_bare_references_read(project):
    small = project(
        {
            "models/x_view.sql": "select id from {{ source('src', 'x') }}",
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            " select id from {{ ref('x_view') }}",
            "models/stored.sql": "{{ config(materialized='table') }}"
            " select * from {{ ref('passed_on') }}",
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    read = small.summary("dw.stored")["dbt.input.src.x"]
    assert small.column("select snapshot_id from src.x.refs") == [int(read)]


@pytest.mark.parametrize("macro", ["new_rows", "new_changes"])
def test_an_ephemeral_model_that_asks_for_new_rows_is_refused(project, macro):
    small = project(
        {
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            f" select id from {{{{ {macro}(source('src', 'x')) }}}}",
            "models/stored.sql": ADDS + "select * from {{ ref('passed_on') }}",
        },
        "insert into src.x values (1, 1)",
    )
    outcome = small.run("parse", "--write-json", expect_ok=False)
    assert f"{macro} would read all rows in each run" in f"{outcome.log} {outcome.exception}"


def test_a_python_model_reads_a_view_over_the_pinned_tables_and_sees_it_change(project):
    small = project(
        {
            "models/newest.sql": "select max(id) as newest from {{ source('src', 'x') }}",
            "models/kept.py": """
                def model(dbt, session):
                    dbt.config(materialized="incremental", incremental_strategy="append")
                    newest = dbt.ref("newest")
                    if dbt.is_incremental and dbt.inputs_unchanged():
                        return None
                    return newest
            """,
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.run("run", "--select", "kept")
    small.query("insert into src.x values (2, 1)")
    small.run("run", "--select", "kept")
    assert sorted(small.column("select newest from dw.kept")) == [1, 2]
    assert "dbt.input.src.x" in small.summary("dw.kept")


def test_a_hook_names_tables_and_views_as_they_are(project):
    small = project(
        {
            "models/log.sql": "{{ config(materialized='table') }} select 0 as n",
            "models/hooked.sql": """
                {{ config(
                    materialized='table', post_hook="insert into {{ ref('log') }} values (1)"
                ) }}
                select n from {{ ref('log') }}
            """,
        }
    )
    small.run("run")
    assert sorted(small.column("select n from dw.log")) == [0, 1]
    assert small.column("select n from dw.hooked") == [0]


def test_what_a_view_outside_the_project_has_is_read_in_every_run(project):
    small = project(
        {
            "models/kept.sql": "{{ config(materialized='incremental', incremental_strategy='merge',"
            " unique_key='id') }} select id, v from {{ pinned(source('src', 'plain_view')) }}"
        },
        "create view src.plain_view as select * from src.x",
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.query("insert into src.x values (2, 1)")
    small.run("run")
    assert sorted(small.column("select id from dw.kept")) == [1, 2]


@pytest.mark.parametrize("before", ["ephemeral", "table", "view"])
def test_a_view_over_an_ephemeral_model_reads_what_that_reads(project, before):
    passed_on = "{{{{ config(materialized='{}') }}}} select id from {{{{ source('src', 'x') }}}}"
    small = project(
        {
            "models/passed_on.sql": passed_on.format(before),
            "models/inner_view.sql": "select id from {{ ref('passed_on') }}",
            "models/outer_view.sql": "select id from {{ pinned(ref('inner_view')) }}",
            "models/stored.sql": "{{ config(materialized='table') }}"
            " select * from {{ ref('outer_view') }}",
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    small.write({"models/passed_on.sql": passed_on.format("ephemeral")})
    small.query("insert into src.x values (2, 1)")
    small.run("run")
    assert sorted(small.column("select id from dw.stored")) == [1, 2]
    assert sorted(small.column("select id from dw.outer_view")) == [1, 2]
    assert "dbt.input.src.x" in small.summary("dw.stored")
    assert "dbt.input.dw.passed_on" not in small.summary("dw.stored")


def test_new_rows_of_a_view_over_an_ephemeral_model_need_both_to_be_row_wise(project):
    passed_on = "{{{{ config(materialized='ephemeral', meta={}) }}}}"
    passed_on += " select id from {{{{ source('src', 'x') }}}}"
    small = project(
        {
            "models/passed_on.sql": passed_on.format({}),
            "models/each_row.sql": "{{ config(meta={'row_wise': true}) }}"
            " select id from {{ ref('passed_on') }}",
            "models/added.sql": ADDS + "select id from {{ new_rows(ref('each_row')) }}",
        },
        "insert into src.x values (1, 1)",
    )
    outcome = small.run("run", expect_ok=False)
    assert "passed_on is an ephemeral model whose rows don't" in outcome.results["added"].message
    small.write({"models/passed_on.sql": passed_on.format({"row_wise": True})})
    small.run("run")
    small.query("insert into src.x values (2, 1)")
    assert small.run("run").results["added"].message == "+1 rows"


WRONG = {
    "adding": (
        ADDS + "select id from {{ source('src', 'x') }} -- {{ this }}",
        "read what is new by",
    ),
    "adding_new": (
        "{{ config(materialized='incremental', incremental_strategy='append_new_rows') }}"
        " select id from {{ pinned(source('src', 'x')) }}",
        "set appends_all_rows=true",
    ),
    "of_ephemeral": (
        ADDS + "select id from {{ new_rows(ref('passed_on')) }}",
        "new_rows: passed_on is ephemeral",
    ),
    "two_ranges": (
        ADDS
        + """
            select count(*) from {{ changes_between(source('src', 'x'), var('old'), var('new')) }}
            union all select id from {{ new_rows(source('src', 'x')) }}
        """,
        "new_rows: two_ranges reads other changes of src.x as well",
    ),
    "counted": (
        ADDS + "select v as id, count(*) as n from {{ new_rows(source('src', 'x')) }} group by v",
        "aggregates the new rows alone",
    ),
    "merged_counts": (
        "{{ config(materialized='incremental', unique_key='v') }}"
        " with news as (select * from {{ new_changes(source('src', 'x')) }})"
        " select v, sum(sign) as n from news group by v",
        "say partial_runs=true",
    ),
}
PARTIAL = ADDS.replace("') }}", "', partial_runs=true) }}")


def test_what_would_add_rows_again_is_refused(project):
    small = project(
        {
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            " select id from {{ source('src', 'x') }}",
            "models/meant.sql": "{{ config(materialized='incremental', appends_all_rows=true) }}"
            " select id from {{ source('src', 'x') }}",
            "models/later.sql": ADDS
            + """
                select id from {{ source('src', 'x') }}
                {% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
            """,
            "models/counts_of_runs.sql": PARTIAL
            + "select count(*) as n from {{ new_rows(source('src', 'x')) }}",
            **{f"models/{name}.sql": sql for name, (sql, _) in WRONG.items()},
        },
        "insert into src.x values (1, 1)",
        "insert into src.x values (2, 1)",
    )
    old, new = small.column("select snapshot_id from src.x.snapshots order by committed_at")
    old_to_new = {"old": old, "new": new}
    outcome = small.run("run", vars=old_to_new, expect_ok=False)
    assert "later: what lies behind its newest row is taken for read" in outcome.log
    first = outcome.results
    small.query("insert into src.x values (3, 1)")
    second = small.run("run", vars=old_to_new, expect_ok=False).results
    for name, (_, message) in WRONG.items():
        assert message in second[name].message, name
        assert message in first[name].message or name == "two_ranges", name
    assert sorted(small.column("select id from dw.meant")) == [1, 1, 2, 2, 3]
    assert sorted(small.column("select id from dw.later")) == [1, 2, 3]
    assert sorted(small.column("select n from dw.counts_of_runs")) == [1, 2]


def test_a_view_shows_what_is_there_and_records_nothing(project):
    small = project(
        {
            "models/shown.sql": "select id from {{ pinned(source('src', 'x')) }}",
            "models/each_row.sql": "{{ config(meta={'row_wise': true}) }}"
            " select id from {{ pinned(source('src', 'x')) }}",
            "models/stored.sql": "{{ config(materialized='table') }}"
            " select id from {{ ref('shown') }}",
            "models/added.sql": ADDS + "select id from {{ new_rows(ref('each_row')) }}",
        },
        "insert into src.x values (1, 1)",
    )
    outcome = small.run("run", expect_ok=False)
    assert "each_row is declared row-wise, and reads" in outcome.results["added"].message
    small.query("insert into src.x values (2, 1)")
    assert sorted(small.column("select id from dw.shown")) == [1, 2]
    small.run("run", "-s", "stored")
    assert sorted(small.column("select id from dw.stored")) == [1, 2]
    assert "dbt.input.src.x" in small.summary("dw.stored")


@pytest.mark.parametrize("macro", ["new_rows", "new_changes"])
def test_a_view_that_asks_for_new_rows_is_refused(project, macro):
    small = project(
        {
            "macros/news.sql": f"{{% macro news(of) %}}{{{{ {macro}(of) }}}}{{% endmacro %}}",
            "models/shown.sql": f"select id from {{{{ {macro}(source('src', 'x')) }}}}",
        },
        "insert into src.x values (1, 1)",
    )
    outcome = small.run("parse", "--write-json", expect_ok=False)
    reported = f"is a view, so no commit records what it has read and {macro} would read all rows"
    assert reported in f"{outcome.log} {outcome.exception}"
    small.write({"models/shown.sql": "select id from {{ news(source('src', 'x')) }}"})
    assert reported in small.run("run", expect_ok=False).log


def test_a_view_named_in_a_comment_or_a_text_is_read_nowhere(project):
    small = project(
        {
            "models/shown.sql": "select id from {{ source('src', 'x') }}\nwhere id > 0",
            "models/stored.sql": """
                -- depends_on: {{ ref('shown') }}
                {{ config(materialized='table') }}
                /* of {{ ref('shown') }} */
                select id, '{{ ref("shown") }}' as origin
                from {{ ref('shown') }} -- {{ ref('shown') }}
            """,
        },
        "insert into src.x values (1, 1)",
    )
    small.run("run")
    assert small.query("select * from dw.stored") == [{"id": 1, "origin": "dw.shown"}]


def test_a_model_over_an_ephemeral_model_is_rebuilt_where_an_input_was_rewritten(project):
    folded = (
        "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'v'}"
        "%s) }} select id, v from {{ new_rows(source('src', 'x')) }}"
        " where id in (select id from {{ ref('passed_on') }})"
    )
    added = (
        "{{ config(materialized='incremental', incremental_strategy='append_new_rows',"
        " on_definition_change='rebuild') }} with passed as (select id from {{ ref('passed_on') }})"
        " select id, %s as v from {{ new_rows(source('src', 'x')) }} inner join passed using (id)"
    )
    small = project(
        {
            "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
            " select id from {{ source('src', 'x') }} where id > 1",
            "models/kept.sql": folded % "",
            "models/added.sql": added % "v",
        },
        "insert into src.x values (1, 1), (2, 1), (3, 1)",
    )
    small.run("run")
    small.query("delete from src.x where id = 3")
    small.run("run")
    for model in ("kept", "added"):
        assert small.query(f"select id, v from dw.{model}") == [{"id": 2, "v": 1}], model
    small.write({"models/added.sql": added % "10 * v"})
    small.run("run")
    assert small.query("select id, v from dw.added") == [{"id": 2, "v": 10}]


BY_HAND = {
    "table_by_hand": (
        "{{ config(materialized='table') }} select id from src.x",
        "names src.x by hand",
        "write source('src', 'x') instead",
    ),
    "built_by_hand": (
        "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}"
        " with a as (select id from {{ source('src', 'x') }}) select id from a"
        " where exists (select 1 from lake.dw.stored as found where found.id = a.id)",
        "names dw.stored by hand",
        "write ref('stored') instead",
    ),
    "put_together": (
        "{{ config(materialized='table') }} -- depends_on: {{ ref('shown') }}\n"
        "select id from {{ ref('shown').schema ~ '.' ~ ref('shown').identifier }}",
        "names dw.shown by hand",
        "write ref('shown') instead",
    ),
    "asked_by_hand": (
        "{{ config(materialized='table') }} select id, "
        "{{ run_query('select max(id) from src.x').columns[0].values()[0] if execute }} as n "
        "from {{ source('src', 'x') }}",
        "names src.x by hand",
        "write source('src', 'x') instead",
    ),
    "through_a_view": (
        ADDS + "select id, (select count(*) from {{ source('src', 'plain_view') }}) as n"
        " from {{ new_rows(source('src', 'x')) }}",
        "src.plain_view is a view over src.x, whose new rows the model reads too",
        "make it a view of the project",
    ),
}


def test_relations_that_a_stored_model_names_by_hand_are_refused(project):
    small = project(
        {
            "models/stored.sql": "{{ config(materialized='table') }}"
            " select id from {{ source('src', 'x') }}",
            "models/shown.sql": "select id from src.x",
            "models/of_itself.sql": ADDS
            + """
                with x as (select id from {{ new_rows(source('src', 'x')) }})
                select id, (select count(*) from range(3)) as n from x as t
                {% if is_incremental() %} where id not in (select id from {{ this }}) {% endif %}
            """,
            "models/asked.sql": """
                {{ config(materialized='incremental', appends_all_rows=true) }}
                {% set x = source('src', 'x') %}
                {% set newest = run_query('select max(id) from ' ~ x).columns[0].values()[0]
                    if execute else 0 %}
                select {{ newest }} as newest
            """,
            **{f"models/{name}.sql": sql for name, (sql, *_) in BY_HAND.items()},
        },
        "create view src.plain_view as select * from src.x",
        "insert into src.x values (1, 1)",
    )
    small.run("run", "-s", "stored", "shown", "of_itself", "through_a_view", "asked")
    small.query("insert into src.x values (2, 1)")
    results = small.run("run", expect_ok=False).results
    for name, (_, *messages) in BY_HAND.items():
        for message in messages:
            assert message in results[name].message, name
    assert sorted(small.column("select id from dw.of_itself")) == [1, 2]
    assert sorted(small.column("select newest from dw.asked")) == [1, 2]


@pytest.mark.parametrize(
    "config", ["materialized='table'", "materialized='incremental', incremental_strategy='merge'"]
)
def test_a_file_that_changed_is_news_for_a_model_that_reads_it(project, tmp_path, config):
    (tmp_path / "rates.v1").mkdir()  # a point in the path is no end of a schema's name
    file = tmp_path / "rates.v1" / "rate.json"
    file.write_text('{"id": 1, "rate": 10}\n')
    model = f"""
        {{{{ config({config}, unique_key='id') }}}}
        select x.id, x.v * file.rate as amount
        from {{{{ ref('kept') }}}} as x
        inner join json.`{file}` as file on x.id = file.id
    """
    small = project(
        {
            "models/kept.sql": "select id, v from {{ source('src', 'x') }}",
            "models/priced.sql": model,
        },
        "insert into src.x values (1, 2)",
    )
    small.run("run")
    assert small.column("select amount from dw.priced") == [20]
    file.write_text('{"id": 1, "rate": 30}\n')
    small.run("run")
    assert small.column("select amount from dw.priced") == [60]


def test_a_table_that_the_project_makes_is_no_source(make_project):
    project = make_project(
        {
            "models/sources.yml": "sources: [{name: dw, tables: [{name: made}, {name: other}]}]",
            "models/made.sql": "{{ config(materialized='table') }} select 1 as id",
            "models/beside.sql": "select id from {{ source('dw', 'made') }}",
            "models/right.sql": "select id from {{ ref('made') }}",
            "models/of_others.sql": "select id from {{ source('dw', 'other') }}",
        }
    )
    outcome = project.run("parse", "--write-json", expect_ok=False)
    assert str(outcome.exception).count("models/") == 1
    assert (
        "models/beside.sql: source('dw', 'made') is the table of made, which dbt wouldn't build "
        "first; write ref('made') instead."
    ) in str(outcome.exception)
