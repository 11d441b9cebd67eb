"""Which queries data tests ran: their own, or over touched rows alone."""

from __future__ import annotations

import pytest
from dbt.adapters.sparksession.edges import Context, Node
from dbt.adapters.sparksession.reading import touched_rows
from dbt.adapters.sparksession.versions.data_tests import DataTests


class RanQueries(dict[str, tuple[str, str]]):
    """Data test -> its own query, and that which it ran; without those that were proved."""

    @property
    def narrowed(self) -> set[str]:
        """Data tests that read touched rows alone."""
        return {name for name, (own, ran) in self.items() if own != ran}


def record_queries(patch: pytest.MonkeyPatch) -> RanQueries:
    """Take all tables for large, and note from now on what data tests run."""
    found, narrow = RanQueries(), DataTests.narrowed

    def narrowed(
        self: DataTests, model: Node, sql: str, proof: str | None, context: Context
    ) -> str:
        ran = narrow(self, model, sql, proof, context)
        found[model["name"]] = sql, ran
        return ran

    patch.setattr(touched_rows, "LARGE_TABLE", 0)
    patch.setattr(DataTests, "narrowed", narrowed)
    return found
