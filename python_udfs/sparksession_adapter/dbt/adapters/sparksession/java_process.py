"""The Java process that Spark runs in: whether it is there still, and why it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence

WAIT_SECONDS = 10.0  # for the end of a process whose connection has broken
OUT_OF_MEMORY = 52  # Spark's exit code
MEMORY = "spark.driver.memory"
SPARKS_OWN_MEMORY = "1g"
# of errors behind which Spark ends its process, where a task of it had them
LAST_WORDS = ("java.lang.OutOfMemoryError", "SparkContext was shut down")
_may_end = threading.Event()


def java_of_spark() -> subprocess.Popen[bytes] | None:
    """Spark's Java, where this process has started one."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def last_lines(log: str | None, count: int = 5) -> str:
    """The last lines of what Java wrote, without its stack, which would leave no room for the
    reason; "" where it wrote no file."""
    if log is None or not os.path.isfile(log):
        return ""
    with open(log, encoding="utf-8", errors="replace") as file:
        return "".join([line for line in file if not line.startswith("\tat ")][-count:])


def note_error(text: str) -> None:
    """Take note of an error of Spark's, by its text: Java may be about to end."""
    if any(words in text for words in LAST_WORDS):
        _may_end.set()


def java_ended(is_broken: bool = False) -> str | None:
    """Why Spark's Java has ended, as a sentence; None while it runs, and where this process has
    started none. Where it may be about to end, this waits for that.

    Args:
        is_broken: a connection to it has broken.
    """
    java = java_of_spark()
    if java is None:
        return None
    try:
        code = java.wait(WAIT_SECONDS if is_broken or _may_end.is_set() else 0)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _may_end.clear()
    return why_ended(code, driver_memory_of(java.args))


def why_ended(code: int, memory: str) -> str:
    """The sentence about a Java that ended.

    Args:
        code: its exit code, as subprocess has it: the signal that killed it, negative.
        memory: what Spark may use.

    >>> print(why_ended(-9, "4g"))
    Spark's Java was killed (SIGKILL), as systems do that run out of memory: Spark may use 4g \
(spark.driver.memory). The next run goes on from here.
    """
    if code == OUT_OF_MEMORY:
        came = f"ran out of memory and ended: Spark may use {memory} ({MEMORY}), it needs more"
    elif code == -signal.SIGKILL:
        came = (
            "was killed (SIGKILL), as systems do that run out of memory: "
            f"Spark may use {memory} ({MEMORY})"
        )
    elif code < 0:
        came = f"was killed ({signal.Signals(-code).name})"
    else:
        came = f"ended with exit code {code}; its last lines stand in logs/spark.log"
    return f"Spark's Java {came}. The next run goes on from here."


def driver_memory_of(command: object) -> str:
    """What Spark may use, by the command that started it.

    >>> driver_memory_of(["spark-submit", "--conf", "spark.driver.memory=4g", "pyspark-shell"])
    '4g'
    """
    words = [str(word) for word in command] if isinstance(command, Sequence) else []
    given = [word.partition("=")[2] for word in words if word.startswith(f"{MEMORY}=")]
    return given[-1] if given else SPARKS_OWN_MEMORY
