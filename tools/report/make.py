"""`make report`: one page about the state of the warehouse.

The page is target/report.html; the runs and the column lineage are also written as OpenLineage
events, to target/openlineage.jsonl. While a version is the newest, its page is also kept beside its
tables, as reports/version-<n>.html in the warehouse's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from dbt.adapters.sparksession.catalogs import scheme_of
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.adapters.sparksession.session import message_of
from dbt_common.exceptions import DbtRuntimeError

from tools.lineage.compiled import Compiling
from tools.lineage.events import FILE as EVENTS
from tools.lineage.events import lineage_events, send_events, write_events
from tools.lineage.warehouse import Lineage
from tools.profile import credentials_of_profile, read_only
from tools.report.declared import counted_tables, vars_of
from tools.report.facts import Asker, Gathering
from tools.report.history import last_command, record
from tools.report.page import html_of, libraries
from tools.report.places import FILE as PAGE
from tools.report.places import kept_folder, target_folder
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
    try:
        settings = read_only(credentials_of_profile(root))
    except DbtRuntimeError as exc:
        raise ReportError(exc.msg) from None
    warehouse = settings.path(settings.warehouse)
    compiling = Compiling(root, target)  # beside Spark's start
    start_quickly(settings)
    with ThreadPoolExecutor(3) as pool:
        described = pool.submit(_described, compiling)
        lineage = pool.submit(lambda: Lineage(described.result()))
        bundle = pool.submit(libraries, target)
        gathering = Gathering(Asker(settings))
        kept = kept_folder(settings, target)
        context = context_of(root, described.result(), gathering, target, kept, lineage=lineage)
        page = target / PAGE
        page.write_text(html_of(context, bundle.result()), encoding="utf-8")
    place = warehouse if scheme_of(warehouse) else Path(warehouse).as_uri()
    events = lineage_events(context.lineage, context.rows["commits"], place, context.made_at)
    write_events(events, target / EVENTS)
    send_events(events, print)
    return [page, *keep(page, kept, context.rows["versions"])]


def start_quickly(settings: SparkSessionCredentials) -> None:
    """Let Java start and end soon, where its options aren't given: the queries are over before its
    second compiler, or a collector with threads of its own, has paid for itself. Each table is
    looked up once."""
    options = str(settings.server_side_parameters.get("spark.driver.extraJavaOptions", ""))
    collector = "" if "GC" in options else " -XX:+UseSerialGC"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{QUICK_COMPILER}{collector}")
    cached = f"spark.sql.catalog.{settings.catalog}.cache-enabled"
    settings.server_side_parameters.setdefault(cached, "true")


def _described(compiling: Compiling) -> dict[str, Any]:
    """dbt's manifest of compiled models.

    Raises:
        ReportError: dbt can't compile them.
    """
    try:
        found: dict[str, Any] = json.loads(compiling.manifest().read_text(encoding="utf-8"))
    except RuntimeError as exc:
        raise ReportError(f"dbt can't compile the project:\n{exc}") from exc
    return found


def context_of(
    root: Path,
    manifest: Mapping[str, Any],
    gathering: Gathering,
    target: Path,
    kept: Path,
    *,
    lineage: Future[Lineage] | None = None,
) -> Context:
    """What the report is made of.

    Args:
        manifest: dbt's, of compiled models.
        gathering: asks the queries.
        target: dbt's target folder.
        kept: where what the commands did is kept.
        lineage: of the manifest's tables; without it, it is found here.
    """
    project = yaml.safe_load((root / "dbt_project.yml").read_text(encoding="utf-8"))
    variables = vars_of(project)
    counted = counted_tables(manifest, variables)
    gathering.ask(counted)
    results = last_command(target).get("results", ())
    columns = Lineage(manifest) if lineage is None else lineage.result()
    facts = gathering.facts()
    declared = {node["name"] for node in manifest["nodes"].values()}
    facts.missing = [name for name in facts.missing if name in declared]
    return Context(
        name=project["name"],
        zone=str(variables.get("business_zone", "UTC")),
        made_at=datetime.now(UTC),
        facts=facts,
        counted=counted,
        lineage=columns,
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
