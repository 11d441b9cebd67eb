"""Full loads, TRUNCATE, DROP and RENAME: the table that comes of them is the server's own.

Random histories are delivered in random order and batches. After each batch the rows that the
model has added so far must sum up to those of a rebuild, per day, and at the end to what the
server itself holds.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from python_udfs.ingestion.formats.ddl import moves, table_op
from python_udfs.ingestion.landing.files import LIVE
from tests.support.table_histories import Server
from tests.support.typed_model import Model, as_texts, collection_event, of_server, seeds

AB = (("shop", "a"), ("shop", "b"))


def rebuilt(model: Model) -> Model:
    fresh = Model(model.spark, model.format, model.meta["source"]["primary_key"])
    fresh.take_all(model.messages)
    return fresh


def deliver(model: Model, messages: list[tuple[int, str]], rng: random.Random, parts: int) -> None:
    """Take the messages in random batches; of each batch some come later, some twice. In the end,
    and now and then before, the rows are held against a rebuild."""
    left = list(messages)
    late: list[tuple[int, str]] = []
    size = max(1, len(left) // parts)
    compared = 0
    while left or late:
        batch, left = left[:size], left[size:]
        batch += late
        late = [item for item in batch if left and rng.random() < 0.1]
        batch = [item for item in batch if item not in late]
        if batch:
            model.take(dict(batch))
            if not (left or late) or rng.random() < 0.3:
                assert model.sums() == rebuilt(model).sums()
                compared += len(model.sums())
    print(f"{compared} daily rows compared with a rebuild")


@pytest.mark.parametrize("seed", seeds(0))
def test_truncates_and_swaps_through_canal(spark: SparkSession, seed: int) -> None:
    print(f"seed {seed}")
    server = Server(seed, "canal")
    server.run(70)
    model = Model(spark, "canal", ["id"])
    deliver(model, list(enumerate(server.lines)), random.Random(seed), parts=2)

    assert as_texts(model.held()) == of_server(server)
    assert sum(of_server(server).values()) == len(model.latest())
    assert set(model.latest().values()) == set(model.held())
    keys = [row.unique_key for row in model.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("seed", seeds(0))
def test_a_table_without_key_through_canal(spark: SparkSession, seed: int) -> None:
    print(f"seed {seed}")
    server = Server(seed, "canal", keyless=True)
    server.run(70)
    model = Model(spark, "canal", [])
    deliver(model, list(enumerate(server.lines)), random.Random(seed), parts=3)

    assert as_texts(model.held()) == of_server(server)
    keys = [row.unique_key for row in model.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", seeds(1))
def test_full_loads_in_mid_stream_through_maxwell(spark: SparkSession, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    server = Server(seed, "maxwell")
    server.fill_before_log(8)
    loads: list[tuple[int, list[str]]] = []
    for steps in (rng.randrange(40), rng.randrange(60)):
        server.run(steps, table_events=False)
        loads.append((len(server.lines), server.load()))
        server.time += rng.choice((60, 2 * 3600))
    server.run(60, table_events=bool(seed % 2))
    # the loads' rows come out somewhere near where they were read
    stream = list(server.lines)
    for number, (place, messages) in enumerate(reversed(loads)):
        if number == 0 or rng.random() < 0.5:
            place = max(0, place + rng.choice((-15, 0, 0, 15)))
            stream[place:place] = messages
    model = Model(spark, "maxwell", ["id"])
    deliver(model, list(enumerate(stream)), rng, parts=2)

    assert as_texts(model.held()) == of_server(server)
    assert set(model.latest().values()) == set(model.held())
    keys = [row.unique_key for row in model.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("seed", seeds(0))
def test_corrections_of_what_a_load_and_a_drop_followed_from(
    spark: SparkSession, seed: int
) -> None:
    """A corrected change may have another row before the log, and leave another row to a drop."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    server = Server(seed, "maxwell")
    server.fill_before_log(8)
    server.run(20, table_events=False)
    load = server.load()
    server.run(40)
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate([*server.lines, *load])))

    rows = [line for line in server.lines if json.loads(line)["type"] in ("insert", "update")]
    again = [corrected(line, rng) for line in rng.sample(rows, 12)]
    model.take(dict(enumerate(again)), batch="again")

    assert model.replaces
    assert model.sums() == rebuilt(model).sums()
    keys = [row.unique_key for row in model.rows]
    assert len(keys) == len(set(keys))


