"""Where the warehouse is, and where the report and what it needs are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml
from dbt.adapters.sparksession.catalogs import scheme_of
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context

FILE = "report.html"
KEPT = "reports"  # folder of the warehouse


def credentials(root: Path) -> SparkSessionCredentials:
    """Settings of the project's profile."""
    profiles = profiles_folder(root, os.environ) / "profiles.yml"
    raw = yaml.safe_load(profiles.read_text(encoding="utf-8"))
    name = yaml.safe_load((root / "dbt_project.yml").read_text(encoding="utf-8"))["profile"]
    set_invocation_context(dict(os.environ))
    _, settings = Profile.render_profile(raw[name], name, None, ProfileRenderer({}))
    settings = {key: value for key, value in settings.items() if key not in ("type", "threads")}
    found = SparkSessionCredentials.from_dict(settings)
    found.project_root = str(root)  # relative paths of the profile count from the project
    return found


def profiles_folder(root: Path, environment: Mapping[str, str]) -> Path:
    """Where profiles.yml lies."""
    return root / (environment.get("DBT_PROFILES_DIR") or "profiles")


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
