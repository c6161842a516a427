"""A long run: honest and hostile programs in turn while workers are killed at random."""

import ctypes
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxk.records import Status, StdinTest
from maxk.verify import Limits, Verifier
from tests.adversarial.test_hostile import PROGRAMS, TESTS

# A program that would wait for the wall clock is as good with a short one.
LIMITS = Limits(cpu_seconds=0.2, wall_seconds=1.5, memory_bytes=128 * 2**20)
HOSTILE_SHARE = 0.05


def resident_mb(pid: int | str = "self") -> float:
    text = Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def trim() -> None:
    """Give back what malloc keeps though nobody uses it: megabytes, and no leak."""
    given_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if given_back is not None:
        given_back(0)


def children() -> list[tuple[int, str]]:
    """Processes of this one's making, with their state."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append((int(entry.name), fields[0]))
    return found


def jobs(count: int, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Programs with what each must get: a fraction for the honest, statuses for the hostile."""
    hostile = list(PROGRAMS.values())
    for i in range(count):
        if rng.random() < HOSTILE_SHARE:
            program, allowed = hostile[i % len(hostile)]
            yield (program, TESTS), allowed
        else:
            a, right = rng.randrange(10**6), rng.randrange(5)
            program = f"n = int(input())\nprint(n + {a} if n < {right} else -1)"
            tests = [StdinTest(str(n), str(n + a)) for n in range(4)]
            yield (program, tests), min(right, 4) / 4


def soak(count: int, batch: int) -> tuple[float, float]:
    """Memory in MB and descriptors gained between the first tenth and the end."""
    before = children()
    done, kills = 0, 0
    marks: list[tuple[float, int]] = []
    with Verifier(workers=4, limits=LIMITS) as verifier:
        stop = threading.Event()

        def kill() -> None:
            # One after the other, at random times, but not before it has run as many processes as no
            # program needs: one is tried three times, and must not be hit by three kills in a row.
            nonlocal kills
            when = random.Random(1)
            while not stop.wait(when.uniform(1, 3)):
                worker = verifier.workers[kills % 4]
                if worker.job > 2 * (LIMITS.restarts + 1):
                    worker.process.send_signal(signal.SIGKILL)
                    kills += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            stream = jobs(count, random.Random(0))
            while work := [next(stream) for _ in range(min(batch, count - done))]:
                verdicts = verifier.judge([job for job, _ in work])
                for (job, due), verdict in zip(work, verdicts, strict=True):
                    if isinstance(due, float):
                        assert verdict.fraction == due, (job, verdict)
                    else:
                        assert {t.status for t in verdict.tests} <= due, (job, verdict)
                    assert len(verdict.tests) == len(job[1])
                    assert all(isinstance(t.status, Status) for t in verdict.tests)
                done += len(work)
                del verdicts
                gc.collect()
                trim()
                marks.append((resident_mb(), len(os.listdir("/proc/self/fd"))))
        finally:
            stop.set()
            killer.join()
        assert done == count
        assert kills
        states = [state for _, state in children()]
        assert states.count("Z") <= 4  # a worker killed a moment ago, not yet replaced
    time.sleep(0.2)
    assert sorted(children()) == sorted(before)
    early = marks[max(len(marks) // 10, 1)]
    memory, descriptors = marks[-1][0] - early[0], marks[-1][1] - early[1]
    print(f"{count} programs, {kills} kills, {memory:+.1f} MB, {descriptors:+d} descriptors")
    return memory, descriptors


def test_fifteen_hundred_judgements_lose_and_leave_nothing():
    memory, descriptors = soak(1_500, batch=100)
    assert memory < 8  # 3.4 to 4.1 were seen where torch is loaded
    assert abs(descriptors) <= 12  # a worker being replaced has up to three descriptors less


@pytest.mark.slow
def test_a_hundred_thousand_judgements_lose_and_leave_nothing():
    memory, descriptors = soak(100_000, batch=1_000)
    assert memory < 4
    assert abs(descriptors) <= 12
