"""Two jails share nothing, nothing survives a program, and calls are allowed by their arguments."""

import ctypes
import os
import resource
from typing import Any

import pytest

from maxk.records import AssertTest, CallTest, StdinTest
from maxk.verify import Limits, Verifier, judge
from maxk.verify.child import Child
from maxk.verify.clock import Clock, ProgramClock
from maxk.verify.isolation.probe import probe

LIMITS = Limits(cpu_seconds=2.0, wall_seconds=60.0)
TIERS = [pytest.param("A", marks=pytest.mark.skipif(probe().tier != "A", reason="tier B")), "B"]


@pytest.fixture(scope="module", params=TIERS)
def verifier(request):
    with Verifier(workers=1, limits=LIMITS, tier=request.param) as running:
        yield running


def returned(verifier, body: str) -> Any:
    (value,) = verifier.call(f"def f():\n{body}", "f", [()])
    return value


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may compare processes of others")
def test_program_and_test_code_have_no_object_of_the_kernel_in_common(verifier):
    """Nor have two programs of one jail: memory, tables of files, and every open file are compared."""
    (worker,) = verifier.workers
    jails = [worker, worker, worker.second()]
    children = [Child(jail, 1) for jail in jails]
    for child in children:
        child.exchange(b"C", Clock(LIMITS, ProgramClock(LIMITS)))
    pids = [child.pid or 0 for child in children]
    libc = ctypes.CDLL(None, use_errno=True)
    files, memory, table, system, handlers = 0, 1, 2, 3, 4

    def same(a: int, b: int, kind: int, one: int = 0, other: int = 0) -> bool:
        result = libc.syscall(312, a, b, kind, ctypes.c_ulong(one), ctypes.c_ulong(other))
        assert result >= 0, os.strerror(ctypes.get_errno())
        return result == 0

    assert same(pids[0], pids[0], files, 0, 0)
    for a, b in ((pids[0], pids[1]), (pids[0], pids[2])):
        for kind in (memory, table, system, handlers):
            assert not same(a, b, kind)
        for one in os.listdir(f"/proc/{a}/fd"):
            for other in os.listdir(f"/proc/{b}/fd"):
                assert not same(a, b, files, int(one), int(other)), (one, other)
    users = {os.stat(f"/proc/{pid}/stat").st_uid for pid in pids}
    spaces = {os.readlink(f"/proc/{pids[i]}/ns/pid") for i in (0, 2)}
    assert len(spaces) == (2 if verifier.tier == "A" else 1)
    assert users
    for pid, jail in zip(pids, jails, strict=True):
        with open(f"/proc/{pid}/oom_score_adj") as file:
            assert int(file.read()) == 1000  # children die first where memory runs out
        assert jail.process.poll() is None
    for child in children:
        child.close()


