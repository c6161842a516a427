"""The kernel's layers, each shown by the refusal of the operation itself.

Every attempt runs twice in a fresh interpreter: once isolated, where it must fail, and
once outside, where it must get past the point of refusal. So a pass is not luck.
"""

import json
import os
import platform
import subprocess
import sys

import pytest

from maxk.verify import isolation
from maxk.verify.isolation.probe import Kernel, probe

RUN = """
import ctypes, errno, json, os, resource, socket, sys, threading, time
sys.path.insert(0, {folder!r})
from isolation import landlock, limits, namespaces, seccomp
libc = ctypes.CDLL(None, use_errno=True)

def syscall(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")

def attempt():
{body}

if {inside}:
{enter}
try:
    attempt()
    print(json.dumps(0))
except OSError as error:
    print(json.dumps(error.errno))
"""

ENTER = """
landlock.restrict_files(landlock.python_paths())
seccomp.restrict_calls()
"""


def indent(code: str) -> str:
    return "\n".join("    " + line for line in code.strip().split("\n"))


def outcome(body: str, inside: bool, enter: str = ENTER) -> int | None:
    """0 if the attempt succeeded, its errno if it failed; None if the process was killed."""
    code = RUN.format(
        folder=os.path.dirname(isolation.__path__[0]),
        body=indent(body),
        inside=inside,
        enter=indent(enter),
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60
    )
    if done.returncode < 0:
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EPERM, EACCES = 1, 13

# Calls with arguments that do no harm where they are allowed: the kernel then complains of those.
CALLS_X86 = {
    "fork": "os.fork() or os._exit(0)",
    "vfork": "syscall(58) if inside else None",
    "clone without a thread": "syscall(56, 0x800, 0, 0, 0, 0)",
    "execve": "os.execv('/nonexistent', ['x'])",
    "execveat": "syscall(322, -1, 0, 0, 0, 0)",
    "kill": "os.kill(os.getpid(), 0)",
    "tgkill of another": "syscall(234, os.getppid(), os.getppid(), 0)",
    "pidfd_open": "syscall(434, os.getpid(), 0)",
    "socket TCP": "socket.socket()",
    "socket unix": "socket.socket(socket.AF_UNIX)",
    "socket vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "socketpair": "socket.socketpair()",
    "pipe": "os.pipe()",
    "memfd_create": "os.memfd_create('x')",
    "io_uring_setup": "syscall(425, 1, 0)",
    "ptrace": "syscall(101, 16, 0, 0, 0)",
    "process_vm_readv": "syscall(310, os.getpid(), 0, 0, 0, 0, 0)",
    "process_vm_writev": "syscall(311, os.getpid(), 0, 0, 0, 0, 0)",
    "unshare": "syscall(272, 0)",
    "setns": "syscall(308, -1, 0)",
    "mount": "syscall(165, 0, 0, 0, 0, 0)",
    "bpf": "syscall(321, 99, 0, 0)",
    "userfaultfd": "syscall(323, 99)",
    "perf_event_open": "syscall(298, 0, 0, 0, 0, 0)",
    "keyctl": "syscall(250, 99)",
    "shmget": "syscall(29, 0, 4096, 0o1600)",
    "inotify_init1": "syscall(294, 99)",
    "prlimit of another": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "setpriority": "os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))",
    "personality": "syscall(135, 0xFFFFFFFF)",
    "ioctl TIOCSTI": "syscall(16, 0, 0x5412, 0)",
    "unlink": "os.unlink('/nonexistent')",
    "mkdir": "os.mkdir('/proc/self/x')",
    "chmod": "os.chmod('/nonexistent', 0)",
    "seccomp": "syscall(317, 99, 0, 0)",
}
x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64 calls")


@x86_only
@pytest.mark.parametrize("name", CALLS_X86)
def test_the_call_is_refused_inside_and_reaches_the_kernel_outside(name):
    body = CALLS_X86[name]
    assert outcome(body.replace("inside", "True"), inside=True) == EPERM
    if name in ("perf_event_open", "io_uring_setup", "bpf", "keyctl", "setpriority"):
        return  # some machines refuse these to everyone
    if own_filters() and name in ("unshare", "setns", "mount", "userfaultfd", "ptrace"):
        return  # and containers these
    assert outcome(body.replace("inside", "False"), inside=False) != EPERM


@x86_only
def test_calls_of_the_x32_architecture_end_the_process():
    assert outcome("syscall(0x40000000 + 39)", inside=True) is None


@x86_only
def test_clone3_seems_not_to_exist_so_that_threads_still_start():
    assert outcome("syscall(435, 0, 0)", inside=True) == 38
    assert outcome("t = threading.Thread(target=len, args=('',)); t.start(); t.join()", True) == 0


