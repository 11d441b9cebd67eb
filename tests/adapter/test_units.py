"""The adapter's parts that need no Spark."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbt.adapters.sparksession import session
from dbt.adapters.sparksession.connections import SparkSessionConnectionManager
from dbt.adapters.sparksession.declared.business_time import utc_hours
from dbt.adapters.sparksession.iceberg.history import History, KeptHistories, Snapshot
from dbt.adapters.sparksession.iceberg.partitions import (
    asked_partitions,
    partition_predicate,
    partition_values,
    period_after,
    period_starts,
)
from dbt.adapters.sparksession.inputs import Inputs, sql_mark
from dbt.adapters.sparksession.java import find_java, java_major
from dbt.adapters.sparksession.read_plans import ASKED_PROPERTY, Read
from dbt.adapters.sparksession.seeds import Seeds
from dbt.adapters.sparksession.session import message_of
from dbt.adapters.sparksession.sql import literal
from dbt_common.exceptions import CompilationError, DbtRuntimeError

# ---- what dbt show prints --------------------------------------------------------------------


def test_dbt_show_prints_the_reason_of_a_refused_message_whole() -> None:
    """agate cuts each text after 20 characters."""
    reason = "data.viewed_at = 'yesterday, at some time in the evening' is no timestamp(3)"
    cursor = SimpleNamespace(
        description=[("reject_reason",), ("message_offset",), ("raw_text",)],
        fetchall=lambda: [(reason, 7, "x" * 400)],
    )
    table = SparkSessionConnectionManager.get_result_from_cursor(cursor, None)
    output = io.StringIO()
    table.print_table(output=output, max_rows=None)  # as dbt calls it
    assert reason in output.getvalue() and "reject_reason" in output.getvalue()
    assert "x" * 200 in output.getvalue() and "x" * 301 not in output.getvalue()
    assert [tuple(row) for row in table.rows] == [(reason, 7, "x" * 400)]


# ---- Java ------------------------------------------------------------------------------------


def fake_java(home: Path, version: str) -> str:
    """Make `home`/bin/java, which states that it is `version`; return `home`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return str(home)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A machine without any Java, and the three places that are looked at."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/onpath/bin:/usr/bin-none")
    monkeypatch.setattr(session.sys, "prefix", str(tmp_path / "venv"))
    # the fake java is a script for /bin/sh, found by its own first line
    return {
        "home": tmp_path / "home",
        "path": tmp_path / "onpath",
        "setup": tmp_path / "venv" / "jre",
    }


@pytest.mark.parametrize(
    ("version", "major"),
    [("1.8.0_452", 8), ("11.0.27", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)],
)
def test_java_reports_its_major_version(tmp_path, version, major):
    home = fake_java(tmp_path / "jdk", version)
    assert java_major(f"{home}/bin/java") == major


def test_java_that_does_not_run_has_no_version(tmp_path):
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert java_major(str(broken)) is None
    assert java_major(str(tmp_path / "nowhere")) is None


