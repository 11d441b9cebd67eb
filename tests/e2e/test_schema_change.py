"""A source table changes: new columns are reported, misfits refused, history backfilled."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.dbt_project import REPO
from tests.support.lines import line, numbered
from tests.support.warehouse import Warehouse

NOT_COPIED = shutil.ignore_patterns(
    ".*", "target", "logs", "warehouse", "landing", "benchmarks", "__pycache__", "fixtures"
)
TEST = "every_column_of_a_declared_table_is_taken"
MODELS = ("ods_binlog", "ods_shop__product_price", "meta_undeclared_column")
HEAD = '"product_id":{},"product_name":"p","price":{},"updated_at":"2026-03-02 02:00:00.000"'
MESSAGES = [
    HEAD.format(1, "1.5"),
    # a column that nobody declared, then under another name, and a type that doesn't fit
    HEAD.format(2, "2.5") + ',"color":"red"',
    HEAD.format(3, "3.5") + ',"colour":"blue"',
    HEAD.format(4, '"cheap"') + ',"colour":"green"',
]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A copy of the project, whose declarations a test changes, with the messages landed."""
    root = tmp_path / "project"
    shutil.copytree(REPO, root, ignore=NOT_COPIED)
    shutil.copytree(REPO / "tests" / "dbt", root / "tests" / "dbt", dirs_exist_ok=True)
    found = Warehouse(tmp_path)
    found.root = root
    messages = [line(table='"product_price"', data="{" + message + "}") for message in MESSAGES]
    found.land_lines([text.encode() for text in numbered(messages)], 0)
    return found


def declare(warehouse: Warehouse, old: str, new: str) -> None:
    path = warehouse.root / "models" / "ods" / "shop" / "_shop__models.yml"
    text = path.read_text(encoding="utf-8")
    place = text.index("- name: ods_shop__product_price")
    assert old in text[place:]
    path.write_text(text[:place] + text[place:].replace(old, new, 1), encoding="utf-8")


@pytest.mark.in_turn
def test_a_table_that_changes(warehouse: Warehouse) -> None:
    everything_refused = {"reject_threshold": 1}
    warehouse.run("run", "-s", *MODELS, vars=everything_refused)

    # what doesn't fit is refused with its reason; the rest is taken
    rows = "select product_id, price, reject_reason from dw.ods_shop__product_price order by 1"
    assert [tuple(row.values()) for row in warehouse.query(rows)] == [
        (None, None, "data.price = cheap is no decimal(12,4)"),
        *[(n, Decimal(f"{n}.5000"), None) for n in (1, 2, 3)],
    ]
    # new columns are named, by the view and by a test that warns
    undeclared = "select column_name, message_count from dw.meta_undeclared_column order by 1"
    assert [tuple(row.values()) for row in warehouse.query(undeclared)] == [
        ("color", 1),
        ("colour", 2),
    ]
    tested = warehouse.run("test", "-s", TEST).results[TEST]
    assert (tested.status, tested.failures) == ("warn", 2)

    # declared with its alias, and the type widened: history has all of it
    declare(warehouse, "price: decimal(12,4)", "price: varchar(20)\n            color: varchar(9)")
    declare(
        warehouse,
        "primary_key: [product_id]",
        "primary_key: [product_id]\n          schema_version: 2\n"
        "          aliases: {color: [colour]}",
    )
    warehouse.run("run", "-s", "ods_shop__product_price", "--full-refresh")

    rows = "select product_id, price, color, schema_version from dw.ods_shop__product_price"
    assert [tuple(row.values()) for row in warehouse.query(f"{rows} order by 1")] == [
        (1, "1.5", None, 2),
        (2, "2.5", "red", 2),
        (3, "3.5", "blue", 2),
        (4, "cheap", "green", 2),
    ]
    assert warehouse.run("test", "-s", TEST).results[TEST].status == "pass"


@pytest.mark.in_turn
def test_a_run_without_news_names_undeclared_columns_without_a_read(warehouse: Warehouse) -> None:
    def reported() -> tuple[list[str], str]:
        """What a run prints of the columns, and all that it asked Spark."""
        (warehouse.logs / "dbt.log").unlink(missing_ok=True)
        log = warehouse.run("build", "-s", "ods_binlog", vars={"reject_threshold": 1}).log
        found = [text.partition("Column ")[2] for text in log.splitlines() if "no model" in text]
        asked = (warehouse.logs / "dbt.log").read_text(encoding="utf-8")
        return [text.partition(" and is")[0] for text in found], asked

    stands = "{} of shop.product_price stands in {} messages of maxwell".format
    columns, asked = reported()
    assert columns == [stands("colour", 2), stands("color", 1)]
    assert "order by message_count" in asked
    again, asked = reported()
    assert again == columns
    assert "order by message_count" not in asked
    # newer messages have other columns, and what is declared is another
    message = line(table='"product_price"', data="{" + MESSAGES[1] + "}")
    warehouse.land_lines([message.replace("bin.000007", "bin.000008").encode()], len(MESSAGES))
    assert reported()[0] == [stands("color", 1)]
    declare(
        warehouse, "price: decimal(12,4)", "price: decimal(12,4)\n            color: varchar(9)"
    )
    assert reported()[0] == []
