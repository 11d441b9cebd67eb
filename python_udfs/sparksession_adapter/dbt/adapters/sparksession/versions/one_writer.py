"""One writer at a time: a command takes the warehouse's lease, and gives it back at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.keyed.tables import stored_table
from dbt.adapters.sparksession.session import cancel_statements, message_of
from dbt.adapters.sparksession.stop_signals import (
    end_at_sigterm,
    is_stop,
    stop_at_sigterm,
    stopped_by,
)
from dbt.adapters.sparksession.versions.held_lease import HeldLease
from dbt.adapters.sparksession.versions.lease import (
    READ_ONLY,
    Lease,
    LeaseRefusedError,
)
from dbt.adapters.sparksession.versions.nodes import PUBLISHED_KINDS, all_tables
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.store import VersionStore
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

logger = AdapterLogger("Spark")


class OneWriter:
    """Makes this process the warehouse's one writer."""

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        lease: HeldLease,
        place: Place,
        orphans: Orphans,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._lease = lease
        self._place = place
        self._orphans = orphans
        # writes the views of the newest version
        self.write_views: Callable[[], None] = lambda: None

    def take_lease(self, is_recovery: bool = False) -> str | None:
        """Make this run the warehouse's one writer; a note where a dead run's lease was taken
        over.

        Args:
            is_recovery: the catalog may be lost or older than the tables: it is to be mended.

        Raises:
            LeaseRefusedError: another run holds it.
            ForeignTableError: the tables are another warehouse's.
            DbtRuntimeError: catalog and tables don't belong together, or the list of versions
                was dropped.
        """
        self._store.published = None
        stop_at_sigterm()
        if not is_recovery:
            self._place.check_place(self._lease.table)
            self.check_not_dropped(self._store.version_table, "a list of versions")
        for table in (self._lease.table, self._store.version_table):
            self._place.prepare_write(table)
        lease = Lease(self._warehouse.session, self._lease.table, get_invocation_id())
        try:
            dead = (
                lease.take() if is_recovery else lease.take(accept=self._place.generation_check())
            )
        except Exception as exc:
            if READ_ONLY not in str(exc):
                raise
            credentials = self._warehouse.credentials
            raise DbtRuntimeError(
                f"The catalog of the warehouse {credentials.path(credentials.warehouse)} can't be "
                "written: it is read-only for this user. Nothing was done; make it writable and "
                "run again."
            ) from exc
        self._lease.lease, self._lease.took_over = lease, dead
        self._place.write_mark(lease.generation)
        if dead is None:
            return None
        return f"took over the lease of a run that is gone: {dead}" + (
            ""
            if lease.saw_end
            else ". It is out of this run's sight, and only its heartbeat has stopped: the files "
            "that it had not committed stay until dbt run-operation remove_orphans"
        )

    def check_not_dropped(self, table: str, what: str) -> None:
        """Before a table is made whose rows can't be made of others.

        Args:
            table: schema.name.
            what: what would begin again, for the message.

        Raises:
            DbtRuntimeError: the catalog doesn't know the table, but its files are there.
        """
        folder = self._place.folder_left_of(table)
        if folder is not None:
            raise DbtRuntimeError(
                f"Table {table} is gone from the catalog, as after a drop, but its files are in "
                f"{folder}. What it held may be nowhere else. Bring it back by dbt run-operation "
                f"register_tables, then run again; to begin {what} without it, delete that folder."
            )

    def give_back_lease(self, results: Sequence[Any] = ()) -> None:
        """Let others write. First what a dead run before, or nodes of this run that failed, had
        written and not committed is deleted, and the views of a publication that stopped halfway
        are written.

        Args:
            results: dbt's results of the run's nodes.

        Raises:
            LeaseRefusedError: another run has taken the lease over. Nothing is deleted then.
        """
        if self._lease.lease is None:
            return
        try:
            if self._lease.took_over is not None:
                self._lease.confirm()
                if self._lease.lease.saw_end:
                    self._orphans.tidy_after(self._lease.took_over)
            if self._lease.took_over is not None or self._lease.has_views_to_write:
                self._end_publication()
            failed = [result.node for result in results if str(result.status) == "error"]
            self._orphans.tidy_tables(
                stored_table(node.schema, node.alias, node.config.get("materialized"))
                for node in failed
                if str(node.resource_type) in PUBLISHED_KINDS
            )
            self._lease.check()
        finally:
            lease, self._lease.lease, self._lease.took_over = self._lease.lease, None, None
            lease.give_back()
            end_at_sigterm()

    def _end_publication(self) -> None:
        """Write all views: the run before may have stopped behind its publication, and a run that
        publishes writes those alone that it changes."""
        try:
            self.write_views()
        except Exception as exc:
            reason = message_of(exc).partition("\n")[0]
            logger.warning(
                "The views of the newest version couldn't be written again, and some may fail for "
                f"readers ({reason}); dbt run-operation register_tables writes them."
            )

    @contextmanager
    def writing(self, is_recovery: bool = False) -> Iterator[None]:
        """Within it this process is the warehouse's one writer, and all tables are its own."""
        note = self.take_lease(is_recovery)
        if note:
            logger.info(note)
        try:
            for table in [] if is_recovery else all_tables(self._warehouse):
                self._place.prepare_write(table)
            yield
        except BaseException as exc:
            if is_stop(exc):  # for which dbt would print a stack
                problem = self._give_back_when_stopped()
                raise DbtRuntimeError(
                    f"Stopped by {stopped_by()}: what was running was cancelled; "
                    f"{problem or 'run the same command again'}."
                ) from exc
            with suppress(LeaseRefusedError):  # what went wrong first is what counts
                self.give_back_lease()
            raise
        self.give_back_lease()

    def _give_back_when_stopped(self) -> str | None:
        """Let others write after Ctrl-C: once Spark does nothing more; what kept it from that."""
        with suppress(Exception):  # the first call after Ctrl-C may fail, see is_stop
            cancel_statements(self._warehouse.session())
        try:
            cancel_statements(self._warehouse.session())
            self.give_back_lease()
        except Exception as exc:
            return f"the next run takes the lease over, which stays ({message_of(exc)})"
        return None
