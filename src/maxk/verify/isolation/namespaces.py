"""Namespaces of the kernel, and what belongs to them: user ids, capabilities, mounts."""

import ctypes
import errno
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


def become_nobody(uid: int | None = None) -> None:
    """Root becomes a user of its own, or PermissionError if that one cannot read Python's library.

    Each jail has another one, so that no two count their tasks together or may signal each other.
    """
    if os.geteuid() != 0:
        return
    uid = own_uid() if uid is None else uid
    existing = [path for path in sys.path if os.path.exists(path)]

    def still_readable() -> None:
        _set_ids(uid)
        if not all(os.access(path, os.R_OK) for path in existing):
            raise PermissionError

    if not succeeds(still_readable):
        raise PermissionError(
            errno.EPERM,
            f"no user but root can read {sys.base_prefix}, and programs are not run as root",
        )
    _set_ids(uid)


def own_uid() -> int:
    """A user that nobody is: from ranges that distributions leave free, where this process may
    take them; else nobody."""
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    for first, count in ((1879048192, 1 << 28), (60706, 477), (65520, 14)):
        uid = first + int.from_bytes(os.urandom(4), "big") % count
        if any(inside <= uid < inside + size for inside, _, size in ranges):
            return uid
    return 65534


def closed_directories(*needed: str) -> dict[str, list[str]]:
    """Directories that not every user may enter, and what is needed beneath them: Python's library,
    unless it is said."""
    closed: dict[str, list[str]] = {}
    for path in dict.fromkeys(map(os.path.realpath, needed or python_paths())):
        parents = [path[:i] for i in range(1, len(path)) if path[i] == "/"]
        if os.path.exists(path):
            wall = next((p for p in parents if not os.stat(p).st_mode & 0o001), None)
            if wall is not None:
                closed.setdefault(wall, []).append(path)
    return closed


def enter_root(readable: list[str], hidden: list[str]) -> None:
    """In a mount namespace of its own: a root that holds these paths, as they were, and no others.

    hidden: folders inside them that are empty there, but for what is readable itself.
    """
    recursive, nosuid_nodev = 1 << 14, 0b110
    private, bind = 1 << 18 | recursive, 1 << 12 | recursive
    base = "/tmp" if os.path.isdir("/tmp") else "/mnt"
    places = sorted({os.path.realpath(path) for path in readable if os.path.exists(path)})
    hidden = [os.path.realpath(path) for path in hidden]
    # Links of the root folder, such as /lib64, and those in the paths themselves.
    links = {p: os.readlink(p) for p in map(_first, readable) if os.path.islink(p)}
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in places}
    folders = {path: os.path.isdir(path) for path in places}
    _mount("none", "/", None, private)
    _mount("tmpfs", base, "tmpfs", nosuid_nodev, "mode=755,size=4m")
    done: list[str] = []

    def inside(path: str, of: list[str]) -> bool:
        return any(path == each or path.startswith(each.rstrip("/") + "/") for each in of)

    def put(path: str) -> None:
        target = base + path
        if not os.path.exists(target):
            if folders[path]:
                os.makedirs(target)
            else:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                open(target, "x").close()
        _mount(f"/proc/self/fd/{held[path]}", target, None, bind)
        done.append(path)

    for path in places:
        if not inside(path, hidden) and not inside(path, done):
            put(path)
    for path in hidden:
        if inside(path, done) and os.path.isdir(base + path):
            _mount("tmpfs", base + path, "tmpfs", nosuid_nodev, "mode=755,size=1m")
    for path in places:
        if inside(path, hidden):
            put(path)
    for path, target in links.items():
        if not os.path.lexists(base + path):
            os.symlink(target, base + path)
    for fd in held.values():
        os.close(fd)
    os.chdir(base)
    number = 155 if platform.machine() == "x86_64" else 41
    here = ctypes.create_string_buffer(b".")
    system_call(number, here, here)  # pivot_root: the old root now lies over the new one
    if libc.umount2(here, 2) != 0:  # and goes, with all that is mounted in it
        raise OSError(ctypes.get_errno(), "the old root could not be left")
    os.chdir("/")


def _first(path: str) -> str:
    """The first folder of a path."""
    return "/" + path.lstrip("/").split("/", 1)[0]


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    text = [None if t is None else t.encode() for t in (source, target, kind, data)]
    if libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _set_ids(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
