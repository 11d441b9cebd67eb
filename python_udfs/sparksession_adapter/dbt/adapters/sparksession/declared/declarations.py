"""All problems of what a model or a macro declares, at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, TypeVar

from dbt.adapters.sparksession.sql import quoted, unquoted
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


def needs_backticks(name: str) -> bool:
    """Whether Spark takes a column's name in backticks alone; true of one that has them, too."""
    return bool(re.search(r"\W", name))


def name_problems(names: Iterable[str]) -> Iterator[str]:
    """Error texts for columns whose names Spark takes in backticks alone, of a macro that writes
    the names that it is given as they are."""
    for name in dict.fromkeys(names):
        if needs_backticks(name):
            plain = re.sub(r"\W+", "_", name).strip("_") or "name"
            yield (
                f"column {name}: the macro takes no name that needs backticks; give the column "
                f"another name in its model, such as {quoted(unquoted(name))} as {plain}"
            )


def checked(check: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """What `check` makes of a declaration, for a macro.

    Raises:
        CompilationError: with all problems.
    """
    try:
        return check(*given, **named)
    except DeclarationError as exc:
        raise CompilationError(str(exc)) from exc
