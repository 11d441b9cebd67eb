"""Tables whose commits are dated by a clock that was ahead."""

from __future__ import annotations

import json

from dbt.adapters.sparksession.iceberg.metadata import loaded, metadata
from dbt.adapters.sparksession.session import own_session

from tests.support.dbt_project import DbtProject

DAY_MS = 86_400_000


def put_ahead(project: DbtProject, table: str) -> None:
    """Date a table's commits as a clock would have that was a day ahead."""
    session = own_session(project.credentials()).session
    found = loaded(session, project.credentials().catalog, table)
    reported = metadata(session, found)
    reported["last-updated-ms"] += DAY_MS
    for name in ("snapshots", "snapshot-log", "metadata-log"):
        for entry in reported.get(name, []):
            entry["timestamp-ms"] += DAY_MS
    operations = found.operations()
    parser = session._jvm.org.apache.iceberg.TableMetadataParser
    operations.commit(operations.current(), parser.fromJson(json.dumps(reported)))
