"""A table whose topics had no new message reads nothing, and misses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from python_udfs.ingestion.log import arrived
from tests.support.lines import line
from tests.support.warehouse import Warehouse

TOPIC = ["maxwell"]
ITS_OWN = ["maxwell", "shop", "orders"]
NAMES = {
    "one_of_its_topics": (["maxwell*"], [[["maxwell_1"], None]], False),
    "others_alone": (["maxwell*"], [[["school"], None], [["mongo"], None]], True),
    "its_own_in_an_older_commit": (["maxwell*"], [[["school"], None], [TOPIC, None]], False),
    "a_name_that_only_begins_so": (["maxwell"], [[["maxwell2"], None]], True),
    "one_of_several_patterns": (["a", "b*"], [[["b1"], None]], False),
    "all_topics": ([], [[["school"], None]], False),
    "a_commit_that_names_none": (["maxwell*"], [[None, None]], False),
    "no_commit": (["maxwell*"], [], False),
    "unknown_commits": (["maxwell*"], None, False),
    "many_commits": (["maxwell*"], [[["school"], None]] * arrived.COMMITS_UNNOTED, False),
    "its_rows": (TOPIC, [[TOPIC, [ITS_OWN]]], False),
    "rows_of_others": (TOPIC, [[TOPIC, [["maxwell", "shop", "users"]]]], True),
    "all_topics_rows_of_others": ([], [[TOPIC, [["maxwell", "shop", "users"]]]], True),
    "its_rows_in_an_older_commit": (TOPIC, [[TOPIC, []], [TOPIC, [ITS_OWN]]], False),
    "its_rows_in_another_topic": (TOPIC, [[[*TOPIC, "b"], [["b", "shop", "orders"]]]], True),
    "another_case": (TOPIC, [[TOPIC, [["maxwell", "Shop", "ORDERS"]]]], False),
    "a_table_whose_rows_came_into_it": (TOPIC, [[TOPIC, [["maxwell", "shop", "old"]]]], False),
    "a_statement": (TOPIC, [[TOPIC, [["maxwell", None, None]]]], False),
    "a_statement_in_another_topic": (TOPIC, [[[*TOPIC, "b"], [["b", None, None]]]], True),
    "refused_rows_alone": (TOPIC, [[TOPIC, []]], True),
}


@pytest.mark.parametrize(("patterns", "commits", "quiet"), NAMES.values(), ids=NAMES)
def test_a_table_is_quiet_where_all_commits_name_other_topics_or_tables(
    patterns: list[str], commits: list[Any] | None, quiet: bool
) -> None:
    named = None
    if commits is not None:
        named = [
            tuple(None if item is None else json.dumps(item) for item in commit)
            for commit in commits
        ]
    dbt = SimpleNamespace(input_properties=lambda *_: named)
    tables = [("shop", "orders"), ("shop", "old")]
    assert arrived.is_quiet(dbt, None, patterns, tables) is quiet


def entry(position: int, kind: str) -> bytes:
    return line(
        table='"audit_nopk"',
        position=f'"bin.000007:{position}"',
        data=f'{{"kind":"{kind}","msg":"m","at":"2026-03-02 10:00:00"}}',
    ).encode()


@pytest.mark.in_turn
def test_a_quiet_table_commits_nothing_and_reads_all_that_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrived, "COMMITS_UNNOTED", 3)
    warehouse = Warehouse(tmp_path)
    other = line(database='"elsewhere"').encode()
    of_another_table = line(table='"orders"', position='"bin.000007:1005"').encode()

    def commits() -> int:
        return warehouse.column("select count(*) from dw.ods_shop__audit_nopk.snapshots")[0]

    def kinds() -> list[str]:
        warehouse.run("run", "--select", "ods_binlog", "ods_shop__audit_nopk")
        return sorted(warehouse.column("select kind from dw.ods_shop__audit_nopk"))

    warehouse.land_lines([entry(1000, "a")], 0)
    assert kinds() == ["a"]
    first = commits()
    warehouse.land_lines([other], 0, topic="school")
    assert kinds() == ["a"]
    assert commits() == first
    warehouse.land_lines([of_another_table], 1)
    assert kinds() == ["a"]
    assert commits() == first, "its topic had a message, but of another table"
    warehouse.run("run", "--select", "ods_shop__audit_nopk", "--full-refresh")
    assert warehouse.column("select kind from dw.ods_shop__audit_nopk") == ["a"]
    assert commits() == first + 1, "rows that are asked for again are made, quiet or not"
    first = commits()
    warehouse.land_lines([entry(1010, "b")], 2)
    assert kinds() == ["a", "b"]
    for number in (1, 2):
        warehouse.land_lines([other], number, topic="school")
        assert kinds() == ["a", "b"]
        assert commits() == first + 1
    warehouse.land_lines([other], 3, topic="school")
    assert kinds() == ["a", "b"]
    assert commits() == first + 2, "it takes note of the log's commits now and then"
