"""The archive of classes that Spark starts with, and the class path that it is of."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from dbt.adapters.sparksession import java as of_java
from dbt.adapters.sparksession.java import find_java

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
