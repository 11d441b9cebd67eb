"""The declaration `meta.source_count` of a model."""

from __future__ import annotations

from typing import Any

import pytest

from python_udfs.source.count import CountedTable, counted_table

DECLARED: dict[str, Any] = {
    "database": "shop",
    "table": "order_info",
    "topic": "maxwell",
    "dimensions": {"user_id": "bigint"},
    "measures": {"orders": {"sql": "count(*)", "type": "bigint"}},
}


def test_a_declaration_is_read_with_one_topic_or_several() -> None:
    table = CountedTable(
        "shop",
        "order_info",
        ["maxwell"],
        {"user_id": "bigint"},
        {"orders": ("count(*)", "bigint")},
    )
    assert counted_table("m", DECLARED) == table
    assert counted_table("m", DECLARED | {"topic": ["a", "b*"], "log_resets": []}).topic == [
        "a",
        "b*",
    ]


@pytest.mark.parametrize(
    ("declared", "problems"),
    [
        (None, ["it must be a mapping, got None"]),
        ({}, ["it lacks database, table, topic, dimensions, measures"]),
        (DECLARED | {"tabel": "x"}, ["`tabel` is not known (known: database, table, topic"]),
        (
            DECLARED | {"database": 7, "topic": [], "dimensions": ["user_id"], "measures": {}},
            [
                "`database` must be a name, got 7",
                "`topic` must be a topic or a list of them, as shell patterns, got []",
                "`dimensions` must map columns to Spark's types, got ['user_id']",
                "`measures` must map names to {sql: MySQL's expression, type: Spark's}, got {}",
            ],
        ),
        (DECLARED | {"measures": {"orders": "count(*)"}}, ["`measures` must map names to"]),
        (
            DECLARED | {"table": "", "log_resets": [{"since": 1}, {"server_id": "two"}]},
            [
                "`table` must be a name, got ''",
                "entry 1 of `log_resets` must have some of from, offsets",
                "entry 2 of `log_resets`: `server_id` must be a whole number, got 'two'",
            ],
        ),
    ],
)
def test_all_problems_of_a_declaration_are_named_with_an_example(
    declared: Any, problems: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"^m: meta\.source_count has problems: ") as error:
        counted_table("m", declared)
    text = str(error.value)
    for problem in problems:
        assert problem in text
    assert "keys database, table, topic, dimensions, measures" in text
    assert "Example: see models/dqc/trade/_trade__models.yml" in text