def corrected(line: str, rng: random.Random) -> str:
    """The message, saying something else of its row after the change or before it."""
    message = json.loads(line, parse_float=str)
    image = rng.choice([message["data"], message.get("old") or message["data"]])
    image[rng.choice(("state", "amount"))] = str(rng.randrange(1, 9))
    if rng.random() < 0.2:
        message["data"]["id"] += 100
    return json.dumps(message)


@pytest.mark.soak
def test_changes_of_before_a_rename_may_come_behind_it(spark: SparkSession) -> None:
    """What the RENAME filled the table with is no full load, whose rows are older than the log."""
    server = Server(3, "maxwell")
    server.run(20, table_events=False)
    late = len(server.lines)
    server.tables["o_new"] = []
    server.tell_ddl("create table o_new(id int)", [("create", "o_new", None)])
    for _ in range(30):
        server.change("o_new")
    server.swap()
    server.run(10, table_events=False)
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate(server.lines[late:], start=late)))
    model.take(dict(enumerate(server.lines[:late])))

    assert {row.metadata_op_type for row in model.rows} >= {"insert", "rename"}
    assert [row for row in model.rows if row.binlog_file_number < 0] == []
    assert model.sums() == rebuilt(model).sums()
    assert as_texts(model.held()) == of_server(server)


def test_nothing_is_derived_where_the_log_has_only_rows(spark: SparkSession) -> None:
    server = Server(5, "maxwell")
    server.run(30, table_events=False)
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate(server.lines[:20])))
    model.take(dict(enumerate(server.lines[20:], start=20)))

    assert {row.metadata_op_type for row in model.rows} <= {"insert", "update", "delete"}
    assert as_texts(model.held()) == of_server(server)


def canal(kind: str, *ids: int, old: list[dict] | None = None, amount: str = "1.5") -> str:
    """A message of rows with these keys, of which the last has this amount."""
    amounts = ["1.5"] * (len(ids) - 1) + [amount]
    rows = [
        {"id": str(key), "state": "new", "amount": amount}
        for key, amount in zip(ids, amounts, strict=True)
    ]
    head = {"database": "shop", "table": "o", "type": kind, "es": 1772416800000, "isDdl": False}
    return json.dumps(head | {"data": rows, "old": old})


@pytest.mark.in_turn
@pytest.mark.parametrize("together", [pytest.param(False, marks=pytest.mark.soak), True])
def test_messages_of_which_a_row_was_refused_are_corrected_by_a_batch(
    spark: SparkSession, together: bool
) -> None:
    """Their other rows are there: they don't come twice, nor keep the corrected rows out."""
    # the last row is refused, and the first one
    right = {5: canal("INSERT", 1, 2), 6: canal("INSERT", 3, 4)}
    wrong = {offset: json.loads(text) for offset, text in right.items()}
    wrong[5]["data"][1]["amount"] = wrong[6]["data"][0]["amount"] = "much"
    live = {offset: json.dumps(item) for offset, item in wrong.items()}
    model = Model(spark, "canal", ["id"])
    if together:
        model.take_all({LIVE: live, "again": right})
    else:
        model.take(live)
        model.take(right, "again")

    good = [row.id for row in model.rows if row.reject_reason is None]
    assert sorted(good) == [1, 2, 3, 4]
    keys = [row.unique_key for row in model.rows]
    assert len(set(keys)) == len(keys) == 6


@pytest.mark.soak
def test_rows_that_change_must_come_by_one_partition_of_canal(spark: SparkSession) -> None:
    """Canal has no position: which of two rows of a key is the newer row can't be known."""

    def take(model: Model, messages: dict[int, str]) -> None:
        """Each message by a partition of its own."""
        file = F.concat(F.lit("t/"), "message_offset")
        new = model.binlog({LIVE: messages}).withColumn("binlog_file", file)
        model.take_frame(new, {LIVE: messages})

    inserts = {0: canal("INSERT", 1), 1: canal("INSERT", 2)}
    update = {2: canal("UPDATE", 1, old=[{"amount": "1"}])}
    keyed = Model(spark, "canal", ["id"])
    take(keyed, inserts)
    with pytest.raises(ValueError, match=r"shop\.o: rows by t/0, t/1, t/2\. canal has no binlog"):
        take(keyed, update)
    # without a key rows are counted
    take(Model(spark, "canal", []), inserts | update)


