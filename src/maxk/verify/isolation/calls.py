"""System calls through the C library, and attempts in a process of their own."""

import ctypes
import os
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

_PR_SET_NO_NEW_PRIVS = 38


def system_call(number: int, *arguments: object) -> int:
    """Make a system call by its number. OSError if the kernel refuses it."""
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result


def no_new_privileges() -> None:
    """No program started from here on gains rights; Landlock and seccomp ask for this."""
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


def succeeds(attempt: Callable[[], None]) -> bool:
    """Whether the attempt works. A child process makes it, so that nothing changes in this one."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
