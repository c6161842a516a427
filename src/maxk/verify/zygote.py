"""The process inside the jail that forks one child per program. Run as a script, never imported.

    python -s -P zygote.py CONTROL_FD TIER BYTES_OF_MEMORY BYTES_OF_OUTPUT

TIER is A (all layers), B (no namespaces) or U (unsafe: limits alone). The zygote loads what
programs commonly import, once, and then only forks and kills: it never sees a program or an input.
The judge speaks with each child over a socket of its own, which it sends here together with the
child's stdin and stdout, two files in memory that the judge fills and reads. The messages are in
protocol.py. A job's number is never used twice, so a late kill cannot hit the next program.
"""

import array
import atexit
import builtins
import collections
import contextlib
import gc
import importlib
import io
import marshal
import os
import resource
import signal
import socket
import sys
import types
import typing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # pyright: ignore[reportMissingImports]
from isolation import landlock, limits, namespaces, seccomp  # pyright: ignore
from protocol import EXIT, KILL, MESSAGE, RUN  # pyright: ignore[reportMissingImports]

del sys.path[0]

COMMON = """
abc array bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum
fractions functools hashlib heapq itertools json math numbers operator queue random re
statistics string struct textwrap threading typing unicodedata
"""

CHANNEL, IN, OUT = 40, 41, 42  # descriptors of a child: the judge, and stdin and stdout once more


def main() -> None:
    given = int(sys.argv[1])
    control = socket.socket(fileno=os.dup(given))  # a low number, whatever the judge's was
    os.close(given)
    tier = sys.argv[2]
    memory, output = map(int, sys.argv[3:])
    # What threading and random do after a fork is for processes that have threads, or want other
    # random numbers than their parent, and would take a tenth of a program's time. Without it, and
    # from one seed, a program that draws random numbers draws the same ones wherever it is judged.
    register, os.register_at_fork = os.register_at_fork, lambda **_: None
    for name in COMMON.split():
        importlib.import_module(name)
    os.register_at_fork = register
    importlib.import_module("random").seed(0)
    os.chdir("/")
    if tier == "A":
        namespaces.enter_namespaces()
        init = os.fork()  # the first child is process 1 of the new namespace
        if init:
            control.close()
            os.waitpid(init, 0)
            return
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):
                namespaces.clear_the_way()
    namespaces.become_nobody()
    if tier == "A":  # after the change of user, which undoes it; B sees the end of the channel
        limits.die_with_parent()
    namespaces.drop_capabilities()
    limits.not_dumpable()
    # What all children need alike is done once, here, and inherited.
    with open("/proc/self/statm") as file:
        own_memory = int(file.read().split()[0]) * resource.getpagesize()
    if tier in "AB":
        # Neither how programs are judged nor the problems that come with maxk, answers included.
        package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        landlock.restrict_files(landlock.python_paths(), hidden=package)
        seccomp.call_filter()
    limits.limit(resource.RLIMIT_AS, own_memory + memory)
    limits.limit(resource.RLIMIT_FSIZE, output)
    limits.limit(resource.RLIMIT_NOFILE, 64)
    rehearse()
    gc.collect()
    gc.freeze()
    serve_judge(control, locked=tier in "AB")


def rehearse() -> None:
    """Use what every child will use, so that it finds it warm: parser, interpreter, encoder."""
    judge, ours = socket.socketpair()
    program = Program(ours.fileno())
    call = marshal.dumps(("f", ([1],), {}))
    for _ in range(20):
        for request in (b"C" + b"class A: pass\ndef f(x): return [x, 'a', 1.5]", b"F" + call):
            judge.send(frame(request))
            program.answer(program.request())
            judge.recv(1000)
        program.names = None
    sys.stdin, sys.stdout = sys.__stdin__, sys.__stdout__


def serve_judge(control: socket.socket, locked: bool) -> None:
    """Fork and kill as the judge says, until it is gone; then take all children along."""
    jobs: dict[int, int] = {}  # job -> process
    control.send(MESSAGE.pack(RUN, 0, 0, 0))  # ready
    while True:
        data, ancillary, _, _ = control.recvmsg(256, socket.CMSG_SPACE(3 * 4))
        if not data:
            break
        kind, job, cpu_seconds, _ = MESSAGE.unpack(data)
        if kind == RUN:
            fds = array.array("i")
            fds.frombytes(ancillary[0][2])
            pid = os.fork()
            if pid == 0:
                become_program(list(fds), cpu_seconds, locked)
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


