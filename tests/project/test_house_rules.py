"""The rules of the code's shape and language: parameters, types, length, names, plain English.

What was against them when they came stands in `offenders.txt`, which may only get shorter.
"""

from __future__ import annotations

import ast

import pytest

from tests.project.offenders import (
    EDGES,
    LIST,
    TYPED,
    listed,
    more,
    offenders_now,
    offenders_of,
    uses_of_any,
    without_mended_edges,
    written,
)
from tests.support.dbt_project import REPO

UPDATE = ".venv/bin/python -m tests.project.offenders"
# what a file has -> rule, and the detail that the list names
WRONG = {
    "def f(a, b, c, d, e, f, g):\n    pass\n": ("parameters", "f 7"),
    "class A:\n    def f(self, a, b, c, d, e, f, /, g):\n        pass\n": ("parameters", "f 7"),
    "def f(value: dict[str, Any]) -> None:\n    pass\n": ("any", "Any"),
    "def f() -> Any:\n    pass\n": ("any", "Any"),
    "x: list[Any] = []\n": ("any", "Any"),
    "x = 1\n" * 501: ("lines", "more than 500"),
    '"""Whether a run is\nout of date, as it is\ntold."""\n': ("idiom", "is told"),
    "# the columns that\n# are none\nx = 1\n": ("idiom", "that is none"),
    'x = "A time; None: no time"\n': ("idiom", "; None: "),
    "# a file, or the one that came before\n": ("idiom", "one"),
    "# the older ones first\n": ("idiom", "one"),
    "for one in range(3):\n    pass\n": ("name", "one"),
    "said = 1\n": ("name", "said"),
    "def test_a_problem_is_told():\n    pass\n": ("name", "test_a_problem_is_told"),
    "def read_anew():\n    pass\n": ("name", "read_anew"),
    "kept_rows()\n": ("name", "kept_rows"),
}
RIGHT = [
    "def f(a, b, c, d, e, f, *, g, h):\n    pass\n",
    "class A:\n    def f(self, a, b, c, d, e, f):\n        pass\n",
    "def test_f(a, b, c, d, e, f, g):\n    pass\n",
    "@pytest.fixture\ndef f(a, b, c, d, e, f, g):\n    pass\n",
    '"""All cases. Longer than 500 lines: the cases of one format."""\n' + "x = 1\n" * 501,
    "# one row a key, as the one table has it; each one-row answer\n",
    "row = None\nif row is None:\n    pass\n",
]


def test_nothing_is_added_to_the_list_of_offenders_and_what_is_mended_leaves_it() -> None:
    known, now = listed(LIST.read_text("utf-8")), offenders_now()
    added = more(known, now)
    assert not added, "against the rules, see tests/project/offenders.py:\n" + "\n".join(added)
    gone = more(now, known)
    assert not gone, f"mended; run {UPDATE} to shorten the list:\n" + "\n".join(gone)
    assert LIST.read_text("utf-8") == written(known), f"not as {UPDATE} writes it"


@pytest.mark.parametrize("text", WRONG)
def test_a_file_against_a_rule_is_found(text: str) -> None:
    rule, detail = WRONG[text]
    assert offenders_of("tools/example.py", text)[rule, "tools/example.py", detail] > 0


@pytest.mark.parametrize("text", RIGHT)
def test_a_file_within_the_rules_has_no_offender(text: str) -> None:
    assert not offenders_of("tools/example.py", text)


def test_a_name_of_something_else_is_no_any() -> None:
    tree = ast.parse("def f(value: Company) -> AnyStr:\n    Any = 3\n    return value\n")
    assert uses_of_any(tree) == 0


def test_each_file_at_an_edge_of_types_is_there_and_has_an_any() -> None:
    for edge in EDGES.values():
        assert edge["reason"] and edge["files"] == sorted(set(edge["files"]))
        for path in edge["files"]:
            file = REPO / path
            assert path.startswith(TYPED) and file.is_file(), f"{path} isn't there"
            assert uses_of_any(ast.parse(file.read_text("utf-8"))), f"{path} has no Any any more"


def test_a_file_without_any_leaves_the_list_of_edges() -> None:
    kept = "rows:\n  reason: values\n  files:\n    - python_udfs/targets/clickhouse.py\n"
    mended = "    - python_udfs/gone.py\n    - python_udfs/servers/errors.py\n"
    assert without_mended_edges(kept + mended) == kept


def test_pages_and_macros_are_held_to_plain_english_too() -> None:
    for path in ("docs/index.md", "macros/a.sql", "models/_a.yml", "Makefile"):
        assert offenders_of(path, "the table is\nmade anew\n")["idiom", path, "anew"] == 1
