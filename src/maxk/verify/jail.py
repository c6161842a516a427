"""One jail, from the judge's side: the zygote in it and the channel to that."""

import array
import functools
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from maxk.verify.isolation.namespaces import closed_directories
from maxk.verify.protocol import EXIT, KILL, MESSAGE, RUN

_ZYGOTE = Path(__file__).with_name("zygote.py")
_START = 300.0  # seconds that a zygote may take: a busy machine is not a broken one
# One heap and one thread for the libraries, since threads are few and memory is counted.
_ENVIRONMENT = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"} | dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
# What programs may import beside the standard library, where it is installed.
PACKAGES = (
    *("numpy", "scipy", "pandas", "sympy", "networkx", "sortedcontainers"),
    *("mpmath", "dateutil", "pytz", "tzdata", "six"),  # which these need
)


@dataclass(frozen=True)
class Limits:
    """What one program may use. CPU time decides; the wall clock only stops those who sleep."""

    cpu_seconds: float = 4.0
    """CPU time of one test"""
    wall_seconds: float = 20.0
    """wall-clock time of one test, and how long a program may sleep in all tests together"""
    program_seconds: float = 300.0
    """wall-clock time of a program, all its tests together"""
    memory_bytes: int = 512 * 2**20
    """memory of a program"""
    output_bytes: int = 2**20
    """what a program may write on stdout in one test"""
    restarts: int = 3
    """fresh processes for the tests after one that died or was killed"""
    after_timeout: float = 1.0
    """CPU time of each further test of a program that has run out of time or memory once"""


class WorkerFailed(RuntimeError):  # noqa: N818
    """The machinery failed, not the program: never a reward of 0."""


class Jail:
    """A zygote, started here, and the children that it forks on demand.

    role: "programs" or "tests", what its children run. packages: what can be imported beside the
    standard library. hash_seed: of Python's hashes of texts, which the order of sets follows from.
    """

    def __init__(
        self,
        tier: str,
        limits: Limits,
        role: str = "programs",
        packages: tuple[str, ...] = PACKAGES,
        hash_seed: int = 0,
    ) -> None:
        self.tier, self.limits, self.role, self.packages = tier, limits, role, packages
        self.job = 0
        self.unread = 0  # replies whose judging failed, and which so were wrong
        self.closed = False
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [
                *(interpreter(tier), "-s", "-S", "-P", str(_ZYGOTE), str(theirs.fileno()), tier),
                *(str(limits.memory_bytes), str(limits.output_bytes), role),
                *package_paths(packages),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**_ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
            cwd="/",
            start_new_session=True,
        )
        theirs.close()

    def ready(self) -> None:
        """Wait until the jail stands. Apart from the start, so that many can start at once."""
        try:
            self._receive(RUN, _START)
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

    def send(self, kind: int, job: int, number: int = 0, fds: tuple[int, ...] = ()) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.control.sendmsg([MESSAGE.pack(kind, job, number, 0)], rights)
        except OSError as error:
            raise WorkerFailed(f"the zygote is gone: {error}{self._last_words()}") from None

    def end(self, job: int) -> tuple[int, float]:
        """Kill a child, if it lives, and bury it: its exit status and its CPU seconds."""
        self.send(KILL, job)
        status, nanoseconds = self._receive(EXIT, _START, job)
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


def interpreter(tier: str) -> str:
    """The Python that runs programs: this one, or one of the same version that all users can read.

    Programs never run as root. In tier A a root folder is made in which another user can read this
    Python; without namespaces it has to lie where others may look.
    """
    if tier == "A" or os.geteuid() != 0 or not closed_directories():
        return sys.executable
    for place in ("/usr/bin", "/usr/local/bin"):
        other = f"{place}/python3.{sys.version_info.minor}"
        if os.path.exists(other) and not closed_directories(os.path.realpath(other)):
            return other
    walls = " ".join(closed_directories())
    raise RuntimeError(
        f"no user but root can read {sys.base_prefix}, and programs are not run as root; use "
        f"another user, or allow others to pass: chmod o+x {walls}"
    )


@functools.cache
def package_paths(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Where these packages lie, with the shared objects that come with them."""
    found: list[str] = []
    for name in packages:
        if not name.isidentifier():
            raise ValueError(f"packages={packages!r}: {name!r} is not the name of a package")
        for folder in dict.fromkeys(map(os.path.realpath, filter(None, sys.path))):
            places = [os.path.join(folder, each) for each in (name, f"{name}.py", f"{name}.libs")]
            own = [place for place in places if os.path.exists(place)]
            if own and not own[0].endswith(".libs") and folder.endswith("-packages"):
                found += own
                break
    return tuple(found)


def signal_name(number: int) -> str:
    """Most of the real-time signals have no name, and a program may send itself any of them."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
