"""One writer at a time: the lease of a warehouse, a row of the table `meta_lease`."""

from __future__ import annotations

import getpass
import json
import logging
import os
import platform
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dbt.adapters.sparksession.connections import is_absent, literal
from dbt.adapters.sparksession.iceberg import loaded
from dbt_common.exceptions import DbtRuntimeError

HEARTBEAT_SECONDS = 30.0
STALE_AFTER = timedelta(minutes=5)  # a heartbeat of another host that is older may be a dead one's
ENGINE_ENDS_SECONDS = 60
HEARTBEAT = "lease.heartbeat"
READ_ONLY = "SQLITE_READONLY"
SUMMARY = "lease"  # property of a commit's summary: the row as JSON, read without a Spark job
COLUMNS = {
    "generation": "bigint",
    "run_id": "string",
    "owner": "string",
    "host": "string",
    "pid": "bigint",
    "process": "string",
    "engine_pid": "bigint",
    "engine_process": "string",
    "started_at": "timestamp_ntz",
}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """Who holds a warehouse's lease.

    Attributes:
        generation: number of the row's changes, so that a change can name what it changes.
        run_id: the run; None: nobody holds it.
        owner, host, pid: user name, host name, process id.
        process: what tells the process from a later one of the same pid.
        engine_pid, engine_process: the same of the Java process that works for it, which may end a
            little later; None where Spark is remote.
        started_at: UTC, by the holder's clock.
    """

    generation: int = 0
    run_id: str | None = None
    owner: str | None = None
    host: str | None = None
    pid: int | None = None
    process: str | None = None
    engine_pid: int | None = None
    engine_process: str | None = None
    started_at: datetime | None = None

    def __str__(self) -> str:
        since = f"{self.started_at:%Y-%m-%d %H:%M:%S} UTC" if self.started_at else "?"
        return f"{self.owner} on {self.host}, pid {self.pid}, since {since} (run {self.run_id})"


