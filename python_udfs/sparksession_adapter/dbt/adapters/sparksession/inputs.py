"""What each model reads: the snapshot it is pinned to, and the one its last commit recorded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from dbt.adapters.sparksession.connections import literal
from dbt.adapters.sparksession.snapshots import History, Snapshot

INPUT_PROPERTY = "dbt.input."
PROPERTY_SETTING = "spark.sql.iceberg.snapshot-property."


@dataclass
class Read:
    """One input of one model in this run.

    Attributes:
        table: schema.name of the input.
        recorded: snapshot that the model's last commit read; None when it never did.
        pinned: snapshot that this run reads.
        rows: rows read, where the snapshots' counters tell; else None.
        commits: the input's commits after `recorded`, newest first; None where the table was
            never read or was replaced since.
    """

    table: str
    recorded: int | None
    pinned: int
    rows: int | None = None
    commits: list[Snapshot] | None = None


@dataclass
class ModelInputs:
    """All inputs of one model in this run, and the partitions it has to write anew.

    Attributes:
        reads: table -> Read.
        predicate: SQL condition of the partitions to replace; None: all of them, `false`: none.
        replaces: whether the model asked for changed partitions at all.
        nothing_new: a Python model said that there is nothing to add.
        own: the model's own commits as they were when it was compiled.
        relations: names (schema.name) of the tables and views that it reads by a pin.
    """

    reads: dict[str, Read] = field(default_factory=dict)
    predicate: str | None = None
    replaces: bool = False
    nothing_new: bool = False
    own: History | None = None
    relations: set[str] = field(default_factory=set)

    @property
    def unchanged(self) -> bool:
        """Every input stands where the model's last commit read it."""
        return bool(self.reads) and all(
            read.recorded == read.pinned for read in self.reads.values()
        )


class Inputs:
    """The inputs of all models of one invocation. Threads share it.

    A table is pinned once: whoever reads it later in the run reads the same snapshot, whatever
    other writers do. Only the run's own build of a table moves its pin.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pins: dict[str, int] = {}
        self._models: dict[str, ModelInputs] = {}

    def of(self, model_id: str) -> ModelInputs:
        with self._lock:
            return self._models.setdefault(model_id, ModelInputs())

    def pin(self, table: str, head: int) -> int:
        """The run's snapshot of `table`: `head` if nobody pinned it before."""
        with self._lock:
            return self._pins.setdefault(table, head)

    def pinned(self, table: str) -> int | None:
        with self._lock:
            return self._pins.get(table)

    def built(self, table: str) -> None:
        """This run wrote `table`: readers after it take what it wrote."""
        with self._lock:
            self._pins.pop(table, None)


def partition_predicate(column: str, partitions: set[str]) -> str:
    """SQL condition for the rows of changed partitions.

    Args:
        column: the partition column; identity transform.
        partitions: as Iceberg's summaries write them, values URL-encoded, e.g.
            {"cut_date=2026-03-01"}. Parts of other partition columns are passed over.

    Returns:
        e.g. "cut_date in ('2026-03-01')"; "false" for no partitions. Spark casts the texts to
        the column's type: a text that looks like a number or a date stays right for a text
        column too.
    """
    prefix = f"{column}="
    values = sorted(
        {
            unquote_plus(part.removeprefix(prefix))
            for path in partitions
            for part in path.split("/")
            if part.startswith(prefix)
        }
    )
    if not values and partitions:
        raise ValueError(f"no partition column {column!r} in {sorted(partitions)[0]!r}")
    literals = [literal(value) for value in values if value != "null"]
    conditions = [f"{column} in ({', '.join(literals)})"] if literals else []
    if "null" in values:
        conditions.append(f"{column} is null")
    return " or ".join(conditions) if conditions else "false"
