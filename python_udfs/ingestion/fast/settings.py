"""What the vars say of the workers that decode."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyspark.sql import functions as F

from python_udfs.ingestion.formats.envelope import COORDINATES

if TYPE_CHECKING:
    from pyspark.sql import Column

FROM_VAR, TWICE_VAR = "worker_decoding_from", "worker_decoding_checked_in"
NEVER = "never"
FROM_DEFAULT, TWICE_DEFAULT = 50_000, 1000


class WorkerSettings(NamedTuple):
    """Whether workers decode.

    Attributes:
        least: number of new messages from which they do, or None for never.
        checked_in: number of a worker's batches of which Spark decodes one batch as well.
    """

    least: int | None
    checked_in: int


class HasVars(Protocol):
    """A Python model's handle `dbt`."""

    def project_var(self, name: str, default: object = None) -> object:
        """A var of the project."""


def worker_settings(dbt: HasVars) -> WorkerSettings:
    """What the vars say of decoding.

    Args:
        dbt: handle of a Python model.

    Raises:
        ValueError: a var has another value than a number, or `never`.
    """
    least = os.environ.get("WORKER_DECODING_FROM") or str(dbt.project_var(FROM_VAR, FROM_DEFAULT))
    checked = str(dbt.project_var(TWICE_VAR, TWICE_DEFAULT))
    if least != NEVER and not least.isdecimal():
        raise ValueError(
            f"the var {FROM_VAR} is {least!r}, must be a number of messages or {NEVER!r}. "
            f"Example: {FROM_VAR}: {FROM_DEFAULT}"
        )
    if not checked.isdecimal() or not int(checked):
        raise ValueError(
            f"the var {TWICE_VAR} is {checked!r}, must be a whole number above 0. "
            f"Example: {TWICE_VAR}: {TWICE_DEFAULT}"
        )
    return WorkerSettings(None if least == NEVER else int(least), int(checked))


def difference() -> Column:
    """An error that names the message, which workers and Spark read otherwise."""
    place = F.concat_ws(":", *COORDINATES)
    text = F.concat(
        F.lit("the message at "),
        place,
        F.lit(
            " (batch, topic, partition, offset) was read otherwise by the Python workers than by "
            f"Spark: nothing is committed; run with --vars '{FROM_VAR}: {NEVER}', which leaves all "
            "to Spark, and report the message."
        ),
    )
    return F.raise_error(text).cast("string")
