"""The sample change stream of MongoDB: its documents' latest state against a plain replay.

The replay imports nothing of the project: it applies each event's own words to a document, and
never looks at a document that was looked up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate_mongodb import lines
from tests.support.dbt_project import REPO
from tests.support.lines import raw_lines
from tests.support.warehouse import Warehouse

SAMPLE = REPO / "landing" / "topics" / "mongo_app" / "partition=0"
COLUMNS = ("name", "email", "status", "level", "balance", "city", "created_at", "updated_at")
DECLARED = {"_id", *COLUMNS}  # fields that aren't in the rest
MODELS = ("ods_binlog", "ods_app__user_profile", "dim_user_profile_zip")
TRACKED = ("name", "email", "status", "level", "balance", "city")  # of the zipper
# a column's value is that of the newest row that knows it
LATEST = """
with

changes as (
    select *, struct(binlog_position, row_number) as place
    from dw.ods_app__user_profile
    where reject_reason is null
)

select
    user_id,
    {columns}
from changes
group by user_id
having max_by(op_type, place) <> 'delete'
"""
COLUMN = """max_by({name}, place) filter (
        where known_columns is null or op_type = 'delete'
        or array_contains(known_columns, '{name}')
    ) as {name}"""
HISTORY = """
select user_id, op_type, document_rest, document_patch
from dw.ods_app__user_profile where reject_reason is null
order by binlog_position, row_number
"""


def run(warehouse: Warehouse) -> None:
    warehouse.run("run", "--select", *MODELS)


@pytest.fixture(scope="module")
def events() -> list[bytes]:
    return [line for path in sorted(SAMPLE.iterdir()) for line in raw_lines(path)]


@pytest.fixture(scope="module")
def in_one_go(tmp_path_factory: pytest.TempPathFactory, events: list[bytes]) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("one_go"))
    warehouse.land_lines(events, 0, gz=True, topic="mongo_app")
    run(warehouse)
    return warehouse


# ---- the replay -----------------------------------------------------------------------------


def apply(document: dict[str, Any], patch: dict[str, Any]) -> None:
    """Change a document in place, as an updateDescription states."""
    for truncated in patch["truncatedArrays"]:
        parent, last = step_into(document, truncated["field"])
        del parent[last][truncated["newSize"] :]
    for path, value in patch["updatedFields"].items():
        parent, last = step_into(document, path)
        if isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value
    for path in patch["removedFields"]:
        parent, last = step_into(document, path)
        del parent[last]


def step_into(document: dict[str, Any], path: str) -> tuple[Any, Any]:
    """What holds the field of a dotted path, and its name or index there."""
    *steps, last = path.split(".")
    at: Any = document
    for step in steps:
        at = at[int(step) if isinstance(at, list) else step]
    return at, int(last) if isinstance(at, list) else last


def replay(events: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """_id -> document, after all events."""
    documents: dict[str, dict[str, Any]] = {}
    for line in events:
        event = json.loads(line)
        if "documentKey" not in event:
            continue
        key = event["documentKey"]["_id"]["$oid"]
        kind = event["operationType"]
        if kind == "delete":
            del documents[key]
        elif kind == "update":
            apply(documents[key], event["updateDescription"])
        else:
            assert (key in documents) is (kind == "replace")
            documents[key] = event["fullDocument"]
    return documents


def as_row(document: dict[str, Any]) -> dict[str, Any]:
    """The declared columns of a document."""

    def time(field: str) -> datetime:
        return datetime.fromisoformat(document[field]["$date"]).astimezone(UTC)

    plain = {name: document.get(name) for name in ("name", "email", "status", "level")}
    return plain | {
        "balance": Decimal(document["balance"]["$numberDecimal"]),
        "city": document.get("address", {}).get("city"),
        "created_at": time("created_at"),
        "updated_at": time("updated_at"),
    }


# ---- the warehouse's answer -----------------------------------------------------------------


def latest(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    columns = ",\n    ".join(COLUMN.format(name=name) for name in COLUMNS)
    rows = warehouse.query(LATEST.format(columns=columns))
    return {row.pop("user_id"): row for row in rows}


def rests(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    """user_id -> the fields that aren't declared, by document_rest and document_patch."""
    found: dict[str, dict[str, Any]] = {}
    for row in warehouse.query(HISTORY):
        key = row["user_id"]
        if row["op_type"] == "delete":
            del found[key]
        elif row["document_rest"] is not None:
            found[key] = json.loads(row["document_rest"])
        else:
            patch = json.loads(row["document_patch"])
            for name in ("updatedFields", "removedFields"):
                kept = [path for path in patch[name] if path not in DECLARED]
                values = patch[name]
                patch[name] = {p: values[p] for p in kept} if isinstance(values, dict) else kept
            apply(found[key], patch)
    return found


def test_the_sample_is_what_the_generator_writes(events: list[bytes]) -> None:
    assert events == lines()


