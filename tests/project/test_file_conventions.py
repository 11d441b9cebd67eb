"""Conventions of files: macros, tests, lines, paths, pins."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.dbt_project import REPO
from tests.support.faults import RUN_FAULTS, SQL_FAULTS
from tests.support.project_files import MACROS, relative, sql_files, yaml_files

MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:work/|root/|home/\w+/|tmp/bash)")
REGISTRY = re.compile(
    r"(?:pypi\.org|files\.pythonhosted\.org|repo1\.maven\.org|registry\.npmjs\.org)"
)


def tracked_texts() -> Iterator[tuple[str, str]]:
    """(path, text) of each text file under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git repository")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = REPO / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            yield name, content.decode("utf-8", errors="replace")


# ---- macros and generic tests -------------------------------------------------------------


def defined(path: Path, kind: str) -> dict[str, list[str]]:
    """Macros, or generic tests, of a file: name -> its arguments."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(rf"{{%-?\s*{kind}\s+(\w+)\s*\(([^)]*)\)", text)
    return {
        name: [part.split("=")[0].strip() for part in arguments.split(",") if part.strip()]
        for name, arguments in found
    }


def test_the_faults_that_tests_have_to_catch_stand_in_today_s_code() -> None:
    """`make soak` alone puts them in: till then nobody would see that a fault has no place now."""
    wrong = [
        fault.name
        for fault in (*SQL_FAULTS, *RUN_FAULTS)
        if (REPO / fault.file).read_text(encoding="utf-8").count(fault.right) != 1
    ]
    assert wrong == []


def test_no_test_module_imports_another_one_or_a_conftest() -> None:
    """What several of them need stands in tests/support."""
    wrong = {
        relative(path): found
        for path in sorted((REPO / "tests").rglob("*.py"))
        if (
            found := re.findall(
                r"(?:from|import) (tests\.\S*\b(?:test_\w+|conftest))", path.read_text()
            )
        )
    }
    assert wrong == {}


def test_a_macro_file_holds_one_public_macro_of_its_name() -> None:
    wrong = {}
    for path in sql_files(*MACROS):
        public = [name for name in defined(path, "macro") if not name.startswith("_")]
        if public != [path.stem]:
            wrong[relative(path)] = public
    assert wrong == {}


def test_a_generic_test_file_holds_one_test_of_its_name_after_a_comment() -> None:
    wrong = []
    for path in sql_files("tests/dbt/generic"):
        comment = re.match(r"\{#\n {4}\w.*?#\}\n", path.read_text("utf-8"), re.DOTALL)
        if list(defined(path, "test")) != [path.stem] or comment is None:
            wrong.append(relative(path))
    assert wrong == []


def test_public_macros_are_described_with_their_arguments() -> None:
    wrong = []
    for folder in sorted({path.parent for path in sql_files(*MACROS)}):
        entries = yaml.safe_load((folder / "_macros.yml").read_text(encoding="utf-8"))
        described = {entry["name"]: entry for entry in entries["macros"]}
        signatures: dict[str, list[str]] = {}
        for path in folder.glob("*.sql"):
            signatures |= defined(path, "macro")
        public = {name for name in signatures if not name.startswith("_")}
        wrong += [f"{name}: in one place only" for name in public ^ set(described)]
        for name in public & set(described):
            arguments = described[name].get("arguments", [])
            if not described[name].get("description"):
                wrong.append(f"{name}: no description")
            if [argument["name"] for argument in arguments] != signatures[name]:
                wrong.append(f"{name}: other arguments than {signatures[name]}")
            for argument in arguments:
                if not argument.get("type") or not argument.get("description"):
                    wrong.append(f"{name}({argument['name']}): no type or description")
    assert wrong == []


# ---- files --------------------------------------------------------------------------------


def test_lines_are_short_enough_to_be_read() -> None:
    """What sqlfluff doesn't see: Jinja, comments, YAML. To SQL it allows 88 characters."""
    assert [
        f"{relative(path)}: {line.strip()}"
        for path in [*sql_files("models", *MACROS, "tests/dbt"), *yaml_files()]
        for line in path.read_text(encoding="utf-8").splitlines()
        if len(line) > 100
    ] == []


def test_no_file_names_a_machines_folders_or_a_registry() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line) or REGISTRY.search(line)
    ]
    assert found == []


def test_every_locked_package_has_a_version_and_hashes() -> None:
    text = (REPO / "requirements.lock").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    entries = [line for line in lines if line.strip() and not line.startswith("#")]
    assert entries
    assert [
        line
        for line in entries
        if "==" not in line.split()[0] or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line)
    ] == []
