"""The project's own Python files that a Python model imports."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.sql import mark_of


def imported_mark(code: str, root: Path) -> str | None:
    """A short hash of the project's files that some code imports, and of those that they import.

    Comments and layout don't matter. A module that is found by a name which the code makes up isn't
    seen.

    Args:
        code: of a Python model.
        root: the project's folder, where its modules are looked for first.

    Returns:
        None where the code imports nothing of the project.
    """
    marks: dict[str, str] = {}
    waiting = _files_of(_imported(parsed_code(code), ()), root)
    while waiting:
        file = waiting.pop()
        name = file.relative_to(root).as_posix()
        if name not in marks:
            stat = file.stat()
            marks[name], imported = _read(file, root, stat.st_mtime_ns, stat.st_size)
            waiting += _files_of(imported, root)
    return mark_of(json.dumps(sorted(marks.items()))) if marks else None


@lru_cache(maxsize=1024)
def _read(file: Path, root: Path, changed: int, size: int) -> tuple[str, tuple[str, ...]]:
    """A file's hash, and the modules that it may import; read again once it has changed."""
    text = file.read_text(encoding="utf-8")
    try:
        tree = parsed_code(text)
    except SyntaxError:  # who imports it reports that
        return mark_of(text), ()
    package = file.relative_to(root).parent.parts
    return mark_of(ast.dump(tree)), tuple(_imported(tree, package))


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
