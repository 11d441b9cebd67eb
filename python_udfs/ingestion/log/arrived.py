"""What the new messages of the log may be of: a table that none of them is of reads nothing.

Each commit of ods_binlog names the topics of the files and of the offsets that it read, and where
it added few rows, the tables that these are of. So a quiet table needs neither a query of the new
messages nor a commit of its own, which its readers would have to read in turn. It is as if its
model had not been run: the next message of it lets it read all that came since its last commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparksession.local_rows import as_local
from dbt.adapters.sparksession.session import checkpointed, is_remote, unpersist

from python_udfs.ingestion.formats.envelope import ROW_OPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# of a commit of ods_binlog: JSON list of topics; absent where they aren't known
ARRIVED_PROPERTY = "landing.arrived_topics"
# the same: JSON list of [topic, database, table] of its readable rows. Database and table are null
# of a statement, which may concern any table; absent where the rows weren't looked at
TABLES_PROPERTY = "landing.arrived_tables"
# commits of the log after which a quiet table takes note of them: what its own last commit read is
# kept, and no commit of the log behind that can expire
COMMITS_UNNOTED = 20
MOST_TABLES = 100
OF_A_TABLE = (*ROW_OPS, "snapshot")
Table = tuple[str, str]  # database, name


def note_arrived(dbt: Any, topics: Iterable[str]) -> None:
    """Let the commit of ods_binlog name the topics that its messages may be of."""
    names = sorted(set(topics))
    dbt.set_snapshot_property(ARRIVED_PROPERTY, json.dumps(names, separators=(",", ":")))


def with_tables_noted(dbt: Any, rows: DataFrame) -> DataFrame:
    """Few new rows of ods_binlog, read once; its commit names the tables that they are of.

    Rows that turn out to be many come back as they are, and the commit names no tables.
    """
    if is_remote(rows.sparkSession):
        return rows
    kept = checkpointed(rows, eager=False)
    local = as_local(kept)
    if local is None:
        return kept
    unpersist(kept)
    rows, _ = local
    readable = rows.where("reject_reason is null")
    of_tables = readable.select("topic", "database_name", "table_name", "op").collect()
    tables = {
        (topic, database, table) if op in OF_A_TABLE else (topic, None, None)
        for topic, database, table, op in of_tables
    }
    if len(tables) <= MOST_TABLES:
        named = sorted(tables, key=str)
        dbt.set_snapshot_property(TABLES_PROPERTY, json.dumps(named, separators=(",", ":")))
    return rows


def is_quiet(dbt: Any, binlog: Any, patterns: Iterable[str], tables: Iterable[Table]) -> bool:
    """Whether no new message concerns a table. Ask after dbt.new_rows(binlog).

    Args:
        dbt: the handle of the table's model.
        binlog: dbt.ref("ods_binlog").
        patterns: shell patterns of the table's topics; without any it reads all topics.
        tables: the table, and those whose rows came into it.
    """
    commits = dbt.input_properties(binlog, ARRIVED_PROPERTY, TABLES_PROPERTY)
    if not commits or len(commits) >= COMMITS_UNNOTED:
        return False
    wanted = list(patterns) or ["*"]
    names = {(database.lower(), table.lower()) for database, table in tables}
    return not any(_concerns(topics, of, wanted, names) for topics, of in commits)


def _concerns(
    topics: str | None, of_tables: str | None, patterns: Sequence[str], names: set[Table]
) -> bool:
    """Whether a commit may have a message of one of the tables.

    Args:
        topics, of_tables: the commit's ARRIVED_PROPERTY and TABLES_PROPERTY.
        patterns: of the tables' topics.
        names: the tables, in lower case.
    """

    def fits(topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in patterns)

    if topics is None or not any(fits(topic) for topic in json.loads(topics)):
        return topics is None
    if of_tables is None:
        return True
    return any(
        fits(topic) and (None in (database, table) or (database.lower(), table.lower()) in names)
        for topic, database, table in json.loads(of_tables)
    )
