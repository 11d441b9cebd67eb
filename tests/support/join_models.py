"""Models of joins for tests."""

from __future__ import annotations

from tests.support.dbt_project import REPO

MACROS = {
    f"macros/joins/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/joins").glob("*.sql"))
}
SMALL_TIERS = {"tier_runs": 3, "tier_rows": 50}
FOLD = {"sequence": "commit_number", "row_kind": "row_kind"} | SMALL_TIERS
