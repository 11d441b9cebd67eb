"""Check which module may import which: the contracts of pyproject.toml, by import-linter.

import-linter looks for a package as Python does, and accepts only a package whose parents hold no
code. The adapter's parents are `dbt` and `dbt.adapters`, which dbt-core fills: here they are plain
folders.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
ADAPTER = ROOT / "python_udfs" / "sparksession_adapter"


class _AdapterAlone(MetaPathFinder):
    """Finds `dbt` and `dbt.adapters` in the adapter's folder, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if fullname not in ("dbt", "dbt.adapters"):
            return None
        spec = ModuleSpec(fullname, loader=None, is_package=True)
        spec.submodule_search_locations = [str(ADAPTER.joinpath(*fullname.split(".")))]
        return spec


def main() -> int:
    """The number that the process ends with: 0 where every contract is kept."""
    os.chdir(ROOT)
    sys.meta_path.insert(0, _AdapterAlone())
    return lint_imports(no_cache=True, no_logo=True)
