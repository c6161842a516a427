"""A real browser for tests: Debian's chromium, driven over a pipe in the DevTools protocol.

Two inherited descriptors carry JSON messages that end in a zero byte. That needs no package: not
for a WebSocket, not for a driver.
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_CODES = {"Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
_SECONDS = 30.0  # for an answer; a busy machine starts a browser in five


class Browser:
    """One window. Messages of its console, and everything it wants to load, are kept."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.profile = tempfile.mkdtemp(prefix="maxk-browser-")
        their_in, self.out = os.pipe()
        self.inn, their_out = os.pipe()
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]

        # The protocol's descriptors are 3 and 4. A shell puts them there: it is exec'd, while code
        # of ours between fork and exec would run in a copy of a process with threads.
        shell = f'exec 3<&{their_in} 4>&{their_out}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=[their_in, their_out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(their_in)
        os.close(their_out)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.console: list[str] = []
        self.requests: list[str] = []
        (target,) = [
            each["targetId"]
            for each in self.send("Target.getTargets")["targetInfos"]
            if each["type"] == "page"
        ]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    session: str | None = None

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)  # with its helpers, which are of its session
        self.process.wait()
        os.close(self.out)
        os.close(self.inn)
        shutil.rmtree(self.profile, ignore_errors=True)

    # --- the protocol ------------------------------------------------------------------------

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; what happens meanwhile is noted."""
        number = next(self.numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def receive(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self.buffer:
            if not select.select([self.inn], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.inn, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.consoleAPICalled":
            texts = [str(each.get("value", each.get("description"))) for each in params["args"]]
            self.console.append(f"{params['type']}: {' '.join(texts)}")
        elif event["method"] == "Runtime.exceptionThrown":
            self.console.append(f"exception: {params['exceptionDetails']}")
        elif event["method"] == "Log.entryAdded":
            self.console.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # --- what a reader does ------------------------------------------------------------------

    def open(self, url: str) -> None:
        self.console.clear()
        self.requests.clear()
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of JavaScript, its promises awaited. Policies of pages do not bind it."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 15.0) -> None:
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(RuntimeError):  # while a page is replaced it has no answer
                if self.run(expression):
                    return
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """One key, as from a keyboard."""
        for kind in ("keyDown", "keyUp"):
            more: dict[str, Any] = {"windowsVirtualKeyCode": _CODES.get(key, ord(key[0].upper()))}
            if len(key) == 1 and kind == "keyDown":
                more["text"] = key
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def dark(self, on: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
