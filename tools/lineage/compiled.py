"""All models compiled without a warehouse, so that their lineage is the same whatever it holds.

The manifest stays as long as nothing changes that it is made of: to compile takes longer than all
that the report asks of the warehouse. What dbt has parsed for its last command isn't parsed again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import yaml
from dbt.cli.main import dbtRunner
from dbt.version import get_installed_version

from tools.profile import profiles_folder

FOLDER, MANIFEST = "lineage", "manifest.json"  # below the target folder
MARK, OUTPUT = "project.mark", "compile.log"
PARSED = "partial_parse.msgpack"  # dbt's own, in the target folder
PATHS = ("model-paths", "macro-paths", "seed-paths", "snapshot-paths", "test-paths")
# the adapter writes parts of the SQL, the other packages check what is declared
BESIDE = ("python_udfs", "dbt_packages")
SELECTED = ("resource_type:model", "resource_type:snapshot")  # what columns are found of
KINDS = (".sql", ".yml", ".yaml", ".py", ".csv", ".md")
VARIABLE = re.compile(r"\benv_var\(\s*+['\"](\w++)")
OF_DBT, NOT_OF_SQL = "DBT_", ("DBT_TARGET_PATH", "DBT_LOG_PATH")

# a fork has imported dbt already; elsewhere than on Linux a fork isn't safe
PROCESS: type[BaseProcess] = (
    multiprocessing.get_context("fork").Process
    if sys.platform == "linux"
    else multiprocessing.get_context("spawn").Process
)


class Compiling:
    """Compiles the models in a process of its own, where the manifest isn't that of the project as
    it stands now."""

    def __init__(self, root: Path, target: Path) -> None:
        """
        Args:
            root: the project.
            target: dbt's target folder.
        """
        self._folder = target / FOLDER
        self._mark = mark_of_project(root, os.environ)
        self._process: BaseProcess | None = None
        if self._kept_mark() != self._mark:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / MARK).unlink(missing_ok=True)
            self._process = PROCESS(target=_compile, args=(root, target))
            self._process.start()

    def manifest(self) -> Path:
        """The manifest of all compiled models, those outside the daily build too.

        Raises:
            RuntimeError: dbt can't compile the project, with what it printed.
        """
        if self._process is not None:
            self._process.join()
            if self._process.exitcode:
                printed = (self._folder / OUTPUT).read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(printed.strip())
            (self._folder / MARK).write_text(self._mark, encoding="utf-8")
        return self._folder / MANIFEST

    def _kept_mark(self) -> str:
        try:
            kept = (self._folder / MARK).read_text(encoding="utf-8")
        except OSError:
            return ""
        return kept if (self._folder / MANIFEST).is_file() else ""


def mark_of_project(root: Path, environment: Mapping[str, str]) -> str:
    """A hash of what compiled models are made of: the project's files, dbt's version, and the
    environment variables that the files name or that are dbt's own.

    Args:
        root: the project.
    """
    found, named = hashlib.sha256(get_installed_version().to_version_string().encode()), set[str]()
    for file in _files(root, environment):
        content = file.read_bytes()
        named |= set(VARIABLE.findall(content.decode("utf-8", errors="replace")))
        found.update(f"{file}\0{len(content)}\0".encode())
        found.update(content)
    named |= {name for name in environment if name.startswith(OF_DBT)}
    for name in sorted(named.difference(NOT_OF_SQL)):
        found.update(f"{name}\0{environment.get(name)!r}\0".encode())
    return found.hexdigest()


def _files(root: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """The files of a project, in order."""
    project = root / "dbt_project.yml"
    settings = yaml.safe_load(project.read_text(encoding="utf-8"))
    profiles = profiles_folder(root, environment) / "profiles.yml"
    named = (project, root / "packages.yml", root / "dependencies.yml", profiles)
    yield from (file for file in named if file.is_file())
    folders = [root / name for key in PATHS for name in settings.get(key, ())]
    for folder in dict.fromkeys([*folders, *(root / name for name in BESIDE)]):
        yield from sorted(
            file for file in folder.rglob("*") if file.suffix in KINDS and file.is_file()
        )


def _compile(root: Path, target: Path) -> None:
    """Compile all models into a folder; what dbt prints stands there as well."""
    folder = target / FOLDER
    output = (folder / OUTPUT).open("w", encoding="utf-8", buffering=1)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    sys.stdout = sys.stderr = output
    os.chdir(root)
    if (target / PARSED).is_file():
        shutil.copyfile(target / PARSED, folder / PARSED)
    # without the tests of what is selected
    command = ["--quiet", "compile", "--indirect-selection", "empty", "--select", *SELECTED]
    with tempfile.TemporaryDirectory() as profiles:  # no other user can read it
        _write_offline_profiles(root, Path(profiles))
        options = ["--target-path", str(folder), "--log-path", str(folder)]
        done = dbtRunner().invoke([*command, "--profiles-dir", profiles, *options])
    if not done.success:
        sys.exit(f"dbt can't compile the project: {done.exception or 'see above'}")


def _write_offline_profiles(root: Path, folder: Path) -> None:
    """Write the profiles with each of their targets offline. With another target than that of the
    command before, dbt would parse the whole project again."""
    text = (profiles_folder(root, os.environ) / "profiles.yml").read_text(encoding="utf-8")
    profiles = yaml.safe_load(text)
    for profile in profiles.values():
        for output in (profile.get("outputs") or {}).values():
            output["offline"] = True
    (folder / "profiles.yml").write_text(yaml.safe_dump(profiles), encoding="utf-8")
