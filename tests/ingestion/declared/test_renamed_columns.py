"""Columns that the log names otherwise than the declaration: by case, misspelled, missing."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.events.logging import AdapterLogger
from pyspark.sql import DataFrame, SparkSession

from python_udfs.ingestion import table_changes
from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.log.names import columns_without_message
from tests.support.declared_rows import canal, change, insert, states
from tests.support.lines import TS, line
from tests.support.typed_model import COLUMNS, Model, collection_event


def renamed(payload: str) -> str:
    """A message of the table after CHANGE id Id, CHANGE state STATE."""
    return payload.replace('"id":', '"Id":').replace('"state":', '"STATE":')


ALTER = line(
    type='"table-alter"',
    ts=f"{TS}000",
    position='"bin.000007:105"',
    data=None,
    sql='"alter table o change id Id int, change state STATE varchar(9)"',
    old='{"database":"shop","table":"o"}',
    **{"def": '{"database":"shop","table":"o"}'},
)


def test_columns_renamed_by_case_alone_are_the_same_columns(spark: SparkSession) -> None:
    model = Model(spark, "maxwell", ["id"])
    update = line(
        type='"update"',
        data='{"id":1,"state":"b","amount":1.00}',
        old='{"state":"a"}',
        position='"bin.000007:130"',
    )
    # back within the run: the first and the last message have the old names
    model.take({0: insert(1, 100), 1: ALTER, 2: renamed(insert(2, 110)), 3: insert(3, 120)})
    assert states(model) == {1: "a", 2: "a", 3: "a"}

    model.take({4: renamed(update)})

    last = model.rows[-1]
    assert (last.id, last.state, last.before.state) == (1, "b", "a")
    assert list(last.metadata_changes) == ["state"]
    assert spark.conf.get("spark.sql.caseSensitive") == "false"


@pytest.mark.in_turn
def test_canals_columns_renamed_by_case_alone_are_the_same_columns(spark: SparkSession) -> None:
    model = Model(spark, "canal", ["id"])
    model.meta["source"]["aliases"] = {"state": ["STATE"]}  # may be declared, and need not
    model.take({0: canal([(1, "a")])})
    model.take({1: renamed(canal([(2, "b")])).replace('"Id":', '"ID":')})

    assert states(model) == {1: "a", 2: "b"}


class MixedModel(Model):
    """A model whose full loads are Maxwell's messages, whatever the format of its log."""

    def binlog(self, batches: dict[str, dict[int, str]]) -> DataFrame:
        if self.format == "maxwell":
            return super().binlog(batches)
        is_load = "bootstrap-insert"
        log, loads = (
            {
                batch: {at: text for at, text in item.items() if (is_load in text) == wanted}
                for batch, item in batches.items()
            }
            for wanted in (False, True)
        )
        rows, self.format = super().binlog(log), "maxwell"
        rows, self.format = rows.unionByName(super().binlog(loads)), self.meta["source"]["format"]
        return rows


FORMATS_OF_ROWS = [
    pytest.param("maxwell", marks=pytest.mark.soak),
    "canal",
    pytest.param("debezium", marks=pytest.mark.soak),
]


def load(key: int, more: str = "") -> str:
    """A message of a full load."""
    data = f'{{"id":{key},"state":"a","amount":1.00{more}}}'
    return line(type='"bootstrap-insert"', data=data, position=None, xoffset=None)


@pytest.mark.in_turn
@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_full_loads_have_columns_renamed_by_case_too(spark: SparkSession, format_name: str) -> None:
    model = MixedModel(spark, format_name, ["id"])
    model.take({0: change(format_name, 1, 100), 1: renamed(load(2))})
    assert states(model) == {1: "a", 2: "a"}
    assert [row.reject_reason for row in model.rows if row.reject_reason] == []

    model.take({2: renamed(load(3)), 3: renamed(load(4))})  # a load alone

    assert states(model) == dict.fromkeys((1, 2, 3, 4), "a")


@pytest.mark.in_turn
@pytest.mark.parametrize("written", ['"STATE":', '"State" :', '"st\\u0041te":'])
@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_a_column_renamed_by_case_and_back_without_an_alter_is_refused(
    spark: SparkSession, format_name: str, written: str
) -> None:
    name = json.loads(written.rstrip(" :"))

    def messages() -> dict[int, str]:
        texts = [change(format_name, key, 100 * key) for key in (1, 2, 3)]
        return {0: texts[0], 1: texts[1].replace('"state":', written), 2: texts[2]}

    model = Model(spark, format_name, ["id"])
    model.take(messages())
    assert states(model) == {1: "a", 3: "a"}
    [refused] = [row for row in model.rows if row.reject_reason]
    reason = f"names a declared column in another case than is read: {name} ("
    assert reason in refused.reject_reason

    aliased = Model(spark, format_name, ["id"])
    aliased.meta["source"]["aliases"] = {"state": [name]}
    aliased.take(messages())
    assert states(aliased) == {1: "a", 2: "a", 3: "a"}


