"""What lines of Maxwell that are proven by their quotes hold: as Python's own JSON reads them.

COUNTED_SEED plays the same lines again.
"""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest

from python_udfs.ingestion.fast import counted
from python_udfs.ingestion.fast.images import Image, counted_images, field_of
from python_udfs.ingestion.fast.maxwell import DATA, OLD
from tests.ingestion.fast.in_process import layout_of
from tests.support.lines import source

SEED = int(os.environ.get("COUNTED_SEED", random.randrange(10**6)))
TABLE = source(
    {
        "id": "int",
        "old": "varchar(40)",
        "data": "bigint",
        "amount": "decimal(12,2)",
        "exact": "decimal(30,10)",
        "real": "double",
        "note": "text",
        "qty": "int",
        "n": "varchar(9)",
        "город": "varchar(9)",
        "a_name_of_more_than_sixteen_bytes": "char(5)",
    },
    aliases={"n": ["null", "middle"]},
)
LAYOUT = layout_of(TABLE)
SCHEMA = pa.schema([pa.field(DATA, LAYOUT.image), pa.field(OLD, LAYOUT.image)])
TEXTS = ["", " ", "paid", "null", ":null", '"', '":null,"', '","old":{"note":null},"x":"', "\\"]
TEXTS += ['"data":{', '{"data":{"id":null}}', "}}", '}}","', '},"old":{', "\\\\", '\\"', "город"]
TEXTS += ["a:1e-9", '"a":1e-9', "\u2028", "😀", "\0\x01", "NaN", "}{", "[[", "2026-03-01 00:00:00"]
# JSON of values by their kinds; the members that nobody declared have a kind each
VALUES = {
    "integer": ["0", "7", "-3", "2147483647"],
    "bigint": ["9007199254740993", "-1", "0"],
    "decimal": ["0", "3.50", "-0.01", "1e2", "12345678.9"],
    "double": ["0.5", "-2.5", "1E+2", "12345.678"],
    "text": [json.dumps(text, ensure_ascii=False) for text in TEXTS]
    + [json.dumps(text) for text in TEXTS],
    "boolean": ["true", "false"],
    "null": ["null"],
}
KINDS = {name: kind.kind for name, kind in TABLE.columns.items()}
KINDS |= {"data": "bigint", "null": "text", "middle": "text"}
BESIDE = {"type": "text", "ts": "integer", "commit": "boolean", "x": "text", "id": "integer"}
BESIDE |= {"note": "text", "nul": "null", "null": "null", "data2": "double", "": "text"}
UNDECLARED = {"more": "integer", "text": "text", "nothing": "null", "ol": "boolean", "": "double"}
UNDECLARED |= {"dat": "text", "e": "double", "datа": "null"}


LONG_NAME = "x" * 300


class Written(NamedTuple):
    """A line, and whether it is written as Maxwell writes lines."""

    text: str
    is_plain: bool


def image(chance: random.Random, share: float) -> list[tuple[str, str]]:
    """Members of an image, each with its JSON."""
    kinds = KINDS | UNDECLARED
    names = [name for name in kinds if chance.random() < share]
    names += [LONG_NAME] * (chance.random() < 0.02)
    chance.shuffle(names)
    nulls = chance.choice([0, 0.1, 0.5, 1])
    found = []
    for name in names:
        kind = "null" if chance.random() < nulls else kinds.get(name, "text")
        found.append((name, chance.choice(VALUES[kind])))
    return found


def line(chance: random.Random, twice: bool) -> Written:
    """A line that a parser takes, of members in any order.

    Args:
        twice: whether a name may stand twice, for which the parser takes no line of a batch.
    """
    parts: list[tuple[str, str | list[tuple[str, str]]]] = [
        (name, chance.choice(VALUES["null" if chance.random() < 0.1 else kind]))
        for name, kind in BESIDE.items()
        if chance.random() < 0.5
    ]
    is_plain = True
    for name, share in ((DATA, 0.7), (OLD, 0.3)):
        if chance.random() < 0.95:
            parts.append((name, image(chance, share)))
        elif chance.random() < 0.5:
            parts.append((name, "null"))
    if chance.random() < 0.3:
        chance.shuffle(parts)
        is_plain = False
    many = chance.choice([0, 0, 0, 0.01, 0.05])  # of the places where a blank may stand
    is_plain &= not many

    def blank() -> str:
        return " " * chance.randint(1, 3) if many and chance.random() < many else ""

    def named(name: str) -> str:
        escaped = many and name and chance.random() < 0.02
        first = f"\\u{ord(name[0]):04x}" if escaped else name[:1]
        return f'{blank()}"{first}{name[1:]}"{blank()}:{blank()}'

    def members(pairs: list) -> str:
        if twice and pairs and chance.random() < 0.1:
            pairs = [*pairs, (chance.choice(pairs)[0], "null")]
        inner = ",".join(
            f"{named(name)}{members(found) if isinstance(found, list) else found}{blank()}"
            for name, found in pairs
        )
        return "{" + (inner or blank()) + "}"

    return Written(members(parts), is_plain)


Pairs = list[tuple[str, object]]


def truth(text: str) -> dict[str, Pairs | None] | None:
    """Both images of a line, None for one that is null or absent; None where a name is twice."""
    pairs: Pairs = json.loads(text, object_pairs_hook=list, parse_float=Decimal)
    found = {name: value for name, value in pairs if isinstance(value, list)}
    images = {part: found.get(part) for part in (DATA, OLD)}
    for some in (pairs, *images.values()):
        names = [name for name, _ in some or []]
        if len(set(names)) < len(names):
            return None
    return images


def assert_is(image: Image, row: int, right: Pairs | None, text: str) -> None:
    """The image is what is right, or isn't proven."""
    assert image.values[row].is_valid == (right is not None), text
    members = dict(right or [])
    for number, column in enumerate(LAYOUT.columns):
        there = [name for name in column.names if name in members]
        if len(there) > 1:
            assert image.odd[row], text
            return
        assert image.named[number, row] == bool(there), (column.name, text)
        value = field_of(image.values, column)[row].as_py()
        wanted = members[there[0]] if there else None
        if isinstance(value, float):
            assert isinstance(wanted, (int, Decimal)), text
            wanted = float(wanted)
        assert value == wanted, (column.name, text)


@pytest.mark.parametrize("size", [1, 2, 7, 60, 700])
def test_proven_lines_hold_what_python_reads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"COUNTED_SEED={SEED}")
    monkeypatch.setattr(counted, "LEAST_PROVEN", 0.0)
    chance = random.Random(SEED + size)
    plain = proven = refused = 0
    for _ in range(max(900 // size, 3)):
        twice = chance.random() < 0.2
        lines = [line(chance, twice) for _ in range(size)]
        texts = pa.array([written.text + "\n" for written in lines], pa.string())
        found = counted_images(LAYOUT, texts, (DATA, OLD))
        if found is None:  # a name twice, for which the parser takes none of them
            refused += 1
            continue
        kept, odd, images = found
        assert images is not None
        plain += sum(written.is_plain for written in lines)
        for row, number in enumerate(kept.tolist()):
            if odd[row]:
                continue
            proven += lines[number].is_plain
            right = truth(lines[number].text)
            assert right is not None, lines[number].text
            for part, image_of in zip((DATA, OLD), images, strict=True):
                assert_is(image_of, row, right[part], lines[number].text)
    assert proven > 0.6 * plain
