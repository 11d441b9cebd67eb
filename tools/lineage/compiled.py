"""Compile all models without a warehouse, so that their lineage is the same whatever it holds."""

from __future__ import annotations

import sys
from pathlib import Path

from dbt.cli.main import dbtRunner

FOLDER = "lineage"  # below the target folder


def compile_models(target: Path) -> Path:
    """The folder of the manifest of all compiled models, those outside the daily build too.

    Raises:
        RuntimeError: dbt can't compile the project.
    """
    folder = target / FOLDER
    options = ["--target", "ci", "--target-path", str(folder), "--log-path", str(folder)]
    done = dbtRunner().invoke(["--quiet", "compile", "--select", "fqn:*", *options])
    if not done.success:
        raise RuntimeError(f"dbt can't compile the project: {done.exception or 'see above'}")
    return folder


if __name__ == "__main__":
    compile_models(Path(sys.argv[1]))
