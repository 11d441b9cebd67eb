"""Python models: what they are given, what they may return, how they fail."""

from __future__ import annotations

import pytest

FAILING = """
def explode(number):
    raise ValueError(f"bad number {number}")


def model(dbt, session):
    dbt.config(materialized="table")
    explode(7)
    return session.range(1)
"""
FAILING_IN_WORKER = """
def check(batches):
    for batch in batches:
        if batch.num_rows:
            raise ValueError("bad batch")
        yield batch


def model(dbt, session):
    dbt.config(materialized="table")
    return session.range(3).mapInArrow(check, "id bigint")
"""
FAILING_IN_SQL = """
def model(dbt, session):
    dbt.config(materialized="table")
    rows = session.sql("select nowhere from values (1) as t(id)")
    return rows
"""
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: log}]
    """,
    "models/models.yml": """
        models:
          - name: reported
            config: {meta: {greeting: hello}}
    """,
    "models/numbers.sql": "{{ config(materialized='table') }} select 1 as n union all select 2",
    "models/numbers_view.sql": "select n * 10 as n from {{ ref('numbers') }}",
    "models/reported.py": """
        def model(dbt, session):
            dbt.config(materialized="table", tags=["x"])
            about = [(
                str(dbt.this), dbt.meta["greeting"], dbt.run_id, dbt.is_incremental,
                dbt.project_root, dbt.ref("numbers_view").count(),
            )]
            return session.createDataFrame(
                about,
                "this string, greeting string, run string, incremental boolean, root string, "
                "n bigint",
            )
    """,
    "models/from_pandas.py": """
        import pandas as pd


        def model(dbt, session):
            dbt.config(materialized="table")
            return pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    """,
    "models/in_worker.py": """
        def double(batches):
            import pyarrow.compute as pc
            import pyarrow as pa

            for batch in batches:
                yield pa.record_batch([pc.multiply(batch["n"], 2)], names=["n"])


        def model(dbt, session):
            dbt.config(materialized="table")
            return dbt.ref("numbers").mapInArrow(double, "n bigint")
    """,
    # appends 1, then nothing, then what it counted in its own commits
    "models/counting.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            runs = int(dbt.snapshot_property("runs", "0"))
            if runs == 1 and dbt.source("src", "log").count() == 2:
                return None
            dbt.set_snapshot_property("runs", str(runs + 1))
            return session.createDataFrame([(runs + 1,)], "run int")
    """,
    "models/outside.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", appends_all_rows=True)
            dbt.ref("numbers").count()
            return session.createDataFrame([(dbt.run_id,)], "run string")
    """,
    "models/reader.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.source("src", "log"))
    """,
    "models/none_first.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return None
    """,
    "models/wrong_type.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            return [1, 2]
    """,
    "models/new_rows_of_a_view.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_rows(dbt.ref("numbers_view"))
    """,
    "models/new_changes_of_a_view.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_changes(dbt.ref("numbers_view"))
    """,
    "models/failing.py": FAILING,
    "models/failing_in_worker.py": FAILING_IN_WORKER,
    "models/failing_in_sql.py": FAILING_IN_SQL,
}
BROKEN = {
    "none_first",
    "wrong_type",
    "new_rows_of_a_view",
    "new_changes_of_a_view",
    "failing",
    "failing_in_worker",
    "failing_in_sql",
}


