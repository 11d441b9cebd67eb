"""`make follow`: keep the warehouse fresh.

One process with one Spark looks for new messages without dbt, builds what they change, publishes,
says one line a build, and goes on. Ctrl-C or SIGTERM ends it after the nodes that are being built;
a second one, or 30 s, cancels them.

    FOLLOW_PAUSE        least seconds between the beginnings of two builds, default 0
    FOLLOW_SELECT       dbt's --select of the builds; default: the project's default selector
    FOLLOW_MAINTENANCE  times of the business day between which tables are compacted and old
                        versions expire, once a day while nothing is new; default 03:00-05:00,
                        empty: never
    FOLLOW_PORT         port of 127.0.0.1 with /health and /metrics; default: none

Each has an option of the same name, `--pause` and so on. `--check live` and `--check ready` say
whether another process that follows does it well.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tools.following.builds import Builds
from tools.following.health import check
from tools.following.loop import CodeChangedError, Follower, Settings, options_of, window_of

STOP_SECONDS = 30.0  # that the nodes being built have to end in
FAILURES_ALLOWED = 2  # one after another, of a process that is ready
# much is compiled in the life of this process: room for it, or Spark stops
JAVA = "-XX:ReservedCodeCacheSize=384m"


def settings_of(arguments: list[str]) -> tuple[Settings, str | None]:
    """The settings that a command line gives, and what is to be checked, if anything."""
    parser = argparse.ArgumentParser(prog="make follow", description="Keep the warehouse fresh.")
    parser.add_argument("--pause", type=float, default=float(os.environ.get("FOLLOW_PAUSE") or 0))
    parser.add_argument("--select", default=os.environ.get("FOLLOW_SELECT", ""))
    parser.add_argument(
        "--maintenance", default=os.environ.get("FOLLOW_MAINTENANCE", "03:00-05:00")
    )
    parser.add_argument("--port", default=os.environ.get("FOLLOW_PORT", ""))
    parser.add_argument("--cycles", type=int, help="end after so many builds")
    parser.add_argument("--check", choices=("live", "ready"))
    given = parser.parse_args(arguments)
    try:
        window, port = window_of(given.maintenance), int(given.port) if given.port else None
    except ValueError as exc:
        parser.error(str(exc))
    root = Path.cwd()
    target = Path(os.environ.get("DBT_TARGET_PATH") or "target")
    settings = Settings(
        root=root,
        profiles=Path(os.environ.get("DBT_PROFILES_DIR") or root / "profiles").absolute(),
        folder=(root / target / "follow").absolute(),
        select=tuple(given.select.split()),
        pause=given.pause,
        window=window,
        port=port,
        cycles=given.cycles,
    )
    return settings, given.check


def stop_on_signals(follower: Follower) -> None:
    """Let SIGTERM and Ctrl-C end it after the nodes that are being built; a second one at once."""

    def stop(*_: Any) -> None:
        if follower.is_stopping:
            if follower.is_building:
                raise KeyboardInterrupt
            return
        follower.stop()
        late = threading.Timer(STOP_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        late.daemon = True
        late.start()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)


def start_again(arguments: list[str]) -> None:
    """Let this process begin anew, with the code as it is now; its Java ends."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        process = getattr(gateway, "proc", None)
        gateway.shutdown()
        if process is not None:
            process.stdin.close()
            process.wait(60)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "tools.follow", *arguments])


def main() -> int:
    arguments = sys.argv[1:]
    settings, checked = settings_of(arguments)
    if checked:
        problem = check(settings.folder, FAILURES_ALLOWED if checked == "ready" else None)
        print(problem or "all is well")
        return 1 if problem else 0
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
    builds = Builds(options_of(settings), settings.select)
    follower = Follower(settings, builds, say=lambda text: print(text, flush=True))
    stop_on_signals(follower)
    try:
        return follower.run()
    except CodeChangedError:
        start_again(arguments)
    return 1


if __name__ == "__main__":
    sys.exit(main())
