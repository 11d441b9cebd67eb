"""Arguments, flags and vars that a careless user gives to dbt's commands."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.operators.small_log import models_of
from tests.operators.user import User


def selection(user: User, random: Random) -> list[str]:
    """Arguments that choose nodes, now and then none."""
    names = [*models_of(user.project), "statuses", "status_versions"]
    forms = ("{}", "+{}", "{}+", "+{}+", "@{}", "1+{}", "{}+1", "{},config.materialized:folded")
    others = [
        "state:modified", "state:modified+", "state:new", "path:models/dws", "tag:nothing",
        "resource_type:model", "config.materialized:incremental", "test_type:generic",
        "result:error",
    ]  # fmt: skip

    def draw() -> str:
        if random.random() < 0.2:
            return random.choice(others)
        return random.choice(forms).format(random.choice(names))

    args: list[str] = []
    if random.random() < 0.85:
        args += ["--select", *(draw() for _ in range(random.choice((1, 1, 2))))]
    if random.random() < 0.2:
        args += ["--exclude", draw()]
    if any(word.startswith(("state:", "result:")) for word in args):
        args += ["--state", str(user.state)]
    return args


def flags(user: User, random: Random, command: str) -> list[str]:
    """Flags of a command, mostly few."""
    options = [
        ["--fail-fast"], ["--threads", "1"], ["--threads", "16"], ["--no-partial-parse"],
        ["--warn-error"], ["--write-json"], ["--no-populate-cache"], ["--cache-selected-only"],
        ["--defer", "--state", str(user.state)], ["--no-introspect"], ["--log-level", "debug"],
        ["--defer", "--favor-state", "--state", str(user.state)], ["--target", "nowhere"],
    ]  # fmt: skip
    if command in ("run", "build"):
        options += [["--full-refresh"]] * 2
        options += [["--empty"]] * 2
        options += [
            ["--sample", "3 days"],
            ["--sample", "{'start': '2018-03-01', 'end': '2018-04-01'}"],
        ]
        options += [
            ["--event-time-start", "2018-03-01", "--event-time-end", "2018-03-09"],
            ["--event-time-start", "2026-01-01", "--event-time-end", "2026-04-01"],
        ]
    if command in ("build", "test"):
        options += [["--store-failures"], ["--indirect-selection", "cautious"]]
        options += [["--indirect-selection", "empty"]]
    if command == "build":
        options += [["--resource-type", "model"], ["--exclude-resource-type", "test"]]
        options += [["--resource-type", "test"], ["--exclude-resource-type", "seed"]]
    chosen: list[str] = []
    for option in random.sample(options, random.choice((0, 0, 0, 1, 1, 2))):
        if option[0] not in chosen:
            chosen += option
    return chosen


def some_vars(random: Random, command: str) -> dict[str, Any]:
    """Vars of a single command, mostly none."""
    options = [
        {"business_zone": "Europe/Oslo"}, {"cut_time_max_ahead_hours": 0}, {"batches": ["fix"]},
        {"batches": ["fix", "live"]}, {"open_window_days": 1}, {"publish_versions": False},
        {"hold_back": True}, {"merge_runs": True}, {"test_again": True}, {"reject_threshold": 1},
        {"compensate_days": ["2018-03-01"], "compensate_request": "x"}, {"as_of_version": 1},
        {"shop_format": "canal"}, {"shop_topics": ["other*"]}, {"topic_formats": {"*": "canal"}},
        {"rebuild": {"from": "2018-03-01 00:00:00", "to": "2018-03-05 00:00:00"}},
        {"no_such_var": 1}, {"topic_formats": {}}, {"batches": []}, {"batches": ["nowhere"]},
        {"merge_runs": "no"}, {"reject_threshold": "many"}, {"open_window_days": "three"},
        {"business_zone": "Mars"},
    ]  # fmt: skip
    if random.random() < 0.75:
        return {}
    return random.choice(options)
