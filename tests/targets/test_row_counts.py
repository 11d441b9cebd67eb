"""A version counts as published only where the target has as many rows as Spark sent."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from dbt.adapters.sparksession.versions.targets import Publication, PublishError, TableUpdate
from pyarrow import parquet

from python_udfs.targets import clickhouse, kafka, transactional
from python_udfs.targets.row_counts import check_rows

PUBLICATION = Publication("counts", "serving", "counts", "model.x.counts", ("id",))
KINDS = {"id": "bigint"}


class Frame:
    """Rows that Spark's tasks write as files: `seen` of them where this process looks."""

    def __init__(self, seen: list[int]) -> None:
        self.seen, self.write = seen, self

    def select(self, *_: Any) -> Frame:
        return self

    def selectExpr(self, *_: str) -> Frame:
        return self

    def parquet(self, place: str) -> None:
        folder = Path(place.removeprefix("file://"))
        if self.seen:
            folder.mkdir(parents=True)
        for number, rows in enumerate(self.seen):
            parquet.write_table(pa.table({"id": range(rows)}), folder / f"part-{number}.parquet")


class Server:
    """A ClickHouse that takes `staged` of the rows and attaches `loaded` of them."""

    def __init__(self, staged: int, loaded: int) -> None:
        self.staged, self.loaded = staged, loaded
        self.statements: list[str] = []

    def query(self, sql: str) -> list[list[Any]]:
        self.statements.append(sql)
        if sql.startswith("select countIf"):
            return [[self.staged, 0, 0]]
        if re.match(r"select count\(\) from .* where published_as = ", sql):
            return [[self.loaded]]
        return [[0]] if sql.startswith("select count()") else []

    def insert(self, sql: str, structure: str, file: Path) -> None:
        self.statements.append("insert")

    def close(self) -> None:
        return


def published(
    tmp_path: Path, monkeypatch: Any, sent: int, seen: list[int], staged: int, loaded: int
) -> Server:
    server = Server(staged, loaded)
    monkeypatch.setattr(clickhouse, "counted", lambda frame: (frame, lambda: sent))
    store = clickhouse.ClickhouseStore(server, tmp_path / "folder", "w")
    store.take([TableUpdate(PUBLICATION, 2, "mark", Frame(seen), True, KINDS)])
    return server


@pytest.mark.parametrize("seen", [[3, 2], [5], [5, 0]])
def test_a_version_whose_rows_are_all_there_is_held(
    tmp_path: Path, monkeypatch: Any, seen: list[int]
) -> None:
    server = published(tmp_path, monkeypatch, 5, seen, 5, 5)
    assert server.statements.count("insert") == len(seen)
    assert '"version": 2' in server.statements[-1]


@pytest.mark.parametrize(
    ("sent", "seen", "staged", "loaded", "expected"),
    [
        (5, [], 0, 0, "share"),  # the tasks' folder is another machine's
        (5, [3], 3, 3, "share"),
        (5, [5], 0, 0, "the staging table has 0"),  # the server took nothing and reported nothing
        (5, [5], 4, 4, "the staging table has 4"),
        (5, [5], 5, 0, "its table has 0"),
    ],
)
def test_rows_that_are_lost_on_the_way_to_clickhouse_are_reported(
    tmp_path: Path,
    monkeypatch: Any,
    sent: int,
    seen: list[int],
    staged: int,
    loaded: int,
    expected: str,
) -> None:
    with pytest.raises(PublishError, match="5 rows of table counts were sent") as error:
        published(tmp_path, monkeypatch, sent, seen, staged, loaded)
    assert expected in str(error.value)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_clickhouse_that_publishing_did_not_fill_is_not_emptied(
    tmp_path: Path, monkeypatch: Any, rows: int
) -> None:
    """Of just the right columns and name, with rows that published_version doesn't know."""

    class OfAnother(Server):
        def query(self, sql: str) -> list[list[Any]]:
            if "system.columns" in sql and "'counts__rows'" in sql:
                self.statements.append(sql)
                return [
                    [*column] for column in clickhouse._columns({"id": "Nullable(Int64)"}).items()
                ]
            found = super().query(sql)
            return [[1]] * rows if "limit 1" in sql else found

    monkeypatch.setattr(clickhouse, "counted", lambda frame: (frame, lambda: 5))
    monkeypatch.setattr(clickhouse, "column_types", lambda *_: {"id": "Nullable(Int64)"})
    server = OfAnother(5, 5)
    store = clickhouse.ClickhouseStore(server, tmp_path / "folder", "w")
    parts = [TableUpdate(PUBLICATION, 2, "mark", Frame([5]), True, KINDS)]
    if not rows:
        store.take(parts)
        return
    with pytest.raises(PublishError, match="it has rows, and published_version doesn't know it"):
        store.take(parts)
    changing = ("insert", "alter", "drop", "create or replace")
    assert [text for text in server.statements if text.startswith(changing)] == []


