"""What can leave a process: plain values, and nodes of lists and trees as tables of them.

Loaded inside the jail on both sides. A subclass of a plain type is reduced by the base type's own
methods, so that what its author wrote has no say.
"""

import collections
import datetime
import decimal
import fractions
import itertools
import re
import sys
import types
import typing

try:
    from . import wire
except ImportError:  # in the jail there is no package
    import wire  # pyright: ignore[reportMissingImports]

NODES = 2**32  # handles from here on stand for nodes, by their place in a table
_MOST = 10**6  # values that an iterator may give
_LARGE = 10**308  # as large as floats get
_MOST_NODES = 10**5
_ITERATORS = (
    types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice,
    itertools.permutations, itertools.combinations, itertools.product, itertools.count,
    *(type(iter(x)) for x in ([], (), "", set(), {}, {}.values(), {}.items(), range(0), b"")),
    type(reversed([])), type({}.keys()), type({}.values()), type({}.items()),
)  # fmt: skip
_KNOWN: dict[str, typing.Callable[..., typing.Any]] = {
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
    "deque": collections.deque,
    "range": range,
    "bytearray": bytearray,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "timedelta": datetime.timedelta,
    "Match": lambda text, start, end: types.SimpleNamespace(text=text, span=(start, end)),
}
_PARTS: dict[type, typing.Callable[[typing.Any], list]] = {
    decimal.Decimal: lambda x: [str(x)],
    fractions.Fraction: lambda x: [x.numerator, x.denominator],
    collections.deque: lambda x: [list(x)],
    range: lambda x: [x.start, x.stop, x.step],
    bytearray: lambda x: [bytes(x)],
    datetime.date: lambda x: [x.year, x.month, x.day],
    datetime.datetime: lambda x: [*x.timetuple()[:6], x.microsecond],
    datetime.timedelta: lambda x: [x.days, x.seconds, x.microseconds],
    re.Match: lambda x: [x[0], x.start(), x.end()],
}  # fmt: skip
Handles = typing.Callable[[object], typing.Any]


def encoded(value: object, handle: Handles | None = None) -> bytes:
    """The value on the wire; NotPlainError if it is none.

    handle: what stands for an object that stays here, or None if nothing does.
    """
    try:
        return wire.encode(value)
    except wire.NotPlainError:
        return wire.encode(reduced(value, handle))


def reduced(value: typing.Any, handle: Handles | None = None, depth: int = 0) -> typing.Any:
    """The value with subclasses of plain types made plain."""
    if depth > wire.MAX_DEPTH:
        raise wire.NotPlainError(f"nested more than {wire.MAX_DEPTH} deep")
    kind = type(value)
    if kind in (wire.Handle, wire.Builtin, wire.Iterated, wire.Known):
        return value
    if kind in (decimal.Decimal, fractions.Fraction) and value == value and abs(value) < _LARGE:
        # An int or a float that it is equal to says the same to ==, and everyone can read it.
        whole, near = int(value), float(value)
        if whole == value or near == value:
            return whole if whole == value else near
    if kind is decimal.Decimal and value.is_infinite():
        return float(value)
    if kind in _PARTS:
        parts = [reduced(part, handle, depth + 1) for part in _PARTS[kind](value)]
        return wire.Known(kind.__name__, parts)
    if kind in _ITERATORS:
        items = list(itertools.islice(value, _MOST + 1))
        if len(items) > _MOST:
            raise wire.NotPlainError(f"an iterator of more than {_MOST} values")
        return wire.Iterated([reduced(item, handle, depth + 1) for item in items])
    if handle is not None and (stands := handle(value)) is not None:
        return stands
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, complex):
        return complex.__complex__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if isinstance(value, dict):
        items = dict.items(value)
        return {reduced(k, handle, depth + 1): reduced(v, handle, depth + 1) for k, v in items}
    bases: tuple[typing.Any, ...] = (list, tuple, set, frozenset)
    for base in bases:
        if isinstance(value, base):
            return base(reduced(item, handle, depth + 1) for item in base.__iter__(value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return reduced(value.item(), handle, depth + 1)
    return value  # which `wire.encode` refuses by its name


def known(reference: typing.Any) -> object:
    """The value of the library that was sent."""
    if reference.kind not in _KNOWN:
        raise wire.MalformedError(f"no type {reference.kind} of the library")
    return _KNOWN[reference.kind](*reference.args)


# --- nodes ----------------------------------------------------------------------------------------


def classes_of(names: dict) -> dict[str, type]:
    """The classes among names that were defined there."""
    own = names.get("__name__")
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type) and kind.__module__ == own
    }


