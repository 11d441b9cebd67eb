"""Classes of dbt's suite that differ here: snapshots of a table that they name by hand."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from dbt.tests.adapter.simple_snapshot import new_record_check_mode as check_mode
from dbt.tests.adapter.simple_snapshot import new_record_dbt_valid_to_current as valid_to_current
from dbt.tests.adapter.simple_snapshot import test_various_configs as configs
from dbt.tests.util import check_relations_equal, run_dbt

BY_HAND = "{{target.database}}.{{target.schema}}.seed"
DECLARED = """
sources:
  - name: given
    schema: "{{ target.schema }}"
    tables:
      - name: seed
"""


def snapshots_of(case: Any) -> Any:
    """The snapshots of a class, which read the table as a source."""

    @pytest.fixture(scope="class")
    def snapshots(self: Any) -> dict[str, str]:
        given: dict[str, str] = case.snapshots.__wrapped__(self)
        assert all(BY_HAND in text for text in given.values())
        return {
            name: text.replace(BY_HAND, "{{ source('given', 'seed') }}")
            for name, text in given.items()
        }

    return snapshots


def models_of(case: Any) -> Any:
    """The models of a class, and the table as a source."""

    @pytest.fixture(scope="class")
    def models(self: Any) -> dict[str, str]:
        return case.models.__wrapped__(self) | {"given.yml": DECLARED}

    return models


class NewRecords(check_mode.BaseSnapshotNewRecordCheckMode):
    models = models_of(check_mode.BaseSnapshotNewRecordCheckMode)
    snapshots = snapshots_of(check_mode.BaseSnapshotNewRecordCheckMode)


class NewRecordsWithAnEnd(valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent):
    models = models_of(valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent)
    snapshots = snapshots_of(valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent)


class ColumnNames(configs.BaseSnapshotColumnNames):
    models = models_of(configs.BaseSnapshotColumnNames)
    snapshots = snapshots_of(configs.BaseSnapshotColumnNames)


class ColumnNamesFromProject(configs.BaseSnapshotColumnNamesFromDbtProject):
    models = models_of(configs.BaseSnapshotColumnNamesFromDbtProject)
    snapshots = snapshots_of(configs.BaseSnapshotColumnNamesFromDbtProject)


class InvalidColumnNames(configs.BaseSnapshotInvalidColumnNames):
    models = models_of(configs.BaseSnapshotInvalidColumnNames)
    snapshots = snapshots_of(configs.BaseSnapshotInvalidColumnNames)


class ValidToCurrent(configs.BaseSnapshotDbtValidToCurrent):
    """Its rows are looked up by their id: those of a table of Spark have no order."""

    models = models_of(configs.BaseSnapshotDbtValidToCurrent)
    snapshots = snapshots_of(configs.BaseSnapshotDbtValidToCurrent)

    def test_valid_to_current(self, project: Any) -> None:
        def ends(row_id: int) -> list[datetime.datetime]:
            asked = f"select test_valid_to from {{schema}}.snapshot_actual where id = {row_id}"
            return sorted(row[0] for row in project.run_sql(asked, fetch="all"))

        current = datetime.datetime(2099, 12, 31)
        project.run_sql(configs.create_seed_sql)
        project.run_sql(configs.create_snapshot_expected_sql)
        project.run_sql(configs.seed_insert_sql)
        project.run_sql(configs.populate_snapshot_expected_valid_to_current_sql)
        assert len(run_dbt(["snapshot"])) == 1
        assert ends(1) == ends(10) == [current]

        project.run_sql(configs.invalidate_sql)
        project.run_sql(configs.update_with_current_sql)
        assert len(run_dbt(["snapshot"])) == 1
        assert ends(1) == [current]
        assert ends(10) == [datetime.datetime(2016, 8, 20, 16, 44, 49), current]
        check_relations_equal(project.adapter, ["snapshot_actual", "snapshot_expected"])


class SeveralKeys(configs.BaseSnapshotMultiUniqueKey):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        given = configs.snapshots_multi_key_yml
        assert "ref('seed')" in given
        return {
            "snapshots.yml": given.replace("ref('seed')", "source('given', 'seed')"),
            "ref_snapshot.sql": configs.ref_snapshot_sql,
            "given.yml": DECLARED,
        }
