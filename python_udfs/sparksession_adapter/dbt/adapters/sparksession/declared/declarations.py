"""All problems of what a model or a macro declares, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from dbt_common.exceptions import CompilationError

P = ParamSpec("P")
R = TypeVar("R")


class DeclarationError(ValueError):
    """What was declared; the text lists every problem of it, each once.

    Args:
        name: of the model or macro.
        problems: at least one.
        example: how it is written.
    """

    def __init__(self, name: str, problems: Iterable[str], example: str) -> None:
        problems = list(dict.fromkeys(problems))
        if len(problems) == 1:
            text = f" {problems[0]}."
        else:
            text = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"{name}:{text}\nExample: {example}")


def checked(check: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """What `check` makes of a declaration, for a macro.

    Raises:
        CompilationError: with all problems.
    """
    try:
        return check(*given, **named)
    except DeclarationError as exc:
        raise CompilationError(str(exc)) from exc
