"""Classes of dbt's suite that differ here: constraints, headers, docs and the cache."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic import test_docs_generate as docs
from dbt.tests.adapter.basic import test_get_catalog_for_single_relation as single_relation
from dbt.tests.adapter.caching import test_caching as caching
from dbt.tests.adapter.constraints import test_constraints as constraints
from dbt.tests.util import AnyInteger, read_file, run_dbt, run_dbt_and_capture, write_file

POSTGRES_ZONE = "current_setting('timezone')"


# ---- constraints -------------------------------------------------------------------------------


class _InSpark:
    """A header that Spark has, and whether it counted."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        written = (
            ("set session time zone", "set time zone"),
            (POSTGRES_ZONE, "current_timezone()"),
        )
        models = {
            "my_model_contract_sql_header.sql": self.header_model,  # type: ignore[attr-defined]
            "constraints_schema.yml": constraints.fixtures.model_contract_header_schema_yml,
        }
        for theirs, ours in written:
            models = {name: text.replace(theirs, ours) for name, text in models.items()}
        return models

    def test_the_header_counts_for_the_model_alone(self, project: Any) -> None:
        for _ in range(2):  # of an incremental model the later run too
            run_dbt(["run", "-s", "my_model_contract_sql_header"])
        asked = "select distinct column_name from {schema}.my_model_contract_sql_header"
        assert project.run_sql(asked, fetch="all") == [("Asia/Kolkata",)]
        assert project.run_sql("select current_timezone()", fetch="one")[0] == "UTC"


class TableHeader(constraints.TestTableContractSqlHeader):
    header_model = constraints.fixtures.my_model_contract_sql_header_sql
    models = _InSpark.models
    test_the_header_counts = _InSpark.test_the_header_counts_for_the_model_alone


class IncrementalHeader(constraints.TestIncrementalContractSqlHeader):
    header_model = constraints.fixtures.my_model_incremental_contract_sql_header_sql
    models = _InSpark.models
    test_the_header_counts = _InSpark.test_the_header_counts_for_the_model_alone


def accepting(model: str) -> str:
    """The model, whose stored rows are right under another query."""
    return model.replace("config(", "config(on_definition_change='accept',", 1)


class _Named:
    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["my_model: the constraint not_null of id is broken, a row has null there."]


class TableRollback(constraints.TestTableConstraintsRollback):
    expected_error_messages = _Named.expected_error_messages


class IncrementalRollback(constraints.TestIncrementalConstraintsRollback):
    """Its second query differs, which an incremental model has to accept."""

    expected_error_messages = _Named.expected_error_messages

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        fixtures = constraints.fixtures
        return {
            "my_model.sql": accepting(fixtures.my_incremental_model_sql),
            "constraints_schema.yml": fixtures.model_schema_yml,
        }

    @pytest.fixture(scope="class")
    def null_model_sql(self) -> str:
        return accepting(constraints.fixtures.my_model_incremental_with_nulls_sql)


class _Held:
    """The guards of constraints in the query, where PostgreSQL has them in the table."""

    def test__constraints_ddl(self, project: Any) -> None:
        text = read_file("models", "constraints_schema.yml")
        # a name in quotes is a text in Spark
        text = text.format(schema=project.test_schema).replace('("from" =', "(`from` =")
        write_file(text, "models", "constraints_schema.yml")
        _, log = run_dbt_and_capture(["run", "-s", "+my_model"])
        sql = " ".join(read_file("target", "run", "test", "models", "my_model.sql").split())
        for column, condition, words in self.guards:  # type: ignore[attr-defined]
            guard = f"when {condition} then raise_error('my_model: the constraint {words}')"
            assert guard in sql
            assert f"else `{column}` end as `{column}`" in sql
        for kind in self.warned:  # type: ignore[attr-defined]
            assert f"The constraint type {kind} is not supported by" in log


NOT_NULL = ("id", "`id` is null", "not_null of id is broken, a row has null there.")
CHECKS = [
    ("id", f"not ({text})", f"check ({text}) is broken by a row.")
    for text in ("(id > 0)", "id >= 1")
]


class TableConstraints(constraints.TestTableConstraintsRuntimeDdlEnforcement):
    guards = (NOT_NULL, *CHECKS)
    warned = ("primary_key", "foreign_key", "unique")
    test__constraints_ddl = _Held.test__constraints_ddl


