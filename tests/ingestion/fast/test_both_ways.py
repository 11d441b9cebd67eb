"""A row that the workers' decoder gives is the row that the decoder in Spark gives.

MUTATION_SEED plays the same messages again.
"""

from __future__ import annotations

import os
import random

import pytest
from pyspark.sql import SparkSession

from python_udfs.ingestion.tables.source import TableSource
from tests.ingestion.fast.both_ways import compare
from tests.support.lines import ZONE
from tests.support.mutated_rows import ORDERS, TYPES, mutated, normal

SEED = int(os.environ.get("MUTATION_SEED", random.randrange(10**6)))
TABLES = {"orders": ORDERS, "types": TYPES}
ZONES = [ZONE, "Asia/Shanghai", "Europe/Berlin"]
SOAKED = 1_000_000  # mutated messages
BLOCK = 20_000


@pytest.mark.parametrize("name", TABLES)
def test_proven_rows_are_those_of_the_decoder_in_spark(spark: SparkSession, name: str) -> None:
    print(f"MUTATION_SEED={SEED}")
    table = TABLES[name]
    payloads = [*normal(SEED, table, 1000), *mutated(SEED, table, 3000)]
    found = compare(spark, payloads, table, "Asia/Shanghai")
    assert not found.wrong, found.wrong[0]
    assert found.proven_of(range(1000)) >= 990
    # most of the mutated messages are no rows
    assert found.proven_of(range(1000, 4000)) > 250


@pytest.mark.soak
@pytest.mark.parametrize("block", range(SOAKED // BLOCK))
def test_rows_of_a_million_mutated_messages(spark: SparkSession, block: int) -> None:
    seed = SEED + 1 + block
    print(f"MUTATION_SEED={seed}")
    table: TableSource = list(TABLES.values())[block % 2]
    found = compare(spark, mutated(seed, table, BLOCK), table, ZONES[block % 3])
    assert not found.wrong, found.wrong[0]
