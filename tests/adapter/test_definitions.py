"""Rows that were made by one definition of a model are never mixed with those of another."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.clock import goes_by_clock

from tests.support.dbt_project import REPO

pytestmark = pytest.mark.in_turn

SOURCES = """
    sources:
      - name: src
        tables: [{name: x}]
"""
FACTOR = "{% macro factor() %} {{ var('times', 1) }} {% endmacro %}"
MERGED = """
    {{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}
    select 1 as k, count(*) * {{ factor() }} as n from {{ pinned(source('src', 'x')) }}
"""


@pytest.fixture
def project(make_project):
    made = make_project(
        {
            "models/_sources.yml": SOURCES,
            "macros/factor.sql": FACTOR,
            "models/merged.sql": MERGED,
            "models/rebuilt.sql": MERGED.replace(
                "unique_key='k'", "unique_key='k', on_definition_change='rebuild'"
            ),
        }
    )
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int) using iceberg")
    made.query("insert into src.x values (1), (2)")
    made.run("run")
    return made


def numbers(project) -> list[int]:
    return [project.column(f"select n from dw.{model}")[0] for model in ("merged", "rebuilt")]


def test_another_sql_is_refused_or_builds_all_rows_again_as_configured(project):
    for model in ("merged", "rebuilt"):
        text = (project.root / f"models/{model}.sql").read_text()
        project.write({f"models/{model}.sql": text.replace("count(*)", "count(*) + 10")})
    outcome = project.run("run", expect_ok=False)
    assert outcome.results["merged"].message.count("\n") < 6
    assert (
        "merged (models/merged.sql): its rows were made by another definition: its SQL. Run it "
        "with --full-refresh" in outcome.results["merged"].message
    )
    assert numbers(project) == [2, 12]
    project.run("run", "--full-refresh")
    assert numbers(project) == [12, 12]
    assert set(project.run("run").statuses().values()) == {"success"}


def test_another_macro_or_var_is_a_difference_and_is_named(project):
    message = project.run("run", vars={"times": 3}, expect_ok=False).results["merged"].message
    assert "definition: var times (was 1, is 3)" in message
    assert numbers(project) == [2, 6]
    project.write({"macros/factor.sql": FACTOR.replace("var('times', 1)", "var('times', 1) + 1")})
    message = project.run("run", expect_ok=False).results["merged"].message
    assert "definition: the SQL of a macro that it calls." in message
    assert numbers(project) == [2, 4]


def test_rows_that_a_table_of_other_sql_holds_are_refused_once_it_is_incremental(project):
    table = MERGED.replace("materialized='incremental'", "materialized='table'")
    project.write({"models/merged.sql": table.replace("count(*)", "count(*) + 10")})
    project.run("run", "--select", "merged")
    project.write({"models/merged.sql": MERGED})
    message = project.run("run", expect_ok=False).results["merged"].message
    assert "its rows were made by another definition: its SQL" in message

    project.write({"models/merged.sql": table})
    project.run("run", "--select", "merged")
    project.write({"models/merged.sql": MERGED})
    project.run("run")
    assert numbers(project) == [2, 2]


@pytest.mark.parametrize("made_by", ["seed", "snapshot"])
def test_rows_of_a_seed_or_snapshot_are_not_those_of_a_model_of_its_name(make_project, made_by):
    files = {
        "seed": {"seeds/codes.csv": "k,n\n7,70\n"},
        "snapshot": {
            "snapshots/codes.sql": "{% snapshot codes %} {{ config(unique_key='k', "
            "strategy='check', check_cols='all') }} select 7 as k, 70 as n {% endsnapshot %}"
        },
    }[made_by]
    made = make_project({"models/_sources.yml": SOURCES} | files)
    made.query("create namespace if not exists src")
    made.query("create table src.x (id int) using iceberg")
    made.run("build")
    (made.root / next(iter(files))).unlink()
    made.write({"models/codes.sql": MERGED.replace("{{ factor() }}", "1")})
    refused = made.run("run", expect_ok=False).results["codes"].message
    assert f"made by another definition: a {made_by} of that name made them. Run it" in refused
    made.run("run", "--full-refresh")
    assert made.query("select k, n from dw.codes") == [{"k": 1, "n": 0}]
    made.run("run")


def test_a_table_that_may_be_merged_into_later_has_one_row_of_each_key(make_project):
    table = """
        {{ config(materialized='table', incremental_strategy='merge', unique_key='k') }}
        select k, n from values (1, 2), (1, 3) as given(k, n)
    """
    made = make_project({"models/t.sql": table})
    refused = made.run("run", expect_ok=False).results["t"].message
    assert "t: its query gives several rows of one unique_key, such as k = 1" in refused


def test_a_count_by_another_var_is_refused(make_project):
    macros = REPO / "macros" / "daily_cut"
    counted = make_project(
        {f"macros/{path.name}": path.read_text("utf-8") for path in macros.glob("*.sql")}
        | {
            "models/_sources.yml": SOURCES,
            "macros/sales.sql": """
                {% macro sales() %}{% do return({
                    'dimensions': ['city'], 'measures': {'sales': {'aggregate': 'count'}}
                }) %}{% endmacro %}
            """,
            "models/days.sql": """
                {{ config(
                    materialized='incremental',
                    incremental_strategy='replace_partitions',
                    partition_by='cut_date',
                ) }}
                with changes as (
                    select * from {{ changed_partitions(source('src', 'x'), by='cut_date') }}
                    where amount > {{ var('least', 0) }}
                )
                {{ daily_cut(sales(), from_cte='changes') }}
            """,
        }
    )
    counted.query("create namespace if not exists src")
    counted.query(
        "create table src.x (cut_date date, city string, amount int, sign int) using iceberg "
        "partitioned by (cut_date)"
    )
    counted.query("insert into src.x values (date '2026-03-01', 'Oslo', 5, 1)")
    counted.run("run")
    counted.query("insert into src.x values (date '2026-03-02', 'Oslo', 5, 1)")
    message = counted.run("run", vars={"least": 9}, expect_ok=False).results["days"].message
    assert "its rows were made by another definition: var least (was 0, is 9)" in message
    counted.run("run")
    assert counted.column("select sum(sales_change) from dw.days") == [2]

    # a measure that the days hold by its column anyway is no other count; another sum of it is
    sales = (counted.root / "macros/sales.sql").read_text()
    measures = "'sales': {'aggregate': 'count'}, 'last': {'aggregate': 'max', 'column': 'city'}"
    counted.write({"macros/sales.sql": sales.replace("'sales': {'aggregate': 'count'}", measures)})
    counted.run("run")
    signed = (counted.root / "macros/signed.sql").read_text()
    counted.write({"macros/signed.sql": signed.replace("sign > 0", "sign >= 0")})
    message = counted.run("run", expect_ok=False).results["days"].message
    assert "its rows were made by another definition: the SQL of a macro that it calls." in message


@pytest.mark.parametrize("kind", ["view", "ephemeral"])
def test_another_sql_of_a_view_that_a_model_reads_is_refused(project, kind):
    below = f"{{{{ config(materialized='{kind}') }}}} select * from {{{{ source('src', 'x') }}}}"
    reads = MERGED.replace("pinned(source('src', 'x'))", "ref('below')")
    project.write({"models/below.sql": below, "models/merged.sql": reads})
    project.run("run", "--full-refresh")
    project.write({"models/below.sql": below + " where id > 1"})
    message = project.run("run", expect_ok=False).results["merged"].message
    assert "definition: the SQL of a view that it reads." in message
    assert numbers(project)[0] == 2
    project.write({"models/below.sql": below + " -- as before"})
    assert project.run("run").results["merged"].status == "success"
    assert numbers(project)[0] == 2


def test_other_rules_in_the_yaml_of_a_view_that_a_model_reads_are_refused(project):
    view = """
        models:
          - name: below
            description: {reported}
            config: {{meta: {{row_wise: {row_wise}, kept: {kept}}}}}
            columns: [{{name: id, config: {{meta: {{cleaning: {{range: {{min: {least}}}}}}}}}}}]
    """
    reported = {"reported": "Ids.", "row_wise": "true", "kept": 1, "least": 0}
    reads = MERGED.replace("pinned(source('src', 'x'))", "ref('below')")
    project.write(
        {
            "models/below.sql": "select * from {{ source('src', 'x') }}",
            "models/merged.sql": reads,
            "models/_below.yml": view.format(**reported),
        }
    )
    project.run("run", "-s", "merged", "below", "--full-refresh")
    changed = {"reported": "All ids.", "row_wise": "false"}
    project.write({"models/_below.yml": view.format(**reported | changed)})
    project.run("run", "-s", "merged")
    for other in ({"least": 2}, {"kept": 2}):
        project.write({"models/_below.yml": view.format(**reported | other)})
        message = project.run("run", "-s", "merged", expect_ok=False).results["merged"].message
        assert "definition: meta of its columns or of a view that it reads." in message


def test_comments_and_spaces_are_no_difference(project):
    project.write({"models/merged.sql": "-- a comment\n" + MERGED.replace(" as n", "  as  n")})
    assert project.run("run", "--select", "merged").results["merged"].message == "nothing new"
    # what is merged by default is merged as before
    project.write({"models/merged.sql": MERGED.replace("incremental_strategy='merge', ", "")})
    assert project.run("run", "--select", "merged").results["merged"].message == "nothing new"


def test_the_author_may_say_that_the_rows_stay(project):
    project.write({"models/merged.sql": MERGED.replace("count(*)", "count(id)")})
    project.run("run", "--select", "merged", vars={"accept_definition": ["merged"]})
    project.run("run", "--select", "merged")
    assert numbers(project)[0] == 2


def test_a_wrong_setting_is_one_sentence(project):
    text = MERGED.replace("unique_key='k'", "unique_key='k', on_definition_change='maybe'")
    project.write({"models/merged.sql": text.replace("count(*)", "count(id)")})
    message = project.run("run", "-s", "merged", expect_ok=False).results["merged"].message
    assert "must be refuse, rebuild or accept, got 'maybe'" in message


def test_a_model_that_reads_the_clock_runs_though_no_input_changed(make_project):
    clock = "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='k') }}"
    small = make_project(
        {
            "models/_sources.yml": SOURCES,
            "models/timed.sql": f"{clock} select 1 as k, count(*) as n, current_timestamp() as at "
            "from {{ pinned(source('src', 'x')) }}",
        }
    )
    small.query("create namespace if not exists src")
    small.query("create table src.x (id int) using iceberg")
    small.query("insert into src.x values (1)")
    small.run("run")
    before = small.column("select at from dw.timed")
    small.run("run")
    assert small.column("select at from dw.timed") > before


@pytest.mark.parametrize(
    "sql",
    [
        "select now() as at",
        "select date 'today' as d",
        "select cast(' NOW ' as timestamp) as d",
        "select timestamp 'today UTC' as d",
        "select date 'Tomorrow +08:00' as d",
        "select date 'yesterday-05:00' as d",
        "select timestamp 'yesterday  Asia/Shanghai' as d",
        "select `now`() as at",
        "select java_method('java.time.Instant', 'now') as at",
        "select try_reflect('java.util.UUID', 'randomUUID') as id",
        "select current_user() as by",
        "select current_database() as db",
        "select * from x tablesample (10 percent)",
        "select input_file_name() from x",
        "select monotonically_increasing_id() as n from x",
        "select spark_partition_id() as n from x",
        "select '{{ run_started_at }}' as at",
        "select '{{ modules.datetime.datetime.now() }}' as at",
        "select '{{ invocation_id }}' as run",
        "select {{ selected_resources | length }} as n",
        "select {% if flags.WHICH == 'build' %} 1 {% else %} 2 {% endif %} as n",
    ],
)
def test_queries_that_may_answer_otherwise_while_their_inputs_stay(sql):
    assert goes_by_clock(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select nowhere from x",
        "select current_users from x",
        "select 1 -- as of now()",
        "select {# rand() #} 'sale of today', 'today is a day', 'nowadays' from x",
        "select reflected(a), x.flags.which from x",
        "select {{ modules.re.sub('a', 'b', 'c') }}",
    ],
)
def test_queries_that_answer_the_same_while_their_inputs_stay(sql):
    assert not goes_by_clock(sql)


def test_what_dbt_takes_from_around_the_project_is_a_part_of_the_definition(make_project):
    around = make_project(
        {
            "models/_sources.yml": SOURCES,
            "models/merged.sql": """
                {{ config(
                    materialized='incremental', incremental_strategy='merge', unique_key='k'
                ) }}
                select 1 as k, count(*) * {{ env_var('TIMES_OF_A_TEST', 1) }} as n,
                    '{{ target.name }}' as target, {{ var('a' ~ 'b', 5) }} as other
                from {{ pinned(source('src', 'x')) }}
            """,
        }
    )
    around.query("create namespace if not exists src")
    around.query("create table src.x (id int) using iceberg")
    around.query("insert into src.x values (1), (2)")
    around.run("run")
    around.env["TIMES_OF_A_TEST"] = "1"
    assert around.run("run").results["merged"].message == "nothing new"
    around.env["TIMES_OF_A_TEST"] = "730951"
    message = around.run("run", expect_ok=False).results["merged"].message
    assert "definition: the environment variable TIMES_OF_A_TEST. Run it" in message
    assert "730951" not in message
    around.env["TIMES_OF_A_TEST"] = "1"
    message = around.run("run", vars={"ab": 6}, expect_ok=False).results["merged"].message
    assert "definition: the vars, of which it names one by an expression. Run it" in message
    around.run("run", "--full-refresh", vars={"ab": 6})
    around.env["TIMES_OF_A_TEST"] = "2"
    around.run("run", "--full-refresh", vars={"ab": 6})
    assert "730951" not in str(around.summary("dw.merged"))


def test_all_partitions_are_written_by_a_query_that_goes_by_the_clock(make_project):
    days = """
        {{ config(
            materialized='incremental', incremental_strategy='replace_partitions',
            partition_by='day',
        ) }}
        select day, %s as at, count(*) as n from {{ changed_partitions(%s, by='day') }} group by all
    """
    clocked = make_project(
        {
            "models/_sources.yml": SOURCES,
            "macros/run_text.sql": "{% macro run_text() %} '{{ invocation_id }}' {% endmacro %}",
            "models/timed.sql": "select *, current_timestamp() as at from {{ source('src', 'x') }}",
            "models/by_view.sql": days % ("at", "ref('timed')"),
            "models/by_macro.sql": days % ("{{ run_text() }}", "source('src', 'x')"),
        }
    )
    clocked.query("create namespace if not exists src")
    clocked.query("create table src.x (day date, id int) using iceberg partitioned by (day)")
    clocked.query("insert into src.x values (date '2026-03-01', 1), (date '2026-03-02', 2)")
    clocked.run("run")
    for news in (["2026-03-02"], []):
        for day in news:
            clocked.query(f"insert into src.x values (date '{day}', 3)")
        before = {
            item: clocked.column(f"select at from dw.{item}") for item in ("by_view", "by_macro")
        }
        clocked.run("run")
        for model, then in before.items():
            now = clocked.column(f"select at from dw.{model}")
            assert len(now) == 2
            assert not set(now) & set(then), (model, news)


def test_another_setting_of_the_profile_that_answers_go_by_is_refused_or_builds_again(project):
    profile = project.profiles / "profiles.yml"
    text = profile.read_text()
    line = "      server_side_parameters: &settings\n"  # of the target `local`
    assert text.count(line) == 1
    profile.write_text(text.replace(line, f'{line}        spark.sql.ui.retainedExecutions: "9"\n'))
    assert set(project.run("run").statuses().values()) == {"success"}
    profile.write_text(text.replace(line, f'{line}        spark.sql.legacy.sizeOfNull: "true"\n'))
    done = project.run("run", expect_ok=False)
    assert done.statuses() == {"merged": "error", "rebuilt": "success"}, done.log
    assert "the profile's settings of answers" in done.results["merged"].message
