"""Where the warehouse is, and where the report and what it needs are kept."""

from __future__ import annotations

import os
from pathlib import Path

from dbt.adapters.sparksession.catalogs import scheme_of
from dbt.adapters.sparksession.connections import SparkSessionCredentials

FILE = "report.html"
KEPT = "reports"  # folder of the warehouse


def target_folder(root: Path) -> Path:
    """dbt's target folder."""
    return root / os.environ.get("DBT_TARGET_PATH", "target")


def kept_folder(settings: SparkSessionCredentials, target: Path) -> Path:
    """Where reports are kept: beside the tables, or in the target folder, if tables lie in a store.

    Args:
        settings: of the profile.
        target: dbt's target folder.
    """
    warehouse = settings.path(settings.warehouse)
    return (target if scheme_of(warehouse) else Path(warehouse)) / KEPT
