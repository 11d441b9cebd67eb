"""Landed files in the layout of Kafka Connect's file sinks.

    <landing>/topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz]
    <landing>/batches/<batch>/topics/...    the same layout, for a log that was sent again

A file holds one message a line; the offset of a message is the file's first offset plus its line
number from 0. So a file that is delivered again, whole or split otherwise, gives the same
(topic, partition, offset) to the same message.

<landing> is a folder, or a URI of an object store, see object_stores.

Longer than 500 lines: which files are read again follows from all that is listed here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from python_udfs.ingestion.landing.object_stores import (
    ObjectStore,
    StoredObject,
    is_uri,
    objects_of,
    store_of,
)
from python_udfs.ingestion.landing.offsets import Interval, held_until, merge

TOPICS = "topics"
BATCHES = "batches"
LIVE = "live"  # the batch of the running log
BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# a topic without :, which stands between a batch and its topic where their offsets are kept
FILE_NAME = re.compile(
    r"(?P<topic>[^:]+)\+(?P<partition>[0-9]{1,10})\+(?P<offset>[0-9]{1,20})\.jsonl(?P<gz>\.gz)?"
)
LAST_PARTITION, LAST_OFFSET = 2**31 - 1, 2**62  # room for the lines of a file behind it
Seen = int | Sequence[int]  # a file's size, with the time of its last change behind it
CHUNK = 4 << 20  # bytes read at once, and about the size of an Arrow batch
LINES_A_BATCH = 250_000  # lines may be empty: their number needs a bound beside their size
LONGEST_LINE = 64 << 20  # bytes, by default
KEPT_OF_LONG = 64 << 10  # bytes of a longer line that are kept
LONG_LINE = "the line is longer than"
CUT_LINE = "the file ends within a line"
CUT_STREAM = "the file's gzip stream is cut or broken"
FULL_LOAD = "full_load."  # topics of full loads begin so
# an object's time may be that of its upload's beginning, and whole seconds: so much before the
# newest file's time others may appear yet
LATE_IN_STORE_NS = 3600 * 10**9


@dataclass(frozen=True, order=True)
class LandedFile:
    """One file of one topic's partition.

    Attributes:
        topic, partition, first_offset: from the name.
        path: absolute, without links; only LANDING itself may be a link. Or a URI.
        size: bytes when it was listed.
        changed_ns: when it came into the folder or was last written, ns; a copy that keeps the
            time of its original still counts as changed now (st_ctime), as does a file whose batch
            or topic was moved into the batches. Of an object the time that its store shows.
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
        """Name of the file, with its batch before it unless that is the running log."""
        name = os.path.basename(self.path)
        return name if self.batch == LIVE else f"{self.batch}:{name}"

    @property
    def key(self) -> str:
        """Key of the offsets that a table holds."""
        return offsets_key(self.batch, self.topic, self.partition)


def offsets_key(batch: str, topic: str, partition: int) -> str:
    """topic/partition, with the batch before it unless that is the running log.

    >>> offsets_key("live", "maxwell", 0), offsets_key("again", "maxwell", 0)
    ('maxwell/0', 'again:maxwell/0')
    """
    return f"{topic}/{partition}" if batch == LIVE else f"{batch}:{topic}/{partition}"


def batches_of(keys: Iterable[str]) -> set[str]:
    """The batches that keys are of, see offsets_key.

    >>> sorted(batches_of(["maxwell/0", "again:maxwell/0", "again:maxwell/1"]))
    ['again', 'live']
    """
    # no topic of Kafka has a colon
    return {key.rpartition(":")[0] or LIVE for key in keys}


