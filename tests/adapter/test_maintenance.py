"""Which snapshots may go."""

from __future__ import annotations

import random

from dbt.adapters.sparksession.iceberg.history import History, Snapshot
from dbt.adapters.sparksession.keyed.keys import key_of, keys_by_test
from dbt.adapters.sparksession.versions.retention import (
    expired_snapshots,
    needed_to_go_back,
    needed_to_read_on,
)


def history(*expected: dict[str, str], head: int | None = None) -> History:
    """Commits 1, 2, .. in a line, each saying something."""
    snapshots = {
        number: Snapshot(number, number - 1 or None, "append", {"added-records": "1"} | item)
        for number, item in enumerate(expected, start=1)
    }
    return History(head or len(expected), snapshots)


def test_the_line_back_to_what_a_reader_has_read_stays() -> None:
    assert expired_snapshots(history(*[{}] * 6), named=set(), read={4}) == [1, 2, 3]
    assert expired_snapshots(history(*[{}] * 6), named=set(), read=set()) == [1, 2, 3, 4, 5]


def test_what_a_kept_version_names_stays_without_the_line_to_it() -> None:
    assert expired_snapshots(history(*[{}] * 6), named={2}, read={5}) == [1, 3, 4]


def test_the_last_word_on_each_property_stays_and_the_commit_before_it() -> None:
    reported = [
        {"fold.level": "1"},
        {"dbt.input.a": "7"},
        {"dbt.input.a": "8"},
        {},
        {"fold.level": "2"},
    ]
    assert expired_snapshots(history(*reported), named=set(), read=set()) == [1]


def test_a_property_of_one_commit_alone_keeps_nothing() -> None:
    reported = {
        "dbt.run": "r",
        "partitions.day=1": "..",
        "asked.partitions": "d",
        "spark.app.id": "i",
    }
    rest = [{"dbt.run": "s"}] * 4
    assert expired_snapshots(history(reported, *rest), named=set(), read=set()) == [1, 2, 3, 4]
    placed = history({"source.position": "1:4"}, *rest)
    assert expired_snapshots(placed, named=set(), read=set()) == []


def test_commits_beside_the_line_go() -> None:
    assert expired_snapshots(history(*[{}] * 4, head=2), named=set(), read={1}) == [3, 4]


def test_whatever_happens_records_stay_readable() -> None:
    rng = random.Random(5)
    for _ in range(200):
        reported = [rng.choice(({}, {"dbt.input.a": "1"}, {"fold.level": "0"})) for _ in range(12)]
        whole = history(*reported)
        named, read = set(rng.sample(range(1, 13), 2)), set(rng.sample(range(1, 13), 1))
        gone = set(expired_snapshots(whole, named, read))
        assert not gone & (named | read | {whole.head})
        left = History(
            whole.head, {key: commit for key, commit in whole.snapshots.items() if key not in gone}
        )
        for key in ("dbt.input.a", "fold.level"):
            assert left.recorded(key) == whole.recorded(key)
        for first in read:
            assert left.between(first, whole.head) == whole.between(first, whole.head)


def test_a_version_that_is_kept_has_all_records_that_going_back_to_it_needs() -> None:
    rng = random.Random(6)
    for _ in range(200):
        reported = [rng.choice(({}, {"dbt.input.a": "1"}, {"fold.level": "0"})) for _ in range(12)]
        histories = {"a": history(*[{}] * 12), "b": history(*reported)}
        held = {"a": rng.randint(1, 12), "b": rng.randint(1, 12)}
        needed = {*needed_to_go_back(held, histories), *held.values()}
        whole = histories["b"].at(held["b"])
        left = {key: commit for key, commit in whole.snapshots.items() if key in needed}
        for key in ("dbt.input.a", "fold.level"):
            assert History(whole.head, left).recorded(key) == whole.recorded(key)
        if whole.recorded("dbt.input.a"):  # the line of a from what b had read
            assert {*range(1, held["a"] + 1)} <= needed
    unread = {"b": history({"dbt.input.a": "1"}, {"dbt.input.a": "2"}, {})}
    assert set(needed_to_go_back({"b": 3}, unread)) == {2, 3}


def test_rows_are_distinguished_by_the_columns_that_the_node_or_its_tests_name() -> None:
    def tested(name: str, where: str | None = None, **kwargs: object) -> dict:
        return {
            "test_metadata": {"name": name, "kwargs": kwargs},
            "attached_node": "model.counts",
            "config": {"where": where},
        }

    counts = {"resource_type": "model", "config": {}}
    nodes = [
        counts,
        tested("not_null", column_name="n"),
        tested("unique", where="n > 0", column_name="n"),
        tested("unique_combination", columns=["day", "user"]),
        tested("unique", column_name="id"),
    ]
    keys = keys_by_test(nodes)
    assert keys == {"model.counts": ["day", "user"]}
    assert key_of(counts, ["day", "user", "n"], keys["model.counts"]) == ["day", "user"]
    assert key_of(counts, ["day", "n"], keys["model.counts"]) == []
    merged = counts | {"config": {"unique_key": "id"}}
    assert key_of(merged, ["id", "day", "user"], keys["model.counts"]) == ["id"]
    assert key_of(None, ["id"]) == []


def test_what_a_reader_has_read_shows_how_it_was_then() -> None:
    """A compaction, which the reader stands at, speaks of nothing."""
    runs = history({"fold.level": "0"}, {"fold.level": "1"}, {}, {"fold.level": "0"})
    assert set(needed_to_read_on({3}, [runs])) == {2, 3}
    assert set(needed_to_read_on({4, 9}, [runs, history({}, {})])) == {4}


def test_what_a_tag_of_a_table_names_stays() -> None:
    metadata = {
        "refs": {"main": {"snapshot-id": 3}, "paid": {"snapshot-id": 1}},
        "snapshots": [
            {
                "snapshot-id": number,
                "parent-snapshot-id": number - 1,
                "summary": {"operation": "append"},
            }
            for number in (1, 2, 3)
        ],
    }
    assert expired_snapshots(History.of_metadata(metadata), named=set(), read=set()) == [2]
