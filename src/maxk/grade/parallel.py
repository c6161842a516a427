"""Grade a run that is sampled: here, or in several processes where one could not keep up.

One interpreter hands tests to the jails and compares the answers. It is busy for 1 to 2 ms of a
program with two tests and some ten of one with a hundred, so that many jails wait for it
(docs/explanation/verifier.md). Each process has a few of them, and takes the next part when it has
one less.
"""

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace

from maxk.grade.run import OnGraded, check_limits, grade_parts, ungraded
from maxk.grade.worker import Grader
from maxk.store.run import Run
from maxk.verify import VerifierSettings
from maxk.verify.judge import default_workers

_JAILS = 4  # of a process, at least
_AT_ONCE = 2  # parts of a process, so that a slow program keeps no jail waiting


def grade_run(
    run: Run,
    settings: VerifierSettings | None = None,
    table: str = "verdicts",
    on_graded: OnGraded | None = None,
) -> int:
    """Grade what has no verdict yet; gives how many completions that was.

    table: for the verdicts; those made under other limits need another. on_graded: called with
    what was graded since the last call, by one thread at a time.
    """
    settings = settings or VerifierSettings()
    graded, counting = 0, threading.Lock()

    def count(completions: int, reward: float) -> None:
        nonlocal graded
        with counting:
            graded += completions
            if on_graded is not None:
                on_graded(completions, reward)

    with run.locked():
        check_limits(run, settings, table)
        parts = ungraded(run, table)
        if len(shares := shares_of(settings, len(parts))) > 1:
            grade_apart(run, parts, shares, table, count)
        elif parts:
            with settings.verifier() as verifier:
                grade_parts(run, parts, verifier, table, count)
    return graded


def shares_of(settings: VerifierSettings, parts: int) -> list[VerifierSettings]:
    """What each process is to do, of a machine that runs so many programs at once.

    >>> [share.workers for share in shares_of(VerifierSettings(workers=13), parts=50)]
    [5, 4, 4]
    >>> [share.workers for share in shares_of(VerifierSettings(workers=13), parts=2)]
    [7, 6]
    """
    workers = default_workers(settings.limits) if settings.workers is None else settings.workers
    processes = max(min(workers // _JAILS, parts), 1)
    each, more = divmod(workers, processes)
    return [replace(settings, workers=each + (i < more)) for i in range(processes)]


def grade_apart(
    run: Run,
    parts: Sequence[str],
    shares: Sequence[VerifierSettings],
    table: str,
    on_graded: OnGraded,
) -> None:
    """Grade parts in a process for each share. A fault of one ends all of them."""
    todo: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for part in (*parts, *(None for _ in shares)):
        todo.put(part)
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise InterruptedError("grading was stopped")

    def drive(settings: VerifierSettings) -> None:
        with Grader(run, settings, table, on_graded) as grader:
            while (part := todo.get()) is not None:
                grader.put(part)
                grader.wait_for(_AT_ONCE - 1, check)
            grader.finish(check)

    with ThreadPoolExecutor(len(shares), "maxk grade") as pool:
        try:
            driven = [pool.submit(drive, share) for share in shares]
            ended, _ = wait(driven, return_when=FIRST_EXCEPTION)
            for each in ended:
                each.result()
        finally:
            stop.set()
