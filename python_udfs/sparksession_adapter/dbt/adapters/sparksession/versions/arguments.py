"""Arguments of operations, as a command line gives them."""

from __future__ import annotations

import re
from typing import Any

from dbt.adapters.sparksession.versions.store import CANDIDATE
from dbt_common.exceptions import DbtRuntimeError
from jinja2 import Undefined

LONGEST_AGO = 365_000.0  # days; what is older is older than every version


def is_given(given: Any) -> bool:
    """Whether an argument without a default has a value: a shell's variable may be empty."""
    return not (given is None or isinstance(given, Undefined))


def whole_number(name: str, given: Any) -> int:
    """An operation's argument that counts something.

    Raises:
        DbtRuntimeError: it doesn't.
    """
    text = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"[0-9]{1,9}", text):
        raise DbtRuntimeError(f"{name} must be a whole number from 0 on, got {given!r}.")
    return int(text)


def days_back(name: str, given: Any) -> float:
    """An operation's argument in days, which may be a fraction.

    Raises:
        DbtRuntimeError: it doesn't.
    """
    text = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text):
        raise DbtRuntimeError(f"{name} must be a number of days from 0 on, got {given!r}.")
    return min(float(text), LONGEST_AGO)


def a_name(name: str, given: Any) -> str | None:
    """An operation's argument that names something, None where it was left out.

    Raises:
        DbtRuntimeError: it is a list or a mapping, or no text that can be written down.
    """
    text = str(given)
    is_one = isinstance(given, str | int | float) and not isinstance(given, bool)
    if given is not None and not (is_one and text.strip() and text.isprintable()):
        raise DbtRuntimeError(f"{name} must be a name, got {given!r}.")
    return None if given is None else text


def a_version(name: str, given: Any, may_be_held_back: bool = False) -> Any:
    """An operation's argument that names a version, by its number or tag.

    Args:
        may_be_held_back: whether it may be the build that is held back, which is no version yet.

    Raises:
        DbtRuntimeError: it is empty, which must not stand for the newest version; or it is the
            build that is held back.
    """
    if not is_given(given) or not str(given).strip():
        raise DbtRuntimeError(
            f"{name} must be the number or tag of a version, got "
            f"{given if is_given(given) else None!r}: dbt run-operation list_versions shows those "
            "that there are."
        )
    if given == CANDIDATE and not may_be_held_back:
        raise DbtRuntimeError(
            f"{name} must be the number or tag of a version, got {given!r}, the build that is held "
            "back: publish it first, dbt run-operation publish_candidate."
        )
    return given


def a_choice(name: str, given: Any) -> bool:
    """An operation's argument that is true or false: a text such as 'false' is neither.

    Raises:
        DbtRuntimeError: it is another value.
    """
    if not isinstance(given, bool):
        raise DbtRuntimeError(f"{name} must be true or false, got {given!r}.")
    return given


def a_folder(name: str, given: Any) -> str:
    """An operation's argument that is a folder.

    Raises:
        DbtRuntimeError: it is empty or no text.
    """
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise DbtRuntimeError(
            f"{name} must be a folder, got {given if is_given(given) else None!r}. "
            f"Example: {name}: /backup/monday"
        )
    return given
