"""A headless Chromium that opens pages, driven through its remote debugging pipe.

It shows what a page holds once its scripts have run, what it prints, and what it asks the network
for. https://chromedevtools.github.io/devtools-protocol/ describes the messages.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

SECONDS = 60  # for an answer
# of the page itself; what the browser opens at its start isn't in the events of a page
LOCAL = ("file:", "data:", "blob:")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def browser() -> str | None:
    """Chromium's command, Debian's by its name; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class BrowserError(Exception):
    """What the browser answered instead of a result."""


class Browser:
    """A browser with one page.

    Args:
        folder: of the profile, new and empty.

    Attributes:
        console: what the page printed, and its uncaught errors, since it was opened.
        requests: URLs that it asked for, other than those of its own file.
    """

    def __init__(self, folder: Path) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._number = 0
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = browser()
        assert command is not None, "no Chromium"

        def take_pipes() -> None:  # the browser reads from 3 and writes to 4
            held = os.dup(to_browser), os.dup(from_browser)
            os.dup2(held[0], 3)
            os.dup2(held[1], 4)

        self._process = subprocess.Popen(
            [command, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=take_pipes,
        )
        os.close(to_browser)
        os.close(from_browser)
        threading.Thread(target=self._listen, daemon=True).start()
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(SECONDS)
        os.close(self._write)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- what a test does --------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Open a page and wait until its scripts have run."""
        self.ask("Page.navigate", url="about:blank")  # a fragment alone would not load it again
        self.console.clear()
        self.requests.clear()
        self.ask("Page.navigate", url=url)
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of a script's last expression; of a promise what it comes to.

        Raises:
            BrowserError: the script failed.
        """
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true.

        Raises:
            BrowserError: it isn't within SECONDS.
        """
        waiting = f"""new Promise((found, failed) => {{
            const until = Date.now() + {SECONDS * 900};
            const look = () => {{
                if ({condition}) found(true);
                else if (Date.now() > until) found(false);
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        if not self.evaluate(waiting):
            raise BrowserError(f"never true: {condition}")

    def press(self, key: str) -> None:
        """Press and release a key, named as in the DOM."""
        codes = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}
        options: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        if key == "Enter":
            options["text"] = "\r"
        self.ask("Input.dispatchKeyEvent", type="keyDown", **options)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def show_as(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size in pixels, and the scheme of colors that a page is asked for."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file: Path) -> None:
        """Write what the window shows as PNG."""
        picture = self.ask("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(picture))

    # ---- the protocol ------------------------------------------------------------------------

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer of the page to a command of the protocol."""
        return self._ask(method, self._session, **parameters)

    def _ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        answered = self._answers[self._number] = queue.Queue()
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        answer = answered.get(timeout=SECONDS)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def _listen(self) -> None:
        rest = b""
        while data := os.read(self._read, 1 << 16):
            *messages, rest = (rest + data).split(b"\0")
            for message in messages:
                self._take(json.loads(message))
        os.close(self._read)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers.pop(message["id"]).put(message)
            return
        event, values = message["method"], message.get("params", {})
        if event == "Runtime.consoleAPICalled":
            texts = [str(part.get("value", part.get("description"))) for part in values["args"]]
            self.console.append(f"{values['type']}: {' '.join(texts)}")
        elif event == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            self.console.append(f"uncaught: {thrown}")
        elif event == "Log.entryAdded":
            self.console.append(f"{values['entry']['level']}: {values['entry']['text']}")
        elif event == "Network.requestWillBeSent":
            url = values["request"]["url"]
            if not url.startswith(LOCAL) and url != "about:blank":
                self.requests.append(url)
