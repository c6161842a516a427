"""The process inside the jail that forks one child per program. Run as a script, never imported.

    python -s -S -P zygote.py CONTROL_FD TIER BYTES_OF_MEMORY BYTES_OF_OUTPUT ROLE PACKAGE...

TIER is A (all layers), B (no namespaces) or U (unsafe: limits alone). ROLE is programs, or tests
for the code of tests. PACKAGE is the path of one that can be imported. The zygote loads what
programs commonly import, once, and then only forks and kills: it never sees a program or an input.
The judge speaks with each child over a socket of its own, which it sends here together with the
child's stdin and stdout, two files in memory that the judge fills and reads, and its stderr. The
messages are in protocol.py. A job's number is never used twice, so a late kill cannot hit the next
program.
"""

import array
import atexit
import contextlib
import gc
import importlib
import importlib.util
import marshal
import os
import resource
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # pyright: ignore[reportMissingImports]
from channel import frame  # pyright: ignore[reportMissingImports]
from isolation import landlock, limits, namespaces, seccomp  # pyright: ignore
from protocol import EXIT, KILL, MESSAGE, RUN  # pyright: ignore[reportMissingImports]
from runner import IN, OUT, Program  # pyright: ignore[reportMissingImports]
from tester import Tester  # pyright: ignore[reportMissingImports]

# Their names are free for the program's own imports.
for _name in ("wire", "channel", "protocol", "runner", "tester", "plain", "isolation"):
    del sys.modules[_name]
del sys.path[0]

COMMON = """
abc array bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum
fractions functools hashlib heapq itertools json math numbers operator queue random re
statistics string struct textwrap threading typing unicodedata
"""

CHANNEL = 40  # the descriptor of a child for its channel to the judge


def main() -> None:
    given = int(sys.argv[1])
    control = socket.socket(fileno=os.dup(given))  # a low number, whatever the judge's was
    os.close(given)
    tier = sys.argv[2]
    memory, output = map(int, sys.argv[3:5])
    role, packages = sys.argv[5], sys.argv[6:]
    sys.argv[1:] = []
    # What threading and random do after a fork is for processes that have threads, or want other
    # random numbers than their parent, and would take a tenth of a program's time. Without it, and
    # from one seed, a program that draws random numbers draws the same ones wherever it is judged.
    register, os.register_at_fork = os.register_at_fork, lambda **_: None
    for name in COMMON.split():
        importlib.import_module(name)
    os.register_at_fork = register
    importlib.import_module("random").seed(0)
    site = importlib.import_module("site")  # not run: exit() and help() are all that is wanted
    site.setquit()
    site.sethelper()
    # Neither how programs are judged nor the problems that come with maxk, answers included; and
    # of what is installed no more than is listed.
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    readable, hidden = landlock.python_paths(), [package, *landlock.package_folders()]
    sys.meta_path.append(Packages(packages))  # pyright: ignore[reportArgumentType]
    own_memory, uid = memory_in_use(), namespaces.own_uid()
    others = others_counted(tier, uid)
    oom = Sacrifice()
    os.chdir("/")
    if tier == "A":
        namespaces.enter_namespaces()
        init = os.fork()  # the first child is process 1 of the new namespace
        if init:
            control.close()
            os.waitpid(init, 0)
            return
        oom = Sacrifice()
        namespaces.enter_root([*readable, *packages], hidden)
    namespaces.become_nobody(uid)
    if tier == "A":  # after the change of user, which undoes it; B sees the end of the channel
        limits.die_with_parent()
    namespaces.drop_capabilities()
    limits.not_dumpable()
    limits.block_signals()
    # What all children need alike is done once, here, and inherited.
    if tier in "AB":
        landlock.restrict_files([*readable, *packages], hidden)
        seccomp.call_filter()
    limits.limit(resource.RLIMIT_AS, own_memory + memory)
    limits.limit(resource.RLIMIT_FSIZE, output)
    limits.limit(resource.RLIMIT_NOFILE, 64)
    runner = Tester if role == "tests" else Program
    rehearse(runner)
    gc.collect()
    gc.freeze()
    serve_judge(control, runner, oom, tier, others)


