"""Which topics fit shell patterns."""

from __future__ import annotations

import os
import random
from fnmatch import fnmatchcase

from pyspark.sql import SparkSession

from python_udfs.ingestion.tables.topics import of_topics

SEED = int(os.environ.get("TOPICS_SEED", random.randrange(10**6)))
PARTS = [
    "maxwell",
    "a",
    "A",
    ".",
    "-",
    "_",
    "*",
    "?",
    "[ab]",
    "[!a]",
    "[",
    "[^a]",
    "[a-]",
    "[]b]",
    "-a",
    "&&",
    "]",
    "\\",
    "%",
    "\n",
    "",
]


def test_a_topic_fits_as_a_file_name_fits_a_pattern_of_a_shell(spark: SparkSession) -> None:
    print(f"TOPICS_SEED={SEED}")
    chosen = random.Random(SEED)

    def text() -> str:
        return "".join(chosen.choices(PARTS, k=chosen.randint(0, 4)))

    topics = sorted({text() for _ in range(300)} | {"maxwell", "maxwell.", "maxwel", "xmaxwell"})
    given = [["maxwell*"], ["maxwell"], ["maxwell*", "a.*"], ["*"], [""], ["**"], ["a*", "[ab]?"]]
    given += [["[_[ab]"], ["[*[!a]"]]  # to Java a bracket within a set begins a set, too
    given += [[text() for _ in range(chosen.randint(1, 3))] for _ in range(40)]
    rows = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    found = rows.select("topic", *(of_topics(some).alias(str(n)) for n, some in enumerate(given)))
    for topic, *fits in found.collect():
        for patterns, fit in zip(given, fits, strict=True):
            right = any(fnmatchcase(topic, pattern) for pattern in patterns)
            assert fit == right, (topic, patterns)
    assert rows.where(of_topics([])).count() == len(topics)
