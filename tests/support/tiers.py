"""Which tests start a Spark or another process, found from what they and their fixtures call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

# modules and classes whose use starts a process, or needs one that was started
STARTERS = (
    "subprocess",
    "multiprocessing",
    "concurrent.futures.process",
    "pyspark",
    "dbt.cli",
    "dbt.adapters.sparksession.session",
    "tests.support.dbt_project.DbtProject",
)
OWN = ("tests.", "tools.", "benchmarks.")  # whose functions are looked into


def starts_process(item: pytest.Item) -> bool:
    """Whether a test, one of its fixtures or a helper that they call starts a process.

    What a test calls by a method of a value or by a parameter isn't followed.
    """
    fixtures = getattr(item, "_fixtureinfo", None)
    functions = [getattr(item, "function", None)]
    if fixtures is not None:
        functions += [item.func for found in fixtures.name2fixturedefs.values() for item in found]
    return any(_starts(function) for function in functions if function is not None)


@cache
def _starts(called: Any) -> bool:
    waiting, seen = [called], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if f"{_name(value)}.".startswith(tuple(f"{starter}." for starter in STARTERS)):
            return True
        if isinstance(value, type) and value.__module__.startswith(OWN):
            waiting += [*vars(value).values(), *value.__bases__]
        elif isinstance(value, property):
            waiting += [value.fget]
        elif isinstance(value, FunctionType) and value.__module__.startswith(OWN):
            waiting += _used(value)
    return False


def _name(value: Any) -> str:
    """Where a module, class or function is defined: module.name; of other values nothing."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return ""


def _used(function: FunctionType) -> Iterator[Any]:
    """The global values that a function's code names, and what it names of modules."""
    function = getattr(function, "__wrapped__", function)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and f"{value.__name__}.".startswith(OWN):
            yield from (getattr(value, other, None) for other in names)
        else:
            yield value


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
