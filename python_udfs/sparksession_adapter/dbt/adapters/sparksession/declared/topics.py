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
        if in_set is None:
            in_set = "" if sign == "[" else None
            found.append(sign)
        elif sign == "]" and in_set.removeprefix("^"):  # at first it is a sign of the set
            in_set = None
            found.append(sign)
        else:
            in_set += sign
            found.append(r"\[" if sign == "[" else sign)
    return "^" + "".join(found)
