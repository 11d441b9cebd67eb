"""What Spark starts with: the archive of its classes, the class path that it is of, settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession import java as of_java
from dbt.adapters.sparksession import session
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.impl import SparkSessionAdapter
from dbt.adapters.sparksession.java import find_java
from dbt.adapters.sparksession.java_process import last_lines
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from tests.support.dbt_project import DbtProject


def test_spark_starts_with_the_archive_of_its_classes_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "spark-classes.jsa"
    monkeypatch.setattr(of_java, "ARCHIVE", str(archive))
    assert of_java.archive_options() == ""
    archive.touch()
    # Java leaves one alone that doesn't fit, and reports it where no screen is
    options = of_java.archive_options().split()
    program = Path(find_java()) / "bin" / "java"
    done = subprocess.run([program, *options, "-version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"-XX:SharedArchiveFile={archive}" in options


def test_jars_are_on_the_class_path_where_spark_is_local(
    make_project: Callable[..., DbtProject],
) -> None:
    """The archive's classes are those of the class path: Java takes it with this path."""
    asked = "select java_method('java.lang.System', 'getProperty', 'java.class.path') as jars"
    project = make_project({})
    (jars,) = project.column(asked)
    assert "iceberg-spark-runtime" in jars.split(os.pathsep)[-2]
    assert "sqlite-jdbc" in jars.split(os.pathsep)[-1]
    assert project.query("set spark.jars")[0]["value"] == "<undefined>"
    if not Path(of_java.ARCHIVE).is_file():
        pytest.skip("setup has kept no archive")
    program = Path(find_java()) / "bin" / "java"
    shared = f"-XX:SharedArchiveFile={of_java.ARCHIVE}"
    command = [program, "-Xshare:on", shared, "-cp", jars, "-version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    command[4] = jars.replace("sqlite-jdbc", "another")
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_jars_are_put_behind_what_the_class_path_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    path = of_java.class_path([f"{tmp_path}/linked/a.jar", f"{tmp_path}/b.jar"])
    assert path == f"{tmp_path}/real/a.jar{os.pathsep}{tmp_path}/b.jar"
    assert of_java.class_path([f"{tmp_path}/a{os.pathsep}b.jar"]) is None
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    with of_java.on_class_path(path):
        assert os.environ["SPARK_DIST_CLASSPATH"] == path
    with of_java.on_class_path(None):
        assert "SPARK_DIST_CLASSPATH" not in os.environ
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/hadoop/*")
    with of_java.on_class_path(path):
        assert os.environ["SPARK_DIST_CLASSPATH"] == f"/hadoop/*{os.pathsep}{path}"
    assert os.environ["SPARK_DIST_CLASSPATH"] == "/hadoop/*"


def test_a_value_that_spark_does_not_take_is_named_before_a_session_has_it(
    spark: SparkSession,
) -> None:
    """A session with one never answered: PySpark asks its settings how to show their error."""
    jvm = spark.sparkContext._jvm
    own = {"spark.sql.shuffle.partitions": "8", "spark.sql.catalog.lake.token": "a-token"}
    session._check_values(jvm, own | {"spark.driver.memory": "2g"})
    for value in ("x", "0", ""):
        with pytest.raises(session.SettingError) as raised:
            session._check_values(jvm, own | {"spark.sql.shuffle.partitions": value})
        expected = f"sets spark.sql.shuffle.partitions to '{value}', which Spark doesn't take: "
        assert expected in str(raised.value)


def test_the_reason_of_a_spark_that_did_not_start_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    stack = "".join(f"\tat org.apache.spark.Frame{number}\n" for number in range(20))
    log.write_text(f"WARN first\nException: no such master\n{stack}", encoding="utf-8")
    assert last_lines(str(log)) == "WARN first\nException: no such master\n"


@pytest.mark.parametrize("name", ["warehouse", "schema"])
def test_an_empty_setting_of_the_profile_is_no_default(name: str) -> None:
    """An empty WAREHOUSE was the project's folder."""
    settings = {"schema": "dw", "warehouse": "warehouse"}
    SparkSessionCredentials.from_dict(settings)
    for empty in ("", " "):
        with pytest.raises(DbtRuntimeError, match=f"{name} of the profile is empty, got '{empty}'"):
            SparkSessionCredentials.from_dict(settings | {name: empty})


def test_no_thread_at_all_is_refused() -> None:
    config: Any = SimpleNamespace(
        threads=0, project_root="/project", credentials=SimpleNamespace(project_root=None)
    )
    with pytest.raises(DbtRuntimeError, match="threads must be a whole number from 1, got 0: set"):
        SparkSessionAdapter(config, None)
