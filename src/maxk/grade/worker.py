"""Grade the completions of a run in a process of its own, as while others are sampled.

Not in a thread: where the model is small, what drives it (vLLM, or torch on a CPU) is busy in
Python most of the time, and threads that hand programs to their jails beside it would wait for the
same interpreter. In threads on an H200 verdicts came at 70 a second.

The process runs `main` below. It gets the names of parts on its standard input, a line each, and
ends with it; it says on its standard output how much it has graded, and which parts, as lines of
JSON.
"""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import IO, Any

from maxk.grade.run import OnGraded, check_limits, grade_parts
from maxk.store.run import Run, RunError
from maxk.verify import Limits, VerifierSettings

_EVERY = 0.2  # seconds between two reports
_CHILD = f"from {__name__} import main; main()"


class Grader:
    """The process, seen from the one that samples. Use as a context manager.

    on_graded: called from a thread, with what was graded since the last call.
    """

    def __init__(
        self, run: Run, settings: VerifierSettings, table: str, on_graded: OnGraded
    ) -> None:
        check_limits(run, settings, table)
        self.fault: BaseException | None = None
        self.ready = threading.Event()
        self.given, self.graded, self.told = 0, 0, threading.Event()  # parts
        text = json.dumps(asdict(settings))
        command = [sys.executable, "-c", _CHILD, str(run.folder), table, text]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.listener = threading.Thread(target=self._listen, args=(on_graded,), name="maxk grade")
        self.listener.start()

    def put(self, part: str) -> None:
        """Have a part graded; raises what went wrong with an earlier one."""
        stdin = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(f"{part}\n")
            stdin.flush()
            self.given += 1
        except BrokenPipeError:
            self.listener.join()
        self._raise()

    def wait_for(self, most: int, waiting: Callable[[], None]) -> None:
        """Until so many parts at most are not graded, calling `waiting` now and then."""
        while self.listener.is_alive() and self.given - self.graded > most:
            self.told.wait(_EVERY)
            self.told.clear()
            waiting()
        self._raise()

    def finish(self, waiting: Callable[[], None]) -> None:
        """Grade what is left, calling `waiting` now and then."""
        self._hang_up()
        while self.listener.is_alive():
            self.listener.join(_EVERY)
            waiting()
        self._raise()

    def __enter__(self) -> "Grader":
        try:
            self.ready.wait()
            self._raise()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # its jails die with it
        self._hang_up()
        self.listener.join()
        self.process.wait()

    def _hang_up(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def _listen(self, on_graded: OnGraded) -> None:
        try:
            ended = self._hear(on_graded)
        except BaseException as error:  # of `on_graded`
            self.process.kill()
            self.fault = error
        else:
            if not ended and self.fault is None:
                text = "the process that grades ended before its work was done"
                self.fault = RuntimeError(text)
        self.ready.set()

    def _hear(self, on_graded: OnGraded) -> bool:
        """What the process says, until it is silent; whether it came to its end."""
        assert self.process.stdout is not None
        ended = False
        with self.process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if "fault" in said:
                    kinds = {"RunError": RunError, "ValueError": ValueError}
                    self.fault = kinds.get(said["kind"], RuntimeError)(said["fault"])
                elif "graded" in said:
                    on_graded(said["graded"], said["reward"])
                elif "part" in said:
                    self.graded += 1
                    self.told.set()
                ended = ended or "ended" in said
                self.ready.set()
        return ended

    def _raise(self) -> None:
        if self.fault is not None:
            raise self.fault


class _Reports:
    """What was graded, told a few times a second."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream, self.graded, self.reward, self.last = stream, 0, 0.0, 0.0

    def say(self, **words: Any) -> None:
        self.stream.write(json.dumps(words) + "\n")
        self.stream.flush()

    def on_graded(self, completions: int, reward: float) -> None:
        self.graded += completions
        self.reward += reward
        if time.monotonic() - self.last > _EVERY:
            self.flush()

    def done(self, part: str) -> None:
        self.say(part=part)

    def flush(self) -> None:
        self.say(graded=self.graded, reward=self.reward)
        self.graded, self.reward, self.last = 0, 0.0, time.monotonic()


def lines_or_none(stream: IO[str]) -> Iterator[str | None]:
    """The lines of a stream as they come, and None every now and then between them."""
    coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in stream:
            coming.put(line.strip())
        coming.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = coming.get(timeout=_EVERY)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who samples says when to end
    folder, table, text = sys.argv[1:]
    given = json.loads(text)
    settings = VerifierSettings(**{**given, "limits": Limits(**given["limits"])})
    reports = _Reports(sys.stdout)
    try:
        with settings.verifier() as verifier:
            reports.say(tier=verifier.tier)
            parts = lines_or_none(sys.stdin)
            grade_parts(Run.open(folder), parts, verifier, table, reports.on_graded, reports.done)
    except BaseException as error:
        reports.say(fault=str(error), kind=type(error).__name__)
        sys.exit(1)
    reports.flush()
    reports.say(ended=True)
