"""RENAME of several tables: a message each, which may come in any order and in several runs.

Maxwell, which partitions by tables, sends them to several partitions.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.formats.ddl import Move, moves_beside
from python_udfs.ingestion.whole_table.segments import IN_DOUBT
from python_udfs.ingestion.whole_table.statements import Statement, events_of
from tests.support.table_histories import Server
from tests.support.typed_model import Model, as_texts, of_server

SWAP = "rename table o to o_t, `o_new` to o, o_t to o_new"
ORDERS, NEW, OLD = ("shop", "o"), ("shop", "o_new"), ("shop", "o_t")
MOVES = [(ORDERS, OLD), (NEW, ORDERS), (OLD, NEW)]


def _swapped() -> Server:
    """A server that made both tables, filled and swapped them, and went on."""
    server = Server(1, "maxwell")
    for name in ("o", "o_new"):
        server.tables[name] = []
        server.tell_ddl(f"create table {name}(id int)", [("create", name, None)])
    for _ in range(12):
        server.change("o_new")
        server.change("o")
    server.swap()
    server.change("o")
    return server


@pytest.mark.parametrize("apart", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_messages_of_a_swap_in_another_order_make_the_same_table(
    spark: SparkSession, apart: bool
) -> None:
    server = _swapped()
    lines = dict(enumerate(server.lines))
    places = [offset for offset, line in lines.items() if '"table-alter"' in line]
    model = Model(spark, "maxwell", ["id"])
    if apart:
        late = {places[0]: lines.pop(places[0])}
        model.take(lines)
        model.take(late)
    else:
        renames = [lines[offset] for offset in places]
        model.take(lines | dict(zip(places, reversed(renames), strict=True)))

    assert len(places) == 3
    assert as_texts(model.held()) == of_server(server)
    assert [row.reject_reason for row in model.rows if row.reject_reason] == []


@pytest.mark.in_turn
def test_a_full_load_of_the_other_table_may_come_behind_the_rename(spark: SparkSession) -> None:
    """The load was made before the RENAME, and its messages came late."""
    server = Server(1, "maxwell")
    server.tables["o_new"] = [(key, "new", f"{key}.50") for key in range(6)]
    head = {"database": "shop", "table": "o_new", "type": "bootstrap-insert", "ts": server.time}
    load = [json.dumps(head | {"data": server.values(row)}) for row in server.tables["o_new"]]
    for _ in range(4):
        server.time += 60
        server.change("o_new")
    server.swap()
    server.change("o")
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate(server.lines)))
    assert as_texts(model.held()) != of_server(server)
    model.take(dict(enumerate(load, start=len(server.lines))))

    assert as_texts(model.held()) == of_server(server)


@pytest.mark.in_turn
@pytest.mark.parametrize("seconds", [600, pytest.param(3 * 3600, marks=pytest.mark.soak)])
@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_full_load_behind_the_rename_is_of_the_table_that_has_the_name_then(
    spark: SparkSession, seconds: int, together: bool
) -> None:
    server = Server(1, "maxwell")
    for name, key in (("o", 1), ("o_new", 2)):
        server.tell_ddl(f"create table {name}(id int)", [("create", name, None)])
        server.tables[name] = [(key, "new", "1.50")]
        server.tell(name, "insert", None, server.tables[name][0])
    server.swap()
    lines = dict(enumerate(server.lines))
    head = {"database": "shop", "table": "o_new", "type": "bootstrap-insert"}
    head |= {"ts": server.time + seconds}
    loaded = server.tables["o_new"]
    load = [json.dumps(head | {"data": server.values(row)}) for row in loaded]
    loads = dict(enumerate(load, start=len(lines)))
    model = Model(spark, "maxwell", ["id"])
    for some in [lines | loads] if together else [lines, loads]:
        model.take(some)

    assert as_texts(model.held()) == of_server(server)


@pytest.mark.in_turn
@pytest.mark.parametrize("load_first", [False, True])
def test_a_full_load_right_behind_a_rename_of_unknown_rows_is_refused_until_one_is_made_later(
    spark: SparkSession, load_first: bool
) -> None:
    """By the clocks it may have been read before it: its rows were lost with those of before."""
    server = Server(1, "maxwell")
    server.tables["o"] = [(1, "old", "1.50")]
    server.tables["o_new"] = [(key, "new", f"{key}.50") for key in (1, 2, 3)]
    server.swap()
    server.time += 600
    early = server.load()
    server.time += 2 * 3600
    model, taken = Model(spark, "maxwell", ["id"]), 0
    for lines in (early, server.lines) if load_first else (server.lines, early):
        model.take(dict(enumerate(lines, start=taken)))
        taken += len(lines)

    reasons = Counter(row.reject_reason for row in model.rows if row.reject_reason)
    assert reasons.pop(IN_DOUBT, 0) == (0 if load_first else 3)
    assert all("aren't all known" in reason for reason in reasons)
    model.rows = [row for row in model.rows if row.reject_reason != IN_DOUBT]
    assert model.held() == {}
    model.take(dict(enumerate(server.load(), start=taken)))
    assert as_texts(model.held()) == of_server(server)


@pytest.mark.in_turn
def test_a_full_load_right_behind_a_rename_is_not_taken_for_the_rows_before_it(
    spark: SparkSession,
) -> None:
    """What has the other table's name by then may be another table: its rows became the table's."""
    server = Server(1, "maxwell")
    server.tables["o"] = [(1, "old", "1.50"), (2, "old", "2.50")]
    server.tables["o_new"] = [(3, "new", "3.50")]
    server.swap()
    head = {"database": "shop", "table": "o_new", "type": "bootstrap-insert"}
    head |= {"ts": server.time + 600}
    load = [json.dumps(head | {"data": server.values(row)}) for row in server.tables["o_new"]]
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate([*server.lines, *load])))

    (reason,) = {row.reject_reason for row in model.rows}
    assert "aren't all known: the log has neither its CREATE TABLE nor a full load of" in reason


@pytest.mark.parametrize(
    ("sql", "move", "found"),
    [
        *((SWAP, move, MOVES) for move in MOVES),
        # the database of names without one is seen, or nothing bare is left
        ("rename table shop.o to b.x, o_t to y", (OLD, ("shop", "y")), None),
        ("rename table shop.o to shop.x, shop.x to b.y", (ORDERS, ("shop", "x")), None),
        # another name's database isn't that of the bare names; the server writes names in lower
        # case; a statement that isn't read; no statement
        ("rename table shop.o to b.x, o_t to y", (ORDERS, ("b", "x")), [(ORDERS, ("b", "x"))]),
        ("rename table O to o_t, O_NEW to O", (ORDERS, OLD), [(ORDERS, OLD)]),
        ("alter table o discard tablespace", (ORDERS, OLD), [(ORDERS, OLD)]),
        ("", (ORDERS, OLD), [(ORDERS, OLD)]),
    ],
)
def test_all_moves_of_a_statement_are_known_from_each_message(
    sql: str, move: Move, found: list[Move] | None
) -> None:
    moved = moves_beside(sql, move)
    assert moved == found if found else len(moved) == 2
    assert move in moved


def test_moves_that_are_known_in_part_and_in_full_count_once() -> None:
    """As noted by a run that knew the messages' own moves alone."""

    def statement(*moves: Move) -> Statement:
        return Statement(3, 700, "bin.000003", 0, "rename", moves)

    [event] = events_of(
        [statement(MOVES[1]), statement(*MOVES), statement(MOVES[0]), statement(*MOVES)], ORDERS
    )
    assert event.filled_from == NEW
    [event] = events_of([statement(MOVES[0]), statement(MOVES[1]), statement(MOVES[2])], NEW)
    assert event.filled_from == ORDERS
