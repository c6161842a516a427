"""EvalPlus rules for single tasks: types of arguments, and comparisons other than equality.

    MBPP 2, 7, 111, 140, 232, 249, 579, 769    equal as sets
    MBPP 88                                    a dict, be it a Counter or another
    MBPP 737, 787, 794                         a match or None, or the bool of that
    MBPP 164                                   any result
    MBPP 295                                   also 0
    MBPP 558, 581                              also the answer to the other reading of the text
    HumanEval 32                               a root, within atol, of the polynomial given

A rule is the statement of a test in which `got` is what the program returned.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from maxk.records import CallTest, literal

Rule = Callable[[CallTest], str]

_MATCH_OR_NONE = (737, 787, 794)
# What to keep of a reference's result where the result itself cannot leave the jail.
MBPP_ANSWERS = {88: "dict({})", **dict.fromkeys(_MATCH_OR_NONE, "{} is not None")}


def _equal(test: CallTest) -> str:
    return f"assert got == {literal(test.expected)}"


def _equal_as_sets(test: CallTest) -> str:
    return f"assert set(got) == set({literal(test.expected)})"


def _match_or_none(test: CallTest) -> str:
    return f"assert (got if isinstance(got, bool) else got is not None) == {literal(test.expected)}"


def _any_result(test: CallTest) -> str:
    return ""


def _or_zero(test: CallTest) -> str:
    return f"assert got in ({literal(test.expected)}, 0)"


def _padded_digits(test: CallTest) -> str:
    return f"assert got in ({literal(test.expected)}, {digit_distance(*test.args)!r})"


def _height_to_apex(test: CallTest) -> str:
    return f"assert got in ({literal(test.expected)}, {pyramid_area(*test.args)!r})"


def _root(test: CallTest) -> str:
    terms = f"c * got**i for i, c in enumerate({literal(test.args[0])})"
    # EvalPlus 0.3.1 counts no test of this task as passed, an exact root included.
    return f"assert abs(sum({terms})) <= {(test.tolerance or 1e-6)!r}"


MBPP_RULES: dict[int, Rule] = {
    **dict.fromkeys((2, 7, 111, 140, 232, 249, 579, 769), _equal_as_sets),
    88: _equal,
    **dict.fromkeys(_MATCH_OR_NONE, _match_or_none),
    164: _any_result,
    295: _or_zero,
    558: _padded_digits,
    581: _height_to_apex,
}
HUMANEVAL_RULES: dict[int, Rule] = {32: _root}


def digit_distance(a: int, b: int) -> int:
    """The sum of the differences of the digits, the shorter number filled up with zeros.

    >>> digit_distance(1, 256)
    12
    """
    one, two = (str(Decimal(number)) for number in (a, b))  # a number may have any length
    width = max(len(one), len(two))
    pairs = zip(one.zfill(width), two.zfill(width), strict=True)
    return sum(abs(int(x) - int(y)) for x, y in pairs)


def pyramid_area(base: float, height: float) -> int:
    """The surface of a square pyramid, rounded, with the height from the base to the apex.

    >>> pyramid_area(6, 4)
    96
    """
    return round(base * base + 2 * base * math.hypot(base / 2, height))


# --- inputs that JSON could not hold --------------------------------------------------------------

_TUPLES = {
    *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630),
    *(726, 740, 744, 809),
}
_LISTS_OF_TUPLES = {63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780}
_FIRST_LIST_OF_TUPLES = {75, 413, 444, 753}
_FIRST_TUPLE = {250, 307, 405, 446, 617, 720, 763, 808}
_SECOND_TUPLE = {106, 750}
_TUPLES_OF_TUPLES = {259, 401, 445}
_ALL_TUPLES = {580, 615, 791}


def restored(number: int, args: list[Any]) -> list[Any]:
    """The arguments of an MBPP task with the types they had before they were written as JSON.

    >>> restored(2, [[3, 4], [5]])
    [(3, 4), (5,)]
    """
    first, rest = args[0], args[1:]
    if number in _TUPLES:
        return [tuple(x) for x in args]
    if number in _LISTS_OF_TUPLES:
        return [[tuple(x) for x in xs] for xs in args]
    if number in _FIRST_LIST_OF_TUPLES:
        return [[tuple(x) for x in first], *rest]
    if number in _FIRST_TUPLE:
        return [tuple(first), *rest]
    if number in _SECOND_TUPLE:
        return [first, tuple(rest[0])]
    if number in _TUPLES_OF_TUPLES:
        return [tuple(tuple(x) for x in xs) for xs in args]
    if number in _ALL_TUPLES:
        return [_all_tuples(x) for x in args]
    if number == 115:  # a list of sets; an empty one is {} in EvalPlus too
        return [[set(x) if isinstance(x, list) and x else {} for x in first]]
    if number == 124:
        return [float(first), complex(rest[0])]
    if number == 252:
        return [complex(first)]
    if number == 278:
        return [tuple(tuple(x) if isinstance(x, list) else x for x in first)]
    if number == 722:
        return [{key: tuple(value) for key, value in first.items()}, *rest]
    return args


def _all_tuples(value: Any) -> Any:
    return tuple(map(_all_tuples, value)) if isinstance(value, list) else value
