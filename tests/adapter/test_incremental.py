"""Incremental models in SQL and Python, and what becomes of them as their source changes shape."""

from __future__ import annotations

from datetime import date

import pytest


def python_model(config: str, table: str) -> str:
    return f"""
    def model(dbt, session):
        dbt.config(materialized="incremental", appends_all_rows=True, {config})
        return dbt.source("src", "{table}")
    """


def sql_model(config: str, table: str) -> str:
    return f"""
    {{{{ config(materialized='incremental', appends_all_rows=true, {config}) }}}}
    select * from {{{{ source('src', '{table}') }}}}
    """


FILES = {
    "models/sources.yml": """
        sources:
          - name: src
            tables: [{name: changes}, {name: days}, {name: shape}, {name: copies}]
    """,
    "macros/keep_largest.sql": """
        {% macro get_incremental_keep_largest_sql(arg_dict) %}
            merge into {{ arg_dict.target_relation }} as old
            using {{ arg_dict.temp_relation }} as new
            on old.id <=> new.id
            when matched and new.v > old.v then update set v = new.v
            when not matched then insert (id, part, v) values (new.id, new.part, new.v)
        {% endmacro %}
    """,
    "models/appended.sql": sql_model("", "changes"),
    "models/merged.sql": sql_model(
        "incremental_strategy='merge', unique_key=['id', 'part']", "changes"
    ),
    "models/merged_unsaid.sql": sql_model("unique_key=['id', 'part']", "changes"),
    "models/merged_one_key.sql": sql_model(
        "incremental_strategy='merge', unique_key='id', merge_update_columns=['part']", "changes"
    ),
    # several rows of a key, from the first build on and in the second
    "models/copies_first.sql": sql_model("unique_key=['part']", "changes"),
    "models/py_copies_first.py": python_model(
        "incremental_strategy='merge', unique_key='part'", "changes"
    ),
    "models/copies_later.sql": sql_model("unique_key=['k', 'day']", "copies"),
    "models/copies_met_apart.sql": sql_model(
        "unique_key='day', incremental_predicates=['dbt_internal_source.k = dbt_internal_dest.k']",
        "copies",
    ),
    "models/overwritten.sql": sql_model(
        "incremental_strategy='insert_overwrite', partition_by='day'", "days"
    ),
    "models/largest.sql": sql_model("incremental_strategy='keep_largest'", "changes"),
    "models/unknown.sql": sql_model("incremental_strategy='upsert'", "changes"),
    "models/keyless.sql": sql_model("incremental_strategy='merge'", "changes"),
    "models/py_appended.py": python_model("", "changes"),
    "models/py_merged.py": python_model(
        "incremental_strategy='merge', unique_key=['id', 'part']", "changes"
    ),
    "models/py_overwritten.py": python_model(
        "incremental_strategy='insert_overwrite', partition_by='day'", "days"
    ),
    "models/py_asked.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental", incremental_strategy="append_or_merge")
            if dbt.is_incremental:
                dbt.merge_rows(["id", "part"], ["dbt_internal_dest.part is not null"])
            return dbt.source("src", "changes")
    """,
    "models/py_not_asked.py": python_model("incremental_strategy='append_or_merge'", "changes"),
    "models/py_asked_in_vain.py": """
        def model(dbt, session):
            dbt.config(materialized="incremental")
            if dbt.is_incremental:
                dbt.merge_rows(["id"])
            return dbt.source("src", "changes")
    """,
    "models/shape_append.sql": sql_model("on_schema_change='append_new_columns'", "shape"),
    "models/shape_sync.sql": sql_model("on_schema_change='sync_all_columns'", "shape"),
    "models/shape_fail.sql": sql_model("on_schema_change='fail'", "shape"),
    "models/shape_kept.sql": sql_model("on_schema_change='fail', full_refresh=false", "shape"),
    "models/py_shape_sync.py": python_model("on_schema_change='sync_all_columns'", "shape"),
}


@pytest.fixture(scope="module")
def built(make_project):
    """The project, built, its sources replaced, and run again; with both outcomes."""
    project = make_project(FILES)
    project.query("create namespace if not exists src")
    project.query("create namespace if not exists dw")
    write = "create or replace table src.{} using iceberg as select * from values {}"
    changes = "(1, 'a', 10), (2, 'a', 20), (cast(null as int), 'a', 30), (4, null, 40)"
    project.query(write.format("changes", f"{changes} as t(id, part, v)"))
    days = "(date '2026-03-01', 1), (date '2026-03-02', 2)"
    project.query(write.format("days", f"{days} as t(day, n)"))
    project.query(write.format("shape", "(1, 'b1') as t(id, b)"))
    copies = "(1, cast(null as date)), (2, null)"
    project.query(write.format("copies", f"{copies} as t(k, day)"))
    first = project.run("run", expect_ok=False)

    changes = "(1, 'a', 11), (null, 'a', 31), (4, null, 41), (5, 'e', 50), (2, 'a', 19)"
    project.query(write.format("changes", f"{changes} as t(id, part, v)"))
    days = "(date '2026-03-02', 20), (date '2026-03-02', 21), (date '2026-03-03', 3)"
    project.query(write.format("days", f"{days} as t(day, n)"))
    project.query(write.format("shape", "(2, 'c2') as t(id, c)"))
    copies = "(2, cast(null as date)), (3, null), (3, null), (4, null)"
    project.query(write.format("copies", f"{copies} as t(k, day)"))
    second = project.run("run", expect_ok=False)
    return project, first, second


def test_all_fitting_models_succeed(built):
    _, first, second = built
    assert {name for name, status in first.statuses().items() if status != "success"} == {
        "unknown",
        "keyless",
        "copies_first",
        "py_copies_first",
    }
    assert {name for name, status in second.statuses().items() if status != "success"} == {
        "unknown",
        "keyless",
        "py_asked_in_vain",
        "shape_fail",
        "shape_kept",
        "copies_first",
        "py_copies_first",
        "copies_later",
    }


@pytest.mark.parametrize("model", ["appended", "py_appended", "py_not_asked"])
def test_append_adds_all_rows(built, model):
    project, _, _ = built
    rows = project.query(f"select v from dw.{model} order by v")
    assert [row["v"] for row in rows] == [10, 11, 19, 20, 30, 31, 40, 41, 50]


@pytest.mark.parametrize("model", ["merged", "merged_unsaid", "py_merged"])
def test_merge_matches_null_keys(built, model):
    project, _, _ = built
    rows = project.query(f"select * from dw.{model} order by v")
    assert [tuple(row.values()) for row in rows] == [
        (1, "a", 11),
        (2, "a", 19),
        (None, "a", 31),
        (4, None, 41),
        (5, "e", 50),
    ]


def test_a_python_model_asks_for_rows_to_give_way(built):
    project, _, _ = built
    rows = project.query("select * from dw.py_asked order by v")
    assert [tuple(row.values()) for row in rows] == [
        (1, "a", 11),
        (2, "a", 19),
        (None, "a", 31),
        (4, None, 40),
        (4, None, 41),
        (5, "e", 50),
    ]


def test_asking_for_it_without_the_strategy_is_one_clear_error(built):
    _, _, second = built
    message = second.results["py_asked_in_vain"].message
    assert "dbt.merge_rows needs incremental_strategy 'append_or_merge', got None" in message


def test_merge_updates_the_named_columns_only(built):
    project, _, _ = built
    assert project.column("select v from dw.merged_one_key order by v") == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("model", ["overwritten", "py_overwritten"])
def test_insert_overwrite_replaces_the_given_partitions(built, model):
    project, _, _ = built
    rows = project.query(f"select * from dw.{model} order by n")
    assert [tuple(row.values()) for row in rows] == [
        (date(2026, 3, 1), 1),
        (date(2026, 3, 3), 3),
        (date(2026, 3, 2), 20),
        (date(2026, 3, 2), 21),
    ]


def test_custom_strategy_is_found_by_its_name(built):
    project, _, _ = built
    rows = project.query("select id, v from dw.largest order by v")
    assert [(row["id"], row["v"]) for row in rows] == [
        (1, 11),
        (2, 20),
        (None, 31),
        (4, 41),
        (5, 50),
    ]


def test_unknown_strategy_is_one_clear_error(built):
    _, first, _ = built
    message = first.results["unknown"].message
    assert "incremental_strategy of unknown must be append, append_or_merge, merge" in message
    assert "got 'upsert'" in message


@pytest.mark.parametrize("model", ["copies_first", "py_copies_first"])
def test_several_rows_of_a_unique_key_are_refused_on_the_first_build(built, model):
    project, first, _ = built
    assert (
        f"{model}: its query gives several rows of one unique_key, such as part = a, and which of "
        "them stays would be chance. Keep one of them by an order without ties, or name the "
        "columns in which they differ in unique_key"
    ) in " ".join(first.results[model].message.split())
    tables = {row["tableName"] for row in project.query("show tables in dw")}
    assert model not in tables


def test_several_new_rows_of_a_unique_key_are_refused_in_a_later_run(built):
    project, _, second = built
    assert "several rows of one unique_key, such as k = 3, day = null," in " ".join(
        second.results["copies_later"].message.split()
    )
    assert project.column("select k from dw.copies_later order by k") == [1, 2]


def test_rows_of_a_unique_key_may_differ_by_what_a_predicate_compares(built):
    project, _, _ = built
    assert project.column("select k from dw.copies_met_apart order by k") == [1, 2, 3, 3, 4]


def test_merge_without_a_key_is_one_clear_error(built):
    _, first, _ = built
    message = first.results["keyless"].message
    assert "keyless: incremental_strategy merge needs a unique_key" in message


def test_append_new_columns_keeps_the_lost_one(built):
    project, _, _ = built
    assert project.query("select * from dw.shape_append order by id") == [
        {"id": 1, "b": "b1", "c": None},
        {"id": 2, "b": None, "c": "c2"},
    ]


@pytest.mark.parametrize("model", ["shape_sync", "py_shape_sync"])
def test_sync_all_columns_adds_and_drops(built, model):
    project, _, _ = built
    assert project.query(f"select * from dw.{model} order by id") == [
        {"id": 1, "c": None},
        {"id": 2, "c": "c2"},
    ]


def test_a_schema_change_fails_where_the_config_asks_for_it(built):
    project, _, second = built
    message = second.results["shape_fail"].message
    assert "shape_fail: its rows have other columns than its table" in message
    assert "run it with --full-refresh" in message
    assert "append_new_columns" not in message  # dbt's advice: the old rows would never have them
    assert project.query("select * from dw.shape_fail") == [{"id": 1, "b": "b1"}]


def test_a_model_that_full_refresh_leaves_isnt_asked_for_it(built):
    _, _, second = built
    message = second.results["shape_kept"].message
    assert "shape_kept: its rows have other columns than its table" in message
    assert "run it with --full-refresh" not in message
    assert "full_refresh: false, so --full-refresh keeps its rows: give the table" in message


# a column's type -> that of later rows, and whether the table would alter their values
LATER_TYPES = {
    "f": ("float", "double", True),
    "d": ("decimal(6,2)", "decimal(8,4)", True),
    "w": ("decimal(6,2)", "decimal(12,2)", False),
    "n": ("int", "decimal(6,3)", True),
    "t": ("date", "timestamp", True),
    "z": ("timestamp", "timestamp_ntz", True),
    "i": ("int", "bigint", False),
    "b": ("double", "float", False),
    "s": ("string", "int", False),
}


def test_values_that_a_table_would_round_or_cut_are_refused(make_project):
    def source(place: int) -> str:
        values = {"t": "timestamp'2026-03-01 12:00:00'", "z": "timestamp'2026-03-01 12:00:00'"}
        columns = ", ".join(
            f"cast({values.get(name, 1.125)} as {kinds[place]}) as {name}"
            for name, kinds in LATER_TYPES.items()
        )
        return f"create or replace table src.x using iceberg as select {place} as id, {columns}"

    project = make_project(
        {"models/sources.yml": "sources: [{name: src, tables: [{name: x}]}]"}
        | {
            f"models/of_{name}.sql": "{{ config(materialized='incremental', unique_key='id') }}"
            f" select id, {name} from {{{{ source('src', 'x') }}}}"
            for name in LATER_TYPES
        }
    )
    project.query("create namespace if not exists src")
    project.query(source(0))
    project.run("run")
    project.query(source(1))
    results = project.run("run", expect_ok=False).results
    for name, (first, later, alters) in LATER_TYPES.items():
        message = results[f"of_{name}"].message
        expected = f"column {name} was {first}, is {later}); run it with --full-refresh"
        assert (expected in message) is alters, message
        assert results[f"of_{name}"].status == ("error" if alters else "success"), message


def test_a_hook_that_writes_to_a_table_which_is_not_there_yet_is_refused(make_project):
    hook = "delete from {{ this }} where id = 1"
    guarded = "{% if is_incremental() %}" + hook + "{% endif %}"
    project = make_project(
        {
            f"models/{name}.sql": f"{{{{ config(materialized='{kind}', pre_hook={given!r}) }}}}"
            " select 1 as id"
            for name, kind, given in (
                ("deletes", "incremental", hook),
                ("replaced", "table", hook),
                ("guarded", "incremental", guarded),
                ("makes", "table", "create table if not exists {{ this }} (id int) using iceberg"),
            )
        }
    )
    results = project.run("run", expect_ok=False).results
    for name in ("deletes", "replaced"):
        message = results[name].message
        assert f"{name}: its pre_hook writes to dw.{name}, which its first run has yet" in message
    for name in ("guarded", "makes"):
        assert results[name].status == "success", results[name].message


@pytest.mark.parametrize("option", ["sync_all_columns", "append_new_columns", "fail"])
def test_a_column_in_another_case_is_the_same_column(make_project, option):
    config = f"materialized='incremental', unique_key='id', on_schema_change='{option}'"
    merged = f"{{{{ config({config}) }}}} select * from {{{{ ref('given') }}}}"
    given = "{{ config(materialized='table') }} select "
    project = make_project(
        {"models/given.sql": given + "1 as id, 10 as v", "models/merged.sql": merged}
    )
    project.run("run")
    project.write({"models/given.sql": given + "2 as ID, 20 as V"})
    project.run("run")
    # the key that has left its input stays with its value
    assert project.query("select id, v from dw.merged order by id") == [
        {"id": 1, "v": 10},
        {"id": 2, "v": 20},
    ]


def test_a_type_that_a_table_cannot_take_is_refused_before_columns_change(make_project):
    config = (
        "{{ config(materialized='incremental', unique_key='id', on_definition_change='accept', "
        "on_schema_change='sync_all_columns') }}"
    )
    project = make_project({"models/typed.sql": f"{config} select 1 as id, int(1) as v"})
    project.run("run")
    for value in ("'a'", "2.5", "array(1)"):
        project.write({"models/typed.sql": f"{config} select 1 as id, {value} as v, 7 as w"})
        message = project.run("run", expect_ok=False).results["typed"].message
        assert "column v was int, is " in message, message
        assert [*project.query("select * from dw.typed")[0]] == ["id", "v"]
    project.write({"models/typed.sql": f"{config} select 1 as id, 5000000000 as v, 7 as w"})
    project.run("run")
    assert project.query("select * from dw.typed") == [{"id": 1, "v": 5_000_000_000, "w": 7}]


def test_a_merge_that_leaves_out_rows_of_its_keys_warns(make_project):
    config = "materialized='incremental', unique_key='id', on_definition_change='accept', "
    model = "{{ config(%sincremental_predicates=['dbt_internal_dest.v > %d']) }} "
    model = f"{model}select %d as id, %d as v"

    def merged(bound: int, key: int, value: int) -> dict[str, str]:
        return {"models/merged.sql": model % (config, bound, key, value)}

    project = make_project(merged(1, 7, 1))
    warning = "rows that its incremental_predicates leave out have a unique_key"
    project.run("run")
    for bound, value, warns in ((0, 2, False), (1, 3, False), (3, 4, True)):
        project.write(merged(bound, 7, value))
        assert (warning in project.run("run").log) is warns
    assert sorted(project.column("select v from dw.merged")) == [3, 4]


def test_a_query_without_a_column_of_its_unique_key_is_refused_in_one_sentence(make_project):
    config = "{{{{ config(materialized='incremental', unique_key={}{}) }}}} select {} as v"
    compares = ", incremental_predicates=['dbt_internal_source.v > 0']"
    project = make_project(
        {
            "models/lost.sql": config.format("'id'", "", "1 as id, 2"),
            "models/compared.sql": config.format("['v', '`ID`']", compares, "1 as id, 2"),
            "models/never.sql": config.format("'id'", "", "2"),
        }
    )
    results = project.run("run", expect_ok=False).results
    assert "never: its query gives no column id, which its unique_key names; it gives v" in (
        results["never"].message
    )
    project.write({"models/lost.sql": config.format("'id'", "", "2")})
    project.write({"models/compared.sql": config.format("['v', '`ID`']", compares, "2")})
    accepted = {"accept_definition": ["lost", "compared"]}
    results = project.run("run", vars=accepted, expect_ok=False).results
    for name, column in {"lost": "id", "compared": "`ID`"}.items():
        assert f"{name}: its query gives no column {column}, which" in results[name].message
        assert "UNRESOLVED_COLUMN" not in results[name].message
    assert project.query("select id, v from dw.lost") == [{"id": 1, "v": 2}]
