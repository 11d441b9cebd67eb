"""Whatever comes in at any entry is applied, or stands in quarantine with its reason, or is refused
by one sentence; nothing crashes and nothing is lost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.factory import get_adapter_by_type
from dbt.adapters.sparksession.keyed import tables
from dbt.adapters.sparksession.keyed.zippers import Zipper
from dbt.adapters.sparksession.versions.arguments import a_name
from dbt.adapters.sparksession.versions.maintenance import Maintenance
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.publications import publication_of
from dbt.adapters.sparksession.versions.targets import PublishError
from dbt_common.exceptions import DbtRuntimeError

from python_udfs.ingestion.declared.table_settings import settings_problem, table_settings
from python_udfs.ingestion.declared.table_source import table_source
from python_udfs.ingestion.declared.topic_formats import problems_of
from python_udfs.ingestion.landing.files import list_files, longest_line
from python_udfs.ingestion.landing.kafka import kafka_source
from python_udfs.ingestion.tables.types import source_type
from python_udfs.targets import clickhouse, kafka, targets, transactional
from tests.support.dbt_project import DbtProject
from tests.support.hostile import MESSAGES, VALUES, placed, row_messages
from tests.support.small_warehouse import PROJECT
from tests.support.warehouse import Warehouse

# texts for entries that take one: names, addresses, arguments
TEXTS = [
    *(
        "",
        " ",
        ".",
        "..",
        "/",
        "\\",
        "~",
        "*",
        "?",
        "-",
        "--help",
        "$HOME",
        "${env:HOME}",
    ),
    *(
        "{{ x }}",
        "{% x %}",
        "'",
        '"',
        "`",
        ";",
        "a;b",
        "a b",
        "a\tb",
        "a\nb",
        "\x1b[31m",
    ),
    *(
        "\u202e",
        "\u0661",
        "\xe9",
        "e\u0301",
        "\U0001f600",
        "null",
        "None",
        "true",
        "0",
    ),
    *(
        "-1",
        "1e999",
        "9" * 50,
        "x" * 200,
        "../../etc/passwd",
        "file:///etc/passwd",
    ),
    *(
        "http://",
        "https://h",
        "jdbc:",
        "jdbc:h2:mem:x",
        "jdbc:mysql://",
        "jdbc:mysql://h/",
    ),
    *(
        "jdbc:mysql://h/d?allowLoadLocalInfile=true",
        "a=b",
        "=",
        ",",
        "a=mysql,a=kafka",
    ),
    *(
        "A=mysql",
        "a=mysql,,",
        "a=oracle",
        "~[",
        "~(a+)+$",
        "[",
        "{",
        "[]",
        "{}",
        "[1]",
    ),
    *(
        "http://u:p@h/d",
        "http://h/d#x",
        "http://[::1/d",
        "http://h:99999/d",
    ),
    *(
        "http://h:x/d",
        "chdb:",
        "chdb:/",
        "chdb:relative/db",
        "ftp://h/d",
        "again:maxwell",
    ),
    *(
        "a+0+0.jsonl",
        "CON",
        "%00",
        "%2e",
    ),
]
REFUSES = (ValueError, FileNotFoundError, PublishError, DbtRuntimeError, ConnectionError)
SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default=None: default))


def answer(call: Callable[[], Any]) -> str:
    """`taken`, or the one sentence by which it is refused."""
    try:
        call()
    except REFUSES as exc:
        reported = str(exc)
        assert reported.strip() and "Traceback" not in reported, repr(exc)
        return reported
    return "taken"


@pytest.mark.in_turn
def test_every_message_is_applied_or_stands_in_quarantine(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    topics = {topic: list(lines) for topic, lines in row_messages().items()}
    for name, topic in (("maxwell", "maxwell"), ("canal", "canal"), ("debezium", "debezium")):
        topics[topic] += [
            text.replace('"table": "o"', '"table": "coupon"')
            for text in placed(name, MESSAGES[name](), file_number=2)
        ]
    topics["mongo_app"] += placed("mongodb", MESSAGES["mongodb"](), file_number=2)
    # names of topics are data as well; and a line that is longer than the var allows
    names = ["{{ x }}", "';--", "$HOME", "a b\u00e9", "*"]
    row = {"database": "shop", "table": "order_info", "type": "insert", "ts": 1772467200}
    row |= {"data": {"order_id": 9}}
    for number, name in enumerate(names, start=3):
        topics[f"maxwell.{name}"] = placed("maxwell", [row], file_number=number)
    topics["maxwell"].append(json.dumps(row | {"x": "y" * 3_000_000}))
    for topic, lines in topics.items():
        warehouse.land_lines([line.encode() for line in lines], 0, topic=topic)
    total = sum(map(len, topics.values()))
    print({topic: len(lines) for topic, lines in topics.items()}, total)
    assert total >= 1500

    chosen = (
        "--select",
        "+meta_quarantine",
        "+dws_trade__user_status_td",
        "dwd_traffic__page_view",
    )
    refused = warehouse.run("run", *chosen, vars={"max_line_mb": "x"}, expect_ok=False)
    output = " ".join(refused.log.split())
    assert "max_line_mb must be a number of MB up to 1024, got 'x'" in output, refused.log
    # of the declared columns some stand in no message
    allowed = {"reject_threshold": 1, "absent_columns_allowed": 99}
    warehouse.run("run", *chosen, vars=allowed | {"max_line_mb": 2})

    place = "topic, partition_number, message_offset"
    assert warehouse.column("select count(*) from dw.ods_binlog") == [total]
    assert warehouse.column(f"select count(distinct {place}) from dw.ods_binlog") == [total]
    assert warehouse.column("select count(*) from dw.meta_quarantine where reject_reason = ''") == [
        0
    ]
    typed = {
        ("shop", "order_info"): "ods_shop__order_info",
        ("app", "user_profile"): "ods_app__user_profile",
        ("traffic", "page_view"): "ods_traffic__page_view",
    }
    lost = []
    for (database, table), model in typed.items():
        lost += warehouse.query(
            f"""select log.topic, log.message_offset, log.op, left(log.payload, 300) as payload
            from dw.ods_binlog as log
            left anti join dw.{model} as typed
                using ({place})
            where log.reject_reason is null and log.op in ('insert', 'update', 'delete', 'snapshot')
                and log.database_name = '{database}' and log.table_name = '{table}'
                and log.format in ('maxwell', 'mongodb', 'events')"""
        )
    assert lost == []
    counts = warehouse.query(
        "select count_if(reject_reason is not null) as refused, "
        "count_if(reject_reason is null and op is null) as unread from dw.ods_binlog"
    )[0]
    assert counts["unread"] == 0
    in_quarantine = warehouse.column(f"select count(distinct {place}) from dw.meta_quarantine")[0]
    assert 0 < in_quarantine < total
    print(f"{in_quarantine} of {total} in quarantine, {counts['refused']} by their envelope")
    # each is reported once, with its own text
    rows = warehouse.query(
        "select topic, message_offset as n, reject_reason as reason, raw_text, raw_bytes "
        "from dw.meta_quarantine"
    )
    for item in rows:
        line = topics[item["topic"]][item["n"]]
        assert item["reason"]
        if len(line) > 2 << 20:
            assert item["reason"].startswith("the line is longer than 2097152 bytes (max_line_mb)")
            line = line[: 64 << 10]
        assert (item["raw_text"] or "") == line or item["raw_bytes"] is not None
    # nor does Spark put a variable's value into a text, nor may others read what was written
    text = "${env:HOME} ${spark.app.id}"
    assert warehouse.column(f"select '{text}'") == [text]
    written = [warehouse.warehouse, *warehouse.warehouse.rglob("*"), warehouse.target]
    written.append(warehouse.logs)
    assert len(written) > 100
    assert [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_every_name_of_a_file_is_taken_or_refused_by_a_sentence(tmp_path: Path) -> None:
    names = [name for name in TEXTS if name.strip("./") and "/" not in name and "\0" not in name]
    names += [f"{name}+0+0.jsonl" for name in names]
    answers = []
    for number, name in enumerate(names):
        landing = tmp_path / str(number)
        topic = name.partition("+")[0] or "t"
        folder = landing / "topics" / topic / "partition=0"
        try:
            folder.mkdir(parents=True)
            (folder / name).write_bytes(b"1\n")
        except OSError:  # no file can be named so
            continue
        reported = answer(lambda place=landing: list_files(str(place)))
        assert reported == "taken" or reported.isprintable(), name
        answers.append(reported)
    assert len(answers) > 80
    assert answers.count("taken") < len(answers)


def test_every_declaration_of_a_table_is_taken_or_refused_by_a_sentence() -> None:
    good: dict[str, Any] = {"database": "shop", "table": "o", "primary_key": ["id"]}
    good |= {"columns": {"id": "int", "state": "varchar(9)", "at": "datetime"}}
    keys = (*good, "cut_column", "columns_of_interest", "required_columns", "aliases", "format")
    keys += ("schema_version", "topic", "options", "x")
    hostile = [*VALUES, *TEXTS]
    answers = [
        answer(lambda key=key, value=value: table_source("ods_shop__o", good | {key: value}))
        for key in keys
        for value in hostile
    ]
    answers += [answer(lambda value=value: table_source("ods_shop__o", value)) for value in hostile]
    answers += [answer(lambda value=value: source_type(str(value))) for value in hostile]
    print(len(answers), answers.count("taken"))
    assert len(answers) > 1500


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith(("PUBLISH_", "KAFKA_")):
            monkeypatch.delenv(name)
    return monkeypatch


def test_every_address_and_setting_of_a_target_is_taken_or_refused(
    variables: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variables.chdir(tmp_path)
    texts = [text for text in TEXTS if "\0" not in text]
    answers = []
    for text in texts:
        variables.setenv("PUBLISH_TARGETS", text)
        answers.append(answer(targets))
        variables.setenv("PUBLISH_X_URL", text)
        variables.setenv("PUBLISH_X_USER", "u")
        for scheme in ("mysql", "postgresql"):
            answers.append(
                answer(lambda value=scheme: transactional.login("x", value, ("sslMode", "VERIFY")))
            )
        if not text.startswith(("http://h", "https://h", "http://[")):
            answers.append(answer(lambda: clickhouse.open_store(SESSION, "x", "w")))
        variables.setenv("PUBLISH_X_TLS", text)
        answers.append(answer(lambda: transactional.login("x", "mysql", ("sslMode", "VERIFY"))))
        variables.delenv("PUBLISH_X_TLS")
        variables.setenv("PUBLISH_X_OPTIONS", text)
        variables.setenv("PUBLISH_X_PARTITIONS", "no number")
        answers.append(answer(lambda: kafka.open_store(SESSION, "x", "w")))
        variables.setenv("KAFKA_OPTIONS", text)
        answers.append(answer(lambda: kafka_source({"servers": "h:1", "topics": "t"})))
        variables.delenv("KAFKA_OPTIONS")
        answers.append(answer(lambda value=text: kafka_source({"servers": "h:1", "topics": value})))
        answers.append(answer(lambda value=text: kafka_source({"servers": value, "topics": "t"})))
    print(len(answers), answers.count("taken"))
    assert len(answers) > 500
    assert list(tmp_path.iterdir()) == []  # no store is made beside a run


def test_every_declaration_of_a_publication_is_taken_or_refused() -> None:
    node = {"name": "counts", "config": {}, "resource_type": "model"}
    good = {"target": "serving", "table": "counts", "key": ["id"]}
    answers = []
    for key in (*good, "types", "mode", "x"):
        for value in [*VALUES, *TEXTS]:
            exposure = {"name": "e", "depends_on": {"nodes": ["model.x.counts"]}}
            exposure["config"] = {"meta": {"publish": good | {key: value}}}
            answers.append(answer(lambda it=exposure: publication_of(it, {"model.x.counts": node})))
    print(len(answers), answers.count("taken"))
    assert len(answers) > 500


# Vars and arguments


def test_every_var_of_a_table_or_its_log_is_taken_or_refused() -> None:
    good = {"business_zone": "+08:00", "cut_time_max_ahead_hours": 24, "batches": ["live"]}
    source = {"database": "shop", "table": "o", "primary_key": ["id"], "columns": {"id": "int"}}
    declared = {"ods_shop__o": table_source("ods_shop__o", source)}
    hostile = [*VALUES, *TEXTS]
    taken, refused = [], []
    for name in good:
        for text in hostile:
            problem = settings_problem("ods_shop__o", table_settings(good | {name: text}, {}))
            (refused if problem else taken).append((name, text))
    for text in hostile:
        for problems in (
            problems_of(declared, {"maxwell": text}),
            problems_of(declared, {str(text): "maxwell"}),
            [answer(lambda given=text: longest_line({"max_line_mb": given}))],
        ):
            assert all(map(str.strip, problems))
            (taken if problems in ([], ["taken"]) else refused).append(("", text))
    print(len(taken), len(refused))
    assert len(taken) + len(refused) > 500
    # what is taken can be used as it is
    assert [item for name, item in taken if name == "cut_time_max_ahead_hours"] == [5, "0"]
    assert longest_line({"max_line_mb": 0.5}) == 1 << 19


def test_every_var_of_what_is_rebuilt_is_taken_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    zipper = Zipper.__new__(Zipper)
    monkeypatch.setattr(Zipper, "time", "at", raising=False)
    monkeypatch.setattr(Zipper, "sequence", ("n",), raising=False)
    monkeypatch.setattr(tables, "columns_in", lambda _: [("at", "timestamp")])
    adapter: Any = SimpleNamespace(
        declared_fold=lambda _: zipper, runs_history=lambda _: None, _is_empty=lambda *_: False
    )
    model = {"name": "m", "language": "sql"}
    hostile = [*VALUES, *TEXTS]
    ranges = [text for text in hostile if text is not None]
    ranges += [{"from": text, "to": "2026-03-02"} for text in hostile]
    ranges += [{"from": "2026-03-02", "to": text} for text in hostile] + [{"from": 1}]
    answers = [
        answer(lambda value=value: tables.KeyedTables.range_to_rebuild(adapter, model, value))
        for value in ranges
    ]
    print(len(answers), answers.count("taken"))
    assert len(answers) > 250


@pytest.mark.in_turn
def test_every_argument_of_an_operation_is_taken_or_refused(
    make_project: Callable[..., DbtProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter's own operations, called with all of it within one command of dbt."""
    model = "{{ config(materialized='table') }} select id from range(3)"
    project = make_project({"dbt_project.yml": PROJECT, "models/rows.sql": model})
    project.run("build")
    for name in [text for text in os.environ if text.startswith("PUBLISH_")]:
        monkeypatch.delenv(name)
    graph: dict[str, Any] = {"graph": {"nodes": {}}}
    hostile = [value for value in [*VALUES, *TEXTS] if value is not None]
    a_few = [*hostile[::20], "\ud800"]
    answers: list[str] = []

    def all_of_it(maintenance: Any, _: Any) -> list[str]:
        # what these are given is checked before anything is asked
        adapter: Any = get_adapter_by_type("sparksession")
        calls = [lambda value=value: shown(maintenance, value) for value in hostile]
        calls += [
            lambda value=value: adapter.publications.publish_to(value, None, graph)
            for value in hostile
        ]
        calls += [
            lambda value=value: adapter.retention.expire_versions(value, "x", graph)
            for value in hostile
        ]
        calls += [
            lambda value=value: adapter.retention.expire_versions(9, value, graph)
            for value in hostile
        ]
        calls += [lambda value=value: a_name("tag", value) for value in hostile]
        calls += [
            lambda value=value: adapter.differences.diff_versions(0, 0, value, "x", graph)
            for value in hostile
        ]
        calls += [
            lambda value=value: adapter.differences.diff_versions(0, 0, None, value, graph)
            for value in a_few
        ]
        calls += [
            lambda value=value: adapter.compaction.compact(value, False, graph) for value in a_few
        ]
        calls += [lambda value=value: adapter.rollback.roll_back(value, graph) for value in a_few]
        calls += [lambda value=value: adapter.retention.keep_version(1, value) for value in a_few]
        answers.extend(answer(call) for call in calls)
        return []

    monkeypatch.setattr(OneWriter, "writing", lambda _: nullcontext())
    shown = Maintenance.list_versions
    monkeypatch.setattr(Maintenance, "list_versions", all_of_it)
    project.run("run-operation", "list_versions")

    print(len(answers), answers.count("taken"))
    assert len(answers) > 600
    assert project.column("select count(*) from published.rows") == [3]
    assert project.column("select version from dw.meta_version") == [1]
