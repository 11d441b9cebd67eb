"""Conditions by which an incremental model finds by itself what is new, as its SQL shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dbt.adapters.sparksession.reading.macro_calls import CALLED, JINJA
from dbt.adapters.sparksession.sql_texts import without_comments

BRANCH = "is_incremental"
# SQL with at most one parenthesis of Jinja in a row, and how it names the model's own table
SOME = r"(?:[^{}]|\{\{[^{}]*+\}\})"
OWN = (
    r"\bfrom\s++(?:\{\{-?\s*+this\b|['\"]\s*+~\s*+this\b|"
    r"\{\}[^{}'\"]{0,100}+['\"]\s*+\.\s*+format\s*+\(\s*+this\b)"
)
# (select max(at) from {{ this }}), and (select at from {{ this }} order by at desc limit 1)
NEWEST = re.compile(
    rf"\bmax\s*+\({SOME}{{1,200}}?{OWN}|"
    rf"{OWN}\s*+(?:\}}\}})?{SOME}{{0,200}}?\border\s++by\b{SOME}{{1,200}}?\blimit\s++1\b",
    re.IGNORECASE,
)


def asks_newest(texts: Iterable[str]) -> bool:
    """Whether SQL with Jinja asks for the newest row of the model's own table.

    >>> asks_newest(["where at > (select max(at) from {{ this }})"])
    True
    >>> asks_newest(["{% set last = run_query('select max(at) from ' ~ this) %}"])
    True
    >>> asks_newest(["select max(at) from {{ ref('x') }}"])
    False
    """
    return any(NEWEST.search(without_comments(text)) for text in texts)


def asks_which_run(text: str) -> bool:
    """Whether SQL with Jinja is another in later runs than in the first.

    >>> asks_which_run("{% if is_incremental() %} where day > '2026-03-01' {% endif %}")
    True
    """
    return any(BRANCH in CALLED.findall(part) for part in JINJA.findall(without_comments(text)))
