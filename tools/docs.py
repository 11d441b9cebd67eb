"""`make docs`: the pages of docs/ as a site, with a page of all macros, dbt's docs and the newest
report in it.

The pages are copied with the folders that they lie in, so that a link means in the site what it
means in the repository; mkdocs fails where it leads nowhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml
from dbt.cli.main import dbtRunner
from dbt.task.docs import DOCS_INDEX_FILE_PATH

from tools.macro_reference import macro_reference

ROOT = Path(__file__).parents[1]
SETTINGS = "mkdocs.yml"
SITE, PAGES = "site", "site_pages"  # folders of the target folder
KINDS = {"how-to": "How-to guides", "reference": "Reference", "explanation": "Explanation"}
BESIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/RESULTS.md")
MACROS = "docs/reference/macros-in-full.md"  # of the site alone
DBT, REPORT = "dbt.html", "report.html"  # in the site


class DocsError(Exception):
    """Why there is no site, in words for the user."""


def stage_pages(root: Path, folder: Path, extra: dict[str, Path]) -> None:
    """Copy what the site is made of into a folder that is made for it.

    Args:
        root: folder of the project.
        folder: where to; what it holds is deleted.
        extra: name in the site -> file, such as dbt's docs.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs", folder / "docs")
    (folder / MACROS).write_text(macro_reference(root), encoding="utf-8")
    for name in BESIDE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = (root / name).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")
    for name, file in extra.items():
        shutil.copyfile(file, folder / name)


def site_settings(root: Path, target: Path, extra: dict[str, Path]) -> dict[str, Any]:
    """mkdocs' settings with the pages of all kinds, and those of dbt and the report."""
    settings = yaml.safe_load((root / SETTINGS).read_text(encoding="utf-8"))
    docs = root / "docs"
    for kind, title in KINDS.items():
        pages = sorted(page.relative_to(root).as_posix() for page in (docs / kind).glob("*.md"))
        if kind == "reference":
            pages.insert(pages.index("docs/reference/macros.md") + 1, MACROS)
        settings["nav"].append({title: pages})
    settings["nav"].append({"Glossary": "docs/glossary.md"})
    settings["nav"].append({"Project": list(BESIDE[1:])})
    titles = {DBT: "Tables and lineage (dbt)", REPORT: "State of the warehouse"}
    settings["nav"] += [{titles[name]: name} for name in extra]
    settings["docs_dir"], settings["site_dir"] = str(target / PAGES), str(target / SITE)
    return settings


def build_site(root: Path, target: Path, extra: dict[str, Path]) -> Path:
    """Build the site; its first page.

    Args:
        extra: DBT or REPORT -> the file.

    Raises:
        DocsError: a link leads nowhere.
    """
    # mkdocs-material's warnings of what another major version will need
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, ConfigurationError

    stage_pages(root, target / PAGES, extra)
    file = target / "mkdocs.yml"
    file.write_text(yaml.safe_dump(site_settings(root, target, extra)), encoding="utf-8")
    try:
        build(load_config(str(file)))
    except (Abort, ConfigurationError) as exc:
        raise DocsError(f"The site couldn't be built: {exc}") from None
    return target / SITE / "index.html"  # mkdocs' name for README.md


def without_unit_tests(manifest: dict[str, Any]) -> dict[str, Any]:
    """dbt's manifest for its docs: a lineage picture without unit tests, which read nothing of the
    warehouse."""
    units = set(manifest["unit_tests"])

    def kept(names: dict[str, list[str]]) -> dict[str, list[str]]:
        return {
            name: [other for other in others if other not in units]
            for name, others in names.items()
            if name not in units
        }

    maps = {name: kept(manifest[name]) for name in ("parent_map", "child_map")}
    return {**manifest, "unit_tests": {}, **maps}


def write_dbt_docs(target: Path) -> Path:
    """dbt's docs as one page, of the manifest and the catalog in the target folder; as
    `dbt docs generate --static` makes it, but for unit tests."""
    manifest = json.loads((target / "manifest.json").read_text(encoding="utf-8"))
    page = Path(DOCS_INDEX_FILE_PATH).read_text(encoding="utf-8")
    texts = {
        '"MANIFEST.JSON INLINE DATA"': json.dumps(without_unit_tests(manifest)),
        '"CATALOG.JSON INLINE DATA"': (target / "catalog.json").read_text(encoding="utf-8"),
    }
    for place, text in texts.items():
        # a text of a comment can't end the script
        page = page.replace(place, text.replace("</", "<\\/"))
    file = target / "static_index.html"
    file.write_text(page, encoding="utf-8")
    return file


def main() -> int:
    """Build dbt's docs and the site, and print where they are."""
    target = Path(os.environ.get("DBT_TARGET_PATH", ROOT / "target")).resolve()
    if not dbtRunner().invoke(["docs", "generate"]).success:
        return 1
    extra = {DBT: write_dbt_docs(target)}
    if (target / REPORT).is_file():
        extra[REPORT] = target / REPORT
    try:
        first = build_site(ROOT, target, extra)
    except DocsError as exc:
        print(exc, file=sys.stderr)
        return 1
    print(f"\nThe site with the pages, dbt's docs and the report: {first} (open it in a browser).")
    print(f"dbt's docs alone: {extra[DBT]}")
    if REPORT not in extra:
        print("It has no report yet: `make report`, then `make docs`.")
    serve = f".venv/bin/python -m http.server --bind 127.0.0.1 -d {first.parent}"
    print(f"Its search needs a server: {serve}")
    return 0
