"""A typed model whose declaration, batches or reading changed between its runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs import ods
from python_udfs.declaration import check_made_by, made_by
from python_udfs.deserialize.table_source import table_source
from tests.deserialize.lines import TS, line
from tests.deserialize.test_table_state import Model


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
    ("change", "told"),
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
    change: dict[str, Any], told: str
) -> None:
    before = declared({})
    check_made_by("ods_shop__o", json.loads(json.dumps(before)), before)
    with pytest.raises(ValueError, match="made by another declaration") as error:
        check_made_by("ods_shop__o", before, declared(change))

    assert told in str(error.value)
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

    with pytest.raises(ValueError, match=r"with the batches live, fix in this order.*now says fix"):
        model.take({2: insert(2, 120)})


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
    model.meta["source"]["aliases"] = {"state": ["STATE"]}  # may be said, and need not
    model.take({0: canal([(1, "a")])})
    model.take({1: renamed(canal([(2, "b")])).replace('"Id":', '"ID":')})

    assert states(model) == {1: "a", 2: "b"}


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
