"""dbt and Spark in a process of their own: their Spark may have other jars than the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from dbt.adapters.sparksession.session import application

from tests.support.dbt_project import DbtProject, Outcome


class Child:
    """Another process, in which projects are run and asked."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run(self, project: DbtProject, *args: str, **options: Any) -> Outcome:
        """As DbtProject.run; what dbt itself returns can't be sent here."""
        return self._pool.submit(_run, project, args, options).result()

    def query(self, project: DbtProject, sql: str) -> list[dict[str, Any]]:
        return self._pool.submit(_query, project, sql).result()

    def start(self, project: DbtProject) -> str:
        """Start Spark; the error, or ""."""
        return self._pool.submit(_start, project).result()

    def class_path(self, project: DbtProject) -> str:
        """The jars that Java has there, separated by colons."""
        asked = "select java_method('java.lang.System', 'getProperty', 'java.class.path') as jars"
        (row,) = self.query(project, asked)
        return str(row["jars"])


class ChildProject(DbtProject):
    """A project whose commands and queries go to a child."""

    def __init__(self, project: DbtProject, child: Child) -> None:
        self.__dict__.update(project.__dict__)
        self.inner, self.child = project, child

    def run(self, *args: str, **options: Any) -> Outcome:
        return self.child.run(self.inner, *args, **options)

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.child.query(self.inner, sql)


@contextmanager
def child_process() -> Iterator[Child]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield Child(pool)


def _run(project: DbtProject, args: tuple[str, ...], options: dict[str, Any]) -> Outcome:
    return replace(project.run(*args, **options), raw=None, exception=None)


def _query(project: DbtProject, sql: str) -> list[dict[str, Any]]:
    try:
        return project.query(sql)
    except Exception as exc:  # Java's own can't be sent
        raise RuntimeError(str(exc)) from None


def _start(project: DbtProject) -> str:
    try:
        application(project.credentials())
    except Exception as exc:
        return str(exc)
    return ""
