"""Tables that the adapter keeps for itself: of the lease, of the versions, of what is published. No
node is built in their place, and no statement of a hook, an operation or a model writes to them."""

from __future__ import annotations

import re

from dbt.adapters.sparksession.reading.hook_writes import table_called
from dbt.adapters.sparksession.sql_texts import QUOTED, without_comments
from dbt.adapters.sparksession.versions.held_lease import LEASE_TABLE
from dbt.adapters.sparksession.versions.publication_records import RECORD_TABLE
from dbt.adapters.sparksession.versions.store import CANDIDATE_TABLE, VERSION_TABLE
from dbt_common.exceptions import DbtRuntimeError

OWN_TABLES = frozenset({LEASE_TABLE, VERSION_TABLE, CANDIDATE_TABLE, RECORD_TABLE})
# where a statement names the table that it writes to, makes or drops
WRITES = re.compile(
    QUOTED + r"|\b(?:insert\s++(?:into|overwrite)(?:\s++table)?+|delete\s++from|update"
    r"|merge\s++(?:with\s++schema\s++evolution\s++)?+into|truncate\s++table|alter\s++table"
    r"|drop\s++table(?:\s++if\s++exists)?+|replace\s++table"
    r"|create\s++(?:external\s++)?+table(?:\s++if\s++not\s++exists)?+)"
    r"\s++(?P<name>(?:(?:`[^`]*+`|\w++)\s*+\.\s*+)*+(?:`[^`]*+`|\w++))",
    re.IGNORECASE | re.DOTALL,
)


def check_own_tables(sql: str, schema: str) -> None:
    """Refuse a statement that writes to a table of the adapter's own.

    Args:
        schema: that these tables lie in.

    Raises:
        DbtRuntimeError: it does.
    """
    asked = sql.lower()
    if not any(name in asked for name in OWN_TABLES):
        return
    text = without_comments(sql)
    written = [found["name"] for found in WRITES.finditer(text) if found["name"]]
    written += [".".join(name) for name in table_called(text)]
    for name in written:
        parts = [part.strip().strip("`").lower() for part in name.split(".")]
        if parts[-1] in OWN_TABLES and parts[-2:-1] in ([], [schema.lower()]):
            raise DbtRuntimeError(
                f"A statement writes to {schema}.{parts[-1]}, a table that the adapter keeps for "
                "itself, by which versions and what stores hold would be lost: take it out; dbt "
                "run-operation expire_versions, roll_back, drop_candidate and publish_to change "
                "what it holds."
            )
