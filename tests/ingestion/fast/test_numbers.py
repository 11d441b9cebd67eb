"""A number that the workers' decoder proves is the number that was written, by Python's own numbers
and not by Spark's.

MUTATION_SEED plays the same numbers again.
"""

from __future__ import annotations

import os
import random
import struct
from decimal import Context, Decimal
from typing import Any
from unittest.mock import patch

import pytest

from python_udfs.ingestion.fast import parsing
from tests.ingestion.fast.in_process import decoded, layout_of
from tests.support.lines import source

SEED = int(os.environ.get("MUTATION_SEED", random.randrange(10**6)))
EXACT = {
    **{"tiny": "tinyint", "tiny_unsigned": "tinyint unsigned", "small": "smallint", "plain": "int"},
    **{"big": "bigint", "big_unsigned": "bigint unsigned", "short": "decimal(5,3)"},
    **{"money": "decimal(12,2)", "long": "decimal(38,10)", "places": "decimal(30,30)"},
    "whole": "decimal(38,0)",
}
ROUNDED = {"single": "float", "double": "double"}
# with a decimal no number of a message may have a negative exponent
LAYOUTS = [
    (columns, layout_of(source({"id": "int", **columns})))
    for columns in ({**EXACT, **ROUNDED}, ROUNDED)
]
MESSAGE = (
    '{"database":"shop","table":"o","type":"insert","ts":1772416800,"xid":7,"xoffset":0,'
    '"position":"bin.000007:9580","data":{"id":1,"%s":%s}}'
)
LENGTHS = (1, 1, 2, 3, 5, 10, 15, 17, 19, 20, 28, 30, 31, 37, 38, 39, 40, 60, 100)
EXPONENTS = (0, 1, 2, 5, 9, 10, 28, 29, 37, 38, 39, 45, 76, 100, 308, 309, 324, 1000, 2**31 - 1)
BOUNDS = (2**7, 2**8, 2**15, 2**16, 2**24, 2**31, 2**32, 2**53, 2**63, 2**64, 2**127, 2**128)
BOUNDS += (10**10, 10**28, 10**38)
AT_ONCE = 2000


def number_text(pick: random.Random) -> str:
    """A number as JSON writes it, often near a bound."""

    def digits() -> str:
        signs = pick.choice(("0123456789", "09", "05", "01"))
        return "".join(pick.choices(signs, k=pick.choice(LENGTHS)))

    sign = "-" if pick.random() < 0.3 else ""
    if pick.random() < 0.3:
        near = pick.choice(BOUNDS) + pick.randrange(-2, 3)
        return f"{sign}{near}{pick.choice(('', '', '.0', '.5', 'e0'))}"
    text = sign + (digits().lstrip("0") or "0")
    if pick.random() < 0.5:
        text += f".{digits()}"
    if pick.random() < 0.3:
        exponent = pick.choice((*EXPONENTS, pick.randrange(400), pick.randrange(2**31)))
        zeros = pick.choice(("", "", "0", "00"))
        text += f"{pick.choice('eE')}{pick.choice(('', '+', '-'))}{zeros}{exponent}"
    return text


def is_written(kind: str, text: str, value: Any) -> bool:
    """Whether a decoded value is the number of a text: exactly, or what is nearest to it."""
    if kind not in ROUNDED.values():
        # a context with room for the digits; a huge exponent is no value of these types
        return Context(prec=500).compare(Decimal(str(value)), Decimal(text)) == 0
    nearest = float(text)
    if kind == "float":
        (nearest,) = struct.unpack("<f", struct.pack("<f", nearest))
    return struct.pack("<d", value) == struct.pack("<d", nearest)


def check_numbers(seed: int, count: int) -> int:
    """Decode numbers; how many were proven.

    Args:
        count: of numbers of each layout.
    """
    print(f"MUTATION_SEED={seed}")
    pick, proven = random.Random(seed), 0
    for columns, layout in LAYOUTS:
        for _ in range(count // AT_ONCE):
            chosen = [(pick.choice(list(columns)), number_text(pick)) for _ in range(AT_ONCE)]
            # each line is asked, however many don't pass
            with patch.object(parsing, "MOST_MISFITS", 1.0):
                found = decoded(layout, [MESSAGE % pair for pair in chosen])
            proven += len(found)
            for number, row in found.items():
                name, text = chosen[number]
                assert row["after"]["raw_values"] is None
                assert is_written(columns[name], text, row["after"][name]), (columns[name], text)
    return proven


def test_a_proven_number_is_the_number_that_was_written() -> None:
    assert check_numbers(SEED, AT_ONCE) > AT_ONCE // 2


@pytest.mark.soak
def test_half_a_million_numbers() -> None:
    assert check_numbers(SEED + 1, 250_000) > 100_000