def list_files(landing: str) -> list[LandedFile]:
    """All files of a landing folder, ordered by batch, topic, partition and first offset.

    Args:
        landing: a folder, or a URI of an object store, see object_stores.

    Names that begin with `.`, `_` or `+` (a sink's temporary files and markers) are passed over.

    Raises:
        FileNotFoundError: no such folder, or no `topics` in it.
        ValueError: names that don't fit the layout, all of them in one message; or links and
            pipes, which are neither followed nor read, all of them in one; or a folder that can't
            be read.
    """
    if is_uri(landing):
        return _fitting(*_listed_in_store(landing, store_of(landing)))
    topics = os.path.join(landing, TOPICS)
    if not os.path.isdir(topics):
        raise _no_landing(topics)
    landing = os.path.realpath(landing)
    topics, batches = os.path.join(landing, TOPICS), os.path.join(landing, BATCHES)
    linked = [name for name in (TOPICS, BATCHES) if os.path.islink(os.path.join(landing, name))]
    found, misfits, special = ([], [], linked) if linked else _listed(landing, topics, LIVE)
    is_read = not linked and os.path.isdir(batches)
    if not linked and not is_read and os.path.lexists(batches):
        misfits.append(BATCHES)
    for batch in sorted(os.listdir(batches)) if is_read else ():
        if batch[0] in "._+" or batch.startswith("README"):
            continue
        inside = os.path.join(batches, batch, TOPICS)
        if os.path.islink(os.path.join(batches, batch)) or os.path.islink(inside):
            special.append(os.path.relpath(os.path.join(batches, batch), landing))
            continue
        if not BATCH_NAME.fullmatch(batch) or batch == LIVE or not os.path.isdir(inside):
            misfits.append(os.path.relpath(os.path.join(batches, batch), landing))
            continue
        more, wrong, others = _listed(landing, inside, batch)
        found += more
        misfits += wrong
        special += others
    return _fitting(found, misfits, special)


def _no_landing(topics: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"No landing folder {topics}: LANDING must name a folder that holds "
        "topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz]."
    )


def _fitting(found: list[LandedFile], misfits: list[str], special: list[str]) -> list[LandedFile]:
    """The files in their order.

    Raises:
        ValueError: see list_files.
    """
    if special:
        raise ValueError(
            f"{len(special)} entries of the landing folder are neither files nor folders but "
            f"symbolic links, pipes or devices, which aren't read: {_named(special)}. Put the "
            "files themselves there (LANDING itself may be a link), or take these away."
        )
    if misfits:
        raise ValueError(
            f"{len(misfits)} landed files don't fit the layout "
            "[batches/<batch>/]topics/<topic>/partition=<n>/<topic>+<n>+<first offset>.jsonl[.gz] "
            f"(a batch's name: letters, digits, - and _, not {LIVE}; a topic without :; an offset "
            f"of at most 2^62): {_named(misfits)}. Rename them or take them away."
        )
    return sorted(found, key=lambda file: (file.batch, file))


def _named(names: list[str]) -> str:
    """The first of some names, as a screen can show them."""
    text = ", ".join(sorted(names)[:10])
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _unreadable(error: OSError) -> None:
    raise ValueError(
        f"The landing folder can't be read at {_named([str(error.filename)])}: {error.strerror}. "
        "Let the user of the run read it."
    )


def _listed(landing: str, topics: str, batch: str) -> tuple[list[LandedFile], list[str], list[str]]:
    """The files under one `topics` folder, the names that don't fit the layout, and what is neither
    file nor folder.

    Links aren't followed: one may go in a circle, or bring any file of the system among the
    messages.
    """
    found, misfits, special = [], [], []
    for folder, folders, names in os.walk(topics, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if name[0] not in "._+")
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        special += [os.path.relpath(os.path.join(folder, link), landing) for link in links]
        moved_ns = 0 if batch == LIVE else _moved_ns(folder, topics)
        for name in names:
            if name[0] in "._+" or name.startswith("README"):
                continue
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # a sink renamed it since
                continue
            if not stat.S_ISREG(status.st_mode):
                special.append(os.path.relpath(path, landing))
                continue
            seen = status.st_size, max(status.st_ctime_ns, moved_ns)
            file = _landed_file(path, os.path.relpath(path, topics), batch, seen)
            if file is None:
                misfits.append(os.path.relpath(path, landing))
            else:
                found.append(file)
    return found, misfits, special