def fields(kind: type) -> list[str]:
    """The fields of a class of nodes: what its constructor takes."""
    made = vars(kind).get("__init__")
    if made is None:
        return list(vars(kind).get("__annotations__", ()))
    return list(made.__code__.co_varnames[1 : made.__code__.co_argcount])


def unlinked(value: typing.Any, nodes: dict[str, type]) -> tuple[typing.Any, list]:
    """The value with a number in the place of each node, and the table of the nodes: class and
    fields. In one bounded step, however the nodes are linked."""
    if not nodes:
        return value, []
    table: list[list] = []
    places: dict[int, int] = {}
    waiting: list[typing.Any] = []

    def flat(x: typing.Any, depth: int) -> typing.Any:
        if depth > wire.MAX_DEPTH:
            raise wire.NotPlainError(f"nested more than {wire.MAX_DEPTH} deep")
        if type(x).__name__ in nodes:
            if id(x) not in places:
                if len(places) == _MOST_NODES:
                    raise wire.NotPlainError(f"more than {_MOST_NODES} nodes")
                places[id(x)] = len(places)
                waiting.append(x)
            return wire.Handle(NODES + places[id(x)])
        if type(x) in (list, tuple):
            return type(x)([flat(item, depth + 1) for item in x])
        if type(x) is dict:
            return {key: flat(item, depth + 1) for key, item in x.items()}
        return x

    root = flat(value, 0)
    for node in waiting:  # which grows meanwhile
        name = type(node).__name__
        held = [flat(getattr(node, field, None), 0) for field in fields(nodes[name])]
        table.append([name, held])
    return root, table


def linked(value: typing.Any, table: list, nodes: dict[str, type]) -> typing.Any:
    """The value with its nodes built of our own classes."""
    if not table:
        return value
    made: list[typing.Any] = [object.__new__(nodes[name]) for name, _ in table]

    def whole(x: typing.Any) -> typing.Any:
        if type(x) is wire.Handle:
            return made[x.number - NODES]
        if type(x) in (list, tuple):
            return type(x)([whole(item) for item in x])
        if type(x) is dict:
            return {key: whole(item) for key, item in x.items()}
        return x

    for node, (name, held) in zip(made, table, strict=True):
        for field, item in zip(fields(nodes[name]), held, strict=True):
            setattr(node, field, whole(item))
    return whole(value)


# --- arguments that a function changes ------------------------------------------------------------


def changeable(args: tuple, named: dict) -> dict:
    """What the arguments that can be changed in place look like now, by place or name."""
    before = {}
    for key, value in itertools.chain(enumerate(args), named.items()):
        if type(value) in (list, dict, set):
            try:
                before[key] = wire.encode(value)
            except wire.NotPlainError:
                continue
    return before


def changed(before: dict, args: tuple, named: dict) -> list:
    """Those that look otherwise afterwards: place or name, and value."""
    out = []
    for key, bytes_before in before.items():
        value = args[key] if isinstance(key, int) else named[key]
        if encoded(value) != bytes_before:
            out.append([key, value])
    return out


def change(value: typing.Any, new: typing.Any) -> None:
    """Give an argument the value that it has on the other side, in place."""
    if type(value) is not type(new):
        raise wire.MalformedError("an argument of another type")
    if type(value) is list:
        value[:] = new
    else:
        value.clear()
        value.update(new)
