"""A warehouse whose dbt and Spark run in a process of its own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt.adapters.sparksession.session import application

from tests.support.dbt_project import Outcome
from tests.support.warehouse import Warehouse


class ChildWarehouse:
    """A Warehouse whose dbt and Spark run in another process.

    Args:
        env: environment variables of each command, named in lower case.
    """

    def __init__(self, child: ProcessPoolExecutor, folder: Path, **env: str) -> None:
        self._child, self.folder, self.env = child, folder, env
        self.here = Warehouse(folder)  # to land files

    def build(self, *args: str, expect_ok: bool = True, **env: str) -> Outcome:
        """Build ods_binlog, with further environment variables."""
        command = ("run", "--select", "ods_binlog", *args)
        return self._child.submit(_run, self.folder, self.env | env, command, expect_ok).result()

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self._child.submit(_query, self.folder, self.env, sql).result()


def warehouse_in(folder: Path, env: dict[str, str]) -> Warehouse:
    made = Warehouse(folder)
    made.env |= {name.upper(): value for name, value in env.items()}
    return made


def start(folder: Path, env: dict[str, str]) -> str:
    """Start Spark; the error, or ""."""
    try:
        application(warehouse_in(folder, env).credentials())
    except Exception as exc:
        return str(exc)
    return ""


def _run(folder: Path, env: dict[str, str], args: tuple[str, ...], expect_ok: bool) -> Outcome:
    outcome = warehouse_in(folder, env).run(*args, expect_ok=expect_ok)
    # what dbt itself returns can't be sent to another process
    return replace(outcome, raw=None, exception=None)


def _query(folder: Path, env: dict[str, str], sql: str) -> list[dict[str, Any]]:
    return warehouse_in(folder, env).query(sql)
