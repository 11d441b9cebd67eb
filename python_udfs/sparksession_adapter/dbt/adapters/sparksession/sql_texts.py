"""Comments and quoted texts in SQL."""

from __future__ import annotations

import re

# Text in quotes has a meaning; the parts of a model's SQL after it have no effect on its rows.
# What isn't closed goes to the end: nothing is looked for twice
QUOTED = (
    r"(?P<quoted>'(?:[^'\\]++|\\.)*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.)*+(?:\"|\\?\Z)|`[^`]*+(?:`|\Z))"
)
COMMENT = re.compile(
    QUOTED + r"|\{#(?:[^#]++|#(?!\}))*+(?:#\}|\Z)|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)|--[^\n]*+",
    re.DOTALL,
)


def without_comments(sql: str) -> str:
    """Some SQL without what is in its comments, Jinja's among them.

    >>> without_comments("select '--a' -- b")
    "select '--a'  "
    """
    return COMMENT.sub(lambda found: found["quoted"] or " ", sql)
