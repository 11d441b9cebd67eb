"""`make report`: one page about the state of the warehouse, and where it is.

The page is target/report.html. While a version is the newest one, its page is also kept beside its
tables, as reports/version-<n>.html in the warehouse's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from dbt.adapters.sparksession.session import message_of

from tools.lineage.compiled import FOLDER
from tools.lineage.warehouse import Lineage
from tools.report.declared import counted_tables
from tools.report.facts import asker, credentials, gather
from tools.report.page import Context, Page

ROOT = Path(__file__).parents[2]
FILE = "report.html"
KEPT = "reports"  # folder of the warehouse


def target_folder(root: Path) -> Path:
    return root / os.environ.get("DBT_TARGET_PATH", "target")


def last_command(target: Path) -> dict[str, Any]:
    """dbt's run_results.json of the last command that built or tested; {} where there is none."""
    try:
        found = json.loads((target / "run_results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if found["args"].get("which") in ("build", "run", "test", "retry") else {}


def make_report(root: Path) -> list[Path]:
    """Write the report; the files that hold it.

    Raises:
        FileNotFoundError: there is no warehouse.
        RuntimeError: dbt can't compile the project.
    """
    target = target_folder(root)
    settings = credentials(root)
    warehouse = Path(settings.path(settings.warehouse))
    if not warehouse.is_dir():
        raise FileNotFoundError(f"{warehouse} is no folder: `make run` builds the warehouse.")
    # beside Spark's start: a process of its own
    compiling = subprocess.Popen(
        [sys.executable, "-m", "tools.lineage.compiled", str(target)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ask = asker(settings)
    ask("select 1")
    said = compiling.communicate()[0]
    if compiling.returncode:
        raise RuntimeError(f"dbt can't compile the project:\n{said.strip()}")
    manifest = json.loads((target / FOLDER / "manifest.json").read_text(encoding="utf-8"))
    project = yaml.safe_load((root / "dbt_project.yml").read_text(encoding="utf-8"))
    variables = project.get("vars") or {}
    counted = counted_tables(manifest, variables)
    last = last_command(target)
    facts = gather(ask, settings.schema, counted)
    context = Context(
        name=project["name"],
        zone=str(variables.get("business_zone", "UTC")),
        made_at=datetime.now(UTC),
        facts=facts,
        counted=counted,
        lineage=Lineage(manifest),
        results=last.get("results", ()),
        elapsed=last.get("elapsed_time", 0.0),
        run_id=last.get("metadata", {}).get("invocation_id", ""),
    )
    page = target / FILE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(Page(context).html(), encoding="utf-8")
    return [page, *keep(page, warehouse, facts.rows["versions"])]


def keep(page: Path, warehouse: Path, versions: Sequence[dict[str, Any]]) -> list[Path]:
    """Keep the page beside the newest published version; where it is, if there is a version."""
    if not versions:
        return []
    kept = warehouse / KEPT / f"version-{versions[0]['version']}.html"
    kept.parent.mkdir(exist_ok=True)
    half = kept.with_suffix(".part")  # a reader never sees half a page
    shutil.copyfile(page, half)
    half.replace(kept)
    return [kept]


def main() -> int:
    try:
        pages = make_report(ROOT)
    except (FileNotFoundError, RuntimeError) as exc:
        print(f"No report: {exc}", file=sys.stderr)
        return 1
    except Exception as exc:
        print(f"No report: {message_of(exc)}", file=sys.stderr)
        return 1
    print(f"The report is one page: {pages[0].resolve()} (open it in a browser).")
    for kept in pages[1:]:
        print(f"It is kept with its version: {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
