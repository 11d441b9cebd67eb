"""Topics that the new messages of the log may be of: a table whose topics had none reads nothing.

Each commit of ods_binlog names the topics of the files and of the offsets that it read. So a quiet
table needs neither a query of the new messages nor a commit of its own, which its readers would
have to read in turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

# of a commit of ods_binlog: JSON list of topics; absent where they aren't known
ARRIVED_PROPERTY = "landing.arrived_topics"
# commits of the log after which a quiet table takes note of them: what its own last commit read is
# kept, and no commit of the log behind that can expire
COMMITS_UNNOTED = 20


def note_arrived(dbt: Any, topics: Iterable[str]) -> None:
    """Let the commit of ods_binlog name the topics that its messages may be of."""
    names = sorted(set(topics))
    dbt.set_snapshot_property(ARRIVED_PROPERTY, json.dumps(names, separators=(",", ":")))


def is_quiet(dbt: Any, binlog: Any, patterns: Iterable[str]) -> bool:
    """Whether no new message can be of a table's topics. Ask after dbt.new_rows(binlog).

    Args:
        dbt: the handle of the table's model.
        binlog: dbt.ref("ods_binlog").
        patterns: shell patterns of the table's topics; without any it reads all topics.
    """
    commits = dbt.input_properties(binlog, ARRIVED_PROPERTY)
    if not commits or len(commits) >= COMMITS_UNNOTED:
        return False
    wanted = list(patterns)
    topics = {topic for commit in commits for topic in json.loads(commit)}
    return bool(wanted) and not any(
        fnmatchcase(topic, pattern) for topic in topics for pattern in wanted
    )
