"""The project's own Python files that a Python model imports."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.sql import mark_of


class ImportedCode(NamedTuple):
    """The project's files that some code imports, and that these import in turn.

    Attributes:
        mark: a short hash of them, whatever their comments and layout.
        texts: what each holds.
        edited: those that this process has imported, and that have been edited since.
    """

    mark: str
    texts: tuple[str, ...]
    edited: tuple[str, ...] = ()


# file -> its mark when this process had not imported it yet, as far as it was looked at. Python
# imports a file once, whatever becomes of it
_before_import: dict[str, str] = {}
_edited: set[Path] = set()  # files that were found to be edited since then


def imported_code(code: str, root: Path) -> ImportedCode | None:
    """The project's files that a Python model imports; None where it imports none.

    A module that is found by a name which the code makes up isn't seen.

    Args:
        code: of the model.
        root: the project's folder, where its modules are looked for first.
    """
    found: dict[str, _File] = {}
    waiting = _files_of(_imported(parsed_code(code), ()), root)
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name not in found:
            stat = path.stat()
            found[name] = _read(path, root, stat.st_mtime_ns, stat.st_size)
            waiting += _files_of(found[name].imported, root)
    if not found:
        return None
    marks = sorted((name, file.mark) for name, file in found.items())
    loaded = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    edited = [name for name, mark in marks if _is_edited(str(root / name), mark, loaded)]
    _edited.update(root / name for name in edited)
    texts = tuple(file.text for file in found.values())
    return ImportedCode(mark_of(json.dumps(marks)), texts, tuple(edited))


def _is_edited(path: str, mark: str, loaded: Collection[str | None]) -> bool:
    """Whether a file holds another code than this process has imported from it."""
    if path not in loaded:
        _before_import[path] = mark
        return False
    return _before_import.setdefault(path, mark) != mark


def has_edited_imports(root: Path) -> bool:
    """Whether a model was refused, as this process had imported code of a project that was edited
    since: another process can make it.

    Args:
        root: the project's folder.
    """
    return any(path.is_relative_to(root) for path in _edited)


class _File(NamedTuple):
    mark: str
    text: str
    imported: tuple[str, ...]  # modules, perhaps


@lru_cache(maxsize=1024)
def _read(path: Path, root: Path, changed: int, size: int) -> _File:
    """A file of the project; read again once it has changed."""
    text = path.read_text(encoding="utf-8")
    try:
        tree = parsed_code(text)
    except SyntaxError:  # who imports it reports that
        return _File(mark_of(text), text, ())
    package = path.relative_to(root).parent.parts
    return _File(mark_of(ast.dump(tree)), text, tuple(_imported(tree, package)))


def _imported(tree: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Names of all that a tree may import as a module, wherever in it that stands.

    Args:
        package: names of the packages around it, which relative imports start from.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found += [module, *(f"{module}.{name.name}".lstrip(".") for name in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = (value.value for value in node.args if isinstance(value, ast.Constant))
            found += [name for name in names if isinstance(name, str)]
    return found


def _files_of(modules: Iterable[str], root: Path) -> list[Path]:
    """The project's files that are read when some modules are imported."""
    found = []
    for module in modules:
        folder = root
        for part in filter(None, module.split(".")):
            file, folder = folder / f"{part}.py", folder / part
            found += [path for path in (file, folder / "__init__.py") if path.is_file()]
    return found
