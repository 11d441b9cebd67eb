"""A view is made again where it would be another, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.dbt_project import DbtProject

pytestmark = pytest.mark.in_turn

FILES = {
    "models/orders.sql": "{{ config(materialized='table') }} select 1 as id, 'a' as name",
    "models/plain.sql": "select * from {{ ref('orders') }}",
    "models/above.sql": "with orders as (select * from {{ ref('plain') }}) select * from orders",
    "models/commits.sql": "select snapshot_id from {{ ref('orders') }}.snapshots",
    "models/keyed.sql": """
        {{ config(
            materialized='folded', unique_key='id', fold={'sequence': ['n']}
        ) }}
        select id, name, id as n from {{ new_rows(ref('orders')) }}
    """,
}
PERSISTED = """
    models:
      - name: plain
        description: {about}
        config: {{persist_docs: {{relation: true, columns: true}}}}
        columns:
          - {{name: id, description: {of_id}}}
"""
CONTRACT = """
    models:
      - name: plain
        config: {{contract: {{enforced: true}}}}
        columns:
          - {{name: id, data_type: {type}}}
          - {{name: name, data_type: string}}
"""


@pytest.fixture
def project(make_project: Callable[..., DbtProject]) -> DbtProject:
    return make_project(FILES)


def made(project: DbtProject, *options: str, **others: Any) -> set[str]:
    """The views that a run makes."""
    log = project.logs / "dbt.log"
    log.unlink(missing_ok=True)
    project.run("run", *options, **others)
    lines = log.read_text(encoding="utf-8").splitlines()
    words = "create or replace view dw."
    return {line.partition(words)[2].split()[0] for line in lines if words in line}


def test_a_view_of_the_same_query_over_the_same_columns_is_not_made_again(
    project: DbtProject,
) -> None:
    every = {"plain", "above", "commits", "keyed"}
    assert made(project) == every
    assert made(project) == set()
    assert made(project, "--full-refresh") == every
    assert made(project) == set()
    # its rows are others: no view has them
    rows = "{{ config(materialized='table') }} select 2 as id, 'b' as name"
    project.write({"models/orders.sql": rows})
    assert made(project, "--exclude", "keyed") == set()
    assert project.query("select * from dw.above") == [{"id": 2, "name": "b"}]


def test_a_view_is_made_again_where_what_it_reads_has_other_columns(project: DbtProject) -> None:
    made(project)
    text = "{{ config(materialized='table') }} select 1 as id, 'a' as name"
    for more, row in (
        (", 5 as more", {"id": 1, "name": "a", "more": 5}),
        (", 5L as more", {"id": 1, "name": "a", "more": 5}),
    ):
        project.write({"models/orders.sql": text + more})
        # the metadata of a table shows its columns
        assert made(project, "--exclude", "keyed") == {"plain", "above", "commits"}
        assert project.query("select * from dw.above") == [row]
    kinds = {row["col_name"]: row["data_type"] for row in project.query("describe dw.above")}
    assert kinds == {"id": "int", "name": "string", "more": "bigint"}
    project.write({"models/plain.sql": "select id from {{ ref('orders') }}"})
    assert made(project, "--select", "plain") == {"plain"}
    assert made(project, "--exclude", "keyed") == {"above"}
    assert project.query("select * from dw.above") == [{"id": 1}]
    # and its partitions
    by_id = text.replace("'table'", "'table', partition_by='id'") + ", 5L as more"
    project.write({"models/orders.sql": by_id})
    assert made(project, "--exclude", "keyed") == {"commits"}


def test_what_is_read_in_subqueries_counts_too(make_project: Callable[..., DbtProject]) -> None:
    other = "{{ config(materialized='table') }} select %s as id"
    inner = "select (select max(id) from {{ ref('other') }}) as most"
    project = make_project(
        {
            "models/other.sql": other % "1",
            "models/looked_up.sql": inner,
            "models/nested.sql": f"with a as ({inner}), b as (select * from a) select * from b",
            "models/kept.sql": "select 1 as one where exists (select 1 from {{ ref('other') }})",
        }
    )
    views = {"looked_up", "nested", "kept"}
    assert made(project) == views
    assert made(project) == set()
    project.write({"models/other.sql": other % "1L"})
    assert made(project) == views
    assert project.query("describe dw.nested")[0]["data_type"] == "bigint"


def test_a_view_is_made_again_where_it_is_described_otherwise(project: DbtProject) -> None:
    made(project)
    for about, of_id, others in (
        ("rows", "number", {"above"}),
        ("orders", "number", set()),
        ("orders", "key", {"above"}),
    ):
        described = PERSISTED.format(about=about, of_id=of_id)
        project.write({"models/_models.yml": described})
        assert made(project, "--exclude", "keyed") == {"plain"} | others, (about, of_id)
        assert made(project) == set()
        comments = {row["col_name"]: row["comment"] for row in project.query("describe dw.plain")}
        assert comments["id"] == of_id


def test_a_contract_is_looked_at_when_it_changes(project: DbtProject) -> None:
    project.write({"models/_models.yml": CONTRACT.format(type="int")})
    made(project)
    assert made(project) == set()
    project.write({"models/_models.yml": CONTRACT.format(type="date")})
    assert made(project, "--select", "plain", expect_ok=False) == set()
    project.write({"models/_models.yml": CONTRACT.format(type="int")})
    assert made(project) == set()


def test_a_view_that_somebody_changed_is_made_again(project: DbtProject) -> None:
    made(project)
    for statement in (
        "create or replace view dw.plain as select 7 as id, 'x' as name",
        "drop view dw.plain",
        "alter view dw.plain unset tblproperties ('dbt.view_mark')",
    ):
        project.query(statement)
        assert made(project) == {"plain"}, statement
        assert project.query("select * from dw.plain") == [{"id": 1, "name": "a"}]


def test_a_view_of_a_name_that_cannot_be_looked_up_is_made_each_time(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project({"models/of_file.sql": "select * from json.`{{ var('file') }}`"})
    file = project.root / "rows.json"
    file.write_text('{"id": 1}\n', encoding="utf-8")
    for _ in range(2):
        assert made(project, vars={"file": str(file)}) == {"of_file"}


def test_a_view_with_a_named_window_is_refused_as_nobody_could_read_it(
    make_project: Callable[..., DbtProject],
) -> None:
    query = "select id, count(*) over {0} as n from {{{{ ref('plain') }}}} {1}window {0} as "
    query += "(order by id)"
    made = make_project(
        {
            "models/orders.sql": FILES["models/orders.sql"],
            # no window's names
            "models/plain.sql": "with window as (select * from {{ ref('orders') }}) "
            "select *, 'window w as (' as text from window -- window w as (",
            "models/stored.sql": "{{ config(materialized='table') }} " + query.format("w", ""),
            "models/above.sql": "select * from {{ ref('stored') }}",
            "models/named.sql": query.format("`my w`", "/* a */ "),
        }
    )

    outcome = made.run("run", expect_ok=False)

    refused = [name for name, result in outcome.results.items() if result.status == "error"]
    assert refused == ["named"]
    assert (
        "named (models/named.sql) is a view with a named window (`window w as (..)`), which Spark "
        "doesn't find in a view of Iceberg's, so that nobody could read it; write each window into "
        "its `over (..)`, or store the model as a table."
    ) in outcome.results["named"].message
    assert made.query("select * from dw.above") == [{"id": 1, "n": 1}]


def test_a_sample_of_a_view_is_taken_before_its_name(
    make_project: Callable[..., DbtProject],
) -> None:
    whole = "{{ ref('plain') }} tablesample (100 percent)"
    made = make_project(
        {
            "models/orders.sql": FILES["models/orders.sql"],
            "models/plain.sql": FILES["models/plain.sql"],
            "models/sampled.sql": "{{ config(materialized='table') }} select plain.id, other.name "
            f"from {whole} join {whole} repeatable (7) as other on plain.id = other.id "
            f"where exists (select 1 from {whole})",
        }
    )

    made.run("run")

    assert made.query("select * from dw.sampled") == [{"id": 1, "name": "a"}]
