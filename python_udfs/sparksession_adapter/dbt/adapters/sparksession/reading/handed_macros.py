"""Macros that SQL has as values: handed to another macro, or looked up in dbt's context.

dbt notes the macros that a node calls by name. It notes none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dbt.adapters.sparksession.edges import Given, Settings
from jinja2 import Environment, TemplateSyntaxError, meta

CONTEXT = "context"
JINJA = re.compile(r"\{[{%](?:(?!\{[{%]|[%}]\}).)*+[%}]\}", re.DOTALL)
# what the adapter is handed of dbt's it makes right itself
ASKS_ADAPTER = re.compile(r"\badapter(?:\.\w+)+\([^()]*(?:\([^()]*\)[^()]*)*\)")
WORD = re.compile(r"[A-Za-z_]\w*")
PARSER = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], autoescape=True)


def handed_macros(texts: Iterable[str], known: Iterable[str], macros: Settings) -> list[str]:
    """Ids of the macros that SQL may call beside those that dbt knows of.

    Args:
        texts: SQL with Jinja: of a model, and of the macros that it calls.
        known: ids of the macros that dbt knows the model to call.
        macros: id -> macro, of which it may call some.

    Returns:
        The macros that the texts name; all of them where the texts ask dbt's `context`.
    """
    others: dict[str, list[Given]] = {}
    for unique_id in macros.keys() - set(known):
        others.setdefault(macros[unique_id].name, []).append(unique_id)
    found: set[str] = set()
    for text in (ASKS_ADAPTER.sub("none", text) for text in texts):
        if candidates := _words(text) & {CONTEXT, *others}:
            found |= candidates & _names_from_outside(text)
    if CONTEXT in found:
        return sorted(macros.keys() - set(known))
    return sorted(unique_id for name in found for unique_id in others[name])


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    """Words of the Jinja in a text."""
    return frozenset(word for part in JINJA.findall(text) for word in WORD.findall(part))


@lru_cache(maxsize=1024)
def _names_from_outside(text: str) -> frozenset[str]:
    """Names that a text of Jinja uses and doesn't set itself."""
    try:
        return frozenset(meta.find_undeclared_variables(PARSER.parse(text)))
    except TemplateSyntaxError:  # a tag of dbt's own: any word may be such a name
        return frozenset(WORD.findall(text))
