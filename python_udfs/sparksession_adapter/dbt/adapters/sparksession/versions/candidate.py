"""A build that is held back: compared with the newest version, published, or dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dbt.adapters.sparksession.versions.lease import utc_now
from dbt.adapters.sparksession.versions.one_writer import OneWriter
from dbt.adapters.sparksession.versions.place import Place
from dbt.adapters.sparksession.versions.published import Versions
from dbt.adapters.sparksession.versions.rollback import Rollback
from dbt.adapters.sparksession.versions.store import CANDIDATE, VersionStore, differing_relations
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.exceptions import DbtRuntimeError


class Candidates:
    """The operations on the build that is held back."""

    def __init__(
        self,
        warehouse: Warehouse,
        store: VersionStore,
        writer: OneWriter,
        place: Place,
        versions: Versions,
        rollback: Rollback,
    ) -> None:
        self._warehouse = warehouse
        self._store = store
        self._writer = writer
        self._place = place
        self._versions = versions
        self._rollback = rollback

    def check_none_waits(self) -> None:
        """Look for a build that is held back, behind the lease: until then another run may hold a
        build back. dbt's own list of tables is older than the lease.

        Raises:
            DbtRuntimeError: there is such a build; the lease is given back.
        """
        if self._place.location_of(self._store.candidate_table) is None:
            return
        self._writer.give_back_lease()
        raise DbtRuntimeError(
            "A build is held back and waits for a decision: dbt run-operation publish_candidate or "
            "dbt run-operation drop_candidate. dbt build with the var hold_back adds to it."
        )

    def publish_candidate(self) -> list[str]:
        """Publish the build that is held back as the next version."""
        with self._writer.writing():
            newest, candidate = self._store.known_version(), self._store.known_version(CANDIDATE)
            version = replace(
                candidate,
                version=newest.version + 1,
                published_at=utc_now(),
                # an operation may have published another version since the build
                changed=differing_relations(newest.query_hashes, candidate.query_hashes),
            )
            self._versions.publish_version(version, newest)
            self._drop_candidate_table()
        return [f"Published as version {version.version}."]

    def drop_candidate(self, context: dict[str, Any]) -> list[str]:
        """Put the tables back to the newest version, and forget the build that is held back."""
        with self._writer.writing():
            self._store.known_version(CANDIDATE)
            newest = self._store.known_version()
            histories = {table: self._warehouse.history(table) for table in newest.snapshots}
            lines = self._rollback.put_back(newest, histories, context)
            self._drop_candidate_table()
        return [*lines, f"The candidate is gone; the tables are version {newest.version} again."]

    def _drop_candidate_table(self) -> None:
        self._place.check_delete(self._store.candidate_table)
        self._warehouse.session().sql(f"drop table if exists {self._store.candidate_table} purge")