class IncrementalConstraints(constraints.TestIncrementalConstraintsRuntimeDdlEnforcement):
    guards = (NOT_NULL, *CHECKS)
    warned = ("primary_key", "foreign_key", "unique")
    test__constraints_ddl = _Held.test__constraints_ddl


class ModelConstraints(constraints.TestModelConstraintsRuntimeEnforcement):
    guards = (NOT_NULL, *CHECKS)
    warned = ("primary_key", "foreign_key", "unique")
    test__model_constraints_ddl = _Held.test__constraints_ddl


class QuotedColumn(constraints.TestConstraintQuotedColumn):
    guards = (
        NOT_NULL,
        ("from", "`from` is null", "not_null of from is broken, a row has null there."),
    )
    warned = ()
    test__constraints_ddl = _Held.test__constraints_ddl


# ---- docs --------------------------------------------------------------------------------------

FIGURES = {"snapshots": "Snapshots", "rows": "Rows", "bytes": "Bytes", "files": "Data files"}


def stats_of(**values: Any) -> dict[str, Any]:
    """Figures as dbt's catalog has them."""
    entries = {
        name: {
            "id": name,
            "label": FIGURES.get(name, "Columns"),
            "value": value,
            "description": "",
            "include": True,
        }
        for name, value in values.items()
    }
    has_any = {"id": "has_stats", "label": "Has Stats?", "value": True, "include": False}
    described = "Indicates whether there are statistics for this table"
    return entries | {"has_stats": has_any | {"description": described}}


class _SparkCatalog:
    names = {"id_type": "bigint", "text_type": "string", "time_type": "timestamp"}
    kinds = {"view_type": "view", "table_type": "table"}
    of_table = stats_of(snapshots=1, rows=1, bytes=AnyInteger(), files=1)


class DocsGenerate(docs.TestDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> dict[str, Any]:
        return docs.expected_catalog.base_expected_catalog(
            project,
            role=None,
            **_SparkCatalog.names,
            **_SparkCatalog.kinds,
            model_stats=stats_of(columns=5),
            seed_stats=_SparkCatalog.of_table,
        )


class DocsReferences(docs.TestDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> dict[str, Any]:
        return docs.expected_catalog.expected_references_catalog(
            project,
            role=None,
            **_SparkCatalog.names,
            **_SparkCatalog.kinds,
            bigint_type="bigint",
            model_stats=_SparkCatalog.of_table,
            view_summary_stats=stats_of(columns=2),
        )


class SingleRelation(single_relation.BaseGetCatalogForSingleRelation):
    def test_get_catalog_for_single_relation(self, project: Any) -> None:
        run_dbt(["seed"])
        run_dbt(["run"])
        columns = {"id": "bigint"} | dict.fromkeys(("first_name", "email", "ip_address"), "string")
        columns |= {"updated_at": "timestamp"}
        for name, kind in (("my_seed", "table"), ("my_view_model", "view")):
            relation = self.get_relation_for_identifier(project, name)
            with project.adapter.connection_named("__suite"):
                found = project.adapter.get_catalog_for_single_relation(relation)
            assert (found.metadata.name, found.metadata.type) == (name, kind)
            assert found.metadata.schema == project.test_schema
            assert {key: column.type for key, column in found.columns.items()} == columns
            figures = {key: entry.value for key, entry in found.stats.items()}
            expected = {"columns": 5} if kind == "view" else {"rows": 1, "files": 1, "snapshots": 1}
            assert expected.items() <= figures.items()


# ---- the cache: a relation of Spark has no database ---------------------------------------------


class _WithoutDatabase:
    def run_and_inspect_cache(self, project: Any, run_args: Any = None) -> None:
        for _ in range(2):
            run_dbt(run_args)
            (relation,) = project.adapter.cache.relations
            found = (relation.database, relation.schema, relation.identifier.lower())
            assert found == (None, project.test_schema, "model")


class CachedLowerCase(caching.TestCachingLowerCaseModel):
    run_and_inspect_cache = _WithoutDatabase.run_and_inspect_cache


class CachedUpperCase(caching.TestCachingUppercaseModel):
    run_and_inspect_cache = _WithoutDatabase.run_and_inspect_cache


class CachedSelected(caching.TestCachingSelectedSchemaOnly):
    run_and_inspect_cache = _WithoutDatabase.run_and_inspect_cache


class NotPopulated(caching.TestNoPopulateCache):
    run_and_inspect_cache = _WithoutDatabase.run_and_inspect_cache
