"""One writer at a time: the lease of a warehouse, a row of the table `meta_lease`."""

from __future__ import annotations

import getpass
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dbt.adapters.sparksession.iceberg.metadata import loaded
from dbt.adapters.sparksession.sql import is_absent, literal
from dbt.adapters.sparksession.versions.processes import is_running, process_mark
from dbt.adapters.sparksession.versions.remote_sessions import (
    PROPERTY,
    RemoteSession,
    end_session,
    property_of,
    remote_session,
)
from dbt_common.exceptions import DbtRuntimeError

HEARTBEAT_SECONDS = 30.0
STALE_AFTER = timedelta(minutes=5)  # a heartbeat of another host that is older may be a dead one's
ENGINE_ENDS_SECONDS = 60
TAKE_ATTEMPTS = 3
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
        run_id: the run; None if nobody holds it.
        owner, host, pid: user name, host name, process id.
        process: process_mark of it: boot, pid namespace and start.
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


def utc_now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class LeaseRefusedError(DbtRuntimeError):
    """Somebody else holds the lease."""


def _seconds() -> float:
    """A clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The lease of one warehouse, as one run takes, keeps and gives it back.

    Args:
        session: gives the calling thread's Spark session.
        table: schema.name of the table with the lease's row.
        run_id: the run.

    Attributes:
        saw_end: whether the run that it was taken over from was seen to have ended, or was ended
            (a remote run). Of a run that is out of sight only the heartbeat has stopped: a
            machine that slept may go on with it.
    """

    def __init__(self, session: Callable[[], Any], table: str, run_id: str) -> None:
        self._session, self.table, self.run_id = session, table, run_id
        self._held: Holder | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._lost: Holder | None = None
        self._confirmed_at = 0.0
        self._noted: set[str] = set()  # ids of the remote sessions that this run writes with
        self.saw_end = True

    def take(
        self,
        wait: Callable[[float], Any] = time.sleep,
        accept: Callable[[Holder], Any] = lambda before: None,
    ) -> Holder | None:
        """Take the lease; the dead run that it was taken over from, if any.

        Args:
            wait: called with seconds, where a heartbeat has to be watched.
            accept: called with the row before it is changed; may refuse by an error.

        Raises:
            LeaseRefusedError: somebody else holds it.
        """
        for _ in range(TAKE_ATTEMPTS):
            before = self._row() or self._made()
            accept(before)
            if before.run_id is not None and not self._is_dead(before, wait):
                raise LeaseRefusedError(
                    f"The warehouse is being written by {before}. One run writes at a time: wait "
                    "until it has ended, then run again. If that process is gone, the next run "
                    "takes its lease over: at once where the process can be seen to have ended, "
                    f"else {STALE_AFTER.seconds // 60} minutes after its last heartbeat."
                )
            wanted = self._own_row(before.generation + 1)
            if self._changed(wanted):  # else another run changed the row since it was read
                self._held, self._confirmed_at = wanted, _seconds()
                threading.Thread(target=self._keep, name="lease", daemon=True).start()
                try:
                    ended = self._end_sessions_before()
                    self.note_session()
                except BaseException:
                    self.give_back()
                    raise
                # its process may be out of sight, but each of its sessions is closed, and a new
                # session writes nothing before note_session finds that the lease is gone
                if before.engine_pid is None and before.run_id in {
                    session.run_id for session in ended
                }:
                    self.saw_end = True
                return before if before.run_id is not None else None
        raise LeaseRefusedError(
            f"Other runs took the lease of the warehouse {TAKE_ATTEMPTS} times while this run "
            "asked for it. Run again once they have ended."
        )

    def _own_row(self, generation: int) -> Holder:
        """The row of a lease that this run holds."""
        pid, engine = os.getpid(), self._engine_pid()
        return Holder(
            generation=generation,
            run_id=self.run_id,
            owner=getpass.getuser(),
            host=socket.gethostname(),
            pid=pid,
            process=process_mark(pid),
            engine_pid=engine,
            engine_process=process_mark(engine) if engine is not None else None,
            started_at=utc_now(),
        )

    @property
    def generation(self) -> int:
        """Number of the row's changes at which this run took it; 0 where it doesn't hold it."""
        return self._held.generation if self._held is not None else 0

    def check(self) -> None:
        """Raise LeaseRefusedError where another run has taken the lease over.

        The table is asked only if no heartbeat has come through for a while: this process may have
        slept.
        """
        if self._held is not None and _seconds() - self._confirmed_at > 2 * HEARTBEAT_SECONDS:
            self.confirm()
        if self._lost is not None:
            raise LeaseRefusedError(
                f"This run's lease of the warehouse was taken over by {self._lost}, because this "
                "run was presumed dead. It writes and deletes nothing more; run it again."
            )

    def confirm(self) -> None:
        """As check, and the table is asked in any case."""
        if self._held is not None and self._lost is None:
            asked_at, row = _seconds(), self._row()
            if row is None or row.run_id != self.run_id:
                self._lost = row or Holder()
            self._confirmed_at = asked_at
        self.check()

    def note_session(self) -> None:
        """Before the calling thread writes: the next run has to know its session, if it is remote.

        The table is asked behind it: a run that takes over reads the sessions after it has changed
        the row, so either it finds this session, or this run finds that its lease is gone.

        Raises:
            LeaseRefusedError: another run has taken the lease over.
        """
        writer = remote_session(self._session(), self.run_id)
        if writer is None or self._held is None or writer.id in self._noted:
            return
        self._set_properties({property_of(writer): writer.as_text()})
        self._noted.add(writer.id)
        self.confirm()

    def _end_sessions_before(self) -> list[RemoteSession]:
        """Keep the remote sessions of earlier runs from committing anything more; those sessions.

        A session's property goes when it has ended: where this run stops in between, the next run
        ends what is left.
        """
        ended = []
        for name, text in self._properties().items():
            if name.startswith(PROPERTY):
                ended.append(RemoteSession.of_text(text))
                end_session(ended[-1])
                self._unset_properties([name])
        return ended

    def give_back(self) -> None:
        """Let others have it. Nothing happens where this run doesn't hold it."""
        self._ended.set()
        with self._lock:
            if self._held is not None and self._lost is None:
                if self._noted:
                    self._unset_properties([PROPERTY + known for known in sorted(self._noted)])
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
                    asked_at, row = _seconds(), self._row()
                    if row != self._held:
                        self._lost = row or Holder()
                        return
                    self._confirmed_at = asked_at
                except Exception as exc:  # the next beat may come through
                    logger.warning("heartbeat of the lease failed: %s", exc)

    @contextmanager
    def without_beats(self) -> Iterator[None]:
        """Within it the heart doesn't beat: the file of a beat that is being committed is named by
        nothing yet, and would be taken for a stray."""
        with self._lock:
            yield

    def _is_dead(self, holder: Holder, wait: Callable[[float], Any]) -> bool:
        """Whether a holder has ended: as its host sees it, else by its heartbeat."""
        self.saw_end = True
        if holder.host == socket.gethostname():
            own = process_mark(os.getpid())
            if own is not None and (holder.pid, holder.process) == (os.getpid(), own):
                return True  # an earlier command of this process, which stopped in the middle
            runs = is_running(holder.pid, holder.process)
            if runs:
                return False
            if runs is False:
                engine_runs = self._engine_runs(holder, wait)
                if engine_runs is not None:
                    return not engine_runs
        self.saw_end = False
        beat = self._last_beat()
        alive_at = max(beat, holder.started_at or beat)
        if abs(utc_now() - alive_at) < STALE_AFTER:
            return False
        # clocks may differ, or have jumped: only a heart that is seen not to beat is dead
        wait(2 * HEARTBEAT_SECONDS)
        return self._row() == holder and self._last_beat() == beat

    @staticmethod
    def _engine_runs(holder: Holder, wait: Callable[[float], Any]) -> bool | None:
        """Whether the Java process of a run that has ended still runs, None out of sight.

        It notices the end, and may commit until it has ended too.
        """
        for _ in range(ENGINE_ENDS_SECONDS if holder.engine_pid is not None else 0):
            runs = is_running(holder.engine_pid, holder.engine_process)
            if not runs:
                return runs
            wait(1)
        return holder.engine_pid is not None

    def _engine_pid(self) -> int | None:
        jvm = getattr(self._session(), "_jvm", None)
        return jvm.java.lang.ProcessHandle.current().pid() if jvm is not None else None

    # ---- the heartbeat, a property of the table: it takes no Spark job ---------------------

    def _beat(self) -> None:
        self._set_properties({HEARTBEAT: str(utc_now())})

    def _last_beat(self) -> datetime:
        """When the newest holder's heart beat last, UTC by its clock."""
        return datetime.fromisoformat(self._properties().get(HEARTBEAT, "0001-01-01"))

    def _properties(self) -> dict[str, str]:
        session = self._session()
        table = loaded(session, session.conf.get("spark.sql.defaultCatalog"), self.table)
        if table is not None:
            return dict(table.properties())
        rows = session.sql(f"show tblproperties {self.table}").collect()
        return {row.key: row.value for row in rows}

    def _set_properties(self, values: dict[str, str]) -> None:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in values.items())
        self._session().sql(f"alter table {self.table} set tblproperties ({pairs})")

    def _unset_properties(self, names: list[str]) -> None:
        listed = ", ".join(map(literal, names))
        self._session().sql(f"alter table {self.table} unset tblproperties if exists ({listed})")

    def holder(self) -> Holder | None:
        """The table's content, None where there is no table."""
        return self._row()

    # ---- the row -------------------------------------------------------------------------

    def _row(self) -> Holder | None:
        """The table's content, None where there is no table."""
        state = self._state()
        return state[1] if state else None

    def _state(self) -> tuple[int, Holder] | None:
        """The table's newest commit and its content, None where there is no table."""
        session = self._session()
        try:
            table = loaded(session, session.conf.get("spark.sql.defaultCatalog"), self.table)
            if table is None:  # a remote session
                newest = f"select snapshot_id from {self.table}.refs where name = 'main'"
                commit, summary = session.sql(newest).first()[0], None
            else:
                snapshot = table.currentSnapshot()
                commit, summary = snapshot.snapshotId(), snapshot.summary().get(SUMMARY)
            if summary is not None:
                return commit, holder_of(json.loads(summary))
            # somebody changed the row by other means
            columns = ", ".join(f"cast({name} as string) as {name}" for name in COLUMNS)
            (row,) = session.sql(
                f"select {columns} from {self.table} version as of {commit}"
            ).collect()
            return commit, holder_of(row.asDict())
        except Exception as exc:
            if is_absent(exc):
                return None
            raise

    def _made(self) -> Holder:
        """The row after the table was made, by this run or by another run at the same time."""
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

        Iceberg refuses a commit in the place of what another commit has changed since it was read.
        """
        from pyspark.sql import functions as F

        state = self._state()
        if state is None or state[1].generation != wanted.generation - 1:
            return
        summary = json.dumps(asdict(wanted), default=str)
        row = self._session().sql(_query(wanted)).writeTo(self.table)
        row = row.option("isolation-level", "serializable")
        row = row.option("validate-from-snapshot-id", str(state[0]))
        try:
            row.option(f"snapshot-property.{SUMMARY}", summary).overwrite(F.lit(True))
        except Exception as exc:
            message = str(exc)
            another = any(word in message for word in ("conflict", "Commit", "ValidationException"))
            if not another or READ_ONLY in message:
                raise


def _query(row: Holder) -> str:
    """A select that gives the row."""
    values = asdict(row).items()
    return "select " + ", ".join(
        f"cast({literal(value)} as {COLUMNS[name]}) as {name}" for name, value in values
    )


def holder_of(row: dict[str, Any]) -> Holder:
    """A row whose values may be texts."""
    value_of: dict[str, Callable[[Any], Any]] = {
        "bigint": int,
        "string": str,
        "timestamp_ntz": datetime.fromisoformat,
    }
    values: dict[str, Any] = {
        name: None if row[name] is None else value_of[kind](row[name])
        for name, kind in COLUMNS.items()
    }
    return Holder(**values)
