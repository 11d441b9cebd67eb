"""Plays mutants: changes a copy of the project, and asks the tests nearest to the change.

A file of tests runs once as the code is, to see which of its tests pass and what each reaches. A
mutant then meets those that reach it, quick tests first, in a JVM that is there already.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mutants import reach
from tests.mutants.nearest import nearest_tests
from tests.mutants.sites import Site
from tests.support.dbt_project import REPO
from tests.support.project_copy import copy_of_project, environment_of

SEED = "26"  # of tests that play at random: a mutant is caught in every run, or in none
SEEDS = (
    "JOIN_SEED",
    "WINDOW_SEED",
    "STREAM_SEED",
    "BELIEFS_SEED",
    "EXTRACTS_SEED",
    "FILTER_SEED",
    "MODELS_SEED",
    "KILL_SEED",
)
# what tests reach depends on it
CODE_OF_TESTS = (
    "python_udfs/**/*.py",
    "python_udfs/**/*.sql",
    "macros/**/*.sql",
    "tests/support/**/*.py",
)
SECONDS = 60  # that a mutant may take beside ten times what its tests need
PLAYED_BY_ONE_JVM = 40


class Player:
    """Plays mutants in turn.

    Args:
        folder: an empty folder, for the copy of the project.
        kept: folder where what tests reach is kept for another time; below `folder` where none
            is given.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        self.root = copy_of_project(folder)
        self.kept = kept or folder / "reached"
        self.kept.mkdir(parents=True, exist_ok=True)
        self.env = environment_of(self.root) | dict.fromkeys(SEEDS, SEED)
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "python_udfs", "tests", "tools"],
            cwd=self.root,
            check=False,
        )
        self._alone: dict[str, bool] = {}
        self._jvm: subprocess.Popen[str] | None = None
        self._address, self._played = "", 0

    def close(self) -> None:
        """End the JVM."""
        if self._jvm is not None and self._jvm.stdin is not None:
            self._jvm.stdin.close()
            try:
                self._jvm.wait(60)
            except subprocess.TimeoutExpired:
                self._jvm.kill()
                self._jvm.wait()
        self._jvm = None

    def caught_by(self, site: Site) -> tuple[str | None, int]:
        """The first test that fails with the change in the code, else None; and how many tests
        reach it."""
        asked = 0
        for file in nearest_tests(site.file):
            known = self.reached(file, site)
            tests = reach.reaching(known, reach.places_of(self.root, site))
            asked += len(tests)
            seconds = sum(item.seconds for item in known if item.test in tests)
            while tests:
                failed = self._with(site, lambda: self._failing(tests, seconds))  # noqa: B023
                if failed is None:
                    break
                if failed not in tests or self._passes_alone(failed):
                    return failed, asked
                tests.remove(failed)  # it needs tests of its file that run before it
        return None, asked

    def reached(self, file: str, site: Site) -> list[reach.Reached]:
        """What the tests of a file reach, as the code is.

        Which macros they reach is taken for the same while the file stands: minutes of a run, that
        other code would ask for again. Lines of Python shift.
        """
        digest = hashlib.sha256((REPO / file).read_bytes())
        if site.file.endswith(".py"):
            code = (found for pattern in CODE_OF_TESTS for found in REPO.glob(pattern))
            for path in sorted(set(filter(Path.is_file, code))):
                digest.update(path.read_bytes())
        name = file.replace("/", ".") + "." + digest.hexdigest()[:12] + ".json"
        path = self.kept / name
        if not path.exists():
            env = self.env | {"MUTANT_REACH": str(path)}
            done = self._pytest(["-p", "tests.mutants.reach", file], env, None)
            if done.returncode not in (0, 5):
                path.unlink(missing_ok=True)
                raise AssertionError(f"{file} fails as the code is:\n{done.stdout}{done.stderr}")
        return reach.read(path)

    def _with(self, site: Site, call: Callable[[], Any]) -> Any:
        path = self.root / site.file
        text = path.read_text(encoding="utf-8")
        compiled = list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))
        kept = [(file, file.read_bytes()) for file in compiled]
        for file in compiled:  # Python takes it for the file's, if size and second are the same
            file.unlink()
        stat = path.stat()
        site.put_into(self.root)
        try:
            return call()
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for file, content in kept:
                file.write_bytes(content)

    def _failing(self, tests: list[str], seconds: float) -> str | None:
        """The first of the tests that fails, what else went wrong, or None."""
        chosen = self.kept / "chosen.json"
        chosen.write_text(json.dumps(tests), encoding="utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        env = self.env | {"MUTANT_TESTS": str(chosen)}
        try:
            done = self._pytest(["-x", *files], env, SECONDS + 10 * seconds)
        except subprocess.TimeoutExpired:
            self.close()
            return f"still running after {SECONDS + 10 * seconds:.0f} s"
        if done.returncode in (0, 5):
            return None
        assert done.returncode in (1, 2), done.stdout + done.stderr
        for line in done.stdout.splitlines():
            if line.startswith(("FAILED ", "ERROR ")):
                word = line.split(" ", 1)[1]
                return next((test for test in tests if f"{word} ".startswith(f"{test} ")), word)
        return (done.stdout + done.stderr)[-300:]

    def _passes_alone(self, test: str) -> bool:
        """Whether a test passes without those before it, as the code is."""
        if test not in self._alone:
            self._alone[test] = self._failing([test], 600) is None
        return self._alone[test]

    def _pytest(
        self, arguments: list[str], env: dict[str, str], timeout: float | None
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "tests.mutants.warm", "--tb=short"]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.root,
            env=env | {"MUTANT_JVM": self._jvm_address()},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def _jvm_address(self) -> str:
        if self._played >= PLAYED_BY_ONE_JVM:
            self.close()
        if self._jvm is None or self._jvm.poll() is not None:
            self._jvm = subprocess.Popen(
                [sys.executable, "-m", "tests.mutants.warm"],
                cwd=self.root,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._jvm.stdout is not None
            self._address, self._played = self._jvm.stdout.readline().strip(), 0
            json.loads(self._address)
        self._played += 1
        return self._address
