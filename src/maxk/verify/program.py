"""One program in a process of its own, and its tests.

The judge alone knows what a right answer is. It fills the child's stdin, reads its stdout and
compares what comes back.
"""

import os
from collections.abc import Callable
from typing import Any

from maxk.records import AssertTest, CallTest, Status, StdinTest, Test, TestResult
from maxk.verify import wire
from maxk.verify.child import Child
from maxk.verify.compare import equal, same_output, same_value, shown
from maxk.verify.jail import Jail
from maxk.verify.requests import Memo, assert_request, call_request, expected_reply

_MAX_CALLS = 10_000  # of one assert test
_GOT_CHARS = 80  # of a wrong answer that are kept: there may be a million of them in a run


class Program(Child):
    """The process that runs it. memo: what was encoded for other programs of the problem."""

    def __init__(self, jail: Jail, tests: int, memo: Memo) -> None:
        super().__init__(jail, tests)
        self.tests, self.memo = tests, memo
        self.tester: Child | None = None  # the process with the code of its assert tests
        self.streams_closed = False  # by an earlier test, so that the next one has none

    def close(self) -> None:
        self.dismiss_tester()
        super().close()

    def compile(self, program: str) -> TestResult | None:
        """None if the program compiles, else the result of all its tests."""
        reply = self.exchange(b"C" + program.encode("utf-8", "surrogatepass"))
        if reply == b".":
            self.seconds()  # the first test does not pay for the start
            return None
        if isinstance(reply, TestResult):
            return TestResult(Status.DID_NOT_COMPILE, reply.reason, reply.seconds)
        reason = reply[1:].decode(errors="replace") if reply[:1] == b"E" else "out of memory"
        return TestResult(Status.DID_NOT_COMPILE, short(reason))

    def run(self, test: Test) -> TestResult:
        """The result of a test; `ended` says whether the process lives on for the next."""
        if isinstance(test, StdinTest):
            return self.run_stdin(test)
        if isinstance(test, CallTest):
            return self.run_call(test)
        return self.run_assert(test)

    def run_stdin(self, test: StdinTest) -> TestResult:
        stdin, stdout = self.jail.stdin, self.jail.stdout
        os.ftruncate(stdin, 0)
        os.ftruncate(stdout, 0)
        write_all(stdin, test.input.encode("utf-8", "surrogatepass"))
        reply = self.exchange(b"S")
        self.streams_closed = reply == b"U"
        size = os.fstat(stdout).st_size
        if size >= self.limits.output_bytes:
            return TestResult(Status.OUTPUT_LIMIT, f"{size} bytes", self.seconds())
        if reply == b"." or self.left:
            got = os.pread(stdout, size, 0).decode("utf-8", "replace")
            right = same_output(got, test.output, test.tolerance, exact=test.exact)
            return self.graded(right, reply, "" if right else got.strip())
        return self.failed(reply)

    def run_call(self, test: CallTest) -> TestResult:
        if id(test) not in self.memo:
            self.memo[id(test)] = test, call_request(test), expected_reply(test)
        _, request, expected = self.memo[id(test)]
        assert request is not None
        reply = self.exchange(request)
        if isinstance(reply, TestResult) or reply[:1] != b"=":
            return self.failed(reply)
        if reply == expected:
            return self.graded(True, reply)
        return self.compared(reply, lambda got: same_value(got, test.expected, test.tolerance))

    def run_assert(self, test: AssertTest) -> TestResult:
        if id(test) not in self.memo:
            self.memo[id(test)] = test, *assert_request(test)
        _, request, expected = self.memo[id(test)]
        reply = None if request is None else self.exchange(request)
        if reply is None or (isinstance(reply, bytes) and reply[:1] == b"W"):
            return self.run_test_code(test)  # also where it returns what is no plain value
        if isinstance(reply, TestResult) or reply[:1] not in (b"=", b"E"):
            return self.failed(reply)
        if reply[:1] == b"E":
            raised = reply.startswith(b"EAssertion")  # as if the test code had
            return self.graded(False, reply) if raised else self.failed(reply)
        return self.compared(reply, lambda got: equal(got, expected))

    def run_test_code(self, test: AssertTest) -> TestResult:
        """Test code in a process of its own; its calls of the program pass through here.

        The program sees arguments and gives back plain values. It never meets the test itself. Test
        code is no stranger's, so that all tests of the program have one such process, for as long
        as it ends them in order.
        """
        tester = self.tester = self.tester or Child(self.jail, self.tests)
        reply = tester.exchange(b"A" + wire.encode((test.code, test.function)))
        for _ in range(_MAX_CALLS):
            if isinstance(reply, TestResult) or reply[:1] != b"?":
                break
            value = self.exchange(b"G" + reply[1:])
            if isinstance(value, TestResult):
                self.dismiss_tester()
                return value
            if value[:1] not in (b"=", b"E"):
                self.dismiss_tester()
                return self.failed(value)
            reply = tester.exchange(value)
        if isinstance(reply, TestResult) or reply[:1] not in b".E":
            self.dismiss_tester()
        else:
            tester.seconds()  # each test has the CPU limit to itself
        if isinstance(reply, bytes) and reply[:1] == b"E" and not reply.startswith(b"EAssertion"):
            return self.failed(reply)
        return self.graded(reply == b".", reply)

    def dismiss_tester(self) -> None:
        if self.tester is not None:
            self.tester.close()
            self.tester = None

    def compared(self, reply: bytes, right: Callable[[Any], bool]) -> TestResult:
        """By a value that was returned."""
        try:
            got = wire.decode(reply[1:])
        except wire.MalformedError:
            return self.graded(False, reply)
        found = right(got)
        return self.graded(found, reply, "" if found else shown(got))

    def graded(self, right: bool, reply: bytes | TestResult, got: str = "") -> TestResult:
        """Right, or wrong for the reason that this was got."""
        seconds = reply.seconds if isinstance(reply, TestResult) else self.seconds()
        if right:
            return TestResult(Status.PASSED, "", seconds)
        return TestResult(Status.WRONG_ANSWER, got and f"got {short(got, _GOT_CHARS)}", seconds)

    def failed(self, reply: bytes | TestResult) -> TestResult:
        """What a reply that is no answer says."""
        if isinstance(reply, TestResult):
            return reply
        text = short(reply[1:].decode(errors="replace"))
        status, text = {
            b"M": (Status.MEMORY, "MemoryError"),
            b"W": (Status.WRONG_ANSWER, text),
            b"E": (Status.RUNTIME_ERROR, text),
        }.get(reply[:1], (Status.RUNTIME_ERROR, "spoke out of turn"))
        return TestResult(status, text, self.seconds())


def write_all(fd: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at : at + (1 << 24)], at)


def short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[:most] + "..."