@pytest.fixture(scope="module")
def built(make_project):
    """The project and the outcomes of three runs; the second one found nothing new."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int) using iceberg")
    project.query("insert into src.log values (1), (2)")
    outcomes = [project.run("run", expect_ok=False)]
    select = ("--select", "counting", "reader", "outside")
    outcomes.append(project.run("run", *select))
    project.query("insert into src.log values (3)")
    project.query("insert into src.log values (4)")
    outcomes.append(project.run("run", *select))
    return project, outcomes


def line_of(source: str, text: str) -> int:
    """Number of the line of a file that holds `text`."""
    lines = source.lstrip("\n").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_only_broken_models_fail(built):
    _, outcomes = built
    failed = {name for name, result in outcomes[0].results.items() if result.status != "success"}
    assert failed == BROKEN


def test_a_model_can_ask_about_itself(built):
    project, _ = built
    rows = project.query("select * from dw.reported")
    assert len(rows[0].pop("run")) == 36
    assert rows == [
        {
            "this": "dw.reported",
            "greeting": "hello",
            "incremental": False,
            "root": str(project.root),
            "n": 2,
        }
    ]


def test_pandas_frame_becomes_a_table(built):
    project, _ = built
    assert project.query("select * from dw.from_pandas order by id") == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]


def test_function_runs_in_a_worker(built):
    project, _ = built
    assert project.column("select n from dw.in_worker order by n") == [2, 4]


def test_none_of_an_incremental_run_commits_nothing(built):
    project, outcomes = built
    assert [outcome.results["counting"].message for outcome in outcomes] == [
        "+1 rows",
        "nothing new",
        "+1 rows",
    ]
    assert project.column("select run from dw.counting order by run") == [1, 2]
    assert project.column("select count(*) from dw.counting.snapshots") == [2]


def test_new_rows_come_exactly_once(built):
    project, outcomes = built
    assert [outcome.results["reader"].message for outcome in outcomes] == [
        "+2 rows",
        "nothing new",
        "+2 rows",
    ]
    assert project.column("select id from dw.reader order by id") == [1, 2, 3, 4]


def test_rows_that_come_from_elsewhere_are_kept_though_no_input_changed(built):
    project, _ = built
    assert len(set(project.column("select run from dw.outside"))) == 3


def test_failing_model_shows_its_own_file_and_line(built):
    project, outcomes = built
    message = outcomes[0].results["failing"].message
    reported = [line.strip().replace(f'"{project.root}/', '"') for line in message.splitlines()]
    assert reported[2:] == [
        f'File "models/failing.py", line {line_of(FAILING, "explode(7)")}, in model',
        "explode(7)",
        f'File "models/failing.py", line {line_of(FAILING, "raise")}, in explode',
        'raise ValueError(f"bad number {number}")',
        "ValueError: bad number 7",
    ]


def test_error_in_a_worker_shows_the_models_file_and_line(built):
    _, outcomes = built
    message = outcomes[0].results["failing_in_worker"].message
    assert f'models/failing_in_worker.py", line {line_of(FAILING_IN_WORKER, "raise")}' in message
    assert "ValueError: bad batch" in message
    assert ".scala:" not in message and ".java:" not in message


def test_failing_statement_of_a_model_shows_line_and_message(built):
    _, outcomes = built
    message = outcomes[0].results["failing_in_sql"].message
    line = line_of(FAILING_IN_SQL, "select nowhere")
    assert f'models/failing_in_sql.py", line {line}, in model' in message
    assert "[UNRESOLVED_COLUMN.WITH_SUGGESTION]" in message
    assert "py4j" not in message and "'Project" not in message


def test_wrong_results_are_reported_clearly(built):
    _, outcomes = built
    results = outcomes[0].results
    assert "the model must return a Spark DataFrame, got list" in results["wrong_type"].message
    assert "the model returned None, but its table has to be made first" in (
        results["none_first"].message
    )


def test_new_rows_of_a_view_are_refused(built):
    _, outcomes = built
    message = outcomes[0].results["new_rows_of_a_view"].message
    assert "new_rows: dw.numbers_view is a view" in message
    message = outcomes[0].results["new_changes_of_a_view"].message
    assert "new_changes: dw.numbers_view is a view" in message


FOLLOWING = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: events}]}]",
    "models/latest.sql": """
        {{ config(materialized='folded', unique_key='id',
            fold={'sequence': 'position', 'row_kind': 'kind', 'tier_runs': 3}) }}
        select * from {{ new_rows(source('src', 'events')) }}
    """,
    "models/follower.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            return dbt.new_changes(dbt.ref("latest"))
    """,
}


