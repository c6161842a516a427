"""Limits of a process: resources, its parent's life, and looks from outside."""

import _signal  # pyright: ignore[reportMissingImports]
import resource
import signal

from .calls import libc

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def limit(which: int, value: int) -> None:
    """A resource limit that cannot be raised again."""
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def die_with_parent() -> None:
    """The kernel kills this process when the one that started it ends, however it ends."""
    libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def not_dumpable() -> None:
    """No core file, and no other process of the same user can look inside."""
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    limit(resource.RLIMIT_CORE, 0)


_TASKS = 16  # threads of a program, its first one included


def few_tasks(others: int) -> None:
    """No more than so many threads, beside the others that the kernel counts with them."""
    limit(resource.RLIMIT_NPROC, _TASKS + others)


def block_signals() -> None:
    """No signal but those that cannot be refused."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def unblock_signals() -> None:
    _signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the public one names all 64 in Python
