"""Lists of models that are written by hand: what they lack and what they have too much is an error
of `dbt parse`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.support.dbt_project import REPO, DbtProject

SETTINGS = "business_zone: UTC, cut_time_max_ahead_hours: 24, batches: [live]"
FILES = {
    "macros/typed_models.sql": """
        {% macro typed_models() %}{% do return([ref('ods_a'), ref('ods_b')]) %}{% endmacro %}
    """,
    "models/ods_a.sql": "select 1 as id",
    "models/ods_b.sql": "select 1 as id",
    "models/all_rows.sql": """
        {% for typed_model in typed_models() %}
            select id from {{ typed_model }} {% if not loop.last %}union all{% endif %}
        {% endfor %}
    """,
    "models/filtered.sql": "select id from {{ ref('ods_a') }}",
    "models/cleaned.sql": "select id from {{ ref('ods_b') }}",
    "models/verdicts.sql": "select id from {{ ref('compared') }}",
    "models/compared.sql": "select 1 as id",
    "tests/generic/reconciles_with.sql": """
        {% test reconciles_with(model) %}select id from {{ model }} where false{% endtest %}
    """,
    "models/_models.yml": f"""
        models:
          - name: ods_a
            config:
              meta:
                {SETTINGS.replace(", ", chr(10) + " " * 16, 2)}
                source:
                  database: shop
                  table: a
                  primary_key: [id]
                  columns_of_interest: [id]
                  columns: {{id: int}}
          - name: ods_b
            config:
              meta:
                {SETTINGS.replace(", ", chr(10) + " " * 16, 2)}
                source: {{database: shop, table: b, primary_key: [id], columns: {{id: int}}}}
            columns: [{{name: id, config: {{meta: {{cleaning: [trim]}}}}}}]
          - name: compared
            data_tests: [reconciles_with]
          - name: filtered
            config: {{meta: {{reads_all: columns_of_interest}}}}
          - name: cleaned
            config: {{meta: {{reads_all: cleaning}}}}
          - name: verdicts
            config: {{meta: {{reads_all: reconciles_with}}}}
    """,
}


@pytest.fixture
def parse(make_project: Callable[..., DbtProject]) -> Callable[[Mapping[str, str]], str]:
    """Parse the project with some files changed; what dbt refuses it for, "" where it doesn't."""

    def parse(changed: Mapping[str, str]) -> str:
        project = make_project(FILES | changed)
        done = project.run("parse", "--write-json", "--target", "ci", expect_ok=None)
        assert done.ok == (done.exception is None)
        return "" if done.ok else str(done.exception)

    return parse


def lists(*names: str) -> dict[str, str]:
    refs = ", ".join(f"ref('{name}')" for name in names)
    text = f"{{% macro typed_models() %}}{{% do return([{refs}]) %}}{{% endmacro %}}"
    return {"macros/typed_models.sql": text}


def reads(model: str, *names: str) -> dict[str, str]:
    rows = " union all ".join(f"select id from {{{{ ref('{name}') }}}}" for name in names)
    return {f"models/{model}.sql": rows}


def test_lists_that_name_what_they_have_to_are_taken(
    parse: Callable[[Mapping[str, str]], str],
) -> None:
    assert parse({}) == ""


def test_a_list_that_no_model_reads_is_not_compared(
    parse: Callable[[Mapping[str, str]], str],
) -> None:
    assert parse(lists("ods_a") | {"models/all_rows.sql": "select 1 as id"}) == ""


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        pytest.param(
            lists("ods_a"),
            [
                "macros/typed_models.sql: the macro typed_models lacks ods_b, so that all_rows "
                "would leave out what these models declare in meta.source. Add ref('ods_b') to "
                "its list"
            ],
            id="a typed model is missing",
        ),
        pytest.param(
            lists("ods_a", "compared", "ods_b"),
            [
                "macros/typed_models.sql: the macro typed_models lists compared, without "
                "meta.source in the YAML of the model. Take ref('compared') out of its list, or "
                "declare the source"
            ],
            id="a model that is not typed is listed",
        ),
        pytest.param(
            lists("compared", "ods_a"),
            ["lacks ods_b,", "lists compared,"],
            id="both at once",
        ),
        pytest.param(
            reads("filtered", "ods_a", "ods_b"),
            [
                "filtered: it must read only models that declare columns_of_interest in "
                "meta.source, and it reads ods_b. Take ref('ods_b') out of models/filtered.sql"
            ],
            id="a count of what is filtered reads too much",
        ),
        pytest.param(
            reads("cleaned", "ods_a"),
            [
                "cleaned: it must read all models that have a column with meta.cleaning, and it "
                "lacks ods_b. Add ref('ods_b') to models/cleaned.sql",
                "and it reads ods_a. Take ref('ods_a') out of models/cleaned.sql",
            ],
            id="a count of what is cleaned reads another model",
        ),
        pytest.param(
            {"models/verdicts.sql": "select 1 as id"},
            [
                "verdicts: it must read all models that have the test reconciles_with, and it "
                "lacks compared. Add ref('compared') to models/verdicts.sql"
            ],
            id="a reconciliation has no verdict",
        ),
        pytest.param(
            {"models/_models.yml": FILES["models/_models.yml"].replace(": cleaning", ": cleanin")},
            [
                "cleaned: `meta.reads_all` must be one of columns_of_interest, cleaning, "
                "reconciles_with, got 'cleanin'"
            ],
            id="a kind that is not known",
        ),
    ],
)
def test_what_a_list_lacks_or_has_too_much_is_refused_by_name(
    parse: Callable[[Mapping[str, str]], str], changed: dict[str, str], sentences: list[str]
) -> None:
    refused = parse(changed)

    assert [sentence for sentence in sentences if sentence not in refused] == []
    assert "Traceback" not in refused


def test_a_model_that_is_listed_and_not_there_is_refused_by_dbt_itself(
    parse: Callable[[Mapping[str, str]], str],
) -> None:
    assert "depends on a node named 'ods_gone'" in parse(lists("ods_a", "ods_b", "ods_gone"))


def test_retract_rows_are_made_of_changes_with_the_row_before_them_alone(parse):
    """Else an update takes nulls away, and the row that it replaced stays in the counts."""
    declared = FILES["models/_models.yml"].replace(
        "{database: shop, table: b,", "{database: shop, table: b, format: mongodb, OPTIONS"
    )
    retracted = {
        "macros/retract_rows.sql": (REPO / "macros/changelog/retract_rows.sql").read_text("utf-8"),
        "models/retracted.sql": """
            with ods_b as (select * from {{ ref('ods_b') }})
            {{ retract_rows('ods_b', ['id'], ['day']) }}
        """,
    }
    problem = parse(retracted | {"models/_models.yml": declared.replace("OPTIONS", "")})
    assert (
        "models/retracted.sql: retracted makes retract rows of ods_b, which takes updates and "
        "deletes without the document before them; set pre_images: required in the options of "
        "ods_b, which refuses those, or fold its rows by their known_columns"
    ) in problem
    whole = declared.replace("OPTIONS", "options: {pre_images: required},")
    assert parse(retracted | {"models/_models.yml": whole}) == ""
