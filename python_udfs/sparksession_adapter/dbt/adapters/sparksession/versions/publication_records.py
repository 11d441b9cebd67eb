"""What the warehouse writes down of its publications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from dbt.adapters.sparksession.sql import is_absent, literal
from dbt.adapters.sparksession.versions.lease import utc_now
from dbt.adapters.sparksession.versions.published import FEW_METADATA_FILES
from dbt.adapters.sparksession.versions.store import Version
from dbt.adapters.sparksession.versions.targets import UpdateResult
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.invocation import get_invocation_id

RECORD_TABLE = "meta_publication"
RECORD_COLUMNS = {
    "target": "string",
    "table_name": "string",
    "relation": "string",
    "version": "bigint",
    "is_whole": "boolean",
    "rows_written": "bigint",
    "rows_removed": "bigint",
    "published_at": "timestamp",
    "run_id": "string",
}


class PublicationRecords:
    """The table of publications: which version each table of a target was brought to, and when."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._table = f"{warehouse.credentials.schema}.{RECORD_TABLE}"

    def of(self, target: str) -> dict[str, int] | None:
        """Table of a target -> the version that it was last brought to; None before any record."""
        try:
            rows = (
                self._warehouse.session()
                .sql(
                    "select table_name, "
                    "max_by(version, struct(published_at, version)) as version "
                    f"from {self._table} where target = {literal(target)} "
                    "group by table_name"
                )
                .collect()
            )
        except Exception as exc:
            if not is_absent(exc):
                raise
            return None
        return {row.table_name: row.version for row in rows}

    def write(
        self,
        target: str,
        version: Version,
        names: Mapping[str, str],
        taken: Sequence[UpdateResult],
        known: Mapping[str, int] | None,
    ) -> None:
        """Write down what a target holds, for those who ask the warehouse.

        Args:
            names: table of the target -> relation.
            known: what `of` gave before.
        """
        session, table = self._warehouse.session(), self._table
        if known is None:
            columns = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS.items())
            session.sql(
                f"create table if not exists {table} ({columns}) using iceberg {FEW_METADATA_FILES}"
            )
            known = {}
        at = self._next_time(target)
        done: dict[str, list[UpdateResult]] = {}
        for update in taken:
            done.setdefault(update.part.publication.table, []).append(update)
        values = [
            ", ".join(
                (
                    literal(target),
                    literal(name),
                    literal(relation),
                    str(version.version),
                    literal(any(update.part.whole for update in done.get(name, []))),
                    str(sum(update.written for update in done.get(name, []))),
                    str(sum(update.removed for update in done.get(name, []))),
                    literal(at),
                    literal(get_invocation_id()),
                )
            )
            for name, relation in names.items()
            # a publication that was killed once the store had it isn't written down yet
            if name in done or known.get(name) != version.version
        ]
        if values:
            session.sql(
                f"insert into {table} ({', '.join(RECORD_COLUMNS)}) values "
                + ", ".join(f"({value})" for value in values)
            )

    def _next_time(self, target: str) -> datetime:
        """The time of a target's next records: now, but behind all that it has, which a clock that
        was ahead may have dated. The newest record is what counts."""
        (newest,) = (
            self._warehouse.session()
            .sql(
                "select cast(max(published_at) as timestamp_ntz) as at "
                f"from {self._table} where target = {literal(target)}"
            )
            .collect()
        )
        now = utc_now()
        return now if newest.at is None else max(now, newest.at + timedelta(microseconds=1))
