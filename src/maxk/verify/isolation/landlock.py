"""Landlock: which files a process may open. None may be written."""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable, Iterator

from .calls import libc, no_new_privileges, system_call

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 if it has none or has it switched off."""
    return max(libc.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1)), 0)


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
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    rules = system_call(444, buffer, len(attributes), 0)
    try:
        for path, access in _rules(readable, hidden):
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                access &= _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
                rule = ctypes.create_string_buffer(struct.pack("=Qi", access, fd))
                system_call(445, rules, 1, rule, 0)
            finally:
                os.close(fd)
        no_new_privileges()
        system_call(446, rules, 0)
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
