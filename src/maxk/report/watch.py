"""Serve the page of a run in progress, to this machine only.

A thread watches the folders and rebuilds the page when a file changes; requests get the last
complete page. A half-written file is no error: the next check finds it complete.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_SECONDS = 2.0  # between two checks
_ADDRESS = "127.0.0.1"


class Watched:
    """A page that follows its folders.

    build: makes the page of a version number. seconds: between two checks, at least.
    """

    def __init__(
        self, folders: Sequence[Path], build: Callable[[int], str], seconds: float = _SECONDS
    ) -> None:
        self.folders, self.build, self.seconds = folders, build, seconds
        self.version, self.trouble = 0, ""
        self.page = b""
        self.seen: object = None
        self.stop = threading.Event()

    def check(self) -> bool:
        """Rebuild the page if a file changed; returns whether it did."""
        found = fingerprint(self.folders)
        if found == self.seen:
            return False
        try:
            page = self.build(self.version + 1)
        except (ValueError, OSError, LookupError) as error:  # half a file, or one of two
            self.trouble = str(error)
            return False
        self.page, self.seen, self.trouble = page.encode("utf-8", "replace"), found, ""
        self.version += 1
        return True

    def follow(self) -> None:
        """Check until stopped. A page that takes long to build is built less often."""
        while not self.stop.is_set():
            begun = time.monotonic()
            self.check()
            self.stop.wait(max(self.seconds, 2 * (time.monotonic() - begun)))


def fingerprint(folders: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the files a report is made of."""
    found = []
    for folder in folders:
        for path in [*folder.glob("*.*"), *folder.glob("*/*.parquet"), folder / "model"]:
            with contextlib.suppress(OSError):
                state = path.stat()
                found.append((str(path), state.st_size, state.st_mtime_ns))
    return tuple(sorted(found))


def server(watched: Watched, port: int = 0) -> ThreadingHTTPServer:
    """A server of two addresses, / and /version, that answers to its own name only.

    A page elsewhere may have its name point to 127.0.0.1 and ask in the reader's browser; its
    requests then carry its own name as host, and are refused.
    """

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "maxk", ""

        def do_GET(self) -> None:
            here = serving.server_port
            if self.headers.get("Host") not in (f"{_ADDRESS}:{here}", f"localhost:{here}"):
                self.answer(403, b"not served under this name\n", "text/plain")
            elif self.path.split("?")[0] == "/":
                self.answer(200, watched.page or _NOT_YET, "text/html; charset=utf-8")
            elif self.path == "/version":
                state = {"version": watched.version, "trouble": watched.trouble}
                self.answer(200, json.dumps(state).encode(), "application/json")
            else:
                self.answer(404, b"no such page\n", "text/plain")

        def answer(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
                "Content-Security-Policy": "frame-ancestors 'none'",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a reader who left

    serving = Server((_ADDRESS, port), Handler)
    return serving


_NOT_YET = (
    b"<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>"
    b"<title>maxk report</title><p>The page is being made."
)


def serve(watched: Watched, port: int, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. The first page is built here, so that lasting errors are raised."""
    watched.check()
    with server(watched, port) as serving:
        thread = threading.Thread(target=watched.follow, name="maxk report", daemon=True)
        thread.start()
        say(f"http://{_ADDRESS}:{serving.server_port}/ until Ctrl-C")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            watched.stop.set()
