"""A build that is held back, compared with the newest version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.sparksession.sql import literal
from dbt.adapters.sparksession.versions.diff import UNKNOWN, Differences
from dbt.adapters.sparksession.versions.store import Version
from dbt.adapters.sparksession.warehouse import Warehouse
from dbt_common.invocation import get_invocation_id

SAMPLE_ROWS = 5


class Comparison:
    """Compares versions row by row, and keeps what came of it."""

    def __init__(self, warehouse: Warehouse, differences: Differences) -> None:
        self._warehouse = warehouse
        self._differences = differences

    def compare_candidate(self, old: Version, new: Version, context: dict[str, Any]) -> list[str]:
        """Compare the build that is held back (`new`) with the newest version, row by row; lines
        that tell it. What each table and view came to is kept in meta_quality."""
        keys = self._differences.keys_by_name(context)
        lines = [f"Held back: where the candidate differs from version {old.version}"]
        kept: dict[str, dict[str, int]] = {}
        for name in new.changed:
            if name in old.queries and name in new.queries:
                queries = old.queries[name], new.queries[name]
                lines += self._differences.difference(
                    name, *queries, keys.get(name, UNKNOWN), SAMPLE_ROWS, kept
                )
        for table, snapshot in sorted(new.snapshots.items()):
            before = old.snapshots.get(table)
            commits = (
                self._warehouse.history(table).between(before, snapshot)
                if before != snapshot
                else []
            )
            changed = [commit.partitions() or set() for commit in commits or []]
            written = sorted(set().union(*changed))
            if written:
                shown = ", ".join(written[:SAMPLE_ROWS])
                more = f" and {len(written) - SAMPLE_ROWS} more" * (len(written) > SAMPLE_ROWS)
                lines.append(f"  {table} was written in {shown}{more}")
        self._keep_comparison(old, new, kept)
        return [
            *lines,
            "dbt run-operation publish_candidate publishes it, dbt run-operation drop_candidate "
            "puts the tables back.",
        ]

    def _keep_comparison(
        self, old: Version, new: Version, kept: Mapping[str, Mapping[str, int]]
    ) -> None:
        table = f"{self._warehouse.credentials.schema}.meta_quality"
        columns = (
            "check_name string, run_id string, checked_at timestamp, verdict string, "
            "threshold bigint, groups_compared bigint, groups_differing bigint, count_got bigint, "
            "count_expected bigint, count_difference bigint, sum_difference decimal(38, 4)"
        )
        session = self._warehouse.session()
        session.sql(f"create table if not exists {table} ({columns}) using iceberg")
        names = ", ".join(part.split()[0] for part in columns.replace("(38, 4)", "").split(", "))
        for name, counts in kept.items():
            got, expected = (
                session.sql(f"select count(*) as n from ({version.queries[name]})").first().n
                for version in (new, old)
            )
            rows = sum(counts.values())
            added, removed = counts.get("added", 0), counts.get("removed", 0)
            session.sql(
                f"insert into {table} ({names}) select "
                f"{literal(f'{name}: candidate as version {old.version}')}, "
                f"{literal(get_invocation_id())}, current_timestamp(), "
                f"'{'differs' if rows else 'passed'}', 0, {max(got, expected)}, {rows}, "
                f"{got}, {expected}, {added + removed}, 0"
            )
