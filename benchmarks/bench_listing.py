"""What it costs to list a landing folder of many files: as a folder, and by a URI.

python -m benchmarks.bench_listing --files 100000
LANDING_OPTIONS=.. python -m benchmarks.bench_listing --files 10000 --uri s3://bucket/bench
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from python_udfs.ingestion.landing.files import (
    files_to_read,
    late_files,
    list_files,
    new_since,
    open_ended,
)
from python_udfs.ingestion.landing.object_stores import LOCAL_SCHEME, store_of

LINES = 100  # of a file, by its name
WRITERS = 16


def places(count: int) -> list[str]:
    """Files of 16 partitions, each with the offsets behind those of the partition before."""
    return [
        f"topics/t/partition={number % 16}/t+{number % 16}+{number // 16 * LINES:010d}.jsonl"
        for number in range(count)
    ]


def measure(landing: str, count: int) -> None:
    begun = time.perf_counter()
    files = list_files(landing)
    listed = time.perf_counter() - begun
    assert len(files) == count
    held = {f"t/{number}": [(0, count * LINES)] for number in range(16)}
    begun = time.perf_counter()
    newest = max(file.changed_ns for file in files)
    noted = open_ended(files, held)
    since = new_since(files, newest, late_files(files, newest))
    chosen = files_to_read(files, held, noted, since)
    compared = time.perf_counter() - begun
    print(
        f"| {landing.partition('://')[0] if '://' in landing else 'a folder'} | {count:,} | "
        f"{listed:.1f} | {compared:.1f} | {len(noted):,} | {len(chosen):,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--uri", help="an empty place of a store; files stay there")
    given = parser.parse_args()
    print("| place | files | s to list | s to choose | noted | read again |")
    if given.uri:
        store = store_of(given.uri)
        with ThreadPoolExecutor(WRITERS) as pool:
            uris = [f"{given.uri}/{place}" for place in places(given.files)]
            list(pool.map(lambda uri: store.write(uri, b"x\n"), uris))
        measure(given.uri, given.files)
        return
    with tempfile.TemporaryDirectory() as folder:
        for place in places(given.files):
            path = Path(folder, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x\n")
        measure(folder, given.files)
        measure(f"{LOCAL_SCHEME}://{folder}", given.files)


if __name__ == "__main__":
    main()
