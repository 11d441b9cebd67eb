"""All that setup installs is of a hash that the repository holds."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession import jars
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.jars import JarError, _note_of, verified_jars
from filelock import FileLock, Timeout

from tests.support.dbt_project import REPO
from tools.setup import install_commands, java_command, split_lock

real = jars._sha256


def test_every_package_of_the_lock_has_a_hash_and_is_installed_once(tmp_path: Path) -> None:
    files = split_lock(tmp_path)
    texts = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    lock = (REPO / "requirements.lock").read_text(encoding="utf-8")
    assert sorted("".join(texts.values())) == sorted(lock)
    assert re.findall(r"(?m)^[\w-]+(?===)", texts["builders"]) == ["setuptools", "wheel"]
    assert re.findall(r"(?m)^[\w-]+(?===)", texts["spark"]) == ["pyspark"]
    for entry in re.split(r"(?m)^(?=\S)", lock):
        assert not entry.strip() or "--hash=sha256:" in entry, entry


def test_nothing_is_built_with_tools_that_are_not_locked(tmp_path: Path) -> None:
    """pip's build isolation would fetch a package's build dependencies as the index has them."""
    steps = install_commands(split_lock(tmp_path))
    commands = [[str(part) for part in command] for step in steps for command in step]
    assert len(commands) == 4
    commands.append([str(part) for part in java_command()])
    for command in commands:
        of_index = "-r" in command
        assert "--no-deps" in command
        assert "--require-hashes" in command or not of_index
        only_wheels = "--only-binary" in command and ":all:" in command
        assert only_wheels or "--no-build-isolation" in command, command
    assert commands[-1][-2:] == ["-r", "requirements-java.lock"]
    # what builds is there before anything is built
    assert "builders.lock" in " ".join(map(str, steps[0][0]))


def test_setup_calls_no_pip_but_these() -> None:
    """A call that is put together elsewhere would be seen by no test here."""
    nodes = ast.walk(ast.parse((REPO / "tools/setup.py").read_text(encoding="utf-8")))
    assert (
        len([node for node in nodes if isinstance(node, ast.Constant) and node.value == "pip"]) == 1
    )


# Jars


def credentials(tmp_path: Path, lock: str | None, **jars: bytes) -> SparkSessionCredentials:
    """A profile whose coordinates were resolved to these jars."""
    made = SparkSessionCredentials(
        schema="dw", database=None, packages=["a:b:1"], jars_lock="jars.lock" if lock else ""
    )
    made.project_root = str(tmp_path)
    folder = tmp_path / ".jars" / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in jars.items():
        (folder / f"{name}.jar").write_bytes(content)
    Path(_note_of(made)).write_text(json.dumps([f"{name}.jar" for name in jars]))
    if lock:
        (tmp_path / "jars.lock").write_text(lock)
    return made


def locked(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}.jar\n"


def test_one_process_at_a_time_resolves_jars_into_a_folder(
    tmp_path: Path, monkeypatch: Any
) -> None:
    made = credentials(tmp_path, locked("one", b"good"), one=b"good")
    Path(_note_of(made)).unlink()
    lock, asked = tmp_path / ".jars" / ".lock", []

    def resolved(*_: Any) -> list[str]:
        with pytest.raises(Timeout):
            FileLock(lock, timeout=0).acquire()
        asked.append(1)
        return ["one.jar"]

    monkeypatch.setattr(jars, "_resolved", resolved)
    for _ in range(2):  # the second time they are there
        assert verified_jars(made, {}) == [str(tmp_path / ".jars" / "jars" / "one.jar")]
    FileLock(lock, timeout=0).acquire().lock.release()
    assert asked == [1]


def test_a_jar_of_another_content_is_not_run(tmp_path: Path, monkeypatch: Any) -> None:
    read = []
    monkeypatch.setattr(jars, "_sha256", lambda path: read.append(path) or real(path))
    made = credentials(tmp_path, "# a note\n" + locked("one", b"good"), one=b"good")
    [path] = verified_jars(made, {})
    assert verified_jars(made, {}) == [path]
    assert read == [path], "a later run reads no jar again"

    Path(path).write_bytes(b"evil")
    for _ in range(2):  # nor is it taken when it is seen again
        with pytest.raises(JarError, match=r"isn't the jar of jars\.lock"):
            verified_jars(made, {})


def test_a_jar_that_is_not_listed_is_not_run(tmp_path: Path) -> None:
    made = credentials(tmp_path, locked("one", b"1"), one=b"1", two=b"2")
    for _ in range(2):  # nor is it taken when it is seen again
        with pytest.raises(JarError) as refused:
            verified_jars(made, {})
        assert "one.jar" not in str(refused.value)
        (line,) = [text for text in str(refused.value).splitlines() if "two.jar" in text]
    lock = tmp_path / "jars.lock"
    lock.write_text(lock.read_text() + line + "\n")
    assert len(verified_jars(made, {})) == 2


def test_a_lock_file_that_is_gone_is_named(tmp_path: Path) -> None:
    made = credentials(tmp_path, None, one=b"1")
    made.jars_lock = "jars.lock"
    with pytest.raises(JarError, match=r"names .*jars\.lock, which isn't there"):
        verified_jars(made, {})
    made.jars_lock = ""
    assert len(verified_jars(made, {})) == 1


def test_a_lock_file_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="must hold lines of"):
        verified_jars(credentials(tmp_path, "one.jar abc\n", one=b"1"), {})


def test_the_jars_of_every_profile_are_locked() -> None:
    """By the names that Spark gives them: group_artifact-version.jar."""
    text = (REPO / "profiles" / "profiles.yml").read_text(encoding="utf-8")
    coordinates = re.findall(r"[\w.-]+:[\w.-]+:\d[\w.]*", text)
    lock = (REPO / "jars.lock").read_text(encoding="utf-8")
    missing = [coordinate for coordinate in coordinates if jar_of(coordinate) not in lock]
    # of Kafka's a run stops with the lines to add
    assert [item for item in missing if "kafka" not in item] == []
    assert len(coordinates) == 6


def jar_of(coordinate: str) -> str:
    group, artifact, version = coordinate.split(":")
    return f"{group}_{artifact}-{version}.jar"
