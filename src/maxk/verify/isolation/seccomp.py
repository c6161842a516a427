"""Seccomp: which system calls exist for a process, by number and by argument."""

import ctypes
import errno
import functools
import os
import platform
import struct
from typing import Any

from .calls import no_new_privileges, system_call

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# System calls that a program needs to compute, read and print.
# name: (x86-64, aarch64); None where the architecture does not have it
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # descriptors that are open already, and files that Landlock lets it open
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "pwrite64": (18, 68), "lseek": (8, 62), "close": (3, 57),
    "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None),
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
_IOCTL = [0x5401, 0x5451, 0x5450]  # TCGETS, FIOCLEX, FIONCLEX
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: no owner, signal, lease, seal or lock.
_FCNTL = [0, 1, 2, 3, 1030]
_CLONE = [0x3D0F00, 0x7D0F00]  # a thread, exactly as glibc and musl make it


_Step = tuple[int, int, int, int]  # operation, jump if true, jump if false, value
_LOAD, _EQUAL, _FROM, _ANSWER = 0x20, 0x15, 0x35, 0x06
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

    def argument_is(index: int, values: list[int]) -> list[_Step]:
        """Allow if the low half of an argument is one of the values; refuse otherwise."""
        tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
        return [(_LOAD, 0, 0, 16 + 8 * index), *tests, (_ANSWER, 0, 0, _REFUSE), _YES]

    numbers = {n for call in _CALLS.values() if (n := call[column]) is not None}
    edges = sorted(numbers | {n + 1 for n in numbers})
    answers = [(n, _ALLOW if n in numbers else _REFUSE) for n in edges]
    answers = [a for a, b in zip(answers, [(0, 0), *answers], strict=False) if a[1] != b[1]]
    code: list[_Step] = [
        (_LOAD, 0, 0, 4),  # architecture: a 32-bit call has other numbers
        (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (_ANSWER, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # number of the call
        (_FROM, 0, 1, 0x40000000),  # x32 calls carry this bit
        (_ANSWER, 0, 0, _KILL),
        *when((234, 131), *argument_is(0, [0])),  # tgkill: abort() and raise() reach itself alone
        *when((435, 435), (_ANSWER, 0, 0, _MISSING)),  # clone3 hides its flags; glibc takes clone
        *when((56, 220), *argument_is(0, _CLONE)),  # clone: no processes
        *when((16, 29), *argument_is(1, _IOCTL)),
        *when((72, 25), *argument_is(1, _FCNTL)),
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
    no_new_privileges()
    # All threads of the process, should there be more than this one (SECCOMP_FILTER_FLAG_TSYNC).
    system_call(317 if platform.machine() == "x86_64" else 277, 1, 1, header)
