"""What is wrong with the arguments of `beliefs`, of its model, of `as_known_at`: all at once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparksession.declared.beliefs import BeliefsError, moment_sql, read_beliefs
from dbt.adapters.sparksession.declared.joins import Join, JoinConfigError, read_join
from dbt.adapters.sparksession.keyed.zippers import Zipper, ZipperConfigError

ZIPPER = {"sequence": "known_time", "row_kind": "row_kind", "period": "known"}
CONFIG = {
    "materialized": "folded",
    "unique_key": ["id", "valid_from"],
    "zipper": ZIPPER | {"buckets": 8},
    "full_refresh": False,
    "on_definition_change": "accept",
}
TYPES = {"id": "int", "valid_from": "timestamp", "valid_to": "timestamp", "price": "int"}
KNOWN = {"known_from": "timestamp", "known_to": "timestamp", "is_believed": "boolean"}


def relation(name: str) -> Any:
    return SimpleNamespace(
        render=lambda: name, name_only=SimpleNamespace(render=lambda: name), is_cte=False
    )


def read(types: dict[str, str] | None = TYPES, *, config: Any = CONFIG, **given: Any) -> Any:
    arguments = {"rows": relation("dw.zip"), "key": ["id", "valid_from"], "columns": "price"}
    model = {"resource_type": "model", "config": config}
    return read_beliefs(arguments | given, model, types, given.get("is_view", False))


def problems_of(call: Any) -> str:
    with pytest.raises((BeliefsError, JoinConfigError, ZipperConfigError)) as raised:
        call()
    return str(raised.value)


def test_beliefs_of_a_zipper_are_read() -> None:
    assert read().all_columns == ["id", "valid_from", "price"]
    assert read(config=CONFIG | {"zipper": ZIPPER | {"sequence": ["known_time"]}}).rows == "dw.zip"


def test_all_problems_of_the_arguments_are_named_at_once() -> None:
    text = problems_of(
        lambda: read(rows="zip", key=[], columns=["known_to"], config={"materialized": "table"})
    )
    assert "rows must be ref(..) or source(..), got 'zip'" in text
    assert "key must name the columns that distinguish its rows, got []" in text
    assert "known_to: columns of this name are the beliefs' own" in text
    assert "the model's config must be config(materialized='folded', unique_key=[]" in text
    assert "Example: beliefs(rows=ref('dim_product_price_zip')" in text


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ({"id": "int"}, "dw.zip: there is no column price; it has id"),
        (TYPES | {"row_kind": "string"}, "dw.zip is a stream of retract rows"),
        (TYPES | {"price": "map<string,int>"}, "column price is map<string,int>, of which no two"),
    ],
)
def test_a_relation_that_can_not_be_believed_is_named(types: dict[str, str], problem: str) -> None:
    assert problem in problems_of(lambda: read(types))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"full_refresh": None}, "must have full_refresh=false: what was believed earlier is"),
        ({"unique_key": "id"}, "the model's config must be config(materialized='folded'"),
        ({"zipper": ZIPPER | {"period": "valid"}}, "the model's config must be config("),
        ({"zipper": ZIPPER | {"time": "price"}}, "the model's config must be config("),
        ({"on_definition_change": "rebuild"}, "must have on_definition_change='accept': what was"),
    ],
)
def test_a_config_that_would_lose_beliefs_is_refused(changed: dict[str, Any], problem: str) -> None:
    assert problem in problems_of(lambda: read(config=CONFIG | changed))


@pytest.mark.parametrize(
    ("given", "literal"),
    [
        ("2026-03-02", "2026-03-02 00:00:00.000000"),
        ("2026-03-02 16:00", "2026-03-02 16:00:00.000000"),
        ("2026-03-02T16:00:00.5+03:00", "2026-03-02 13:00:00.500000"),
        (date(2026, 3, 2), "2026-03-02 00:00:00.000000"),
        (datetime(2026, 3, 2, 16, tzinfo=UTC), "2026-03-02 16:00:00.000000"),
    ],
)
def test_a_moment_is_a_literal_of_utc(given: Any, literal: str) -> None:
    assert moment_sql(given) == f"timestamp'{literal}Z'"


@pytest.mark.parametrize("given", ["yesterday", "2026-02-30", "2026-03-02' or true", 7, None])
def test_what_is_no_moment_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="must be a moment"):
        moment_sql(given)


def join(as_known_at: Any, **right: Any) -> Join:
    """Orders joined to beliefs of their prices."""
    types = {
        "dw.orders": {"order_id": "int", "product": "int", "at": "timestamp", "text": "string"},
        "dw.beliefs": TYPES | KNOWN,
    }
    given = {
        "form": "temporal_join",
        "left": {
            "relation": relation("dw.orders"),
            "key": "order_id",
            "columns": ["order_id"],
            "time": "at",
        },
        "right": {
            "relation": relation("dw.beliefs"),
            "key": ["id", "valid_from", "known_from"],
            "columns": ["price"],
        }
        | right,
        "on": {"product": "id"},
        "kind": "left",
        "condition": None,
        "as_known_at": as_known_at,
    }
    key = ["order_id", "id", "valid_from", "known_from"]
    fold = {"sequence": "commit_number", "row_kind": "row_kind"}
    config = {"materialized": "folded", "unique_key": key, "fold": fold}
    return read_join(given, {"config": config}, lambda side: types[side.render()])


def test_a_join_by_both_times_goes_by_both_periods() -> None:
    by_column = join("at")
    assert by_column.condition.endswith(
        "right_row.known_from <= left_row.at and (right_row.known_to is null or "
        "left_row.at < right_row.known_to)"
    )
    # a belief that ends touches the orders behind its end alone
    assert by_column.ends_by == ("known_from", "known_to")
    by_moment = join("2026-03-02 16:00:00")
    moment = "timestamp'2026-03-02 16:00:00.000000Z'"
    assert by_moment.condition.endswith(
        f"right_row.known_from <= {moment} and (right_row.known_to is null or "
        f"{moment} < right_row.known_to)"
    )
    assert join("at", columns=["price", "known_to"]).ends_by is None


@pytest.mark.parametrize(
    ("as_known_at", "problem"),
    [
        (None, "right (dw.beliefs) holds beliefs (known_from, known_to): as_known_at must be"),
        ("seen", "left (dw.orders): there is no column seen"),
        ("text", "as_known_at column text is string, must be a timestamp or a date"),
        ("2026-13-01", "as_known_at must be a column of the left side, or must be a moment"),
        (5, "as_known_at must be a column of the left side, or must be a moment"),
    ],
)
def test_a_wrong_time_of_knowledge_is_named(as_known_at: Any, problem: str) -> None:
    assert problem in problems_of(lambda: join(as_known_at))


def test_a_zipper_of_another_period_is_refused() -> None:
    given = {"sequence": "at", "period": "system"}
    text = problems_of(lambda: Zipper.read("z", "id", given))
    assert "zipper.period must be 'valid' or 'known', got 'system'" in text
    known = Zipper.read("z", ["id", "valid_from"], {"sequence": "at", "period": "known"})
    columns = [("id", "int"), ("valid_from", "int"), ("at", "timestamp"), ("a", "int")]
    assert known.bound(columns).reader_key == ("id", "valid_from", "known_from")
    with pytest.raises(ZipperConfigError, match="known_to: names of this kind are the zipper's"):
        known.bound([*columns, ("known_to", "int")])
    # the stored hash of what readers see is that of before there were periods
    assert Zipper.read("z", "id", {"sequence": "at"}).reading == {"tracked": None}
