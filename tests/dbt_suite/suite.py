"""The classes of dbt's suite for adapters, and how each of them does here.

`.venv/bin/python -m tests.dbt_suite.suite` writes the page.
"""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dbt.tests.adapter
import yaml

PACKAGE = "dbt.tests.adapter"
PARITY = Path(__file__).with_name("parity.yml")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "dbt-suite.md"
OUTCOMES = {"passes": "passes", "cannot": "can't be", "not_done": "not done"}
HEAD = """# dbt's own suite for adapters
`dbt-tests-adapter` {version} has {classes} classes of tests with {tests} tests, written for
PostgreSQL. `tests/dbt_suite` inherits them: their files and statements are written in Spark's
dialect (types, casts, quotes; `tests/dbt_suite/dialect.py`), and a class is changed only where the
table has the reason. Those with `CI` run in `make test`, every sixth day, the others that pass in
`make soak`. A test compares this table with the package: no class is left out in silence.

| outcome | classes | tests |
|---|---|---|
{counts}

"""


@dataclass(frozen=True)
class Entry:
    """A class in parity.yml.

    Attributes:
        outcome: passes, cannot or not_done.
        reason: why it can't be or isn't done; of a class that passes what was changed, or "".
        in_ci: whether `make test` runs it, in its turn; else `make soak` does.
    """

    outcome: str
    reason: str
    in_ci: bool


def name_of(case: type) -> str:
    """E.g. basic.test_base.TestSimpleMaterializations."""
    return f"{case.__module__.removeprefix(f'{PACKAGE}.')}.{case.__name__}"


def names_of_tests(case: type) -> list[str]:
    return [
        name
        for name in dir(case)
        if name.startswith("test_") and inspect.isfunction(getattr(case, name))
    ]


@cache
def cases() -> dict[str, type]:
    """Name -> class of the suite that has tests and that no other class of it extends."""
    root = Path(dbt.tests.adapter.__path__[0])
    found: dict[str, type] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] in ("__init__", "__about__"):
            continue
        module: Any = importlib.import_module(".".join((PACKAGE, *parts)))
        for case in vars(module).values():
            is_own = inspect.isclass(case) and case.__module__ == module.__name__
            if is_own and names_of_tests(case):
                found[name_of(case)] = case
    extended = {name_of(base) for case in found.values() for base in case.__mro__[1:]}
    return {name: case for name, case in found.items() if name not in extended}


def parity() -> dict[str, Entry]:
    """Name of a class -> its entry in parity.yml."""
    found = {}
    for name, entry in yaml.safe_load(PARITY.read_text(encoding="utf-8")).items():
        in_ci = entry.pop("ci", False)
        ((outcome, reason),) = entry.items()
        found[name] = Entry(outcome, reason or "", in_ci)
    return found


def page() -> str:
    """The page of the table."""
    entries, known = parity(), cases()
    classes: Counter[str] = Counter(entry.outcome for entry in entries.values())
    tests: Counter[str] = Counter()
    for name, entry in entries.items():
        tests[entry.outcome] += len(names_of_tests(known[name]))
    counts = "\n".join(
        f"| {text} | {classes[key]} | {tests[key]} |" for key, text in OUTCOMES.items()
    )
    lines = [
        HEAD.format(
            version=version("dbt-tests-adapter"),
            classes=len(known),
            tests=sum(len(names_of_tests(case)) for case in known.values()),
            counts=counts,
        )
    ]
    folder = ""
    for name, entry in sorted(entries.items()):
        if name.partition(".")[0] != folder:
            folder = name.partition(".")[0]
            lines.append(
                f"\n## {folder}\n| class | outcome | why, or what was changed |\n|---|---|---|\n"
            )
        outcome = OUTCOMES[entry.outcome] + (", CI" if entry.in_ci else "")
        lines.append(f"| `{name.rpartition('.')[2]}` | {outcome} | {entry.reason} |\n")
    return "".join(lines).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