def _moved_ns(folder: str, topics: str) -> int:
    """When the batch or the topic of a partition's folder was moved to its place, or later, ns.

    The files of a folder that is moved keep their times. A partition's own folder changes with
    each file, and that of all topics with each topic.
    """
    places = {os.path.dirname(topics), os.path.dirname(folder)} - {topics}
    return max(os.lstat(place).st_ctime_ns for place in places)


def _landed_file(path: str, place: str, batch: str, seen: tuple[int, int]) -> LandedFile | None:
    """A file by its name; None where that doesn't fit the layout.

    Args:
        place: path below `topics`.
        seen: its size, and when it changed, ns.
    """
    folder, _, name = place.rpartition("/")
    match = FILE_NAME.fullmatch(name)
    if (
        not match
        or folder != f"{match['topic']}/partition={int(match['partition'])}"
        or not match["topic"].isprintable()  # nor are bytes that are no UTF-8
        or int(match["partition"]) > LAST_PARTITION
        or int(match["offset"]) > LAST_OFFSET
    ):
        return None
    return LandedFile(
        topic=match["topic"],
        partition=int(match["partition"]),
        first_offset=int(match["offset"]),
        path=path,
        size=seen[0],
        changed_ns=seen[1],
        batch=batch,
    )


def _listed_in_store(
    landing: str, store: ObjectStore
) -> tuple[list[LandedFile], list[str], list[str]]:
    """As `_listed`, of all batches of a store.

    A store can't rename a folder, so a full load is there once its partition 0 is, which is written
    last.
    """
    found: list[LandedFile] = []
    special: list[str] = []
    live = _objects_below(landing, store, TOPICS)
    if not live:
        raise _no_landing(f"{landing}/{TOPICS}")
    objects = [(LIVE, TOPICS, item.place, item) for item in live]
    batched, misfits = _objects_of_batches(landing, store)
    objects += batched
    for batch, topics, place, item in objects:
        *folders, name = place.split("/")
        hidden = any(part[:1] in ("", ".", "_", "+") for part in (*folders, name))
        if hidden or name.startswith("README"):
            continue
        path = f"{landing}/{topics}/{place}"
        file = _landed_file(path, place, batch, (item.size, item.changed_ns))
        if not item.is_file:
            special.append(f"{topics}/{place}")
        elif file is None:
            misfits.append(f"{topics}/{place}")
        else:
            found.append(file)
    complete = {(file.batch, file.topic) for file in found if file.partition == 0}
    found = [
        file
        for file in found
        if not file.topic.startswith(FULL_LOAD) or (file.batch, file.topic) in complete
    ]
    return found, list(dict.fromkeys(misfits)), special


def _objects_below(landing: str, store: ObjectStore, folder: str) -> list[StoredObject]:
    try:
        return objects_of(store, landing, folder)
    except FileNotFoundError:
        return []


def _objects_of_batches(
    landing: str, store: ObjectStore
) -> tuple[list[tuple[str, str, str, StoredObject]], list[str]]:
    """Batch, folder of its topics, place below that and object of all objects of batches; and the
    names that don't fit the layout."""
    parts = [(item.place.split("/", 2), item) for item in _objects_below(landing, store, BATCHES)]
    whole = {place[0] for place, _ in parts if len(place) == 3 and place[1] == TOPICS}
    found, misfits = [], []
    for place, item in parts:
        batch = place[0]
        if batch[0] in "._+" or batch.startswith("README"):
            continue
        if not BATCH_NAME.fullmatch(batch) or batch == LIVE or batch not in whole:
            misfits.append(f"{BATCHES}/{batch}")
        elif len(place) == 3 and place[1] == TOPICS:
            found.append((batch, f"{BATCHES}/{batch}/{TOPICS}", place[2], item))
    return found, misfits


def late_files(files: Iterable[LandedFile], until_ns: int) -> str:
    """Hash of the files whose time is at most LATE_IN_STORE_NS before another file's."""
    since = until_ns - LATE_IN_STORE_NS
    named = sorted(
        (file.name, file.size, file.changed_ns)
        for file in files
        if since <= file.changed_ns <= until_ns
    )
    return hashlib.sha256(repr(named).encode()).hexdigest()[:32]


