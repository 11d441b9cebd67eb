"""What small batches cost: a run of its own, and `make follow`, by the sample log.

    python -m benchmarks.bench_follow --batches 20

All of the sample but its last messages is landed and built by a cold process, which the others are
compared with. Then, each a cold process on the same warehouse: a run with nothing new, and a run
that brings the first small batch. Then a process follows: it takes a large batch, and each small
batch in its turn, and at the end looks while nothing lands. In each cycle all tests run and the
version is published. At the end the counts must be those of a build of the whole log from nothing.

Seconds are wall clock, `processor` is user and system time of a process and of its Java: what else
runs on the machine moves it less.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import math
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import ROOT, SCRATCH, answer, processor_seconds_of, resident_of, session

LANDING, WAREHOUSE, OTHER = SCRATCH / "landing", SCRATCH / "warehouse", SCRATCH / "warehouse_anew"
TOPIC = "maxwell"
SMALL = 18  # messages of a batch
IDLE_SECONDS = 20.0
CYCLE = re.compile(r"version (\d+)(?: stands)?: ([\d,]+) changes in ([\d.]+) s")
WAIT_SECONDS = 1_800.0
# what dbt's log states of a node that ended: its kind or its state, its name, its seconds
NODE = re.compile(
    r" of \d+ (?:OK (?P<kind>\w+)|PASS|WARN)\b.*?(?P<name>[\w.-]+) \.* ?"
    r"\[[^]]* in (?P<seconds>[\d.]+)s]"
)
SHOWN_NODES = 12
UNTOUCHED_SECONDS = 0.05
COUNTS = "select count(*), sum(order_count), sum(amount_sum) from {table}"
COUNTED = "dws_trade__user_status_td"
PR_SET_CHILD_SUBREAPER = 36


def seconds_of_nodes(log: str) -> dict[str, float]:
    """Node -> seconds of its last build, by dbt's log; all data tests together are `tests`.

    >>> seconds_of_nodes(
    ...     "1 of 3 OK created sql table model dw.a ...... [OK in 0.25s]\\n"
    ...     "2 of 3 PASS a_test .......................... [PASS in 0.50s]\\n"
    ...     "3 of 3 WARN 5 another_test .................. [WARN 5 in 1.00s]\\n"
    ... )
    {'a': 0.25, 'tests': 1.5}
    """
    found: dict[str, float] = {}
    for node in NODE.finditer(log):
        if node["kind"]:
            name = node["name"].removesuffix(".0")  # of a hook: its number
            found[name.rpartition(".")[2]] = float(node["seconds"])
        else:
            found["tests"] = found.get("tests", 0.0) + float(node["seconds"])
    return found


class DbtLog:
    """What dbt's log gains from now on."""

    def __init__(self) -> None:
        self.path = SCRATCH / "dbt_logs" / "dbt.log"
        self.begin = self.path.stat().st_size if self.path.exists() else 0

    def text(self) -> str:
        with self.path.open("rb") as file:
            file.seek(self.begin)
            return file.read().decode(errors="replace")


def by_node(cold_nodes: Mapping[str, float], warm_nodes: Sequence[Mapping[str, float]]) -> str:
    """A table of the nodes that take longest, and how many take at most 0.05 s."""

    def warm(name: str) -> float:
        return statistics.median(nodes.get(name, 0.0) for nodes in warm_nodes)

    names = sorted({*cold_nodes, *warm_nodes[-1]}, key=lambda name: -warm(name))
    rows = [f"| {name} | {cold_nodes.get(name, 0.0):.2f} | {warm(name):.2f} |" for name in names]
    untouched = sum(warm(name) <= UNTOUCHED_SECONDS for name in names)
    head = f"| node | {SMALL} messages, cold, seconds | warm, median |\n|---|---|---|"
    return "\n".join([head, *rows[:SHOWN_NODES]]) + (
        f"\n\nOf {len(names)} nodes {untouched} take at most {UNTOUCHED_SECONDS} s, warm."
    )


