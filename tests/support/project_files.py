"""The project's own files, for tests of their form."""

from __future__ import annotations

from pathlib import Path

from tests.support.dbt_project import REPO

# folders whose macros are called by name: the project's, and of the adapter's those beside the
# materializations
ENGINE_MACROS = "python_udfs/sparksession_adapter/dbt/include/sparksession/macros"
CALLED = ("operations", "reading", "strategies", "versions")
MACROS = ("macros", *(f"{ENGINE_MACROS}/{folder}" for folder in CALLED))


def sql_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (REPO / folder).rglob("*.sql"))


def yaml_files() -> list[Path]:
    folders = ("models", *MACROS, "seeds", "snapshots", "tests/dbt")
    return sorted(path for folder in folders for path in (REPO / folder).rglob("*.yml"))


def relative(path: Path) -> str:
    return path.relative_to(REPO).as_posix()
