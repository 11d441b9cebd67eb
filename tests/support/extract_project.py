"""What projects that take full extracts share: the macro and the sources."""

from __future__ import annotations

from tests.support.dbt_project import REPO

MACRO = "macros/changelog/extract_changes.sql"
SOURCES = """
    sources:
      - name: src
        tables: [{name: extracts}, {name: extract_rows}, {name: changes}]
"""
MACRO_AND_SOURCES = {
    MACRO: (REPO / MACRO).read_text(encoding="utf-8"),
    "models/sources.yml": SOURCES,
}
