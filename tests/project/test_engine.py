"""The part of the adapter that makes rows has a number, which is raised where rows come out
otherwise: tables made by an older number are refused or rebuilt, see definitions.py."""

from __future__ import annotations

from pathlib import Path

from dbt.adapters.sparksession.inputs import sql_mark
from dbt.adapters.sparksession.reading.definitions import ENGINE, code_mark

from tests.support.dbt_project import REPO

MARKS = Path(__file__).parent / "engine_marks.txt"
ADAPTER = REPO / "python_udfs" / "sparksession_adapter" / "dbt"
# reads of what is new, folds, joins, windows, streams, and the strategies that write
CODE = ("inputs", "iceberg/partitions", "keyed/*", "reading/*", "declared/*")
MATERIALIZATIONS = ("folded", "incremental")


def marks_now() -> str:
    """The engine's number, and a hash of each file of it without comments and layout."""
    lines = [f"ENGINE {ENGINE}"]
    rooms = ADAPTER / "adapters" / "sparksession"
    for file in sorted(path for name in CODE for path in rooms.glob(f"{name}.py")):
        lines.append(f"{file.relative_to(rooms)} {code_mark(file.read_text('utf-8'))}")
    for name in MATERIALIZATIONS:
        folder = ADAPTER / "include" / "sparksession" / "macros" / "materializations"
        lines.append(f"{name}.sql {sql_mark((folder / f'{name}.sql').read_text('utf-8'))}")
    return "\n".join(lines) + "\n"


def test_whoever_changes_how_rows_are_made_decides_whether_stored_rows_still_fit() -> None:
    known, now = MARKS.read_text("utf-8").splitlines(), marks_now().splitlines()
    changed = sorted({line.split()[0] for line in {*known} ^ {*now}} - {"ENGINE"})
    assert known == now, (
        f"{', '.join(changed)} changed. Where a stored row may come out otherwise by it, raise "
        "ENGINE in definitions.py; then .venv/bin/python -m tests.project.test_engine"
    )


if __name__ == "__main__":
    MARKS.write_text(marks_now(), encoding="utf-8")