@pytest.mark.parametrize("written", ['"STATE":', '"State" :', '"st\\u0041te":'])
@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_a_column_that_one_row_has_by_another_case_alone_is_refused(
    spark: SparkSession, format_name: str, written: str
) -> None:
    texts = [change(format_name, key, 100 * key) for key in (1, 2, 3)]
    # as one that no row has
    texts = [text.replace('"state":', '"nothing":') for text in texts]
    texts[1] = texts[1].replace('"nothing":', written)
    model = Model(spark, format_name, ["id"])

    model.take(dict(enumerate(texts)))

    assert states(model) == {1: None, 3: None}
    [refused] = [row for row in model.rows if row.reject_reason]
    name = json.loads(written.rstrip(" :"))
    assert f"in another case than is read: {name} (" in refused.reject_reason


@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_rows_are_not_searched_for_columns_that_no_message_names(
    spark: SparkSession, format_name: str
) -> None:
    model = Model(spark, format_name, ["id"])
    source = table_source("ods_shop__o", model.meta["source"])

    def absent(*payloads: str) -> tuple[set[str], set[str]]:
        rows = [(format_name, payload) for payload in payloads]
        messages = spark.createDataFrame(rows, "format string, payload string")
        return columns_without_message(messages, source, ["id", "state", "amount"])

    text = change(format_name, 1, 100)
    without = text.replace('"state":', '"nothing":').replace('"amount":', '"none":')
    assert absent(text) == (set(), set())
    assert absent(without) == ({"state", "amount"}, {"state", "amount"})
    assert absent(without, text) == (set(), set())
    in_a_text = without.replace('"a"', '"\\u0041: \\u4e2d"')
    assert in_a_text != without
    assert absent(in_a_text) == ({"state", "amount"}, {"state", "amount"})
    for near in ('"STATE":', '"State" :', '"st\\u0041te":'):
        there = without.replace('"nothing":', near)
        _, unnamed = absent(without, there)
        assert "state" not in unnamed
        assert ("amount" in unnamed) == ("u0041" not in near)  # a letter by its number is of any


def test_batches_at_one_place_may_name_a_column_in_another_case(spark: SparkSession) -> None:
    model = Model(spark, "canal", ["id"])
    fix = canal([(1, "b")]).replace('"state"', '"STATE"')
    model.take_all({"live": {0: canal([(1, "a")])}, "fix": {0: fix}})

    assert states(model) == {1: "b"}


def test_postgres_may_have_columns_that_differ_by_case_alone(spark: SparkSession) -> None:
    model = Model(spark, "debezium", ["id"])
    model.meta["source"]["table"] = "public.o"
    message = json.loads(change("debezium", 1, 100, {"STATE": "other"}))
    message["after"]["state"] = None
    message["source"] = {
        **{"connector": "postgresql", "db": "shop", "schema": "public", "table": "o"},
        **{"ts_ms": TS * 1000, "txId": 1, "lsn": 34078720, "snapshot": "false"},
    }
    model.take({0: json.dumps(message)})

    assert [(row.id, row.state, row.reject_reason) for row in model.rows] == [(1, None, None)]


@pytest.mark.parametrize("is_load", [False, True], ids=["change", "full load"])
@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_a_misspelled_column_is_reported_in_each_format(
    spark: SparkSession, format_name: str, is_load: bool
) -> None:
    """The misspelled names are no column's, nor an alias's; one of them is the envelope's own."""
    model = MixedModel(spark, format_name, ["id"])
    model.meta["source"]["columns"] = {**COLUMNS, "citty": "varchar(9)", "op": "varchar(9)"}
    model.meta["source"]["columns"] |= {"kind": "varchar(9)"}
    model.meta["source"]["aliases"] = {"citty": ["town"], "kind": ["type"]}
    model.vars["absent_columns_allowed"] = 0
    texts = {"city": "x", "opp": "y", "kinds": "z"}
    message = change(format_name, 1, 100, texts)
    if is_load:
        message = load(1, "".join(f',"{name}":"{text}"' for name, text in texts.items()))

    with pytest.raises(ValueError, match=r"no message of shop\.o in this run") as error:
        model.take({0: message})

    assert "column citty (near it: city); op (near it: opp); kind (near it: kinds)" in str(
        error.value
    )


def event(**fields: Any) -> str:
    return json.dumps({"received_at": TS * 1000, "id": 1} | fields)


def document(number: int, **fields: Any) -> str:
    inserted = {"_id": number, "state": "a", "amount": 1.5, **fields}
    key = {"_id": number}
    return collection_event(number, "insert", documentKey=key, fullDocument=inserted)


