"""One process in a jail: what it is told, what it answers, and the clock that it is under.

The judge sends one request at a time and only after the last was answered. A request has a number
that cannot be guessed, and the reply repeats it. Whatever else a process says ends it.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import time

from maxk.records import Status, TestResult
from maxk.verify.clock import Clock, delays_of
from maxk.verify.jail import Jail, WorkerFailed, signal_name
from maxk.verify.protocol import HEADER, NUMBER_BYTES, RUN

_CREDENTIALS = struct.Struct("3i")  # process, user, group
_UNASKED = bytes(NUMBER_BYTES)  # the number of the first frame, by which a process says it is ready
_READY = HEADER.size + NUMBER_BYTES + 1  # bytes of that frame; a reply may be right behind it
_PART = 1 << 16  # bytes that are read at once
_SMALL = 1 << 12  # whoever sends less at once is read less often
_START = 120.0  # seconds that a process may take to lock itself in
_OUT_OF_TURN = "spoke out of turn"


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
        self.total = 0.0  # CPU seconds, as last read
        self.waits: dict[str, float] = {}  # for a core, as last read
        self.ended: int | None = None  # exit status, once the process is gone
        self.left = False  # it ended by itself with code 0, as a program may
        self.files: list[int] = []
        self.forked = time.monotonic()
        self.socket, theirs = socket.socketpair()
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.poll = select.poll()
            self.poll.register(self.socket, select.POLLIN)
            self.writing = False  # whether the poll is for writing too
            # Files of its own, and descriptions of its own of the device: what a process does to
            # them ends with it.
            for name in ("stdin", "stdout"):
                self.files.append(os.memfd_create(name, os.MFD_CLOEXEC))
            null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            total = int(self.limits.cpu_seconds * (tests + 1)) + 5
            try:
                jail.send(RUN, self.job, total, (theirs.fileno(), *self.files, null))
            finally:
                os.close(null)
        except BaseException:
            self._release()
            raise
        finally:
            theirs.close()

    @property
    def stdin(self) -> int:
        return self.files[0]

    @property
    def stdout(self) -> int:
        return self.files[1]

    def _release(self) -> None:
        self.socket.close()
        for fd in self.files:
            os.close(fd)
        self.files.clear()

    def close(self) -> None:
        """Kill it and wait until it is gone: nothing of it may meet the next program."""
        self._release()
        self._bury()

    def _bury(self) -> None:
        if self.ended is None:
            self.ended, total = self.jail.end(self.job)
            self.total = max(self.total, total)

    def cpu(self) -> float:
        """CPU seconds of the process so far; its clock's number is made of its own."""
        if self.pid is not None and self.ended is None:
            try:  # noqa: SIM105  (this is done for every test, and a context takes longer)
                self.total = max(self.total, time.clock_gettime(~self.pid << 3 | 2))
            except OSError:  # it has just ended
                pass
        return self.total

    def delays(self) -> dict[str, float]:
        """For each of its threads, the seconds it has waited for a core."""
        if self.pid is not None and self.ended is None:
            folder = f"/proc/{self.pid}/task"
            with contextlib.suppress(OSError):  # it has just ended
                self.waits = delays_of(*(f"{folder}/{name}" for name in os.listdir(folder)))
        return self.waits

    def exchange(self, request: bytes, clock: Clock) -> bytes | TestResult:
        """The child's reply; a result if it died, was killed, or said what was not asked."""
        clock.watch(self)
        number = os.urandom(NUMBER_BYTES)
        head = HEADER.pack(NUMBER_BYTES + len(request))
        unsent: memoryview | bytes = memoryview(b"".join((head, number, request)))
        frame = Frame(self.limits.output_bytes)
        pause = 0.0
        while True:
            try:
                if unsent:
                    unsent = unsent[self.socket.send(unsent) :]
            except BlockingIOError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                unsent = b""  # it is gone; what it last said comes first
            if bool(unsent) != self.writing:
                self.writing = not self.writing
                self.poll.modify(self.socket, select.POLLIN | self.writing * select.POLLOUT)
            spoken = self.poll.poll(1000 * clock.wait())
            if not spoken:
                clock.note()
            late = self.late(clock)  # before any of its bytes is read: right or not, it is too late
            if late is not None:
                return self.stopped(Status.TIMEOUT, late, clock)
            if not spoken:
                continue
            try:
                part = self.receive(frame.wanted() if self.ready else frame.wanted(_READY))
            except BlockingIOError:
                continue
            except ConnectionResetError:
                part = b""
            if not part:
                clock.charge_sleep()
                return self.died()
            wrong = frame.add(part)
            if wrong is None and frame.whole and not self.ready:
                self.began(frame, clock)
                frame = Frame(self.limits.output_bytes)
                continue
            asked = frame.number == number and not unsent
            if wrong is None and frame.whole and (not asked or frame.extra or self.more(part)):
                wrong = (Status.RUNTIME_ERROR, _OUT_OF_TURN)
            if wrong is not None:
                return self.stopped(*wrong, clock)
            if frame.whole:
                return frame.reply
            # Byte after byte would cost the judge more than the child.
            pause = min(max(2 * pause, 0.0002), 0.02) if len(part) < _SMALL else 0.0
            if pause:
                time.sleep(min(pause, clock.wait()))

    def late(self, clock: Clock) -> str | None:
        """The limit that is over. While the process starts, the machine alone can be late."""
        if self.ready:
            return clock.late()
        return "no sign of life" if time.monotonic() - self.forked >= _START else None

    def began(self, frame: "Frame", clock: Clock) -> None:
        """The process has spoken for the first time: it is locked in, or could not be."""
        if frame.number != _UNASKED or frame.reply != b"R" or frame.extra:
            why = frame.reply[1:200].decode(errors="replace")
            raise WorkerFailed(f"a child could not lock itself in: {why}")
        self.ready = True
        clock.set_back(time.monotonic() - max(self.forked, clock.begun))

    def more(self, part: bytes) -> bool:
        """Whether it has said something that nobody asked, behind this last part of a frame."""
        if len(part) < _PART and part[: HEADER.size] == HEADER.pack(len(part) - HEADER.size):
            return False  # it was read in one go, and all that there was
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, ConnectionResetError):
            return False

    def receive(self, most: int) -> bytes:
        if self.pid is not None:
            return self.socket.recv(most)
        # The kernel says who sent the first bytes, with the number the process has out here.
        part, extra, _, _ = self.socket.recvmsg(most, socket.CMSG_SPACE(_CREDENTIALS.size))
        if extra:
            self.pid = _CREDENTIALS.unpack(extra[0][2])[0]
        return part

    def stopped(self, status: Status, why: str, clock: Clock) -> TestResult:
        """Kill it."""
        clock.charge_sleep()  # while it can still be asked
        self._bury()
        if not self.ready:
            raise WorkerFailed(f"a child did not start: {why}")
        return TestResult(status, why)

    def died(self) -> TestResult:
        """The socket is closed: the process is gone, or will be now."""
        self._bury()
        assert self.ended is not None
        code = os.waitstatus_to_exitcode(self.ended)
        how = signal_name(-code) if code < 0 else f"exited with {code}"
        if not self.ready:
            raise WorkerFailed(f"a child ended before it was locked in: {how}")
        if code == -signal.SIGXCPU:
            return TestResult(Status.TIMEOUT, "CPU limit")
        self.left = code == 0
        return TestResult(Status.RUNTIME_ERROR, how)


