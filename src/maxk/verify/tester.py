"""Runs the code of a test, in a jail of its own. What it asks of the program goes by the judge.

The program provides a function and classes, and nothing else. What its function returns arrives
as a plain value, or the test fails. An instance of one of its classes is a `Remote`: it has
attributes and methods, and no truth, order, length or text; it is equal to itself and cannot be
compared with anything else. Whatever breaks these rules ends the test, though its code may catch
it.
"""

import builtins
import contextlib
import sys
import types
import typing

try:
    from . import plain, wire
    from .channel import Channel
    from .runner import reason
except ImportError:  # in the jail there is no package
    import plain  # pyright: ignore[reportMissingImports]
    import wire  # pyright: ignore[reportMissingImports]
    from channel import Channel  # pyright: ignore[reportMissingImports]
    from runner import reason  # pyright: ignore[reportMissingImports]


class RefusedError(BaseException):
    """The code asked what a stranger's object must not answer."""


class Tester:
    """The judge's requests, one at a time. A: run the code of a test."""

    def __init__(self, fd: int) -> None:
        self.channel = Channel(fd)

    def serve(self) -> None:
        while True:
            self.answer(self.channel.request())

    def answer(self, request: bytes) -> None:
        test = None
        try:
            code, function, classes, nodes, seed = wire.rebuilt(wire.decode(request[1:]))
            sys.modules["random"].seed(seed)
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(int.from_bytes(seed[:4], "big"))
            test = Names(self.channel, function, classes, nodes)
            exec(compile(code, "<program>", "exec"), test)
            reply = b"."
        except MemoryError:
            reply = b"M"
        except BaseException as error:
            reply = b"E" + reason(error).encode("utf-8", "replace")
        if test is not None and test.refused:
            reply = b"E" + test.refused.encode("utf-8", "replace")
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        self.channel.reply(reply)


class Names(dict):
    """Globals of test code: its own, what the program is declared to provide, Python's."""

    def __init__(
        self, channel: Channel, function: str | None, classes: list[str], nodes: str
    ) -> None:
        own = dict(vars(builtins))
        own.update(callable=self.whether_callable, isinstance=self.whether_instance)
        super().__init__(__name__="tests", __builtins__=own)
        self.channel, self.function, self.classes, self.source = channel, function, classes, nodes
        self.refused = ""
        if nodes:
            exec(compile(nodes, "<nodes>", "exec"), self)
        self.nodes = plain.classes_of(self)

    def __missing__(self, name: str) -> object:
        if name != self.function and name not in self.classes:
            raise KeyError(name)  # Python's own, or none
        if self.step("has", name) is not True:
            self.refuse(f"{name} is no function of the program")
        kind = RemoteFunction if name == self.function else RemoteClass
        self[name] = value = kind(self, name)
        return value

    def refuse(self, why: str) -> typing.NoReturn:
        self.refused = self.refused or why
        raise RefusedError(why)

    def whether_callable(self, value: object) -> bool:
        if isinstance(value, Stranger):
            self.refuse("callable() of what is the program's")
        return callable(value)

    def whether_instance(self, value: object, kinds: typing.Any) -> bool:
        if isinstance(value, Stranger) or isinstance(kinds, Stranger):
            self.refuse("isinstance() of what is the program's")
        return isinstance(value, kinds)

    def step(self, *request: object) -> typing.Any:
        """One step on the other side: the plain value that comes back, or the exception there."""
        try:
            asked = plain.encoded(handles(request))
        except wire.NotPlainError as error:
            self.refuse(f"{error} that a program could be given")
        reply = self.channel.ask(b"?" + asked)
        if reply == b"@":
            return NotImplemented
        if reply[:1] != b"=":
            raise proper(reply[1:].decode(errors="replace").split(" ")[0])
        try:
            return wire.rebuilt(wire.decode(reply[1:], True), self.referred)
        except Exception as error:
            self.refuse(f"a reply that is no plain value: {error}")

    def call(self, what: str, target: object, name: str, args: tuple, named: dict) -> object:
        flat, table = plain.unlinked((args, named), self.nodes)
        value = self.step(what, target, name, *flat, self.classes, self.source, table)
        if type(value) is not list or len(value) != 3:
            self.refuse("a reply of another form")
        result, table, changes = value
        if what == "make" and not isinstance(result, Remote):
            self.refuse(f"{name} made no object")
        if what == "call" and holds_remote(result):
            self.refuse("the function returned an object")
        try:
            for key, new in changes:
                plain.change(args[key] if type(key) is int else named[key], new)
            return plain.linked(result, table, self.nodes) if table else result
        except Exception as error:
            self.refuse(f"a reply of another form: {error}")

    def referred(self, reference: typing.Any) -> object:
        """Objects of the program, but no names: those of Python are the test's own."""
        if type(reference) is wire.Known:
            return plain.known(reference)
        if type(reference) is wire.Handle:
            if reference.number >= plain.NODES:
                return reference
            return Remote(self, reference)
        return wire.refused(reference)


