"""A typed model whose declaration, batches or reading changed between its runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion import table_changes as ods
from python_udfs.ingestion.declared.made_by import check_made_by, made_by
from python_udfs.ingestion.declared.table_source import table_source
from tests.support.declared_rows import canal, insert, states
from tests.support.lines import TS, line
from tests.support.typed_model import Model

pytestmark = pytest.mark.in_turn

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


def test_aliases_in_another_order_are_another_declaration() -> None:
    """Of the names that a row has the first counts."""
    before = declared({"aliases": {"state": ["status", "old_state"]}})
    after = declared({"aliases": {"state": ["old_state", "status"]}})
    with pytest.raises(ValueError, match="made by another declaration") as error:
        check_made_by("ods_shop__o", before, after)

    names = '["status", "old_state"] and is ["old_state", "status"]'
    assert f"order_of_aliases.state was {names}" in str(error.value)
    del before["order_of_aliases"]
    check_made_by("ods_shop__o", before, after)  # a commit of an earlier version of the project


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


def test_a_model_whose_declaration_changed_reads_nothing_and_is_refused(model: Model) -> None:
    before = list(model.rows)
    model.meta["business_zone"] = "+00:00"

    with pytest.raises(ValueError, match=r'business_zone was "\+08:00" and is "\+00:00"'):
        model.take({1: insert(2, 110)})

    assert model.rows == before


@pytest.mark.soak
def test_batches_that_change_places_are_refused(model: Model) -> None:
    model.take({0: insert(1, 100, '"b"')}, batch="fix")
    assert states(model) == {1: "b"}
    model.batches = ["fix", "live"]

    with pytest.raises(ValueError, match=r"with the batches live, fix in this order.*is now fix"):
        model.take({2: insert(2, 120)})


@pytest.mark.soak
def test_a_change_that_only_a_batch_has_counts_like_any_other(model: Model) -> None:
    """Its stray rows: the live log never held them, or holds them later."""
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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
@pytest.mark.parametrize("at_once", [True, pytest.param(False, marks=pytest.mark.soak)])
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


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(["live", "fix"], marks=pytest.mark.soak),
        pytest.param(["fix", "live"], marks=pytest.mark.soak),
        [],
    ],
)
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


@pytest.mark.in_turn
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

    monkeypatch.setattr(ods, "hash_of_reader", lambda _: "another")
    model.take({5: insert(6, 150)})

    assert states(model) == {1: "a", 2: "b", 3: "c", 4: "a", 5: "a", 6: "a"}
    assert [row for row in model.rows if row.reject_reason] == []
    assert len(model.rows) == 6


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "comes",
    [
        *(pytest.param(when, marks=pytest.mark.soak) for when in ("at once", "later")),
        "as it is read again",
    ],
)
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

    monkeypatch.setattr(ods, "hash_of_reader", lambda _: "another")
    if comes == "as it is read again":
        model.take(batches["fix"], "fix")
    model.take({1: canal([(4, "d")])})

    assert states(model) == {1: "a", 4: "d"}


@pytest.mark.soak
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


@pytest.mark.parametrize("comes", ["later", "as it is read again"])
def test_a_batch_between_two_that_comes_last_does_not_win(
    model: Model, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """The newest batch has the same as the log, so that no row of it is held."""
    model.batches = ["live", "between", "newest"]
    other, again = insert(1, 100, '"x"'), comes == "as it is read again"
    if again:
        model.take({0: other.replace('"state":"x"', '"state":7,"id":"one"')}, "between")
    model.take({0: insert(1, 100)}, "newest")
    if again:
        model.messages["between"] = {0: other}
        monkeypatch.setattr(ods, "hash_of_reader", lambda _: "another")
        model.take({1: insert(2, 110)})
    else:
        model.take({0: other}, "between")

    assert states(model) == ({1: "a", 2: "a"} if again else {1: "a"})
