"""How fresh the warehouse is: a file of JSON, the same as Prometheus reads it, and a port."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HEALTH_FILE, METRICS_FILE = "health.json", "metrics.prom"
BEAT_SECONDS = 5.0
ALIVE_WITHIN_SECONDS = 60.0  # of its last beat
LOCAL = "127.0.0.1"
PREFIX = "binlog_warehouse_"


class HealthError(Exception):
    """The health can't be shown as it was asked for; the message names what to do."""


@dataclass
class Health:
    """What is known of a following process. Times are UTC.

    Attributes:
        state: starting, idle, building, maintaining, waiting (after a failure) or stopped.
        since: when the state began.
        version, published_at: the newest version; None where none is known.
        cycles: builds that ended, failed builds among them.
        failed: builds that failed; `in_a_row` of them since the last build that did not.
        problem: why the last build failed; None after one that did not.
        seconds: how long the last build took.
        changes: rows that all builds added to the log.
        refused: messages that all builds refused.
        newest: topic -> time of its newest change in the warehouse.
        lag: topic -> seconds between that time and the publication of the version with the change.
        stale: relations that the version made from older rows of an input.
        memory: bytes that the process and its Java hold.
    """

    state: str = "starting"
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    version: int | None = None
    published_at: datetime | None = None
    cycles: int = 0
    failed: int = 0
    in_a_row: int = 0
    problem: str | None = None
    seconds: float = 0.0
    changes: int = 0
    refused: int = 0
    newest: dict[str, datetime] = field(default_factory=dict)
    lag: dict[str, float] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    memory: int = 0


def as_json(health: Health, now: datetime) -> str:
    """The health file."""
    age = None
    if health.published_at is not None:
        age = round((now - health.published_at).total_seconds(), 3)
    document: dict[str, Any] = {
        "at": now.isoformat(),
        "pid": os.getpid(),
        "state": health.state,
        "since": health.since.isoformat(),
        "version": health.version,
        "published_at": health.published_at and health.published_at.isoformat(),
        "version_age_seconds": age,
        "cycles": health.cycles,
        "cycles_failed": health.failed,
        "failed_in_a_row": health.in_a_row,
        "problem": health.problem,
        "last_cycle_seconds": round(health.seconds, 3),
        "changes": health.changes,
        "refused": health.refused,
        "stale": list(health.stale),
        "memory_bytes": health.memory,
        "topics": {
            name: {
                "newest_change": newest.isoformat(),
                "lag_seconds": round(health.lag.get(name, 0.0), 3),
            }
            for name, newest in sorted(health.newest.items())
        },
    }
    return json.dumps(document, indent=2) + "\n"


def as_metrics(health: Health, now: datetime) -> str:
    """The same in Prometheus' text format."""
    return "".join(_metrics(health, now))


def _metrics(health: Health, now: datetime) -> Iterator[str]:
    yield from _metric("version", "gauge", "Newest published version.", health.version)
    if health.published_at is not None:
        age = (now - health.published_at).total_seconds()
        yield from _metric("version_age_seconds", "gauge", "Age of the newest version.", age)
    yield from _metric("cycles_total", "counter", "Builds that ended.", health.cycles)
    yield from _metric("cycles_failed_total", "counter", "Builds that failed.", health.failed)
    yield from _metric(
        "cycles_failed_in_a_row", "gauge", "Builds that failed one after another.", health.in_a_row
    )
    yield from _metric("last_cycle_seconds", "gauge", "Time of the last build.", health.seconds)
    yield from _metric("changes_total", "counter", "Messages added to the log.", health.changes)
    yield from _metric("refused_total", "counter", "Messages that were refused.", health.refused)
    yield from _metric("memory_bytes", "gauge", "Memory of the process and Java.", health.memory)
    newest = {name: time.timestamp() for name, time in health.newest.items()}
    yield from _by_topic("newest_change_timestamp_seconds", "Time of the newest change.", newest)
    yield from _by_topic(
        "lag_seconds", "From the newest change to the publication that holds it.", health.lag
    )


