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
        isolate: Literal["program", "test"] = "program",
    ) -> None:
        kernel = sandbox.probe()
        if kernel.tier is None:
            missing = [n for n in ("landlock", "seccomp") if not getattr(kernel, n)]
            raise RuntimeError(
                f"this kernel gives no {' and no '.join(missing)}, without which a stranger's code "
                "is not run; use Linux 5.13 or newer with both enabled"
            )
        self.tier, self.limits, self.isolate = kernel.tier, limits, isolate
        count = workers or os.cpu_count() or 1
        self.workers = [Worker(self.tier, limits) for _ in range(count)]

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
