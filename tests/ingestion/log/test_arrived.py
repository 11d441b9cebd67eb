"""A table whose topics had no new message reads nothing, and misses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from python_udfs.ingestion.log import arrived
from tests.support.lines import line
from tests.support.warehouse import Warehouse

NAMES = {
    "one_of_its_topics": (["maxwell*"], [["maxwell_1"]], False),
    "others_alone": (["maxwell*"], [["school"], ["mongo"]], True),
    "its_own_in_an_older_commit": (["maxwell*"], [["school"], ["maxwell"]], False),
    "a_name_that_only_begins_so": (["maxwell"], [["maxwell2"]], True),
    "one_of_several_patterns": (["a", "b*"], [["b1"]], False),
    "all_topics": ([], [["school"]], False),
    "a_commit_that_names_none": (["maxwell*"], None, False),
    "no_commit": (["maxwell*"], [], False),
    "many_commits": (["maxwell*"], [["school"]] * arrived.COMMITS_UNNOTED, False),
}


@pytest.mark.parametrize(("patterns", "commits", "quiet"), NAMES.values(), ids=NAMES)
def test_a_table_is_quiet_where_all_commits_name_other_topics(
    patterns: list[str], commits: list[list[str]] | None, quiet: bool
) -> None:
    named = None if commits is None else [json.dumps(topics) for topics in commits]
    dbt = SimpleNamespace(input_properties=lambda *_: named)
    assert arrived.is_quiet(dbt, None, patterns) is quiet


def entry(position: int, kind: str) -> bytes:
    return line(
        table='"audit_nopk"',
        position=f'"bin.000007:{position}"',
        data=f'{{"kind":"{kind}","msg":"m","at":"2026-03-02 10:00:00"}}',
    ).encode()


def test_a_quiet_table_commits_nothing_and_reads_all_that_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrived, "COMMITS_UNNOTED", 2)
    warehouse = Warehouse(tmp_path)
    other = line(database='"elsewhere"').encode()

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
    warehouse.land_lines([entry(1010, "b")], 1)
    assert kinds() == ["a", "b"]
    warehouse.land_lines([other], 1, topic="school")
    assert kinds() == ["a", "b"]
    assert commits() == first + 1
    warehouse.land_lines([other], 2, topic="school")
    assert kinds() == ["a", "b"]
    assert commits() == first + 2, "it takes note of the log's commits now and then"
