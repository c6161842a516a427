"""Judge a run that is sampled: here, or in several processes where one could not keep up.

What hands tests to the jails and grades the answers is one interpreter, which is busy for 1 to 2 ms
of a program with two tests and some ten of one with a hundred, so that many jails wait for it
(docs/verifier.md). Each process has a few of them, and takes the next part when it has one less.
"""

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace

from maxk.grade.run import Judging, Seen, check_limits, judge_parts, unjudged
from maxk.grade.worker import Judge
from maxk.store.run import Run
from maxk.verify.judge import default_workers

_JAILS = 4  # of a process, at least
_AT_ONCE = 2  # parts of a process, so that a slow program keeps no jail waiting


def verify_run(
    run: Run, judging: Judging | None = None, name: str = "verdicts", seen: Seen | None = None
) -> int:
    """Judge what has no verdict yet; gives how many completions that was.

    name: the table for the verdicts; those made under other limits need another. seen: called
    with what was judged since the last call, by one thread at a time.
    """
    judging = judging or Judging()
    judged, counting = 0, threading.Lock()

    def count(completions: int, reward: float) -> None:
        nonlocal judged
        with counting:
            judged += completions
            if seen is not None:
                seen(completions, reward)

    with run.locked():
        check_limits(run, judging, name)
        parts = unjudged(run, name)
        if len(shares := shares_of(judging, len(parts))) > 1:
            judge_apart(run, parts, shares, name, count)
        elif parts:
            with judging.verifier() as verifier:
                judge_parts(run, parts, verifier, name, count)
    return judged


def shares_of(judging: Judging, parts: int) -> list[Judging]:
    """What each process is to do, of a machine that runs so many programs at once.

    >>> [share.workers for share in shares_of(Judging(workers=13), parts=50)]
    [5, 4, 4]
    >>> [share.workers for share in shares_of(Judging(workers=13), parts=2)]
    [7, 6]
    """
    workers = default_workers() if judging.workers is None else judging.workers
    processes = max(min(workers // _JAILS, parts), 1)
    each, more = divmod(workers, processes)
    return [replace(judging, workers=each + (i < more)) for i in range(processes)]


def judge_apart(
    run: Run, parts: Sequence[str], shares: Sequence[Judging], name: str, seen: Seen
) -> None:
    """Judge parts in a process for each share. A fault of one ends all of them."""
    todo: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for part in (*parts, *(None for _ in shares)):
        todo.put(part)
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise InterruptedError("judging was stopped")

    def drive(judging: Judging) -> None:
        with Judge(run, judging, name, seen) as judge:
            while (part := todo.get()) is not None:
                judge.put(part)
                judge.wait_for(_AT_ONCE - 1, check)
            judge.finish(check)

    with ThreadPoolExecutor(len(shares), "maxk verify") as pool:
        try:
            driven = [pool.submit(drive, share) for share in shares]
            ended, _ = wait(driven, return_when=FIRST_EXCEPTION)
            for each in ended:
                each.result()
        finally:
            stop.set()
