"""Namespaces of the kernel, and what belongs to them: user ids, capabilities, mounts."""

import ctypes
import os
import platform
import struct
import sys

from .calls import libc, succeeds, system_call
from .landlock import python_paths

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
        if libc.unshare(ctypes.c_int(sum(_NAMESPACES.values()) - _NAMESPACES["user"])) == 0:
            return
        become_nobody()  # a container's root, who may do less than a user
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(ctypes.c_int(sum(_NAMESPACES.values()))) != 0:
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
    system_call(number, ctypes.create_string_buffer(header), ctypes.create_string_buffer(24))


def become_nobody() -> None:
    """Root becomes uid 65534, if that user can read Python's library; if not it stays uid 0.

    Uid 0 without capabilities can open what root owns and nothing else, and Landlock comes on top.
    """
    existing = [path for path in sys.path if os.access(path, os.R_OK)]

    def still_readable() -> None:
        _set_ids()
        if not all(os.access(path, os.R_OK) for path in existing):
            raise PermissionError

    if os.geteuid() == 0 and succeeds(still_readable):
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
    if libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _set_ids() -> None:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
