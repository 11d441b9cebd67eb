"""Models that read several inputs, some of them by their changed partitions."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.in_turn

DAILY = """
    {{{{ config(
        materialized='incremental', incremental_strategy='{strategy}', unique_key='{by}',
        partition_by='{by}',
    ) }}}}
"""


def replacing(sql: str, by: str = "day", strategy: str = "replace_partitions") -> str:
    return DAILY.format(by=by, strategy=strategy) + sql


def grouped(table: str, by: str) -> str:
    rows = f"{{{{ changed_partitions(source('src', '{table}'), by='{by}') }}}}"
    return f"select {by}, sum(n) as n from {rows} group by {by}"


A = "{{ changed_partitions(source('src', 'a'), by='day') }}"
B = "{{ changed_partitions(source('src', 'b'), by='day') }}"
RATE = "{{ pinned(source('src', 'rate')) }}"
SUM = "select day, sum(n) as n from ({rows}) group by day"
PRICED = """
    select day, sum(n * rate) as n from {} cross join {} group by day
"""
FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables:
              - {name: a}
              - {name: b}
              - {name: rate}
              - {name: rate_view}
              - {name: words}
              - {name: bytes}
              - {name: flags}
              - {name: amounts}
              - {name: shares}
    """,
    "models/two_inputs.sql": replacing(
        SUM.format(rows=f"select day, n from {A} union all select day, n from {B}")
    ),
    "models/rate_behind.sql": replacing(PRICED.format(A, RATE)),
    "models/rate_before.sql": replacing(
        "with rates as (select * from " + RATE + ")" + PRICED.format(A, "rates")
    ),
    "models/rate_view.sql": "select * from {{ source('src', 'rate') }}",
    "models/priced.sql": """
        select day, n * rate as n from {{ source('src', 'a') }}
        cross join {{ ref('rate_view') }}
    """,
    "models/over_view.sql": replacing(
        SUM.format(rows="select * from {{ changed_partitions(ref('priced'), by='day') }}")
    ),
    "models/both_ways.sql": replacing(f"""
        select
            day, sum(n) as n, (select count(*) from {{{{ pinned(source('src', 'a')) }}}}) as total
        from {A} group by day
    """),
    "models/passed_on.sql": "{{ config(materialized='ephemeral') }}"
    " select * from {{ source('src', 'rate') }}",
    "models/passed_on_again.sql": "{{ config(materialized='ephemeral') }}"
    " select * from {{ ref('passed_on') }}",
    "models/rate_ephemeral.sql": replacing(PRICED.format(A, "{{ ref('passed_on_again') }}")),
    "models/rate_outside.sql": replacing(PRICED.format(A, "{{ source('src', 'rate_view') }}")),
    "models/of_words.sql": replacing(grouped("words", "k"), by="k"),
    "models/of_bytes.sql": replacing(grouped("bytes", "k"), by="k"),
    "models/of_flags.sql": replacing(grouped("flags", "k"), by="k"),
    "models/of_amounts.sql": replacing(grouped("amounts", "k"), by="k"),
    "models/word_changes.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select k, n, sign from {{ new_changes(source('src', 'words')) }}
    """,
    "models/byte_changes.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select k, n, sign from {{ new_changes(source('src', 'bytes')) }}
    """,
    "models/share_changes.sql": """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select k, n, sign from {{ new_changes(source('src', 'shares')) }}
    """,
}
PRICED_ROWS = "select day, sum(n * rate) as n from src.a cross join src.rate group by day"
FULL = {
    "two_inputs": SUM.format(rows="select * from src.a union all select * from src.b"),
    "rate_behind": PRICED_ROWS,
    "rate_before": PRICED_ROWS,
    "over_view": PRICED_ROWS,
    "rate_ephemeral": PRICED_ROWS,
    "rate_outside": PRICED_ROWS,
    "both_ways": "select day, sum(n) as n, (select count(*) from src.a) as total from src.a "
    "group by day",
    "of_words": "select k, sum(n) as n from src.words group by k",
    "of_bytes": "select k, sum(n) as n from src.bytes group by k",
    "of_flags": "select k, sum(n) as n from src.flags group by k",
    "of_amounts": "select k, sum(n) as n from src.amounts group by k",
}


