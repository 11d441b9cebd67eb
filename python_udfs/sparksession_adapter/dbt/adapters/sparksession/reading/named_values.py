"""Vars, environment variables and what else around a project code reads by a name."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import yaml
from dbt.adapters.sparksession.edges import Given, Json
from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.reading.macro_calls import (
    ASKS_ADAPTER,
    PARSER,
    has_as_value,
    passes_on,
)
from dbt.adapters.sparksession.sql import mark_of
from jinja2 import TemplateSyntaxError, nodes

# a var and its default, where that is a number, a text or a truth value
VAR = re.compile(
    r"""\bvar\s*\(\s*['"](?P<name>\w+)['"]\s*(?:,\s*(?:default\s*=\s*)?"""
    r"""(?P<default>-?\d+(?:\.\d+)?|'[^'\\]*'|"[^"\\]*"|true|false)\s*\))?"""
)
NAMED_BY_EXPRESSION = re.compile(r"""(?<![.\w])var\s*+\((?!\s*['"]\w+['"]\s*[,)])""")
# the same as VAR of an environment variable
ENV_VAR = re.compile(VAR.pattern.replace(r"\bvar", r"\benv_var"))
PROJECT_VAR = "project_var"  # a Python model's var, whose default is a part of its code
# what a Python model has its environment by
ENVIRONMENT = "environ"
ASKS_ENVIRONMENT = ("getenv", f"{ENVIRONMENT}.get")
# what dbt is asked for relations of the catalog, read or not
ASKS_CATALOG = frozenset({"get_relation", "check_schema_exists", "list_schemas"})
LOADS_RELATION = frozenset({"load_relation", "load_cached_relation", "check_schema_exists"})
CLOCKS = frozenset({"datetime", "pytz"})  # of dbt's modules
LONGEST_VALUE = 80  # characters of a var's value that a commit shows


def shown(value: Given) -> str:
    """A var's value as a commit shows it; a long one as a hash."""
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= LONGEST_VALUE else mark_of(text)


def vars_called(texts: Iterable[str]) -> Json:
    """Var -> its default, of those that SQL calls by a text."""
    called: Json = {}
    for text in texts:
        for found in VAR.finditer(text):
            default = found["default"]
            value = yaml.safe_load(default) if default else None
            called[found["name"]] = called.get(found["name"]) if default is None else value
    return called


def may_call_any_var(text: str) -> bool:
    """Whether SQL calls vars by what only a run knows, or hands dbt's `var` on.

    >>> [may_call_any_var("{{ %s }}" % call) for call in ("var ('a')", "context.get('var')('a')")]
    [False, True]
    """
    if "var" not in text:
        return False
    return NAMED_BY_EXPRESSION.search(text) is not None or has_as_value(text, "var")


class PythonReads(NamedTuple):
    """What Python code reads by names.

    Attributes:
        vars: of the project.
        any_var: whether it reads others, by names that only a run knows.
        env: environment variables.
    """

    vars: frozenset[str]
    any_var: bool
    env: frozenset[str]


@lru_cache(maxsize=1024)
def python_reads(code: str) -> PythonReads:
    """The vars and environment variables that Python code reads.

    >>> python_reads("dbt.project_var('a'), dbt.project_var(b), os.getenv('C')")[1:]
    (True, frozenset({'C'}))
    """
    if PROJECT_VAR not in code and "env" not in code:
        return PythonReads(frozenset(), False, frozenset())
    try:
        tree = parsed_code(code)
    except SyntaxError:  # who runs it reports that
        return PythonReads(frozenset(), PROJECT_VAR in code, frozenset())
    called: set[str] = set()
    env: set[str] = set()
    by_name: set[int] = set()  # nodes of calls that name their var
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _text_of(node)
            if name is None:
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr == PROJECT_VAR:
                called.add(name)
                by_name.add(id(node.func))
            elif ast.unparse(node.func).endswith(ASKS_ENVIRONMENT):
                env.add(name)
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(ENVIRONMENT):
            env.update([str(node.slice.value)] if isinstance(node.slice, ast.Constant) else [])
    others = any(
        (isinstance(node, ast.Attribute) and node.attr == PROJECT_VAR and id(node) not in by_name)
        or (isinstance(node, ast.Constant) and node.value == PROJECT_VAR)
        for node in ast.walk(tree)
    )
    return PythonReads(frozenset(called), others, frozenset(env))


def _text_of(call: ast.Call) -> str | None:
    """The text that a call of Python gets first, or as its `name`."""
    named = [word.value for word in call.keywords if word.arg == "name"]
    for value in [*call.args[:1], *named]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


@lru_cache(maxsize=1024)
def asks_what_may_change(text: str) -> bool:
    """Whether Jinja asks for the clock, for dbt's command or for what is in the catalog by names
    that stand for them, so that its SQL may be otherwise while no input changes.

    >>> [asks_what_may_change("{{ %s }}" % asked) for asked in ("flags['WHICH']", "flags.lower")]
    [True, False]
    >>> asks_what_may_change("{{ load_relation(this) }}")
    False
    """
    text = ASKS_ADAPTER.sub(_kept_where_it_names, text)
    if passes_on(text, "flags") or passes_on(text, "modules"):
        return True
    try:
        tree = PARSER.parse(text)
    except TemplateSyntaxError:  # a tag of dbt's own
        return False
    if any(part[:1].isupper() or part == "get" for part in _parts(tree, "flags")):
        return True
    if any(part in CLOCKS or part == "get" for part in _parts(tree, "modules")):
        return True
    made = {
        assigned.target.name
        for assigned in tree.find_all(nodes.Assign)
        if isinstance(assigned.target, nodes.Name) and _names_by_hand(assigned.node, set())
    }
    return any(
        _asks_catalog(call) and any(_names_by_hand(given, made) for given in call.args)
        for call in tree.find_all(nodes.Call)
    )


def _kept_where_it_names(asked: re.Match[str]) -> str:
    """A question to the adapter as it is where it is one for the catalog, else none."""
    return asked[0] if any(f".{name}(" in asked[0] for name in ASKS_CATALOG) else "none"


def _parts(tree: nodes.Template, name: str) -> Iterator[str]:
    """Parts of a mapping that Jinja names then and there."""
    for named in tree.find_all(nodes.Getattr):
        if isinstance(named.node, nodes.Name) and named.node.name == name:
            yield named.attr
    for item in tree.find_all(nodes.Getitem):
        if isinstance(item.node, nodes.Name) and item.node.name == name:
            yield str(item.arg.value) if isinstance(item.arg, nodes.Const) else ""


def _asks_catalog(call: nodes.Call) -> bool:
    asked = call.node
    if isinstance(asked, nodes.Name):
        return asked.name in LOADS_RELATION
    return isinstance(asked, nodes.Getattr) and asked.attr in ASKS_CATALOG


def _names_by_hand(given: nodes.Node, made: set[str]) -> bool:
    """Whether an argument names a relation by a text, or by what was made of a text."""
    if isinstance(given, nodes.Const):
        return isinstance(given.value, str)
    names = {found.name for found in given.find_all(nodes.Name)}
    if isinstance(given, nodes.Name):
        names.add(given.name)
    return "api" in names or not names.isdisjoint(made)
