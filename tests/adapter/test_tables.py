"""Tables and views: change of kind, full refresh under readers; seeds."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

# ---- models ----------------------------------------------------------------------------------

AS_TABLE = "{{ config(materialized='table') }} select 1 as id union all select 2"
AS_VIEW = "{{ config(materialized='view') }} select 3 as id"
MODELS = {
    "models/first_table.sql": AS_TABLE,
    "models/first_view.sql": AS_VIEW,
    "models/kept.sql": """
        {{ config(materialized='incremental', partition_by='id') }}
        select explode(sequence(1, 3)) as id
    """,
    "models/py_kept.py": """
        def model(dbt, session):
            dbt.config(materialized="table")
            return session.range(4)
    """,
    "models/described.sql": """
        {{ config(
            materialized='table',
            partition_by=['day', 'kind'],
            tblproperties={'write.parquet.compression-codec': 'snappy', "it's": 'a \\ b'},
        ) }}
        select date '2026-03-01' as day, 'a' as kind, 1 as n
    """,
}


@pytest.fixture(scope="module")
def project(make_project):
    project = make_project(MODELS)
    project.run("run")
    return project


def kinds(project) -> dict[str, str]:
    """Relation name -> table or view, as the catalog states."""
    views = {row["viewName"] for row in project.query("show views in dw")}
    tables = {row["tableName"] for row in project.query("show tables in dw")} - views
    return dict.fromkeys(tables, "table") | dict.fromkeys(views, "view")


def test_table_and_view_change_into_each_other(project):
    before = kinds(project)
    project.write({"models/first_table.sql": AS_VIEW, "models/first_view.sql": AS_TABLE})
    project.run("run", "--select", "first_table", "first_view")

    assert (before["first_table"], before["first_view"]) == ("table", "view")
    assert (kinds(project)["first_table"], kinds(project)["first_view"]) == ("view", "table")
    assert project.column("select id from dw.first_table") == [3]
    assert project.column("select id from dw.first_view order by id") == [1, 2]


def test_view_becomes_incremental_and_back(project):
    project.write({"models/to_and_fro.sql": AS_VIEW})
    project.run("run", "--select", "to_and_fro")
    project.write({"models/to_and_fro.sql": AS_VIEW.replace("view", "incremental")})
    project.run("run", "--select", "to_and_fro")
    assert kinds(project)["to_and_fro"] == "table"
    project.run("run", "--select", "to_and_fro")
    assert project.column("select id from dw.to_and_fro") == [3, 3]


def test_table_has_its_partitions_and_properties(project):
    statement = project.column("show create table dw.described")[0]
    properties = {
        row["key"]: row["value"] for row in project.query("show tblproperties dw.described")
    }
    assert "PARTITIONED BY (day, kind)" in statement
    assert properties["write.parquet.compression-codec"] == "snappy"
    assert properties["it's"] == "a \\ b"
    assert properties["write.summary.partition-limit"] == "5000"


def test_full_refresh_keeps_history_and_readers(project):
    stop = threading.Event()
    seen: list[int] = []
    failures: list[Exception] = []

    def read() -> None:
        while not stop.is_set():
            for table in ("kept", "py_kept"):
                try:
                    seen.append(len(project.query(f"select * from dw.{table}")))
                except Exception as exc:
                    failures.append(exc)

    before = project.column("select count(*) from dw.kept.snapshots")[0]
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(3):
        project.run("run", "--full-refresh", "--select", "kept", "py_kept")
    stop.set()
    reader.join()

    assert failures == []
    assert set(seen) == {3, 4} and len(seen) > 6
    assert project.column("select count(*) from dw.kept.snapshots")[0] == before + 3
    oldest = project.column("select snapshot_id from dw.kept.snapshots order by committed_at")[0]
    rows = project.column(f"select id from dw.kept version as of {oldest} order by id")
    assert rows == [1, 2, 3]


def test_dbt_reports_the_rows_of_each_table(project):
    outcome = project.run("run", "--full-refresh", "--select", "kept")
    assert outcome.results["kept"].message == "+3 rows"
    assert outcome.results["kept"].adapter_response["rows_affected"] == 3


def test_dropping_a_schema_drops_its_tables_views_and_files(make_project):
    project = make_project(
        {
            "models/first_table.sql": AS_TABLE,
            "models/over_it.sql": "select id from {{ ref('first_table') }}",
            "models/kept.sql": "{{ config(materialized='table', schema='other') }} select 1 as id",
            "macros/drop_built.sql": """
                {% macro drop_built() %}
                    {% do adapter.drop_schema(api.Relation.create(schema=target.schema)) %}
                {% endmacro %}
            """,
        }
    )
    project.run("run")
    assert any((project.warehouse / "data" / "dw" / "first_table").rglob("*.parquet"))

    project.run("run-operation", "drop_built")

    assert project.column("show namespaces") == ["dw_other"]
    assert project.column("select id from dw_other.kept") == [1]
    # not even metadata, which would look like that of a lost catalog
    assert not any((project.warehouse / "data" / "dw").iterdir())
    project.run("run-operation", "drop_built")  # of a schema that isn't there


# ---- seeds -----------------------------------------------------------------------------------

TEXTS = [
    'O\'Brien \\ "x"; drop table t',
    "{{ not_jinja }} {% raw %}",
    "100 %s %d %",
    "two\nlines",
    "😀 é 中文",
    " kept spaces ",
    "\\n \\' --comment",
]


def csv(rows: list[list[str | None]]) -> str:
    """Rows as CSV text, every cell that is not null in quotes."""
    cells = [
        ["" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in row]
        for row in rows
    ]
    return "".join(",".join(row) + "\n" for row in cells)


@pytest.fixture(scope="module")
def seeded(make_project):
    project = make_project(
        {
            "dbt_project.yml": """
            name: small
            version: "1.0"
            config-version: 2
            profile: binlog_warehouse
            seeds:
              small:
                typed:
                  +column_types: {code: string, price: "decimal(20,4)", "odd name": bigint}
        """
        }
    )
    (project.root / "seeds").mkdir()
    texts = [["id", "text"], *([str(i), text] for i, text in enumerate(TEXTS)), ["99", None]]
    (project.root / "seeds" / "texts.csv").write_text(csv(texts), encoding="utf-8")
    project.write(
        {
            "seeds/typed.csv": """
            n,x,day,at,yes,code,price,odd name,big
            1,1.5,2026-03-01,2026-03-01 04:05:06,true,007,12345678901234.0001,9007199254740993,1e3
            ,,,,,,,,
        """,
            "seeds/header_only.csv": """
            a,b
        """,
        }
    )
    project.run("seed")
    return project


def test_text_of_a_seed_arrives_as_it_is(seeded):
    rows = seeded.query("select text from dw.texts order by id")
    assert [row["text"] for row in rows] == [*TEXTS, None]


def test_cells_of_a_seed_are_typed(seeded):
    first = seeded.query("select * from dw.typed where n = 1")
    assert first == [
        {
            "n": 1,
            "x": 1.5,
            "day": date(2026, 3, 1),
            "at": datetime(2026, 3, 1, 4, 5, 6, tzinfo=UTC),
            "yes": True,
            "code": "007",
            "price": Decimal("12345678901234.0001"),
            "odd name": 9007199254740993,
            "big": 1000,
        }
    ]


def test_empty_cells_of_a_seed_are_null(seeded):
    empty = seeded.query("select * from dw.typed where n is null")
    assert [set(row.values()) for row in empty] == [{None}]


def test_seed_may_have_no_rows(seeded):
    assert seeded.query("select * from dw.header_only") == []


def test_seed_is_replaced_and_keeps_its_history(seeded):
    seeded.write({"seeds/header_only.csv": "a,b\n1,x\n"})
    seeded.run("seed", "--select", "header_only")
    assert seeded.query("select * from dw.header_only") == [{"a": 1, "b": "x"}]
    assert seeded.column("select count(*) from dw.header_only.snapshots") == [2]


def test_seed_that_is_the_same_is_loaded_again_only_when_asked_to(seeded):
    count = "select count(*) from dw.header_only.snapshots"
    before = seeded.column(count)[0]

    outcome = seeded.run("seed", "--select", "header_only")
    assert outcome.results["header_only"].message == "nothing new"
    assert seeded.column(count) == [before]

    seeded.query("delete from dw.header_only")
    seeded.run("seed", "--select", "header_only")
    assert seeded.query("select * from dw.header_only") == [{"a": 1, "b": "x"}]

    seeded.run("seed", "--select", "header_only", "--full-refresh")
    assert seeded.column(count) == [before + 3]


def test_a_hook_behind_a_seed_writes_to_the_rows_of_its_file(make_project):
    hooked = """
        seeds:
          - name: hooked
            config: {post_hook: "insert into {{ this }} values (0)"}
    """
    project = make_project({"seeds/hooked.csv": "id\n1\n", "seeds/_seeds.yml": hooked})
    for _ in range(3):
        project.run("seed")
        assert sorted(project.column("select id from dw.hooked")) == [0, 1]


def test_a_name_that_needs_backticks_is_refused(make_project):
    project = make_project(
        {
            "models/orders_2026.sql": "select 1 as id",
            "models/lines.sql": "{{ config(alias='order-lines') }} select 1 as id",
            "seeds/größe.csv": "id\n1\n",
        }
    )
    done = project.run("build", expect_ok=False)
    assert done.statuses()["orders_2026"] == "success"
    for name, relation in (("lines", "order-lines"), ("größe", "größe")):
        message = done.results[name].message
        assert f"The relation of {name} would have the name '{relation}', but" in message
        assert "rename it, or set its alias." in message


def test_a_node_in_the_place_of_the_adapters_own_table_is_refused(make_project):
    project = make_project(
        {
            "models/meta_version.sql": "select 1 as id",
            "models/held.sql": "{{ config(alias='META_LEASE') }} select 1 as id",
            "models/elsewhere.sql": (
                "{{ config(alias='meta_version', schema='other') }} select 1 as id"
            ),
        }
    )
    done = project.run("build", expect_ok=False)
    assert done.statuses()["elsewhere"] == "success"
    for name, relation in (("meta_version", "meta_version"), ("held", "META_LEASE")):
        message = done.results[name].message
        assert (
            f"{name} would be built as dw.{relation}, in the place of a table that the" in message
        )


def test_a_seed_in_the_place_of_a_view_or_a_keyed_table_is_refused_with_the_way_on(make_project):
    keyed = "{{ config(materialized='folded', unique_key='id', fold={'sequence': 'n'}) }} "
    files = {"models/v.sql": "select 1 as id", "models/k.sql": keyed + "select 1 as id, 1 as n"}
    project = make_project(files)
    project.run("run")
    for name in ("v", "k"):
        (project.root / f"models/{name}.sql").unlink()
        project.write({f"seeds/{name}.csv": "id\n2\n"})
    results = project.run("seed", expect_ok=False).results
    for name in ("v", "k"):
        message = results[name].message
        assert f"{name}: it would be stored as dw.{name}, which is a view or a keyed" in message
        assert "Drop that by hand, or give the seed another name or alias" in message


def test_columns_that_no_table_holds_are_named_with_the_way_on(make_project):
    kinds = {
        "nothing": ("null as c", "c (null alone)"),
        "within": ("named_struct('a', null) as c, array() as d", "c.a (null alone), d.element ("),
        "variant": ("parse_json('1') as c", "c (variant)"),
        "days": ("interval '1' day as c", "interval day; store it as a number"),
    }
    config = "{{ config(materialized='table') }} "
    files = {f"models/{name}.sql": f"{config} select {sql}" for name, (sql, _) in kinds.items()}
    added = "{{ config(materialized='incremental', on_schema_change='append_new_columns', "
    added += "on_definition_change='accept') }} select 1 as id"
    project = make_project(files | {"models/added.sql": added})
    results = project.run("run", expect_ok=False).results
    for name, (_, expected) in kinds.items():
        message = results[name].message
        assert "A table holds no column of" in message and expected in message, message
        assert "Exception" not in message
    project.write({"models/added.sql": f"{added}, null as c"})
    message = project.run("run", "-s", "added", expect_ok=False).results["added"].message
    assert "c (null alone); cast a null, as in cast(null as string)" in message
