"""A number that the workers' decoder proves is the number that was written, by Python's own numbers
and not by Spark's.

MUTATION_SEED plays the same numbers again.
"""

from __future__ import annotations

import base64
import os
import random
import re
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any
from unittest.mock import patch

import pytest

from python_udfs.ingestion.fast import parsing
from python_udfs.ingestion.fast.images import Layout
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
# a message with one column beside its key, and the options of its format
MAXWELL = (
    '{"database":"shop","table":"o","type":"insert","ts":1772416800,"xid":7,"xoffset":0,'
    '"position":"bin.000007:9580","data":{"id":1,"%s":%s}}'
)
CANAL = (
    '{"data":[{"id":"1","%s":"%s"}],"database":"shop","es":1772416800000,"isDdl":false,'
    '"mysqlType":{},"old":null,"pkNames":["id"],"sql":"","table":"o","type":"INSERT"}'
)
DEBEZIUM = (
    '{"before":null,"after":{"id":1,"%s":%s},"source":{"db":"shop","table":"o","pos":1},'
    '"op":"c","ts_ms":1772416800000}'
)
MESSAGES = {
    "maxwell": (MAXWELL, {}),
    "canal": (CANAL, {}),
    "debezium": (DEBEZIUM, {"decimal.handling.mode": "double"}),
    "debezium, decimals in texts": (DEBEZIUM, {"decimal.handling.mode": "string"}),
    "debezium, decimals in bytes": (DEBEZIUM, {"decimal.handling.mode": "precise"}),
    "events": ('{"id":1,"%s":%s}', {}),
}
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


def layouts(log_format: str, options: dict[str, str]) -> Iterator[tuple[dict[str, str], Layout]]:
    """Columns of a table, and how its messages are read. Floats stand in a table of their own, too:
    beside decimals no number with a negative exponent is proven."""
    exact = dict(EXACT)
    if log_format == "debezium":  # it writes an unsigned number as that of the same bits
        del exact["big_unsigned"]
    for columns in ({**exact, **ROUNDED}, ROUNDED):
        table = source({"id": "int", **columns}, format=log_format, options=options)
        yield columns, layout_of(table)


def check_numbers(name: str, seed: int, count: int) -> int:
    """Decode numbers; how many were proven.

    Args:
        name: of messages.
        count: of numbers of each layout.
    """
    print(f"MUTATION_SEED={seed}")
    pick, proven = random.Random(seed), 0
    message, options = MESSAGES[name]
    log_format, mode = name.partition(",")[0], options.get("decimal.handling.mode")
    for columns, layout in layouts(log_format, options):
        for _ in range(count // AT_ONCE):
            chosen = [(pick.choice(list(columns)), number_text(pick)) for _ in range(AT_ONCE)]
            if mode == "precise":
                chosen = [(column, unscaled(columns[column], text)) for column, text in chosen]
            texts = [
                message % (column, written(mode, columns[column], text)) for column, text in chosen
            ]
            # each line is asked, however many don't pass
            with patch.object(parsing, "MOST_MISFITS", 1.0):
                found = decoded(layout, texts, log_format)
            proven += len(found)
            for number, row in found.items():
                column, text = chosen[number]
                assert row["after"]["raw_values"] is None
                assert is_written(columns[column], text, row["after"][column]), (column, text)
    return proven


def written(mode: str | None, kind: str, text: str) -> str:
    """A number as a message has it."""
    if mode == "string" and kind.startswith("decimal"):
        return f'"{text}"'
    if mode != "precise" or not kind.startswith("decimal"):
        return text
    number = int(Decimal(text).scaleb(places_of(kind), Context(prec=500)))
    length = (8 + (number + (number < 0)).bit_length()) // 8
    return f'"{base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()}"'


def unscaled(kind: str, text: str) -> str:
    """A number without exponent, with as many places as its column has."""
    if not kind.startswith("decimal"):
        return text
    digits = re.sub(r"[eE].*|\.", "", text)
    return str(Decimal(digits).scaleb(-places_of(kind), Context(prec=500)))


def places_of(kind: str) -> int:
    return int(kind.rstrip(")").partition(",")[2])


@pytest.mark.parametrize("name", MESSAGES)
def test_a_proven_number_is_the_number_that_was_written(name: str) -> None:
    assert check_numbers(name, SEED, AT_ONCE) > AT_ONCE // 2


@pytest.mark.soak
@pytest.mark.parametrize("name", MESSAGES)
def test_a_hundred_thousand_numbers_of_each(name: str) -> None:
    assert check_numbers(name, SEED + 1, 50_000) > 20_000
