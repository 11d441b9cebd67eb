"""A headless Chromium that opens a page: what it shows, prints and asks the network for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60
# what Chromium itself opens at its start has these schemes and is no request of the page
LOCAL = ("file:", "data:", "blob:", "chrome:", "chrome-untrusted:", "devtools:", "about:")


def browser() -> str | None:
    """Chromium's command, Debian's by its name; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@dataclass(frozen=True)
class Opened:
    """What came of opening a page.

    Attributes:
        dom: the document once its scripts have run.
        console: lines that the page printed, errors among them.
        requests: URLs that were asked for of another place than the file itself.
    """

    dom: str
    console: list[str]
    requests: list[str]


def open_page(page: Path, folder: Path, at: str = "", size: str = "1280,900") -> Opened:
    """Open a file and let its scripts run.

    Args:
        folder: where the browser keeps what it writes.
        at: the fragment of the URL.
        size: of the window, `width,height`.
    """
    log = folder / f"network-{at or 'all'}.json"
    done = _run(
        [
            "--dump-dom",
            "--enable-logging=stderr",
            f"--log-net-log={log}",
            "--virtual-time-budget=20000",
            f"--window-size={size}",
            f"{page.resolve().as_uri()}{'#' if at else ''}{at}",
        ],
        folder,
    )
    console = re.findall(r"INFO:CONSOLE.*?\] (.*)", done.stderr)
    return Opened(done.stdout, console, _requests(log))


def screenshot(page: Path, folder: Path, to: Path, at: str, size: str, dark: bool = False) -> None:
    """A picture of what the window shows."""
    options = ["--force-dark-mode", "--enable-features=WebContentsForceDark"] if dark else []
    _run(
        [
            f"--screenshot={to}",
            f"--window-size={size}",
            "--hide-scrollbars",
            "--virtual-time-budget=20000",
            *options,
            f"{page.resolve().as_uri()}#{at}",
        ],
        folder,
    )


def _run(options: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = browser()
    assert command is not None
    return subprocess.run(
        [
            command,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            f"--user-data-dir={folder / 'profile'}",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )


def _requests(log: Path) -> list[str]:
    """URLs of the network log that are no file of this machine."""
    text = log.read_text(encoding="utf-8").strip()
    # the log is cut where the browser ends before it has closed it
    events = json.loads(text if text.endswith("}") else text.rstrip(",\n ") + "]}")["events"]
    urls = {(event.get("params") or {}).get("url") for event in events}
    return sorted(url for url in urls if url and not url.startswith(LOCAL))
