"""Shell patterns of topics, as Java reads them."""

from __future__ import annotations

import re
from fnmatch import translate

_SIGN = re.compile(r"\\.|[^\\]", re.DOTALL)


def topic_regex(pattern: str) -> str:
    """A shell pattern of topics as a Java regular expression of a whole topic.

    It is Python's, but for a bracket within a set, which to Java begins a set in the set.
    """
    found: list[str] = []
    in_set: str | None = None  # what was read of the set
    for sign in _SIGN.findall(translate(pattern)):
        is_bracket = in_set is not None and sign == "["
        found.append(r"\[" if is_bracket else sign)
        if in_set is None:
            in_set = "" if sign == "[" else None
        elif sign == "]" and in_set.removeprefix("^"):  # at first it is a sign of the set
            in_set = None
        else:
            in_set += sign
    return "^" + "".join(found)
