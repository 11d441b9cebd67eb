"""OpenLineage events of commits and views, held to OpenLineage's own schemas."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.support.dbt_project import REPO
from tools.lineage.events import lineage_events, send_events, write_events
from tools.lineage.warehouse import Lineage

SCHEMAS = REPO / "tests" / "fixtures" / "openlineage"
RUN = "01890000-0000-7000-8000-000000000001"
NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)


def node(name: str, materialized: str, sql: str, *parents: str, columns: str) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "language": "sql",
        "name": name,
        "schema": "dw",
        "unique_id": f"model.shop.{name}",
        "fqn": ["shop", "dws", name],
        "depends_on": {"nodes": [f"model.shop.{parent}" for parent in parents]},
        "columns": {column: {} for column in columns.split()},
        "config": {"materialized": materialized},
        "compiled_code": sql,
    }


NODES = [
    node("orders", "incremental", "select 1 as id, 2 as amount", columns="id amount"),
    node("paid", "view", "select id, amount from dw.orders", "orders", columns="id amount"),
    node(
        "totals",
        "folded",
        "select sum(amount) as amount, count(*) as n from dw.paid",
        "paid",
        columns="amount n",
    ),
]
MANIFEST = {"sources": {}, "nodes": {found["unique_id"]: found for found in NODES}}


def commit(table: str, snapshot: int, *inputs: tuple[str, int]) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "table_name": table,
        "model_id": f"model.shop.{table.removeprefix('dw.').removesuffix('__runs')}",
        "snapshot_id": snapshot,
        "committed_at": NOW,
        "rows_added": 7,
        "inputs": [{"input_table": name, "input_snapshot_id": at} for name, at in inputs],
    }


COMMITS = [commit("dw.orders", 11), commit("dw.totals__runs", 2**60 + 1, ("dw.orders", 11))]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events as they stand in the file."""
    file = tmp_path_factory.mktemp("events") / "openlineage.jsonl"
    write_events(lineage_events(Lineage(MANIFEST), COMMITS, "file:///data/warehouse", NOW), file)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def schema(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


REGISTRY: Registry[Any] = Registry().with_resources(
    (found["$id"], Resource.from_contents(found))
    for found in (schema(file.stem) for file in SCHEMAS.glob("*.json"))
)


def facets_of(value: Any) -> Iterator[dict[str, Any]]:
    """All facets of an event, which the schema of events itself leaves open."""
    if isinstance(value, dict):
        if "_schemaURL" in value:
            yield value
        for part in value.values():
            yield from facets_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from facets_of(part)


def problems(event: dict[str, Any]) -> list[str]:
    """What OpenLineage's schemas have against an event and its facets."""
    found = [event, *facets_of(event)]
    urls = [part.get("_schemaURL") or part["schemaURL"] for part in found]
    return [
        problem.message
        for part, url in zip(found, urls, strict=True)
        for problem in Draft202012Validator({"$ref": url}, registry=REGISTRY).iter_errors(part)
    ]


def test_every_event_and_facet_fits_its_schema(events: list[dict[str, Any]]) -> None:
    assert [problems(event) for event in events] == [[]] * len(events)
    facets = {part["_schemaURL"].rsplit("/", 1)[1] for event in events for part in facets_of(event)}
    assert len(facets) == len(list(SCHEMAS.glob("*.json"))) - 1
    # the schemas would find a mistake
    broken = json.loads(json.dumps(events[0]))
    del broken["outputs"][0]["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert problems(broken)


def test_a_commit_is_a_run_with_its_snapshots_rows_and_columns(
    events: list[dict[str, Any]],
) -> None:
    start, complete = [event for event in events if event["job"]["name"] == "model.shop.totals"]
    assert [start["eventType"], complete["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["run"]["facets"]["parent"]["run"]["runId"] == RUN
    [read], [written] = complete["inputs"], complete["outputs"]
    assert read["name"] == "dw.orders"
    assert read["facets"]["version"]["datasetVersion"] == "11"
    # a keyed table by the name that its readers know
    assert written["name"] == "dw.totals" and written["namespace"] == "file:///data/warehouse"
    assert written["facets"]["version"]["datasetVersion"] == str(2**60 + 1)
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 7
    fields = written["facets"]["columnLineage"]["fields"]
    [source] = fields["amount"]["inputFields"]
    assert (source["name"], source["field"]) == ("dw.paid", "amount")
    assert fields["n"] == {"inputFields": [], "transformationDescription": "count"}


def test_a_view_is_a_job_without_a_run(events: list[dict[str, Any]]) -> None:
    [view] = [event for event in events if event["job"]["name"] == "model.shop.paid"]
    assert "run" not in view and "eventType" not in view
    assert [read["name"] for read in view["inputs"]] == ["dw.orders"]
    assert set(view["outputs"][0]["facets"]["columnLineage"]["fields"]) == {"id", "amount"}


def test_the_same_commits_give_the_same_runs() -> None:
    first, second = (
        lineage_events(Lineage(MANIFEST), COMMITS, "file:///data/warehouse", NOW) for _ in range(2)
    )
    assert first == second


class Server(http.server.BaseHTTPRequestHandler):
    """Takes events, and refuses those that come after the first `most`."""

    received: list[dict[str, Any]] = []
    keys: set[str | None] = set()
    most = 100

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.keys.add(self.headers["Authorization"])
        taken = len(self.received) < self.most
        if taken:
            self.received.append(body)
        self.send_response(201 if taken else 400)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    Server.received, Server.keys, Server.most = [], set(), 100
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{listening.server_port}")
        yield Server
        listening.shutdown()


def test_events_are_sent_where_a_server_is_named(
    server: type[Server], events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a secret")
    lines: list[str] = []
    made = lineage_events(Lineage(MANIFEST), COMMITS, "file:///data/warehouse", NOW)
    send_events(made, lines.append)
    assert server.received == events and server.keys == {"Bearer a secret"}
    assert lines == [f"{len(events)} events were sent to OPENLINEAGE_URL."]

    server.received, server.most = [], 2
    lines.clear()
    send_events(made, lines.append)
    assert lines == ["OPENLINEAGE_URL took 2 events and refused the next: HTTPError."]


def test_nothing_is_sent_where_no_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    made = lineage_events(Lineage(MANIFEST), COMMITS, "file:///data/warehouse", NOW)
    monkeypatch.setattr("tools.lineage.events.HttpTransport", None)
    send_events(made, lambda line: pytest.fail(line))