class Frame:
    """One frame, as its bytes arrive: never more of them than one reply may have."""

    def __init__(self, output_bytes: int) -> None:
        self.most = output_bytes + NUMBER_BYTES + 1
        self.buffer = bytearray()
        self.size: int | None = None

    def wanted(self, most: int = _PART) -> int:
        """How many bytes to read at most."""
        return most if self.size is None else max(self.size - len(self.buffer), 1)

    def add(self, part: bytes) -> tuple[Status, str] | None:
        """None, or why this is no frame."""
        self.buffer += part
        if self.size is None and len(self.buffer) >= HEADER.size:
            (length,) = HEADER.unpack_from(self.buffer)
            if length <= NUMBER_BYTES:
                return Status.RUNTIME_ERROR, _OUT_OF_TURN
            if length > self.most:
                return Status.OUTPUT_LIMIT, f"a result of {length - NUMBER_BYTES - 1} bytes"
            self.size = HEADER.size + length
        return None

    @property
    def whole(self) -> bool:
        return self.size is not None and len(self.buffer) >= self.size

    @property
    def extra(self) -> bool:
        return self.size is not None and len(self.buffer) > self.size

    @property
    def number(self) -> bytes:
        return bytes(self.buffer[HEADER.size : HEADER.size + NUMBER_BYTES])

    @property
    def reply(self) -> bytes:
        return bytes(memoryview(self.buffer)[HEADER.size + NUMBER_BYTES : self.size])
