"""Other ways for the log to come: through Canal, under a batch, of another table."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support import latest
from tests.support.dbt_project import REPO, DbtProject
from tests.support.warehouse import SAMPLE, TRUTH, Warehouse, differing, lines_of, summed, truth

CANAL = {"shop_topics": "canal*", "shop_format": "canal"}
# not `landing`: python_udfs has a folder of that name
NOT_COPIED = shutil.ignore_patterns(
    ".*", "tests", "target", "logs", "warehouse", "benchmarks", "__pycache__"
)


def canal_lines() -> list[bytes]:
    return lines_of(TRUTH.parent / "canal.jsonl.gz")


@pytest.mark.soak
def test_the_counts_through_canal_with_a_gap_that_a_batch_fills(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    lines = canal_lines()
    warehouse.land_lines(lines[:9_000], 0, topic="canal")
    warehouse.land_lines(lines[15_000:], 15_000, gz=True, topic="canal")
    # more than what was missing: the rest is known by its place in the topic
    warehouse.land_lines(lines[7_000:20_000], 7_000, topic="canal", batch="again")
    both = CANAL | {"batches": ["live", "again"]}
    warehouse.run("run", "--select", "+ods_shop__order_info", vars=CANAL)
    batches = "select distinct batch_id from dw.ods_shop__order_info"
    assert warehouse.column(batches) == ["live"], "the batch is read only when it is named"
    views = [f"+{view}" for view in latest.VIEWS.values()]
    warehouse.run("run", "--select", "+dws_trade__user_status_td", *views, vars=both)

    expected = truth("final")
    print(f"{len(expected)} counts compared")
    assert differing(expected, warehouse.td()) == []
    assert differing(expected, summed(warehouse.daily())) == []
    assert warehouse.column(
        "select batch_id || ' ' || count(*) from dw.ods_binlog group by batch_id order by 1"
    ) == ["again 13000", f"live {len(lines) - 6_000}"]

    for table in latest.VIEWS:
        latest.compare(warehouse, "canal", table)

    outcome = warehouse.run("run", "-s", "ods_shop__order_info", vars=CANAL, expect_ok=False)
    message = outcome.results["ods_shop__order_info"].message
    assert "holds rows of the batches again" in message
    assert "--full-refresh" in message


@pytest.mark.in_turn
def test_messages_that_somebody_deleted_do_not_come_back_from_the_files(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    lines = canal_lines()
    offsets = "select message_offset from dw.ods_binlog order by 1"

    def take(first: int, end: int) -> None:
        warehouse.land_lines(lines[first:end], first, topic="canal")
        warehouse.run("run", "--select", "ods_binlog", vars=CANAL)

    take(0, 6)  # the run that makes the table, and one that adds to it
    warehouse.query("delete from dw.ods_binlog where message_offset in (1, 5)")
    take(6, 9)
    warehouse.query("delete from dw.ods_binlog where message_offset in (2, 7, 8)")
    take(9, 11)
    assert warehouse.column(offsets) == [0, 3, 4, 6, 9, 10]
    warehouse.run("run", "--select", "ods_binlog", vars=CANAL)
    assert warehouse.column(offsets) == [0, 3, 4, 6, 9, 10]


@pytest.fixture
def tutorial_table(tmp_path: Path) -> DbtProject:
    """The project with the table of the tutorial, as it stands there."""
    root = tmp_path / "project"
    shutil.copytree(REPO, root, ignore=NOT_COPIED)
    page = REPO / "docs" / "tutorial" / "your-first-table.md"
    text = page.read_text(encoding="utf-8")
    declaration = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    model = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert declaration and model
    folder = root / "models" / "ods" / "shop"
    with (folder / "_shop__models.yml").open("a", encoding="utf-8") as file:
        file.write(declaration[1])
    (folder / "ods_shop__pp_new.py").write_text(model[1], encoding="utf-8")
    return DbtProject(root, tmp_path / "warehouse", landing=SAMPLE.parents[2])


def listed(project: DbtProject) -> None:
    """Add the tutorial's table to the list of the typed models."""
    path = project.root / "macros" / "quality" / "typed_models.sql"
    text = path.read_text(encoding="utf-8")
    first = "ref('ods_app__user_profile'),"
    path.write_text(text.replace(first, f"{first} ref('ods_shop__pp_new'),"), encoding="utf-8")


