"""Classes of dbt's suite that differ here; the reason of each stands in parity.yml.

A class here takes the place of the class that it extends, see `changed`.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.basic import test_incremental as basic_incremental
from dbt.tests.adapter.basic import test_table_materialization as table_materialization
from dbt.tests.adapter.column_types import test_column_types as column_types
from dbt.tests.adapter.concurrency import test_concurrency as concurrency
from dbt.tests.adapter.constraints import test_constraints as constraints
from dbt.tests.adapter.dbt_show import test_dbt_show as show
from dbt.tests.adapter.empty import test_empty as empty
from dbt.tests.adapter.ephemeral import test_ephemeral as ephemeral
from dbt.tests.adapter.grants import test_invalid_grants as invalid_grants
from dbt.tests.adapter.incremental import test_incremental_microbatch as microbatch
from dbt.tests.adapter.incremental import test_incremental_predicates as predicates
from dbt.tests.adapter.incremental import test_incremental_unique_id as unique_id
from dbt.tests.adapter.simple_copy import test_copy_uppercase as copy_uppercase
from dbt.tests.adapter.simple_copy import test_simple_copy as simple_copy
from dbt.tests.adapter.simple_seed import test_seed_type_override as seed_types
from dbt.tests.adapter.unit_testing import test_types as unit_types
from dbt.tests.adapter.utils import test_get_intervals_between as intervals
from dbt.tests.adapter.utils import test_timestamps as timestamps
from dbt.tests.adapter.utils.data_types import test_type_float as type_float
from dbt.tests.adapter.utils.data_types import test_type_int as type_int
from dbt.tests.util import (
    check_relations_equal,
    run_dbt,
    run_dbt_and_capture,
    write_file,
)

from tests.dbt_suite import contracts, seeds_and_hooks, snapshots
from tests.dbt_suite.suite import PACKAGE, name_of

BY_HAND = "{{ this.schema }}.seed"
# value as SQL, type, the type as an error names it
SPARK_TYPES = [
    ["1", "int", "int"],
    ["'1'", "string", "string"],
    ["true", "boolean", "boolean"],
    ["timestamp '2013-11-03 00:00:00-07'", "timestamp", "timestamp"],
    ["array('a','b','c')", "array<string>", "array<string>"],
    ["array(1,2,3)", "array<int>", "array<int>"],
    ["cast('1' as decimal(10,0))", "decimal(10,0)", "decimal(10,0)"],
    ["named_struct('bar', 'baz')", "struct<bar:string>", "struct<bar:string>"],
]


def by_ref(models: dict[str, str]) -> dict[str, str]:
    """The models, with the seed that they name by hand read by ref."""
    return {name: text.replace(BY_HAND, "{{ ref('seed') }}") for name, text in models.items()}


# ---- models ----------------------------------------------------------------------------------


class TableMaterialization(table_materialization.TestTableMat):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return by_ref({"materialized.sql": table_materialization.model_sql})


class BadStrategy(basic_incremental.BaseIncrementalBadStrategy):
    def test_incremental_invalid_strategy(self, project: Any) -> None:
        run_dbt(["seed"])
        results = run_dbt(["run", "--select", "incremental"], expect_pass=False)
        assert "or the name of a macro get_incremental_<name>_sql" in results.results[0].message
        assert "got 'bad_strategy'" in results.results[0].message


class Concurrency(concurrency.TestConcurenncy):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        names = ("invalid", "table_a", "table_b", "view_model", "dep", "skip")
        names += ("view_with_conflicting_cascade",)
        return by_ref(
            {f"{name}.sql": getattr(concurrency, f"models__{name}_sql") for name in names}
        )


class Multi(ephemeral.TestEphemeralMulti):
    def test_ephemeral_multi(self, project: Any) -> None:
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for name in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", name])
        sql = Path("target/run/test/models/double_dependent.sql").read_text(encoding="utf-8")
        assert sql.count("__dbt__cte__base as (") == 1
        assert sql.count("__dbt__cte__base_copy as (") == 1


class Nested(ephemeral.TestEphemeralNested):
    def test_ephemeral_nested(self, project: Any) -> None:
        assert len(run_dbt(["run"])) == 2
        sql = Path("target/run/test/models/root_view.sql").read_text(encoding="utf-8")
        inner, outer = sql.index("ephemeral_level_two as ("), sql.index("cte__ephemeral as (")
        assert inner < outer
        check_relations_equal(project.adapter, ["source_table", "root_view"])


class CopyUppercase(copy_uppercase.TestSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, suite_profile: dict[str, Any]) -> dict[str, Any]:
        return dict(suite_profile)


class Copy(simple_copy.TestSimpleCopyBase):
    test_simple_copy_with_materialized_views = None


# ---- incremental models ------------------------------------------------------------------------


class _Merged:
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {
                "+incremental_strategy": "merge",
                "+predicates": ["dbt_internal_dest.id != 2"],
            }
        }


class Predicates(predicates.TestIncrementalPredicatesDeleteInsert):
    project_config_update = _Merged.project_config_update


class PredicatesByTheirOldName(predicates.TestPredicatesDeleteInsert):
    project_config_update = _Merged.project_config_update


class UniqueKey(unique_id.TestIncrementalUniqueKey):
    """Its seed and what is expected of it, without the second row of a state."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        second = "select 'NY','New York','Manhattan','2021-04-01'\nunion all\n"
        return {
            name.removeprefix("models__").removeprefix("expected__").removesuffix("_sql")
            + ".sql": text.replace(second, "")
            for name, text in vars(unique_id).items()
            if name.startswith("models__")
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        seeds = unique_id.TestIncrementalUniqueKey.seeds.__wrapped__(self)
        second = "NY,New York,Manhattan,2021-04-01\n"
        return seeds | {"seed.csv": seeds["seed.csv"].replace(second, "")}

    def get_expected_fields(
        self, relation: str, seed_rows: int, opt_model_count: Any = None
    ) -> Any:
        return super().get_expected_fields(relation, seed_rows - 1, opt_model_count)

    def fail_to_build_inc_missing_unique_key_column(self, incremental_model_name: str) -> Any:
        run_dbt(["seed", "--full-refresh"])
        (result,) = run_dbt(["run", "--select", incremental_model_name], expect_pass=False).results
        return result.status, result.message


class Microbatch(microbatch.BaseMicrobatch):
    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        given = "partition_by='days(event_time)', event_time="
        return microbatch._microbatch_model_sql.replace("event_time=", given, 1)


# ---- contracts and types -----------------------------------------------------------------------


class _SparkTypes:
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return SPARK_TYPES


class TableColumns(constraints.TestTableConstraintsColumnsEqual):
    string_type, int_type = _SparkTypes.string_type, _SparkTypes.int_type
    data_types = _SparkTypes.data_types


class ViewColumns(constraints.TestViewConstraintsColumnsEqual):
    string_type, int_type = _SparkTypes.string_type, _SparkTypes.int_type
    data_types = _SparkTypes.data_types


class IncrementalColumns(constraints.TestIncrementalConstraintsColumnsEqual):
    string_type, int_type = _SparkTypes.string_type, _SparkTypes.int_type
    data_types = _SparkTypes.data_types


class UnitTestTypes(unit_types.TestPostgresUnitTestingTypes):
    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["date '2020-01-02'", "2020-01-02"],
            ["timestamp '2013-11-03 00:00:00-0'", "'2013-11-03 00:00:00-0'"],
            ["cast('1' as decimal(10,0))", "1"],
        ]


