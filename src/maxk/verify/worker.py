"""A jail that judges: which tests share a process, and what is given a second one."""

from dataclasses import replace
from typing import Any

from maxk.records import CallTest, Status, Test, TestResult
from maxk.verify import wire
from maxk.verify.jail import Jail, Limits
from maxk.verify.program import Program
from maxk.verify.requests import Memo, call_request


class Worker(Jail):
    """Runs one program at a time."""

    def judge(
        self, program: str, tests: list[Test], isolate: str = "program", memo: Memo | None = None
    ) -> list[TestResult]:
        """The result of every test, in order.

        Tests share a process until one dies or is killed; then the rest go on in a fresh one.
        memo: what was encoded for other programs of the same problem.
        """
        memo = {} if memo is None else memo
        results: list[TestResult] = []
        restarts = 0
        limits = self.limits
        running: Program | None = None
        try:
            for test in tests:
                if restarts > self.limits.restarts:
                    not_run = replace(results[-1], reason="not run: too many restarts", seconds=0.0)
                    results.append(not_run)
                    continue
                result = running.run(test) if running is not None else None
                if running is not None and running.streams_closed:
                    running.close()
                    running = result = None
                if running is None:
                    running = Program(self, len(tests), memo)
                    failed = running.compile(program)
                    if failed is not None:
                        return [failed] * len(tests)
                    running.limits = limits
                results.append(result or running.run(test))
                if results[-1].status in (Status.TIMEOUT, Status.MEMORY):
                    # It may run out with any input.
                    limits = running.limits = limits_after_timeout(self.limits)
                # A program may leave by os._exit(0); that is its right, and no restart.
                restarts += running.ended is not None and not running.left
                if running.ended is not None or isolate == "test":
                    running.close()
                    running = None
        finally:
            if running is not None:
                running.close()
        return results

    def call(self, program: str, tests: list[CallTest]) -> list[Any | TestResult]:
        """What the program returns for the arguments of each test; a TestResult where it fails."""
        values: list[Any | TestResult] = []
        running: Program | None = None
        try:
            for test in tests:
                if running is None:
                    running = Program(self, len(tests), {})
                    failed = running.compile(program)
                    if failed is not None:
                        return [failed] * len(tests)
                reply = running.exchange(call_request(test))
                if isinstance(reply, bytes) and reply[:1] == b"=":
                    values.append(wire.rebuilt(wire.decode(reply[1:])))
                    running.seconds()  # each call has the CPU limit to itself
                else:
                    values.append(running.failed(reply))
                if running.ended is not None:
                    running.close()
                    running = None
        finally:
            if running is not None:
                running.close()
        return values


def limits_after_timeout(limits: Limits) -> Limits:
    """Less CPU time for the other tests of a program that ran out of time or memory once."""
    return replace(limits, cpu_seconds=min(limits.cpu_seconds, limits.after_timeout))
