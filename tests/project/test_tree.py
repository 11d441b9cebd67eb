"""The tree in CONTRIBUTING.md is that of the folders; the files of a message's way are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePosixPath

import pytest

from tests.support.dbt_project import REPO

PAGE = (REPO / "CONTRIBUTING.md").read_text("utf-8")
CODE = (".py", ".sql")
# top folder -> how many folders deep each room has its own line; below, the line of the room counts
DEPTHS = {"python_udfs": 99, "macros": 99, "tools": 99, "models": 2, "benchmarks": 1, "tests": 1}
LONGEST_WAY = 20  # files
# what lies in the project's folder beside the rooms of the tree
AT_THE_TOP = {
    *(
        ".ci",
        ".dockerignore",
        ".github",
        ".gitignore",
        ".pre-commit-config.yaml",
        ".sqlfluff",
        ".sqlfluffignore",
    ),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md", "SECURITY.md"),
    *("Makefile", "dbt_project.yml", "jars.lock", "mkdocs.yml", "profiles", "pyproject.toml"),
    *("requirements.in", "requirements.lock", "requirements-java.lock", "selectors.yml"),
    *("requirements-notebook.in", "requirements-notebook.lock"),
}


def rooms_listed(page: str) -> set[str]:
    """The folders that the tree's table names in its first column.

    >>> sorted(rooms_listed("## Where things are\\n| `a/b`, `c` | what | `d` |\\n## Rules"))
    ['a/b', 'c']
    """
    tree = page.split("## Where things are")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", tree, re.MULTILINE)
    return {room for cell in cells for room in re.findall(r"`([^`]+)`", cell)}


def rooms_there(paths: list[str]) -> set[str]:
    """The folders with code, as deep as the tree lists them.

    >>> sorted(rooms_there(["models/dwd/trade/a.sql", "tools/x/y.py", "docs/a.md", "tests/b/c.py"]))
    ['models/dwd', 'tests', 'tools/x']
    """
    found = set()
    for path in map(PurePosixPath, paths):
        depth = DEPTHS.get(path.parts[0], 0)
        if path.suffix in CODE and path.name != "__init__.py" and depth:
            found.add("/".join(path.parent.parts[:depth]))
    return found


def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=True)
    return [path for path in listed.stdout.decode().split("\0") if (REPO / path).is_file()]


def way(page: str) -> list[str]:
    """The files of a message's way, in their order."""
    steps = page.split("### A message's way")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", steps, re.MULTILINE)


def test_each_room_has_its_line_in_the_tree() -> None:
    lacking = rooms_there(files()) - rooms_listed(PAGE) - {"models", "macros", "python_udfs"}
    assert lacking == set(), "give each a line in the tree of CONTRIBUTING.md"


def test_each_room_of_the_tree_is_there() -> None:
    assert [room for room in sorted(rooms_listed(PAGE)) if not (REPO / room).is_dir()] == []


def test_nothing_lies_in_the_projects_folder_that_the_tree_lacks() -> None:
    """What a test writes into the working directory and somebody commits is found here."""
    rooms = {room.split("/")[0] for room in rooms_listed(PAGE)}
    top = {path.split("/")[0] for path in files()}
    assert top - rooms == AT_THE_TOP


def test_a_messages_way_is_short_and_each_of_its_files_is_there() -> None:
    passed = way(PAGE)
    assert passed[0].startswith("python_udfs/ingestion/landing/")
    assert passed[-2].endswith("dws_trade__user_status_td.sql")
    assert len(set(passed)) == len(passed) <= LONGEST_WAY
    assert [path for path in passed if not (REPO / path).is_file()] == []


@pytest.mark.parametrize("room", ["python_udfs/ingestion/formats", "macros/joins"])
def test_a_room_without_its_line_is_found(room: str) -> None:
    page = "\n".join(line for line in PAGE.splitlines() if not line.startswith(f"| `{room}`"))
    assert room in rooms_there(files()) - rooms_listed(page)