@pytest.fixture(scope="module")
def project(make_project):
    """The project after its first build; each test goes on from the test before it."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    properties = "tblproperties ('write.summary.partition-limit' = '100')"
    for table, columns, by in (
        ("a", "day date, n int", "day"),
        ("b", "day date, n int", "day"),
        ("words", "k string, n int", "k"),
        ("bytes", "k binary, n int", "k"),
        ("flags", "k boolean, n int", "k"),
        ("amounts", "k decimal(38, 18), n int", "k"),
        ("shares", "k float, n int", "k"),
    ):
        project.query(
            f"create table src.{table} ({columns}) using iceberg partitioned by ({by}) {properties}"
        )
    project.query("create table src.rate (rate int) using iceberg")
    project.query("create view src.rate_view as select * from src.rate")
    project.query("insert into src.rate values (1)")
    project.query("insert into src.a values (date '2026-03-01', 1), (date '2026-03-02', 2)")
    project.query("insert into src.b values (date '2026-03-01', 10), (date '2026-03-02', 20)")
    project.query("insert into src.words values ('null', 1), ('x', 1), (null, 1)")
    project.query("insert into src.bytes values (X'01', 1), (X'02', 1), (null, 1), (X'9EE965', 1)")
    project.query("insert into src.flags values (true, 1), (false, 1), (null, 1)")
    # two that are one double, and 0E-18 and 1E-18 where a commit names them
    project.query(
        "insert into src.amounts values (12345678901234567890.12, 1), (12345678901234567890.13, 1),"
        " (0, 1), (0.000000000000000001, 1), (-1.5, 1), (null, 1)"
    )
    project.query("insert into src.shares values (0.1, 1), (0.5, 1), (float('NaN'), 1)")
    project.run("run")
    return project


def check(project, *models: str) -> None:
    for model in models or FULL:
        stored = project.query(f"select * from dw.{model} order by 1, 2")
        assert stored == project.query(f"{FULL[model]} order by 1, 2"), model


def test_the_partitions_of_all_inputs_are_written(project):
    project.query("insert into src.a values (date '2026-03-01', 3)")
    project.query("insert into src.b values (date '2026-03-02', 5), (date '2026-03-03', 7)")
    project.run("run")
    check(project)
    written = {f"day=2026-03-0{day}" for day in (1, 2, 3)}
    assert project.written_partitions("dw.two_inputs") == written
    assert project.written_partitions("dw.rate_behind") == {"day=2026-03-01"}
    assert project.written_partitions("dw.rate_ephemeral") == {"day=2026-03-01"}


PRICED_MODELS = ["rate_behind", "rate_before", "over_view", "rate_ephemeral", "rate_outside"]


@pytest.mark.parametrize("model", PRICED_MODELS)
def test_a_changed_lookup_has_all_partitions_written(project, model):
    project.query("insert overwrite src.rate select rate + 99 from src.rate")
    project.query("insert into src.a values (date '2026-03-01', 4)")
    project.run("run", "-s", f"+{model}")
    check(project, model)
    project.query("insert overwrite src.rate select rate + 1 from src.rate")  # and by itself
    project.run("run", "-s", f"+{model}")
    check(project, model)


def test_a_compacted_lookup_has_none_written(project):
    project.query("insert into src.rate values (2)")
    project.run("run", "-s", "rate_behind")
    options = "options => map('rewrite-all', 'true')"
    project.query(f"call lake.system.rewrite_data_files(table => 'src.rate', {options})")
    project.query("insert into src.a values (date '2026-03-02', 6)")
    project.run("run", "-s", "rate_behind")
    check(project, "rate_behind")
    assert project.written_partitions("dw.rate_behind") == {"day=2026-03-02"}


def test_an_input_that_is_read_in_both_ways_has_all_partitions_written(project):
    project.query("insert into src.a values (date '2026-03-02', 1)")
    project.run("run", "-s", "both_ways")
    check(project, "both_ways")


def test_partitions_of_the_text_null_and_of_bytes_are_found(project):
    project.query("insert into src.words values ('null', 1), (null, 5)")
    project.query("insert into src.bytes values (X'01', 1), (X'9EE965', 1)")
    project.run("run", "-s", "of_words", "of_bytes", "word_changes", "byte_changes")
    check(project, "of_words", "of_bytes")
    assert project.written_partitions("dw.of_bytes") >= {"k=AQ%3D%3D"}
    assert "k=Ag%3D%3D" not in project.written_partitions("dw.of_bytes")


def test_changes_in_such_partitions_are_found(project):
    for table in ("words", "bytes"):
        project.query(f"update src.{table} set n = n + 10 where n = 5 or k = X'01' or k = 'null'")
    project.run("run", "-s", "word_changes", "byte_changes")
    for table, changes in (("words", "word_changes"), ("bytes", "byte_changes")):
        sums = project.query(
            f"select k, sum(sign * n) as n from dw.{changes} group by k order by k"
        )
        rows = f"select k, cast(sum(n) as bigint) as n from src.{table} group by k order by k"
        assert sums == project.query(rows), table


def test_partitions_of_booleans_and_decimals_take_no_others_with_them(project):
    for flag in ("false", "true", "null"):
        project.query(f"insert into src.flags values ({flag}, 5)")
        project.run("run", "-s", "of_flags")
        check(project, "of_flags")
        assert project.written_partitions("dw.of_flags") == {f"k={flag}"}
    for amount in ("12345678901234567890.12", "0", "0.000000000000000001", "-1.5", "null"):
        project.query(f"insert into src.amounts values ({amount}, 5)")
        project.run("run", "-s", "of_amounts")
        check(project, "of_amounts")
        assert len(project.written_partitions("dw.of_amounts")) == 1


def test_changes_in_partitions_of_floats_are_found(project):
    project.query("update src.shares set n = n + 10")
    project.run("run", "-s", "share_changes")
    sums = project.query("select k, sum(sign * n) as n from dw.share_changes group by k order by k")
    assert [row["n"] for row in sums] == [11, 11, 11]


# ---- what can't be right ------------------------------------------------------------------------

WRONG = {
    "two_columns": (
        replacing(
            f"select day, n from {A} union all select day, n from "
            "{{ changed_partitions(source('src', 'b'), by='n') }}"
        ),
        "got changed_partitions(by='day') and changed_partitions(by='n')",
    ),
    "appending": (replacing(f"select day, n from {A}", strategy="append"), "has strategy 'append'"),
    "merging": (replacing(f"select day, n from {A}", strategy="merge"), "has strategy 'merge'"),
    "overwriting": (
        replacing(
            "select day, n from {{ new_rows(source('src', 'a')) }}", strategy="insert_overwrite"
        ),
        "would overwrite a partition's rows with its new rows alone",
    ),
    "overwriting_changes": (
        replacing(
            "select day, n from {{ new_changes(source('src', 'a')) }}", strategy="insert_overwrite"
        ),
        "would overwrite a partition's rows with its new rows alone",
    ),
    "new_beside": (
        replacing(
            f"select day, n from {A} union all select day, n from "
            "{{ new_rows(source('src', 'b')) }}"
        ),
        "of src.b only what is new is read",
    ),
    "changes_beside": (
        replacing(
            "with changes as (select * from {{ new_changes(source('src', 'b'), by='day') }})"
            f"select a.day, a.n from {A} as a left semi join changes on a.day = changes.day"
        ),
        "of src.b only what is new is read",
    ),
    "floats": (
        replacing(grouped("shares", "k"), by="k"),
        "changed_partitions: k is float in src.shares, and no text names its partitions",
    ),
    "running": (
        replacing(f"select day, sum(n) over (order by day) as n from {A}"),
        "a window function that isn't partitioned by day",
    ),
}


def test_what_cannot_be_right_is_refused_at_its_first_run(project):
    project.write({f"models/{name}.sql": sql for name, (sql, _) in WRONG.items()})
    results = project.run("run", "-s", *WRONG, expect_ok=False).results
    for name, (_, message) in WRONG.items():
        assert message in results[name].message, name


def test_rows_of_other_partitions_than_those_that_are_replaced_are_refused(project):
    whole = SUM.format(
        rows=f"select day, n from {A} union all select * from {{{{ source('src', 'b') }}}}"
    )
    project.write({"models/beside.sql": replacing(whole)})
    project.run("run", "-s", "beside")
    project.query("insert into src.a values (date '2026-03-01', 1)")
    result = project.run("run", "-s", "beside", expect_ok=False).results["beside"]
    assert "beside has a row outside of the partitions that it replaces" in result.message
