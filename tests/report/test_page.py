"""The page in a real browser: it asks for nothing, draws all, and texts of the data stay texts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.report.made_up import AMOUNT, HOSTILE, context
from tests.support.chromium import Browser
from tests.support.dbt_project import REPO
from tools.report.page import html_of, libraries

SECTIONS = ("overview", "input", "correctness", "counts", "versions", "lineage")
MOST_BYTES = 5_000_000

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def bundle() -> str:
    return libraries(REPO / "target")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, bundle: str) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html_of(context(), bundle), encoding="utf-8")
    return file


def shown(chromium: Browser, page: Path, section: str) -> None:
    """Open a section and wait for its charts."""
    chromium.open(f"{page.as_uri()}#{section}")
    charts = f"[...document.querySelectorAll('#{section}-panel .chart')]"
    chromium.wait_for(f"{charts}.every(chart => chart.dataset.drawn)")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_each_section_draws_its_charts_asks_for_nothing_and_prints_no_error(
    chromium: Browser, page: Path, width: int, dark: bool
) -> None:
    chromium.show_as(width, 900, dark=dark)
    for section in SECTIONS:
        shown(chromium, page, section)
        assert chromium.console == [] and chromium.requests == [], section
        visible = "[...document.querySelectorAll('[role=tabpanel]')].filter(p => !p.hidden)"
        assert chromium.evaluate(f"{visible}.map(p => p.id)") == [f"{section}-panel"]
        # what is wider than the window scrolls within itself
        assert chromium.evaluate("document.documentElement.scrollWidth") <= width, section
        drawn = chromium.evaluate("document.querySelectorAll('.chart svg').length")
        assert (drawn > 1) is (section in ("input", "correctness", "counts")), section
    back = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


def test_a_chart_of_a_single_day_and_of_a_few_names_the_days(
    chromium: Browser, tmp_path: Path, bundle: str
) -> None:
    """Vega itself labels the first of a month by the month, and parts of a day by their hours."""
    for days, label in ((1, ["Mar 8"]), (3, ["Mar 6", "Mar 7", "Mar 8"])):
        file = tmp_path / f"{days}.html"
        file.write_text(html_of(context(days=days, texts=("shop",)), bundle), encoding="utf-8")
        shown(chromium, file, "counts")
        axis = "document.querySelector('#counts-panel .chart .role-axis-label').children"
        assert chromium.evaluate(f"[...{axis}].map(text => text.textContent)") == label
        title = "document.querySelector('#counts-panel .chart .role-axis-title').textContent"
        assert chromium.evaluate(title).startswith("business day, 2026-03-")


def test_texts_of_the_data_are_shown_as_texts(chromium: Browser, page: Path) -> None:
    chromium.show_as(1280, 900)
    shown(chromium, page, "input")
    for element in ("script[src]", "img", "b:not([data-number])", "iframe", "[onmouseover]"):
        assert chromium.evaluate(f"document.querySelectorAll({element!r}).length") == 0, element
    assert chromium.evaluate("typeof hostile") == "undefined"
    reasons = chromium.evaluate(
        "[...document.querySelectorAll('#refused tbody tr')].map(r => r.cells[2].textContent)"
    )
    assert reasons == [*HOSTILE[:-1], f"{'x' * 300} .."]
    # what a number looks like is set by its cell, not by what stands in it
    assert chromium.evaluate("document.querySelectorAll('#refused td:not([dir=auto])').length") == 0
    shown(chromium, page, "correctness")
    texts = "[...document.querySelectorAll('#problems pre')].map(query => query.textContent)"
    assert chromium.evaluate(texts)[0] == f"select '{HOSTILE[0]}'"
    shown(chromium, page, "counts")
    legends = "[...document.querySelectorAll('#counts-panel .role-legend-label text')]"
    assert HOSTILE[4] in chromium.evaluate(f"{legends}.map(label => label.textContent)")


def test_beside_each_chart_stands_a_table_with_exact_numbers(chromium: Browser, page: Path) -> None:
    shown(chromium, page, "counts")
    boxes = "[...document.querySelectorAll('#counts-panel .values')]"
    charts = chromium.evaluate("document.querySelectorAll('#counts-panel .chart').length")
    assert chromium.evaluate(f"{boxes}.length") == charts > 5
    chromium.evaluate(f"{boxes}.forEach(box => box.open = true)")
    chromium.wait_for(f"{boxes}.every(box => box.querySelector('tbody tr'))")
    cells = chromium.evaluate(
        f"{boxes}.flatMap(box => [...box.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    assert str(AMOUNT * 8) in cells  # eight days of the count, to date
    name = f"{boxes}[0].querySelector('[role=region]').getAttribute('aria-labelledby')"
    assert (
        chromium.evaluate(f"document.getElementById({name}).textContent") == "n to date, by status"
    )


def test_the_keyboard_reaches_every_tab_and_table(chromium: Browser, page: Path) -> None:
    shown(chromium, page, "overview")
    chosen = "document.querySelector('[role=tab][aria-selected=true]').dataset.name"
    chromium.evaluate("document.querySelector('[role=tab][aria-selected=true]').focus()")
    for section in (*SECTIONS[1:], SECTIONS[0]):
        chromium.press("ArrowRight")
        assert chromium.evaluate(chosen) == section
        assert chromium.evaluate("document.activeElement.dataset.name") == section
    chromium.press("End")
    assert chromium.evaluate(chosen) == "lineage"
    chromium.evaluate("document.querySelector('[data-table=totals]').focus()")
    chromium.press("Enter")
    rows = "[...document.querySelectorAll('#columns tbody td')].map(cell => cell.textContent)"
    assert chromium.evaluate(rows) == ["total", "orders.n", "", "count"]
    assert chromium.evaluate("document.activeElement.textContent") == "Columns of totals"
    unnamed = "[...document.querySelectorAll('[role=region], [role=tabpanel], table')]"
    unnamed += ".filter(e => !document.getElementById(e.getAttribute('aria-labelledby')))"
    assert chromium.evaluate(f"{unnamed}.length") == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_axe_has_nothing_against_any_section(
    chromium: Browser, page: Path, width: int, dark: bool
) -> None:
    """Contrast, names, roles, order of headings: https://github.com/dequelabs/axe-core"""
    if "AXE_CORE" not in os.environ:
        pytest.skip("AXE_CORE names no axe.min.js (npm pack axe-core)")
    axe = Path(os.environ["AXE_CORE"]).read_text(encoding="utf-8")
    found = "axe.run().then(found => found.violations.map(each => [each.id, each.nodes[0].html]))"
    chromium.show_as(width, 900, dark=dark)
    for section in SECTIONS:
        shown(chromium, page, section)
        chromium.evaluate(f"{axe}; 0")
        assert chromium.evaluate(found) == [], section
    # it would find something
    chromium.evaluate("document.querySelector('main').append(document.createElement('img'))")
    assert [name for name, _ in chromium.evaluate(found)] == ["image-alt"]


