"""A jail that judges: which tests share a process, and what is given a second one."""

from dataclasses import replace
from typing import Any

from maxk.records import CallTest, Status, Test, TestResult
from maxk.verify import wire
from maxk.verify.clock import Clock, ProgramClock
from maxk.verify.jail import Jail, Limits
from maxk.verify.program import Program
from maxk.verify.requests import Memo, call_request, prepared


class Worker(Jail):
    """Runs one program at a time; test code in a second jail, made when it is first needed."""

    beside: Jail | None = None

    def second(self) -> Jail:
        """The jail for test code. It shares nothing with this one."""
        if self.beside is None or self.beside.closed:
            self.beside = Jail(self.tier, self.limits, "tests", self.packages)
            self.beside.ready()
        return self.beside

    def close(self) -> None:
        super().close()
        if self.beside is not None:
            self.beside.close()

    def kill(self) -> None:
        """At once, without waiting: for Ctrl-C."""
        self.process.kill()
        if self.beside is not None:
            self.beside.process.kill()

    def judge(
        self, program: str, tests: list[Test], isolate: str = "program", memo: Memo | None = None
    ) -> list[TestResult]:
        """The result of every test, in order.

        Tests share a process until one dies or is killed; then the rest go on in a fresh one. They
        are run in an order that follows from what they ask: so no verdict depends on the order in
        which they are given. memo: what was made of them for other programs of the same problem.
        """
        memo = {} if memo is None else memo
        order = sorted(range(len(tests)), key=lambda i: prepared(tests[i], memo).order)
        results: dict[int, TestResult] = {}
        for i, result in zip(
            order, self._in_turn(program, [tests[i] for i in order], isolate, memo), strict=True
        ):
            results[i] = result
        return [results[i] for i in range(len(tests))]

    def _in_turn(
        self, program: str, tests: list[Test], isolate: str, memo: Memo
    ) -> list[TestResult]:
        results: list[TestResult] = []
        restarts = 0
        limits = self.limits
        time = ProgramClock(limits)
        running: Program | None = None
        try:
            for test in tests:
                if restarts > self.limits.restarts:
                    not_run = replace(results[-1], reason="not run: too many restarts", seconds=0.0)
                    results.append(not_run)
                    continue
                over = time.over()
                if over is not None:
                    results.append(TestResult(Status.TIMEOUT, f"not run: {over}"))
                    continue
                result = running.run(test) if running is not None else None
                if running is not None and running.streams_closed:
                    running.close()
                    running = result = None
                if running is None:
                    running = Program(self, len(tests), memo, time, self.second)
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
                    time = ProgramClock(replace(self.limits, program_seconds=float("inf")))
                    running = Program(self, len(tests), {}, time, self.second)
                    failed = running.compile(program)
                    if failed is not None:
                        return [failed] * len(tests)
                # Each call has the limits to itself.
                clock = Clock(self.limits, ProgramClock(self.limits))
                reply = running.exchange(call_request(test), clock)
                values.append(returned(running, reply))
                if running.ended is not None:
                    running.close()
                    running = None
        finally:
            if running is not None:
                running.close()
        return values


def returned(running: Program, reply: bytes | TestResult) -> Any | TestResult:
    """The value in a reply, or what is wrong with it."""
    if isinstance(reply, TestResult) or reply[:1] != b"=":
        return running.failed(reply)
    try:
        return wire.rebuilt(wire.decode(reply[1:]))
    except (ValueError, TypeError) as error:
        return TestResult(Status.WRONG_ANSWER, str(error))


def limits_after_timeout(limits: Limits) -> Limits:
    """Less time for the other tests of a program that ran out of time or memory once."""
    less = min(limits.after_timeout / limits.cpu_seconds, 1.0)
    return replace(
        limits,
        cpu_seconds=limits.cpu_seconds * less,
        wall_seconds=limits.wall_seconds * less,
    )