def proper(name: str) -> Exception:
    """The exception that was raised on the other side, if it is an ordinary one."""
    kind = getattr(builtins, name, RuntimeError)
    # StopIteration would end a loop of the test early, as if all had been well.
    fine = isinstance(kind, type) and issubclass(kind, Exception)
    if not fine or issubclass(kind, StopIteration | StopAsyncIteration | UnicodeError):
        kind = RuntimeError
    return kind(name)


def _refusing(what: str) -> typing.Callable[..., typing.NoReturn]:
    def method(self: typing.Any, *_: object, **__: object) -> typing.NoReturn:
        names: Names = object.__getattribute__(self, "_names")
        names.refuse(f"{what} of what is the program's")

    return method


class Stranger:
    """Something of the program's. It answers no question about itself."""

    __slots__ = ("_names",)
    _names: Names

    __hash__ = None  # type: ignore[assignment]


for _name in (
    *("bool", "len", "iter", "next", "contains", "getitem", "setitem", "delitem", "reversed"),
    *("lt", "le", "gt", "ge", "eq", "ne", "hash", "repr", "str", "format", "bytes", "index"),
    *("int", "float", "complex", "round", "trunc", "floor", "ceil", "neg", "pos", "abs", "invert"),
    *(f"{side}{op}" for side in ("", "r", "i") for op in (
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift",
        "rshift", "and", "xor", "or")),
    *("enter", "exit", "call", "await", "aiter", "anext", "dir", "reduce", "reduce_ex", "copy"),
    *("deepcopy", "length_hint", "sizeof", "fspath", "delattr", "instancecheck", "subclasscheck"),
    *("mro_entries", "buffer", "set_name", "get", "getstate"),
):  # fmt: skip
    setattr(Stranger, f"__{_name}__", _refusing(f"__{_name}__"))


class RemoteFunction(Stranger):
    """The function under test. What it returns is a plain value."""

    __slots__ = ("_name",)

    def __init__(self, names: Names, name: str) -> None:
        self._names, self._name = names, name

    def __call__(self, *args: object, **named: object) -> object:
        return self._names.call("call", None, self._name, args, named)


class RemoteClass(Stranger):
    """A class of the program that the test names; called, it makes a `Remote`."""

    __slots__ = ("_name",)

    def __init__(self, names: Names, name: str) -> None:
        self._names, self._name = names, name

    def __call__(self, *args: object, **named: object) -> object:
        return self._names.call("make", None, self._name, args, named)


class RemoteMethod(Stranger):
    """A method of an object of the program."""

    __slots__ = ("_name", "_owner")

    def __init__(self, names: Names, owner: "Remote", name: str) -> None:
        self._names, self._owner, self._name = names, owner, name

    def __call__(self, *args: object, **named: object) -> object:
        return self._names.call("method", self._owner, self._name, args, named)


class Remote(Stranger):
    """An instance in the process of the judged program."""

    __slots__ = ("_handle",)

    def __init__(self, names: Names, handle: object) -> None:
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_handle", handle)

    def __getattr__(self, name: str) -> object:
        if name[:2] == name[-2:] == "__":
            self._names.refuse(f"{name} of what is the program's")
        value = self._names.step("get", self, name, self._names.classes)
        return RemoteMethod(self._names, self, name) if value is NotImplemented else value

    def __setattr__(self, name: str, value: object) -> None:
        self._names.step("set", self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Remote:
            self._names.refuse("equality of what is the program's with what is not")
        return self._handle == other._handle

    def __ne__(self, other: object) -> bool:
        return not self == other


def handles(value: typing.Any) -> typing.Any:
    """The value with every remote object replaced by its handle."""
    if type(value) is Remote:
        return value._handle
    if type(value) in (type, types.BuiltinFunctionType) and value.__module__ == "builtins":
        return wire.Builtin(value.__name__)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)([handles(item) for item in value])
    if type(value) is dict:
        return {handles(key): handles(item) for key, item in value.items()}
    return value


def holds_remote(value: typing.Any) -> bool:
    if type(value) is dict:
        return any(holds_remote(k) or holds_remote(v) for k, v in value.items())
    if type(value) in (list, tuple, set, frozenset):
        return any(map(holds_remote, value))
    return isinstance(value, Stranger)