@pytest.mark.in_turn
def test_a_table_is_added_as_in_the_tutorial(tutorial_table: DbtProject) -> None:
    command = ("run", "-s", "ods_binlog", "ods_shop__pp_new")
    refused = tutorial_table.run(*command, expect_ok=False)

    assert "the macro typed_models lacks ods_shop__pp_new, so that meta_" in str(refused.exception)
    assert "Add ref('ods_shop__pp_new') to its list" in str(refused.exception)

    listed(tutorial_table)
    tutorial_table.run(*command)

    rows = tutorial_table.query(
        "select op_type, count(*) as n, count(reject_reason) as refused "
        "from dw.ods_shop__pp_new group by op_type order by op_type"
    )
    assert [(row["op_type"], row["n"], row["refused"]) for row in rows] == [
        # the table was filled and then renamed to product_price
        ("delete", 200, 0),
        ("insert", 200, 0),
    ]
    renamed = "select count(*) from dw.ods_shop__pp_new where metadata_op_type = 'rename'"
    assert tutorial_table.column(renamed) == [200]


def test_all_mistakes_in_declarations_are_reported_at_once(tutorial_table: DbtProject) -> None:
    path = tutorial_table.root / "models" / "ods" / "shop" / "_shop__models.yml"
    text = path.read_text(encoding="utf-8")
    head, tail = text[: text.index("ods_shop__pp_new")], text[text.index("ods_shop__pp_new") :]
    tail = tail.replace("price: decimal(12,4)", "price: money").replace(
        "cut_column: updated_at", "cut_column: changed_at"
    )
    head = head.replace("primary_key: []", "primary_key: [line]")  # of another table
    # what other blocks take from the log's model, set to something else
    wrong = ("business_zone: Mars/North", "batches: live", "cut_time_max_ahead_hours: x")
    block = "        source:\n"
    first, second, *others = head.split(block)
    second = "".join(f"        {item}\n" for item in wrong) + block + second
    third = "        batches: null\n" + block + others[0]
    head = block.join([first + second + third, *others[1:]])
    path.write_text(head + tail, encoding="utf-8")
    folded = tutorial_table.root / "models" / "dwd" / "trade" / "dwd_trade__coupon_wide.sql"
    right = folded.read_text(encoding="utf-8")
    folded.write_text(right.replace("'sequence'", "'sequense'"), encoding="utf-8")

    parsed = tutorial_table.run("parse", "--write-json", expect_ok=False)
    # dbt asks no plugin here, so that it is the run that reports
    run = tutorial_table.run("run", "--no-write-json", "-s", "ods_binlog", expect_ok=False)

    for item in (str(parsed.exception), run.log):
        assert "column `price`: 'money' is not a MySQL type" in item
        assert "`cut_column` names `changed_at`" in item
        assert "`primary_key` names `line`" in item
        assert "fold.sequense is an unknown setting" in item
        assert "`business_zone` must be a zone's name or an offset, got 'Mars/North'" in item
        assert "`batches` must be a list of names, got 'live'" in item
        assert "`cut_time_max_ahead_hours` must be a whole number, got 'x'" in item
        assert "the macro typed_models lacks ods_shop__pp_new" in item
        assert "`batches` is set neither in its meta nor in meta.table_defaults" in item
    assert run.results == {}  # before anything is read

    path.write_text(text, encoding="utf-8")
    folded.write_text(right, encoding="utf-8")
    listed(tutorial_table)
    tutorial_table.run("parse", "--write-json")
