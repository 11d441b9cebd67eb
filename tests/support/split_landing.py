"""Split one change log into landing files, a business day or a part of one each.

    python -m tests.support.split_landing DAYS_JSON TARGET SOURCE [SOURCE ...]

The files are laid out and named as the file sinks of Kafka Connect do it:
TARGET/topics/<topic>/partition=0/<topic>+0+<offset of the first message>.jsonl.gz. The same input
gives the same bytes, so the result can be kept under version control and rebuilt at will.
"""

import argparse
import gzip
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

logger = logging.getLogger(__name__)

# Two days in two files each, so that a day is not always one file.
DEFAULT_PARTS = {"2026-03-03": 2, "2026-03-06": 2}


@dataclass(frozen=True)
class LandingFile:
    """One file to write: the day it belongs to, its first offset, its lines."""

    day: str
    first_offset: int
    lines: Sequence[bytes]


def read_lines(sources: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of the sources in turn, line feed included. `.gz` files are unpacked."""
    for source in sources:
        opener = gzip.open if source.suffix == ".gz" else open
        with opener(source, "rb") as stream:
            # Iterating bytes breaks at b"\n" only: U+2028 stands raw inside lines.
            yield from stream


def plan_files(
    lines: Sequence[bytes],
    days: Sequence[Mapping],
    parts: Mapping[str, int] | None = None,
) -> list[LandingFile]:
    """Assign each line to a file.

    lines: the whole log in order; the offset of a line is its index.
    days: in order; `day` is a name, `start` and `end` are [binlog file, byte offset] and bound the
        day's positions as [start, end). Lines before the first start go with the first day, lines
        without a position with the line before them.
    parts: day -> number of files of nearly equal length; a day that is not named gets one file.

    Raises ValueError when a line lies past the last day, or the days of the lines step back (the
    messages of a day would then not be consecutive offsets).
    """
    parts = DEFAULT_PARTS if parts is None else parts
    ends = [_comparable(*day["end"]) for day in days]
    by_day: list[list[bytes]] = [[] for _ in days]
    current = 0
    for offset, line in enumerate(lines):
        position = json.loads(line).get("position")
        if position is not None:
            file, _, number = position.rpartition(":")
            place = _comparable(file, int(number))
            index = sum(end <= place for end in ends)
            if index >= len(days):
                raise ValueError(f"offset {offset}: {position} lies past the last day")
            if index < current:
                raise ValueError(f"offset {offset}: {position} steps back to an earlier day")
            current = index
        by_day[current].append(line)

    files = []
    first_offset = 0
    for day, day_lines in zip(days, by_day, strict=True):
        for part in _even_parts(day_lines, parts.get(day["day"], 1)):
            files.append(LandingFile(day["day"], first_offset, part))
            first_offset += len(part)
    return files


def write_files(files: Iterable[LandingFile], target: Path, topic: str = "maxwell") -> list[Path]:
    """Write the files of partition 0 under `target` and return their paths, in offset order."""
    folder = target / "topics" / topic / "partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for file in files:
        path = folder / f"{topic}+0+{file.first_offset:010d}.jsonl.gz"
        path.write_bytes(pack(b"".join(file.lines)))
        logger.info("%s: %d messages of %s", path.name, len(file.lines), file.day)
        paths.append(path)
    return paths


def pack(content: bytes) -> bytes:
    """Compress with gzip, with neither time nor name in the header: same bytes each time."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()


def _comparable(file: str, number: int) -> tuple[int, int]:
    """Return a position that compares rightly: by the number of the binlog file, then offset."""
    return int(file.rsplit(".", 1)[1]), number


def _even_parts(lines: Sequence[bytes], count: int) -> list[Sequence[bytes]]:
    """Cut into `count` runs of nearly equal length; runs without a line are left out."""
    bounds = [len(lines) * part // count for part in range(count + 1)]
    return [lines[start:end] for start, end in pairwise(bounds) if end > start]


def _day_parts(text: str) -> tuple[str, int]:
    """Parse DAY=COUNT of the command line. Raises ArgumentTypeError."""
    day, separator, count = text.rpartition("=")
    if not separator or not count.isdecimal() or int(count) < 1:
        raise argparse.ArgumentTypeError(f"must be DAY=COUNT, got {text!r}. Example: 2026-03-03=2")
    return day, int(count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Split a change log into landing files by day.")
    parser.add_argument("days", type=Path, help="JSON list of {day, start, end}")
    parser.add_argument("target", type=Path, help="landing folder to write to")
    parser.add_argument("source", type=Path, nargs="+", help="change log, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--parts",
        type=_day_parts,
        action="append",
        metavar="DAY=COUNT",
        help="number of files of a day; replaces the built-in choice",
    )
    options = parser.parse_args(arguments)
    days = json.loads(options.days.read_text(encoding="utf-8"))
    parts = None if options.parts is None else dict(options.parts)
    files = plan_files(list(read_lines(options.source)), days, parts)
    write_files(files, options.target)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main()
