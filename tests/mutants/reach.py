"""Which tests reach a line of the code or a macro, and how long they take.

A plugin of pytest (`-p tests.mutants.reach`) that writes it to the file which MUTANT_REACH names,
and what the sampler asks it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutants.sites import Site
from tests.support.dbt_project import REPO

TRACED = (str(REPO / "python_udfs"),)
ELSEWHERE = "another process"  # such a test may reach any line there
IMPORT = "import"


@dataclass(frozen=True)
class Reached:
    """What a test did.

    Attributes:
        test: its id.
        seconds: how long it took, its fixtures included.
        places: `path:line` of Python, `path#macro` of macros, all below the root; ELSEWHERE.
    """

    test: str
    seconds: float
    places: frozenset[str]


class Recorder:
    """Notes for each test, and for each fixture that several tests share, what runs."""

    def __init__(self) -> None:
        self.places: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self._of: dict[str, set[str]] = {}  # test -> what it and its shared fixtures are noted as
        self._noted = self.places[IMPORT]
        self._files: dict[CodeType, str | None] = {}

    def start(self) -> None:
        from dbt_common.clients import jinja

        call_macro = jinja.BaseMacroGenerator.call_macro

        def noting(generator: Any, *args: Any, **kwargs: Any) -> Any:
            macro = getattr(generator, "macro", None)
            if macro is not None:
                self._noted.add(f"{Path(macro.original_file_path).name}#{macro.name}")
            return call_macro(generator, *args, **kwargs)

        jinja.BaseMacroGenerator.call_macro = noting  # type: ignore[method-assign]
        begin = subprocess.Popen.__init__

        def starting(process: Any, args: Any, *more: Any, **named: Any) -> None:
            words = [args] if isinstance(args, str) else [str(word) for word in args]
            if any("python" in word or word.endswith("/dbt") for word in words[:1]):
                self._noted.add(ELSEWHERE)
            begin(process, args, *more, **named)

        subprocess.Popen.__init__ = starting  # type: ignore[method-assign]
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code not in self._files:
            path = code.co_filename
            is_ours = path.startswith(TRACED)
            self._files[code] = os.path.relpath(path, REPO) if is_ours else None
        file = self._files[code]
        if file is None:
            return None
        prefix, noted = f"{file}:", self._noted
        noted.add(f"{prefix}{frame.f_lineno}")

        def ran(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                noted.add(f"{prefix}{frame.f_lineno}")
            return ran

        return ran

    @contextmanager
    def _noting_as(self, name: str) -> Iterator[None]:
        before, self._noted = self._noted, self.places[name]
        try:
            yield
        finally:
            self._noted = before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        with self._noting_as(f"{fixturedef.baseid}::{fixturedef.argname}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        shared = {
            f"{definition.baseid}::{definition.argname}"
            for definitions in item._fixtureinfo.name2fixturedefs.values()
            for definition in definitions
        }
        self._of[item.nodeid] = {item.nodeid, *shared}
        with self._noting_as(item.nodeid):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        sys.settrace(None)
        found = [
            {
                "test": test,
                "seconds": round(self.seconds[test], 3),
                "places": sorted(set().union(*(self.places[name] for name in noted))),
            }
            for test, noted in self._of.items()
        ]
        Path(os.environ["MUTANT_REACH"]).write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder()
    config.pluginmanager.register(recorder)
    recorder.start()


def read(path: Path) -> list[Reached]:
    """What a recorded run found, quick tests first."""
    found = json.loads(path.read_text(encoding="utf-8"))
    some = [Reached(item["test"], item["seconds"], frozenset(item["places"])) for item in found]
    return sorted(some, key=lambda item: item.seconds)


def places_of(root: Path, site: Site) -> frozenset[str] | None:
    """Where a test passes that reaches a site; None where every import of the file does."""
    text = (root / site.file).read_text(encoding="utf-8")
    if not site.file.endswith(".py"):
        return _macros_of(site, text)
    line = text.count("\n", 0, site.begin + len(site.right)) + 1
    first = text.count("\n", 0, site.begin) + 1
    function: ast.AST | None = None
    statement: ast.stmt | None = None
    for node in ast.walk(ast.parse(text)):  # outer nodes come first
        if not isinstance(node, ast.stmt) or not node.lineno <= first <= (node.end_lineno or 0):
            continue
        statement = node
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= first:
            function = node
    if function is None or statement is None:
        return None
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno
    lines = range(statement.lineno, max(last or line, line) + 1)
    return frozenset(f"{site.file}:{number}" for number in lines)


def _macros_of(site: Site, text: str) -> frozenset[str] | None:
    """The macro that a site lies in."""
    opened = list(re.finditer(r"\{%-?\s*(macro|materialization|test)\s+(\w+)", text[: site.begin]))
    if not opened or opened[-1][1] != "macro":
        return None
    return frozenset({f"{Path(site.file).name}#{opened[-1][2]}"})


def reaching(tests: list[Reached], places: frozenset[str] | None) -> list[str]:
    """Ids of the tests that pass one of the places, or that do in a process of their own."""
    return [
        item.test
        for item in tests
        if places is None or item.places & places or ELSEWHERE in item.places
    ]
