"""Comments, quoted texts and statements in SQL."""

from __future__ import annotations

import re

# Text in quotes has a meaning; the parts of a model's SQL after it have no effect on its rows.
# What isn't closed goes to the end: nothing is looked for twice. A raw text (r'\') has no escapes
QUOTED = (
    r"(?P<quoted>(?<!\w)[rR](?:'[^']*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z))"
    r"|'(?:[^'\\]++|\\.)*+(?:'|\\?\Z)|\"(?:[^\"\\]++|\\.)*+(?:\"|\\?\Z)|`[^`]*+(?:`|\Z))"
)
NESTED = 6  # levels of comments within comments that are looked at


def _in_comment(levels: int) -> str:
    """Pattern of what stands in a comment, comments of so many levels among it.

    Spark nests them: behind /* a /* b */ the first goes on.
    """
    if not levels:
        return r"(?:[^*]++|\*(?!/))*+"
    return rf"(?:[^*/]++|\*(?!/)|/(?!\*)|/\*{_in_comment(levels - 1)}(?:\*/|\Z))*+"


IN_COMMENT = _in_comment(NESTED)
COMMENT = re.compile(
    QUOTED + r"|\{#(?:[^#]++|#(?!\}))*+(?:#\}|\Z)|/\*" + IN_COMMENT + r"(?:\*/|\Z)|--[^\n]*+",
    re.DOTALL,
)


def without_comments(sql: str) -> str:
    """Some SQL without what is in its comments, Jinja's among them.

    >>> without_comments("select '--a' -- b")
    "select '--a'  "
    """
    return COMMENT.sub(lambda found: found["quoted"] or " ", sql)


STATEMENT_END = re.compile(
    QUOTED + rf"|(?P<comment>/\*{IN_COMMENT}(?P<end>\*/|\Z)|--[^\n]*+)|(?P<stop>;)",
    re.DOTALL,
)


def split_statements(text: str) -> tuple[list[str], str]:
    """Complete statements, each without its semicolon and comments, and what is left behind the
    last of them: "" where that is blank.

    >>> split_statements("select ';' as a; -- all; of it\\nselect 2;  select 3")
    (["select ';' as a", 'select 2'], 'select 3')
    """
    found, start = [], 0
    for token in STATEMENT_END.finditer(text):
        if token["stop"]:
            found.append(without_comments(text[start : token.start()]).strip())
            start = token.end()
    rest = text[start:]
    # a comment or a text that isn't closed goes on
    is_open = any(token["end"] == "" for token in STATEMENT_END.finditer(rest))
    is_blank = not is_open and not without_comments(rest).strip()
    return [statement for statement in found if statement], "" if is_blank else rest.lstrip()
