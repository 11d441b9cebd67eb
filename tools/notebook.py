"""`make notebook`: JupyterLab on the newest published version, in Python.

The first call installs JupyterLab, of hashes that the repository holds
(requirements-notebook.lock), and writes `notebooks/warehouse.ipynb` as a start; a notebook that is
there stays as it is. What a notebook opens by `reading_session` only reads, as `make sql` does.
JupyterLab listens on 127.0.0.1 and asks for the token that it prints.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from tools.profile import ROOT
from tools.setup import PIP_INSTALL
from tools.sql import open_published, reading_credentials

NOTEBOOK = Path("notebooks", "warehouse.ipynb")
LOCK = "requirements-notebook.lock"
INTRODUCTION = """\
# The warehouse in a notebook
Plain names are those of the newest published version. The session only reads. `toPandas()` brings
the rows here, so let Spark sum them up first; decimals stay exact as `Decimal`."""
CELLS = (
    "from tools.notebook import reading_session\n\nspark = reading_session()",
    'orders = spark.sql("""\n'
    "    select biz_status, sum(order_count) as orders\n"
    "    from dws_trade__user_status_td\n"
    "    group by biz_status\n"
    "    order by orders desc\n"
    '""").toPandas()\n'
    "orders",
    "import altair as alt\n\n"
    'counts = orders.astype({"orders": "int64"})\n'
    'alt.Chart(counts).mark_bar().encode(x="orders", y=alt.Y("biz_status", sort="-x"))',
)


def reading_session() -> SparkSession:
    """A Spark session that only reads; plain names are those of the newest published version, or
    of the tables as runs left them where nothing is published yet.

    Raises:
        DbtRuntimeError: there is no warehouse to read, or Spark doesn't start.
    """
    session, _ = open_published(reading_credentials())
    return session


def notebook_text() -> str:
    """The notebook to start with, in the format that Jupyter keeps (nbformat 4.5)."""
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "id": "introduction", "metadata": {}, "source": INTRODUCTION}
    ]
    cells += [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": source,
            "execution_count": None,
            "outputs": [],
        }
        for number, source in enumerate(CELLS, 1)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1) + "\n"


def install_command() -> list[str]:
    """The command that installs JupyterLab, of hashes as all else."""
    return [*PIP_INSTALL, "--require-hashes", "--only-binary", ":all:", "-r", LOCK]


def main(options: Sequence[str]) -> int:
    """Start JupyterLab and wait for its end; the process's exit code.

    Args:
        options: of `jupyter lab`, beside the address.

    Raises:
        DbtRuntimeError: there is no warehouse to read, or JupyterLab can't be installed.
    """
    reading_credentials()  # before anything is installed
    if importlib.util.find_spec("jupyterlab") is None:
        print("Installing JupyterLab, once.", flush=True)
        installed = subprocess.run(install_command(), cwd=ROOT)
        if installed.returncode:
            raise DbtRuntimeError(
                "JupyterLab can't be installed; pip's lines above have the reason."
            )
    notebook = ROOT / NOTEBOOK
    if not notebook.exists():
        notebook.parent.mkdir(exist_ok=True)
        notebook.write_text(notebook_text(), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", *options]
    try:
        done = subprocess.run(
            [*command, str(NOTEBOOK)], cwd=ROOT, env=os.environ | {"PYTHONPATH": path}
        )
    except KeyboardInterrupt:
        return 0
    return done.returncode
