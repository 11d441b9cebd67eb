"""Landed files in the layout of Kafka Connect's file sinks.

    <landing>/topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz]
    <landing>/batches/<batch>/topics/...    the same once more for a log that was sent again

A file holds one message a line; the offset of a message is the file's first offset plus its line
number from 0. So a file that is delivered again, whole or split otherwise, gives the same
(topic, partition, offset) to the same message.
"""

from __future__ import annotations

import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from python_udfs.landing.offsets import Interval, held_until, merge

TOPICS = "topics"
BATCHES = "batches"
LIVE = "live"  # the batch of the running log
BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
FILE_NAME = re.compile(r"(?P<topic>.+)\+(?P<partition>\d+)\+(?P<offset>\d+)\.jsonl(?P<gz>\.gz)?")
CHUNK = 4 << 20  # bytes read at once, and about the size of an Arrow batch
CUT_LINE = "the file ends within a line"
CUT_STREAM = "the file's gzip stream is cut or broken"


@dataclass(frozen=True, order=True)
class LandedFile:
    """One file of one topic's partition.

    Attributes:
        topic, partition, first_offset: as the name says.
        path: absolute.
        size: bytes when it was listed.
        changed_ns: when it came into the folder or was last written, ns; a copy that keeps the
            time of its original still counts as changed now (st_ctime).
        batch: the batch that the file was delivered under; LIVE for the running log.
    """

    topic: str
    partition: int
    first_offset: int
    path: str
    size: int
    changed_ns: int = 0
    batch: str = LIVE

    @property
    def name(self) -> str:
        """The file's name, behind its batch's where it isn't of the running log."""
        name = os.path.basename(self.path)
        return name if self.batch == LIVE else f"{self.batch}:{name}"

    @property
    def key(self) -> str:
        """What the offsets that a table holds are kept by."""
        return offsets_key(self.batch, self.topic, self.partition)


def offsets_key(batch: str, topic: str, partition: int) -> str:
    """topic/partition, behind the batch's name where it isn't the running log.

    >>> offsets_key("live", "maxwell", 0), offsets_key("again", "maxwell", 0)
    ('maxwell/0', 'again:maxwell/0')
    """
    return f"{topic}/{partition}" if batch == LIVE else f"{batch}:{topic}/{partition}"


def list_files(landing: str) -> list[LandedFile]:
    """All files of a landing folder, ordered by batch, topic, partition and first offset.

    Names that begin with `.`, `_` or `+` (a sink's temporary files and markers) are passed over.

    Raises:
        FileNotFoundError: no such folder, or no `topics` in it.
        ValueError: names that don't fit the layout; all of them in one message.
    """
    topics = os.path.join(landing, TOPICS)
    if not os.path.isdir(topics):
        raise FileNotFoundError(
            f"No landing folder {topics}: LANDING must name a folder that holds "
            "topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz]."
        )
    found, misfits = _listed(landing, topics, LIVE)
    batches = os.path.join(landing, BATCHES)
    for batch in sorted(os.listdir(batches)) if os.path.isdir(batches) else ():
        if batch[0] in "._+" or batch.startswith("README"):
            continue
        inside = os.path.join(batches, batch, TOPICS)
        if not BATCH_NAME.fullmatch(batch) or batch == LIVE or not os.path.isdir(inside):
            misfits.append(os.path.relpath(os.path.join(batches, batch), landing))
            continue
        more, wrong = _listed(landing, inside, batch)
        found += more
        misfits += wrong
    if misfits:
        raise ValueError(
            f"{len(misfits)} landed files don't fit the layout "
            "[batches/<batch>/]topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz] "
            f"(a batch's name: letters, digits, - and _, not {LIVE}): "
            f"{', '.join(sorted(misfits)[:10])}. Rename them or take them away."
        )
    return sorted(found, key=lambda one: (one.batch, one))


def _listed(landing: str, topics: str, batch: str) -> tuple[list[LandedFile], list[str]]:
    """The files under one `topics` folder, and the names that don't fit the layout."""
    found, misfits = [], []
    for folder, folders, names in os.walk(topics, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] not in "._+")
        for name in names:
            if name[0] in "._+" or name.startswith("README"):
                continue
            path = os.path.join(folder, name)
            match = FILE_NAME.fullmatch(name)
            place = os.path.relpath(folder, topics)
            if not match or place != f"{match['topic']}/partition={int(match['partition'])}":
                misfits.append(os.path.relpath(path, landing))
                continue
            status = os.stat(path)
            found.append(
                LandedFile(
                    topic=match["topic"],
                    partition=int(match["partition"]),
                    first_offset=int(match["offset"]),
                    path=path,
                    size=status.st_size,
                    changed_ns=status.st_ctime_ns,
                    batch=batch,
                )
            )
    return found, misfits


