"""The time of a program and of a test: deadlines that are set when each begins."""

import time
from typing import Protocol

from maxk.verify.jail import Limits

_SOON = 0.05  # seconds after which a test is looked at more closely
_NOTICED = 0.1  # seconds of sleep that are charged


class Timed(Protocol):
    """A process whose work can be measured."""

    def cpu(self) -> float: ...

    def delays(self) -> dict[str, float]: ...


class ProgramClock:
    """The time of all tests of one program together."""

    def __init__(self, limits: Limits) -> None:
        self.end = time.monotonic() + limits.program_seconds
        self.sleep = limits.wall_seconds  # seconds that it may still sleep

    def over(self) -> str | None:
        """Why no further test is begun; None if there is time."""
        if time.monotonic() >= self.end:
            return "time limit of the program"
        return "it has slept too long" if self.sleep <= 0 else None


class Clock:
    """What one test may use: its program, its test code and the judge's work for it, together.

    Nothing a process does moves an end. Work is CPU time, which a busy machine does not change.
    Nor does the wall clock count time in which the processes or the judge wait for a core, where
    the kernel tells; the deadline of the program counts all.
    """

    def __init__(self, limits: Limits, program: ProgramClock) -> None:
        self.program = program
        self.begun = time.monotonic()
        self.end = self.begun + limits.wall_seconds
        self.cpu_seconds = limits.cpu_seconds
        self.judge = time.thread_time()
        self.watched: list[tuple[Timed, float]] = []
        self.noted: list[tuple[Timed, dict[str, float]]] | None = None
        self.charged = False

    def set_back(self, seconds: float) -> None:
        """A process was started meanwhile: that is not the program's time."""
        self.begun, self.end = self.begun + seconds, self.end + seconds

    def watch(self, process: Timed) -> None:
        """Count the work of this process from here on."""
        if all(process is not each for each, _ in self.watched):
            self.watched.append((process, process.cpu()))
            if self.noted is not None:
                self.noted.append((process, process.delays()))

    def work(self) -> float:
        """CPU seconds of the processes so far."""
        return sum(max(each.cpu() - then, 0.0) for each, then in self.watched)

    def all_work(self) -> float:
        """The same with the judge's own."""
        return self.work() + time.thread_time() - self.judge

    def late(self) -> str | None:
        """The limit that is over, if one is. To be asked before anything is read."""
        if self.all_work() >= self.cpu_seconds:
            return "CPU limit"
        now = time.monotonic()
        if now >= self.program.end:
            return "time limit of the program"
        return "wall clock limit" if now >= self.end and now >= self.end + self.waited() else None

    def wait(self) -> float:
        """Seconds after which the clocks have to be looked at again."""
        left = max(self.cpu_seconds - self.all_work(), _SOON) if self.noted is not None else _SOON
        now = time.monotonic()
        # Past its end it has waited for a core, and may be late at any time.
        left = min(left, self.end - now if now < self.end else 5 * _SOON)
        return max(min(left, self.program.end - now), 0.0)

    def note(self) -> None:
        """It is no short test: from here on, see who waits for a core."""
        if self.noted is None:
            self.noted = [(_ThisThread(), _ThisThread().delays())]
            self.noted += [(process, process.delays()) for process, _ in self.watched]

    def waited(self) -> float:
        """Seconds in which the processes or the judge had no core to run on."""
        total = 0.0
        for process, then in self.noted or ():
            now = process.delays()
            total += max((now[each] - then.get(each, 0.0) for each in now), default=0.0)
        return total

    def charge_sleep(self) -> None:
        """At the end of the test: what is neither work nor waiting for a core was sleep."""
        if self.noted is None or self.charged:
            return
        self.charged = True
        idle = time.monotonic() - self.begun - self.all_work() - self.waited()
        if idle >= _NOTICED:
            self.program.sleep -= idle


class _ThisThread:
    def cpu(self) -> float:
        return time.thread_time()

    def delays(self) -> dict[str, float]:
        return delays_of("/proc/thread-self")


def delays_of(*paths: str) -> dict[str, float]:
    """For each of these folders of threads, the seconds it has waited for a core, where the kernel
    says it."""
    found = {}
    for path in paths:
        try:
            with open(f"{path}/schedstat", "rb") as file:
                found[path] = int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            continue
    return found