@pytest.mark.in_turn
def test_a_model_follows_the_changes_of_a_folded_one(make_project):
    project = make_project(FOLLOWING)
    project.query("create namespace if not exists src")
    project.query(
        "create table src.events (id int, position int, kind string, v string) using iceberg"
    )
    steps = [
        ("(1, 1, '+I', 'a'), (2, 2, '+I', 'b'), (3, 3, '+I', 'c')", ["+I", "+I", "+I"]),
        ("(1, 4, '+U', 'x'), (2, 5, '-D', 'b'), (3, 6, '+U', 'c')", ["+U", "+U", "-D", "-U", "-U"]),
        ("(4, 7, '+I', 'd'), (1, 8, '+U', 'y')", ["+I", "+U", "-U"]),
        ("(4, 0, '+I', 'late')", []),
    ]
    reported: list[str] = []
    for rows, kinds in steps:
        project.query(f"insert into src.events values {rows}")
        project.run("run")
        reported += kinds
        found = project.column("select row_kind from dw.follower")
        assert sorted(found) == sorted(reported)
        summed = (
            "select id, position, v from dw.follower group by all having sum(sign) <> 0 order by id"
        )
        assert project.query(summed) == project.query(
            "select id, position, v from dw.latest order by id"
        )


# ---- reads past dbt ------------------------------------------------------------------------------

PAST_DBT = {
    "models/sources.yml": "sources: [{name: src, tables: [{name: log}]}]",
    "models/by_table.py": """
        def model(dbt, spark):
            dbt.config(materialized="table")
            return spark.read.table("src.log") if False else spark.table("src.log")
    """,
    "models/by_sql.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            return session.sql("with a as (select * from lake.src.log) select id from a")
    """,
    "models/by_helper.py": """
        def rows(spark_of_model):
            return spark_of_model.table("src.log")


        def model(dbt, session):
            dbt.config(materialized="table")
            return rows(session)
    """,
    "models/by_view.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            dbt.source("src", "log").createOrReplaceTempView("log")
            return session.sql("select id from log where id in (select id from range(9))")
    """,
    "models/by_this.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            log = dbt.source("src", "log")
            if dbt.is_incremental:
                return log.join(session.sql(f"select id from {dbt.this}"), "id", "anti")
            return log
    """,
    "models/by_name.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", appends_all_rows=True)
            dbt.source("src", "log").count()
            table = "src.log"
            return None if dbt.inputs_unchanged() else session.table(table)
    """,
}


def test_a_table_that_the_session_reads_is_refused_or_never_taken_for_unchanged(make_project):
    project = make_project(PAST_DBT)
    project.query("create namespace if not exists src")
    project.query("create table src.log (id int) using iceberg")
    project.query("insert into src.log values (1)")
    results = project.run("run", expect_ok=False).results
    for model in ("by_table", "by_sql", "by_helper"):
        assert "reads src.log by its session" in results[model].message
        assert "write dbt.source('src', 'log') instead" in results[model].message
    results = project.run("run", "--select", "by_view", "by_this", "by_name").results
    assert project.column("select id from dw.by_view") == [1]
    assert project.column("select id from dw.by_this") == [1]
    assert results["by_name"].message == "+1 rows"  # nobody knows whether its table changed


def test_a_pandas_frame_that_gives_no_types_is_refused_with_the_way_on(make_project):
    model = """
        import pandas as pd


        def model(dbt, session):
            dbt.config(materialized="table")
            frame = pd.DataFrame({})
            return {}
    """
    columns = {"bare": "", "empty": "{'a': [1]}).query('a > 1'", "nulls": "{'a': [None]}"}
    files = {f"models/{name}.py": model.format(made, "frame") for name, made in columns.items()}
    typed = model.format(columns["empty"], "session.createDataFrame(frame, 'a int')")
    project = make_project(files | {"models/typed.py": typed})
    results = project.run("run", expect_ok=False).results
    for name in columns:
        message = results[name].message
        assert f"{name}: the pandas frame that it returned gives no types" in message, message
        assert "Traceback" not in message and "File" not in message, message
    assert project.column("select count(*) from dw.typed") == [0]