SWAP = "rename table o to o_old, o_new to o"


def statement(sql: str, table: str, kind: str) -> str:
    """A statement as Canal writes it."""
    head = {"database": "shop", "table": table, "type": kind, "isDdl": True, "sql": sql}
    return json.dumps(head | {"es": 1772416900000, "data": None, "old": None})


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_statement_that_came_by_another_partition_than_the_rows_is_refused_alone(
    spark: SparkSession, together: bool
) -> None:
    """One message of that kind must not stop every run to come."""
    messages = {
        0: canal("INSERT", 1),
        1: statement("truncate table o", "o", "TRUNCATE"),
        2: canal("INSERT", 2),
    }

    def take(model: Model, *offsets: int) -> None:
        some = {offset: messages[offset] for offset in offsets}
        file = F.when(F.col("op") == "truncate", "t/1").otherwise("t/0")
        model.take_frame(model.binlog({LIVE: some}).withColumn("binlog_file", file), {LIVE: some})

    model = Model(spark, "canal", ["id"])
    for offsets in [(0, 1, 2)] if together else [(0,), (1,), (2,)]:
        take(model, *offsets)

    [refused] = [row for row in model.rows if row.reject_reason]
    assert (refused.op_type, refused.message_offset) == ("truncate", 1)
    assert "a truncate that came by t/1, the table's rows by t/0" in refused.reject_reason
    model.rows.remove(refused)
    assert sorted(key for key, *_ in model.held()) == [1, 2]


@pytest.mark.soak
def test_a_rename_whose_rows_the_log_lacks_is_reported(spark: SparkSession) -> None:
    """What the table had is gone, what it has since isn't known: that is refused with its reason.
    A full load brings it, and a row that a change brings too counts once."""
    head = {"database": "shop", "table": "o", "ts": 1772416800, "xid": 1, "commit": True}
    row = {"id": 1, "state": "new", "amount": 1.5}
    changed = row | {"id": 7, "amount": 2.5}
    insert = head | {"type": "insert", "position": "bin.000003:100", "data": row}
    update = head | {"type": "update", "position": "bin.000003:950", "ts": head["ts"] + 10}
    update |= {"data": changed, "old": {"amount": 1}}
    rename = {"type": "table-alter", "ts": 1772416800000, "sql": SWAP, "position": "bin.000003:900"}
    tables = [{"database": "shop", "table": name} for name in ("o", "o_old", "o_new")]
    swap = [
        rename | {"old": tables[old], "def": tables[new], "table": tables[old]["table"]}
        for old, new in ((0, 1), (2, 0))
    ]
    swap = [item | {"database": "shop"} for item in swap]
    load = {"database": "shop", "table": "o", "type": "bootstrap-insert", "ts": head["ts"] + 7200}
    loads = [load | {"data": item} for item in (changed, row | {"id": 8})]
    model = Model(spark, "maxwell", ["id"])
    model.take(dict(enumerate(map(json.dumps, [insert, *swap, update]))))

    [refused] = [row for row in model.rows if row.reject_reason]
    assert (refused.op_type, refused.message_offset) == ("rename", 2)
    assert "the rows that shop.o got from shop.o_new aren't all known" in refused.reject_reason
    assert json.loads(refused.reject_payload) == swap[1]
    model.rows.remove(refused)
    assert 1 not in {key for key, *_ in model.held()}

    model.take(dict(enumerate(map(json.dumps, loads), start=4)))
    assert {(key, f"{amount}"): n for (key, _, amount), n in model.held().items()} == {
        (7, "2.50"): 1,
        (8, "1.50"): 1,
    }


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("before", "is_reported"),
    [
        ([("create table `o_new` like o", "o_new", "CREATE")], True),
        ([("truncate o_new", "o_new", "TRUNCATE")], True),
        ([("create temporary table o_new (id int)", "o_new", "QUERY")], False),
        (
            [
                ("create table o_new (id int)", "o_new", "CREATE"),
                ("alter table o_new drop partition p1", "o_new", "ALTER"),
            ],
            False,
        ),
    ],
)
def test_rows_that_a_rename_brings_are_known_from_an_empty_table_on(
    spark: SparkSession, before: list[tuple[str, str, str]], is_reported: bool
) -> None:
    model = Model(spark, "canal", ["id"])
    model.take(dict(enumerate(statement(*row) for row in [*before, (SWAP, "o", "RENAME")])))

    assert [row.op_type for row in model.rows] == ([] if is_reported else ["rename"])


