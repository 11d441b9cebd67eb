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
from tests.support import mutated_formats, mutated_rows
from tests.support.lines import ZONE
from tests.support.mutated_formats import CONVERT, tables_of
from tests.support.mutated_rows import ORDERS, TYPES
from tests.support.typed_model import uncompiled

SEED = int(os.environ.get("MUTATION_SEED", random.randrange(10**6)))
TABLES = {
    ("maxwell", "orders"): ORDERS,
    ("maxwell", "types"): TYPES,
    **{(made, name): table for made in CONVERT for name, table in tables_of(made).items()},
}
# a column of each type. Spark plans those of the other formats for longer
QUICK = [("maxwell", "types")]
CHOSEN = [
    pytest.param(*key, id="-".join(key), marks=[] if key in QUICK else [pytest.mark.soak])
    for key in TABLES
]
ZONES = [ZONE, "Asia/Shanghai", "Europe/Berlin"]
SOAKED = 1_000_000  # mutated messages
BLOCK = 20_000
NORMAL, MUTATED = 600, 1000


def messages(kind: str, seed: int, table: TableSource, count: int) -> list:
    made = mutated_formats if table.format in mutated_formats.CONVERT else mutated_rows
    return getattr(made, kind)(seed, table, count)


@pytest.mark.in_turn
@pytest.mark.parametrize(("log_format", "name"), CHOSEN)
def test_proven_rows_are_those_of_the_decoder_in_spark(
    spark: SparkSession, log_format: str, name: str
) -> None:
    print(f"MUTATION_SEED={SEED}")
    table = TABLES[log_format, name]
    payloads = [
        *messages("normal", SEED, table, NORMAL),
        *messages("mutated", SEED, table, MUTATED),
    ]
    found = compare(uncompiled(spark), payloads, table, "Asia/Shanghai")
    assert not found.wrong, found.wrong[0]
    assert found.proven_of(range(NORMAL)) >= 0.99 * NORMAL
    # most of the mutated messages are no rows
    assert found.proven_of(range(NORMAL, NORMAL + MUTATED)) > 0.08 * MUTATED


@pytest.mark.in_turn
@pytest.mark.parametrize("table", [ORDERS, TYPES], ids=["orders", "types"])
def test_rows_that_are_proven_alone_are_those_of_the_decoder_in_spark(
    spark: SparkSession, table: TableSource
) -> None:
    """Without others, for whose sake a message may be proven by its structure."""
    print(f"MUTATION_SEED={SEED}")
    payloads = [
        *messages("normal", SEED, table, NORMAL // 3),
        *messages("mutated", SEED, table, MUTATED),
    ]
    found = compare(uncompiled(spark), payloads, table, "Asia/Shanghai", alone=True)
    assert not found.wrong, found.wrong[0]
    assert found.proven_of(range(NORMAL // 3, NORMAL // 3 + MUTATED)) > 0.08 * MUTATED


@pytest.mark.soak
@pytest.mark.parametrize("block", range(SOAKED // BLOCK))
def test_rows_of_a_million_mutated_messages(spark: SparkSession, block: int) -> None:
    seed = SEED + 1 + block
    print(f"MUTATION_SEED={seed}")
    table: TableSource = list(TABLES.values())[block % len(TABLES)]
    payloads = messages("mutated", seed, table, BLOCK)
    # each half of the blocks in another way
    alone = block // len(TABLES) % 2 == 1
    found = compare(spark, payloads, table, ZONES[block % 3], alone)
    assert not found.wrong, found.wrong[0]
