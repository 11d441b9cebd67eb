"""Landed files for tests."""

from __future__ import annotations

import gzip
from pathlib import Path

from python_udfs.ingestion.landing import files as landing

LINES = [b'{"a":%d,"text":"\xe4\xba\xac %s"}' % (i, b"x" * (i % 37)) for i in range(60)]


def write(root: Path, name: str, content: bytes, folder: str | None = None) -> Path:
    """Write a file of topic t, partition 0 (or of another folder under topics)."""
    path = root / "topics" / (folder or "t/partition=0") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return path


def read(path: Path) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """(whole lines, what is left of a broken file with the reason)."""
    good, cut = [], []
    for lines, reason in landing.read_lines(str(path)):
        assert not cut, "nothing may follow what is left of a broken file"
        if reason is None:
            good += lines
        else:
            cut += [(line, reason) for line in lines]
    assert len(cut) <= 1
    return good, cut
