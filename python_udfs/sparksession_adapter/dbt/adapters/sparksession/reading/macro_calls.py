"""The macros that a model calls, also those that dbt notes no call of.

dbt notes a call of a macro by its name once it is made. It notes none in a branch that wasn't taken
yet, none of a macro that is looked up in its context, and none of a macro that is handed to
another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from dbt.adapters.sparksession.edges import Foreign, Given, Node, Settings
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.sql import mark_of
from jinja2 import Environment, TemplateSyntaxError, meta, nodes

ENGINE_PACKAGES = ("dbt", "dbt_spark", "dbt_sparksession")
# macros that read what came since the model's last commit
READS_OF_NEWS = frozenset({"new_rows", "new_changes", "changed_partitions", "closed_periods"})
JINJA = re.compile(r"\{[{%](?:(?!\{[{%]|[%}]\}).)*+[%}]\}", re.DOTALL)
# what the adapter is handed of dbt's it makes right itself
ASKS_ADAPTER = re.compile(r"\badapter(?:\.\w+)+\([^()]*(?:\([^()]*\)[^()]*)*\)")
WORD = re.compile(r"[A-Za-z_]\w*")
# names before a parenthesis; macros looked up by a text, or by what only a run knows
CALLED = re.compile(r"\b(\w+)\s*\(")
LOOKED_UP = re.compile(r"""\bcontext(?:\[|\.get\()\s*(?:['"](?P<name>\w+)['"]|(?P<unknown>\w))""")
PARSER = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"], autoescape=True)


def used_macros(called: Iterable[str], macros: Settings) -> list[Given]:
    """The macros that a node calls, those that they call, and so on, by name."""
    waiting, seen = list(called), set()
    while waiting:
        unique_id = waiting.pop()
        if unique_id not in seen and unique_id in macros:
            seen.add(unique_id)
            macro = macros[unique_id]
            waiting += macro.depends_on.macros
            if macro.package_name not in ENGINE_PACKAGES:
                waiting += _looked_up(macro.macro_sql, macros)
    return [macros[unique_id] for unique_id in sorted(seen)]


def _looked_up(sql: str, macros: Settings) -> Iterable[str]:
    """Ids of the project's macros that Jinja looks up in its context by a text; all of them where
    only a run knows which. dbt notes no such call of a macro."""
    if "context" not in sql:
        return []
    found = [match for part in JINJA.findall(sql) for match in LOOKED_UP.finditer(part)]
    names = {match["name"] for match in found}
    takes_any = any(match["unknown"] for match in found)
    return [name for name, macro in _own(macros) if takes_any or macro.name in names]


def _own(macros: Settings) -> Iterable[tuple[str, Given]]:
    """The macros that aren't dbt's or the adapter's own, by id."""
    return (
        (name, macro) for name, macro in macros.items() if macro.package_name not in ENGINE_PACKAGES
    )


def called_by(node: Node, macros: Settings) -> list[str]:
    """Ids of the macros that a SQL model calls. dbt notes a call once it is made: those in a branch
    that this run doesn't take, as of is_incremental(), are calls too."""
    called = list(node["depends_on"]["macros"])
    if node.get("language") == "python":
        return called
    jinja = JINJA.findall(node["raw_code"])
    names = {name for part in jinja for name in CALLED.findall(part)}
    called += [name for name, macro in _own(macros) if macro.name in names]
    return [*called, *_looked_up(node["raw_code"], macros)]


def handed_macros(texts: Iterable[str], used: Iterable[Foreign], macros: Settings) -> list[Given]:
    """The macros that SQL has as values beside those that it calls, and what they call, by id.

    Args:
        texts: SQL with Jinja: of a model, and of the macros that it calls.
        used: the macros that it calls, see used_macros.
        macros: id -> macro.
    """
    calls = {macro.unique_id for macro in used}
    others: dict[str, list[str]] = {}
    for unique_id, macro in _own(macros):
        if unique_id not in calls:
            others.setdefault(macro.name, []).append(unique_id)
    found: list[str] = []
    for text in (ASKS_ADAPTER.sub("none", text) for text in texts):
        if candidates := _words(text) & others.keys():
            names = candidates & _names_from_outside(text)
            found += [unique_id for name in names for unique_id in others[name]]
    return [macro for macro in used_macros(found, macros) if macro.unique_id not in calls]


def strategy_mark(node: Node, macros: Settings) -> str:
    """A short hash of the project's macro of an incremental model's strategy, which dbt calls by
    its name, and of what that calls of the project."""
    strategy = str(node["config"].get("incremental_strategy")).replace("+", "_")
    asked = f"get_incremental_{strategy}_sql"
    used = used_macros([name for name, macro in _own(macros) if macro.name == asked], macros)
    own = [macro for macro in used if macro.package_name not in ENGINE_PACKAGES]
    return mark_of("\0".join(sql_mark(macro.macro_sql) for macro in own))


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


def is_from_outside(text: str, name: str) -> bool:
    """Whether the Jinja in a text uses a name that it doesn't set itself. One within a text of that
    Jinja is none, as in `post_hook="grant select on {{ this }} to reader"`.

    >>> is_from_outside("select * from {{ this }}", "this")
    True
    >>> is_from_outside("select 'this week' {# {{ this }} #} {{ '{{ this }}' }}", "this")
    False
    """
    return name in text and name in _names_from_outside(text)


@lru_cache(maxsize=1024)
def passes_on(text: str, name: str) -> bool:
    """Whether Jinja has a mapping as a value, of which it doesn't name a part then and there."""
    try:
        tree = PARSER.parse(text)
    except TemplateSyntaxError:  # a tag of dbt's own
        return name in _words(text)
    parts = {id(item.node) for item in tree.find_all(nodes.Getattr)}
    parts |= {
        id(item.node) for item in tree.find_all(nodes.Getitem) if isinstance(item.arg, nodes.Const)
    }
    return any(
        found.name == name and found.ctx == "load" and id(found) not in parts
        for found in tree.find_all(nodes.Name)
    )


@lru_cache(maxsize=1024)
def has_as_value(text: str, name: str) -> bool:
    """Whether Jinja passes something on, looks it up in a mapping or asks it, and doesn't only call
    it."""
    try:
        tree = PARSER.parse(text)
    except TemplateSyntaxError:  # a tag of dbt's own
        return name in _words(text)
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    looked_up = [item.arg for item in tree.find_all(nodes.Getitem)]
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr == "get":
            looked_up += call.args[:1]
    return any(
        found.name == name and id(found) not in called for found in tree.find_all(nodes.Name)
    ) or any(isinstance(key, nodes.Const) and key.value == name for key in looked_up)
