"""A typed model whose declaration, batches or reading changed between its runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from python_udfs.ingestion import table_changes as ods
from python_udfs.ingestion.declared.made_by import check_made_by, made_by
from python_udfs.ingestion.declared.table_source import table_source
from tests.support.lines import TS, line
from tests.support.typed_model import COLUMNS, Model, collection_event


def insert(key: int, position: int, state: str = '"a"', more: str = "") -> str:
    return line(
        data=f'{{"id":{key},"state":{state},"amount":1.00{more}}}',
        position=f'"bin.000007:{position}"',
    )


@pytest.fixture
def model(spark: SparkSession) -> Model:
    """A model that has read one insert."""
    made = Model(spark, "maxwell", ["id"])
    made.take({0: insert(1, 100)})
    return made


def states(model: Model) -> dict[int, str | None]:
    return {row.id: row.state for row in model.rows if row.reject_reason is None}


WITH_TIMES = {
    **{"id": "int", "state": "varchar(9)", "amount": "decimal(9,2)"},
    "placed_at": "datetime",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"business_zone": "+00:00"}, 'business_zone was "+08:00" and is "+00:00"'),
        ({"cut_time_max_ahead_hours": 2}, "cut_time_max_ahead_hours was 24 and is 2"),
        ({"topic": ["t", "u"]}, 'topic was [] and is ["t", "u"]'),
        ({"primary_key": ["id", "state"]}, 'primary_key was ["id"] and is ["id", "state"]'),
        ({"format": "canal"}, 'options.enum was not declared and is "index"'),
        ({"format": "canal"}, 'format was "maxwell" and is "canal"'),
        ({"table": "p"}, 'table was "o" and is "p"'),
        ({"aliases": {"state": ["status"]}}, 'aliases.state was not declared and is ["status"]'),
        (
            {"columns": {"id": "bigint", "state": "varchar(9)", "amount": "decimal(9,2)"}},
            'columns.id was "int" and is "bigint"',
        ),
        (
            {"columns": WITH_TIMES, "cut_column": "placed_at"},
            'cut_column was not declared and is "placed_at"',
        ),
        (
            {"columns": {"id": "int", "state": "varchar(9)"}},
            'columns.amount was "decimal(9,2)" and is not declared',
        ),
    ],
)
def test_another_declaration_is_refused_with_what_differs(
    change: dict[str, Any], expected: str
) -> None:
    before = declared({})
    check_made_by("ods_shop__o", json.loads(json.dumps(before)), before)
    with pytest.raises(ValueError, match="made by another declaration") as error:
        check_made_by("ods_shop__o", before, declared(change))

    assert expected in str(error.value)
    assert "--full-refresh -s ods_shop__o" in str(error.value)


def test_what_changes_no_value_is_no_other_declaration() -> None:
    columns = {"state": "varchar(30)", "amount": "DECIMAL(9,2)", "id": "int"}
    same = declared({"columns": columns, "schema_version": 2, "columns_of_interest": ["state"]})

    check_made_by("ods_shop__o", declared({}), same)
    check_made_by("ods_shop__o", None, same)  # a commit of an earlier version of the project


def declared(change: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {
        **{"database": "shop", "table": "o", "primary_key": ["id"], "format": "maxwell"},
        "columns": {"id": "int", "state": "varchar(9)", "amount": "decimal(9,2)"},
    }
    more = {"business_zone": "+08:00", "cut_time_max_ahead_hours": 24}
    for name, value in change.items():
        (more if name in more else meta)[name] = value
    source = table_source("ods_shop__o", meta)
    return made_by(source, more["business_zone"], more["cut_time_max_ahead_hours"])


def test_a_model_whose_declaration_changed_reads_nothing_and_says_so(model: Model) -> None:
    before = list(model.rows)
    model.meta["business_zone"] = "+00:00"

    with pytest.raises(ValueError, match=r'business_zone was "\+08:00" and is "\+00:00"'):
        model.take({1: insert(2, 110)})

    assert model.rows == before


def test_batches_that_change_places_are_refused(model: Model) -> None:
    model.take({0: insert(1, 100, '"b"')}, batch="fix")
    assert states(model) == {1: "b"}
    model.batches = ["fix", "live"]

    with pytest.raises(ValueError, match=r"with the batches live, fix in this order.*is now fix"):
        model.take({2: insert(2, 120)})


def test_a_change_that_only_a_batch_has_counts_like_any_other(model: Model) -> None:
    """Its stray rows: the live log never reported them, or reports them later."""
    model.take({0: insert(2, 110, '"only"'), 1: insert(3, 120, '"fix"')}, batch="fix")
    assert states(model) == {1: "a", 2: "only", 3: "fix"}

    model.take({1: insert(3, 120, '"late"')})

    assert states(model) == {1: "a", 2: "only", 3: "fix"}


def test_a_batch_that_left_nothing_may_be_taken_away(model: Model) -> None:
    other = insert(7, 300).replace('"table":"o"', '"table":"other"')
    model.take({0: other}, batch="inv_fix")
    model.batches = ["live"]

    model.take({1: insert(2, 110)})

    assert states(model) == {1: "a", 2: "a"}


@pytest.mark.parametrize(
    "message",
    [
        insert(3, 300),
        line(type='"bootstrap-insert"', data='{"id":9,"state":"z","amount":1.00}', xoffset=None),
        line(type='"table-drop"', ts=f"{TS}000", position='"bin.000007:400"', data=None),
    ],
    ids=["change", "full load", "statement"],
)
def test_a_batch_that_left_something_may_not(model: Model, message: str) -> None:
    model.take({0: message}, batch="fix")
    model.batches = ["live"]

    with pytest.raises(ValueError, match="holds rows of the batches fix"):
        model.take({1: insert(2, 110)})


def canal(rows: list[tuple[int, str]], **more: str) -> str:
    data = [{"id": str(key), "state": state, "amount": "1"} for key, state in rows]
    head = {"database": "shop", "table": "o", "type": "INSERT", "es": TS * 1000}
    return json.dumps(head | {"data": data, "mysqlType": {"state": "varchar(9)"}} | more)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_correcting_message_with_fewer_rows_leaves_no_surplus(
    spark: SparkSession, at_once: bool
) -> None:
    """A message of Canal holds the rows of a statement: it is corrected as a whole."""
    model = Model(spark, "canal", ["id"])
    live = {0: canal([(1, "a"), (2, "b"), (3, "c")]), 1: canal([(4, "d")])}
    fix = {0: canal([(1, "a"), (2, "x")])}
    if at_once:
        model.take_all({"live": live, "fix": fix})
    else:
        model.take(live)
        model.take(fix, batch="fix")

    assert states(model) == {1: "a", 2: "x", 4: "d"}

    model.take(live)  # sent again
    model.take({0: canal([(1, "a"), (2, "x"), (3, "y"), (5, "z")])}, batch="second")

    assert states(model) == {1: "a", 2: "x", 3: "y", 5: "z", 4: "d"}


@pytest.mark.parametrize("order", [["live", "fix"], ["fix", "live"], []])
def test_a_bad_row_of_a_correcting_message_leaves_the_row_that_it_corrects(
    spark: SparkSession, order: list[str]
) -> None:
    """No order of the batches (none: both at once) takes the good row away, nor brings back the
    row that the correcting message lacks."""
    fix = canal([(1, "x"), (2, "b")]).replace('"id": "2"', '"id": "two"')
    batches = {"live": {0: canal([(1, "a"), (2, "b"), (3, "c")])}, "fix": {0: fix}}
    model = Model(spark, "canal", ["id"])
    model.batches = list(batches)
    if order:
        for batch in order:
            model.take(batches[batch], batch)
    else:
        model.take_all(batches)

    assert states(model) == {1: "x", 2: "b"}
    [refused] = [row for row in model.rows if row.reject_reason]
    assert (refused.batch_id, refused.row_number) == ("fix", 1)


def test_a_refused_message_is_read_again_when_its_reading_changes(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.take({1: insert(2, 110, '"b"'), 2: insert(3, 120, '"c"', ',"amount":"much"')})
    model.take({3: insert(4, 130)})
    refused = [row for row in model.rows if row.reject_reason]
    assert [row.message_offset for row in refused] == [2]
    read = ods.row_changes

    def reads_it(messages: Any) -> Any:
        from pyspark.sql import functions as F

        payload = F.replace(F.col("payload"), F.lit(',"amount":"much"'), F.lit(""))
        return read(messages).withColumn("payload", payload)

    monkeypatch.setattr(ods, "row_changes", reads_it)
    model.take({4: insert(5, 140)})
    assert [row for row in model.rows if row.reject_reason] == refused  # the code is the same

    monkeypatch.setattr(ods, "reading_of", lambda _: "another")
    model.take({5: insert(6, 150)})

    assert states(model) == {1: "a", 2: "b", 3: "c", 4: "a", 5: "a", 6: "a"}
    assert [row for row in model.rows if row.reject_reason] == []
    assert len(model.rows) == 6


@pytest.mark.parametrize("comes", ["at once", "later", "as it is read again"])
def test_a_message_that_is_read_again_brings_back_no_row_that_its_correction_lacks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """Also where the rest of the correction has the same values, so that no row of it is held."""
    live = canal([(1, "a"), (2, "b"), (3, "c")]).replace('"id": "2"', '"id": "two"')
    batches = {"live": {0: live}, "fix": {0: canal([(1, "a")])}}
    model = Model(spark, "canal", ["id"])
    model.batches = list(batches)
    if comes == "at once":
        model.take_all(batches)
    else:
        model.take(batches["live"])
    if comes == "later":
        model.take(batches["fix"], "fix")
    if comes != "as it is read again":
        assert states(model) == {1: "a"}

    monkeypatch.setattr(ods, "reading_of", lambda _: "another")
    if comes == "as it is read again":
        model.take(batches["fix"], "fix")
    model.take({1: canal([(4, "d")])})

    assert states(model) == {1: "a", 4: "d"}


def test_a_batch_between_two_that_comes_last_brings_no_row_that_the_newest_lacks(
    spark: SparkSession,
) -> None:
    """The newest batch has the same as the log in fewer rows, so that no row of it is held."""
    model = Model(spark, "canal", ["id"])
    model.batches = ["live", "between", "newest"]
    model.take({0: canal([(1, "a"), (2, "b")]), 1: canal([(4, "d")])})
    model.take({0: canal([(1, "a")])}, "newest")
    assert states(model) == {1: "a", 4: "d"}

    model.take({0: canal([(1, "x"), (2, "y"), (3, "z")]), 1: canal([(4, "e")])}, "between")

    assert states(model) == {1: "a", 4: "e"}


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


def test_canals_columns_renamed_by_case_alone_are_the_same_columns(spark: SparkSession) -> None:
    model = Model(spark, "canal", ["id"])
    model.meta["source"]["aliases"] = {"state": ["STATE"]}  # may be reported, and need not
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


FORMATS_OF_ROWS = ["maxwell", "canal", "debezium"]


def change(format_name: str, key: int, position: int, more: dict[str, str] | None = None) -> str:
    """A message that inserts a row, with texts in further columns."""
    texts = {"state": "a"} | (more or {})
    if format_name == "canal":
        row = {"id": str(key), **texts, "amount": "1"}
        return json.dumps(json.loads(canal([(key, "a")])) | {"data": [row]})
    if format_name == "maxwell":
        row = {"id": key, **texts, "amount": 1}
        return line(data=json.dumps(row), position=f'"bin.000007:{position}"')
    origin = {"connector": "mysql", "db": "shop", "table": "o", "ts_ms": TS * 1000}
    origin |= {"file": "bin.000007", "pos": position, "row": 0, "snapshot": "false"}
    row = {"id": key, **texts, "amount": "ZA=="}
    return json.dumps({"op": "c", "source": origin, "before": None, "after": row})


def load(key: int, more: str = "") -> str:
    """A message of a full load."""
    data = f'{{"id":{key},"state":"a","amount":1.00{more}}}'
    return line(type='"bootstrap-insert"', data=data, position=None, xoffset=None)


@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_full_loads_have_columns_renamed_by_case_too(spark: SparkSession, format_name: str) -> None:
    model = MixedModel(spark, format_name, ["id"])
    model.take({0: change(format_name, 1, 100), 1: renamed(load(2))})
    assert states(model) == {1: "a", 2: "a"}
    assert [row.reject_reason for row in model.rows if row.reject_reason] == []

    model.take({2: renamed(load(3)), 3: renamed(load(4))})  # a load alone

    assert states(model) == dict.fromkeys((1, 2, 3, 4), "a")


@pytest.mark.parametrize("format_name", FORMATS_OF_ROWS)
def test_a_column_renamed_by_case_and_back_without_an_alter_is_refused(
    spark: SparkSession, format_name: str
) -> None:
    def messages() -> dict[int, str]:
        texts = [change(format_name, key, 100 * key) for key in (1, 2, 3)]
        return {0: texts[0], 1: texts[1].replace('"state"', '"STATE"'), 2: texts[2]}

    model = Model(spark, format_name, ["id"])
    model.take(messages())
    assert states(model) == {1: "a", 3: "a"}
    [refused] = [row for row in model.rows if row.reject_reason]
    assert "names a declared column in another case than is read: STATE (" in refused.reject_reason

    aliased = Model(spark, format_name, ["id"])
    aliased.meta["source"]["aliases"] = {"state": ["STATE"]}
    aliased.take(messages())
    assert states(aliased) == {1: "a", 2: "a", 3: "a"}


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
def test_a_misspelled_column_is_told_in_each_format(
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


@pytest.mark.parametrize("format_name", ["events", "mongodb"])
def test_a_misspelled_field_of_events_and_documents_is_told(
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


def test_a_declared_column_that_no_message_has_is_told_with_the_nearest_names(
    model: Model,
) -> None:
    fresh = Model(model.spark, "maxwell", ["id"])
    columns = fresh.meta["source"]["columns"]
    fresh.meta["source"]["columns"] = {**columns, "citty": "varchar(9)"}
    fresh.vars["absent_columns_allowed"] = "0"
    message = insert(1, 100, more=',"city":"x","country":"y"')

    with pytest.raises(ValueError, match=r"no message of shop\.o in this run") as error:
        fresh.take({0: message})
    assert "the declared column citty (near it: city, country)" in str(error.value)
    assert "absent_columns_allowed (0)" in str(error.value)

    fresh.vars["absent_columns_allowed"] = "1"
    fresh.properties.clear()
    fresh.take({0: message})
    assert [row.citty for row in fresh.rows] == [None]

    # had values and went: no error
    model.vars["absent_columns_allowed"] = 0
    gone = insert(2, 110).replace(',"amount":1.00', "")
    model.take({1: gone})
    assert [row.amount for row in model.rows if row.id == 2] == [None]


@pytest.mark.parametrize("at_once", [True, False])
def test_another_change_at_the_place_of_a_documents_change_is_refused(
    spark: SparkSession, at_once: bool
) -> None:
    """Unless it reports another part of it: a change may be reported in part."""

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
