"""Is what a program printed the expected output? In the judge's process, in linear time.

What is too long to be right is not read further. Blanks are those of ASCII: a space, a tab, the
ends of lines. Bytes that are no UTF-8 are no answer.
"""

import math
import re
from decimal import Decimal, InvalidOperation

from maxk.records import StdinTest

# float() takes underscores, "infinity" and digits of every script; printed answers should not.
# Each part can begin in one place only, so that no run of digits is read twice.
_NUMBER = re.compile(r"[+-]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+", re.ASCII)
_LONGEST = 400  # characters of a decimal number that stands for another one nearby


def right_output(got: bytes, test: StdinTest) -> bool:
    """Whether this stdout is what a test expects, by the test's own notion of equality."""
    if test.equality == "livecodebench":
        return same_lines(got, test.output)
    return same_output(got, test.output, test.tolerance, exact=test.exact)


def same_output(
    got: bytes | str, expected: str, tolerance: float | None = None, *, exact: bool = False
) -> bool:
    """Whether a program's stdout is the expected one.

    By default all tokens must be equal, in order and number; blanks only separate. With a
    tolerance, a token for which a number with a decimal point or an exponent is expected need only
    be that close. exact compares every character, apart from the form of line ends and one at the
    end of the text.

    >>> same_output("1  2\\n3\\n", "1 2 3")
    True
    >>> same_output("0.333", "0.3333333", tolerance=1e-3)
    True
    """
    ours = got if isinstance(got, bytes) else got.encode("utf-8", "surrogatepass")
    theirs = expected.encode("utf-8", "surrogatepass")
    try:
        ours.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if exact:
        return _lines(ours) == _lines(theirs)
    right = theirs.split()
    left = ours.split(None, len(right) + 1)  # a token more than there should be is enough
    if len(left) != len(right):
        return False
    if tolerance is None:
        return left == right
    return all(map(_close_tokens, left, right, [tolerance] * len(left)))


def _close_tokens(got: bytes, expected: bytes, tolerance: float) -> bool:
    if got == expected:
        return True
    if len(got) > _LONGEST or len(expected) > _LONGEST or not any(c in expected for c in b".eE"):
        return False
    a, b = got.decode(), expected.decode()
    if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):
        return False
    x, y = float(a), float(b)
    return (
        math.isfinite(x)
        and math.isfinite(y)
        and math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance)
    )


def same_lines(got: bytes | str, expected: str) -> bool:
    """Whether LiveCodeBench takes this stdout for the expected one.

    Lines are compared without the blanks at their ends, and so is the whole. Two lines are alike if
    they have the same characters, or if all tokens of both are numbers of the same values. Blanks
    and numbers are what Python's strip() and Decimal() say, digits of every script included.

    >>> same_lines("1.50 2\\n\\n", "1.5  2")
    True
    >>> same_lines("1 2", "1\\n2")
    False
    """
    try:
        text = got.decode() if isinstance(got, bytes) else got
    except UnicodeDecodeError:
        return False
    right = expected.strip().split("\n")
    left = text.strip().split("\n", len(right))  # a line more than there should be is enough
    return len(left) == len(right) and all(map(_same_line, left, right))


def _same_line(got: str, expected: str) -> bool:
    got, expected = got.strip(), expected.strip()
    if got == expected:
        return True
    wanted = expected.split()
    tokens = got.split(None, len(wanted) + 1)
    if len(tokens) != len(wanted):
        return False
    try:
        return all(map(_same_decimal, tokens, wanted))
    except InvalidOperation:  # no number, or a NaN that signals
        return False


def _same_decimal(got: str, expected: str) -> bool:
    return Decimal(got) == Decimal(expected)


def _lines(text: bytes) -> bytes:
    text = text.replace(b"\r\n", b"\n")
    return text[:-1] if text.endswith(b"\n") else text