def process_mark(pid: int) -> str | None:
    """What tells a process of this host from a later one with its pid; None: there is none.

    On Linux the boot and the clock tick at which it started, elsewhere the pid alone.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # the command in brackets may hold spaces: what follows the last bracket is split
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
    except FileNotFoundError:
        if platform.system() == "Linux":
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return str(pid)
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _lives(pid: int | None, mark: str | None) -> bool:
    return pid is not None and mark is not None and process_mark(pid) == mark


def utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class LeaseRefusedError(DbtRuntimeError):
    """Somebody else holds the lease."""


class Lease:
    """The lease of one warehouse, as one run takes, keeps and gives it back.

    Args:
        session: gives the calling thread's Spark session.
        table: schema.name of the table with the lease's row.
        run_id: the run.
    """

    def __init__(self, session: Callable[[], Any], table: str, run_id: str) -> None:
        self._session, self.table, self.run_id = session, table, run_id
        self._held: Holder | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost: Holder | None = None

    def take(self, wait: Callable[[float], Any] = time.sleep) -> Holder | None:
        """Take the lease; the dead run that it was taken over from, if any.

        Args:
            wait: called with seconds, where a heartbeat has to be watched.

        Raises:
            LeaseRefusedError: somebody else holds it.
        """
        before = self._row() or self._made()
        dead = None
        if before.run_id is not None:
            if not self._is_dead(before, wait):
                raise LeaseRefusedError(
                    f"The warehouse is being written by {before}. One run writes at a time: wait "
                    "until it has ended, then run again. If that process is gone, its lease is "
                    "taken over by itself."
                )
            dead = before
        pid, engine = os.getpid(), self._engine_pid()
        wanted = Holder(
            generation=before.generation + 1,
            run_id=self.run_id,
            owner=getpass.getuser(),
            host=socket.gethostname(),
            pid=pid,
            process=process_mark(pid),
            engine_pid=engine,
            engine_process=process_mark(engine) if engine is not None else None,
            started_at=utc_now(),
        )
        if not self._changed(wanted):
            raise LeaseRefusedError(
                f"The warehouse is being written by {self._row()}, which took the lease in this "
                "moment. Run again once it has ended."
            )
        self._held = wanted
        threading.Thread(target=self._keep, name="lease", daemon=True).start()
        return dead

    def check(self) -> None:
        """Raise LeaseRefusedError where another run has taken the lease over meanwhile."""
        if self._lost is not None:
            raise LeaseRefusedError(
                f"This run's lease of the warehouse was taken over by {self._lost}: it counted as "
                "dead. Nothing more is written; run again."
            )

    def confirm(self) -> None:
        """The same, asking the table."""
        if self._held is not None and not self._lost:
            row = self._row()
            if row is None or row.run_id != self.run_id:
                self._lost = row or Holder()
        self.check()

    def give_back(self) -> None:
        """Let others have it. Nothing happens where this run doesn't hold it."""
        self._ended.set()
        with self._lock:
            if self._held is not None and self._lost is None:
                self._change(Holder(self._held.generation + 1))
            self._held = None

    def _keep(self) -> None:
        """Write a heartbeat now and then, until it is given back."""
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with self._lock:
                if self._held is None:
                    return
                try:
                    self._beat()
                    row = self._row()
                    if row != self._held:
                        self._lost = row or Holder()
                        return
                except Exception as exc:  # the next one may come through
                    logger.warning("heartbeat of the lease failed: %s", exc)

    def _is_dead(self, holder: Holder, wait: Callable[[float], Any]) -> bool:
        if holder.host == socket.gethostname():
            if holder.pid == os.getpid():
                return True  # an earlier command of this process, which stopped in the middle
            if _lives(holder.pid, holder.process):
                return False
            # its Java process notices, and may still commit until it has ended
            for _ in range(ENGINE_ENDS_SECONDS):
                if not _lives(holder.engine_pid, holder.engine_process):
                    return True
                wait(1)
            return False
        beat = self._last_beat()
        alive_at = max(beat, holder.started_at or beat)
        if abs(utc_now() - alive_at) < STALE_AFTER:
            return False
        # clocks may differ, or have jumped: only a heart that is seen not to beat is dead
        wait(2 * HEARTBEAT_SECONDS)
        return self._row() == holder and self._last_beat() == beat

    def _engine_pid(self) -> int | None:
        jvm = getattr(self._session(), "_jvm", None)
        return jvm.java.lang.ProcessHandle.current().pid() if jvm is not None else None

    # ---- the heartbeat, a property of the table: it takes no Spark job ---------------------

    def _beat(self) -> None:
        self._session().sql(
            f"alter table {self.table} set tblproperties ('{HEARTBEAT}' = '{utc_now()}')"
        )

    def _last_beat(self) -> datetime:
        """When the newest holder's heart beat last, UTC by its clock."""
        rows = self._session().sql(f"show tblproperties {self.table}").collect()
        told = {row.key: row.value for row in rows}
        return datetime.fromisoformat(told.get(HEARTBEAT, "0001-01-01"))

    # ---- the row -------------------------------------------------------------------------

    def _row(self) -> Holder | None:
        """What the table says; None where there is no table."""
        state = self._state()
        return state[1] if state else None

    def _state(self) -> tuple[int, Holder] | None:
        """The table's newest commit and what it says; None where there is no table."""
        session = self._session()
        try:
            table = loaded(session, session.conf.get("spark.sql.defaultCatalog"), self.table)
            if table is None:  # a remote session
                newest = f"select snapshot_id from {self.table}.refs where name = 'main'"
                commit, told = session.sql(newest).first()[0], None
            else:
                snapshot = table.currentSnapshot()
                commit, told = snapshot.snapshotId(), snapshot.summary().get(SUMMARY)
            if told is not None:
                return commit, _holder_of(json.loads(told))
            # somebody changed the row by other means
            columns = ", ".join(f"cast({name} as string) as {name}" for name in COLUMNS)
            (row,) = session.sql(
                f"select {columns} from {self.table} version as of {commit}"
            ).collect()
            return commit, _holder_of(row.asDict())
        except Exception as exc:
            if is_absent(exc):
                return None
            raise

    def _made(self) -> Holder:
        """The row after the table was made, by this run or by another one at the same time."""
        session = self._session()
        session.sql(f"create namespace if not exists {self.table.partition('.')[0]}")
        try:
            session.sql(
                f"create table {self.table} using iceberg tblproperties ("
                "'write.metadata.delete-after-commit.enabled' = 'true', "
                f"'write.metadata.previous-versions-max' = '5') as {_query(Holder())}"
            )
        except Exception as exc:
            if "ALREADY_EXISTS" not in str(exc) and "AlreadyExists" not in str(exc):
                raise
        row = self._row()
        assert row is not None
        return row

    def _changed(self, wanted: Holder) -> bool:
        """Whether the row of the generation before `wanted` became `wanted`."""
        self._change(wanted)
        return self._row() == wanted

    def _change(self, wanted: Holder) -> None:
        """Let the row of the generation before `wanted` become `wanted`, if it is still there.

        Iceberg refuses a commit in the place of what another one has changed since it was read.
        """
        from pyspark.sql import functions as F

        state = self._state()
        if state is None or state[1].generation != wanted.generation - 1:
            return
        told = json.dumps(asdict(wanted), default=str)
        row = self._session().sql(_query(wanted)).writeTo(self.table)
        row = row.option("isolation-level", "serializable")
        row = row.option("validate-from-snapshot-id", str(state[0]))
        try:
            row.option(f"snapshot-property.{SUMMARY}", told).overwrite(F.lit(True))
        except Exception as exc:
            said = str(exc)
            another = any(word in said for word in ("conflict", "Commit", "ValidationException"))
            if not another or READ_ONLY in said:
                raise


def _query(row: Holder) -> str:
    """A select that gives the row."""
    values = asdict(row).items()
    return "select " + ", ".join(
        f"cast({literal(value)} as {COLUMNS[name]}) as {name}" for name, value in values
    )


def _holder_of(told: dict[str, Any]) -> Holder:
    """A row whose values may be texts."""
    value_of = {"bigint": int, "string": str, "timestamp_ntz": datetime.fromisoformat}
    return Holder(
        **{
            name: None if told[name] is None else value_of[kind](told[name])
            for name, kind in COLUMNS.items()
        }
    )
