"""`make clean` and `make drop-warehouse`: delete what dbt wrote here, or the warehouse itself.

    make clean                      target/ and logs/, whatever they hold
    make drop-warehouse             the tables and the catalog in WAREHOUSE, after a question
    make drop-warehouse YES=<folder>   without one; the folder's name, so that it isn't another one

Both refuse while a run writes. They look at its lease and don't take it: a run that starts in the
same moment isn't kept from writing, so start none meanwhile. Of the warehouse's folder only the
catalog and the tables go.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from dbt.adapters.sparksession.versions.lease import (
    HEARTBEAT,
    STALE_AFTER,
    SUMMARY,
    holder_of,
    utc_now,
)
from dbt.adapters.sparksession.versions.place import MARK, local_path
from dbt.adapters.sparksession.versions.processes import is_running

ROOT = Path(__file__).parents[1]
WRITTEN = ("target", "logs")  # by dbt, in the project's folder
CATALOG, DATA = "catalog.db", "data"
LEASE = "meta_lease"


class CleanError(Exception):
    """Why nothing was deleted, in words for the user."""


def tables_of(warehouse: Path) -> dict[str, Path]:
    """schema.name -> newest metadata file, by a warehouse's catalog.

    Raises:
        CleanError: the catalog can't be read.
    """
    catalog = warehouse / CATALOG
    if not catalog.is_file():
        return {}
    asked = (
        "select table_namespace || '.' || table_name, metadata_location from iceberg_tables "
        "where coalesce(iceberg_type, 'TABLE') = 'TABLE'"
    )
    try:
        with closing(sqlite3.connect(f"{catalog.resolve().as_uri()}?mode=ro", uri=True)) as opened:
            rows = opened.execute(asked).fetchall()
    except sqlite3.Error as exc:
        if "no such table" in str(exc):
            return {}
        raise CleanError(f"{catalog} can't be read ({exc}), so nothing was deleted.") from None
    return {str(name): Path(local_path(place) or place) for name, place in rows}


def writer_of(warehouse: Path) -> str | None:
    """Who writes a warehouse now, or may; None where nobody does.

    Raises:
        CleanError: the lease can't be read.
    """
    for name, metadata in tables_of(warehouse).items():
        if name.rpartition(".")[2] != LEASE:
            continue
        try:
            known = json.loads(metadata.read_text(encoding="utf-8"))
            (head,) = [
                snapshot
                for snapshot in known["snapshots"]
                if snapshot["snapshot-id"] == known["current-snapshot-id"]
            ]
            holder = holder_of(json.loads(head["summary"][SUMMARY]))
            beat = datetime.fromisoformat(known["properties"].get(HEARTBEAT, "0001-01-01"))
        except (OSError, ValueError, KeyError) as exc:
            raise CleanError(f"The lease in {metadata} can't be read ({exc!r}).") from None
        if holder.run_id is None:
            continue
        if holder.host == socket.gethostname():
            runs = is_running(holder.pid, holder.process)
            has_engine = holder.engine_pid is not None
            engine = has_engine and is_running(holder.engine_pid, holder.engine_process)
            if runs or engine:
                return str(holder)
            if runs is False and engine is False:
                continue  # else a process is out of sight, and the heartbeat decides
        alive_at = max(beat, holder.started_at or beat)
        if abs(utc_now() - alive_at) < STALE_AFTER:
            return f"{holder}, whose heartbeat is less than {STALE_AFTER.seconds // 60} minutes old"
    return None


def check_no_writer(warehouse: Path) -> None:
    """
    Raises:
        CleanError: a run writes the warehouse.
    """
    writer = writer_of(warehouse)
    if writer is not None:
        raise CleanError(
            f"The warehouse {warehouse} is being written by {writer}. Nothing was deleted: wait "
            "until that run has ended."
        )


def clean(root: Path, warehouse: Path) -> list[str]:
    """Delete what dbt wrote in the project's folder; the folders that went.

    Raises:
        CleanError: a run writes the warehouse, whose Spark works in target/.
    """
    check_no_writer(warehouse)
    gone = [name for name in WRITTEN if (root / name).is_dir()]
    for name in gone:
        shutil.rmtree(root / name)
    return gone


def parts_of(warehouse: Path) -> Iterator[Path]:
    """What belongs to the warehouse in its folder: the catalog, with its journals, and the tables.

    Of the folder of tables the schemas whose tables the catalog knows, or that hold metadata.
    """
    yield from sorted(warehouse.glob(f"{CATALOG}*"))
    data = warehouse / DATA
    for schema in sorted(data.iterdir()) if data.is_dir() and not data.is_symlink() else []:
        if any(schema.glob("*/metadata/*.metadata.json")):
            yield schema
    if (data / MARK).is_file():
        yield data / MARK


def drop_warehouse(warehouse: Path, confirmed: str | None) -> list[str]:
    """Delete a warehouse's catalog and tables; what went.

    Args:
        confirmed: the folder's name, as the user gave it; without it the user is asked.

    Raises:
        CleanError: the answer was another name, a run writes, or it is no warehouse.
    """
    check_no_writer(warehouse)
    parts = list(parts_of(warehouse))
    if not parts:
        raise CleanError(f"{warehouse} holds no warehouse: neither {CATALOG} nor tables.")
    name = warehouse.resolve().name
    if confirmed is None:
        print(
            f"This deletes {len(tables_of(warehouse))} tables in {warehouse.resolve()}, with the "
            "raw log and all versions. Landed files stay, but what isn't landed any more is lost."
        )
        try:
            confirmed = input(f"Type the folder's name, {name}, to go on: ")
        except EOFError:
            confirmed = ""
    if confirmed != name:
        raise CleanError(
            f"Nothing was deleted. To delete the warehouse answer {name}, or set YES={name}."
        )
    check_no_writer(warehouse)
    for part in parts:
        shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
    for folder in (warehouse / DATA, warehouse):
        if folder.is_dir() and not folder.is_symlink() and not os.listdir(folder):
            folder.rmdir()
    return [str(part) for part in parts]


def clean_project() -> None:
    """`clean` of this project, with a line on what went."""
    _report(clean(ROOT, _warehouse()))


def drop_configured(confirmed: str | None) -> None:
    """`drop_warehouse` of the folder WAREHOUSE, with a line on what went."""
    _report(drop_warehouse(_warehouse(), confirmed))


def _warehouse() -> Path:
    return ROOT / os.path.expanduser(os.environ.get("WAREHOUSE") or "warehouse")


def _report(gone: list[str]) -> None:
    print(f"Deleted: {', '.join(gone) or 'nothing, there was nothing'}.")
