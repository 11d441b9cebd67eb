"""Columns that no table can hold, from what Iceberg reports of them."""

from __future__ import annotations

import re

OF_LATER_FORMATS = re.compile(r"Invalid type for (\S+): (.+) is not supported until v\d")
INTERVAL = re.compile(
    r"Not a supported type: (interval\b.*)|Cannot use \"(INTERVAL)\" type in the table schema"
)
TIME_OF_DAY = re.compile(r"\[UNSUPPORTED_TIME_TYPE\]|Not a supported type: time\(\d+\)")
PARTITIONED = re.compile(r"Cannot partition by non-primitive source field: (.+)")
WITHOUT_TYPE = "unknown"  # Iceberg's word for the type of a bare null


def unstorable_columns(text: str) -> str | None:
    """A sentence for an error of Iceberg's about a column's type, None for any other error.

    >>> unstorable_columns("IllegalStateException: Invalid schema for v2:\\n- Invalid type for c: "
    ...     "unknown is not supported until v3")
    'A table holds no column of these types: c (null alone); cast a null, as in cast(null as \
string), and store other types as text, as by to_json(..).'
    """
    found = [
        f"{name} ({'null alone' if kind == WITHOUT_TYPE else kind})"
        for name, kind in OF_LATER_FORMATS.findall(text)
    ]
    if found:
        return (
            f"A table holds no column of these types: {', '.join(found)}; cast a null, as in "
            "cast(null as string), and store other types as text, as by to_json(..)."
        )
    partitioned = PARTITIONED.search(text)
    if partitioned is not None:
        return (
            f"No table is partitioned by a column of the type {partitioned[1].strip()}; let "
            "partition_by name columns of single values, which the query may make of it."
        )
    if TIME_OF_DAY.search(text):
        return (
            "A table or view holds no column of the type time; store it as text, as by "
            "cast(.. as string), or as a number, such as that of its seconds."
        )
    interval = INTERVAL.search(text)
    if interval is None:
        return None
    kind = (interval[1] or interval[2]).lower()
    return (
        f"A table holds no column of the type {kind}; store it as a number, such as that of its "
        "days or seconds."
    )
