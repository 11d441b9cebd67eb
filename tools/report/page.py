"""The report as one HTML file.

All that comes from data is escaped: texts by Jinja's autoescape, what scripts read as JSON without
`<`. The page's policy allows no request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from altair.utils._importers import vl_version_for_vl_convert
from jinja2 import Environment, FileSystemLoader

from tools.report.parts import Chart, Section, cell
from tools.report.sections import Context, lineage_data, sections_of

ASSETS = Path(__file__).parent / "assets"
MOST_OF_CHARTS = 2_500_000  # characters of the charts' rows; the whole page stays below 5 MB


def html_of(context: Context, bundle: str) -> str:
    """The whole page.

    Args:
        bundle: JavaScript of vega, vega-lite and vega-embed, see `libraries`.
    """
    sections = sections_of(context)
    number_charts(sections)
    charts = [chart for section in sections for chart in section.all_charts]
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        title=f"{context.name}: state of the warehouse",
        made_at=cell(context.made_at).text,
        zone=context.zone,
        sections=sections,
        charts=script_json(
            {
                chart.id: {"spec": chart.spec, "columns": chart.columns, "rows": rows}
                for chart, rows in zip(charts, fitting(charts, MOST_OF_CHARTS), strict=True)
            }
        ),
        lineage=script_json(lineage_data(context.lineage)),
        libraries=bundle,
        css=(ASSETS / "report.css").read_text(encoding="utf-8"),
        script=(ASSETS / "report.js").read_text(encoding="utf-8"),
    )


def number_charts(sections: Sequence[Section]) -> None:
    """Give each chart an id of its own."""
    count = 0
    for section in sections:
        for charts in (section.charts, *(group.charts for group in section.groups)):
            assert isinstance(charts, list)
            for place, chart in enumerate(charts):
                count += 1
                charts[place] = replace(chart, id=f"chart-{count}")


def fitting(charts: Sequence[Chart], most: int) -> list[Sequence[Any]]:
    """The rows of each chart, of the largest only the newest so that all have at most `most`
    characters.

    >>> wide = Chart("a", "", {}, ["x"], [["2026-01-01"]] * 100)
    >>> small = Chart("b", "", {}, ["x"], [[1]])
    >>> [len(rows) for rows in fitting([wide, small], 900)]
    [50, 1]
    """
    rows = [chart.rows for chart in charts]
    sizes = [len(json.dumps(found)) for found in rows]
    while sum(sizes) > most:
        place = sizes.index(max(sizes))
        half = len(rows[place]) // 2
        rows[place] = rows[place][-half:] if charts[place].is_dated else rows[place][:half]
        sizes[place] = len(json.dumps(rows[place]))
    return rows


def script_json(value: Any) -> str:
    """JSON that can stand within a script element, whatever its texts hold.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def libraries(folder: Path) -> str:
    """JavaScript of vega, vega-lite and vega-embed, as vl-convert carries them.

    Args:
        folder: where the bundle is kept: putting it together takes seconds.
    """
    lite = vl_version_for_vl_convert()
    version = f"{vl_convert.get_vega_version()}-{lite}-{vl_convert.get_vega_embed_version()}"
    kept = folder / f"vega-{version}.js"
    if not kept.is_file():
        # within a page this would end the script
        bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", lite)
        bundle = bundle.replace("</script", "<\\/script")
        folder.mkdir(parents=True, exist_ok=True)
        half = kept.with_suffix(".part")
        half.write_text(bundle, encoding="utf-8")
        half.replace(kept)
    return kept.read_text(encoding="utf-8")
