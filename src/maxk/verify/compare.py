"""Is what a program printed the expected output? In the judge's process, in linear time.

What is too long to be right is not read further. Blanks are those of ASCII: a space, a tab, the
ends of lines. Bytes that are no UTF-8 are no answer.
"""

import math
import re

# float() takes underscores, "infinity" and digits of every script; printed answers should not.
# Each part can begin in one place only, so that no run of digits is read twice.
_NUMBER = re.compile(r"[+-]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?+\d++)?+", re.ASCII)
_LONGEST = 400  # characters of a decimal number that stands for another one nearby


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


def _lines(text: bytes) -> bytes:
    text = text.replace(b"\r\n", b"\n")
    return text[:-1] if text.endswith(b"\n") else text