def test_the_sample_has_what_is_hard(events: list[bytes]) -> None:
    parsed = [json.loads(event) for event in events]
    kinds = [row["operationType"] for row in parsed]
    assert set(kinds) == {"create", "createIndexes", "insert", "update", "replace", "delete"}
    updates = [row for row in parsed if row["operationType"] == "update"]
    looked_up = [update["fullDocument"] for update in updates if "fullDocument" in update]
    assert None in looked_up
    assert len(looked_up) < len(updates)
    documents: dict[str, dict[str, Any]] = {}
    late = 0
    for event in parsed[2:]:
        documents = replay([json.dumps(item) for item in parsed[: parsed.index(event) + 1]])
        if event in updates and event.get("fullDocument"):
            late += event["fullDocument"] != documents[event["documentKey"]["_id"]["$oid"]]
    assert late > 5
    users = [row["documentKey"]["_id"]["$oid"] for row in parsed if "insert" in row.values()]
    assert len(users) > len(set(users)) == 40


def test_the_latest_documents_are_those_of_a_replay(
    in_one_go: Warehouse, events: list[bytes]
) -> None:
    documents = replay(events)

    assert in_one_go.column("select count(reject_reason) from dw.ods_app__user_profile") == [0]
    assert in_one_go.column("select count(*) from dw.ods_app__user_profile") == [200]
    assert latest(in_one_go) == {key: as_row(document) for key, document in documents.items()}
    assert rests(in_one_go) == {
        key: {name: value for name, value in document.items() if name not in DECLARED}
        for key, document in documents.items()
    }


def versions(warehouse: Warehouse) -> dict[str, list[tuple[Any, ...]]]:
    """user_id -> the versions of its zipper: from, to, and the document's columns."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    rows = warehouse.query(
        f"select user_id, valid_from, valid_to, {', '.join(COLUMNS)} from dw.dim_user_profile_zip "
        "order by user_id, valid_from"
    )
    for row in rows:
        found.setdefault(row.pop("user_id"), []).append(tuple(row.values()))
    return found


def replayed_versions(
    events: list[bytes], times: dict[int, datetime]
) -> dict[str, list[tuple[Any, ...]]]:
    """The same of a replay; the time of each event's change is given by its offset."""
    at_time: dict[str, dict[datetime, dict[str, Any] | None]] = {}
    for offset, time in sorted(times.items()):
        key = json.loads(events[offset])["documentKey"]["_id"]["$oid"]
        states = at_time.setdefault(key, {})
        document = replay(events[: offset + 1]).get(key)
        states[max([time, *states])] = None if document is None else as_row(document)
    found: dict[str, list[tuple[Any, ...]]] = {}
    for key, states in at_time.items():
        versions: list[list[Any]] = []
        for time, row in states.items():
            image = row and [row[name] for name in TRACKED]
            if versions and versions[-1][3] == image:
                versions[-1][2] = row
                continue
            if versions:
                versions[-1][1] = time
            versions.append([time, None, row, image])
        found[key] = [(start, end, *row.values()) for start, end, row, _ in versions if row]
    return found


def test_the_versions_of_documents_are_those_of_a_replay(
    in_one_go: Warehouse, events: list[bytes]
) -> None:
    rows = in_one_go.query("select message_offset, event_time from dw.ods_app__user_profile")
    times = {row["message_offset"]: row["event_time"] for row in rows}

    got, wanted = versions(in_one_go), replayed_versions(events, times)
    assert got == wanted
    print(f"{sum(map(len, got.values()))} versions of {len(got)} documents are the replay's")
    assert sum(map(len, got.values())) > 100


def test_what_an_update_with_pre_image_holds_is_exact(
    in_one_go: Warehouse, events: list[bytes]
) -> None:
    """Row by row: the images of the last day, when the collection keeps them."""
    names = ", ".join(f"'{column}', {column}" for column in COLUMNS)
    rows = in_one_go.query(
        f"select message_offset, op_type, named_struct({names}) as after, before, known_columns "
        "from dw.ods_app__user_profile where before is not null order by message_offset"
    )
    assert len(rows) > 50
    for row in rows:
        offset = row["message_offset"]
        user = json.loads(events[offset])["documentKey"]["_id"]["$oid"]
        before, after = (replay(events[:end]).get(user) for end in (offset, offset + 1))
        was = dict(row["before"])
        assert was.pop("user_id") == user
        assert was.pop("raw_values") is None
        assert was == as_row(before)
        assert row["after"] == as_row(before if row["op_type"] == "delete" else after)
        assert row["known_columns"] is None


@pytest.mark.in_turn
def test_any_split_and_repeats_give_the_same_rows(
    tmp_path: Path, in_one_go: Warehouse, events: list[bytes]
) -> None:
    """Files in any order over two runs, every event once more at a new offset."""
    warehouse = Warehouse(tmp_path)
    pieces = [(first, events[first : first + 30]) for first in range(0, len(events), 30)]
    random.Random(5).shuffle(pieces)
    for part in (pieces[:3], [*pieces[3:], (len(events), events)]):
        for first, piece in part:
            warehouse.land_lines(piece, first, topic="mongo_app")
        run(warehouse)

    assert latest(warehouse) == latest(in_one_go)
    assert versions(warehouse) == versions(in_one_go)
    assert warehouse.rows("ods_app__user_profile") == in_one_go.rows("ods_app__user_profile")
