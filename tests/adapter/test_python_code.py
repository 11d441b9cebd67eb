"""A Python model's code is parsed, whatever other threads parse meanwhile."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from dbt.adapters.sparksession.python_code import parsed_code

CODE = "def model(dbt, session):\n    return session.sql('select ' + str(1 * 2 - (3 + 4)))\n" * 20


class Slow:
    """Garbage whose collection lets another thread go on."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can, also in the middle of a parse."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


def test_code_is_parsed_beside_other_threads_that_parse(hurried: None) -> None:
    expected, found = ast.dump(ast.parse(CODE)), set()

    def parse() -> None:
        for _ in range(60):
            Slow()
            try:
                found.add(ast.dump(parsed_code(CODE)))
            except SystemError as error:
                found.add(str(error))

    def parse_as_dbt_does() -> None:
        for _ in range(60):
            Slow()
            with suppress(SystemError):
                ast.parse(CODE)

    threads = [threading.Thread(target=job) for job in (parse, parse_as_dbt_does) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {expected}


def test_the_error_of_another_thread_is_met_by_a_second_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse, errors = ast.parse, [SystemError("AST constructor recursion depth mismatch")] * 3

    def parse_at_last(code: str) -> ast.Module:
        if errors:
            raise errors.pop()
        return parse(code)

    monkeypatch.setattr(ast, "parse", parse_at_last)
    assert ast.dump(parsed_code("x = 1")) == ast.dump(parse("x = 1"))


def test_code_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        parsed_code("def model(:")