class Packages:
    """Finds the packages that may be imported, and no others that lie beside them."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = {os.path.basename(path).removesuffix(".py"): path for path in paths}

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        place = self.paths.get(name)
        if place is None:
            return None
        spec = importlib.util.spec_from_file_location
        if place.endswith(".py"):
            return spec(name, place)
        start = os.path.join(place, "__init__.py")
        return spec(name, start, submodule_search_locations=[place])


class Sacrifice:
    """Has the kernel end children first, should the memory of the machine run out."""

    def __init__(self) -> None:
        try:
            # Opened before files are out of reach; the file is this process's own for ever.
            self.fd = os.open("/proc/self/oom_score_adj", os.O_RDWR)
            self.own = os.read(self.fd, 20)
        except OSError:
            self.fd = -1

    def set(self, child: bool) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.pwrite(self.fd, b"1000" if child else self.own, 0)


def others_counted(tier: str, uid: int) -> int | None:
    """How many tasks beside a program's own the kernel counts with them; None if it counts more
    than this jail's.

    It counts by user and user namespace. Of root's jails each has a user of its own, and one
    process of that, the zygote. Of an ordinary user's each has a namespace, and in it the process
    that waits for the zygote too. Without namespaces there is no such count.
    """
    if os.geteuid() == 0:
        return None if uid == 65534 else 1
    return 2 if tier == "A" else None


def memory_in_use() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def rehearse(runner: type) -> None:
    """Use what every child will use, so that it finds it warm: parser, interpreter, encoder."""
    judge, ours = socket.socketpair()
    running = runner(ours.fileno())
    call = marshal.dumps(("f", ([1],), {}, True))
    compiled = b"C" + b"class A: pass\ndef f(x): return [x, 'a', 1.5]"
    code = wire.encode(("assert [1, 'a'] == [1, 'a']", None, [], "", b"seed"))
    requests = (b"A" + code,) if runner is Tester else (compiled, b"F" + call)
    for _ in range(20):
        for request in requests:
            judge.send(frame(request))
            running.answer(running.channel.request())
            judge.recv(1000)
        running.names = None
    sys.stdin, sys.stdout = sys.__stdin__, sys.__stdout__


def serve_judge(
    control: socket.socket, runner: type, oom: Sacrifice, tier: str, others: int | None
) -> None:
    """Fork and kill as the judge says, until it is gone; then take all children along."""
    jobs: dict[int, int] = {}  # job -> process
    control.send(MESSAGE.pack(RUN, 0, 0, 0))  # ready
    while True:
        data, ancillary, _, _ = control.recvmsg(256, socket.CMSG_SPACE(4 * 4))
        if not data:
            break
        kind, job, cpu_seconds, _ = MESSAGE.unpack(data)
        if kind == RUN:
            fds = array.array("i")
            fds.frombytes(ancillary[0][2])
            oom.set(child=True)
            pid = os.fork()
            if pid == 0:
                become_child(list(fds), cpu_seconds, runner, tier, others)
            oom.set(child=False)
            jobs[job] = pid
            for fd in fds:
                os.close(fd)
        elif kind == KILL:  # or bury, if it is dead already
            pid = jobs.pop(job)
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            nanoseconds = int((usage.ru_utime + usage.ru_stime) * 1e9)
            control.send(MESSAGE.pack(EXIT, job, status, nanoseconds))
    for pid in jobs.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# --- from here on, the child: everything below runs beside the stranger's code ------------------


def become_child(
    fds: list[int], cpu_seconds: int, runner: type, tier: str, others: int | None
) -> None:
    """Close, limit, lock in; then serve the judge. Does not return."""
    try:
        limits.die_with_parent()
        channel, stdin, stdout, null = fds  # none of the zygote's descriptors reaches 40
        for fd, place in (null, 2), (stdin, 0), (stdout, 1), (stdin, IN), (stdout, OUT):
            os.dup2(fd, place)
        os.dup2(channel, CHANNEL)
        os.closerange(3, CHANNEL)
        os.closerange(OUT + 1, 1 << 20)
        limits.limit(resource.RLIMIT_CPU, cpu_seconds)
        if others is not None:
            limits.few_tasks(others)
        limits.unblock_signals()
        if tier in "AB":
            seccomp.restrict_calls()
        os.write(CHANNEL, frame(b"R"))  # ready; and so the judge learns the process's number
    except BaseException as error:
        os.write(CHANNEL, frame(b"!" + repr(error).encode()))
        os._exit(70)
    try:
        atexit._clear()
        runner(CHANNEL).serve()
    except BaseException:
        os._exit(71)
    os._exit(0)


if __name__ == "__main__":
    main()
