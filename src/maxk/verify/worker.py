"""One jail, from the judge's side: start it, send it programs, own the clock.

The judge alone knows what a right answer is. It fills the child's stdin, reads its stdout, sends
one test at a time and only after the last was answered, and kills what takes too long.
"""

import array
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maxk.records import AssertTest, CallTest, Status, StdinTest, Test, TestResult
from maxk.verify import wire
from maxk.verify.compare import equal, same_output, same_value, shown
from maxk.verify.protocol import EXIT, KILL, MESSAGE, RUN
from maxk.verify.requests import Memo, assert_request, call_request, expected_reply

_MAX_CALLS = 10_000  # of one assert test
_GOT_CHARS = 80  # of a wrong answer that are kept: there may be a million of them in a run
_ZYGOTE = Path(__file__).with_name("zygote.py")
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_READY = (1).to_bytes(4, "big") + b"R"


@dataclass(frozen=True)
class Limits:
    """What one program may use. CPU time decides; the wall clock only stops those who sleep."""

    cpu_seconds: float = 4.0  # per test
    wall_seconds: float = 20.0  # per test
    memory_bytes: int = 512 * 2**20
    output_bytes: int = 2**20
    restarts: int = 3  # fresh processes for the tests after one that died or was killed
    after_timeout: float = 1.0  # cpu_seconds of a program's tests after one out of time or memory


class WorkerFailed(RuntimeError):  # noqa: N818
    """The machinery failed, not the program: never a reward of 0."""


