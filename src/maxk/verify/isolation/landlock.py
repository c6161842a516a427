"""Landlock: which files a process may open. None may be written."""

import ctypes
import errno
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator

from .calls import libc, no_new_privileges, system_call

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 if it has none or has it switched off."""
    return max(libc.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1)), 0)


def landlock_error() -> int:
    """The error number with which the kernel refuses Landlock; 0 if it does not."""
    return 0 if landlock_abi() else ctypes.get_errno()


def restrict_files(readable: Iterable[str], hidden: Iterable[str] = ()) -> None:
    """Landlock: from here on only files beneath these paths can be opened, and only to be read.

    hidden: folders of which no file can be read, whatever they lie in, but for what is readable
    itself and lies inside them. Where the kernel can, TCP,
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


def _rules(readable: Iterable[str], hidden: Iterable[str]) -> Iterator[tuple[str, int]]:
    """What to allow.

    A rule holds for all that lies beneath. So folders on the way to what is hidden may be listed
    and no more, and what else they hold has rules of its own.
    """
    closed = [os.path.realpath(path) for path in hidden]
    for path in readable:
        place = os.path.realpath(path)
        if any(each.startswith(place.rstrip("/") + "/") for each in closed):
            yield place, _READ_DIR
            # Links lead to what has a rule itself, or to where nobody has to go.
            beneath = [entry.path for entry in os.scandir(place) if not entry.is_symlink()]
            yield from _rules((each for each in beneath if each not in closed), closed)
        elif place not in closed:
            yield place, _READ_FILE | _READ_DIR


def package_folders() -> list[str]:
    """Where packages are installed beside the library, of which programs see what is listed."""
    library = sysconfig.get_path("stdlib")
    folders = [os.path.join(library, name) for name in ("site-packages", "dist-packages")]
    return [folder for folder in folders if os.path.isdir(folder)]


def python_paths() -> list[str]:
    """What an interpreter has to read to import: its library, and the system's shared objects."""
    machine = getattr(sys.implementation, "_multiarch", "")
    paths = {*sys.path, sysconfig.get_path("stdlib")}
    for prefix in {"/", "/usr", sys.base_prefix}:
        own = os.path.join(prefix, "lib", machine) if machine else ""
        paths.add(os.path.join(prefix, "lib64"))
        # Shared objects only, where they have a folder of their own.
        paths.add(own if os.path.isdir(own) else "" if prefix == "/" else _objects(prefix))
    extra = {
        "/usr/share/zoneinfo",
        "/etc/localtime",
        "/etc/ld.so.cache",
        "/dev/null",
        "/dev/urandom",
    }
    return sorted(path for path in paths | extra if path and path != "/")


def _objects(prefix: str) -> str:
    """The folder of shared objects of a prefix, unless its library is all there is."""
    folder = os.path.join(prefix, "lib")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return folder if any(".so" in name for name in names) else ""