def become_program(fds: list[int], cpu_seconds: int, locked: bool) -> None:
    """Close, limit, lock in; then serve the judge. Does not return."""
    try:
        limits.die_with_parent()
        channel, stdin, stdout = fds
        null = 1  # the zygote's stdout; none of its descriptors reaches 40
        for fd, place in (null, 2), (stdin, 0), (stdout, 1), (stdin, IN), (stdout, OUT):
            os.dup2(fd, place)
        os.dup2(channel, CHANNEL)
        os.closerange(3, CHANNEL)
        os.closerange(OUT + 1, 1 << 20)
        limits.limit(resource.RLIMIT_CPU, cpu_seconds)
        if locked:
            seccomp.restrict_calls()
        os.write(CHANNEL, frame(b"R"))  # ready; and so the judge learns the process's number
    except BaseException as error:
        os.write(CHANNEL, frame(b"!" + repr(error).encode()))
        os._exit(70)
    try:
        atexit._clear()
        Program(CHANNEL).serve()
    except BaseException:
        os._exit(71)
    os._exit(0)


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Program:
    """The judge's requests, one at a time.

    C: compile a program. S: run it as a script. F: call one of its functions. A: run test code, in
    which names that are not Python's own belong to the program in another process; G: what that
    test code asks of it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.code: types.CodeType = compile("", "<program>", "exec")
        self.names: dict | None = None  # the program's globals, once it has run for calls
        self.objects: list[object] = []  # what test code holds handles of

    def serve(self) -> None:
        while True:
            self.answer(self.request())

    def request(self) -> bytes:
        """The next thing the judge says; the end, once it says no more."""
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            part = os.read(self.fd, 1 << 20)
            if not part:
                os._exit(0)
            data += part
        return data[4:]

    def answer(self, request: bytes) -> None:
        try:
            kind, body = request[:1], request[1:]
            if kind == b"C":
                self.code = compile(body.decode("utf-8", "surrogatepass"), "<program>", "exec")
                reply = b"."
            elif kind == b"S":
                reply = b"." if self.rewind() else b"U"  # U: an earlier test closed what this needs
                if reply == b".":
                    self.run_main()
            elif kind == b"A":
                text, function = wire.decode(body)
                sys.modules["random"].seed(0)  # whatever the tests before it have drawn
                exec(compile(text, "<program>", "exec"), Names(self, function))
                reply = b"."
            elif kind == b"G":
                step = wire.rebuilt(wire.decode(body), self.referred)
                reply = b"=" + self.handed_out(self.asked(*step))
            else:
                reply = self.called(*marshal.loads(body))
        except MemoryError:
            reply = b"M"
        except wire.NotPlainError as error:
            reply = b"W" + str(error).encode()
        except BaseException as error:
            reply = b"E" + reason(error).encode("utf-8", "replace")
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        self.write(reply)

    def write(self, reply: bytes) -> None:
        data = frame(reply)
        while data:
            data = data[os.write(self.fd, data) :]

    def ask(self, question: bytes) -> bytes:
        """A question of the judge in the middle of a request."""
        self.write(question)
        return self.request()

    def rewind(self) -> bool:
        try:
            for fd, place in ((IN, 0), (OUT, 1)):
                os.dup2(fd, place)
                os.lseek(place, 0, os.SEEK_SET)
        except OSError:
            return False
        return True

    def run_main(self) -> None:
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        out = sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.argv = ["program.py"]
        try:
            exec(self.code, self.fresh())
        except SystemExit:
            pass
        finally:
            # What a script still prints as its interpreter ends: from exit functions, from stdout's
            # buffer, and from buffers of its own that write when they are collected.
            atexit._run_exitfuncs()
            for stream in (sys.stdout, out):
                if not stream.closed:
                    stream.flush()
            gc.collect()

    def globals(self) -> dict:
        """The program's names, after running it once, as a module is imported."""
        if self.names is None:
            sys.stdin = io.StringIO()
            sys.stdout = io.StringIO()
            names = self.fresh("program")
            exec(self.code, names)
            self.names = names
        return self.names

    def called(self, function: str, args: tuple, named: dict) -> bytes:
        first, *rest = function.replace("()", "").split(".")
        target = self.globals()[first]
        if rest:
            target = target()
        for name in rest:
            target = getattr(target, name)
        return b"=" + wire.encode(target(*args, **named))

    def asked(self, what: str, target: typing.Any, *more: typing.Any) -> object:
        """One step of test code: a name, an attribute, or a call."""
        if what == "name":
            return self.globals()[target]
        if what == "get":
            return getattr(target, *more)
        if what == "set":
            return setattr(target, *more)
        args, named = more
        return target(*args, **named)

    def referred(self, reference: typing.Any) -> object:
        if type(reference) is wire.Builtin:
            return getattr(builtins, reference.name)
        return self.objects[reference.number]

    def handed_out(self, value: typing.Any) -> bytes:
        """Plain values as they are, the library's kinds of dict as dicts, all else as a handle."""
        if type(value) in (collections.Counter, collections.defaultdict, collections.OrderedDict):
            value = dict(value)
        try:
            return wire.encode(value)
        except wire.NotPlainError:
            known = (i for i, other in enumerate(self.objects) if other is value)
            number = next(known, len(self.objects))
            if number == len(self.objects):
                self.objects.append(value)
            return wire.encode(wire.Handle(number))

    @staticmethod
    def fresh(name: str = "__main__") -> dict:
        return {"__name__": name, "__builtins__": builtins}


