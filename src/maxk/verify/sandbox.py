"""The kernel's own isolation, asked for by the process that is to be isolated.

Three layers, none of which needs root or a package: user namespaces (own processes, network,
mounts, IPC), Landlock (which files may be read; none may be written), and seccomp (which system
calls exist at all). Each is one-way: what a process gave up, it and its children never get back.

Linux on x86-64 and aarch64 (the numbers of the latter are not tested yet). The standard library
alone is used: this file is loaded inside the sandbox.
"""

import ctypes
import errno
import functools
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

_PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE, _PR_SET_PDEATHSIG = 38, 4, 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

# --- system calls a program that computes, reads and prints has a use for ------------------------

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86-64, aarch64); None where the architecture does not have it
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # descriptors that are open already, and files that Landlock lets it open
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "pwrite64": (18, 68), "lseek": (8, 62), "close": (3, 57),
    "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "fcntl": (72, 25), "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None),
    "lstat": (6, None), "statx": (332, 291), "open": (2, None), "openat": (257, 56),
    "getdents64": (217, 61), "readlink": (89, None), "readlinkat": (267, 78),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "getcwd": (79, 17),
    "ftruncate": (77, 46), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214),
    # threads of its own process, signals to itself
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293),
    "set_tid_address": (218, 96), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "arch_prctl": (158, None), "membarrier": (324, 283), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
    # time and facts
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "times": (100, 153), "getrusage": (98, 165), "getrandom": (318, 278), "uname": (63, 160),
    "sysinfo": (99, 179), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156), "getrlimit": (97, 163),
}  # fmt: skip

# values of arguments that some further calls are allowed with
_TCGETS, _FIOCLEX, _FIONCLEX = 0x5401, 0x5451, 0x5450
_CLONE_THREAD = 0x00010000


_Step = tuple[int, int, int, int]  # operation, jump if true, jump if false, value
_LOAD, _EQUAL, _FROM, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_MISSING = 0x00050000 | errno.ENOSYS
_YES: _Step = (_ANSWER, 0, 0, _ALLOW)


def _search(answers: list[tuple[int, int]]) -> list[_Step]:
    """Binary search. answers: (first number, answer for it and those up to the next), sorted.

    Not one test after another, because the kernel walks through the filter for every call there is
    whenever a process takes it on, and each program is a process.
    """
    if len(answers) == 1:
        return [(_ANSWER, 0, 0, answers[0][1])]
    half = len(answers) // 2
    below, above = _search(answers[:half]), _search(answers[half:])
    return [(_FROM, len(below), 0, answers[half][0]), *below, *above]