@pytest.mark.in_turn
@pytest.mark.parametrize("format_name", ["events", "mongodb"])
def test_a_misspelled_field_of_events_and_documents_is_reported(
    spark: SparkSession, format_name: str
) -> None:
    model = Model(spark, format_name, ["id"])
    declared = model.meta["source"]
    message = document
    if format_name == "events":
        declared |= {"database": "events", "table": "t", "primary_key": []}

        def message(number: int, **fields: Any) -> str:
            return event(id=number, state="a", amount=1.5, **fields)

    aliases = {"id": ["_id"], "town": ["address.town"]} if format_name == "mongodb" else {}
    columns = {**COLUMNS, "town": "varchar(9)", "citty": "varchar(9)"}
    declared |= {"columns": columns, "aliases": aliases}
    model.vars["absent_columns_allowed"] = 0
    town = {"address": {"town": "x"}} if format_name == "mongodb" else {"town": "x"}

    with pytest.raises(ValueError, match=r"the declared column citty \(near it: city\), which"):
        model.take({0: message(1, city="x", **town), 1: message(2), 2: message(3)})

    columns["city"] = columns.pop("citty")
    model.messages.clear()
    model.take({0: message(1, city="x", **town), 1: message(2)})
    # a field may be missing in any document: what the table held before isn't asked for
    model.take({2: message(3, cityy="x")})
    assert [row.city for row in model.rows] == ["x", None, None]


def test_a_declared_column_that_no_message_has_is_reported_with_the_nearest_names(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(AdapterLogger, "warning", lambda _, text: warned.append(text))
    fresh = Model(model.spark, "maxwell", ["id"])
    columns = fresh.meta["source"]["columns"]
    fresh.meta["source"]["columns"] = {**columns, "citty": "varchar(9)"}
    fresh.vars["absent_columns_allowed"] = "0"
    message = insert(1, 100, more=',"city":"x","country":"y"')

    with pytest.raises(ValueError, match=r"no message of shop\.o in this run") as error:
        fresh.take({0: message})
    assert "the declared column citty (near it: city, country)" in str(error.value)
    assert "absent_columns_allowed (0)" in str(error.value)

    assert warned == []
    fresh.vars["absent_columns_allowed"] = "1"
    fresh.properties.clear()
    fresh.take({0: message})
    assert [row.citty for row in fresh.rows] == [None]
    [text] = warned
    assert text.startswith("ods_shop__o: no message of shop.o in this run has the declared column")
    assert "column citty (near it: city, country), which is null in all its rows" in text

    # had values and went: no error
    model.vars["absent_columns_allowed"] = 0
    gone = insert(2, 110).replace(',"amount":1.00', "")
    model.take({1: gone})
    assert [row.amount for row in model.rows if row.id == 2] == [None]
    assert "has the declared column amount, which is null" in warned[-1]


@pytest.mark.parametrize("is_altered", [False, True])
def test_messages_are_read_for_a_columns_name_only_where_a_run_may_fail_of_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, is_altered: bool
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(AdapterLogger, "warning", lambda _, text: warned.append(text))
    asked: list[set[str]] = []

    def noted(messages: DataFrame, source: Any, columns: Any) -> tuple[set[str], set[str]]:
        asked.append(set(columns))
        return columns_without_message(messages, source, columns)

    monkeypatch.setattr(table_changes, "columns_without_message", noted)
    model = Model(spark, "maxwell", ["id"])
    model.vars["absent_columns_allowed"] = 0
    first, second, third = (insert(key, 100 + 10 * key) for key in (1, 2, 3))
    lacking = [text.replace(',"amount":1.00', "") for text in (first, third)]
    messages = [lacking[0], second, lacking[1], *([ALTER] if is_altered else [])]
    model.take(dict(enumerate(messages)))

    assert [row.amount for row in model.rows] == [None, Decimal("1.00"), None]
    assert asked == ([set()] if is_altered else [])
    assert [text.split(" of ")[0] for text in warned] == (
        [] if is_altered else ["ods_shop__o: neither the first nor the last message"]
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("at_once", [True, False])
def test_another_change_at_the_place_of_a_documents_change_is_refused(
    spark: SparkSession, at_once: bool
) -> None:
    """Unless it holds another part of it: a change may be sent in parts."""

    def update(**expected: Any) -> str:
        changed = {"updatedFields": expected, "removedFields": []}
        return collection_event(2, "update", documentKey={"_id": 1}, updateDescription=changed)

    model = Model(spark, "mongodb", ["id"])
    model.meta["source"]["aliases"] = {"id": ["_id"]}
    first = {0: document(1), 1: update(state="b")}
    again = {2: document(1), 3: document(1, state="x"), 4: update(state="b", amount=2.5)}
    if at_once:
        model.take(first | again)
    else:
        model.take(first)
        model.take(again)

    assert [(row.message_offset, row.state) for row in model.rows if row.reject_reason is None] == [
        (0, "a"),
        (1, "b"),
    ]
    [refused] = [row for row in model.rows if row.reject_reason]
    assert refused.message_offset == 3
    assert "the same place in the log and other values" in refused.reject_reason
