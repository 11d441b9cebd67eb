"""What the report is made of: declared counts, kept commands, kept pages, the charts' rows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparksession.connections import SparkSessionCredentials

from tests.report.made_up import NOW, context
from tests.support.dbt_project import REPO
from tools.report.charts import of_count, recent, to_date
from tools.report.declared import Counted, counted_tables
from tools.report.facts import MODELS, Facts, Gathering, count_query, refused_query, tables_of_runs
from tools.report.history import KEPT, read, record
from tools.report.make import ReportError, keep, make_report
from tools.report.places import kept_folder
from tools.report.sections import (
    correctness_section,
    overview_section,
    received_section,
    runs,
    sections_of,
)


def model(name: str, macro: str, columns: tuple[str, ...]) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "name": name,
        "schema": "dw",
        "fqn": ["shop", "dws", name],
        "columns": {column: {} for column in columns},
        "depends_on": {"macros": [f"macro.shop.{macro}", "macro.dbt.ref"]},
    }


def test_a_declared_count_and_a_metric_are_found_by_the_macro_that_a_model_calls() -> None:
    body = """{% macro orders() %}{% do return({'dimensions': ['user_id', 'status'], 'measures': {
        'n': {'aggregate': 'count'}, 'least': {'aggregate': 'min'}}}) %}{% endmacro %}"""
    metric = """{% macro views() %}{% do return({'grains': [var('grain')],
        'dimension_sets': {'all': [], 'page': ['page'], 'two': ['page', 'user']},
        'measures': {'pv': {'aggregate': 'count'}, 'sketch': {'aggregate': 'hll'}}})
        %}{% endmacro %}"""
    no_count = "{% macro other() %}{{ ref('x') }}{% endmacro %}"
    macros = {
        f"macro.shop.{name}": {"name": name, "package_name": "shop", "macro_sql": text}
        for name, text in {"orders": body, "views": metric, "other": no_count}.items()
    }
    windows = ("grain", "dimension_set", "window_start", "pv", "sketch")
    nodes = [
        model("days", "orders", ("cut_date", "user_id", "status", "n_change", "least")),
        model("months", "orders", ("cut_month", "user_id", "status", "n_change")),
        model("placed", "orders", ("cut_date", "status", "n")),
        model("totals", "orders", ("user_id", "status", "n")),
        model("windows", "views", windows),
        model("none", "other", ("n",)),
    ]
    manifest = {
        "metadata": {"project_name": "shop"},
        "macros": macros,
        "nodes": {node["name"]: node for node in nodes},
    }
    found = {counted.name: counted for counted in counted_tables(manifest, {"grain": "5m"})}
    assert sorted(found) == ["days", "placed", "totals", "windows"]
    assert found["days"].has_days and not found["totals"].has_days
    assert found["days"].measures == {"n": "count"}  # the least of groups can't be added up
    # under the measure's name, whether the days hold its net changes or the number itself
    assert "sum(n_change) as n" in count_query(found["days"])
    assert found["placed"].has_days and "sum(n) as n" in count_query(found["placed"])
    assert not found["placed"].columns  # its curve is of each day, that of the days is to date
    assert found["totals"].dimensions == ("status",) and found["totals"].ids == ("user_id",)
    assert found["windows"].grains == ("5m",) and found["windows"].sets == {"page": "page"}
    assert found["windows"].measures == {"pv": "count"}  # no reader reads a sketch


def test_a_chart_of_days_reads_those_that_it_shows_and_takes_the_rest_from_the_totals() -> None:
    days = Counted("dw.d", "d", "c", {"n": "count"}, has_days=True, columns={"n": "n_change"})
    totals = Counted("dw.t", "t", "c", {"n": "count"})
    query = " ".join(count_query(days, date(2026, 3, 8), totals).split())
    assert query.count("from dw.d where cut_date > date '2025-09-05'") == query.count("dw.d") == 1
    assert "if(cut_date is null, n - n_of_days, n) as n" in query and query.count("dw.t") == 1
    # without such a table the earlier days are summed up
    query = " ".join(count_query(days, date(2026, 3, 8)).split())
    assert "where not cut_date > date '2025-09-05'" in query
    windows = Counted("dw.w", "w", "c", {"n": "count"}, grains=("5m", "1d"), sets={"city": "city"})
    query = " ".join(count_query(windows, date(2026, 3, 8)).split())
    assert query.count("dw.w") == 1
    assert "(grain = '5m' and dimension_set = 'all' and cut_date > date '2026-03-05')" in query
    assert "(grain = '1d' and dimension_set = 'all' and cut_date > date '2025-09-05')" in query


class Warehouse:
    """Answers queries that hold a text; the others ask a table that isn't there."""

    schema = "dw"

    def __init__(self, **answers: list[dict[str, Any]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def rows(self, sql: str) -> list[dict[str, Any]] | None:
        self.asked.append(" ".join(sql.split()))
        held = [rows for text, rows in self.answers.items() if text in self.asked[-1]]
        return held[0] if held else None

    def commits(self) -> list[dict[str, Any]]:
        return []


def facts_of(warehouse: Any, *counted: Counted) -> Facts:
    gathering = Gathering(warehouse)
    gathering.ask(counted)
    return gathering.facts()


def test_a_day_that_is_far_ahead_is_counted_in_words_and_takes_no_place_in_a_chart() -> None:
    """A row of 2099 would be the newest day, and all others would lie before what is drawn."""
    days = Counted("dw.d", "d", "c", {"n": "count"}, has_days=True, columns={"n": "n_change"})
    newest, last = date(2026, 3, 8), date(2099, 1, 1)

    class Ahead(Warehouse):
        def rows(self, sql: str) -> list[dict[str, Any]] | None:
            if sql == "select max(cut_date) as newest from dw.d":
                return [{"newest": last}]
            return super().rows(sql)

    answers = {"as newest from dw.d where": [{"newest": newest}]}
    asked = Ahead(**answers, **{"count(distinct cut_date)": [{"count": 3, "days": 2}]})
    facts = facts_of(asked, days)
    assert facts.beyond == {"d": {"count": 3, "days": 2, "newest": newest, "last": last}}
    [drawn] = [sql for sql in asked.asked if "as value" in sql]
    assert "where cut_date > date '2025-09-05'" in drawn
    assert drawn.count("cut_date <= date '2026-03-08'") == 2  # which groups, and which days
    text = "Not drawn: 3 rows of 2 days after 2026-03-08 (to 2099-01-01)."
    assert of_count(days, [], facts.beyond["d"]).note == text
    # a table that has no other day shows these
    facts = facts_of(Ahead(**{"as newest from dw.d where": [{"newest": None}]}), days)
    assert facts.beyond == {}


def test_days_and_hours_that_are_far_off_are_counted_in_words() -> None:
    rows = [{"day": date(*day)} for day in ((1969, 12, 31), (2026, 3, 8), (2026, 3, 10))]
    shown, text = recent(rows, "day", NOW, "day", "days")  # a zone may be a day ahead
    assert shown == rows[1:] and text.startswith("Not drawn: 1 day before 2025-09-08 (from 1969-")
    shown, text = recent([*rows, {"day": date(2026, 3, 11)}], "day", NOW, "day", "days")
    assert shown == rows[1:] and text.endswith(", 1 day after 2026-03-10 (to 2026-03-11).")
    assert recent(rows[1:], "day", NOW, "day", "days") == (rows[1:], "")
    assert recent([], "day", NOW, "day", "days") == ([], "")
    # a message of the producer's own clock, months behind a log that was replayed
    log = [{"day": date(2025, 3, day)} for day in range(1, 29)] * 3
    shown, text = recent([*log, {"day": date(2026, 3, 1)}], "day", NOW, "hour", "hours")
    assert shown == log and text == "Not drawn: 1 hour after 2025-03-28 (to 2026-03-01)."
    made = context(texts=("shop",))
    hours = made.facts.rows["hours"]
    hours.append({"topic": "shop", "hour": datetime(1969, 1, 1, tzinfo=UTC), "messages": 1})
    hours.append({"topic": "shop", "hour": None, "messages": 2})
    [chart] = [chart for chart in received_section(made).charts if "hour" in chart.title]
    assert len(chart.rows) == 24
    assert chart.note == (
        "Not drawn: 1 hour of a topic before 2025-09-07 (from 1969-01-01 on). "
        "Not drawn: 2 messages of hours that are still to come."
    )


def test_what_a_warehouse_lacks_is_named_and_everything_else_is_shown() -> None:
    """An empty one, or one that older code built: it has no meta_message_block, say."""
    totals = Counted("dw.t", "t", "c", {"n": "count"})
    facts = facts_of(Warehouse(), totals)
    assert facts.missing == [*MODELS.values(), "t"]
    assert not any(facts.rows.values()) and facts.counts == {"t": []}
    empty = replace(context(texts=("shop",)), facts=facts, counted=[totals])
    notes = [note for section in sections_of(empty) for note in section.notes]
    assert any(note.text.startswith("7 models aren't in the warehouse") for note in notes)
    # without its blocks the quarantine is asked as a whole
    refused = [{"refused_by": "ods", "topic": "a", "reason": "b", "messages": 1, "sample": "c"}]
    older = Warehouse(meta_quarantine=refused)
    assert facts_of(older).rows["refused"] == refused
    assert any("meta_quarantine where true" in sql for sql in older.asked)


def test_what_a_run_wrote_into_a_table_is_added_up() -> None:
    early, late = datetime(2026, 3, 1, 1), datetime(2026, 3, 1, 2)
    wrote = [("a", "x", early, 2), ("b", "x", early, 1), ("b", "y", late, 5), ("b", "x", late, 3)]
    commits = [
        {"run_id": run, "table_name": table, "committed_at": at, "rows_added": n, "rows_removed": 1}
        for run, table, at, n in wrote
    ]
    found = tables_of_runs(commits)
    assert [(row["run_id"], row["table_name"], row["rows_added"]) for row in found] == [
        ("b", "y", 5),
        ("b", "x", 4),
        ("a", "x", 2),
    ]
    assert (found[1]["first_commit"], found[1]["last_commit"]) == (early, late)
    assert found[1]["rows_removed"] == 2


def test_refused_messages_are_looked_for_near_their_offsets_alone() -> None:
    assert "where false" in refused_query("dw", [])
    query = refused_query("dw", [(70, 99), (0, 20), (15, 30)])
    assert "where message_offset between 0 and 30 or message_offset between 70 and 99\n" in query


def test_net_changes_add_up_to_totals_of_days_and_what_lies_before_them() -> None:
    first, last = date(2026, 3, 1), date(2026, 3, 4)
    rows = [
        {"cut_date": None, "value": "paid", "n": 5},
        {"cut_date": first, "value": "paid", "n": -2},
        {"cut_date": last, "value": "paid", "n": 1},
        {"cut_date": last, "value": "made", "n": Decimal("0.10")},
    ]
    assert to_date(rows, "n") == [
        {"cut_date": first, "value": "paid", "n": 3},
        {"cut_date": first, "value": "made", "n": 0},
        {"cut_date": last, "value": "paid", "n": 4},
        {"cut_date": last, "value": "made", "n": Decimal("0.10")},
    ]


def results(number: int, status: str = "pass") -> dict[str, Any]:
    """What dbt writes of a command that ran a model and a data test."""
    return {
        "metadata": {
            "invocation_id": f"run-{number}",
            "generated_at": f"2026-03-01T00:{number // 60:02}:{number % 60:02}.000000Z",
        },
        "args": {"which": "build"},
        "elapsed_time": 12.34,
        "results": [
            {"unique_id": "model.shop.orders", "status": "success"},
            {
                "unique_id": "test.shop.unique_orders.1a",
                "status": status,
                "failures": 3 if status == "fail" else 0,
                "compiled_code": "select 1",
            },
        ],
    }


def test_each_command_is_kept_once_the_newest_first(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "kept"
    target.mkdir()
    assert record(target, folder) == []
    for number, status in ((1, "pass"), (2, "fail"), (2, "fail")):
        text = json.dumps(results(number, status))
        (target / "run_results.json").write_text(text, encoding="utf-8")
        found = record(target, folder)
    assert (
        [entry["id"] for entry in found]
        == ["run-2", "run-1"]
        == [entry["id"] for entry in read(folder)]
    )
    assert found[0]["status"] == "failed" and found[0]["tests"] == {"fail": 1}
    assert found[0]["problems"][0]["query"] == "select 1" and found[0]["problems"][0]["rows"] == 3
    assert found[1]["status"] == "passed" and found[1]["problems"] == []
    for number in range(3, KEPT + 5):
        (target / "run_results.json").write_text(json.dumps(results(number)), encoding="utf-8")
        record(target, folder)
    assert len(read(folder)) == KEPT and read(folder)[-1]["id"] == "run-5"
    # a line that was cut off takes none of the others with it
    (folder / "commands.jsonl").write_text('{"id": "run-1", "ended_at": "2026"}\n{"id"', "utf-8")
    assert [entry["id"] for entry in read(folder)] == ["run-1"]


def test_a_run_that_was_refused_at_its_start_needs_a_person(tmp_path: Path) -> None:
    """No node was built: dbt's results hold the hook that refused it."""
    refused = results(1)
    hook = "operation.shop.shop-on-run-start-0"
    refused["results"] = [{"unique_id": hook, "status": "error", "message": "Another run writes."}]
    (tmp_path / "run_results.json").write_text(json.dumps(refused), encoding="utf-8")
    made = replace(context(texts=("shop",)), commands=record(tmp_path, tmp_path))
    notes = [note.text for note in overview_section(made, []).notes]
    assert any("shop-on-run-start-0" in text and "ended as error" in text for text in notes)
    [problems] = [table for table in correctness_section(made).tables if table.id == "problems"]
    assert "Another run writes." in [cell.text for row in problems.rows for cell in row]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"args": {"which": "compile"}, "results": []}']
)
def test_a_command_that_wrote_and_tested_nothing_is_not_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "run_results.json").write_text(text, encoding="utf-8")
    assert record(tmp_path, tmp_path) == []


