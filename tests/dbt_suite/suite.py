"""The classes of dbt's suite for adapters, and what the page of them says of each."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import dbt.tests.adapter
import yaml

PACKAGE = "dbt.tests.adapter"
PARITY = Path(__file__).with_name("parity.yml")


def name_of(case: type) -> str:
    """E.g. basic.test_base.TestSimpleMaterializations."""
    return f"{case.__module__.removeprefix(f'{PACKAGE}.')}.{case.__name__}"


def test_names(case: type) -> list[str]:
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
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == module.__name__ and test_names(one):
                found[name_of(one)] = one
    extended = {name_of(base) for one in found.values() for base in one.__mro__[1:]}
    return {name: one for name, one in found.items() if name not in extended}


def parity() -> dict[str, dict[str, Any]]:
    """Name of a class -> what parity.yml says of it."""
    return yaml.safe_load(PARITY.read_text(encoding="utf-8"))
