"""One process in a jail: what it is told, what it answers, and the clock that it is under.

The judge sends one request at a time and only after the last was answered, and kills what takes too
long or says too much.
"""

import os
import select
import signal
import socket
import struct
import time

from maxk.records import Status, TestResult
from maxk.verify.jail import Jail, WorkerFailed, signal_name
from maxk.verify.protocol import RUN

_CREDENTIALS = struct.Struct("3i")  # process, user, group
_READY = (1).to_bytes(4, "big") + b"R"


class Child:
    """A process that was forked for one program, or for the code of its tests.

    tests: how many it may be asked for, by which the kernel's own limit of CPU time is set.
    """

    def __init__(self, jail: Jail, tests: int) -> None:
        self.jail, self.limits = jail, jail.limits
        jail.job += 1
        self.job = jail.job
        self.pid: int | None = None  # known once it has said something
        self.ready = False  # locked in; before that whatever goes wrong is no program's fault
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)
        self.writing = False  # whether the poll is for writing too
        total = int(self.limits.cpu_seconds * (tests + 1)) + 5
        try:
            with theirs:
                fds = (theirs.fileno(), jail.stdin, jail.stdout)
                jail.send(RUN, self.job, total, fds)
        except WorkerFailed:
            self.socket.close()
            raise
        self.used = 0.0
        self.ended: int | None = None  # exit status, once the process is gone
        self.left = False  # it ended by itself with code 0, as a program may

    def close(self) -> None:
        """Kill it and wait until it is gone: nothing of it may meet the next program."""
        self.socket.close()
        if self.ended is None:
            self.ended, _ = self.jail.end(self.job)

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
                unsent = unsent[:0]  # it is gone; what it last said comes first
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
            if not self.ready and received.startswith(_READY):
                self.ready, received, wanted = True, received[len(_READY) :], 4
            if wanted == 4 and len(received) >= 4:
                wanted = 4 + int.from_bytes(received[:4], "big")
                if wanted > limits.output_bytes + 5:
                    self.close()
                    return TestResult(Status.OUTPUT_LIMIT, f"a result of {wanted - 5} bytes")
            if len(received) >= wanted > 4:
                if not self.ready:
                    why = received[5:wanted].decode(errors="replace")
                    raise WorkerFailed(f"a child could not lock itself in: {why}")
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
        if not self.ready:
            raise WorkerFailed("a child did not start")
        what = "CPU" if cpu >= self.limits.cpu_seconds else "wall clock"
        return TestResult(Status.TIMEOUT, f"{what} limit", cpu)

    def died(self) -> TestResult:
        """The socket is closed: the process is gone, or will be now."""
        self.ended, total = self.jail.end(self.job)
        seconds = max(total - self.used, 0.0)
        code = os.waitstatus_to_exitcode(self.ended)
        how = signal_name(-code) if code < 0 else f"exited with {code}"
        if not self.ready:
            raise WorkerFailed(f"a child ended before it was locked in: {how}")
        if code == -signal.SIGXCPU:
            return TestResult(Status.TIMEOUT, "CPU limit", seconds)
        self.left = code == 0
        return TestResult(Status.RUNTIME_ERROR, how, seconds)
