"""Full loads that are made again, before and behind what empties the table: what an earlier load
knew of the days before that stays."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.support.table_histories import Server
from tests.support.typed_model import COLUMNS, Model, as_texts, of_server, seeds

HOUR = 3600


def loaded_and_emptied(by: str) -> tuple[Server, list[str]]:
    """A server whose table lost two rows that no change had named, and got one of their keys again;
    and a full load of before that."""
    server = Server(1, "maxwell")
    server.tables["o"] = [(1, "new", "1.50"), (2, "paid", "2.50")]
    load = server.load()
    server.time += 30 * HOUR
    again = (1, "again", "3.50")
    if by == "drop":
        server.tell_ddl("drop table o", [("drop", "o", None)])
        server.tell_ddl("create table o(id int)", [("create", "o", None)])
        server.time += 60
        server.tell("o", "insert", None, again)
        server.tables["o"] = [again]
    else:
        server.tell_ddl("create table o_new(id int)", [("create", "o_new", None)])
        server.tell("o_new", "insert", None, again)
        server.tables["o_new"] = [again]
        server.swap()
    return server, load


@pytest.mark.in_turn
@pytest.mark.parametrize("by", [pytest.param("drop", marks=pytest.mark.soak), "rename"])
@pytest.mark.parametrize("seconds", [600, pytest.param(6 * HOUR, marks=pytest.mark.soak)])
def test_a_later_load_leaves_what_an_earlier_load_knew_of_before(
    spark: SparkSession, by: str, seconds: int
) -> None:
    server, first = loaded_and_emptied(by)
    server.time += seconds
    second = server.load()
    lines = [*server.lines, *first]
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate(lines)))
    days = model.sums()
    found = sorted((row[0], number) for (_, row), number in days.items())
    assert found == [(1, -1), (1, 1), (1, 1), (2, -1), (2, 1)]

    model.take(dict(enumerate(second, start=len(lines))))
    assert model.sums() == days
    assert as_texts(model.held()) == of_server(server)
    fresh = Model(spark, "maxwell", ["id"])
    fresh.take(dict(enumerate([*lines, *second])))
    assert fresh.sums() == days


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", seeds(1))
def test_after_each_change_the_rows_are_the_servers_own_whatever_is_loaded_again(
    spark: SparkSession, seed: int
) -> None:
    """The first load is made before the log begins, so that all rows are known."""
    print(f"seed {seed}")
    rng, server = random.Random(seed), Server(seed, "maxwell")
    server.fill_before_log(8)
    stream, held = server.load(), {}
    for _ in range(3):
        for _ in range(20):
            before = len(server.lines)
            server.time += rng.choice((1, 60, 2 * HOUR))
            if rng.random() < 0.1:
                server.table_event()
            else:
                server.change(rng.choice(server.there()))
            stream += server.lines[before:]
            held[server.position] = of_server(server)
        server.time += 3 * HOUR  # behind what may have been read before the last of them
        stream += server.load()
    model = Model(spark, "maxwell", ["id"])
    cut = rng.randrange(len(stream))
    model.take(dict(list(enumerate(stream))[:cut]))
    model.take(dict(list(enumerate(stream))[cut:]))

    for position, expected in held.items():
        found = Counter()
        for row in model.rows:
            if (row.binlog_file_number, row.binlog_position) > (server.file, position):
                continue
            if row.op_type != "delete":
                found[tuple(row[name] for name in COLUMNS)] += 1
            if row.before is not None:
                found[tuple(row.before[name] for name in COLUMNS)] -= 1
        assert as_texts({image: n for image, n in found.items() if n}) == expected, position
    print(f"{len(held)} states compared")