class Names(dict):
    """Globals of test code: its own, Python's, then those of the judged program."""

    def __init__(self, program: Program, function: str | None) -> None:
        super().__init__(__name__="tests", __builtins__=builtins)
        self.program, self.function = program, function

    def __missing__(self, name: str) -> object:
        if hasattr(builtins, name) and name != self.function:
            return getattr(builtins, name)
        self[name] = value = self.ask("name", name)
        return value

    def ask(self, *request: object) -> object:
        reply = self.program.ask(b"?" + wire.encode(handles(request)))
        if reply[:1] == b"=":
            return wire.rebuilt(wire.decode(reply[1:]), self.referred)
        name = reply[1:].decode().split(" ")[0]
        kind = getattr(builtins, name, RuntimeError)
        # StopIteration would end a loop of the test early, as if all had been well.
        proper = isinstance(kind, type) and issubclass(kind, Exception)
        if not proper or issubclass(kind, StopIteration | StopAsyncIteration):
            kind = RuntimeError
        raise kind(name)

    def referred(self, reference: typing.Any) -> object:
        """Objects of the program, but no names: those of Python are the test's own."""
        if type(reference) is wire.Handle:
            return Remote(self, reference)
        return wire.refused(reference)


class Remote:
    """An object in the process of the judged program. Two are equal if they are the same one."""

    def __init__(self, names: Names, handle: tuple) -> None:
        vars(self).update(_ask=names.ask, _handle=handle)

    def __call__(self, *args: object, **named: object) -> object:
        return vars(self)["_ask"]("call", self, args, named)

    def __getattr__(self, name: str) -> object:
        return vars(self)["_ask"]("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        vars(self)["_ask"]("set", self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Remote and vars(self)["_handle"] == vars(other)["_handle"]

    def __hash__(self) -> int:
        return hash(vars(self)["_handle"])


def handles(value: typing.Any) -> typing.Any:
    """The value with every remote object replaced by its handle."""
    if type(value) is Remote:
        return vars(value)["_handle"]
    if type(value) in (type, types.BuiltinFunctionType) and value.__module__ == "builtins":
        return wire.Builtin(value.__name__)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(handles, value))
    if type(value) is dict:
        return {handles(key): handles(item) for key, item in value.items()}
    return value


def reason(error: BaseException) -> str:
    """Exception type and the line of the program, nothing of what is around it."""
    if isinstance(error, SyntaxError) and error.filename == "<program>":
        return f"{type(error).__name__} at line {error.lineno}"
    line, step = None, error.__traceback__
    while step is not None:  # the module traceback would look for the sources
        if step.tb_frame.f_code.co_filename == "<program>":
            line = step.tb_lineno
        step = step.tb_next
    return type(error).__name__ if line is None else f"{type(error).__name__} at line {line}"


if __name__ == "__main__":
    main()