class Worker:
    """A zygote and the channel to it; runs one program at a time."""

    def __init__(self, tier: str, limits: Limits) -> None:
        self.limits = limits
        self.job = 0
        self.closed = False
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-s", "-P", str(_ZYGOTE), str(theirs.fileno()), tier),
                *(str(limits.memory_bytes), str(limits.output_bytes)),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        self.stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        self.stdout = os.memfd_create("stdout", os.MFD_CLOEXEC)

    def ready(self) -> None:
        """Wait until the jail stands. Apart from the start, so that many can start at once."""
        try:
            self._receive(RUN, 60.0)
        except WorkerFailed:
            self.close()
            raise

    def close(self) -> None:
        """End the zygote and every child of it. A second call does nothing."""
        if self.closed:
            return
        self.closed = True  # the numbers of its descriptors may be someone else's from here on
        self.control.close()  # the zygote sees that, kills its children and ends
        try:
            self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        os.close(self.stdin)
        os.close(self.stdout)

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
        child: Child | None = None
        try:
            for test in tests:
                if restarts > self.limits.restarts:
                    not_run = replace(results[-1], reason="not run: too many restarts", seconds=0.0)
                    results.append(not_run)
                    continue
                result = child.run(test) if child is not None else None
                if child is not None and child.worn:
                    child.close()
                    child = result = None
                if child is None:
                    child = Child(self, len(tests), memo)
                    failed = child.compile(program)
                    if failed is not None:
                        return [failed] * len(tests)
                    child.limits = limits
                results.append(result or child.run(test))
                if results[-1].status in (Status.TIMEOUT, Status.MEMORY):
                    limits = child.limits = hurried(self.limits)  # it may be so with any input
                # A program may leave by os._exit(0); that is its right, and no restart.
                restarts += child.ended is not None and not child.left
                if child.ended is not None or isolate == "test":
                    child.close()
                    child = None
        finally:
            if child is not None:
                child.close()
        return results

    def call(self, program: str, tests: list[CallTest]) -> list[Any | TestResult]:
        """What the program returns for the arguments of each test; a TestResult where it fails."""
        values: list[Any | TestResult] = []
        child: Child | None = None
        try:
            for test in tests:
                if child is None:
                    child = Child(self, len(tests), {})
                    failed = child.compile(program)
                    if failed is not None:
                        return [failed] * len(tests)
                reply = child.exchange(call_request(test))
                if isinstance(reply, bytes) and reply[:1] == b"=":
                    values.append(wire.rebuilt(wire.decode(reply[1:])))
                    child.seconds()  # each call has the CPU limit to itself
                else:
                    values.append(child.failed(reply))
                if child.ended is not None:
                    child.close()
                    child = None
        finally:
            if child is not None:
                child.close()
        return values

    def send(self, kind: int, job: int, number: int = 0, fds: tuple[int, ...] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.control.sendmsg([MESSAGE.pack(kind, job, number, 0)], rights)
        except OSError as error:
            raise WorkerFailed(f"the zygote is gone: {error}{self._last_words()}") from None

    def end(self, job: int) -> tuple[int, float]:
        """Kill a child, if it lives, and bury it: its exit status and its CPU seconds."""
        self.send(KILL, job)
        status, nanoseconds = self._receive(EXIT, 30.0, job)
        return status, nanoseconds / 1e9

    def _receive(self, expected: int, seconds: float, job: int = 0) -> tuple[int, int]:
        poll = select.poll()  # select() knows descriptors below 1024 only
        poll.register(self.control, select.POLLIN)
        try:
            data = self.control.recv(256) if poll.poll(1000 * seconds) else b""
        except ConnectionResetError:  # killed with a message unread
            data = b""
        if len(data) != MESSAGE.size:
            raise WorkerFailed("the zygote does not answer" + self._last_words())
        kind, about, first, second = MESSAGE.unpack(data)
        if (kind, about) != (expected, job):
            raise WorkerFailed(f"the zygote answered {kind} for job {about}, not {expected}, {job}")
        return first, second

    def _last_words(self) -> str:
        try:
            code = self.process.wait(timeout=1.0)  # its socket closes a little before it has ended
        except subprocess.TimeoutExpired:
            return ""
        assert self.process.stderr is not None
        how = signal_name(-code) if code < 0 else f"code {code}"
        words = self.process.stderr.read().decode(errors="replace")[-500:]
        return f"; it ended with {how}" + (f": {words}" if words else "")


class Child:
    """One process with one program in it."""

    def __init__(self, worker: Worker, tests: int, memo: Memo) -> None:
        self.worker, self.limits, self.memo = worker, worker.limits, memo
        self.tests = tests
        self.tester: Child | None = None  # the process with the code of its assert tests
        worker.job += 1
        self.job = worker.job
        self.pid: int | None = None  # known once it is ready
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)
        self.writing = False  # whether the poll is for writing too
        total = int(self.limits.cpu_seconds * (tests + 1)) + 5
        try:
            with theirs:
                fds = (theirs.fileno(), worker.stdin, worker.stdout)
                worker.send(RUN, self.job, total, fds)
        except WorkerFailed:
            self.socket.close()
            raise
        self.used = 0.0
        self.ended: int | None = None  # exit status, once the process is gone
        self.left = False  # it ended by itself with code 0, as a program may
        self.worn = False  # an earlier test closed what the next one needs

    def close(self) -> None:
        """Kill it and wait until it is gone: nothing of it may meet the next program."""
        self.dismiss_tester()
        self.socket.close()
        if self.ended is None:
            self.ended, _ = self.worker.end(self.job)

    def compile(self, program: str) -> TestResult | None:
        """None if the program compiles, else the result of all its tests."""
        reply = self.exchange(b"C" + program.encode("utf-8", "surrogatepass"))
        if reply == b".":
            self.seconds()  # the first test does not pay for the start
            return None
        if isinstance(reply, TestResult):
            return TestResult(Status.DID_NOT_COMPILE, reply.reason, reply.seconds)
        if reply[:1] == b"!":
            raise WorkerFailed(f"a child could not lock itself in: {reply[1:].decode()}")
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
        stdin, stdout = self.worker.stdin, self.worker.stdout
        os.ftruncate(stdin, 0)
        os.ftruncate(stdout, 0)
        write_all(stdin, test.input.encode("utf-8", "surrogatepass"))
        reply = self.exchange(b"S")
        self.worn = reply == b"U"
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
        tester = self.tester = self.tester or Child(self.worker, self.tests, self.memo)
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

    def seconds(self) -> float:
        """CPU seconds since the last call."""
        total = self.cpu()
        used, self.used = max(total - self.used, 0.0), max(total, self.used)
        return used

    def cpu(self) -> float:
        """CPU seconds of the process so far; its clock's number is made of its own."""
        if self.pid is None or self.ended is not None:
            return 0.0
        try:
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:  # it has just ended
            return 0.0

    def exchange(self, request: bytes) -> bytes | TestResult:
        """The child's reply; a result if it died, was killed, or said too much."""
        limits = self.limits
        now = time.monotonic()
        deadline = now + limits.wall_seconds
        check = now + limits.cpu_seconds
        unsent = memoryview(len(request).to_bytes(4, "big") + request)
        received, wanted = b"", 4
        while True:
            try:
                if unsent:
                    unsent = unsent[self.socket.send(unsent) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                return self.died()
            if bool(unsent) != self.writing:
                self.writing = not self.writing
                self.poll.modify(self.socket, select.POLLIN | self.writing * select.POLLOUT)
            if not self.poll.poll(1000 * max(check - time.monotonic(), 0.0)):
                now = time.monotonic()
                cpu = self.cpu() - self.used
                if cpu >= limits.cpu_seconds or now >= deadline:
                    return self.late(cpu)
                check = min(now + max(limits.cpu_seconds - cpu, 0.05), deadline)
                continue
            try:
                part = self.receive()
            except BlockingIOError:
                continue
            except ConnectionResetError:
                part = b""
            if not part:
                return self.died()
            received += part
            if received.startswith(_READY):
                received = received[len(_READY) :]
            if wanted == 4 and len(received) >= 4:
                wanted = 4 + int.from_bytes(received[:4], "big")
                if wanted > limits.output_bytes + 5:
                    self.close()
                    return TestResult(Status.OUTPUT_LIMIT, f"a result of {wanted - 5} bytes")
            if len(received) >= wanted > 4:
                return received[4:wanted]

    def receive(self) -> bytes:
        if self.pid is not None:
            return self.socket.recv(1 << 20)
        # The kernel says who sent the first bytes, with the number the process has out here.
        part, extra, _, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(_CREDENTIALS.size))
        if extra:
            self.pid = _CREDENTIALS.unpack(extra[0][2])[0]
        return part

    def late(self, cpu: float) -> TestResult:
        """Kill it."""
        self.close()
        if self.pid is None:
            raise WorkerFailed("a child did not start")
        what = "CPU" if cpu >= self.limits.cpu_seconds else "wall clock"
        return TestResult(Status.TIMEOUT, f"{what} limit", cpu)

    def died(self) -> TestResult:
        """The socket is closed: the process is gone, or will be now."""
        self.ended, total = self.worker.end(self.job)
        seconds = max(total - self.used, 0.0)
        if os.WIFSIGNALED(self.ended):
            number = os.WTERMSIG(self.ended)
            if number == signal.SIGXCPU:
                return TestResult(Status.TIMEOUT, "CPU limit", seconds)
            return TestResult(Status.RUNTIME_ERROR, signal_name(number), seconds)
        code = os.waitstatus_to_exitcode(self.ended)
        self.left = code == 0
        return TestResult(Status.RUNTIME_ERROR, f"exited with {code}", seconds)


def hurried(limits: Limits) -> Limits:
    """For the other tests of a program that has run out of time or memory once."""
    return replace(limits, cpu_seconds=min(limits.cpu_seconds, limits.after_timeout))


def signal_name(number: int) -> str:
    """Most of the real-time signals have no name, and a program may send itself any of them."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def write_all(fd: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at : at + (1 << 24)], at)


def short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[:most] + "..."
