"""Pairs of an expected value and what a program gives for it, as Python source, made by chance.

The second is made of the first by one change of many kinds: none, another type of number, a little
more, another order, a subclass, an array. So right, wrong and doubtful answers are all there.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

# What a program of a pair begins with.
IMPORTS = """\
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
import numpy as np
Color = IntEnum("Color", {"RED": 1})
Point = namedtuple("Point", "x y")
class Text(str): pass
class Number(int): pass
class Items(list): pass
"""
_LEAVES: list[Callable[[random.Random], Any]] = [
    lambda r: r.choice([0, 1, 2, -1, 7, 10**9, 2**53 + 1, 2**62, 2**70]),
    lambda r: r.randint(-50, 50),
    lambda r: r.choice([0.0, -0.0, 1.0, 0.5, 2.0, 1e-9, 1e16, 0.1 + 0.2]),
    lambda r: r.uniform(-100, 100),
    lambda r: r.choice([True, False]),
    lambda r: r.choice(["", "a", "ab", "1", "True", "\u00e9", "a\nb", "0.5"]),
    lambda r: None,
]
_NUMBERS = _LEAVES[:5]
_ODD = [float("nan"), float("inf"), float("-inf"), 1 + 2j, 1 + 0j]


class Pair(NamedTuple):
    expected: str
    value: str
    change: str


def pairs(seed: int, count: int, as_json: bool = False) -> list[Pair]:
    """as_json: expected values that JSON has, and what it makes of them."""
    r = random.Random(seed)
    made = []
    while len(made) < count:
        expected = _json(r) if as_json else _plain(r)
        change = r.choice(list(_CHANGES))
        changed = _CHANGES[change](r, expected)
        if changed is not None:
            made.append(Pair(source(expected), changed, change))
    return made


def source(value: Any) -> str:
    """Python source of a value; repr() has no NaN."""
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(source, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(source, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{source(k)}: {source(v)}' for k, v in value.items())}}}"
    if isinstance(value, set | frozenset):
        inside = f"[{', '.join(map(source, value))}]"
        return f"{type(value).__name__}({inside})"
    return repr(value)


# --- expected values ------------------------------------------------------------------------------


def _leaf(r: random.Random, kinds: list = _LEAVES) -> Any:
    return r.choice(kinds)(r)


def _plain(r: random.Random, depth: int = 0) -> Any:
    kind = r.random()
    if kind < 0.05:
        return r.choice(_ODD)
    if kind < 0.35 or depth == 3:
        return _leaf(r)
    size = r.randint(0, 4)
    if kind < 0.55:
        one = r.choice(_NUMBERS)
        return r.choice([list, tuple])([one(r) for _ in range(size)])
    if kind < 0.8:
        return r.choice([list, list, tuple])([_plain(r, depth + 1) for _ in range(size)])
    if kind < 0.9:
        return {_key(r): _plain(r, depth + 1) for _ in range(size)}
    return r.choice([set, set, frozenset])([_key(r) for _ in range(size)])


def _key(r: random.Random) -> Any:
    return _leaf(r) if r.random() < 0.8 else (_leaf(r), _leaf(r))


def _json(r: random.Random, depth: int = 0) -> Any:
    kind = r.random()
    if kind < 0.35 or depth == 3:
        return _leaf(r)
    size = r.randint(0, 4)
    if kind < 0.6:
        one = r.choice(_NUMBERS)
        return [one(r) for _ in range(size)]
    if kind < 0.9:
        return [_json(r, depth + 1) for _ in range(size)]
    return {str(_leaf(r)): _json(r, depth + 1) for _ in range(size)}


# --- changes --------------------------------------------------------------------------------------


def _everywhere(x: Any, f: Callable[[Any], Any]) -> Any:
    """The value with f of every leaf that is in a list, a tuple, or a value of a dict."""
    if isinstance(x, list | tuple):
        return type(x)([_everywhere(item, f) for item in x])
    if isinstance(x, dict):
        return {key: _everywhere(item, f) for key, item in x.items()}
    return f(x)


def _somewhere(r: random.Random, x: Any, f: Callable[[Any], Any]) -> Any:
    """The value with f of one of its leaves."""
    if isinstance(x, list | tuple) and x:
        at = r.randrange(len(x))
        return type(x)([_somewhere(r, y, f) if i == at else y for i, y in enumerate(x)])
    if isinstance(x, dict) and x:
        at = r.choice(list(x))
        return {k: _somewhere(r, v, f) if k == at else v for k, v in x.items()}
    return f(x)


def _other_number(x: Any) -> Any:
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, int):
        return bool(x) if x in (0, 1) else float(x) if abs(x) < 2**53 else x
    if isinstance(x, float) and x.is_integer():
        return int(x)
    return x


def _moved(by: float) -> Callable[[random.Random, Any], str]:
    def change(r: random.Random, x: Any) -> str:
        return source(_somewhere(r, x, lambda y: y + by if isinstance(y, int | float) else y))

    return change


def _scaled(by: float) -> Callable[[random.Random, Any], str]:
    def moved(y: Any) -> Any:
        return y * (1 + by) if isinstance(y, float) else y

    return lambda r, x: source(_everywhere(x, moved))


def _rebuilt(x: Any, kinds: dict[type, Callable], top: bool, inside: bool, depth: int = 0) -> Any:
    """The value with its lists, tuples and sets of other types, at the top or below it."""
    if isinstance(x, dict):
        return {k: _rebuilt(v, kinds, top, inside, depth + 1) for k, v in x.items()}
    if not isinstance(x, list | tuple | set | frozenset):
        return x
    if isinstance(x, list | tuple):
        x = type(x)([_rebuilt(y, kinds, top, inside, depth + 1) for y in x])
    made = kinds.get(type(x))
    return made(x) if made and (top if depth == 0 else inside) else x


def _types(kinds: dict[type, Callable], top: bool, inside: bool) -> Callable:
    return lambda r, x: source(_rebuilt(x, kinds, top, inside))


def _only(kind: Any, text: Callable[[random.Random, Any], str | None]) -> Callable:
    return lambda r, x: text(r, x) if isinstance(x, kind) else None


def _items(x: Any) -> str:
    return source(list(x))


def _shuffled(r: random.Random, x: Any) -> str:
    if isinstance(x, dict):
        return source(dict(r.sample(list(x.items()), len(x))))
    return source(type(x)(r.sample(list(x), len(x))))


def _longer(r: random.Random, x: Any) -> str:
    return source(type(x)([*x, _leaf(r)]))


_SWAP = {list: tuple, tuple: list, set: frozenset, frozenset: set}
_SEQUENCE = (list, tuple)
_CHANGES: dict[str, Callable[[random.Random, Any], str | None]] = {
    "none": lambda r, x: source(x),
    "no change": lambda r, x: source(x),
    "all numbers of another type": lambda r, x: source(_everywhere(x, _other_number)),
    "a number of another type": lambda r, x: source(_somewhere(r, x, _other_number)),
    "a number 1e-9 away": _moved(1e-9),
    "a number 5e-7 away": _moved(5e-7),
    "a number 2e-6 away": _moved(2e-6),
    "a number 1 away": _moved(1),
    "floats 1e-8 of them away": _scaled(1e-8),
    "floats 1e-5 of them away": _scaled(1e-5),
    "another container": _types(_SWAP, True, False),
    "other containers inside": _types(_SWAP, False, True),
    "other containers": _types(_SWAP, True, True),
    "a list for a set": _only((set, frozenset), lambda r, x: _items(x)),
    "a set for a list": _only(_SEQUENCE, lambda r, x: f"set(map(str, {_items(x)}))"),
    "members of another type": _only(
        (set, frozenset), lambda r, x: source(type(x)(map(_other_number, x)))
    ),
    "keys of another type": _only(
        dict, lambda r, x: source({_other_number(k): v for k, v in x.items()})
    ),
    "a member less": _only((set, frozenset), lambda r, x: source(type(x)(list(x)[1:]))),
    "a key less": _only(dict, lambda r, x: source(dict(list(x.items())[1:]))),
    "another order": _only((list, tuple, dict), _shuffled),
    "an item less": _only(_SEQUENCE, lambda r, x: source(x[1:])),
    "an item more": _only(_SEQUENCE, _longer),
    "in a list": lambda r, x: source([x]),
    "as text": lambda r, x: source(str(x)),
    "another value": lambda r, x: source(_plain(r)),
    "another leaf": lambda r, x: source(_somewhere(r, x, lambda _: _leaf(r))),
    "None": lambda r, x: "None",
    "an OrderedDict": _only(dict, lambda r, x: f"OrderedDict({source(x)})"),
    "a defaultdict": _only(dict, lambda r, x: f"defaultdict(int, {source(x)})"),
    "a Counter": _only(dict, lambda r, x: f"Counter({source(x)})"),
    "a subclass of str": _only(str, lambda r, x: f"Text({x!r})"),
    "a subclass of int": _only(int, lambda r, x: f"Number({int(x)!r})"),
    "an enum": _only(int, lambda r, x: "Color.RED"),
    "a subclass of list": _only(list, lambda r, x: f"Items({source(x)})"),
    "a named tuple": _only(_SEQUENCE, lambda r, x: f"Point({source(x[0])}, 1)" if x else None),
    "a range": _only(_SEQUENCE, lambda r, x: f"range({len(x)})"),
    "an iterator": _only(_SEQUENCE, lambda r, x: f"iter({source(x)})"),
    "a deque": _only(list, lambda r, x: f"deque({source(x)})"),
    "a generator": _only(list, lambda r, x: f"(y for y in {source(x)})"),
    "a Fraction": _only(
        (int, float), lambda r, x: f"Fraction({source(x)})" if x - x == 0 else None
    ),
    "a Decimal": _only((int, float), lambda r, x: f"Decimal({str(x)!r})"),
    "a float of numpy": _only(float, lambda r, x: f"np.float64({source(x)})"),
    "a float of numpy nearby": _only(float, lambda r, x: f"np.float64({source(x + 1e-7)})"),
    "an int of numpy": _only(int, lambda r, x: f"np.int64({int(x)})" if abs(x) < 2**62 else None),
    "a bool of numpy": _only(bool, lambda r, x: f"np.bool_({x})"),
    "floats of numpy in a list": lambda r, x: (
        f"[np.float64(y) for y in {source(x)}]"
        if type(x) is list and x and all(type(y) is float for y in x)
        else None
    ),
    "an array": _only(_SEQUENCE, lambda r, x: f"np.array({source(x)}, dtype=object)"),
    "an array of one": _only((int, float), lambda r, x: f"np.array([{source(x)}])"),
    "a complex number": _only((int, float), lambda r, x: f"complex({source(x)})"),
}


# --- what is printed ------------------------------------------------------------------------------

_TOKENS = [
    "1",
    "2.0",
    "-3",
    "0.5",
    "1e3",
    "abc",
    "YES",
    "nan",
    "inf",
    "007",
    "+5",
    "1_0",
    ".5",
    "6.",
]


def outputs(seed: int, count: int) -> list[Pair]:
    """Pairs of texts: the expected output of a program and another one."""
    r = random.Random(seed)
    made = []
    for _ in range(count):
        lines = [[_token(r) for _ in range(r.randint(0, 4))] for _ in range(r.randint(0, 4))]
        expected = "".join(" ".join(line) + "\n" for line in lines)
        change = r.choice(list(_OUTPUTS))
        made.append(Pair(expected, _OUTPUTS[change](r, lines), change))
    return made


def _token(r: random.Random) -> str:
    number = r.choice([r.randint(-99, 99), round(r.uniform(-9, 9), r.randint(0, 8)), 2**60 + 1])
    return r.choice([str(number), str(number), r.choice(_TOKENS)])


def _text(lines: list[list[str]], blank: str = " ", end: str = "\n", last: str = "\n") -> str:
    text = end.join(blank.join(line) for line in lines)
    return text + last if lines else text


def _each(f: Callable[[random.Random, str], str]) -> Callable:
    """One token of the text changed."""

    def change(r: random.Random, lines: list[list[str]]) -> str:
        copy = [list(line) for line in lines]
        full = [line for line in copy if line]
        if full:
            line = r.choice(full)
            at = r.randrange(len(line))
            line[at] = f(r, line[at])
        return _text(copy)

    return change


def _decimal(r: random.Random, token: str) -> str:
    try:
        number = float(token)
    except ValueError:
        return token.lower()
    return r.choice(
        [f"{number:.12f}", f"{number:e}", f"{number:g}", f"+{token}", f"{token}0", f"0{token}"]
    )


_OUTPUTS: dict[str, Callable[[random.Random, list[list[str]]], str]] = {
    "none": lambda r, lines: _text(lines),
    "no line end at the end": lambda r, lines: _text(lines, last=""),
    "two line ends at the end": lambda r, lines: _text(lines, last="\n\n"),
    "blanks at the end": lambda r, lines: _text(lines, end=" \t\n", last="  \n"),
    "lines that end with \\r\\n": lambda r, lines: _text(lines, end="\r\n", last="\r\n"),
    "lines that end with \\r": lambda r, lines: _text(lines, end="\r"),
    "blanks before": lambda r, lines: "  " + _text(lines, end="\n  "),
    "two blanks between": lambda r, lines: _text(lines, blank="  "),
    "tabs between": lambda r, lines: _text(lines, blank="\t"),
    "no-break spaces between": lambda r, lines: _text(lines, blank="\u00a0"),
    "one line": lambda r, lines: _text(lines, end=" "),
    "a token a line": lambda r, lines: _text(lines, blank="\n"),
    "empty lines between": lambda r, lines: _text(lines, end="\n\n"),
    "a line less": lambda r, lines: _text(lines[:-1]),
    "a line more": lambda r, lines: _text([*lines, [_token(r)]]),
    "a number written otherwise": _each(_decimal),
    "another token": _each(lambda r, token: _token(r)),
    "another case": _each(lambda r, token: token.swapcase()),
    "a digit of another script": _each(lambda r, token: token.replace("1", "\u0661")),
    "nothing": lambda r, lines: "",
}
