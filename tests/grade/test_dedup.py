"""Programs that are run once: never two that are not the same to Python."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.grade.dedup import key_of

LAYOUT = (" ", "    ", "\t", "\n", "\n\n", "#", "# a", "'", '"', "'''", '"""', "\\", "\\\n", ";")
CODE = (
    "x",
    "1",
    "def f():",
    "return",
    "if x:",
    "=",
    "(",
    ")",
    "[",
    ",",
    "f'{x}'",
    "'#'",
    "'a' # b",
)
ODD = ("\r", "\x0c", "\x00", "\u2028", "\xa0", "\ufeff", "\ud800", "é", "\x1f", "\x7f", "\x85")
texts = st.lists(st.sampled_from(LAYOUT + CODE + ODD), max_size=14).map("".join)


def meaning(program: str) -> str | None:
    """None: not a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(program)
        except (SyntaxError, ValueError):
            return None
    return ast.dump(tree)


@given(texts)
def test_the_key_itself_means_what_the_program_means(program):
    """So programs with one key mean the same; one that is no program has the key of none."""
    whole, key = key_of(program)
    assert meaning(key) == meaning(program)
    assert whole or key == program


@given(texts, st.data())
def test_comments_and_empty_lines_make_no_difference(program, data):
    """In programs that are not left alone; and where they would, there is another key."""
    lines = program.split("\n")
    at = data.draw(st.integers(0, len(lines)))
    more = [*lines[:at], data.draw(st.sampled_from(["", "  ", "# it's", "   # x"])), *lines[at:]]
    other = "\n".join(more)
    if key_of(other) == key_of(program):
        assert meaning(other) == meaning(program)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x):\n    return x  # itself\n", "def f(x):\n\n    # what is given\n    return x"),
        ("s = 'a'   \nt = 1", "s = 'a'\nt = 1\n\n\n# done: f(1)"),
    ],
)
def test_what_is_the_same(one, other):
    assert key_of(one) == key_of(other)
    assert key_of(one)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s = '# a'", "s = '# b'"),
        ("s = 'a' # it's", "s = 'a'"),  # quotes in a comment: not told apart, run twice
        ('s = """\n# a\n"""', 's = """\n# b\n"""'),
        ('s = """\n\n"""', 's = """\n"""'),
        ("s = 'a\\\n# b\\\n'", "s = 'a\\\n# c\\\n'"),
        ("x = 1 # a\ry = 2", "x = 1"),
        ("x = 1 # \x00", "x = 1"),
        ("x = 1 + \\ \n2", "x = 1 + \\\n2"),
        ("import traceback\n# a", "import traceback"),
        ("x = 1", "x = 2"),
        ("  x = 1", "x = 1"),
    ],
)
def test_what_is_not(one, other):
    assert key_of(one) != key_of(other)
