"""The Java side of a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> Any:
    """Java's packages and classes as py4j shows them, of a Spark inside this process.

    py4j has no types, and pyspark's own names the view optional.
    """
    return session._jvm
