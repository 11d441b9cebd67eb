"""Arguments of operations, as a command line gives them."""

from __future__ import annotations

import re
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

LONGEST_AGO = 365_000.0  # days; what is older is older than every version


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
