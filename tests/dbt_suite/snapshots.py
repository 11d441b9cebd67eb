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


def reading_a_source(case: Any) -> Any:
    """Let the snapshots of a class, as those of the suite's own that it extends, read the table as
    a source."""
    (given,) = case.__bases__

    @pytest.fixture(scope="class")
    def models(self: Any) -> dict[str, str]:
        return given.models.__wrapped__(self) | {"given.yml": DECLARED}

    @pytest.fixture(scope="class")
    def snapshots(self: Any) -> dict[str, str]:
        texts: dict[str, str] = given.snapshots.__wrapped__(self)
        assert all(BY_HAND in text for text in texts.values())
        return {
            name: text.replace(BY_HAND, "{{ source('given', 'seed') }}")
            for name, text in texts.items()
        }

    case.models, case.snapshots = models, snapshots
    return case


@reading_a_source
class NewRecords(check_mode.BaseSnapshotNewRecordCheckMode):
    pass


@reading_a_source
class NewRecordsWithAnEnd(valid_to_current.BaseSnapshotNewRecordDbtValidToCurrent):
    pass


@reading_a_source
class ColumnNames(configs.BaseSnapshotColumnNames):
    pass


@reading_a_source
class ColumnNamesFromProject(configs.BaseSnapshotColumnNamesFromDbtProject):
    pass


@reading_a_source
class InvalidColumnNames(configs.BaseSnapshotInvalidColumnNames):
    pass


@reading_a_source
class ValidToCurrent(configs.BaseSnapshotDbtValidToCurrent):
    """Its rows are looked up by their id: those of a table of Spark have no order."""

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