@dataclass(frozen=True)
class Took:
    """
    Attributes:
        seconds: wall clock.
        processor: user and system seconds.
    """

    seconds: float
    processor: float


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.95), percentile([4.0, 1.0, 3.0, 2.0], 0.5)
    (4.0, 2.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def held_back(
    messages: Sequence[bytes], batches: int, large: int
) -> tuple[list[bytes], list[list[bytes]]]:
    """The messages that are there from the beginning, and the batches: for a cold run, the
    large batch of `large` messages, and `batches` small batches.

    >>> there, brought = held_back([b"x"] * 10_100, 2, 10_000)
    >>> len(there), [len(batch) for batch in brought]
    (46, [18, 10000, 18, 18])
    """
    sizes = [SMALL, large, *[SMALL] * batches]
    at = len(messages) - sum(sizes)
    there, brought = list(messages[:at]), []
    for size in sizes:
        brought.append(list(messages[at : at + size]))
        at += size
    return there, brought


def land(messages: Sequence[bytes], first_offset: int) -> int:
    """Land messages as a file of the topic; the offset behind them."""
    folder = LANDING / "topics" / TOPIC / "partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / ".part"
    hidden.write_bytes(b"".join(message + b"\n" for message in messages))
    hidden.rename(folder / f"{TOPIC}+0+{first_offset:010d}.jsonl")
    return first_offset + len(messages)


def sample() -> list[bytes]:
    """The sample's messages of the topic, in their order. Its other topics are landed as they are;
    all that was there before is deleted."""
    for folder in (LANDING, WAREHOUSE, OTHER, SCRATCH / "dbt_target"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "landing", LANDING)
    shutil.rmtree(LANDING / "topics" / TOPIC)
    files = sorted((ROOT / "landing" / "topics" / TOPIC / "partition=0").iterdir())
    return [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def environment(warehouse: Path) -> Mapping[str, str]:
    return os.environ | {
        "LANDING": str(LANDING),
        "WAREHOUSE": str(warehouse),
        "DBT_TARGET_PATH": str(SCRATCH / "dbt_target"),
        "DBT_LOG_PATH": str(SCRATCH / "dbt_logs"),
        "DBT_PROFILES_DIR": str(ROOT / "profiles"),
        "FOLLOW_MAINTENANCE": "",
    }


def cold(warehouse: Path = WAREHOUSE) -> Took:
    """`make run` as a process of its own. Its Java ends after it, and is counted with it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "tools", "run"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(warehouse), capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"bench: make run failed, its output:\n{(done.stdout + done.stderr)[-3000:]}")
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(seconds, processor)


class Following:
    """`make follow` as a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tools", "follow"]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(WAREHOUSE),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def processor(self) -> float:
        """Seconds of processor that it has taken until now, with its Java."""
        return processor_seconds_of(self.process.pid)

    @property
    def memory(self) -> int:
        """Bytes of memory that it holds, with its Java."""
        return resident_of(self.process.pid)

    def cycle(self, brings: bool = True) -> float:
        """Wait for the next cycle, which brings changes or none; its seconds."""
        assert self.process.stdout is not None
        output, end = "", time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            line = self.process.stdout.readline()
            if not line:
                break
            output += line
            found = CYCLE.search(line)
            if found and brings == (found[2] != "0"):
                return float(found[3])
            if "failed" in line:
                break
        sys.exit(f"bench: make follow did not end the cycle, its output:\n{output[-3000:]}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def shown(name: str, took: Sequence[Took], whole: Took) -> str:
    """A row of the table."""
    seconds = [cycle.seconds for cycle in took]
    processor = [cycle.processor for cycle in took]
    median, median_processor = statistics.median(seconds), statistics.median(processor)
    return (
        f"| {name} | {len(took)} | {median:.1f} | {percentile(seconds, 0.95):.1f} "
        f"| {median_processor:.1f} | {median / whole.seconds:.3f} "
        f"| {median_processor / whole.processor:.3f} |"
    )


def counts(warehouse: Path) -> object:
    """The sums of the counts to date."""
    sql = COUNTS.format(table=f"dw.{COUNTED}")
    return answer(session(warehouse).sql(sql).collect()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20, help="small batches that are followed")
    parser.add_argument("--large", type=int, default=10_000, help="messages of the large batch")
    chosen = parser.parse_args()
    # Java outlives the process that started it for a moment, and is counted as a child of this
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    there, brought = held_back(sample(), chosen.batches, chosen.large)
    offset = land(there, 0)
    whole = cold()
    rows = [shown(f"build of {len(there):,} messages, cold", [whole], whole)]
    rows.append(shown("nothing new, cold", [cold()], whole))
    offset = land(brought[0], offset)
    log = DbtLog()
    rows.append(shown(f"{SMALL} messages, cold", [cold()], whole))
    cold_nodes, warm_nodes = seconds_of_nodes(log.text()), []

    following = Following()
    following.cycle(brings=False)
    memory = following.memory
    cycles = []
    for batch in brought[1:]:
        before, log = following.processor, DbtLog()
        offset = land(batch, offset)
        seconds = following.cycle()
        cycles.append(Took(seconds, following.processor - before))
        warm_nodes.append(seconds_of_nodes(log.text()))
    rows.append(shown(f"{chosen.large:,} messages, warm", cycles[:1], whole))
    rows.append(shown(f"{SMALL} messages, warm", cycles[1:], whole))
    before = following.processor
    time.sleep(IDLE_SECONDS)
    idle = following.processor - before
    grown = following.memory / memory
    following.stop()

    cold(OTHER)
    if counts(WAREHOUSE) != counts(OTHER):
        sys.exit("bench: the counts differ from those of a build of the whole log")
    print(
        "| what | times | seconds, median | p95 | processor, median | seconds, of the build "
        "| processor, of the build |\n|---|---|---|---|---|---|---|"
    )
    print("\n".join(rows))
    print("\n" + by_node(cold_nodes, warm_nodes[1:]))
    print(
        f"\nNothing lands for {IDLE_SECONDS:.0f} s: {idle / IDLE_SECONDS:.3f} s of processor a "
        f"second. Memory after {len(cycles)} cycles: {grown:.2f} of that after the first. The "
        "counts to date are those of a build of the whole log."
    )


if __name__ == "__main__":
    main()