@pytest.mark.parametrize(("arrived", "is_held"), [(5, True), (6, True), (4, False), (0, False)])
def test_messages_that_do_not_arrive_in_a_topic_are_reported(
    monkeypatch: Any, arrived: int, is_held: bool
) -> None:
    store = object.__new__(kafka.KafkaStore)
    ends = iter([{"0": 10}, {"0": 10 + arrived}, {"0": 10 + arrived}])
    reported: list[dict] = []
    store._records, store._warehouse = {}, "w"
    monkeypatch.setattr(store, "_make_or_check", lambda *_: None)
    monkeypatch.setattr(store, "_topic_ids", lambda topics: dict.fromkeys(topics, "id"))
    monkeypatch.setattr(store, "_write", lambda *_: (3, 2))
    monkeypatch.setattr(store, "_ends", lambda _: next(ends))

    def say(topic: str, record: dict) -> None:
        store._records[topic] = record
        reported.append(record)

    monkeypatch.setattr(store, "_record_version", say)
    part = TableUpdate(PUBLICATION, 2, "mark", Frame([]), False, KINDS)
    if is_held:
        store.take([part])
        assert reported[-1]["version"] == 2
    else:
        with pytest.raises(PublishError, match=f"the topic has {arrived} of them"):
            store.take([part])
        assert "version" not in reported[-1]


@pytest.mark.parametrize(
    ("staged", "held", "left", "whole", "expected"),
    [
        (5, 3, 0, False, None),
        (5, 3, 0, True, None),
        (4, 3, 0, False, "rows of table counts were sent, the staging table has 4 of them"),
        (0, 0, 0, False, "rows of table counts were sent, the staging table has 0 of them"),
        # a trigger
        (5, 2, 0, False, "3 rows of table counts were sent, the table has 2 of them"),
        (5, 3, 1, False, "1 rows that had to go are still in table counts"),
        (5, 3, 1, True, "1 rows that had to go are still in table counts"),
    ],
)
def test_rows_that_a_database_does_not_take_are_reported(
    staged: int, held: int, left: int, whole: bool, expected: str | None
) -> None:
    """Of five rows three are to be there."""

    def answer(sql: str) -> list[tuple[str, ...]]:
        if " join " in sql:
            return [(str(held), "0" if whole else str(left))]
        if sql == "select count(*) from counts":
            return [(str(held + left),)]
        return [(str(staged), "3")]

    store: Any = SimpleNamespace(
        _sent={"staging__1": 5},
        _name=lambda name: name,
        _query=answer,
        _remove=lambda part, name: "delete",
        _put=lambda part, name: "insert",
        _change=lambda sql: 0,
    )
    part = TableUpdate(PUBLICATION, 2, "mark", Frame([]), whole, KINDS)
    apply = transactional.TransactionalStore._apply
    check = transactional.TransactionalStore._check_held
    store._check_held = lambda *arguments: check(store, *arguments)
    if expected is None:
        assert apply(store, part, "staging__1").written == 3
    else:
        with pytest.raises(PublishError, match=expected):
            apply(store, part, "staging__1")


def test_counts_that_agree_say_nothing() -> None:
    check_rows("t", 0, 0, "x")
