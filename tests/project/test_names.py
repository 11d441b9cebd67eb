"""No name of a function or a class stands for two things."""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict

import pytest

from tests.support.dbt_project import REPO

# name -> why it may be defined several times
SHARED = {
    **dict.fromkeys(
        ("envelope", "images", "new_table", "table_moves"),
        "each log format has it, see registry.py",
    ),
    **dict.fromkeys(
        ("decode", "layout"),
        "each log format that workers decode has it, see fast/workers.py",
    ),
    **dict.fromkeys(
        ("column_types", "differences", "open_store", "plain_type", "written"),
        "each kind of store has it, as `transactional.py` asks for it",
    ),
    **dict.fromkeys(("literal", "quoted"), "a value or a name as SQL, in each dialect"),
    "main": "what the command line calls",
    **dict.fromkeys(("clean", "compensate", "drop_warehouse"), "the command calls its function"),
    "Fields": "base of pydantic's models, of the adapter and of python_udfs",
    "parsed": "texts as values, and SQL as a tree",
    "as_json": "health as JSON, and a column of Spark's as JSON",
}


def definitions(texts: dict[str, str]) -> dict[str, list[str]]:
    """Public function or class of a module -> files that define it.

    Args:
        texts: path of a file -> its Python code.
    """
    found = defaultdict(list)
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


@pytest.fixture(scope="module")
def defined() -> dict[str, list[str]]:
    command = ["git", "ls-files", "-z", "python_udfs/*.py", "tools/*.py"]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, check=True)
    paths = [path for path in listed.stdout.decode().split("\0") if (REPO / path).is_file()]
    return definitions({path: (REPO / path).read_text("utf-8") for path in paths})


def test_no_name_is_defined_twice(defined: dict[str, list[str]]) -> None:
    twice = {name: files for name, files in defined.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in SHARED} == {}
    assert SHARED.keys() == twice.keys(), "names that are defined once need no reason"


def test_a_name_that_is_defined_twice_is_found() -> None:
    texts = {"a.py": "def rows(): ...\nclass A: ...", "b.py": "def rows(): ...\ndef _a(): ..."}
    assert definitions(texts) == {"rows": ["a.py", "b.py"], "A": ["a.py"]}
