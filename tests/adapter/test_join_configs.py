"""What a join macro writes into its model's config while dbt parses it, and what it refuses.

That the joins stay exact in their shortest form is tested in test_joins.py.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from dbt.adapters.sparksession.declared.derived_configs import DERIVED, overwritten_in_yaml
from dbt.adapters.sparksession.declared.join_configs import (
    config_problems,
    derived_config,
    key_in_join,
)

from tests.support.dbt_project import REPO, DbtProject

MACROS = {
    f"macros/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros" / "joins").glob("*.sql"))
}
FOLD = {"sequence": "commit_number", "row_kind": "row_kind"}
WRITTEN = {"unique_key": ["id", "right_id", "n"], "fold": FOLD}
JOINED = """
    {{ config(%s) }}
    {{ many_to_many_join(
        left={'relation': source('src', 'facts'), 'key': 'id', 'columns': ['id', 'k']},
        right={'relation': source('src', 'others'), 'key': ['id', 'n'],
            'columns': {'v': own_name()}},
        on={'k': 'k'},
        kind='%s',
    ) }}
"""
OWN_NAME = "{%% macro own_name() %%}{%% do return('%s') %%}{%% endmacro %%}"
CONFIGS = {
    "short": "materialized='folded'",
    "bucketed": "materialized='folded', fold={'buckets': 8}",
    "in_yaml": "tags=['a']",
    "whole": f"materialized='folded', unique_key={WRITTEN['unique_key']}, fold={FOLD}",
    "wrong": "materialized='folded', unique_key='id'",
    "a_table": "materialized='table'",
}
YAML = """
    sources: [{name: src, tables: [{name: facts}, {name: others}]}]
    models:
      - name: in_yaml
        config: {materialized: folded, unique_key: [id, right_id, n],
            fold: {sequence: [commit_number], row_kind: row_kind}}
"""
INDEX = """
    {{ config(materialized='folded') }}
    {{ join_index(relation=source('src', 'facts'), key='id', by=['k', 'id']) }}
