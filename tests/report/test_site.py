"""The site of the pages: dead links fail it, and it asks no other host for anything."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chromium import Browser
from tests.support.dbt_project import REPO
from tools.docs import (
    BESIDE,
    DBT,
    MACROS,
    REPORT,
    DocsError,
    build_site,
    without_unit_tests,
    write_dbt_docs,
)

pytestmark = pytest.mark.process
LAYERS = ("ods", "dwd", "dws", "dqc", "meta")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    report = target / "made.html"
    report.write_text("<!doctype html><title>report</title>", encoding="utf-8")
    return build_site(REPO, target, {DBT: report, REPORT: report}).parent


def test_every_page_is_in_the_site_with_dbts_docs_and_the_report(site: Path) -> None:
    pages = {page.relative_to(REPO) for page in (REPO / "docs").rglob("*.md")}
    pages |= {Path(name) for name in BESIDE if name != "README.md"}
    assert len(pages) > 45
    missing = [page for page in pages if not (site / page.with_suffix(".html")).is_file()]
    assert missing == [Path("docs/index.md")] or missing == []
    first = (site / "index.html").read_text(encoding="utf-8")
    assert f'href="{DBT}"' in first and f'href="{REPORT}"' in first
    for kind in ("how-to/kafka", "reference/counts", "explanation/gaps", "glossary"):
        assert f'href="docs/{kind}.html"' in first


def test_the_site_has_each_macro_with_its_description_and_arguments(site: Path) -> None:
    page = html.unescape((site / MACROS).with_suffix(".html").read_text(encoding="utf-8"))
    described = 0
    for folder in ("macros", "python_udfs/sparksession_adapter"):
        for file in (REPO / folder).rglob("_macros.yml"):
            for macro in yaml.safe_load(file.read_text(encoding="utf-8"))["macros"]:
                names = [argument["name"] for argument in macro.get("arguments") or ()]
                assert f"<code>{macro['name']}({', '.join(names)})</code>" in page
                assert " ".join(macro["description"].split()[:3]).split("`")[0] in page
                described += 1
    assert described > 90


@pytest.mark.parametrize("page", ["index.html", "docs/reference/macros-in-full.html"])
def test_a_page_asks_no_other_host_and_prints_no_error(
    chromium: Browser, site: Path, page: str
) -> None:
    chromium.show_as(1280, 900)
    chromium.open((site / page).as_uri())
    assert chromium.evaluate("document.querySelectorAll('nav a').length") > 40
    assert chromium.console == [] and chromium.requests == []


def test_each_dead_link_fails_the_site(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "benchmarks").mkdir(parents=True)
    shutil.copytree(REPO / "docs", root / "docs")
    for name in (*BESIDE, "mkdocs.yml"):
        shutil.copyfile(REPO / name, root / name)
    with (root / "README.md").open("a", encoding="utf-8") as readme:
        readme.write("\n[a](docs/how-to/nowhere.md) [b](docs/reference/counts.md#nothing)\n")
    with pytest.raises(DocsError, match="2 warnings"):
        build_site(root, tmp_path, {})


def test_dbts_docs_show_no_unit_test_and_end_in_no_text(chromium: Browser, tmp_path: Path) -> None:
    manifest: dict[str, Any] = {
        "metadata": {},
        **{name: {} for name in ("nodes", "sources", "macros", "docs", "exposures", "metrics")},
        **{name: {} for name in ("groups", "selectors", "disabled", "semantic_models")},
        "unit_tests": {"unit_test.shop.a": {}},
        "parent_map": {"model.shop.a": [], "unit_test.shop.a": ["model.shop.a"]},
        "child_map": {"model.shop.a": ["unit_test.shop.a"], "unit_test.shop.a": []},
    }
    shown = without_unit_tests(manifest)
    assert shown["unit_tests"] == {}
    assert shown["parent_map"] == {"model.shop.a": []} == shown["child_map"]
    hostile = "</script><script>hostile()</script>"
    manifest["metadata"] = {"project_name": hostile}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    catalog = {"metadata": {}, "nodes": {}, "sources": {}}
    (tmp_path / "catalog.json").write_text(json.dumps(catalog), encoding="utf-8")
    chromium.open(write_dbt_docs(tmp_path).as_uri())
    assert chromium.requests == []
    assert chromium.evaluate("typeof hostile") == "undefined"
    assert not [line for line in chromium.console if "hostile" in line]


def test_each_layer_has_a_color_of_its_own_in_dbts_docs() -> None:
    project = yaml.safe_load((REPO / "dbt_project.yml").read_text(encoding="utf-8"))
    layers = project["models"]["binlog_warehouse"]
    colors = {layers[layer]["+docs"]["node_color"] for layer in LAYERS}
    assert len(colors) == len(LAYERS)


def test_every_exposure_and_group_has_an_owner() -> None:
    owners = []
    for file in (REPO / "models").rglob("*.yml"):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        for found in (*content.get("exposures", ()), *content.get("groups", ())):
            owners.append(found["owner"]["name"])
    assert len(owners) > 10 and all(owners)
