"""A real browser for the tests of pages: headless Chromium, spoken to over a pipe by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
SCHEMES = ("light", "dark")
_PATIENCE = 120
# What the page writes on the console, what it throws, and what it fails to load.
_COMPLAINTS = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


def find_browser() -> str | None:
    """The program, or None where there is none: SPARSELENS_BROWSER, else Chromium or Chrome on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("SPARSELENS_BROWSER") or next(filter(None, map(shutil.which, names)), None)


@dataclass(frozen=True)
class Visit:
    """What was seen of a page: complaints of the console, its size, the picture."""

    complaints: list[str]
    width: int  # of the content; more than that of the window means that the page scrolls sideways
    text: str
    background: str
    screenshot: bytes


class Browser:
    """One page of a running browser."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, of: int) -> None:
        self._process, self._to, self._of = process, to, of
        self._last, self._rest, self._events = 0, b"", []  # type: ignore[var-annotated]
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def visit(self, path: Path, *, size: str = "desktop", scheme: str = "light") -> Visit:
        """Open a file as a person would, with a window of a size and the colours that they prefer."""
        width, height = SIZES[size]
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == "phone",
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._events.clear()
        self._call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())
        complaints = [json.dumps(e["params"]) for e in self._events if e["method"] in _COMPLAINTS]
        complaints += [json.dumps(e["params"]) for e in self._events if e["method"] == "Network.loadingFailed"]
        return Visit(
            complaints,
            width=self._ask("document.documentElement.scrollWidth"),
            text=self._ask("document.body.innerText"),
            background=self._ask("getComputedStyle(document.body).backgroundColor"),
            screenshot=base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"]),
        )

    def _ask(self, expression: str) -> Any:
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._of], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"the browser said nothing for {_PATIENCE} seconds")
            data = os.read(self._of, 2**16)
            if not data:
                raise RuntimeError(f"the browser ended with code {self._process.wait()}")
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Browser]:
    """Start the browser with a profile of its own and end it again."""
    (their_input, to), (of, their_output) = os.pipe(), os.pipe()

    def take_descriptors() -> None:  # the protocol wants 3 and 4
        low, high = os.dup(their_input), os.dup(their_output)
        os.dup2(low, 3)
        os.dup2(high, 4)

    process = subprocess.Popen(
        [
            program,
            "--headless=new",
            "--no-sandbox",  # the tests may run as root in a container; the pages are our own files
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=take_descriptors,
    )
    os.close(their_input)
    os.close(their_output)
    try:
        yield Browser(process, to, of)
    finally:
        process.terminate()
        process.wait(timeout=20)
        os.close(to)
        os.close(of)