"""


@pytest.fixture(scope="module")
def project(make_project) -> DbtProject:
    project = make_project(
        MACROS
        | {f"models/{name}.sql": JOINED % (stated, "left") for name, stated in CONFIGS.items()}
        | {
            "models/anti.sql": re.sub(r",\s+'columns': {'v'.*?}", "", JOINED)
            % (CONFIGS["short"], "anti"),
            "models/index.sql": INDEX,
            "models/models.yml": YAML,
            "macros/own_name.sql": OWN_NAME % "v",
        }
    )
    project.query("create namespace if not exists src")
    project.query("create table src.facts (id int, k int) using iceberg")
    project.query("create table src.others (id int, n int, k int, v string) using iceberg")
    project.query("insert into src.facts values (1, 7), (2, null)")
    project.query("insert into src.others values (5, 1, 7, 'a'), (5, 2, 7, 'b')")
    return project


def parsed(project: DbtProject) -> dict[str, dict[str, Any]]:
    """Name of a model -> its config, as the manifest has it."""
    project.run("parse", "--write-json")
    manifest = json.loads((project.target / "manifest.json").read_text("utf-8"))
    return {node["name"]: node["config"] for node in manifest["nodes"].values()}


def test_the_manifest_has_what_a_join_writes(project) -> None:
    for _ in range(2):  # the second time dbt has parsed all of it before
        configs = parsed(project)
        for name in ("short", "in_yaml"):
            assert {key: configs[name][key] for key in WRITTEN} == WRITTEN
            assert configs[name][DERIVED] == ["fold", "unique_key"]
        assert configs["bucketed"]["fold"] == FOLD | {"buckets": 8}
        assert configs["anti"]["unique_key"] == ["id"]
        assert configs["index"]["unique_key"] == ["k", "id"]
        assert DERIVED not in configs["whole"]
        assert configs["wrong"]["unique_key"] == "id"


def test_the_shortest_form_gives_the_rows_of_the_longest(project) -> None:
    right = ["short", "bucketed", "in_yaml", "whole", "anti", "index"]
    project.run("run", "-s", *right)
    wanted = [(1, 7, 5, 1, "a"), (1, 7, 5, 2, "b"), (2, None, None, None, None)]
    for name in right[:4]:
        rows = project.query(f"select id, k, right_id, n, v from dw.{name} order by id, n")
        assert [tuple(row.values()) for row in rows] == wanted, name
    assert project.query("select id, k from dw.anti") == [{"id": 2, "k": None}]
    again = project.run("run", "-s", *right)
    assert all("nothing new" in again.results[name].message for name in right)


def test_a_config_that_does_not_fit_has_its_sentence(project) -> None:
    outcome = project.run("run", "-s", "wrong", "a_table", expect_ok=False)
    key = "['id', 'right_id', 'n']"
    sentence = f"unique_key of the model's config must be {key} or be left out, got 'id'."
    assert sentence in outcome.results["wrong"].message
    sentence = "the model's config must be config(materialized='folded')."
    assert sentence in outcome.results["a_table"].message


def test_a_macro_that_names_a_column_is_parsed_again(project) -> None:
    """dbt parses the models again that call a macro whose text has changed."""
    renamed = JOINED.replace("{'v': own_name()}", "{'n': own_name(), 'v': 'v'}")
    project.write(
        {"models/short.sql": renamed % (CONFIGS["short"], "left")}
        | {"macros/own_name.sql": OWN_NAME % "number"}
    )
    assert parsed(project)["short"]["unique_key"] == ["id", "right_id", "number"]
    project.write({"macros/own_name.sql": OWN_NAME % "place"})
    assert parsed(project)["short"]["unique_key"] == ["id", "right_id", "place"]


def test_yaml_that_is_not_taken_is_refused_as_dbt_parses(project) -> None:
    project.write({"models/models.yml": YAML.replace("fold: {", "fold: {buckets: 16, ")})
    outcome = project.run("parse", "--write-json", expect_ok=False)
    assert (
        "config fold of in_yaml is {'buckets': 16, 'sequence': ['commit_number'], 'row_kind': "
        "'row_kind'} in YAML, but its macro writes {'sequence': 'commit_number', 'row_kind': "
        "'row_kind'}; leave it out, or state it in config(..) of the model's file"
    ) in " ".join(str(outcome.exception or outcome.log).split())
    project.write({"models/models.yml": YAML})


def side(key: Any, columns: Any) -> dict[str, Any]:
    return {"key": key, "columns": columns}


def test_the_key_is_that_of_both_sides() -> None:
    def key(left: Any, right: Any, kind: str = "inner") -> list[str]:
        return key_in_join({"left": left, "right": right, "kind": kind})

    assert key(side("id", ["id"]), side(["id", "n"], {"n": "m"})) == ["id", "right_id", "m"]
    assert key(side("id", {"id": "a"}), side("id", ["x"])) == ["a", "id"]
    assert key(side("id", ["id"]), side("id", []), kind="semi") == ["id"]
    # what is wrong with the arguments is reported by the run, which knows more
    for wrong in ({}, None, side(None, ["x"]), side([""], ["x"]), side("id", 5)):
        assert key(side("id", ["id"]), wrong) == []


def test_only_what_is_missing_is_written() -> None:
    both = {"unique_key": ["id"], "fold": FOLD}
    assert derived_config({}, ["id"], FOLD) == both | {DERIVED: ["fold", "unique_key"]}
    assert derived_config(both, ["other"], FOLD) == {}
    assert derived_config({"unique_key": "id", "fold": "x"}, ["other"], FOLD) == {}
    assert derived_config({}, [], {}) == {}
    assert derived_config({}, ["id"], {}) == {"unique_key": ["id"], DERIVED: ["unique_key"]}


def test_what_fits_has_no_problem() -> None:
    config = {"materialized": "folded", "unique_key": "id", "fold": FOLD | {"buckets": 2}}
    assert config_problems(config, ["id"], FOLD) == []
    assert config_problems(config | {"fold": None}, ["id"], {}) == []
    assert len(config_problems({"materialized": "view"}, ["id"], FOLD)) == 3
    assert len(config_problems(config | {"zipper": {"sequence": "n"}}, ["id"], FOLD)) == 1
    model = {"name": "m", "config": config | {DERIVED: ["unique_key"]}}
    assert overwritten_in_yaml(model, {"unique_key": ["id"], "fold": {}}) == []
    assert len(overwritten_in_yaml(model, {"unique_key": ["other"]})) == 1


def test_a_view_over_a_keyed_table_is_no_side_of_a_join(make_project) -> None:
    view = "{{ config(materialized='view', meta={'row_wise': true}) }} select * from "
    joined = JOINED.replace("source('src', 'facts')", "ref('%s')")
    joined %= CONFIGS["short"], "%s", "left"
    project = make_project(
        MACROS
        | {
            "models/keyed.sql": "{{ config(materialized='folded', unique_key='id', "
            "fold={'sequence': 'k'}) }} select 1 as id, 7 as k",
            "models/near.sql": view + "{{ ref('keyed') }}",
            "models/far.sql": view + "{{ ref('near') }}",
            "models/of_near.sql": joined % "near",
            "models/of_far.sql": joined % "far",
            "models/models.yml": "sources: [{name: src, tables: [{name: others}]}]",
            "macros/own_name.sql": OWN_NAME % "v",
        }
    )
    project.query("create namespace if not exists src")
    project.query("create table src.others (id int, n int, k int, v string) using iceberg")
    results = project.run("run", expect_ok=False).results
    for name in ("near", "far"):
        expected = f"dw.{name} is a view over the keyed table dw.keyed, and no view of a keyed"
        assert expected in results[f"of_{name}"].message