@pytest.mark.parametrize(
    "body",
    [
        "open('/etc/passwd').read()",
        "open('/proc/self/environ').read()",
        "open('/proc/self/mem', 'rb')",
        "os.listdir('/')",
        "os.listdir('/tmp')",
        "open('/dev/shm/maxk-test-file', 'w')",
        "open('/tmp/maxk-test-file', 'w')",
    ],
)
def test_files_outside_the_library_cannot_be_read_and_none_can_be_written(body):
    assert outcome(body, inside=True) in (EPERM, EACCES)
    cleanup = "\nfor p in ('/dev/shm', '/tmp'):\n    f = os.path.join(p, 'maxk-test-file')\n"
    cleanup += "    if os.path.exists(f): os.unlink(f)"
    assert outcome(body + cleanup, inside=False) == 0


@pytest.mark.parametrize(
    "body",
    [
        "import decimal, fractions, heapq, bisect, itertools, collections, re, string, statistics",
        "import random; random.seed(); random.random()",
        "import datetime; datetime.datetime.now()",
        "print('x', file=sys.stderr, flush=True)",
        "time.sleep(0.01)",
        "sys.setrecursionlimit(10**5); bytearray(50 * 2**20)",
        "sys.stdout.isatty(); os.get_terminal_size and os.getpid()",
        "int('9' * 4000) ** 2; sorted(range(10**5))",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import traceback; traceback.format_stack()",
        "os.cpu_count(); os.uname(); os.getcwd()",
    ],
)
def test_what_honest_programs_do_still_works(body):
    assert outcome(body, inside=True) == 0


def test_abort_reaches_the_process_itself():
    assert outcome("os.abort()", inside=True) is None


def test_a_limit_cannot_be_raised_again():
    lower = "limits.limit(resource.RLIMIT_NOFILE, 32)" + ENTER
    body = """
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 64))
except ValueError:
    raise OSError(errno.EPERM, "")
"""
    assert outcome(body, inside=True, enter=lower) == EPERM


def test_namespaces_hide_the_network_and_the_other_processes():
    if not probe().namespaces:
        pytest.skip("this machine has no user namespaces: tier B")
    enter = "namespaces.enter_namespaces()"
    interfaces = "import socket as s; raise OSError(len(s.if_nameindex()), '')"
    assert outcome(interfaces, inside=True, enter=enter) == 1  # the loopback device alone
    first_child = """
pid = os.fork()
if pid == 0:
    os._exit(0 if os.getpid() == 1 else 7)
raise OSError(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or 99, '')
"""
    assert outcome(first_child, inside=True, enter=enter) == 99
    assert outcome(first_child, inside=False) == 7


def own_filters() -> int:
    """How many seccomp filters this process has; a container brings one."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["Seccomp_filters"])


def test_the_probe_leaves_this_process_as_free_as_it_was():
    filters = own_filters()
    before = probe()
    assert probe() == before
    assert own_filters() == filters


def test_tiers_follow_from_what_works():
    assert Kernel(True, True, True).tier == "A"
    assert Kernel(False, True, True).tier == "B"
    assert Kernel(True, False, True).tier is None
    assert Kernel(True, True, False).tier is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to become")
def test_root_becomes_another_user_or_refuses_where_no_other_can_read_the_library(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "library").mkdir()
    become = "sys.path[:] = [{!r}]\nnamespaces.become_nobody()\n"
    users = "raise OSError(40 + (0 in os.getresuid() + os.getresgid()), '')"
    for library, expected in (("/usr/lib", 40), (str(closed / "library"), EPERM)):
        assert outcome(become.format(library) + users, inside=False) == expected


def test_uid_0_without_capabilities_cannot_get_them_back():
    enter = "namespaces.drop_capabilities()"
    body = """
with open("/proc/self/status") as file:
    held = [int(line.split()[1], 16) for line in file if line[:6] in ("CapEff", "CapPrm", "CapInh")]
raise OSError(1 + sum(held), '')
"""
    assert outcome(body, inside=True, enter=enter) == 1


def test_a_folder_inside_the_library_can_be_hidden(tmp_path):
    (tmp_path / "library" / "secret" / "deep").mkdir(parents=True)
    for name in ("open", "secret/deep/answer", "other"):
        (tmp_path / "library" / name).write_text("x")
    (tmp_path / "outside").write_text("x")
    (tmp_path / "library" / "link").symlink_to(tmp_path / "outside")
    library = str(tmp_path / "library")
    readable = f"[*landlock.python_paths(), {library!r}]"
    enter = f"landlock.restrict_files({readable}, hidden=[{library + '/secret'!r}])"
    for name, expected in {
        "open": 0,
        "other": 0,
        "secret/deep/answer": EACCES,
        "link": EACCES,
    }.items():
        body = f"open({library + '/' + name!r}).close()"
        assert outcome(body, inside=True, enter=enter) == expected, name
        assert outcome(body, inside=False) == 0
    assert outcome(f"os.listdir({library!r})", inside=True, enter=enter) == 0
