"""`Verifier`: thousands of programs over a few jails."""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from maxk.records import AssertTest, CallTest, Status, Test, TestResult, Verdict
from maxk.verify.isolation.probe import Kernel, probe
from maxk.verify.jail import Limits, WorkerFailed
from maxk.verify.requests import Memo, prepared
from maxk.verify.worker import Worker

_ATTEMPTS = 4  # at a job that breaks jails; an honest program goes before the last
_log = logging.getLogger("maxk.verify")


class Verifier:
    """Judges programs in jails. Use as a context manager.

    >>> from maxk.records import StdinTest
    >>> with Verifier(workers=1) as verifier:
    ...     [verdict] = verifier.judge([("print(int(input()) * 2)", [StdinTest("3", "6")])])
    >>> verdict.fraction
    1.0
    """

    def __init__(
        self,
        workers: int | None = None,
        limits: Limits = Limits(),  # noqa: B008
        allow_unsafe: bool = False,
        *,
        isolate: Literal["program", "test"] = "program",
        hash_seeds: int = 1,
        tier: Literal["A", "B"] | None = None,
    ) -> None:
        """Start the jails.

        workers: how many programs run at once; default, two per core, since each waits for the
        judge part of its time. isolate: "test" gives every test a process of its own. hash_seeds:
        with 2, what passes is run again under another seed of Python's hashes, which the order of
        sets depends on, and counts if it passes there too. tier: ask for less than this machine
        has. allow_unsafe: where the kernel has no tier, run programs under resource limits alone
        instead of raising an error.
        """
        self.tier = choose_tier(probe(), tier, allow_unsafe)
        self.limits = limits
        self.isolate: Literal["program", "test"] = isolate
        count = default_workers(limits) if workers is None else workers
        if count < 1:
            raise ValueError(f"workers={workers} must be at least 1")
        if workers is not None and workers * limits.memory_bytes > memory_there():
            raise ValueError(
                f"workers={workers} times limits.memory_bytes={limits.memory_bytes} is more than "
                f"the {memory_there()} bytes of this machine; use fewer workers or a lower limit"
            )
        if hash_seeds < 1:
            raise ValueError(f"hash_seeds={hash_seeds} must be at least 1")
        self.count, self.hash_seeds = count, hash_seeds
        self.broken_jails = 0  # so far, by programs or by the machine
        self.workers: list[Worker] = []  # so many of the first hash seed, then of the next
        self.free: queue.SimpleQueue[int] = queue.SimpleQueue()  # workers that judge nothing now
        self.process, self.closed = os.getpid(), False
        try:
            for place in range(count * hash_seeds):
                self.workers.append(self._started(place))
            for worker in self.workers:
                worker.ready()
            for slot in range(count):
                self.free.put(slot)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        for worker in self.workers:
            worker.close()

    def judge(
        self,
        jobs: Sequence[tuple[str, Sequence[Test]]],
        done: Callable[[int, Verdict], None] | None = None,
    ) -> list[Verdict]:
        """A verdict for every (program, tests), in order.

        done: called with the number of a job and its verdict as soon as there is one, by one thread
        at a time. Several threads may share a Verifier: a call has the workers that others leave.
        """
        if self.closed:
            raise RuntimeError("this Verifier is closed; make a new one")
        if os.getpid() != self.process:
            raise RuntimeError(
                f"this Verifier was made in process {self.process} and this is a fork of it, "
                f"{os.getpid()}; make a Verifier in each process that judges"
            )
        return self._judge(jobs, done or (lambda i, verdict: None))

    def call(
        self, program: str, function: str, inputs: Sequence[tuple[Any, ...]]
    ) -> list[Any | TestResult]:
        """What a function of the program returns for each input; a TestResult where it fails.

        The values are rebuilt in this process. That runs no code, but a program out to waste time
        could return sets that are slow to build: for references, not for a model's programs.
        """
        tests = [CallTest(function, args, None) for args in inputs]
        with self._worker() as slot:
            for attempt in range(3):
                try:
                    self._revive(slot)
                    return self.workers[slot].call(program, tests)
                except WorkerFailed:
                    self.workers[slot].close()
                    if attempt == 2:
                        raise
        raise AssertionError("unreachable")

    def _started(self, place: int) -> Worker:
        return Worker(self.tier, self.limits, hash_seed=place // self.count)

    @contextlib.contextmanager
    def _worker(self) -> Iterator[int]:
        """The number of a worker that no other thread uses meanwhile."""
        slot = self.free.get()
        try:
            yield slot
        finally:
            self.free.put(slot)

    def _revive(self, place: int) -> None:
        """A jail that stands; MachineBroken if none can be started."""
        for attempt in range(3):
            if not self.workers[place].closed:
                return
            self.workers[place] = self._started(place)
            try:
                self.workers[place].ready()
            except WorkerFailed as error:
                if attempt == 2:
                    raise MachineBroken(str(error)) from None

    def _judge(
        self,
        jobs: Sequence[tuple[str, Sequence[Test]]],
        done: Callable[[int, Verdict], None],
    ) -> list[Verdict]:
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for i in range(len(jobs)):
            todo.put(i)
        verdicts: list[Verdict | None] = [None] * len(jobs)
        faults: list[BaseException] = []
        memo: Memo = {}
        reporting = threading.Lock()

        def work() -> None:
            while not faults:
                try:
                    i = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    program, tests = jobs[i]
                    with self._worker() as slot:
                        if faults:
                            return
                        verdict = verdicts[i] = self._judge_one(slot, program, tests, memo, faults)
                    with reporting:
                        done(i, verdict)
                except BaseException as error:
                    faults.append(error)

        count = min(self.count, len(jobs))
        threads = [threading.Thread(target=work) for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:  # Ctrl-C: do not wait for what runs, and leave nothing
            faults.append(error)
            for worker in self.workers:
                worker.kill()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            raise
        if faults:
            raise faults[0]
        return [v for v in verdicts if v is not None]

    def _judge_one(
        self,
        slot: int,
        program: str,
        tests: Sequence[Test],
        memo: Memo,
        faults: list[BaseException],
    ) -> Verdict:
        """One verdict: what passes under one hash seed is run again under the next."""
        given = list(tests)
        for test in given:
            prepared(test, memo)
        results: list[TestResult] = []
        for seed in range(self.hash_seeds):
            left = [i for i in range(len(given)) if not seed or results[i].status is Status.PASSED]
            if not left and seed:
                break
            place = slot + seed * self.count
            found = self._results(place, program, [given[i] for i in left], memo, faults)
            if not seed:
                results = found
                continue
            for i, result in zip(left, found, strict=True):
                if result.status is not Status.PASSED:
                    why = f"with another hash seed: {result.reason}".removesuffix(": ")
                    results[i] = replace(result, reason=why)
        return Verdict(tuple(results), self.tier)

    def _results(
        self,
        place: int,
        program: str,
        given: list[Test],
        memo: Memo,
        faults: list[BaseException],
    ) -> list[TestResult]:
        """Of one worker. A jail that fails is replaced, unless all is being given up.

        After three failures an honest program says whose fault it is. If that one is judged as it
        should be and the job breaks its jail once more, the job is what breaks jails.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._revive(place)
                if attempt == _ATTEMPTS - 1:
                    check_machine(self.workers[place])
                    self.workers[place].close()
                    self._revive(place)
                return self.workers[place].judge(program, given, self.isolate, memo)
            except WorkerFailed as error:
                self.workers[place].close()
                if faults or isinstance(error, MachineBroken):
                    raise
                self.broken_jails += 1
                _log.warning("a jail broke while a program was judged: %s", error)
        return [TestResult(Status.RUNTIME_ERROR, "broke its jail")] * len(given)


class MachineBroken(WorkerFailed):
    """An honest program is not judged as it should be."""


def check_machine(worker: Worker) -> None:
    """MachineBroken if this worker does not judge an honest program as it should."""
    tests: list[Test] = [
        CallTest("double", (3,), 6),
        AssertTest("for i in range(3):\n    assert double(i) == 2 * i", "double"),
    ]
    try:
        results = worker.judge("def double(x): return 2 * x", tests)
    except WorkerFailed as error:
        raise MachineBroken(str(error)) from None
    if any(each.status not in (Status.PASSED, Status.TIMEOUT) for each in results):
        raise MachineBroken(f"an honest program was judged {results}")


def default_workers(limits: Limits = Limits()) -> int:  # noqa: B008
    """Two for each core that this process may use, or as many as there is memory for."""
    cores = 2 * len(os.sched_getaffinity(0))
    fit = max(memory_there() // limits.memory_bytes, 1)
    if fit < cores:
        _log.warning("%d programs at once: there is memory for no more", fit)
    return min(cores, fit)


def memory_there() -> int:
    """Bytes of memory that this process may use, by the machine and its control group."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return min(found)


def choose_tier(kernel: Kernel, wanted: str | None, allow_unsafe: bool) -> str:
    """The tier to run under: what is wanted, if the kernel has it, else the best there is."""
    if kernel.tier is None:
        if allow_unsafe:
            return "U"
        missing = [name for name in ("landlock", "seccomp") if not getattr(kernel, name)]
        raise RuntimeError(
            f"this kernel gives no {' and no '.join(missing)}, without which no stranger's program "
            "is run; use Linux 5.13 or newer with both enabled, or pass allow_unsafe=True for "
            "programs you trust"
        )
    if wanted == "A" and kernel.tier != "A":
        raise RuntimeError('tier="A" needs user namespaces, which this machine does not give')
    return wanted or kernel.tier
