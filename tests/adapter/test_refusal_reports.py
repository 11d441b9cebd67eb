"""What a run states of refused messages, its own and those of earlier runs: which, and in order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest

from tests.support.dbt_project import REPO, DbtProject, Outcome

PLACE = ("batch_id", "topic", "partition_number", "message_offset")
LOG = {
    **{"batch_id": "string", "topic": "string", "partition_number": "int"},
    **{"message_offset": "bigint", "format": "string", "op": "string"},
    **{"database_name": "string", "table_name": "string", "event_time": "timestamp"},
    **{"payload": "string", "payload_bytes": "binary", "reject_reason": "string"},
    "cut_reason": "string",
}
TYPED = {name: LOG[name] for name in (*PLACE, "event_time", "reject_reason")}
TYPED |= {"reject_payload": "string"}
OF_SOURCE = """
    {{{{ config(materialized='incremental', incremental_strategy='append', meta={meta}) }}}}
    select *, '{{{{ invocation_id }}}}' as load_id from {{{{ new_rows(source('src', '{table}')) }}}}
"""


def typed(table: str) -> str:
    meta = {"source": {"database": "shop", "table": table, "columns": {"id": "int"}}}
    return OF_SOURCE.format(meta=meta, table=table)


COLUMNS = [f"('a', 'shop', 'a', 'c{number}', 2)" for number in (5, 2, 9, 0, 7, 3, 8, 1, 6, 4)]
COLUMNS = ["('a', 'shop', 'a', 'least', 1)", *COLUMNS, "('a', 'shop', 'a', 'most', 3)"]
FILES = {
    f"macros/quality/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((REPO / "macros/quality").glob("*.sql"))
} | {
    "dbt_project.yml": """
        name: small
        version: "1.0"
        config-version: 2
        profile: binlog_warehouse
        vars: {batches: [live], reject_threshold: 0.5, reject_least: 20}
        on-run-end: "{% do print(report_run(results) or '') %}"
    """,
    "models/sources.yml": """
        sources: [{name: src, tables: [{name: log}, {name: a}, {name: b}]}]
        models: [{name: ods_binlog, data_tests: [takes_all_columns]}]
    """,
    "models/ods_binlog.sql": OF_SOURCE.format(meta={}, table="log"),
    "models/ods_shop__a.sql": typed("a"),
    "models/ods_shop__b.sql": typed("b"),
    "models/broken.sql": """
        {{ config(materialized='table', enabled=var('breaks', false)) }}
        select raise_error('broken') as nothing
    """,
    "tests/generic/takes_all_columns.sql": f"""
        {{% test takes_all_columns(model) %}}
        {{{{ config(severity='warn') }}}}
        select * from values {", ".join(COLUMNS)}
        as t(topic, database_name, table_name, column_name, message_count)
        {{% endtest %}}
    """,
}


class Landing:
    """Messages that come to the log, and rows of typed tables."""

    def __init__(self, project: DbtProject) -> None:
        self.project = project
        self.offsets = itertools.count()
        project.query("create namespace src")
        for table, columns in {"log": LOG, "a": TYPED, "b": TYPED}.items():
            listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            project.query(f"create table src.{table} ({listed}) using iceberg")

    def land(self, table: str, *rows: dict[str, object]) -> None:
        columns = LOG if table == "log" else TYPED
        common = {"batch_id": "live", "partition_number": 0, "format": "maxwell", "op": "insert"}
        cells = []
        for row in rows:
            given = common | {"event_time": "2026-03-02 00:00:00"} | row
            texts = (repr(given[name]) if name in given else "null" for name in columns)
            typed = zip(texts, columns.values(), strict=True)
            cells.append(", ".join(f"cast({text} as {kind})" for text, kind in typed))
        self.project.query(f"insert into src.{table} values ({'), ('.join(cells)})")

    def messages(self, topic: str, *reasons: str | None) -> list[dict[str, object]]:
        """Messages at the next offsets, each refused for its reason, or good."""
        return [
            {"topic": topic, "message_offset": next(self.offsets)}
            | ({} if reason is None else {"reject_reason": reason})
            for reason in reasons
        ]


def earlier(outcome: Outcome) -> dict[str, tuple[int, int, str]]:
    """Topic -> messages that earlier runs refused, those of the reason that is named, it."""
    pattern = r"^(\d+) messages of (\w+) that earlier runs .* (\d+) of them: (.*)$"
    return {
        topic: (int(messages), int(most), reason)
        for messages, topic, most, reason in re.findall(pattern, outcome.log, re.M)
    }


@pytest.mark.in_turn
def test_the_most_frequent_come_first_and_what_was_read_again_counts_no_more(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(FILES)
    landing = Landing(project)
    others = ["odd", "late", "empty", "old", "long"]
    landing.land(
        "log",
        *landing.messages("a", None, *["no JSON"] * 3, *others, *others, None),
        *landing.messages("c", *["one = 1 to many"] * 4),
        *(row for topic in "fdbe" for row in landing.messages(topic, "x = 7 is no number")),
        # behind the RENAME: of another table, and of its own too soon
        *(
            {"topic": "load", "message_offset": 1, "op": "snapshot", "database_name": "shop"}
            | loaded
            for loaded in (
                {"table_name": "b", "event_time": "2026-03-02 09:00:00"},
                {"table_name": "a", "event_time": "2026-03-02 01:00:00"},
            )
        ),
    )
    renamed = "its rows come with a full load of shop.a"
    null = {"topic": "typed", "message_offset": 1, "reject_reason": "a is null"}
    # two rows of one message
    landing.land("a", null, null, null | {"message_offset": 2, "reject_reason": renamed})
    landing.land("b", null | {"message_offset": 3, "reject_reason": "b is null"})

    first = project.run("build")

    assert re.findall(r"^\d+ of \w: .*$", first.log, re.M) == [
        "4 of c: one = 1 to many",
        "3 of a: no JSON",
        "2 of a: empty",
    ]
    assert re.findall(r"^Topic (\w) .* none of its (\d) messages", first.log, re.M) == [
        *(("c", "4"), ("b", "1"), ("d", "1"), ("e", "1"), ("f", "1")),
    ]
    columns = re.findall(r"^Column (\w+) of shop.a stands in (\d) messages", first.log, re.M)
    assert columns == [("most", "3"), *((f"c{number}", "2") for number in range(9))]
    for part in ("21 by ods_binlog", "3 by ods_shop__a", "1 by ods_shop__b"):
        assert part in first.log, first.log
    assert "above reject_threshold" in first.log
    assert earlier(first) == {}

    # what the run itself refused is not what earlier runs did
    last = landing.messages("a", *["empty"] * 7)
    landing.land("log", *last)
    landing.land("b", null | {"message_offset": 4, "reject_reason": "b is null"})
    of_typed = {"typed": (4, 2, "a is null")}
    of_others = {"c": (4, 4, "one = 1 to many")}
    second = project.run("run")
    assert earlier(second) | of_typed | of_others == earlier(second)
    assert earlier(second)["a"] == (13, 3, "no JSON")
    assert "above reject_threshold" not in second.log

    broken = project.run("run", vars={"breaks": True}, expect_ok=False)
    assert "Nothing new has landed" not in broken.log
    assert earlier(broken)["a"] == (20, 9, "empty")

    # the first that was refused is read again, with newer messages; then the last of all
    landing.land("log", {"topic": "a", "message_offset": 1}, *landing.messages("a", None))
    assert earlier(project.run("run"))["a"] == (19, 9, "empty")
    landing.land("log", {name: last[-1][name] for name in ("topic", "message_offset")})
    assert earlier(project.run("run"))["a"] == (18, 8, "empty")
