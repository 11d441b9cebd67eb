"""Fixtures of the tests of declarations."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.declared_rows import insert
from tests.support.typed_model import Model


@pytest.fixture
def model(spark: SparkSession) -> Model:
    """A model that has read one insert."""
    made = Model(spark, "maxwell", ["id"])
    made.take({0: insert(1, 100)})
    return made
