"""`make ci-diff`: what a change of the project does to the tables.

What was changed, and all that is made of it, is built in a schema of its own; everything else is
read where it stands (dbt's --defer). Then each table built is compared with the newest version, row
by row, and the schema is dropped. Readers and the tables of the warehouse see nothing of it.

    BASE      the commit that the change is compared with, default main
    STATE     folder with the manifest.json that it is compared with instead
    CI_SCHEMA the schema, default ci
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dbt.cli.main import dbtRunner

# models of the warehouse's own commits and runs; beliefs of another schema know no past
ABOUT_RUNS = ("path:models/meta", "path:models/dqc", "tag:beliefs")
# a unit test compares no rows of the warehouse; a snapshot of another schema knows no past
LEFT_OUT = ("unit_test", "snapshot")
# variables of dbt that would send its files elsewhere
OWN_FOLDERS = ("DBT_TARGET_PATH", "DBT_LOG_PATH", "DBT_PROJECT_DIR")


class CiDiffError(Exception):
    """What is asked for can't be compared, in a sentence."""


def build_command(state: Path) -> list[str]:
    """dbt's arguments that build what differs from a state, to be run with SCHEMA set."""
    return [
        *("build", "--select", "state:modified+", "--exclude", *ABOUT_RUNS),
        *("--exclude-resource-type", LEFT_OUT[0], "--exclude-resource-type", LEFT_OUT[1]),
        *("--defer", "--state", str(state), "--vars", "{publish_versions: false}"),
    ]


def operation(name: str, **arguments: str) -> list[str]:
    """dbt's arguments that run an operation, to be run without SCHEMA."""
    given = ", ".join(f"{key}: {value}" for key, value in arguments.items())
    return ["run-operation", name, "--args", f"{{{given}}}"]


def files_of(base: str, folder: Path) -> None:
    """Write the project's files as they were at a commit into a folder.

    Raises:
        CiDiffError: there is no such commit.
    """
    archive = folder.with_suffix(".tar")
    command = ["git", "archive", "--output", str(archive), base]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CiDiffError(
            f"git knows no commit {base!r} ({done.stderr.strip()}); set BASE to a commit or a "
            "branch, or STATE to a folder with the manifest.json to compare with."
        )
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


@contextmanager
def state_of(base: str) -> Iterator[Path]:
    """Folder with the manifest of the project as it was at a commit; gone afterwards."""
    with tempfile.TemporaryDirectory() as held:
        project = Path(held) / "project"
        files_of(base, project)
        # a process of its own: the project's Python packages are others there
        environment = {key: value for key, value in os.environ.items() if key not in OWN_FOLDERS}
        done = subprocess.run(
            [str(Path(sys.executable).parent / "dbt"), "parse", "--target", "ci"],
            cwd=project,
            env=environment | {"DBT_PROFILES_DIR": str(project / "profiles")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CiDiffError(f"dbt can't parse the project as of {base!r}: {done.stdout.strip()}")
        yield project / "target"


def _ended_well(command: Sequence[str], schema: str | None = None) -> bool:
    if schema is not None:
        os.environ["SCHEMA"] = schema
    try:
        done = dbtRunner().invoke(list(command))
    finally:
        os.environ.pop("SCHEMA", None)
    if done.exception is not None:
        print(f"`dbt {command[0]}` failed: {done.exception}")
    return done.success


def compare(state: Path, schema: str) -> int:
    """Build, compare and clean up.

    Returns:
        The process's exit code: 0 where all that was changed could be built, whatever differs.
    """
    dropping = ["--quiet", *operation("drop_built", schema=schema)]
    if not _ended_well(dropping):
        return 2
    target = ["--target-path", str(Path(os.environ.get("DBT_TARGET_PATH", "target")) / schema)]
    is_built = _ended_well([*build_command(state.resolve()), *target], schema)
    is_compared = _ended_well(["--quiet", *operation("diff_built", schema=schema)])
    is_dropped = _ended_well(dropping)
    return 0 if is_built and is_compared and is_dropped else 1


def main(base: str, state: str, schema: str) -> int:
    """The process's exit code.

    Raises:
        CiDiffError: there is nothing to compare with.
    """
    if not state:
        with state_of(base) as found:
            return compare(found, schema)
    if not (Path(state) / "manifest.json").is_file():
        raise CiDiffError(
            f"STATE must be a folder with dbt's manifest.json, got {state!r}, which has none."
        )
    return compare(Path(state), schema)
