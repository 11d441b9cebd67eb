"""What is done to versions and tables between runs: the operations, each in a module beside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dbt.adapters.base.meta import available
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparksession.versions.arguments import whole_number
from dbt.adapters.sparksession.versions.candidate import Candidates
from dbt.adapters.sparksession.versions.compaction import Compaction
from dbt.adapters.sparksession.versions.diff import Differences
from dbt.adapters.sparksession.versions.lease import LeaseRefusedError
from dbt.adapters.sparksession.versions.orphans import Orphans
from dbt.adapters.sparksession.versions.retention import Retention
from dbt.adapters.sparksession.versions.rollback import Rollback

logger = AdapterLogger("Spark")


class Maintenance(Differences, Candidates, Rollback, Retention, Compaction, Orphans):
    """The operations, as macros of the same names call them."""

    @contextmanager
    def _writing(self, is_recovery: bool = False) -> Iterator[None]:
        """Within it this process is the warehouse's one writer, and all tables are its own."""
        note = self.take_lease(is_recovery)
        if note:
            logger.info(note)
        try:
            for table in [] if is_recovery else self._tables():
                self.let_write(table)
            yield
        except BaseException:
            with suppress(LeaseRefusedError):  # what went wrong first is what counts
                self.give_back_lease()
            raise
        self.give_back_lease()

    @available
    def list_versions(self, limit: int) -> list[str]:
        """A line for each of the newest versions, newest first."""
        limit = whole_number("limit", limit)
        self.known_version()
        rows = self._session().sql(
            "select version, cast(published_at as timestamp_ntz) as at, made_by, tag, run_id, "
            "code_version, size(changed) as changed, size(behind) as behind "
            f"from {self._version_table} order by version desc limit {limit}"
        )
        return [
            f"{one.version:>7}  {one.at:%Y-%m-%d %H:%M:%S} UTC  {one.changed:>4} changed  "
            f"{one.made_by}{f' [{one.tag}]' if one.tag else ''}  code {one.code_version}  "
            f"run {one.run_id}" + (f"  {one.behind} behind" if one.behind else "")
            for one in rows.collect()
        ]
