"""`Verifier`: thousands of programs over a few jails."""

import os
import queue
import threading
from collections.abc import Sequence
from typing import Literal

from maxk.records import Test, Verdict
from maxk.verify import sandbox
from maxk.verify.worker import Limits, Worker, WorkerFailed


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
        tier: Literal["A", "B"] | None = None,
    ) -> None:
        """Start the jails.

        workers: how many programs run at once; default, one per core. isolate: "test" gives every
        test a process of its own. tier: ask for less than this machine has. allow_unsafe: where the
        kernel has no tier, run programs under resource limits alone instead of raising an error.
        """
        self.tier = choose_tier(sandbox.probe(), tier, allow_unsafe)
        self.limits, self.isolate = limits, isolate
        count = os.cpu_count() or 1 if workers is None else workers
        if count < 1:
            raise ValueError(f"workers={workers} must be at least 1")
        self.workers: list[Worker] = []
        try:
            for _ in range(count):
                self.workers.append(Worker(self.tier, limits))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def judge(self, jobs: Sequence[tuple[str, Sequence[Test]]]) -> list[Verdict]:
        """A verdict for every (program, tests), in order."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for i in range(len(jobs)):
            todo.put(i)
        verdicts: list[Verdict | None] = [None] * len(jobs)
        faults: list[BaseException] = []

        def work(slot: int) -> None:
            while not faults:
                try:
                    i = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    verdicts[i] = self._judge_one(slot, *jobs[i])
                except BaseException as error:
                    faults.append(error)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(len(self.workers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        return [v for v in verdicts if v is not None]

    def _judge_one(self, slot: int, program: str, tests: Sequence[Test]) -> Verdict:
        for attempt in range(3):
            try:
                results = self.workers[slot].judge(program, list(tests), self.isolate)
                return Verdict(tuple(results), self.tier)
            except WorkerFailed:
                self.workers[slot].close()
                if attempt == 2:
                    raise
                self.workers[slot] = Worker(self.tier, self.limits)
        raise AssertionError("unreachable")


def choose_tier(kernel: sandbox.Kernel, wanted: str | None, allow_unsafe: bool) -> str:
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