def files_to_read(
    files: list[LandedFile],
    held: dict[str, list[Interval]],
    seen_sizes: dict[str, int],
    seen_until_ns: int | None = None,
) -> list[LandedFile]:
    """The files that may hold a message not held yet.

    A file that came since the last listing is always one: it may go on where the names of its
    neighbours don't tell. An older one is covered when its first offset is held and all up to
    the next file's is.

    Files that overlap are all read: `message_batches` takes each message from one of them.

    Args:
        files: ordered as by `list_files`.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        seen_sizes: LandedFile.name -> size at the time when it was last read, of those files
            whose end the next file's name doesn't tell: a partition's last file and broken ones.
        seen_until_ns: newest `changed_ns` of the last listing; None: no file is taken for new.
    """
    chosen = []
    for index, file in enumerate(files):
        until = held_until(held.get(file.key, []), file.first_offset)
        following = files[index + 1] if index + 1 < len(files) else None
        same_partition = following is not None and following.key == file.key
        is_new = seen_until_ns is not None and file.changed_ns > seen_until_ns
        covered = until is not None and same_partition and following.first_offset <= until + 1
        if covered and not is_new:
            continue
        if seen_sizes.get(file.name) == file.size:
            continue
        chosen.append(file)
    return chosen


def open_ended(files: list[LandedFile], held: dict[str, list[Interval]]) -> dict[str, int]:
    """Name -> size of the files whose end only reading tells: see `files_to_read`."""
    return {file.name: file.size for file in files_to_read(files, held, {})}


def read_lines(path: str) -> Iterator[tuple[list[bytes], str | None]]:
    """The lines of a file in chunks, without their newline.

    Yields:
        (lines, None) for whole lines; at the end at most one ([rest], reason) where the file
        ends within a line or its gzip stream is broken: `rest` is what could be read of it.
    """
    gz = path.endswith(".gz")
    carry: list[bytes] = []
    broken = None
    with open(path, "rb") as file:
        for block in _unzipped(file) if gz else iter(lambda: file.read(CHUNK), b""):
            if block is None:
                broken = CUT_STREAM
                break
            head, newline, tail = block.partition(b"\n")
            if not newline:
                carry.append(block)
                continue
            lines = tail.split(b"\n")
            first = b"".join(carry) + head
            carry = [lines.pop()]
            yield [first, *lines], None
    rest = b"".join(carry)
    if broken or rest:
        yield [rest], broken or CUT_LINE


def _unzipped(file: object) -> Iterator[bytes | None]:
    """Blocks of a gzip file (members may follow each other); None at the end where it is cut."""
    unzip = zlib.decompressobj(wbits=31)
    started = False
    read: Callable[[int], bytes] = file.read  # type: ignore[attr-defined]
    while data := read(CHUNK >> 2):
        while data:
            started = True
            try:
                # bounded: a small file may hold a very long run of one byte
                yield unzip.decompress(data, CHUNK)
                while unzip.unconsumed_tail:
                    yield unzip.decompress(unzip.unconsumed_tail, CHUNK)
            except zlib.error:
                yield None
                return
            data = unzip.unused_data
            if unzip.eof:
                unzip, started = zlib.decompressobj(wbits=31), False
    if started:
        yield None


def count_lines(path: str) -> int:
    """Number of whole lines of a file."""
    return sum(len(lines) for lines, cut_reason in read_lines(path) if cut_reason is None)


def message_batches(
    files: Iterable[tuple[str, str, str, int, int]],
    held: dict[str, list[Interval]],
    together: dict[str, list[tuple[int, str]]] | None = None,
) -> Iterator[dict[str, list]]:
    """The messages of some files as columns, without those held already.

    Where files that are read in one run overlap, a message is taken from the last of them that
    holds it. Only a file that reaches into the next one has to look how far that one goes; files
    that end where the next begins, as a sink writes them, cost nothing.

    Args:
        files: (path, batch, topic, partition, first offset).
        held: as for `files_to_read`.
        together: offsets_key -> (first offset, path), sorted, of all files of this run.

    Yields:
        {"batch_id", "topic", "partition_number", "message_offset", "run_offset", "message_key",
        "payload", "cut_reason"}: lists of one length. run_offset is the first offset of the
        unbroken run that the message was read in; cut_reason is set on what is left of a broken
        file.
    """
    for path, batch, topic, partition, first_offset in files:
        key = offsets_key(batch, topic, partition)
        intervals = held.get(key, [])
        siblings = (together or {}).get(key, [])
        following = bisect_right(siblings, (first_offset, path))
        offset, run_offset = first_offset, None
        for lines, cut_reason in read_lines(path):
            while following < len(siblings) and siblings[following][0] < offset + len(lines):
                begin, sibling = siblings[following]
                count = count_lines(sibling)
                if count:
                    intervals = merge([*intervals, (begin, begin + count - 1)])
                following += 1
            start = 0
            while start < len(lines):
                until = held_until(intervals, offset + start)
                if until is not None:
                    start, run_offset = min(until + 1 - offset, len(lines)), None
                    continue
                stop = _next_held(intervals, offset + start, offset + len(lines)) - offset
                if run_offset is None:
                    run_offset = offset + start
                count = stop - start
                yield {
                    "batch_id": [batch] * count,
                    "topic": [topic] * count,
                    "partition_number": [partition] * count,
                    "message_offset": list(range(offset + start, offset + stop)),
                    "run_offset": [run_offset] * count,
                    "message_key": [None] * count,
                    "payload": lines[start:stop],
                    "cut_reason": [cut_reason] * count,
                }
                start = stop
            offset += len(lines)


def _next_held(intervals: list[Interval], offset: int, end: int) -> int:
    """First held offset in (offset, end); `end` where there is none."""
    return min((first for first, _ in intervals if offset < first < end), default=end)