def collection_events() -> list[str]:
    """Documents with and without pre-images, a drop, another that the name gets, a rename away."""

    def document(i: int, kind: str, key: int, state: str | None, was: str | None = None) -> str:
        reported: dict[str, Any] = {"documentKey": {"_id": key}}
        if kind == "update":
            reported["updateDescription"] = {"updatedFields": {"state": state}, "removedFields": []}
        elif state is not None:
            reported["fullDocument"] = {"_id": key, "state": state, "amount": 1.5}
        if was is not None:
            reported["fullDocumentBeforeChange"] = {"_id": key, "state": was, "amount": 1.5}
        return collection_event(i, kind, **reported)

    return [
        document(0, "insert", 1, "new"),
        document(1, "insert", 2, "new"),
        document(2, "insert", 3, "new"),
        document(3, "insert", 4, "new"),
        document(4, "update", 2, "paid"),
        document(5, "update", 3, "paid", was="new"),
        document(6, "delete", 4, None),
        collection_event(7, "drop"),
        document(8, "insert", 1, "again"),
        document(9, "insert", 5, "new"),
        document(10, "delete", 5, None, was="new"),
        collection_event(11, "rename", to={"db": "shop", "coll": "o_old"}),
        collection_event(12, "drop", ns={"db": "shop", "coll": "O"}),
        document(13, "insert", 6, "new"),
        collection_event(14, "invalidate"),
    ]


def taken_away(model: Model) -> Counter:
    """What events deleted, less what was taken back of it: (position, key, row or None)."""
    found: Counter = Counter()
    for row in model.rows:
        if row.metadata_op_type in ("drop", "rename"):
            whole, deletes = row.known_columns is None, row.op_type == "delete"
            image = (row.before if deletes else row).state if whole else None
            assert whole or (row.before is None and row.known_columns == [])
            found[row.binlog_position, row.id, image] += 1 if deletes else -1
    assert all(row.reject_reason is None for row in model.rows)
    return Counter({item: n for item, n in found.items() if n})


def of_mongodb(spark: SparkSession) -> Model:
    model = Model(spark, "mongodb", ["id"])
    model.meta["source"]["aliases"] = {"id": "_id"}
    return model


@pytest.mark.soak
def test_a_dropped_or_renamed_collection_loses_its_documents(spark: SparkSession) -> None:
    messages = list(enumerate(collection_events()))
    drop, rename = ((1772416800 + i) * 2**31 + 1 for i in (7, 11))
    expected = {
        (drop, 1, "new"): 1,
        (drop, 2, None): 1,  # an update held a part of it
        (drop, 3, "paid"): 1,
        (rename, 1, "again"): 1,
    }
    seed = random.randrange(1000)
    print(f"seed {seed}")
    random.Random(seed).shuffle(messages)
    for order in (collection_events(), None):
        model = of_mongodb(spark)
        parts = [dict(enumerate(order))] if order else [dict(messages[n::3]) for n in range(3)]
        for part in parts:
            model.take(part)
        assert taken_away(model) == expected
        newest: dict[int, Any] = {}
        for row in model.rows:
            place = row.binlog_position, row.row_number
            newest[row.id] = max(newest.get(row.id, ((0, 0), "")), (place, row.op_type))
        assert {key for key, (_, op) in newest.items() if op != "delete"} == {6}


def test_what_a_collection_got_by_a_rename_is_refused(spark: SparkSession) -> None:
    to = {"db": "shop", "coll": "o"}
    renamed = collection_event(20, "rename", ns={"db": "shop", "coll": "p"}, to=to)
    model = of_mongodb(spark)
    model.take(dict(enumerate([collection_events()[0], renamed])))

    [refused] = [row for row in model.rows if row.reject_reason]
    assert "the rows that shop.o got from shop.p aren't known" in refused.reject_reason
    assert json.loads(refused.reject_payload) == json.loads(renamed)
    model.rows.remove(refused)
    assert [key for _, key, _ in taken_away(model)] == [1]