def listed_until(files: Iterable[LandedFile], now_ns: int | None) -> int:
    """The newest `changed_ns` of a listing, ns.

    Args:
        now_ns: of a folder. Behind a file that came while the clock was ahead, no later file would
            be new. None of a store, which has a clock of its own.
    """
    newest = max((file.changed_ns for file in files), default=0)
    return newest if now_ns is None else min(newest, now_ns)


def new_since(files: Iterable[LandedFile], seen_until_ns: int, late_seen: str) -> int:
    """The time behind which files of a listing count as new, ns.

    Args:
        seen_until_ns: newest `changed_ns` of the last listing.
        late_seen: its `late_files`; "" of a folder, where files come with the newest time.
    """
    is_same = not late_seen or late_files(files, seen_until_ns) == late_seen
    return seen_until_ns if is_same else seen_until_ns - LATE_IN_STORE_NS - 1


def files_to_read(
    files: list[LandedFile],
    held: dict[str, list[Interval]],
    seen_sizes: Mapping[str, Seen],
    seen_until_ns: int | None = None,
) -> list[LandedFile]:
    """The files that may hold a message not held yet.

    A file that came since the last listing is always read: the names of its neighbours don't show
    where it ends. An older file is covered if all offsets from its first one up to the next file
    are held.

    Files that overlap are all read: `message_batches` takes each message from one of them, and
    compares it with the others'.

    Args:
        files: ordered as by `list_files`.
        held: offsets_key -> merged intervals of the offsets that the table holds.
        seen_sizes: LandedFile.name -> (size, changed_ns) when it was last read, or the size alone,
            of those files whose end isn't known from the next file's name: a partition's last file
            and broken files. A file that was written since is read again, also with the same size:
            a copy may reserve its size first.
        seen_until_ns: see `new_since`, or None to take no file for new.
    """
    chosen = []
    for index, file in enumerate(files):
        until = held_until(held.get(file.key, []), file.first_offset)
        following = files[index + 1] if index + 1 < len(files) else None
        is_new = seen_until_ns is not None and file.changed_ns > seen_until_ns
        covered = (
            until is not None
            and following is not None
            and following.key == file.key
            and following.first_offset <= until + 1
        )
        if covered and not is_new:
            continue
        if _as_seen(file, seen_sizes.get(file.name)):
            continue
        chosen.append(file)
    return chosen


def _as_seen(file: LandedFile, seen: Seen | None) -> bool:
    """Whether a file has not changed since it was read, see files_to_read."""
    if isinstance(seen, int):  # written by an earlier version of the project
        return seen == file.size
    return seen is not None and tuple(seen) == (file.size, file.changed_ns)


def open_ended(
    files: list[LandedFile], held: dict[str, list[Interval]]
) -> dict[str, tuple[int, int]]:
    """Name -> (size, changed_ns) of files whose end is known by reading only, see files_to_read."""
    return {file.name: (file.size, file.changed_ns) for file in files_to_read(files, held, {})}


