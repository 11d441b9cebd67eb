"""Classes of dbt's suite that differ here: seeds, hooks and clones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dbt.tests.adapter
import pytest
from dbt.tests.adapter.dbt_clone import test_dbt_clone as clone
from dbt.tests.adapter.hooks import test_model_hooks as model_hooks
from dbt.tests.adapter.hooks import test_run_hooks as run_hooks
from dbt.tests.adapter.simple_seed import test_seed as seed
from dbt.tests.util import copy_file, run_dbt, run_dbt_and_capture

# ---- seeds -------------------------------------------------------------------------------------


class BasicSeed(seed.TestBasicSeedTests):
    """PostgreSQL drops the views of a table with it."""

    def _check_relation_end_state(self, run_result: Any, project: Any, exists: bool) -> None:
        super()._check_relation_end_state(run_result, project, exists=True)


class SeedOfFullRefresh(seed.TestSeedConfigFullRefreshOn):
    def _check_relation_end_state(self, run_result: Any, project: Any, exists: bool) -> None:
        super()._check_relation_end_state(run_result, project, exists=True)


class WrongDelimiter(seed.TestSeedWithWrongDelimiter):
    def test_seed_with_wrong_delimiter(self, project: Any) -> None:
        message = run_dbt(["seed"], expect_pass=False).results[0].message
        assert "has the column seed_id|first_name|email|ip_address|birthday, and" in message
        assert "its delimiter is ';'" in message


class WithBOM(seed.TestSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        project.run_sql(seed.seeds.seeds__expected_sql)
        folder = Path(dbt.tests.adapter.__path__[0]) / "simple_seed"
        target = Path(project.project_root) / "seeds" / "seed_bom.csv"
        copy_file(str(folder), "seed_bom.csv", target, "")


# ---- hooks -------------------------------------------------------------------------------------

TARGET = {
    # a target of Spark has no database, host or user
    "target_dbname": "",
    "target_host": "",
    "target_user": "",
    "target_pass": "",
    "target_name": "default",
    "target_threads": 4,
    "target_type": "sparksession",
}


def check_context(found: dict[str, Any], state: str, project: Any) -> None:
    """A row that a hook wrote has what the target is."""
    expected = TARGET | {"test_state": state, "target_schema": project.test_schema}
    assert {name: found[name] for name in expected} == expected
    for name in ("run_started_at", "invocation_id"):
        assert found[name]
    assert found["thread_id"].startswith("Thread-") or found["thread_id"] == "MainThread"


class _Hooked:
    def check_hooks(self, state: str, project: Any, host: Any, count: int = 1) -> None:
        for found in self.get_ctx_vars(state, count, project):  # type: ignore[attr-defined]
            check_context(found, state, project)


OUTSIDE = "insert into {{ this.schema }}.on_model_hook (test_state) values ('outside')"


def outside_as_rows(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings; what runs outside of a transaction writes a row, where PostgreSQL vacuums."""
    for hooks in settings["models"]["test"].values():
        for hook in hooks:
            if isinstance(hook, dict):
                assert hook["sql"].startswith("vacuum")
                hook["sql"] = OUTSIDE
    return settings


class _HookedOutside:
    def check_hooks(self, state: str, project: Any, host: Any, count: int = 1) -> None:
        _Hooked.check_hooks(self, state, project, host, count)  # type: ignore[arg-type]
        asked = "select count(*) from {schema}.on_model_hook where test_state = 'outside'"
        found = project.run_sql(asked, fetch="one")[0]
        assert found == 2, found


class ModelHooks(model_hooks.TestPrePostModelHooks):
    check_hooks = _HookedOutside.check_hooks

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        given = model_hooks.BasePrePostModelHooks.project_config_update
        return outside_as_rows(given.__wrapped__(self))


class ModelHooksUnderscores(model_hooks.TestPrePostModelHooksUnderscores):
    check_hooks = _HookedOutside.check_hooks

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        given = model_hooks.TestPrePostModelHooksUnderscores.project_config_update
        return outside_as_rows(given.__wrapped__(self))


class HookRefs(model_hooks.TestHookRefs):
    check_hooks = _Hooked.check_hooks


class HooksInConfig(model_hooks.TestPrePostModelHooksInConfig):
    check_hooks = _Hooked.check_hooks


class HooksInConfigKwargs(model_hooks.TestPrePostModelHooksInConfigKwargs):
    check_hooks = _Hooked.check_hooks


class HooksInConfigWithCount(model_hooks.TestPrePostModelHooksInConfigWithCount):
    check_hooks = _HookedOutside.check_hooks

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        given = model_hooks.TestPrePostModelHooksInConfigWithCount.project_config_update
        return outside_as_rows(given.__wrapped__(self))


class RunHooks(run_hooks.TestPrePostRunHooks):
    def check_hooks(self, state: str, project: Any, host: Any) -> None:
        check_context(self.get_ctx_vars(state, project), state, project)

    def assert_used_schemas(self, project: Any) -> None:
        named = {"schemas": (project.test_schema,), "db_schemas": ("None", project.test_schema)}
        for table, row in named.items():
            found = project.run_sql(f"select * from {{schema}}.{table}", fetch="all")
            assert list(map(tuple, found)) == [row]


# ---- clones ------------------------------------------------------------------------------------


class CloneOfItself(clone.TestCloneSameTargetAndState):
    """What the state has is there already, and the snapshot that nothing made is named."""

    def test_clone_same_target_and_state(
        self, project: Any, unique_schema: str, other_schema: str
    ) -> None:
        project.create_test_schema(other_schema)
        self.run_and_save_state(project.project_root)
        _, output = run_dbt_and_capture(["clone", "--defer", "--state", "target"])
        assert "The state and target directories are the same: 'target'" in output
        assert "The state has nothing of snapshot.test.my_cool_snapshot." in output
