"""Macros that the SQL of a view calls, when it is rendered for a node that reads the view."""

from __future__ import annotations

from collections.abc import Callable

from dbt.adapters.sparksession.edges import Context, Foreign
from dbt.clients.jinja import MacroGenerator
from dbt.context.macros import MacroNamespace


def with_references(
    context: Context, ref: Callable[..., Foreign], source: Callable[..., Foreign]
) -> Context:
    """A copy of a context in which `ref` and `source` are others, in the SQL and in each macro that
    it calls.

    A macro of dbt looks names up in the context that it was made with: by that a macro which names
    a relation would read it for the node that is built, whatever view calls the macro.
    """
    own: Context = dict(context)
    references = {"ref": ref, "source": source}
    copies: dict[int, MacroGenerator] = {}  # a macro stands in several namespaces

    def bound(value: Foreign) -> Foreign:
        if isinstance(value, MacroGenerator):
            if id(value) not in copies:
                # there are a thousand: Python's own copy takes four times as long
                copied = copies[id(value)] = MacroGenerator.__new__(MacroGenerator)
                copied.__dict__ = {**value.__dict__, "context": own}
            return copies[id(value)]
        if isinstance(value, MacroNamespace):
            return MacroNamespace(
                bound(value.global_namespace),
                bound(value.local_namespace),
                bound(value.global_project_namespace),
                bound(value.packages),
            )
        if type(value) is dict and all(map(_holds_macros, value.values())):
            return {name: bound(member) for name, member in value.items()}
        return value

    own |= {name: bound(value) for name, value in context.items() if _holds_macros(value)}
    adapter = context["adapter"]
    own["adapter"] = type(adapter)(adapter._adapter, bound(adapter._namespace))  # for dispatch
    own |= references
    own["builtins"] = {**context["builtins"], **references}
    own["context"] = own
    return own


def _holds_macros(value: Foreign) -> bool:
    """Whether a value of a context is a macro, or the macros of a package."""
    if type(value) is dict:  # relations look like mappings too
        return bool(value) and all(isinstance(member, MacroGenerator) for member in value.values())
    return isinstance(value, MacroGenerator)