def test_java_home_is_taken_first(places, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", fake_java(places["home"], "17.0.15"))
    fake_java(places["path"], "21.0.1")
    assert find_java() == str(places["home"])


@pytest.mark.parametrize("unfit", ["11.0.27", "25"])
def test_unfit_java_home_gives_way_to_the_path(places, monkeypatch, unfit):
    monkeypatch.setenv("JAVA_HOME", fake_java(places["home"], unfit))
    fake_java(places["path"], "17.0.15")
    assert find_java() == str(places["path"])


def test_java_of_setup_is_the_last_resort(places):
    fake_java(places["path"], "11.0.27")
    fake_java(places["setup"], "17.0.15")
    assert find_java() == str(places["setup"])


def test_unfit_java_is_named_in_one_sentence(places, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", fake_java(places["home"], "11.0.27"))
    fake_java(places["path"], "25")
    with pytest.raises(DbtRuntimeError) as failed:
        find_java()
    text = str(failed.value)
    assert "Spark needs Java 17 to 24; found" in text
    assert f"{places['home']} (Java 11), {places['path']} (Java 25)" in text
    assert "make setup" in text and "JAVA_HOME" in text
    assert len([line for line in text.splitlines() if line.strip()]) <= 2  # dbt adds a heading


def test_missing_java_is_reported(places):
    with pytest.raises(DbtRuntimeError, match=r"Spark needs Java 17 to 24; found .*no Java"):
        find_java()


# ---- errors ----------------------------------------------------------------------------------


class JavaError:
    """What py4j shows of a Java exception."""

    def __init__(self, name: str, message: str, cause: JavaError | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> JavaError:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> JavaError | None:
        return self.cause


def test_java_stack_is_left_out_of_a_message():
    error = RuntimeError(
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\nJVM stacktrace:\n"
        "org.apache.spark.SparkArithmeticException\n\tat org.apache.spark.X.y(X.scala:1)"
    )
    assert message_of(error) == "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"


def test_stack_lines_are_left_out_wherever_they_stand():
    error = RuntimeError(
        "Job aborted\nDriver stacktrace:\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
        "\t... 12 more\nCaused by: disk is full"
    )
    assert message_of(error) == "Job aborted\nCaused by: disk is full"


def test_query_plan_is_left_out_of_an_analysis_error():
    error = RuntimeError(
        "[UNRESOLVED_COLUMN] A column `x` cannot be resolved; line 1 pos 7;\n"
        "'Project ['x]\n+- OneRowRelation"
    )
    assert message_of(error) == (
        "[UNRESOLVED_COLUMN] A column `x` cannot be resolved; line 1 pos 7"
    )


def test_causes_of_a_java_error_are_reported():
    error = RuntimeError("An error occurred while calling o42.sql.")
    error.java_exception = JavaError("a.Outer", "failed", JavaError("b.Inner", "no such file"))
    assert message_of(error) == "a.Outer: failed\nCaused by: b.Inner: no such file"


# ---- snapshots -------------------------------------------------------------------------------


def history(*commits: tuple[int, int | None, str, dict[str, str]], head: int) -> History:
    return History(head, {commit[0]: Snapshot(*commit) for commit in commits})


LINE = history(
    (1, None, "append", {"k": "a"}),
    (2, 1, "append", {}),
    (3, 2, "replace", {"k": "b"}),
    (4, 3, "append", {}),
    (9, 1, "append", {"k": "rolled back"}),
    head=4,
)


def test_commits_between_two_snapshots_are_newest_first():
    assert [item.id for item in LINE.between(1, 4)] == [4, 3, 2]
    assert LINE.between(4, 4) == []


@pytest.mark.parametrize("first", [None, 9, 77], ids=["never read", "rolled back", "expired"])
def test_nobody_knows_what_came_after_a_snapshot_that_is_no_ancestor(first):
    assert LINE.between(first, 4) is None


def test_replaced_table_does_not_descend_from_its_past():
    replaced = history((1, None, "append", {}), (2, None, "append", {}), head=2)
    assert replaced.between(1, 2) is None


def test_newest_ancestor_that_speaks_of_a_key_is_asked():
    assert LINE.recorded("k", "model.a") == "b"
    assert LINE.recorded("unheard of", "model.a") is None
    assert History(None, {}).recorded("k", "model.a") is None


def test_commit_of_another_model_is_not_asked():
    written = history(
        (1, None, "append", {"k": "mine", "dbt.table": "model.a"}),
        (2, 1, "append", {"k": "another's", "dbt.table": "model.b"}),
        head=2,
    )
    assert written.recorded("k", "model.a") == "mine"


@pytest.mark.parametrize(
    ("operation", "summary", "adds_only"),
    [
        ("append", {"added-records": "3"}, True),
        ("replace", {"added-records": "3", "deleted-records": "3"}, True),
        ("overwrite", {"added-records": "3"}, False),
        ("delete", {"deleted-records": "1"}, False),
        ("overwrite", {"added-delete-files": "1"}, False),
        ("overwrite", {}, True),
    ],
)
def test_only_a_commit_that_added_is_read_incrementally(operation, summary, adds_only):
    assert Snapshot(1, None, operation, summary).adds_only is adds_only


def test_partitions_come_from_the_summary():
    summary = {
        "changed-partition-count": "2",
        "partitions.day=2026-03-01": "added-records=1",
        "partitions.day=2026-03-02": "added-records=1",
    }
    commit = Snapshot(1, None, "append", summary)
    assert commit.partitions() == {"day=2026-03-01", "day=2026-03-02"}


def test_partitions_are_unknown_above_the_limit():
    assert Snapshot(1, None, "append", {"changed-partition-count": "9"}).partitions() is None
    assert Snapshot(1, None, "append", {}).partitions() == set()


# ---- partitions and pins ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "predicate"),
    [
        ({"day=2026-03-02", "day=2026-03-01"}, "day in ('2026-03-01', '2026-03-02')"),
        ({"day=O%27Brien"}, "day in ('O\\'Brien')"),
        ({"day=a+b%2F%C3%A9%3D"}, "day in ('a b/é=')"),
        ({"day=null"}, "day is null"),
        ({"day=1", "day=null"}, "day in ('1') or day is null"),
        ({"level=0/day=1", "level=1/day=1"}, "day in ('1')"),
        (set(), "false"),
    ],
)
def test_changed_partitions_become_a_condition(partitions, predicate):
    assert partition_predicate("day", partition_values("day", partitions)) == predicate


def test_a_text_partition_may_be_null_or_the_text_null():
    expected = "city in ('Oslo', 'null') or city is null"
    assert partition_predicate("city", {"Oslo", "null"}, "string") == expected
    assert partition_predicate("city", {"Oslo", "null"}, "varchar(9)") == expected


def test_bytes_of_a_partition_are_read_from_base64():
    assert partition_predicate("k", {"AQ=="}, "binary") == "k in (X'01')"
    expected = "k in (X'9EE965') or k is null"  # whose base64 is the word null
    assert partition_predicate("k", {"null"}, "binary") == expected


def test_a_partition_column_of_any_name_is_found():
    assert partition_values("`a b`", {"a+b=1", "a+b=2/c=3"}) == {"1", "2"}


def test_partition_column_must_be_there():
    with pytest.raises(ValueError, match="no partition column 'day' in 'month=3'"):
        partition_values("day", {"day=1", "month=3"})


def test_asked_days_are_named_as_the_summaries_name_partitions():
    assert asked_partitions("day", ["2026-03-01", "2026-03-02"]) == {
        "day=2026-03-01",
        "day=2026-03-02",
    }
    assert asked_partitions("day", []) == set()


@pytest.mark.parametrize("days", ["2026-03-01", ["2026-03-01' or true"], ["march"], [20260301]])
def test_asked_days_that_are_invalid_are_named(days):
    with pytest.raises(ValueError, match=r"must be a list of days .*, got"):
        asked_partitions("day", days)


def test_periods_follow_each_other_over_the_end_of_a_year():
    assert period_after(date(2026, 1, 1), "year") == date(2027, 1, 1)
    assert period_after(date(2026, 12, 1), "month") == date(2027, 1, 1)
    months = period_starts(date(2026, 11, 1), date(2027, 2, 1), "month")
    assert months == [date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)]


def test_a_model_that_is_asked_for_days_has_something_to_do():
    inputs = Inputs()
    assert inputs.note_read("model", Read("dw.log", recorded=1, pinned=1), "all").unchanged
    asked = inputs.note_properties("model", {ASKED_PROPERTY: "2026-03-01"})
    assert not asked.unchanged


@pytest.mark.parametrize(
    ("sql", "other", "same"),
    [
        ("select 1 -- it's one", "select   1", True),
        ("{{ config(a='--') }}select 'a b' /* '1' */", "select 'a b' {# '2' #}", True),
        ("select '--a'", "select '--b'", False),
        ("select 'it\\'s --a', 1", "select 'it\\'s --b', 1", False),
        ("select '/*' || 'a' || '*/'", "select '/*' || 'b' || '*/'", False),
        ("select 'a  b'", "select 'a b'", False),
        ("select `a--b`", "select `a--c`", False),
    ],
)
def test_only_what_changes_rows_changes_the_mark_of_a_models_sql(sql, other, same):
    assert (sql_mark(sql) == sql_mark(other)) == same


@pytest.mark.parametrize(
    ("sql", "calls"),
    [
        ("select cut_date, hour(create_time), count(*) from x", ["hour(create_time)"]),
        ("select cut_date, extract(hour from a.t) from x", ["extract(hour from a.t)"]),
        ("select cut_month, date_trunc('DAY', t) from x", ["date_trunc('DAY', t)"]),
        ("select cut_date, date_format(t, 'HH:mm') from x", ["date_format(t, 'HH:mm')"]),
        ("select cut_date, hour(\n cast(t as date)\n) from x", ["hour( cast(t as date) )"]),
        ("select hour(create_time) from x", []),  # no day of the business zone beside it
        ("select cut_date, hour({{ business_time('create_time') }}) from x", []),
        ("select cut_date, {{ business_time('t') }} as shown, hour(shown) from x", []),
        ("select cut_date, hour(from_utc_timestamp(t, '+08:00')) from x", []),
        ("select cut_date, date_trunc('minute', t), date_format(t, 'yyyy') from x", []),
        ("select cut_date -- hour(create_time)\nfrom x", []),
        ("select cut_date, to_date(t), date(t) from x", ["to_date(t)", "date(t)"]),
        ("select cut_date, cast(t as date), a.t::date from x", ["cast(t as date)", "a.t::date"]),
        ("select cut_date, dayofweek(t), day(t) from x", ["dayofweek(t)", "day(t)"]),
        ("select cut_date, trunc(t, 'week') from x", ["trunc(t, 'week')"]),
        ("select cut_date, window(t, '1 day') from x", ["window(t, '1 day')"]),
        ("select cut_date, extract(day from t) from x", ["extract(day from t)"]),
        ("select cut_date, window(t, '5 minutes'), cast(t as bigint) from x", []),
        ("select cut_date, dayofweek(cut_date), trunc(cut_date, 'month') from x", []),
        ("select cut_date, date_trunc('week', cut_date), date('2026-03-01') from x", []),
        ("select cut_date, cast(birthday as date), {{ to_date(count=x()) }} from x", []),
        ("select cut_date, cast({{ business_time('t') }} as date) from x", []),
        ('x.select("cut_date", F.hour("t"))', ['hour("t")']),
        ('x.select("cut_date", F.col("t").cast("date"))', ['col("t").cast("date")']),
        ('l = F.from_utc_timestamp("t", zone)\nx.select("cut_date", F.hour(l))', []),
    ],
)
def test_hours_of_utc_beside_business_days_are_found(sql, calls):
    assert list(utc_hours(sql)) == calls


def test_table_is_pinned_once_until_the_run_builds_it():
    inputs = Inputs()
    assert inputs.pin("dw.x", 1) == 1
    assert inputs.pin("dw.x", 2) == 1
    inputs.built("dw.x")
    assert inputs.pinned("dw.x") is None
    assert inputs.pin("dw.x", 2) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 3, 1), "date '2026-03-01'"),
        (datetime(2026, 3, 1, 4, 5), "timestamp '2026-03-01 04:05:00'"),
        ("O'Brien \\", "'O\\'Brien \\\\'"),
    ],
)
def test_values_become_literals(value, text):
    assert literal(value) == text


