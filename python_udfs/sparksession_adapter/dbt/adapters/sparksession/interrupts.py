"""What happens when a run is stopped: by Ctrl-C its statements end, and others may write; a program
that runs dbt in its process may let the nodes end that are being built."""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.java_process import java_ended
from dbt.adapters.sparksession.session import cancel_statements, own_session
from dbt.adapters.sparksession.stop_signals import end_at_sigterm, stopped_by
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError

WAIT_SECONDS = 60.0  # for nodes that are being built, after their statements were cancelled
CANCEL_EVERY_SECONDS = 0.2
GIVE_BACK_SECONDS = 20.0
logger = AdapterLogger("Spark")
_no_more = threading.Event()


def begin_no_more() -> None:
    """Let no further node begin in this process: those that are being built end, the run fails,
    gives the lease back and publishes nothing. Any thread may ask for it."""
    _no_more.set()


def begin_again() -> None:
    """Let nodes begin again."""
    _no_more.clear()


def check_may_begin() -> None:
    """Refuse a node that would begin.

    Raises:
        DbtRuntimeError: the run was asked to stop, or Spark's Java has ended.
    """
    if _no_more.is_set():
        raise DbtRuntimeError("The run was asked to stop before this node began.")
    ended = java_ended()
    if ended is not None:
        raise DbtRuntimeError(ended)


def _being_interrupted() -> bool:
    """Whether a KeyboardInterrupt is on its way through the caller."""
    return isinstance(sys.exc_info()[1], KeyboardInterrupt)


def _is_stopping(*_: Any) -> None:
    """What Ctrl-C does while an earlier interrupt is being seen to: it would leave statements
    running, and the lease taken."""
    logger.warning("Stopping already: what is running is being cancelled.")


class Interrupts:
    """What the adapter does when dbt gives up a run: by Ctrl-C, or with --fail-fast."""

    def __init__(
        self, warehouse: Warehouse, store: VersionStore, writer: OneWriter, orphans: Orphans
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._writer = writer
        self._orphans = orphans
        self._building: dict[str, str] = {}  # unique id -> stored table, of nodes being built
        self._building_lock = threading.Lock()
        self._cancelled_tables: list[str] = []
        self._handler: Any = None  # of Ctrl-C, as it was before the first one

    def begin_building(self, unique_id: str, table: str) -> None:
        with self._building_lock:
            self._building[unique_id] = table

    def end_building(self, unique_id: str) -> None:
        with self._building_lock:
            self._building.pop(unique_id, None)

    def cancel(self, cancel_connections: Callable[[], list[str]]) -> list[str]:
        """Cancel what the run's threads are doing and wait until they have ended.

        Args:
            cancel_connections: dbt's own part of it; gives the names of the connections.

        A thread may begin another Spark job after the job that was cancelled: that is cancelled
        too. Statements that haven't begun are refused by the connection, see Handle.cancel.
        """
        if _being_interrupted() and threading.current_thread() is threading.main_thread():
            self._handler = self._handler or signal.signal(signal.SIGINT, _is_stopping)
        with self._building_lock:
            tables = list(self._building.values())
        names = cancel_connections()
        session, until = own_session(self._warehouse.credentials).session, time.monotonic()
        until += WAIT_SECONDS
        while self._building and time.monotonic() < until:
            cancel_statements(session)
            time.sleep(CANCEL_EVERY_SECONDS)
        self._cancelled_tables = tables
        return names

    def clean_up(
        self,
        clean_up_connections: Callable[[], None],
        connection_named: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """As dbt's; where Ctrl-C ended the run, the lease is given back first.

        Args:
            clean_up_connections: dbt's own part of it.
            connection_named: opens a connection of that name, for the thread that asks.

        Raises:
            DbtRuntimeError: in place of the KeyboardInterrupt, for which dbt prints a stack, or of
                an error that came since Spark's Java had ended.
        """
        if not _being_interrupted():
            is_failing = isinstance(sys.exc_info()[1], DbtRuntimeError)
            clean_up_connections()
            ended = java_ended() if is_failing else None
            if ended is not None:
                raise DbtRuntimeError(ended)
            return
        try:
            problem = self._given_back(connection_named)
            clean_up_connections()
        finally:
            if self._handler is not None:
                signal.signal(signal.SIGINT, self._handler)
                self._handler = None
            end_at_sigterm()
        published, what = self._store.published, "nothing was published"
        if published is not None:
            what = f"version {published.version} was published"
            if os.environ.get("PUBLISH_TARGETS"):
                what += ", targets may hold the version before it"
        raise DbtRuntimeError(
            f"Stopped by {stopped_by()}: what was running was cancelled, finished tables stay, "
            f"{what}; {problem or 'the next run goes on from here'}."
        )

    def _given_back(
        self, connection_named: Callable[[str], AbstractContextManager[None]]
    ) -> str | None:
        """Delete what wasn't committed and give back the lease; what kept it from that, if
        something did.

        A task that Spark can't stop keeps its core, and all else would wait for it: so this has
        its time. The lease of a process that has ended is taken over by the next run.
        """
        problems: list[str] = []

        def give_back() -> None:
            try:
                with connection_named("interrupted"):
                    # at a run's end nothing has been cancelled yet
                    cancel_statements(own_session(self._warehouse.credentials).session)
                    self._orphans.tidy_tables(self._cancelled_tables)
                    self._writer.give_back_lease()
            except Exception as exc:
                problems.append(f"the next run takes the lease over, which stays ({exc})")

        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(give_back,), name="give back", daemon=True)
        thread.start()
        thread.join(GIVE_BACK_SECONDS)
        if thread.is_alive():
            return "the next run takes the lease over, since Spark could not be stopped"
        return problems[0] if problems else None
