"""Python code as a tree, parsed by any thread."""

from __future__ import annotations

import ast

ATTEMPTS = 20


def parsed_code(code: str) -> ast.Module:
    """Tree of a Python model's code.

    CPython before 3.11.8 counts the depth of all threads' trees in one number: where two threads
    parse at once, either may raise SystemError on good code (CPython's issue 106905). dbt's own
    threads parse the arguments of tests, so no lock of ours keeps them apart.

    Raises:
        SyntaxError: the code can't be parsed.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return ast.parse(code)
        except SystemError:
            continue
    return ast.parse(code)
