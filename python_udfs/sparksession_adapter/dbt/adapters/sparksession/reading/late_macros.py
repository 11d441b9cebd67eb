"""Macros that take calls which dbt noted as calls of other macros.

dbt looks up what a macro calls when it reads the macro's file, and a model's calls when it reads
the model. A macro that came later, in a file of its own, may take such a call: by dispatch, or as
it has the name of a macro of dbt. It runs, and dbt doesn't note it until it reads all files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.reading.macro_calls import ENGINE_PACKAGES, JINJA

DISPATCHED = re.compile(
    r"""\bdispatch\(\s*(?:macro_name\s*=\s*)?['"](?P<name>\w+)['"]"""
    r"""(?:\s*,\s*(?:macro_namespace\s*=\s*)?['"](?P<package>\w+)['"])?"""
)
PREFIXES = ("sparksession", "spark", "default")  # the first that is there is called
PLAINLY_CALLED = re.compile(r"(?<![.\w])(\w+)\s*\(")
DBT = "dbt"  # the namespace of dbt's own macros and of the adapters'


class LateMacros:
    """Who takes the calls of macros in a project.

    Args:
        manifest: dbt's.
        config: that of the project.
    """

    def __init__(self, manifest: Foreign, config: Foreign) -> None:
        self._manifest = manifest
        self._config = config
        # package and name, or no package for a name by itself -> id. What comes last wins: dbt's,
        # those of packages, those of the project
        self._ids: dict[tuple[str | None, str], str] = {}
        kinds = {config.project_name: 2} | dict.fromkeys(ENGINE_PACKAGES, 0)
        macros = manifest.macros.values()
        for macro in sorted(macros, key=lambda macro: kinds.get(macro.package_name, 1)):
            of_engine = macro.package_name in ENGINE_PACKAGES
            package = DBT if of_engine else macro.package_name
            self._ids[package, macro.name] = self._ids[None, macro.name] = macro.unique_id

    def note(self) -> None:
        """Let macros and models name the macros that take their calls now."""
        for macro in self._manifest.macros.values():
            self._note_dispatched(macro, macro.macro_sql)
            if macro.package_name not in ENGINE_PACKAGES:
                self._note_plainly_called(macro)
        # dbt loads macros by themselves, too
        for node in getattr(self._manifest, "nodes", {}).values():
            if node.resource_type in ("model", "snapshot") and node.language == "sql":
                self._note_dispatched(node, node.raw_code)

    def _note_dispatched(self, caller: Foreign, text: str) -> None:
        if "dispatch" not in text:
            return
        called = caller.depends_on.macros
        for found in DISPATCHED.finditer(text):
            names = [f"{prefix}__{found['name']}" for prefix in PREFIXES]
            taker = self._taker(names, found["package"])
            if taker is None or taker in called or self._is_of_engine(taker):
                continue
            others = set(names) - set(PLAINLY_CALLED.findall(text))
            macros = self._manifest.macros
            called[:] = [
                name for name in called if name not in macros or macros[name].name not in others
            ]
            caller.depends_on.add_macro(taker)

    def _taker(self, names: Iterable[str], namespace: str | None) -> str | None:
        """Id of the macro that dbt dispatches to."""
        packages: Iterable[str | None] = [None]
        if namespace is not None:
            order = self._config.get_macro_search_order(namespace)
            packages = order or [self._config.project_name, namespace]
        for package in packages:
            for name in names:
                if found := self._ids.get((package, name)):
                    return found
        return None

    def _note_plainly_called(self, macro: Foreign) -> None:
        names = {
            name for part in JINJA.findall(macro.macro_sql) for name in PLAINLY_CALLED.findall(part)
        }
        for name in sorted(names - {macro.name}):
            taker = self._ids.get((macro.package_name, name)) or self._ids.get((None, name))
            if taker is not None and not self._is_of_engine(taker):
                macro.depends_on.add_macro(taker)

    def _is_of_engine(self, unique_id: str) -> bool:
        return self._manifest.macros[unique_id].package_name in ENGINE_PACKAGES