def _plain(path: str, flags: int) -> int:
    """Open a regular file without following links, nor waiting for a pipe that nobody writes to.

    Each folder of its path is opened in turn: since the files were listed, one may have been
    replaced by a link to somewhere else.
    """
    *folders, name = path.split("/")
    passing = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    at = os.open("/" if path.startswith("/") else ".", passing)
    try:
        for folder in filter(None, folders):
            inner = os.open(folder, passing, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            reason = "a symbolic link has taken the place of what was listed, and isn't followed"
            raise OSError(exc.errno, reason, path) from None
        raise OSError(exc.errno, exc.strerror, path) from None
    finally:
        os.close(at)


def longest_line(settings: Mapping[str, object]) -> int:
    """Bytes of a line that is taken whole.

    Args:
        settings: with `max_line_mb`, or without.

    Raises:
        ValueError: it isn't a number from 0 to 1024.
    """
    given = settings.get("max_line_mb", LONGEST_LINE >> 20)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1024:
        raise ValueError(f"max_line_mb must be a number of MB up to 1024, got {given!r}")
    return int(given * 2**20)


@contextmanager
def _opened(path: str, store: ObjectStore | None) -> Iterator[Callable[[int], bytes]]:
    """Function that reads the next bytes of a landed file."""
    if store is not None:
        with store.opened(path) as read:
            yield read
        return
    with open(path, "rb", opener=_plain) as file:
        yield file.read


def read_lines(
    path: str, longest: int = LONGEST_LINE, store: ObjectStore | None = None
) -> Iterator[tuple[list[bytes], str | None]]:
    """The lines of a file in chunks, without their newline.

    Args:
        path: of a LandedFile.
        store: that it lies in; None of a folder.
        longest: bytes of a line that is taken whole. A small file may hold a line of any length.

    Yields:
        (lines, None) for whole lines; ([begin], a reason that begins with LONG_LINE) for a longer
        one, of which the rest is passed over; at the end at most one ([rest], another reason)
        where the file ends within a line or its gzip stream is broken: `rest` is what could be
        read of it, at most the begin of too long a line.
    """
    gz = path.endswith(".gz")
    carry: list[bytes] = []
    carried, is_long = 0, False  # bytes of the line that `carry` begins; whether that has a part
    too_long = f"{LONG_LINE} {longest} bytes (max_line_mb); its begin is kept"
    broken = None
    with _opened(path, store) as read:
        for block in _unzipped(read) if gz else iter(lambda: read(CHUNK), b""):
            if block is None:
                broken = CUT_STREAM
                break
            head, newline, tail = block.partition(b"\n")
            carried += len(head)
            if carried <= longest:
                carry.append(head)
            elif not is_long:
                carry, is_long = [b"".join([*carry, head])[:KEPT_OF_LONG]], True
            if not newline:
                continue
            lines = tail.split(b"\n")
            first = b"".join(carry)
            carry = [lines.pop()]
            carried = len(carry[0])
            if is_long:
                yield [first], too_long
                is_long = False
            else:
                lines.insert(0, first)
            yield from _bounded(lines, longest, too_long)
    rest = b"".join(carry)
    if broken or rest:
        reason = broken or CUT_LINE
        if carried > longest:
            rest = rest[:KEPT_OF_LONG]
            reason += f", and its last line is longer than {longest} bytes (max_line_mb)"
        yield [rest], reason


def _bounded(
    lines: list[bytes], longest: int, too_long: str
) -> Iterator[tuple[list[bytes], str | None]]:
    """Whole lines as `read_lines` yields them. None is much longer than a chunk."""
    if longest >= 2 * CHUNK or all(len(line) <= longest for line in lines):
        yield lines, None
        return
    for line in lines:
        long = len(line) > longest
        yield [line[:KEPT_OF_LONG] if long else line], too_long if long else None


def _unzipped(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """Blocks of a gzip file (members may follow each other); None at the end where it is cut."""
    unzip = zlib.decompressobj(wbits=31)
    is_cut_here = True  # until the first stream ends: of a file of no bytes none has begun
    while data := read(CHUNK >> 2):
        while data:
            is_cut_here = True
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
                unzip, is_cut_here = zlib.decompressobj(wbits=31), False
    if is_cut_here:
        yield None


def count_lines(path: str, store: ObjectStore | None = None) -> int:
    """Number of whole lines of a file."""
    found = read_lines(path, store=store)
    return sum(len(lines) for lines, reason in found if not is_cut(reason))


def is_cut(reason: str | None) -> bool:
    """Whether what has this reason, of `read_lines`, may come whole yet."""
    return reason is not None and not reason.startswith(LONG_LINE)


# of message_batches: the columns that have the same value in all messages of a batch
OF_ALL = ("batch_id", "topic", "partition_number", "run_offset", "message_key", "cut_reason")


def message_batches(
    files: Iterable[tuple[str, str, str, int, int]],
    held: dict[str, list[Interval]],
    together: dict[str, list[tuple[int, str]]] | None = None,
    longest: int = LONGEST_LINE,
    store: ObjectStore | None = None,
) -> Iterator[dict[str, list[Any]]]:
    """The messages of some files as columns, without those held already.

    Where files that are read in one run overlap, a message is taken from the last of them that
    holds it. Only a file that reaches into the next file has to read that file as well, to see
    how far it goes and whether its messages are the same; files that end where the next begins, as
    a sink writes them, cost nothing.

    Args:
        files: (path, batch, topic, partition, first offset).
        held: as for `files_to_read`.
        together: offsets_key -> (first offset, path), sorted, of all files of this run.
        longest, store: as of `read_lines`.

    Yields:
        {"batch_id", "topic", "partition_number", "message_offset", "run_offset", "message_key",
        "payload", "cut_reason"}: lists of one length. run_offset is the first offset of the
        unbroken run that the message was read in; cut_reason is set on what is left of a broken
        file, and on what is kept of too long a line.

    Raises:
        ValueError: two files of this run have different messages at one offset.
    """
    for path, batch, topic, partition, first_offset in files:
        key = offsets_key(batch, topic, partition)
        intervals = held.get(key, [])
        siblings = (together or {}).get(key, [])
        following = bisect_right(siblings, (first_offset, path))
        offset, run_offset = first_offset, None
        overlapping: list[_OverlappingFile] = []
        for lines, cut_reason in read_lines(path, longest, store):
            while following < len(siblings) and siblings[following][0] < offset + len(lines):
                begin, sibling = siblings[following]
                overlapping.append(_OverlappingFile(sibling, begin, longest, store))
                following += 1
            for other in overlapping:
                # a line that is cut may be whole in the other file
                other.read_beside([] if is_cut(cut_reason) else lines, offset, (path, key))
                if other.end > other.begin:
                    intervals = merge([*intervals, (other.begin, other.end - 1)])
            start = 0
            while start < len(lines):
                until = held_until(intervals, offset + start)
                if until is not None:
                    start, run_offset = min(until + 1 - offset, len(lines)), None
                    continue
                end = min(len(lines), start + LINES_A_BATCH)
                stop = _next_held(intervals, offset + start, offset + end) - offset
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


class _OverlappingFile:
    """A file that overlaps another file of the same run, read beside it.

    Attributes:
        begin, end: first offset, and that behind the last line that has been read.
    """

    def __init__(self, path: str, begin: int, longest: int, store: ObjectStore | None) -> None:
        self.path, self.begin, self.end = path, begin, begin
        self._chunks = read_lines(path, longest, store)
        self._lines: list[bytes] = []  # those before `end` that have not been compared yet

    def read_beside(self, lines: list[bytes], offset: int, of: tuple[str, str]) -> None:
        """Read on as far as `lines` go, and compare them.

        Args:
            lines: of the other file, without gaps behind those of the last call.
            offset: of the first of them.
            of: the other file's path and offsets_key.

        Raises:
            ValueError: another line stands at the same offset.
        """
        # a line that is cut is looked for as well: this file may hold it whole
        until = offset + max(1, len(lines))
        while self.end < until:
            more, reason = next(self._chunks, ([], CUT_LINE))
            if is_cut(reason):
                break
            self._lines += more
            self.end += len(more)
        begun = self.end - len(self._lines)
        first, last = max(begun, offset), min(self.end, offset + len(lines))
        if first >= last:
            return
        own = self._lines[first - begun : last - begun]
        others = lines[first - offset : last - offset]
        if own != others:
            same = [left == right for left, right in zip(own, others, strict=True)]
            raise ValueError(_other_message(of[0], self.path, of[1], first + same.index(False)))
        del self._lines[: last - begun]


def _other_message(path: str, other: str, key: str, offset: int) -> str:
    partition, topic = (part[::-1] for part in key[::-1].split("/", 1))
    return (
        f"{path} and {other} hold different messages at offset {offset} of partition {partition} "
        f"of {topic}, so one of them is of another log, and nothing was added. Was the topic "
        "deleted and created again? Land the new log under another topic. Is one of the files "
        "wrong? Take it away."
    )


def _next_held(intervals: list[Interval], offset: int, end: int) -> int:
    """First held offset in (offset, end); `end` where there is none."""
    return min((first for first, _ in intervals if offset < first < end), default=end)
