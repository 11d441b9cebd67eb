"""The profile as tools read it that start Spark without dbt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml
from dbt.adapters.sparksession.catalogs import SQLITE
from dbt.adapters.sparksession.connections import SparkSessionCredentials
from dbt.config.profile import Profile
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.exceptions import DbtRuntimeError

ROOT = Path(__file__).parents[1]
OF_DBT = ("type", "threads")  # keys of an output that dbt itself takes


def profiles_folder(root: Path, environment: Mapping[str, str]) -> Path:
    """Where profiles.yml lies.

    Args:
        root: the project.
        environment: variables, of which DBT_PROFILES_DIR may name it.
    """
    return Path(environment.get("DBT_PROFILES_DIR") or root / "profiles")


def credentials_of_profile(root: Path = ROOT) -> SparkSessionCredentials:
    """The output of the profile that the environment chooses (DBT_PROFILES_DIR, DBT_TARGET).

    Args:
        root: the project.

    Raises:
        DbtProfileError: there is no such output.
    """
    profiles = profiles_folder(root, os.environ) / "profiles.yml"
    raw = yaml.safe_load(profiles.read_text(encoding="utf-8"))
    name = yaml.safe_load((root / "dbt_project.yml").read_text(encoding="utf-8"))["profile"]
    set_invocation_context(dict(os.environ))
    _, settings = Profile.render_profile(raw[name], name, None, ProfileRenderer({}))
    credentials = SparkSessionCredentials.from_dict(
        {key: value for key, value in settings.items() if key not in OF_DBT}
    )
    credentials.project_root = str(root)  # relative paths of the profile count from the project
    return credentials


def read_only(credentials: SparkSessionCredentials) -> SparkSessionCredentials:
    """The same with a catalog file that can't be written.

    Raises:
        DbtRuntimeError: there is no warehouse to read.
    """
    folder = credentials.folder()
    if credentials.catalog_type == SQLITE and folder is not None:
        if not (Path(folder) / "catalog.db").is_file():
            raise DbtRuntimeError(
                f"{folder} holds no warehouse: `make run` builds one, WAREHOUSE names another."
            )
        key = f"spark.sql.catalog.{credentials.catalog}.uri"
        uri = f"{credentials.spark_settings()[key]}&open_mode=1"
        credentials.server_side_parameters[key] = uri
    return credentials