@functools.cache
def call_filter() -> tuple[Any, Any, int]:
    """The seccomp program: allow the calls above, refuse the rest with EPERM.

    The buffer it is in, the header that points there, and the place in the buffer of the process's
    own number, which `restrict_calls` fills in.
    """
    machine = platform.machine()
    column = {"x86_64": 0, "aarch64": 1}[machine]

    def when(call: tuple[int, int], *body: _Step) -> list[_Step]:
        return [(_EQUAL, 0, len(body), call[column]), *body]

    def argument_is(index: int, values: list[int], op: int = _EQUAL) -> list[_Step]:
        """Allow if the low half of an argument is one of the values; refuse otherwise."""
        tests = [(op, len(values) - i, 0, value) for i, value in enumerate(values)]
        return [(_LOAD, 0, 0, 16 + 8 * index), *tests, (_ANSWER, 0, 0, _REFUSE), _YES]

    numbers = {n for call in _CALLS.values() if (n := call[column]) is not None}
    edges = sorted(numbers | {n + 1 for n in numbers})
    answers = [(n, _ALLOW if n in numbers else _REFUSE) for n in edges]
    answers = [a for a, b in zip(answers, [(0, 0), *answers], strict=False) if a[1] != b[1]]
    code: list[_Step] = [
        (_LOAD, 0, 0, 4),  # architecture: a 32-bit call has other numbers
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_ANSWER, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # number of the call
        (_FROM, 0, 1, 0x40000000),  # x32 calls carry this bit
        (_ANSWER, 0, 0, _KILL),
        *when((234, 131), *argument_is(0, [0])),  # tgkill: abort() and raise() reach itself alone
        *when((435, 435), (_ANSWER, 0, 0, _MISSING)),  # clone3 hides its flags; glibc takes clone
        *when((56, 220), *argument_is(0, [_CLONE_THREAD], _ANY_BIT)),  # clone: no processes
        *when((16, 29), *argument_is(1, [_TCGETS, _FIOCLEX, _FIONCLEX])),  # ioctl
        *when((302, 261), *argument_is(0, [0])),  # prlimit64: its own, which are at the maximum
        *_search([(0, _REFUSE), *answers]),
    ]
    program = b"".join(struct.pack("=HBBI", *step) for step in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=H6xQ", len(code), ctypes.addressof(buffer))
    return buffer, ctypes.create_string_buffer(header, len(header)), 8 * 8 + 4


def restrict_calls() -> None:
    """Seccomp: from here on only the calls of a program that computes, reads and prints."""
    buffer, header, pid_at = call_filter()
    struct.pack_into("=I", buffer, pid_at, os.getpid())
    _no_new_privileges()
    # All threads of the process, should there be more than this one (SECCOMP_FILTER_FLAG_TSYNC).
    _call(317 if platform.machine() == "x86_64" else 277, 1, 1, header)


# --- files ---------------------------------------------------------------------------------------

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 if it has none or has it switched off."""
    return max(_libc.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1)), 0)


def landlock_error() -> int:
    """The error number with which the kernel refuses Landlock; 0 if it does not."""
    return 0 if landlock_abi() else ctypes.get_errno()


def restrict_files(readable: Iterable[str], hidden: str | None = None) -> None:
    """Landlock: from here on only files beneath these paths can be opened, and only to be read.

    hidden: a folder of which no file can be read, whatever it lies in. Where the kernel can, TCP,
    signals to and abstract sockets of processes outside go too.
    """
    abi = landlock_abi()
    if abi < 1:
        raise OSError(errno.EOPNOTSUPP, "this kernel has no Landlock")
    fs = (1 << 13) - 1  # everything of version 1, then refer, truncate and ioctl on devices
    fs |= (1 << 13 if abi >= 2 else 0) | (1 << 14 if abi >= 3 else 0) | (1 << 15 if abi >= 5 else 0)
    attributes = struct.pack("=QQQ", fs, 0b11, 0b11)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    rules = _call(444, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    try:
        for path, access in _rules(readable, hidden):
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                access &= _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
                _call(445, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", access, fd)), 0)
            finally:
                os.close(fd)
        _no_new_privileges()
        _call(446, rules, 0)
    finally:
        os.close(rules)


def _rules(readable: Iterable[str], hidden: str | None) -> Iterator[tuple[str, int]]:
    """What to allow.

    A rule holds for all that lies beneath. So folders on the way to what is hidden may be listed
    and no more, and what else they hold has rules of its own.
    """
    for path in readable:
        place = os.path.realpath(path)
        common = os.path.commonpath([place, hidden]) if hidden else None
        if common is None or common not in (place, hidden):
            yield place, _READ_FILE | _READ_DIR
        elif common != hidden:
            yield place, _READ_DIR
            # Links lead to what has a rule itself, or to where nobody has to go.
            beneath = (entry.path for entry in os.scandir(place) if not entry.is_symlink())
            yield from _rules(beneath, hidden)


def python_paths() -> list[str]:
    """What an interpreter has to read to import: its library, and the system's shared objects."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, "/", "/usr"}
    paths = {*sys.path, *(os.path.join(p, lib) for p in prefixes for lib in ("lib", "lib64"))}
    extra = {
        "/usr/share/zoneinfo",
        "/etc/localtime",
        "/etc/ld.so.cache",
        "/dev/null",
        "/dev/urandom",
    }
    return sorted(path for path in paths | extra if path)


# --- namespaces ----------------------------------------------------------------------------------

_NAMESPACES = {
    "user": 0x10000000, "mount": 0x00020000, "pid": 0x20000000, "net": 0x40000000,
    "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip


def enter_namespaces() -> None:
    """Own mount, process, network, IPC, host-name and cgroup namespaces.

    The process namespace begins with the next child. Whoever is not root gets them by way of a user
    namespace. No capability is kept over anything outside.
    """
    if os.geteuid() == 0:
        if _libc.unshare(ctypes.c_int(sum(_NAMESPACES.values()) - _NAMESPACES["user"])) == 0:
            return
        become_nobody()  # a container's root, who may do less than a user
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(ctypes.c_int(sum(_NAMESPACES.values()))) != 0:
        raise OSError(ctypes.get_errno(), "user namespaces are not available")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def drop_capabilities() -> None:
    """Give up every capability, those over the new namespaces included."""
    header = struct.pack("=Ii", 0x20080522, 0)
    number = 126 if platform.machine() == "x86_64" else 91
    _call(number, ctypes.create_string_buffer(header), ctypes.create_string_buffer(24))


def become_nobody() -> None:
    """Root becomes uid 65534, if that user can read Python's library; if not it stays uid 0.

    Uid 0 without capabilities can open what root owns and nothing else, and Landlock comes on top.
    """
    existing = [path for path in sys.path if os.access(path, os.R_OK)]

    def still_readable() -> None:
        _set_ids()
        if not all(os.access(path, os.R_OK) for path in existing):
            raise PermissionError

    if os.geteuid() == 0 and _works(still_readable):
        _set_ids()


def closed_directories() -> dict[str, list[str]]:
    """Directories that not every user may enter, and what Python needs beneath them."""
    closed: dict[str, list[str]] = {}
    for path in dict.fromkeys(map(os.path.realpath, python_paths())):
        parents = [path[:i] for i in range(1, len(path)) if path[i] == "/"]
        if os.path.exists(path):
            wall = next((p for p in parents if not os.stat(p).st_mode & 0o001), None)
            if wall is not None:
                closed.setdefault(wall, []).append(path)
    return closed


def clear_the_way() -> None:
    """For root, in a mount namespace of its own: let every user reach Python's library.

    A Python below /root is out of reach for others. So an empty directory that all may enter is
    mounted over the one that is closed, and in it, at their old places, what Python needs.
    """
    closed = closed_directories()
    if not closed:
        return
    recursive, nosuid_nodev = 1 << 14, 0b110
    private, bind = 1 << 18 | recursive, 1 << 12 | recursive
    _mount("none", "/", None, private)
    for wall, paths in closed.items():
        held = {path: os.open(path, os.O_PATH) for path in paths}
        _mount("tmpfs", wall, "tmpfs", nosuid_nodev, "mode=755,size=1m")
        for path, fd in sorted(held.items()):
            if os.path.exists(path):  # inside one that is there already
                continue
            if os.path.isdir(f"/proc/self/fd/{fd}"):
                os.makedirs(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "x").close()
            _mount(f"/proc/self/fd/{fd}", path, None, bind)
            os.close(fd)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    text = [None if t is None else t.encode() for t in (source, target, kind, data)]
    if _libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _set_ids() -> None:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


# --- limits --------------------------------------------------------------------------------------


def limit(which: int, value: int) -> None:
    """A resource limit that cannot be raised again."""
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def die_with_parent() -> None:
    """The kernel kills this process when the one that started it ends, however it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def not_dumpable() -> None:
    """No core file, and no other process of the same user can look inside."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    limit(resource.RLIMIT_CORE, 0)


# --- what this machine has -----------------------------------------------------------------------


class Kernel(NamedTuple):
    """What works here, found out by doing it in a process of its own."""

    namespaces: bool
    landlock: bool
    seccomp: bool

    @property
    def tier(self) -> str | None:
        """A: all three. B: Landlock and seccomp. None: not enough to run a stranger's code."""
        if not (self.landlock and self.seccomp):
            return None
        return "A" if self.namespaces else "B"


def probe() -> Kernel:
    """Try each layer for real."""
    return Kernel(
        namespaces=_works(enter_namespaces),
        landlock=_works(lambda: restrict_files([])),
        seccomp=platform.machine() in _AUDIT_ARCH and _works(restrict_calls),
    )


def _works(attempt: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _no_new_privileges() -> None:
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


def _call(number: int, *arguments: object) -> int:
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = _libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result