def _metric(name: str, kind: str, help_text: str, value: float | None) -> Iterator[str]:
    if value is not None:
        yield f"# HELP {PREFIX}{name} {help_text}\n# TYPE {PREFIX}{name} {kind}\n"
        yield f"{PREFIX}{name} {value:.15g}\n"


def _by_topic(name: str, help_text: str, values: Mapping[str, float]) -> Iterator[str]:
    if values:
        yield f"# HELP {PREFIX}{name} {help_text}\n# TYPE {PREFIX}{name} gauge\n"
    for topic, value in sorted(values.items()):
        label = topic.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'{PREFIX}{name}{{topic="{label}"}} {value:.15g}\n'


def memory_of(pids: list[int]) -> int:
    """Bytes of memory that processes hold; 0 where there is no /proc."""
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


class HealthFiles:
    """Writes the health of a process now and then, into two files and on a port.

    Args:
        folder: of the files health.json and metrics.prom.
        health: what is written; the owner changes it.
        port: of 127.0.0.1, with /health and /metrics; 0: a free one, None: none.

    Raises:
        HealthError: the folder can't be written, or the port can't be taken.
    """

    def __init__(self, folder: Path, health: Health, port: int | None = None) -> None:
        self._folder, self._health = folder, health
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        try:
            self._write()
        except OSError as exc:
            raise HealthError(
                f"The health files can't be written into {folder} ({exc.strerror}): let the user "
                "of `make follow` write there."
            ) from exc
        if port is not None:
            try:
                self._server = ThreadingHTTPServer((LOCAL, port), _handler(health))
            except (OSError, OverflowError) as exc:
                raise HealthError(
                    f"Port {port} of {LOCAL} can't be taken for /health and /metrics ({exc}): "
                    "choose another by FOLLOW_PORT or --port, or 0 for any that is free."
                ) from exc
            threading.Thread(target=self._server.serve_forever, name="port", daemon=True).start()
        threading.Thread(target=self._beat, name="health", daemon=True).start()

    @property
    def port(self) -> int | None:
        """The port that answers."""
        return self._server.server_address[1] if self._server is not None else None

    def write(self) -> None:
        """Write both files; where that fails they stay as they are until the next beat, as on a
        full disk: the warehouse is followed all the same."""
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        """Write both files, each in one step, and their folder where somebody took it away."""
        now = datetime.now(UTC)
        texts = {
            HEALTH_FILE: as_json(self._health, now),
            METRICS_FILE: as_metrics(self._health, now),
        }
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                new = self._folder / f".{name}.new"
                new.write_text(text, encoding="utf-8")
                new.replace(self._folder / name)

    def close(self) -> None:
        """Write them a last time, and answer no more."""
        self._ended.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self.write()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.write()


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = datetime.now(UTC)
            if self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4", as_metrics(health, now))
            elif self.path == "/health":
                status = 503 if health.in_a_row else 200
                self._answer(status, "application/json", as_json(health, now))
            else:
                self._answer(404, "text/plain", "There is /health and /metrics.\n")

        def _answer(self, status: int, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Requests stand in no log."""

    return Handler


def check(folder: Path, failures_allowed: int | None = None) -> str | None:
    """Problem of the process whose health files lie in a folder, for a probe, else None.

    Args:
        failures_allowed: failed builds one after another that a probe allows; None for any number.
    """
    try:
        answer = json.loads((folder / HEALTH_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{folder / HEALTH_FILE} can't be read: `make follow` has not started here"
    silent = time.time() - datetime.fromisoformat(answer["at"]).timestamp()
    if silent > ALIVE_WITHIN_SECONDS or answer["state"] == "stopped":
        return f"`make follow` has not reported for {silent:.0f} s; its state was {answer['state']}"
    if failures_allowed is not None and answer["failed_in_a_row"] > failures_allowed:
        return f"{answer['failed_in_a_row']} builds failed one after another: {answer['problem']}"
    if failures_allowed is not None and answer["version"] is None:
        return "no version is published yet"
    return None
