"""A long run: honest and hostile programs in turn while workers are killed at random."""

import ctypes
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from maxk.records import Status, StdinTest
from maxk.verify import Limits, Verifier
from tests.adversarial.test_hostile import PROGRAMS, TESTS

# A program that would wait for the wall clock is as good with a short one; and one that is to run
# out of memory must not run out of time before, on a machine that does other things too.
LIMITS = Limits(cpu_seconds=0.5, wall_seconds=1.5, memory_bytes=64 * 2**20)
HOSTILE_SHARE = 0.05
ROOT = Path(__file__).parents[2]

_LIBC = ctypes.CDLL(None)


class MallocInfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def resident_mb(pid: int | str = "self") -> float:
    text = Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def trim() -> None:
    """Give back what malloc keeps though nobody uses it: megabytes, and no leak."""
    if hasattr(_LIBC, "malloc_trim"):  # glibc has it
        _LIBC.malloc_trim(0)


def in_use_mb() -> float:
    """What malloc has given out, mapped by itself or not."""
    if not hasattr(_LIBC, "mallinfo2"):
        return 0.0
    _LIBC.mallinfo2.restype = MallocInfo
    info = _LIBC.mallinfo2()
    return (info.uordblks + info.hblkhd) / 2**20


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


class Gained(NamedTuple):
    """Between the first tenth and the end."""

    resident_mb: float
    in_use_mb: float
    descriptors: float


def soak(count: int, batch: int) -> Gained:
    before = children()
    done, kills = 0, 0
    marks: list[Gained] = []
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
                descriptors = len(os.listdir("/proc/self/fd"))
                marks.append(Gained(resident_mb(), in_use_mb(), descriptors))
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
    gained = Gained(*(now - then for now, then in zip(marks[-1], early, strict=True)))
    print(f"{count} programs, {kills} kills, {gained}")
    return gained


def alone(count: int, batch: int) -> Gained:
    """The soak in a process of its own, in which threads share one heap.

    glibc gives them up to eight a core, whenever two ask at once, and keeps what was free at the
    end of each. In 60,000 programs that was 14 MB, all before the 40,000th, while what is in use
    stayed the same to the kilobyte; with one heap it was 0.0 MB in 40,000.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "tests.adversarial.test_soak", str(count), str(batch)],
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    *_, told, gained = ended.stdout.splitlines()
    print(told)
    return Gained(*json.loads(gained))


def test_four_hundred_judgements_lose_and_leave_nothing():
    gained = alone(400, batch=50)
    assert gained.resident_mb < 4
    assert gained.in_use_mb < 0.5
    assert abs(gained.descriptors) <= 12  # a worker being replaced has up to three less


@pytest.mark.slow
def test_a_hundred_thousand_judgements_lose_and_leave_nothing():
    gained = alone(100_000, batch=1_000)
    assert gained.resident_mb < 4
    assert gained.in_use_mb < 0.5
    assert abs(gained.descriptors) <= 12


if __name__ == "__main__":
    print(json.dumps(soak(*map(int, sys.argv[1:]))))
