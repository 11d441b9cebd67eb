"""Stores outside that published versions go to.

    PUBLISH_TARGETS            <name>=<kind>, comma separated; kinds: see KINDS. Without it nothing
                               is published
    PUBLISH_<NAME>_URL         where the target is, in the form of its module; not of iceberg
    PUBLISH_<NAME>_USER, PUBLISH_<NAME>_PASSWORD, PUBLISH_<NAME>_OPTIONS   see its module
    PUBLISH_<NAME>_<ANY>_FILE  a file that holds the value instead, as containers get secrets
    PUBLISH_<NAME>_TLS         verify: only an encrypted connection to a server whose certificate
                               is that of its name will do; "": as the other settings say

They are read here alone, so that no dbt file, log or compiled text has them.
"""

from __future__ import annotations

import importlib
import os
import re
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.secrets import environment
from dbt.adapters.sparksession.versions.targets import PublishError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("mysql", "postgres", "kafka", "clickhouse", "iceberg")
RECORDS_TABLE = "published_version"  # a store's table of the versions that its tables hold
ENTRY = re.compile(r"([a-z][a-z0-9_]*)=([a-z]+)")


def targets() -> dict[str, str]:
    """Name -> kind of the targets that PUBLISH_TARGETS names.

    Raises:
        PublishError: it is anything else.
    """
    given = [
        part.strip() for part in os.environ.get("PUBLISH_TARGETS", "").split(",") if part.strip()
    ]
    found = {}
    for entry in given:
        match = ENTRY.fullmatch(entry)
        if match is None or match[2] not in KINDS:
            raise PublishError(
                f"PUBLISH_TARGETS must be <name>=<kind>, comma separated, with a kind of "
                f"{', '.join(KINDS)}; got {entry!r}. Example: PUBLISH_TARGETS=serving=mysql"
            )
        found[match[1]] = match[2]
    return found


def setting(target: str, name: str, default: str | None = None) -> str:
    """The environment variable PUBLISH_<TARGET>_<NAME>.

    Raises:
        PublishError: it isn't set and has no default.
    """
    variable = f"PUBLISH_{target.upper()}_{name}"
    value = environment(variable) or default
    if value is None:
        raise PublishError(f"{variable} isn't set")
    return value


def is_tls_wanted(target: str) -> bool:
    """Whether PUBLISH_<TARGET>_TLS asks for a connection that nobody can read or answer instead.

    Raises:
        PublishError: it is anything else.
    """
    value = setting(target, "TLS", "")
    if value not in ("", "verify"):
        raise PublishError(f"PUBLISH_{target.upper()}_TLS must be verify or empty, got {value!r}")
    return value == "verify"


def open_store(session: SparkSession, target: str, warehouse: str) -> Any:
    """The target, open; see Store of the adapter's versions/targets.py.

    Args:
        warehouse: the warehouse's id: a store drops what bears it, and nothing else.

    Raises:
        PublishError: it can't be reached, or refuses.
    """
    if not hasattr(session, "_jsparkSession"):
        raise PublishError("it is published to by a Spark in this process; unset SPARK_REMOTE")
    module = importlib.import_module(f"{__name__}.{targets()[target]}")
    return module.open_store(session, target, warehouse)
