"""What the last commands did, kept beside the tables: dbt itself keeps the last one alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "commands.jsonl"
KEPT = 200  # commands
COMMANDS = ("build", "run", "test", "retry", "seed", "snapshot")  # those that write or test
FAILED = ("error", "fail", "runtime error", "partial success")
NAMED = 50  # failed nodes of a command that are kept with their queries
QUERY = 4000  # characters of a query


def last_command(target: Path) -> dict[str, Any]:
    """dbt's run_results.json of the last command that wrote or tested; {} where there is none."""
    try:
        found = json.loads((target / "run_results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_known = isinstance(found, dict) and found.get("args", {}).get("which") in COMMANDS
    return found if is_known else {}


def name_of(unique_id: str) -> str:
    """A node's name in its unique id."""
    return unique_id.split(".")[2]


def summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """What a command did, of its run_results.json: id, command, ended_at, seconds, status, numbers
    of nodes and tests, and what failed or warned, with its query."""
    nodes = results["results"]
    tests = [node for node in nodes if node["unique_id"].startswith("test.")]
    failed = [node for node in nodes if node["status"] in FAILED]
    warned = [node for node in nodes if node["status"] == "warn"]
    return {
        "id": results["metadata"]["invocation_id"],
        "command": results["args"]["which"],
        "ended_at": results["metadata"]["generated_at"],
        "seconds": round(results["elapsed_time"], 1),
        "status": "failed" if failed else "passed",
        "nodes": len(nodes) - len(tests),
        "tests": dict(Counter(node["status"] for node in tests)),
        "problems": [
            {
                "name": name_of(node["unique_id"]),
                "kind": node["unique_id"].split(".")[0],
                "status": node["status"],
                "rows": node.get("failures"),
                "message": (node.get("message") or "")[:QUERY],
                "query": (node.get("compiled_code") or "").strip()[:QUERY],
            }
            for node in [*failed, *warned][:NAMED]
        ],
    }


def record(target: Path, folder: Path) -> list[dict[str, Any]]:
    """Add the last command to those kept in a folder, once; all of them, newest first."""
    kept = read(folder)
    results = last_command(target)
    if results and results["metadata"]["invocation_id"] not in {entry["id"] for entry in kept}:
        kept = sorted([summary(results), *kept], key=lambda entry: entry["ended_at"], reverse=True)
        write(folder, kept[:KEPT])
    return kept[:KEPT]


def read(folder: Path) -> list[dict[str, Any]]:
    """The commands kept in a folder, newest first; a line that was cut off is left out."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return sorted(found, key=lambda entry: entry["ended_at"], reverse=True)


def write(folder: Path, commands: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file at once: a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"{FILE}.part"
    half.write_text("".join(json.dumps(entry) + "\n" for entry in commands), encoding="utf-8")
    half.replace(folder / FILE)
