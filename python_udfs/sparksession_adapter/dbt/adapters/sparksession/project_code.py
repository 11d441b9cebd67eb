"""Code of the project, which the profile names and the adapter imports when it needs it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from dbt_common.exceptions import DbtRuntimeError


def find_code_of(root: str) -> None:
    """Let the project's code be imported.

    Args:
        root: the project's folder.
    """
    if root not in sys.path:  # --project-dir leaves the working directory alone
        sys.path.insert(0, root)


def project_module(root: str, name: str, setting: str) -> ModuleType:
    """A module of the project.

    Args:
        root: the project's folder.
        name: of the module, with dots.
        setting: of the profile, which names it.

    Raises:
        DbtRuntimeError: there is no such module.
    """
    find_code_of(root)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise
        raise DbtRuntimeError(
            f"{setting} of the profile names the module {name}, which isn't in {root}."
        ) from exc


def project_function(root: str, name: str, setting: str) -> Callable[..., Any]:
    """A function of the project, see project_module.

    Args:
        name: `module:function`.

    Raises:
        DbtRuntimeError: there is no such function.
    """
    module, _, function = name.partition(":")
    found = getattr(project_module(root, module, setting), function or " ", None)
    if not callable(found):
        raise DbtRuntimeError(
            f"{setting} of the profile must name a function as module:function, got {name!r}."
        )
    return found


def ship_by_value(root: str, packages: Iterable[str]) -> None:
    """Let the project's packages travel inside the functions that use them: no file to ship.

    Args:
        packages: names of packages; those that aren't in the project's folder are left out.
    """
    for package in packages:
        if os.path.isfile(os.path.join(root, package, "__init__.py")):
            from pyspark import cloudpickle

            cloudpickle.register_pickle_by_value(importlib.import_module(package))
