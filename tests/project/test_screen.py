"""What `make run` shows on a terminal, of dbt's events."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tools.screen import Screen


def event(name: str, level: str = "info", msg: str = "", **data: Any) -> Any:
    info = SimpleNamespace(name=name, level=level, msg=msg)
    return SimpleNamespace(info=info, data=SimpleNamespace(**data))


def finished(name: str, kind: str, status: str = "success", **response: Any) -> Any:
    node = SimpleNamespace(unique_id=f"{kind}.{name}", node_name=name, resource_type=kind)
    result = SimpleNamespace(status=status, execution_time=1.26, adapter_response=response)
    return event("NodeFinished", node_info=node, run_result=result)


def shown(*events: Any) -> str:
    """What is left on the screen once the command has ended."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120, color_system=None)
    with Screen(console) as screen:
        for each in events:
            screen.take(each)
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text.getvalue())


def test_a_model_has_a_line_and_a_test_that_passes_has_none() -> None:
    text = shown(
        event("ConcurrencyLine", node_count=3),
        finished("ods_binlog", "model", rows_affected=45408),
        finished("ods_shop__order_info", "model", rows_affected=22805, code="45408"),
        finished("dwd_trade__order_changelog", "model"),
        finished("broken", "model", "error"),
        finished("unique_orders", "test", "pass"),
        event("LogTestResult", msg="PASS unique_orders"),
    )
    lines = [line.split() for line in text.splitlines()]
    assert ["model", "rows", "read", "rows", "written", "seconds"] in lines
    assert ["ods_binlog", "-", "45,408", "1.3"] in lines
    assert ["ods_shop__order_info", "45,408", "22,805", "1.3"] in lines
    assert ["dwd_trade__order_changelog", "-", "view", "1.3"] in lines
    assert ["broken", "-", "error", "1.3"] in lines
    assert "PASS" not in text and "1 tests passed" in text


def test_what_the_runs_report_repeats_of_the_models_is_left_out() -> None:
    """It lists them too, which is all that a screen without this bar has."""
    text = shown(
        finished("ods_binlog", "model", rows_affected=45408),
        event("PrintEvent", msg="model            rows read  rows written  seconds"),
        event("PrintEvent", msg="ods_binlog               -        45,408      1.3"),
        event("PrintEvent", msg="4 of 9 messages"),
        event("PrintEvent", msg="some_other               -        45,408      1.3"),
    )
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert [line for line in lines if line and "reading the project" not in line] == [
        "model rows read rows written seconds",
        "ods_binlog - 45,408 1.3",
        "4 of 9 messages",
        "some_other - 45,408 1.3",
    ]


@pytest.mark.parametrize("width", [120, 60])
def test_long_names_leave_the_counter_and_the_time_whole(width: int) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, color_system=None)
    with Screen(console) as screen:
        screen.take(event("ConcurrencyLine", node_count=287))
        for number in range(4):
            node = SimpleNamespace(unique_id=str(number), node_name=f"{number}_{'long_' * 12}name")
            screen.take(event("LogStartLine", node_info=node))
        screen.refresh()
    drawn = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text.getvalue())
    last = [line for line in re.split(r"[\r\n]", drawn) if line.strip()][-1]
    assert last.startswith("  0/287 0:00:0") and "0_long" in last and len(last) <= width


def test_warnings_errors_and_what_macros_print_are_shown_as_they_are() -> None:
    hostile = "[red]a[/red] [link=x] \x1b[31m {{ 7 * 7 }} 中文 \u202e end"
    text = shown(
        event("PrintEvent", msg=hostile),
        event("JinjaLogWarning", "warn", msg="4 of 9 messages were refused"),
        event("LogTestResult", "error", msg="FAIL 3 unique_orders"),
        event("LogModelResult", msg="OK created"),
    )
    assert "[red]a[/red] [link=x]  [31m {{ 7 * 7 }} 中文   end" in text
    assert "4 of 9 messages were refused" in text and "FAIL 3 unique_orders" in text
    assert "OK created" not in text


def test_the_table_at_the_end_adds_up_each_layer() -> None:
    def result(layer: str, status: str, rows: int | None) -> Any:
        node = SimpleNamespace(resource_type="model", fqn=["shop", layer, "name"])
        response = {} if rows is None else {"rows_affected": rows}
        return SimpleNamespace(
            node=node, status=status, adapter_response=response, execution_time=2.0
        )

    text = io.StringIO()
    test = SimpleNamespace(node=SimpleNamespace(resource_type="test"))
    Screen(Console(file=text, width=120)).summary(
        [
            result("dws", "success", 5),
            result("ods", "success", 1000),
            result("ods", "success", 234),
            result("ods", "error", None),
            test,
        ]
    )
    rows = [line.split() for line in text.getvalue().splitlines() if line.strip()]
    assert rows[-2:] == [["ods", "3", "1", "1,234", "6.0"], ["dws", "1", "0", "5", "2.0"]]