PROBE = """
import builtins, fcntl, os, resource, signal, sys
def f():
    seen = []
    for fd in range(64):
        try: s = os.fstat(fd)
        except OSError: continue
        seen.append((fd, s.st_mode, s.st_size, s.st_uid, s.st_gid, s.st_nlink, s.st_blocks))
        seen.append(fcntl.fcntl(fd, fcntl.F_GETFL))
        seen.append(fcntl.fcntl(fd, fcntl.F_GETFD))
        try: seen.append(os.lseek(fd, 0, os.SEEK_CUR))
        except OSError as error: seen.append(error.errno)
        if fd != 40: seen.append(os.pread(fd, 1000, 0))
    seen += [repr(signal.getsignal(s)) for s in signal.valid_signals()]
    seen.append(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))
    seen += [resource.getrlimit(i) for i in range(16)]
    seen += [sorted(os.environ.items()), os.getcwd(), sys.path, sys.argv, sys.getrecursionlimit()]
    seen += [sorted(sys.modules), sorted(vars(builtins)), os.getuid(), os.getgid()]
    for folder in ('/', '/tmp', '/dev/shm', '/var/tmp'):
        try: seen.append(sorted(os.listdir(folder)))
        except OSError as error: seen.append(error.errno)
    return repr(seen)
"""
LEAVES_TRACES = [
    "for fd in (0, 1, 2, 40, 41, 42):\n    for flags in (0o2000, 0o4000, 0o20000, 0o40000):\n"
    "        attempt(fcntl.fcntl, fd, 4, flags)\n        attempt(fcntl.fcntl, fd, 8, 1)\n"
    "        attempt(fcntl.fcntl, fd, 10, 9)",
    "for fd in (0, 1, 2, 41, 42):\n    attempt(os.write, fd, b'trace' * 99)\n"
    "    attempt(os.lseek, fd, 77, 0)\n    attempt(os.ftruncate, fd, 9999)\n"
    "    attempt(os.pwrite, fd, b'trace', 500)",
    "for i in range(16):\n    attempt(resource.setrlimit, i, (1, 1))",
    "for s in signal.valid_signals():\n    attempt(signal.signal, s, signal.SIG_IGN)\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    "os.environ['TRACE'] = '1'\nos.putenv('TRACE', '1')\nsys.path.append('/trace')\n"
    "import builtins\nbuiltins.trace = sys.modules['trace'] = 1\nsys.setrecursionlimit(99)",
    "for name in ('/tmp/trace', '/dev/shm/trace', '/trace', '/var/tmp/trace'):\n"
    "    attempt(open, name, 'w')\n    attempt(os.mkdir, name)\n    attempt(os.chdir, '/usr')",
    "for fd in (0, 1, 2, 41, 42):\n    attempt(os.fchmod, fd, 0)\n    attempt(os.fchown, fd, 1, 1)\n"
    "    attempt(os.setxattr, fd, 'user.x', b'1')\n    attempt(os.set_blocking, fd, False)\n"
    "    attempt(fcntl.fcntl, fd, 1033, 15)\n    attempt(fcntl.flock, fd, 2)",
    "os.closerange(0, 99)",
    "os.abort()",
]
ATTEMPT = (
    "import fcntl, os, resource, signal, sys\ndef attempt(call, *args):\n"
    "    try: call(*args)\n    except Exception: pass\n"
)


def test_nothing_that_a_program_does_can_be_seen_by_the_next(verifier):
    before = verifier.call(PROBE, "f", [()])
    assert isinstance(before[0], str)
    for body in LEAVES_TRACES:
        hostile = f"{ATTEMPT}{body}\n"
        tests = [StdinTest("x", "y"), CallTest("f", (), 1), AssertTest("assert 1 == f()", "f")]
        verifier.judge([(hostile, tests)])
        assert verifier.call(PROBE, "f", [()]) == before, body


def test_only_listed_commands_of_calls_are_allowed(verifier):
    """All numbers of a command are tried from inside; what is refused is refused with EPERM."""
    fcntl = (
        "    import fcntl\n    found = []\n    for command in [*range(1100), *range(2**31 - 9, 2**31)]:\n"
        "        try: fcntl.fcntl(2, command, 0)\n        except PermissionError: continue\n"
        "        except OSError: pass\n        found.append(command)\n    return found"
    )
    assert returned(verifier, fcntl) == [0, 1, 2, 3, 1030]
    calls = (
        "    import ctypes\n    libc, found = ctypes.CDLL(None, use_errno=True), []\n"
        "    for args in {}:\n        ctypes.set_errno(0)\n"
        "        if libc.syscall(*map(ctypes.c_long, args)) >= 0 or ctypes.get_errno() != 1:\n"
        "            found.append(list(args))\n    return found"
    )
    ioctl = "((16, 1, n, 0) for n in [*range(0x5400, 0x5500), *range(0x8900, 0x8a00), *range(64)])"
    assert returned(verifier, calls.format(ioctl)) == [
        [16, 1, n, 0] for n in (0x5401, 0x5450, 0x5451)
    ]
    assert returned(verifier, calls.format("((157, n, 0, 0, 0, 0) for n in range(80))")) == []
    limits = "((302, pid, n, 0, 0) for pid in (1, 2, -1) for n in range(16))"
    assert returned(verifier, calls.format(limits)) == []
    clones = "((56, flags, 0, 0, 0, 0) for flags in (0, 17, 0x100, 0x10000, 0x3d0f00 | 0x10000000))"
    assert returned(verifier, calls.format(clones)) == []