class SeedTypes(seed_types.TestSimpleSeedColumnOverride):
    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        names = ("seed_id_str", "looks_like_a_bool", "looks_like_a_date")
        return dict.fromkeys(names, "string")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = seed_types.fixtures.properties__schema_yml
        ours = {"text": "string", "integer": "bigint", "timestamp without time zone": "timestamp"}
        for theirs, spark in ours.items():
            text = text.replace(f"type: {theirs}", f"type: {spark}")
        return {"schema.yml": text}


class IntegerType(type_int.TestTypeInt):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"test": {"+column_types": {"int_col": "int"}}}}


class FloatType(type_float.TestTypeFloat):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"test": {"+column_types": {"float_col": "float"}}}}


class Timestamps(timestamps.TestCurrentTimestamps):
    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, str]:
        names = ("current_timestamp", "current_timestamp_in_utc_backcompat")
        return dict.fromkeys((*names, "current_timestamp_backcompat"), "timestamp")

    @pytest.fixture(scope="class")
    def expected_sql(self) -> None:
        return None


class Intervals(intervals.TestGetIntervalsBetween):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        given = intervals.fixture_get_intervals_between
        sql = given.models__test_get_intervals_between_sql
        for theirs, ours in (("'09/01/2023'", "'2023-09-01'"), ("'09/12/2023'", "'2023-09-12'")):
            sql = sql.replace(theirs, ours)
        yml = given.models__test_get_intervals_between_yml
        return {
            "test_get_intervals_between.sql": sql,
            "test_get_intervals_between.yml": yml,
        }


