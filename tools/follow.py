"""`make follow`: keep the warehouse fresh.

One process with one Spark looks for new messages without dbt, builds what they change, publishes,
prints one line a build, and goes on. Ctrl-C or SIGTERM ends it after the nodes that are being
built; a second signal, or 30 s, cancels them.

    FOLLOW_PAUSE        least seconds between the beginnings of two builds, default 0
    FOLLOW_SELECT       dbt's --select of the builds; default: the project's default selector
    FOLLOW_MAINTENANCE  times of the business day between which tables are compacted and old
                        versions expire, once a day while nothing is new; default 03:00-05:00,
                        empty: never
    FOLLOW_PORT         port of 127.0.0.1 with /health and /metrics; default: none

Each has an option of the same name, `--pause` and so on, of `python -m tools follow`. Its options
`--check live` and `--check ready` ask whether another process that follows is well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from tools.following.builds import Builds
from tools.following.health import check
from tools.following.loop import Follower, Settings, StartAgainError, Window, options_of

STOP_SECONDS = 30.0  # that the nodes being built have to end in
JAVA_SECONDS = 60.0  # that Java has to end in before the process starts again
FAILURES_ALLOWED = 2  # one after another, of a process that is ready
# much is compiled in the life of this process: room for it, or Spark stops
JAVA = "-XX:ReservedCodeCacheSize=384m"


def settings_of(
    *, pause: float, select: str, window: Window | None, port: int | None, cycles: int | None
) -> Settings:
    """The settings of the project in the current folder.

    Args:
        pause: least seconds between the beginnings of two builds.
        select: dbt's --select, its words divided by spaces.
        window: times of the business day for maintenance; None for never.
        port: port of 127.0.0.1 with /health and /metrics; None for no port.
        cycles: number of builds to end after; None for no end.
    """
    root = Path.cwd()
    target = Path(os.environ.get("DBT_TARGET_PATH") or "target")
    return Settings(
        root=root,
        profiles=Path(os.environ.get("DBT_PROFILES_DIR") or root / "profiles").absolute(),
        folder=(root / target / "follow").absolute(),
        select=tuple(select.split()),
        pause=pause,
        window=window,
        port=port,
        cycles=cycles,
    )


def stop_on_signals(follower: Follower) -> None:
    """Let SIGTERM and Ctrl-C end it after the nodes that are being built; a second signal at
    once."""

    def stop(*_: Any) -> None:
        if follower.is_stopping:
            if follower.is_building:
                raise KeyboardInterrupt
            return
        follower.stop()
        late = threading.Timer(STOP_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        late.daemon = True
        late.start()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stop)


def start_again(arguments: list[str]) -> None:
    """Start this process again, with the code as it is now; its Java ends.

    Args:
        arguments: of `python -m tools`.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        with suppress(OSError, Py4JError):  # it may have ended by itself
            gateway.shutdown()
        if process is not None:
            process.stdin.close()
            try:
                process.wait(JAVA_SECONDS)
            except subprocess.TimeoutExpired:  # it would keep its memory beside the next
                process.kill()
                process.wait()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "tools", *arguments])


def main(settings: Settings) -> int:
    """Follow until a signal or the last cycle; returns the exit code."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
    builds = Builds(options_of(settings), settings.select)
    follower = Follower(settings, builds, say=lambda text: print(text, flush=True))
    stop_on_signals(follower)
    try:
        return follower.run()
    except StartAgainError:
        start_again(sys.argv[1:])
    return 1


def main_of_check(settings: Settings, kind: str) -> int:
    """Print what is wrong with the process that follows in this folder; returns the exit code.

    Args:
        kind: live or ready.
    """
    problem = check(settings.folder, FAILURES_ALLOWED if kind == "ready" else None)
    print(problem or "all is well")
    return 1 if problem else 0
