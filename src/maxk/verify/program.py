"""One program in a process of its own, and its tests.

The judge alone knows what a right answer is. It fills the child's stdin, reads its stdout and
compares what comes back.
"""

import logging
import os
from collections.abc import Callable

from maxk.records import Status, StdinTest, Test, TestResult
from maxk.verify.child import Child
from maxk.verify.clock import Clock, ProgramClock
from maxk.verify.compare import right_output
from maxk.verify.jail import Jail, Limits, WorkerFailed
from maxk.verify.requests import Memo, Prepared, prepared

_MAX_CALLS = 10_000  # of one assert test
_GOT_CHARS = 80  # of a wrong answer that are kept: there may be a million of them in a run

_log = logging.getLogger("maxk.verify")


class Program(Child):
    """The process that runs it.

    memo: what was made of the tests for other programs of the problem. second: gives the jail for
    test code, which has nothing in common with the program's.
    """

    def __init__(
        self, jail: Jail, tests: int, memo: Memo, time: ProgramClock, second: Callable[[], Jail]
    ) -> None:
        super().__init__(jail, tests)
        self.tests, self.memo, self.time, self.second = tests, memo, time, second
        self.limits: Limits = jail.limits
        self.tester: Child | None = None  # the process with the code of its assert tests
        self.streams_closed = False  # by an earlier test, so that the next one has none

    def close(self) -> None:
        try:
            self.dismiss_tester()
        finally:
            super().close()

    def compile(self, program: str) -> TestResult | None:
        """None if the program compiles, else the result of all its tests."""
        clock = Clock(self.limits, self.time)
        reply = self.exchange(b"C" + program.encode("utf-8", "surrogatepass"), clock)
        if reply == b".":
            return None
        if isinstance(reply, TestResult):
            return TestResult(Status.DID_NOT_COMPILE, reply.reason, clock.work())
        reason = reply[1:].decode(errors="replace") if reply[:1] == b"E" else "out of memory"
        return TestResult(Status.DID_NOT_COMPILE, short(reason))

    def run(self, test: Test) -> TestResult:
        """The result of a test; `ended` says whether the process lives on for the next.

        Whatever goes wrong while a reply is looked at is the reply's fault: no exception of the
        judging leaves here, but that of a jail that is broken.
        """
        ready = prepared(test, self.memo)
        clock = Clock(self.limits, self.time)
        try:
            if isinstance(test, StdinTest):
                result = self.run_stdin(test, clock)
            elif ready.answer is not None:
                result = self.run_call(ready, clock)
            else:
                result = self.run_test_code(ready, clock)
        except WorkerFailed:
            raise
        except Exception as error:
            self.jail.unread += 1
            _log.warning("a reply could not be judged: %s: %s", type(error).__name__, error)
            result = TestResult(Status.WRONG_ANSWER, "a reply that cannot be judged")
            self._bury()
        clock.charge_sleep()
        answered = result.status in (Status.PASSED, Status.WRONG_ANSWER)
        if answered and clock.all_work() >= self.limits.cpu_seconds:
            self._bury()  # looking at the answer took what was left of its time
            result = TestResult(Status.TIMEOUT, "CPU limit")
        return TestResult(result.status, result.reason, clock.work())

    def run_stdin(self, test: StdinTest, clock: Clock) -> TestResult:
        os.ftruncate(self.stdin, 0)
        os.ftruncate(self.stdout, 0)
        write_all(self.stdin, test.input.encode("utf-8", "surrogatepass"))
        reply = self.exchange(b"S", clock)
        self.streams_closed = reply == b"U"
        size = os.fstat(self.stdout).st_size
        if size >= self.limits.output_bytes:
            return TestResult(Status.OUTPUT_LIMIT, f"{size} bytes")
        if reply == b"." or self.left:
            # What is longer than this is wrong whatever it is; its beginning is told.
            got = os.pread(self.stdout, size, 0)
            if right_output(got, test):
                return TestResult(Status.PASSED)
            text = got[:1000].decode("utf-8", "replace").strip()
            return wrong(text and f"got {short(text, _GOT_CHARS)}")
        return self.failed(reply)

    def run_call(self, ready: Prepared, clock: Clock) -> TestResult:
        reply = self.exchange(ready.request, clock)
        if isinstance(reply, TestResult) or reply[:1] != b"=":
            raised = isinstance(reply, bytes) and reply.startswith(b"EAssertion")
            # In an assert it would be as if the test itself had raised it.
            asserted = raised and ready.answer is not None and ready.answer.equality == "python"
            return wrong("") if asserted else self.failed(reply)
        assert ready.answer is not None
        found = ready.answer.wrong(reply[1:])
        return TestResult(Status.PASSED) if found is None else wrong(short(found, _GOT_CHARS + 4))

    def run_test_code(self, ready: Prepared, clock: Clock) -> TestResult:
        """Test code in a jail of its own; its calls of the program pass through here.

        The program sees arguments and gives back plain values. It never meets the test itself. Test
        code is no stranger's, so that all tests of the program have one such process, for as long
        as it ends them in order.
        """
        tester = self.tester = self.tester or Child(self.second(), self.tests)
        reply = tester.exchange(ready.request, clock)
        for _ in range(_MAX_CALLS):
            if isinstance(reply, TestResult) or reply[:1] != b"?":
                break
            value = self.exchange(b"G" + reply[1:], clock)
            if isinstance(value, TestResult):
                self.dismiss_tester()
                return value
            if value[:1] not in (b"=", b"~", b"@", b"E"):
                self.dismiss_tester()
                return self.failed(value)
            reply = tester.exchange(value, clock)
        if isinstance(reply, TestResult):
            self.dismiss_tester()
            if reply.status is Status.RUNTIME_ERROR:
                raise WorkerFailed(f"the process of the test code ended: {reply.reason}")
            return reply
        if reply[:1] not in (b".", b"E"):
            self.dismiss_tester()
            return wrong("the test made too many calls" if reply[:1] == b"?" else "")
        if reply[:1] == b".":
            return TestResult(Status.PASSED)
        return wrong("") if reply.startswith(b"EAssertion") else self.failed(reply)

    def dismiss_tester(self) -> None:
        tester, self.tester = self.tester, None
        if tester is not None:
            tester.close()

    def failed(self, reply: bytes | TestResult) -> TestResult:
        """What a reply that is no answer says."""
        if isinstance(reply, TestResult):
            return reply
        text = short(reply[1:1000].decode(errors="replace"))
        status, text = {
            b"M": (Status.MEMORY, "MemoryError"),
            b"W": (Status.WRONG_ANSWER, text),
            b"E": (Status.RUNTIME_ERROR, text),
        }.get(reply[:1], (Status.RUNTIME_ERROR, "spoke out of turn"))
        return TestResult(status, text)


def wrong(reason: str) -> TestResult:
    return TestResult(Status.WRONG_ANSWER, reason)


def write_all(fd: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at : at + (1 << 24)], at)


def short(text: str, most: int = 200) -> str:
    """The beginning of a text, without what would steer the terminal that it is printed on."""
    kept = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[:most])
    return kept if len(text) <= most else f"{kept}..."