def test_a_metadata_file_is_read_once_as_long_as_others_do_not_push_it_out():
    kept, read = KeptHistories(count=2), []

    def history(location: str) -> History:
        def reports() -> dict:
            read.append(location)
            return {"refs": {"main": {"snapshot-id": len(location)}}, "table-uuid": location}

        return kept.of(location, reports)

    assert [history(item).head for item in ("a", "bb", "a", "ccc", "a", "bb")] == [1, 2, 1, 3, 1, 2]
    assert read == ["a", "bb", "ccc", "bb"]


def test_a_tables_newest_history_shares_its_commits_with_the_last():
    kept, commits = KeptHistories(count=2), [{"snapshot-id": 1, "summary": {"operation": "append"}}]

    def of(location: str, uuid: str) -> History:
        content = {"snapshots": list(commits), "table-uuid": uuid}
        return kept.of(location, lambda: content)

    first, other = of("1.json", "a"), of("other.json", "b")
    commits.append(commits[0] | {"snapshot-id": 2, "parent-snapshot-id": 1})
    second = of("2.json", "a")
    assert second.snapshots[1] is first.snapshots[1]
    assert [(item.id, item.parent) for item in second.snapshots.values()] == [(1, None), (2, 1)]
    assert of("other.json", "b") is other, "the table's own earlier history went"
    assert of("1.json", "a") is not first


# ---- seeds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "quote_columns", "is_taken"),
    [
        (["id", "first_name", "größe"], False, True),
        (["id", "first name"], False, False),
        (["id", "first name"], None, True),
        (["id;first_name"], None, False),
        (["id;first_name"], True, True),
    ],
)
def test_a_seeds_header_that_its_delimiter_does_not_cut_is_refused(names, quote_columns, is_taken):
    model = {"name": "city", "config": {"quote_columns": quote_columns, "delimiter": ","}}
    seeds = Seeds(None, None)
    if is_taken:
        seeds.check_header(model, SimpleNamespace(column_names=names))
        return
    with pytest.raises(CompilationError, match=r"its header has the column .*delimiter is ','"):
        seeds.check_header(model, SimpleNamespace(column_names=names))