class ColumnTypes(column_types.TestPostgresColumnTypes):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = column_types.fixtures.model_sql.replace("double precision", "double")
        text = text.replace("varchar(20)", "text")
        return {"model.sql": text, "schema.yml": column_types.fixtures.schema_yml}


# ---- flags, grants -----------------------------------------------------------------------------


class DoubleLimit(show.TestShowDoesNotHandleDoubleLimit):
    DATABASE_ERROR_MESSAGE = "Syntax error at or near 'limit'"


class EmptySeeds(empty.BaseTestEmptySeedFlag):
    """`dbt seed` of dbt-core 1.11 has no --empty, `dbt build` has."""

    def test_seed_empty_creates_table_with_zero_rows(self, project: Any) -> None:
        run_dbt(["build", "--empty", "--select", "raw_seed"])
        self.assert_row_count(project, "raw_seed", 0)

    def test_seed_empty_preserves_column_types(self, project: Any) -> None:
        run_dbt(["build", "--empty", "--select", "raw_seed"])
        run_dbt(["seed", "--full-refresh"])
        self.assert_row_count(project, "raw_seed", 2)

    def test_seed_without_empty_loads_all_rows(self, project: Any) -> None:
        run_dbt(["seed"])
        self.assert_row_count(project, "raw_seed", 2)

    def test_build_empty_with_seed(self, project: Any) -> None:
        # what a table holds stays
        assert len(run_dbt(["build", "--empty"])) == 2
        self.assert_row_count(project, "raw_seed", 2)


class EmptyMetadata(empty.MetadataWithEmptyFlag):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = empty.MetadataWithEmptyFlag.models.__wrapped__(self)
        return {name: text.replace('"varchar"', '"string"') for name, text in models.items()}


class _MadeEmpty:
    """A table is made empty, and keeps what it holds later. A view has its rows: an empty one would
    hide them from each later run that doesn't make it again."""

    def test_run_with_empty(self, project: Any) -> None:
        rows = self.rows  # type: ignore[attr-defined]
        count = self.assert_row_count  # type: ignore[attr-defined]
        run_dbt(["seed"])
        run_dbt(["run", "--empty"])
        count(project, "model", 0)
        count(project, "as_view", rows)
        for flags in ([], ["--empty"]):
            run_dbt(["run", *flags])
            count(project, "model", rows)


def as_table_and_view(models: dict[str, str]) -> dict[str, str]:
    text = models["model.sql"]
    as_table = "{{ config(materialized='table') }}\n" + text
    return models | {"model.sql": as_table, "as_view.sql": text}


class Empty(empty.TestEmpty):
    rows = 3
    test_run_with_empty = _MadeEmpty.test_run_with_empty

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return as_table_and_view(empty.TestEmpty.models.__wrapped__(self))


class EmptyInline(empty.BaseTestEmptyInlineSourceRef):
    rows = 1
    test_run_with_empty = _MadeEmpty.test_run_with_empty

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return as_table_and_view(empty.BaseTestEmptyInlineSourceRef.models.__wrapped__(self))


class RefusedGrants(invalid_grants.TestInvalidGrants):
    def test_invalid_grants(self, project: Any, get_test_users: Any, logs_dir: str) -> None:
        yaml = self.interpolate_name_overrides(invalid_grants.invalid_user_table_model_schema_yml)
        write_file(yaml, project.project_root, "models", "schema.yml")
        _, log = run_dbt_and_capture(["run"], expect_pass=False)
        assert "and Spark has no users that could be given rights" in log


def changed() -> dict[str, type]:
    """Name of a class of the suite -> the class that takes its place here."""
    return {
        name_of(case.__bases__[0]): case
        for module in (contracts, seeds_and_hooks, snapshots, sys.modules[__name__])
        for case in vars(module).values()
        if inspect.isclass(case) and case.__bases__[0].__module__.startswith(PACKAGE)
    }
