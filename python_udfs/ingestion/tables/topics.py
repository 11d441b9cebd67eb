"""Which messages are of topics that fit shell patterns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_SIGNS = frozenset("*?[")  # of a shell pattern


def of_topics(patterns: Iterable[str]) -> Column:
    """Condition on `topic`: it fits one of the shell patterns; true where there are none."""
    from dbt.adapters.sparksession.declared.topics import topic_regex
    from pyspark.sql import functions as F

    topic, conditions, others = F.col("topic"), [], []
    for pattern in dict.fromkeys(patterns):
        # a comparison of texts costs a tenth of a regular expression
        begin = pattern.removesuffix("*")
        if _SIGNS.intersection(begin):
            # to Java \Z is before a last newline, too
            others.append(topic_regex(pattern).removesuffix(r"\Z") + r"\z")
        else:
            conditions.append(topic.startswith(begin) if begin != pattern else topic == begin)
    if others:
        conditions.append(topic.rlike("|".join(others)))
    return reduce(or_, conditions) if conditions else F.lit(True)
