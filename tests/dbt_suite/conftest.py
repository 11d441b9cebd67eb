"""Fixtures of dbt's own suite for adapters, which all of its classes share.

One warehouse and one Spark for all classes; each class has a project and a schema of its own. The
suite is written for PostgreSQL: what it runs and writes passes through dialect.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dbt.tests.adapter
import pytest
import yaml
from dbt.tests.fixtures import project as suite
from dbt.tests.fixtures.project import *  # noqa: F403  the suite's fixtures, found by their names

from tests.dbt_suite.dialect import spark_sql, statements
from tests.support.dbt_project import REPO, DbtProject

INSERT = re.compile(
    r"\s*insert into (?P<table>[\w.`]+)\s*(?:\((?P<columns>[^()]*)\))?"
    r"\s*(?P<rows>(?:values|select)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
DROPPED = re.compile(r"\s*drop schema if exists (\w+) cascade\s*", re.IGNORECASE)
USERS = ("DBT_TEST_USER_1", "DBT_TEST_USER_2", "DBT_TEST_USER_3")


@pytest.fixture(scope="session")
def suite_profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output `local` of the repository's profile, with a warehouse for the suite."""
    project = DbtProject(REPO, tmp_path_factory.mktemp("dbt_suite") / "warehouse")
    project.query("select 1")  # starts Spark with the project's jars
    # a name that the suite prints; Spark has no users
    return project.profile_settings() | {"threads": 4}


@pytest.fixture(scope="session", autouse=True)
def written_for_spark() -> Iterator[None]:
    """Within it the suite's files and statements are written in Spark's dialect."""
    write, run = suite.write_file, suite.TestProjInfo.run_sql

    def write_file(text: str, *path: str) -> None:
        name = str(path[-1])
        if name.endswith(".sql"):
            text = spark_sql(text)
        elif name.endswith(".yml"):
            text = re.sub(r"\b(data_type: *)text\b", r"\1string", text)
        write(text, *path)

    def run_sql(project: Any, sql: str, fetch: str | None = None) -> Any:
        given = sql.format(database=project.database, schema=project.test_schema)
        answer = None
        for statement in statements(spark_sql(given)):
            answer = _run(run, project, statement, fetch)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "write_file", write_file)
        patch.setattr(suite.TestProjInfo, "run_sql", run_sql)
        patch.setattr(suite.TestProjInfo, "get_tables_in_schema", tables_in_schema)
        for user in USERS:
            patch.setenv(user, user.lower())
        yield


def _run(run: Any, project: Any, statement: str, fetch: str | None) -> Any:
    """Run one statement of a test. PostgreSQL stores a text in a column of dates, so what is
    inserted is given the columns' types. Iceberg drops no schema that holds a table."""
    dropped = DROPPED.fullmatch(statement)
    if dropped is not None:
        with project.adapter.connection_named("__suite"):
            relation = project.adapter.Relation.create(schema=dropped[1])
            return project.adapter.drop_schema(relation)
    found = INSERT.match(re.sub(r"(?m)^\s*--.*$", "", statement))
    if found is None:
        return run(project, statement, fetch)
    with project.adapter.connection_named("__suite"):
        session = project.adapter.services.warehouse.session()
        types = session.sql(f"select * from {found['table']}").schema
    names = [
        name.strip().strip("`") for name in (found["columns"] or ",".join(types.names)).split(",")
    ]
    kinds = {field.name.lower(): field.dataType.simpleString() for field in types.fields}
    values = ", ".join(f"cast(`{name}` as {kinds[name.lower()]})" for name in names)
    listed = ", ".join(f"`{name}`" for name in names)
    rows = f"select {values} from ({found['rows']}) as given({listed})"
    return run(project, f"insert into {found['table']} ({listed}) {rows}", fetch)


def tables_in_schema(project: Any) -> dict[str, str]:
    """Name -> table or view of what the test's schema has. Spark has no information_schema."""
    with project.adapter.connection_named("__suite"):
        relation = project.adapter.Relation.create(schema=project.test_schema)
        found = project.adapter.list_relations_without_caching(relation)
    return {relation.identifier: str(relation.type) for relation in found}


@pytest.fixture(scope="class")
def dbt_profile_target(suite_profile: dict[str, Any]) -> dict[str, Any]:
    return dict(suite_profile)


@pytest.fixture(scope="class")
def profile_user() -> str:
    return ""


@pytest.fixture(scope="class")
def dbt_project_yml(project_root: Any, project_config_update: Any) -> dict[str, Any]:
    """The suite's own, but models may add all rows of their inputs again, which its cases do."""
    settings: dict[str, Any] = {
        "name": "test",
        "profile": "test",
        "flags": {"send_anonymous_usage_stats": False},
    }
    update = project_config_update or {}
    settings |= yaml.safe_load(update) if isinstance(update, str) else update
    for moment in ("on-run-start", "on-run-end"):
        if moment in settings:
            hooks = settings[moment]
            settings[moment] = (
                spark_sql(hooks) if isinstance(hooks, str) else [*map(spark_sql, hooks)]
            )
    settings["models"] = {"+appends_all_rows": True, **settings.get("models", {})}
    suite.write_file(yaml.safe_dump(settings), project_root, "dbt_project.yml")
    return settings


@pytest.fixture(scope="class")
def test_data_dir(request: pytest.FixtureRequest) -> str:
    """The folder `data` beside the suite's own module."""
    for parent in request.cls.__mro__:
        folder = parent.__module__.removeprefix("dbt.tests.adapter.").split(".")[0]
        path = Path(dbt.tests.adapter.__path__[0]) / folder / "data"
        if path.is_dir():
            return str(path)
    return os.path.join(request.fspath.dirname, "data")


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("logs")
        patch.setenv("DBT_LOG_PATH", str(folder))
        yield str(folder)


@pytest.fixture(scope="class", autouse=True)
def around_a_class(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each class leaves the process's folder and environment as they were."""
    before, folder = dict(os.environ), os.getcwd()
    yield
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(before)