def test_no_signal_leaves_a_program(verifier):
    body = (
        "    import ctypes, os, signal\n    libc, sent = ctypes.CDLL(None, use_errno=True), []\n"
        "    others = [p for p in [-1, 0, 1, os.getppid(), *range(2, 40)] if p != os.getpid()]\n"
        "    for pid in others:\n        for call in ((62, pid, 0), (62, -pid, 0), (200, pid, 0), (234, pid, pid, 0),\n"
        "                     (129, pid, 0, 0), (297, pid, pid, 0, 0), (434, pid, 0), (424, 0, 0, 0, 0)):\n"
        "            if libc.syscall(*call) >= 0 or ctypes.get_errno() != 1:\n"
        "                sent.append(list(call))\n    return sent"
    )
    assert returned(verifier, body) == []


def test_a_program_has_sixteen_threads_and_one_of_them_a_large_stack(verifier):
    if verifier.tier == "B" and os.geteuid() != 0:
        pytest.skip("here the kernel counts all tasks of the user together")
    body = (
        "    import threading, time\n    go, n = threading.Event(), 1\n"
        "    threading.stack_size(2**16)\n"
        "    try:\n        while n < 99:\n"
        "            threading.Thread(target=go.wait, daemon=True).start()\n            n += 1\n"
        "    except RuntimeError: pass\n    go.set()\n    return n"
    )
    assert [returned(verifier, body) for _ in range(3)] == [16] * 3
    large = (
        "    import sys, threading\n    threading.stack_size(256 * 2**20)\n    out = []\n"
        "    t = threading.Thread(target=lambda: out.append(1)); t.start(); t.join()\n    return out"
    )
    assert returned(verifier, large) == [1]


def test_packages_that_are_not_listed_are_not_there(verifier):
    body = (
        "    import importlib\n    found = []\n"
        "    for name in ('pytest', 'hypothesis', 'maxk', 'torch', 'evalplus', 'pip', 'setuptools'):\n"
        "        try: importlib.import_module(name)\n        except ImportError: continue\n"
        "        found.append(name)\n    return found"
    )
    assert returned(verifier, body) == []
    assert returned(verifier, "    import numpy\n    return int(numpy.arange(4).sum())") == 6


def test_in_tier_a_no_file_but_pythons_can_be_named():
    if probe().tier != "A":
        pytest.skip("this machine has no user namespaces")
    paths = ["/proc", "/sys", "/home", "/var", "/boot", "/bin/sh", "/etc/passwd", judge.__file__]
    assert sum(map(os.path.exists, paths)) > 5
    body = (
        f"    import os\n    found = []\n    for path in {paths!r}:\n        for call in (os.stat, os.readlink):\n"
        "            try: call(path)\n            except FileNotFoundError: continue\n"
        "            except OSError: pass\n            found.append(path)\n    return found"
    )
    with Verifier(workers=1, limits=LIMITS, tier="A") as verifier:
        assert returned(verifier, body) == []


def test_programs_that_do_not_fit_into_memory_together_are_refused_at_start():
    with pytest.raises(ValueError, match=r"workers=4 times limits\.memory_bytes=.*use fewer"):
        Verifier(workers=4, limits=Limits(memory_bytes=2**50))
    there = judge.memory_there()
    assert 0 < there <= os.sysconf("SC_PHYS_PAGES") * resource.getpagesize()
    assert judge.default_workers(Limits(memory_bytes=there)) == 1