@pytest.mark.in_turn
def test_statements_that_cannot_be_taken_are_refused(spark: SparkSession) -> None:
    reasons = {
        statement("alter table o truncate partition p1", "o", "ALTER"): (
            "ALTER TABLE .. TRUNCATE PARTITION: the rows in the table since then aren't in the log"
        ),
        statement("rename table o", "o", "RENAME"): "`to` was expected",
        statement("alter table p exchange partition q with table o", "p", "ALTER"): "EXCHANGE PART",
        statement("truncate table O", "O", "TRUNCATE"): "a statement on shop.O",
        statement("alter table p drop partition p1", "p", "ALTER"): None,
        statement("alter table o drop column a", "o", "ALTER"): None,
    }
    model = Model(spark, "canal", ["id"])
    for _ in range(2):  # read again, they aren't refused again
        model.take(dict(enumerate(reasons)))

    reported = {row.reject_payload: row.reject_reason for row in model.rows}
    expected = {payload: reason for payload, reason in reasons.items() if reason}
    assert len(model.rows) == len(expected)
    assert reported.keys() == expected.keys()
    assert [
        reported[payload] for payload, reason in expected.items() if reason not in reported[payload]
    ] == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("truncate table coupon", [(("shop", "coupon"), None)]),
        ("TRUNCATE `a``b`.c", [(("a`b", "c"), None)]),
        ("/* x */ drop table if exists a, `d`.b -- c", [(("shop", "a"), None), (("d", "b"), None)]),
        ("DROP TABLE `pp_old` /* generated by server */", [(("shop", "pp_old"), None)]),
        ("drop database if exists old_shop", [(("old_shop", "*"), None)]),
        ("drop temporary table t", []),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", []),
        ("drop tables a wait 5", [(("shop", "a"), None)]),
        ("create or replace table a (b int)", [(("shop", "a"), None)]),
        ("create /*M! or replace */ table a (b int)", [(("shop", "a"), None)]),
        ("create or replace view a as select 1", []),
        ("create or replace temporary table a (b int)", []),
        ("rename table if exists a to b", [(("shop", "a"), ("shop", "b"))]),
        ("RENAME TABLE a WAIT 5 TO b, c nowait to d", [AB, (("shop", "c"), ("shop", "d"))]),
        ("alter table if exists a rename to b", [AB]),
        ("alter online table a wait 5 rename b", [AB]),
        ("alter table a truncate partition all", [(("shop", "a"), None)]),
        ("alter table a drop column `partition`, rename to b", [AB]),
        ("alter table a convert to character set utf8", []),
        ("drop index i on t", []),
        (
            "rename table a to b, x.c to a",
            [(("shop", "a"), ("shop", "b")), (("x", "c"), ("shop", "a"))],
        ),
        ("alter table a rename to b", [(("shop", "a"), ("shop", "b"))]),
        ("alter table a add c int default (1), rename as d.b", [(("shop", "a"), ("d", "b"))]),
        ("alter table a rename column x to y", []),
        ("alter table a rename index x to y, rename b", [(("shop", "a"), ("shop", "b"))]),
        ("alter table a comment 'rename to b', add d int", []),
        ("create table rename_to (a int)", []),
        ("rename user a to b", []),
        ("", []),
    ],
)
def test_what_a_statement_moves(sql: str, found: list) -> None:
    assert moves(sql, "shop") == found


def test_no_statement_that_moves_rows_is_taken_for_another(spark: SparkSession) -> None:
    """Spark looks at them first: those of the test above that move anything, it has to find."""
    cases = test_what_a_statement_moves.pytestmark[0].args[1]
    rows = spark.createDataFrame(enumerate(case[0] for case in cases), "place int, sql string")
    found = {row.place: row.op for row in rows.withColumn("op", table_op(F.col("sql"))).collect()}

    missed = [sql for place, (sql, moved) in enumerate(cases) if moved and found[place] is None]
    print(f"{len(cases)} statements")
    assert missed == []
    assert found[cases.index(("drop index i on t", []))] is None
