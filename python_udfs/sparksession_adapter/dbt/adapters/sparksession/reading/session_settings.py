"""What a model's hooks set in the session that its query is run in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dbt.adapters.sparksession.edges import Node, Settings
from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.reading.named_values import ENV_VAR, vars_called
from dbt.adapters.sparksession.sql import mark_of
from dbt.adapters.sparksession.sql_texts import without_comments

JINJA_STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)
# statements that change how Spark answers a model's query, and no table
OF_SESSION = re.compile(
    r"\s*(?:set|reset|declare|create\s+(?:or\s+replace\s+)?(?:global\s+)?temp(?:orary)?)\b",
    re.IGNORECASE,
)


# how Spark's settings begin by which a query's answer may go
OF_ANSWERS = (
    *("spark.sql.ansi.", "spark.sql.caseSensitive", "spark.sql.decimalOperations."),
    *("spark.sql.legacy.", "spark.sql.mapKeyDedupPolicy", "spark.sql.storeAssignmentPolicy"),
)
ADAPTERS_OWN = {"spark.sql.ansi.enabled": "true"}  # as if the profile didn't have it


def profile_mark(settings: Settings) -> str:
    """A short hash of the settings of a profile that answers go by.

    >>> marks = [profile_mark({"spark.sql.ansi.enabled": text}) for text in ("true", "false")]
    >>> profile_mark({"spark.sql.shuffle.partitions": "9"}) == marks[0] != marks[1]
    True
    """
    given = {key: str(value).lower() for key, value in settings.items() if value not in ("", None)}
    kept = {key: value for key, value in given.items() if key.startswith(OF_ANSWERS)}
    return mark_of(json.dumps(sorted(kept.items() - ADAPTERS_OWN.items())))


def session_mark(node: Node, values: Settings, env: Mapping[str, str]) -> str:
    """A short hash of what a model's pre_hooks set in its session, with the vars and environment
    variables that they name: a hook is rendered when it is run.

    >>> zones = [{"config": {"pre-hook": [{"sql": f"set time zone '{zone}'"}]}} for zone in "ab"]
    >>> len({session_mark(node, {}, {}) for node in zones})
    2
    """
    hooks = [without_comments(str(hook["sql"])) for hook in node["config"].get("pre-hook") or ()]
    hooks = [hook for hook in hooks if OF_SESSION.match(JINJA_STATEMENT.sub(" ", hook))]
    named = {name: values.get(name, default) for name, default in vars_called(hooks).items()}
    asked = {found["name"] for hook in hooks for found in ENV_VAR.finditer(hook)}
    read = [named, {name: env.get(name) for name in asked}] if hooks else []
    return mark_of("\0".join([*map(sql_mark, hooks), json.dumps(read, sort_keys=True)]))
