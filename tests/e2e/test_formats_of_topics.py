"""A topic that was first read in a wrong format, and columns that no message has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from python_udfs.ingestion.declared.topic_formats import formats_of_topics, problems_of
from tests.support.lines import source
from tests.support.warehouse import Warehouse


def debezium(number: int) -> bytes:
    origin = {
        **{"connector": "mysql", "db": "inv", "table": "customers", "ts_ms": 1772416800000},
        **{"file": "bin.000007", "pos": number, "row": 0},
    }
    after = {"id": number, "v": "x"}
    message = {"op": "c", "ts_ms": 1772416800000, "source": origin, "before": None, "after": after}
    return json.dumps(message).encode()


RENAME = {
    **{"type": "table-alter", "database": "shop", "table": "pp_before"},
    **{"old": {"database": "shop", "table": "pp_before"}, "ts": 1772416800000},
    **{"def": {"database": "shop", "table": "product_price"}, "position": "bin.000007:500"},
    "sql": "rename table pp_before to product_price",
}
LOADED = {
    **{"type": "bootstrap-insert", "database": "shop", "table": "product_price"},
    **{
        "ts": 1772416800 + 7200,
        "data": {"product_id": 1, "product_name": "x", "price": 1.50, "updated_at": None},
    },
}


@pytest.mark.in_turn
def test_a_topic_that_was_read_in_a_wrong_format_is_read_again(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    topic = "inv.inventory.customers"
    lines = [debezium(number) for number in range(4)]
    warehouse.land_lines([*lines, b"no message"], 0, topic=topic)
    warehouse.land_lines([json.dumps(RENAME).encode()], 0)
    selected = ("run", "--select", "+meta_quarantine", "+meta_topic_volume")
    first = warehouse.run(*selected, vars={"reject_least": 0}, expect_ok=False)
    assert "5 by ods_binlog, 1 by ods_shop__product_price" in first.log
    unread = f"Topic {topic} is read as maxwell, and none of its 5 messages in this run could be"
    assert unread in first.log
    [unknown] = warehouse.query(
        "select reject_reason from dw.meta_quarantine where refused_by = 'ods_shop__product_price'"
    )
    assert "come with a full load of shop.product_price" in unknown["reject_reason"]
    assert warehouse.column("select count(*) from dw.meta_quarantine") == [6]
    warehouse.land_lines([json.dumps(LOADED).encode()], 1)

    others = {"mongo*": "mongodb", "traffic.*": "events"}
    others |= dict.fromkeys(("maxwell*", "school*"), "maxwell")
    formats = {"inv.*": "debezium"} | others
    second = warehouse.run(*selected, "--full-refresh", vars={"topic_formats": formats})

    assert "4 messages that were refused before are read now" in second.log
    assert "none of its" not in second.log
    assert "ods_binlog is not rebuilt by --full-refresh" in second.log
    # nor is the RENAME there any more: a full load has brought what it lacked
    assert warehouse.query("select message_offset, reject_reason from dw.meta_quarantine") == [
        {"message_offset": 4, "reject_reason": NO_JSON}
    ]
    good = warehouse.query(
        "select message_offset, format, table_name from dw.ods_binlog "
        f"where topic = '{topic}' and reject_reason is null order by message_offset"
    )
    assert [row["message_offset"] for row in good] == [0, 1, 2, 3]
    assert {(row["format"], row["table_name"]) for row in good} == {("debezium", "customers")}
    assert warehouse.query(
        "select message_count, refused_count, missing_count from dw.meta_topic_volume "
        f"where topic = '{topic}'"
    ) == [{"message_count": 5, "refused_count": 1, "missing_count": 0}]

    third = warehouse.run(*selected, vars={"topic_formats": formats})

    assert "Nothing new has landed" in third.log
    assert "read now" not in third.log
    # the same as meta_quarantine has: what was read again and the RENAME don't count
    assert f"1 messages of {topic} that earlier runs refused still stand" in third.log
    assert third.log.count("earlier runs refused") == 1

    # what has news without a refusal is not looked at again, what has one is
    later = ("run", "--select", "ods_binlog")
    changed = {"reject_least": 5, "topic_formats": formats}
    for offset, line, earlier in (
        (5, debezium(5), 1),
        (6, b"nor this", 1),
        (7, debezium(7), 2),
    ):
        warehouse.land_lines([line], offset, topic=topic)
        log = warehouse.run(*later, vars=changed).log
        assert f"{earlier} messages of {topic} that earlier runs refused still stand" in log


def test_a_block_without_topics_is_refused_where_topics_have_several_formats() -> None:
    columns = {"id": "int"}
    block = source(columns, format="debezium")
    both = {"debezium*": "debezium", "*": "maxwell"}

    [problem] = problems_of({"ods_inv__customers": block}, both)

    assert problem.startswith("ods_inv__customers: it names no `topic`")
    assert 'for example topic: "debezium*"' in problem
    assert problems_of({"m": block}, {"*": "debezium"}) == []
    assert problems_of({"m": source(columns, format="debezium", topic="debezium.x")}, both) == []


def test_the_format_of_a_topic_is_that_of_the_table_that_names_it() -> None:
    columns = {"id": "int"}
    tables = [
        source(columns, format="debezium", topic=["inv.*", "full_load.inv.*"]),
        source(columns, format="canal", topic="inv.old.*"),
        source(columns, format="canal", topic="a"),
    ]
    var = {"inv.older": "mongodb", "a": "canal", "*": "maxwell"}

    assert list(formats_of_topics(var, tables).items()) == [
        # the var, the narrower pattern before the wider, and what nothing names
        ("inv.older", "mongodb"),
        ("a", "canal"),
        ("full_load.inv.*", "maxwell"),
        ("inv.old.*", "canal"),
        ("inv.*", "debezium"),
        ("*", "maxwell"),
    ]
    assert problems_of(dict(zip("abc", tables, strict=True)), var) == []
    assert "*" not in formats_of_topics({}, tables)


@pytest.mark.parametrize(
    ("left", "right", "var", "is_refused"),
    [
        ("inv.a", "inv.a", {"*": "maxwell"}, True),
        ("inv.*", "*.a", {}, True),
        ("inv.*", "*.a", {"inv.a": "canal"}, True),
        ("inv.*", "*.a", {"*.a": "canal"}, False),
        ("inv.*", "inv.a", {}, False),
        ("inv.*", "old.*", {}, False),
        ("full_load.a", "full_load.*", {}, False),
    ],
)
def test_two_formats_of_one_topic_are_refused_unless_the_var_decides(
    left: str, right: str, var: dict[str, str], is_refused: bool
) -> None:
    tables = {
        "ods_a": source({"id": "int"}, format="debezium", topic=left),
        "ods_b": source({"id": "int"}, format="canal", topic=right),
    }

    problems = problems_of(tables, var)

    assert len(problems) == is_refused
    for problem in problems:
        assert f"ods_a declares debezium as the format of its topic {left}, and ods_b" in problem
        assert "name one of them in the var topic_formats" in problem


@pytest.mark.parametrize(
    ("formats", "named"),
    [
        ({"*": "maxwell", "canal*": "canal"}, ["canal* behind *,", "canal*: canal never counts"]),
        (
            {"inv.*": "canal", "inv.shop.*": "debezium", "*": "maxwell"},
            ["inv.shop.* behind inv.*,"],
        ),
        ({"a*": "maxwell", "b": "canal", "b ": "canal", "*": "canal"}, []),
        ({"canal*": "canal", "*": "maxwell"}, []),
    ],
)
def test_an_entry_that_never_counts_is_refused(formats: dict[str, str], named: list[str]) -> None:
    problems = problems_of({"m": source({"id": "int"}, topic="a1")}, formats)

    assert len(problems) == min(1, len(named))
    assert [item for item in named if item not in problems[0]] == []


NO_JSON = (
    "not JSON, or more than one object on a line "
    "(nor is JSON read that nests over 1000 levels or has a number of over 1000 digits)"
)


def test_a_block_whose_format_is_not_that_of_its_topics_is_refused_before_anything_is_done(
    tmp_path: Path,
) -> None:
    warehouse = Warehouse(tmp_path)
    command = ("run", "--select", "ods_binlog")

    given = {"shop_format": "debezium", "topic_formats": {"max*": "maxwell", "*": "maxwell"}}
    outcome = warehouse.run(*command, vars=given, expect_ok=False)

    output = f"{outcome.log} {outcome.exception}"
    assert "its format is debezium, and the var topic_formats reads its topic maxwell*" in output
    assert 'or add "maxwell*": debezium before the pattern that fits now' in output

    outcome = warehouse.run(*command, vars={"topic_formats": {"*": "maxwel"}}, expect_ok=False)

    assert "has 'maxwel' for the topic *" in f"{outcome.log} {outcome.exception}"