def test_the_page_of_a_version_is_kept_while_it_is_the_newest(tmp_path: Path) -> None:
    page, folder = tmp_path / "report.html", tmp_path / "reports"
    page.write_text("first", encoding="utf-8")
    assert keep(page, folder, []) == []
    assert keep(page, folder, [{"version": 1}]) == [folder / "version-1.html"]
    page.write_text("second", encoding="utf-8")
    keep(page, folder, [{"version": 2}, {"version": 1}])
    assert (folder / "version-1.html").read_text(encoding="utf-8") == "first"
    assert (folder / "version-2.html").read_text(encoding="utf-8") == "second"
    assert sorted(file.name for file in folder.iterdir()) == ["version-1.html", "version-2.html"]


@pytest.mark.parametrize(
    ("warehouse", "folder"),
    [("s3://bucket/warehouse", "target/reports"), ("/data/warehouse", "/data/warehouse/reports")],
)
def test_pages_are_kept_beside_the_tables_where_those_lie_in_a_folder(
    warehouse: str, folder: str
) -> None:
    settings = SparkSessionCredentials(schema="dw", database=None, warehouse=warehouse)
    assert kept_folder(settings, Path("target")) == Path(folder)


def test_what_needs_a_person_comes_first_and_runs_have_their_status() -> None:
    made = context(texts=("broken",))
    section = overview_section(made, [])
    assert section.cards[0].id == "to_do" and section.cards[0].value == "1"
    assert [note.text for note in section.notes] == [
        "\u2068broken\u2069 ended as fail in the last command, with 3 rows."
    ]
    found = runs(made)
    assert [row["status"] for row in found] == ["published as version 2", "published as version 1"]
    assert [row["seconds"] for row in found] == [40.5, 30.0]
    assert [row["rows_added"] for row in found] == [200, 100]


def test_a_note_of_a_single_thing_reads_as_of_a_single_thing() -> None:
    made = context(texts=("shop",))
    texts = [
        note.text for note in (*correctness_section(made).notes, *received_section(made).notes)
    ]
    assert texts == [
        "1 break of the log's chain is open (meta_order_chain_break).",
        "\u2068shop\u2069: 1 group differs.",
        "1 message was refused: the reasons are below Input (meta_quarantine).",
        "2 offsets are missing within topics (meta_topic_volume).",
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_without_a_warehouse_is_named_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    folder = tmp_path / "warehouse"
    if is_there:
        folder.mkdir()
    monkeypatch.setenv("WAREHOUSE", str(folder))
    with pytest.raises(ReportError, match=f"^{folder} holds no warehouse: `make run` builds one"):
        make_report(REPO)
    assert list(tmp_path.rglob("*")) == [folder] * is_there