def test_each_chart_has_a_text_for_a_screen_reader(chromium: Browser, page: Path) -> None:
    shown(chromium, page, "counts")
    labels = chromium.evaluate(
        "[...document.querySelectorAll('#counts-panel .chart svg')]"
        ".map(svg => (svg.closest('[aria-label]') || svg).getAttribute('aria-label'))"
    )
    assert labels and all(labels)


def test_a_page_of_a_thousand_days_is_below_the_limit(bundle: str) -> None:
    html = html_of(context(days=1000), bundle)
    assert len(html.encode()) < MOST_BYTES
    small = html_of(context(days=1), bundle)
    assert len(small.encode()) < MOST_BYTES


def test_the_libraries_are_pinned_and_ask_for_nothing(bundle: str) -> None:
    assert 500_000 < len(bundle) < 1_500_000
    assert not re.search(r"</script|import\s*\(|importScripts|sourceMappingURL", bundle)
    lock = (REPO / "requirements.lock").read_text(encoding="utf-8")
    assert re.search(r"(?m)^vl-convert-python==.* \\\n +--hash=sha256:", lock)


WORDS = """
(where) => [...document.querySelectorAll(where)].flatMap(element => {
    const text = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), cut = [];
    while (text.nextNode()) for (const word of text.currentNode.data.matchAll(/[^\\s,_]+/g)) {
        const range = document.createRange();
        range.setStart(text.currentNode, word.index);
        range.setEnd(text.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(box => box.top));
        if (lines.size > 1) cut.push(word[0]);
    }
    return cut;
})
"""


@pytest.mark.parametrize("width", [1280, 375])
def test_no_number_of_a_card_and_no_status_is_cut_within_a_word(
    chromium: Browser, page: Path, width: int
) -> None:
    """An amount goes on in the next line after a comma only, a table's name after a `_`."""
    chromium.show_as(width, 900)
    shown(chromium, page, "counts")
    assert chromium.evaluate(f"({WORDS})('#counts-panel .card')") == []
    shown(chromium, page, "overview")
    assert chromium.evaluate(f"({WORDS})('#runs td:nth-child(3)')") == []


def test_the_chosen_tab_is_in_view_on_a_phone(chromium: Browser, page: Path) -> None:
    chromium.show_as(375, 900)
    for section in (*SECTIONS[::-1], *SECTIONS):
        shown(chromium, page, section)
        list_, tab = (
            chromium.evaluate(
                f"(box => [box.left, box.right])(document.querySelector('{of}')"
                ".getBoundingClientRect())"
            )
            for of in ("[role=tablist]", f"#tab-{section}")
        )
        assert list_[0] <= tab[0] and tab[1] <= list_[1] + 1, section
