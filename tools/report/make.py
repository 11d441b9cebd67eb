"""`make report`: one page about the state of the warehouse.

The page is target/report.html; the runs and the column lineage are also written as OpenLineage
events, to target/openlineage.jsonl. While a version is the newest, its page is also kept beside its
tables, as reports/version-<n>.html in the warehouse's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from dbt.adapters.sparksession.catalogs import scheme_of
from dbt.adapters.sparksession.session import message_of

from tools.lineage.compiled import FOLDER
from tools.lineage.events import FILE as EVENTS
from tools.lineage.events import lineage_events, send_events, write_events
from tools.lineage.warehouse import Lineage
from tools.report.declared import counted_tables
from tools.report.facts import Gathering, asker
from tools.report.history import last_command, record
from tools.report.page import html_of, libraries
from tools.report.places import FILE as PAGE
from tools.report.places import credentials, kept_folder, target_folder
from tools.report.sections import Context
from tools.run import QUICK_COMPILER

ROOT = Path(__file__).parents[2]


class ReportError(Exception):
    """Why there is no report, in words for the user."""


def make_report(root: Path) -> list[Path]:
    """Write the report; the files that hold it.

    Raises:
        ReportError: there is no warehouse, or dbt can't compile the project.
    """
    target = target_folder(root)
    settings = credentials(root)
    warehouse = settings.path(settings.warehouse)
    if not scheme_of(warehouse) and not Path(warehouse).is_dir():
        raise ReportError(f"{warehouse} is no folder: `make run` builds the warehouse.")
    # beside Spark's start: a process of its own compiles the models
    compiling = subprocess.Popen(
        [sys.executable, "-m", "tools.lineage.compiled", str(target)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ThreadPoolExecutor(1) as pool:
        bundle = pool.submit(libraries, target)
        ask = asker(settings)
        ask("select 1")
        gathering = Gathering(ask, str(settings.schema))
        printed = compiling.communicate()[0]
        if compiling.returncode:
            raise ReportError(f"dbt can't compile the project:\n{printed.strip()}")
        manifest = json.loads((target / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        kept = kept_folder(settings, target)
        context = context_of(root, manifest, gathering, target, kept)
        page = target / PAGE
        page.write_text(html_of(context, bundle.result()), encoding="utf-8")
    place = warehouse if scheme_of(warehouse) else Path(warehouse).as_uri()
    events = lineage_events(context.lineage, context.rows["commits"], place, context.made_at)
    write_events(events, target / EVENTS)
    send_events(events, print)
    return [page, *keep(page, kept, context.rows["versions"])]


def context_of(
    root: Path,
    manifest: Mapping[str, Any],
    gathering: Gathering,
    target: Path,
    kept: Path,
) -> Context:
    """What the report is made of.

    Args:
        manifest: dbt's, of compiled models.
        gathering: asks the queries.
        target: dbt's target folder.
        kept: where what the commands did is kept.
    """
    project = yaml.safe_load((root / "dbt_project.yml").read_text(encoding="utf-8"))
    variables = project.get("vars") or {}
    counted = counted_tables(manifest, variables)
    results = last_command(target).get("results", ())
    return Context(
        name=project["name"],
        zone=str(variables.get("business_zone", "UTC")),
        made_at=datetime.now(UTC),
        facts=gathering.facts(counted),
        counted=counted,
        lineage=Lineage(manifest),
        commands=record(target, kept),
        results={result["unique_id"]: result for result in results},
    )


def keep(page: Path, folder: Path, versions: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Keep the page beside the newest published version; where it is, if there is a version."""
    if not versions:
        return []
    kept = folder / f"version-{versions[0]['version']}.html"
    folder.mkdir(parents=True, exist_ok=True)
    half = kept.with_suffix(".part")  # a reader never sees half a page
    shutil.copyfile(page, half)
    half.replace(kept)
    return [kept]


def main() -> int:
    """Write the report and print where it is."""
    # its queries are over before Java's second compiler has paid for itself
    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_COMPILER)
    try:
        pages = make_report(ROOT)
    except ReportError as exc:
        print(f"No report: {exc}", file=sys.stderr)
        return 1
    except Exception as exc:
        print(f"No report: {message_of(exc)}", file=sys.stderr)
        return 1
    print(f"The report is one page: {pages[0].resolve()} (open it in a browser).")
    for kept in pages[1:]:
        print(f"It is kept with its version: {kept}")
    return 0
