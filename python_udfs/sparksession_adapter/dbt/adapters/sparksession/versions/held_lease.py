"""The lease that this run holds, if it does."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from dbt.adapters.sparksession.versions.lease import (
    Holder,
    Lease,
)
from dbt.adapters.sparksession.warehouse import Warehouse

LEASE_TABLE = "meta_lease"


class HeldLease:
    """What a run knows of its lease.

    Attributes:
        lease: None while this run doesn't hold it.
        took_over: the holder before this run, if that holder was presumed dead.
        has_views_to_write: whether this run made a version the newest whose views it hasn't
            written yet.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.lease: Lease | None = None
        self.took_over: Holder | None = None
        self.has_views_to_write = False

    @property
    def table(self) -> str:
        return f"{self._warehouse.credentials.schema}.{LEASE_TABLE}"

    def without_beats(self, table: str) -> AbstractContextManager[None]:
        """Within it nothing writes a table, also where it is the lease's own."""
        if self.lease is None or table != self.table:
            return nullcontext()
        return self.lease.without_beats()

    def check(self) -> None:
        """Before a node writes: whether the run that took the lease still has it. A takeover finds
        the thread's session."""
        if self.lease is not None:
            self.lease.check()
            self.lease.note_session()

    def check_statement(self) -> None:
        """Before a statement of a node that has begun: it may have slept since."""
        if self.lease is not None:
            self.lease.check()

    def confirm(self) -> None:
        """Before something is deleted or published: the same, and the table is asked."""
        if self.lease is not None:
            self.lease.confirm()
            self.lease.note_session()
