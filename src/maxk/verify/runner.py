"""Runs the judged program, in its process. Loaded inside the jail, beside the stranger's code."""

import atexit
import builtins
import contextlib
import gc
import io
import marshal
import os
import sys
import types
import typing

try:
    from . import plain, wire
    from .channel import Channel
except ImportError:  # in the jail there is no package
    import plain  # pyright: ignore[reportMissingImports]
    import wire  # pyright: ignore[reportMissingImports]
    from channel import Channel  # pyright: ignore[reportMissingImports]

IN, OUT = 41, 42  # stdin and stdout once more


class Program:
    """The judge's requests, one at a time.

    C: compile a program. S: run it as a script. F: call one of its functions. G: a step of test
    code, which runs elsewhere.
    """

    def __init__(self, fd: int) -> None:
        self.channel = Channel(fd)
        self.code: types.CodeType = compile("", "<program>", "exec")
        self.names: dict | None = None  # the program's globals, once it has run for calls
        self.objects: list[object] = []  # what test code holds handles of
        self.nodes: dict[str, dict[str, type]] = {}  # classes of nodes, by their source

    def serve(self) -> None:
        while True:
            self.answer(self.channel.request())

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
            elif kind == b"G":
                reply = self.step(*wire.rebuilt(wire.decode(body, True), self.referred))
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
        self.channel.reply(reply)

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
            exec(self.code, fresh())
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
            names = fresh("program")
            exec(self.code, names)
            self.names = names
        return self.names

    def called(self, function: str, args: tuple, named: dict, strict: bool) -> bytes:
        first, *rest = function.replace("()", "").split(".")
        target = self.globals()[first]
        if rest:
            target = target()
        for name in rest:
            target = getattr(target, name)
        value = target(*args, **named)
        return b"=" + (wire.encode(value) if strict else plain.encoded(value))

    def step(self, what: str, *given: typing.Any) -> bytes:
        """One step of test code.

        has: whether the program defines a name. call: its function under test. make: an instance of
        a class of its own. get, set, method: an attribute of such an instance.
        """
        if what == "has":
            return b"=" + wire.encode(callable(self.globals()[given[0]]))
        if what == "set":
            target, name, value = given
            setattr(target, name, value)
            return b"=" + wire.encode(None)
        if what == "get":
            target, name, classes = given
            value = getattr(target, name)
            if callable(value) and not self.is_named(value, classes):
                return b"@"
            return b"=" + plain.encoded(value, self.handed_out(classes))
        target, name, args, named, classes, source, table = given
        function = self.globals()[name] if target is None else getattr(target, name)
        nodes = self.node_classes(source)
        args, named = plain.linked((args, named), table, nodes)
        before = plain.changeable(args, named)
        value = function(*args, **named)
        if what == "make":
            return b"=" + wire.encode([self.handle(value), [], []])
        value, table = plain.unlinked(value, nodes)
        handle = None if what == "call" else self.handed_out(classes)
        return b"=" + plain.encoded([value, table, plain.changed(before, args, named)], handle)

    def node_classes(self, source: str) -> dict[str, type]:
        """Classes of nodes as the data set defines them, on this side of the boundary."""
        if source not in self.nodes:
            names = fresh("nodes")
            exec(compile(source, "<nodes>", "exec"), names)
            self.nodes[source] = plain.classes_of(names)
        return self.nodes[source]

    def referred(self, reference: typing.Any) -> object:
        if type(reference) is wire.Builtin:
            return getattr(builtins, reference.name)
        if type(reference) is wire.Known:
            return plain.known(reference)
        if reference.number >= plain.NODES:
            return reference
        return self.objects[reference.number]

    def is_named(self, value: object, classes: list[str]) -> bool:
        return any(type(value) is self.globals().get(name) for name in classes)

    def handed_out(self, classes: list[str]) -> typing.Callable[[object], typing.Any]:
        """What stands for an instance of the classes that a test names; of others nothing does."""
        return lambda value: self.handle(value) if self.is_named(value, classes) else None

    def handle(self, value: object) -> typing.Any:
        known = (i for i, other in enumerate(self.objects) if other is value)
        number = next(known, len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return wire.Handle(number)


def fresh(name: str = "__main__") -> dict:
    return {"__name__": name, "__builtins__": builtins}


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
