"""Lines of landed files at offsets that are held already, as checksums of short stretches.

What is held is compared with them: a file that is read again may have been edited since, at any of
its lines.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

from python_udfs.ingestion.landing.files import LONGEST_LINE, offsets_key, read_lines
from python_udfs.ingestion.landing.object_stores import ObjectStore
from python_udfs.ingestion.landing.offsets import Interval

# offsets of a stretch have one quotient by this. A checksum is below 2^32 * STRETCH^2, a bigint
STRETCH = 1000


class Stretch(NamedTuple):
    """Held lines of one file, without gaps.

    Attributes:
        path: the file's.
        first, last: offsets, of one quotient by STRETCH.
        checksum: sum of each line's CRC-32, times its offset's remainder by STRETCH and 1: so two
            lines that changed places show, too.
    """

    path: str
    batch: str
    topic: str
    partition: int
    first: int
    last: int
    checksum: int


def held_stretches(
    files: Iterable[tuple[str, str, str, int, int]],
    held: Mapping[str, list[Interval]],
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
) -> Iterator[Stretch]:
    """The lines of some files that are held, but those that aren't whole.

    A file is read as far as its offsets are held; one of which none is held isn't opened.

    Args:
        files: (path, batch, topic, partition, first offset).
        held: offsets_key -> merged intervals of the offsets that the table holds.
        longest, store: as of `read_lines`.
    """
    for path, batch, topic, partition, first_offset in files:
        intervals = held.get(offsets_key(batch, topic, partition), [])
        for first, lines in _held_lines(path, first_offset, intervals, longest, store):
            checksums = map(crc32, lines)
            factors = range(first % STRETCH + 1, STRETCH + 1)
            total = sum(map(operator.mul, checksums, factors))
            last = first + len(lines) - 1
            yield Stretch(path, batch, topic, partition, first, last, total)


def checksums_at(
    stretches: Iterable[Stretch],
    first_offset: int,
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
) -> dict[int, int]:
    """Offset -> CRC-32 of the line there, for stretches of one file.

    Args:
        first_offset: of the file.
    """
    stretches = sorted(stretches, key=lambda stretch: stretch.first)
    path = stretches[0].path
    asked = [(stretch.first, stretch.last) for stretch in stretches]
    return {
        offset: crc32(line)
        for first, lines in _held_lines(path, first_offset, asked, longest, store)
        for offset, line in enumerate(lines, first)
    }


def _held_lines(
    path: str,
    offset: int,
    intervals: list[Interval],
    longest: int,
    store: ObjectStore | None,
) -> Iterator[tuple[int, list[bytes]]]:
    """Offset of the first, and lines, of each stretch of a file that lies in some intervals.

    Args:
        offset: of the file's first line.
    """
    end = max((last for _, last in intervals), default=-1)
    if offset > end:
        return
    for lines, reason in read_lines(path, longest, store):
        behind = offset + len(lines)
        for first, last in intervals if reason is None else ():
            begin, stop = max(first, offset), min(last + 1, behind)
            while begin < stop:
                until = min(stop, begin - begin % STRETCH + STRETCH)
                yield begin, lines[begin - offset : until - offset]
                begin = until
        offset = behind
        if offset > end:
            return
