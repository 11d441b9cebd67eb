"""Local files that Java makes: their permissions, set without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.local_files import CLASS, set_permissions_in_java
from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: SparkSession) -> Any:
    """Hadoop's file system of `file:`, as all of Java gets it."""
    set_permissions_in_java(spark)  # no matter how often
    return hadoop_path(spark, "/").getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def hadoop_path(spark: SparkSession, path: Path | str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(f"file://{path}")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def permissions(spark: SparkSession, octal: int) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.permission.FsPermission(f"{octal:o}")


def test_all_that_ask_get_the_same_files(files: Any) -> None:
    assert files.getRawFileSystem().getClass().getName() == CLASS


@pytest.mark.parametrize("octal", [0o600, 0o640, 0o755, 0o777, 0o400, 0o1777])
def test_permissions_are_set(spark: SparkSession, files: Any, tmp_path: Path, octal: int) -> None:
    made = tmp_path / "it's a file; $(echo) ü"
    made.write_text("text", encoding="utf-8")
    files.setPermission(hadoop_path(spark, made), permissions(spark, octal))
    assert mode(made) == octal


def test_new_files_and_folders_follow_the_umask(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    umask = int(spark.sparkContext._jsc.hadoopConfiguration().get("fs.permissions.umask-mode"), 8)
    folder = tmp_path / "a" / "b"
    files.create(hadoop_path(spark, folder / "file"), True).close()
    assert mode(folder / "file") == mode(folder / ".file.crc") == 0o666 & ~umask
    assert mode(folder) == 0o777 & ~umask


def test_a_linked_folder_is_listed(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    found = files.listFiles(hadoop_path(spark, tmp_path / "link"), True)
    assert found.next().getPath().getName() == "file" and not found.hasNext()


def test_a_missing_file_is_an_error(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="NoSuchFileException"):
        files.setPermission(hadoop_path(spark, tmp_path / "none"), permissions(spark, 0o600))
