"""The program in a completion: one shape per case, as models write them."""

import re
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.grade.extract import program_of
from tests.clock import doubled

SOLUTION = "n = int(input())\nprint(n * 2)"
FUNCTION = "def double(n):\n    return n * 2"

SHAPES = {
    "fence with language": (f"```python\n{SOLUTION}\n```", SOLUTION),
    "fence without language": (f"```\n{SOLUTION}\n```", SOLUTION),
    "fence with py": (f"```py\n{SOLUTION}\n```", SOLUTION),
    "fence with Python3 in capitals": (f"```Python3\n{SOLUTION}\n```", SOLUTION),
    "fence with attributes": (f"```{{.python .numberLines}}\n{SOLUTION}\n```", SOLUTION),
    "fence with a title": (f'```python title="a.py"\n{SOLUTION}\n```', SOLUTION),
    "space before the language": (f"``` python\n{SOLUTION}\n```", SOLUTION),
    "tildes": (f"~~~python\n{SOLUTION}\n~~~", SOLUTION),
    "four backticks around three": (
        "````python\ns = '''\n```\n'''\nprint(s)\n````",
        "s = '''\n```\n'''\nprint(s)",
    ),
    "unclosed at the length limit": (
        f"Here it is:\n```python\n{SOLUTION}\nprint(",
        f"{SOLUTION}\nprint(",
    ),
    "nothing after the opening": ("```python", ""),
    "prose before and after": (
        f"Sure! Here is the code:\n\n```python\n{SOLUTION}\n```\n\nIt doubles n.",
        SOLUTION,
    ),
    "indented in a list": (
        "1. Read and print:\n\n   ```python\n   n = int(input())\n   print(n * 2)\n   ```\n",
        SOLUTION,
    ),
    "solution, then example of use": (
        f"```python\n{FUNCTION}\n```\nUse it:\n```python\nprint(double(2))\n```",
        FUNCTION,
    ),
    "first try, then the improved one": (
        f"```python\nprint(1)\n```\nThis is wrong. Better:\n```python\n{SOLUTION}\n```",
        SOLUTION,
    ),
    "two of equal length: the last": (
        "```python\nprint(1)\n```\n```python\nprint(2)\n```",
        "print(2)",
    ),
    "long output block without a mark": (
        f"```python\n{SOLUTION}\n```\nOutput:\n```\n{'1 2 3 4 5 6 7 8 ' * 9}\n```",
        SOLUTION,
    ),
    "shell block first": (
        f"```bash\npip install numpy pandas scipy\n```\n```python\n{SOLUTION}\n```",
        SOLUTION,
    ),
    "only block in another language": ("```cpp\nint main() {}\n```", "int main() {}"),
    "whole block on one line": ("```python print(1)```", "print(1)"),
    "inline code in prose is not a block": (
        f"Use ```x``` here.\n```python\n{SOLUTION}\n```",
        SOLUTION,
    ),
    "plain code": (SOLUTION, SOLUTION),
    "plain code, blank lines around": (f"\n\n{SOLUTION}\n\n\n", SOLUTION),
    "plain code after a sentence": (f"Here is the solution\n\n{SOLUTION}", SOLUTION),
    "plain code before a sentence": (f"{SOLUTION}\n\nThis program doubles its input.", SOLUTION),
    "plain code between sentences": (
        f"The idea is simple.\n{FUNCTION}\nThe function above runs in constant time.",
        FUNCTION,
    ),
    "plain code cut off": (
        "import sys\nfor line in sys.stdin:\n    print(",
        "import sys\nfor line in sys.stdin:\n    print(",
    ),
    "plain code with a comment first": (f"# double\n{SOLUTION}", f"# double\n{SOLUTION}"),
    "Markdown heading, then code": (f"## Solution\n{SOLUTION}", SOLUTION),
    "all of it indented": ("    n = int(input())\n    print(n * 2)", SOLUTION),
    "BEGIN and DONE": (f"[BEGIN]\n{FUNCTION}\n[DONE]\nText", FUNCTION),
    "PYTHON tags, unclosed": (f"[PYTHON]\n{FUNCTION}", FUNCTION),
    "code tags": (f"<code>\n{FUNCTION}\n</code>", FUNCTION),
    "reasoning with a draft in it": (
        "<think>maybe\n```python\nprint('a long wrong draft')\n```\n</think>\n"
        f"```python\n{SOLUTION}\n```",
        SOLUTION,
    ),
    "end-of-turn token": (f"```python\n{SOLUTION}\n```<|im_end|>\n```python\nnext\n```", SOLUTION),
    "end-of-turn token in plain code": (f"{SOLUTION}<|endoftext|>Human: hi", SOLUTION),
    "CRLF": (
        f"```python\r\n{SOLUTION}\r\n```\r\n".replace("\n", "\r\n").replace("\r\r", "\r"),
        SOLUTION,
    ),
    "byte order mark": (f"\ufeff{SOLUTION}", SOLUTION),
    "decorator and class": ("@cache\ndef f(): pass", "@cache\ndef f(): pass"),
    "empty": ("", ""),
    "white space only": (" \n \n", ""),
    "refusal": ("I cannot help with that.", "I cannot help with that."),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_program_is_found(shape):
    completion, program = SHAPES[shape]
    assert program_of(completion) == program


def test_the_block_that_defines_the_entry_point_is_preferred_to_a_longer_one():
    tests = "```python\nimport unittest\n" + "assert double(2) == 4\n" * 20 + "```"
    completion = f"```python\n{FUNCTION}\n```\n{tests}"
    assert program_of(completion, entry_point="double") == FUNCTION
    assert program_of(completion) != FUNCTION


def test_a_method_is_looked_for_by_its_class():
    solution = "class Solution:\n    def f(self):\n        return 1"
    completion = (
        f"```python\n{solution}\n```\n```python\n{'print(Solution().f())  # ' + 'x' * 99}\n```"
    )
    assert program_of(completion, entry_point="Solution().f") == solution


def test_an_entry_point_nobody_defines_changes_nothing():
    assert program_of(f"```python\n{SOLUTION}\n```", entry_point="f") == SOLUTION


UNITS = [
    *(
        "7",
        "+",
        "-",
        ".",
        "1e5 ",
        " ",
        "\t",
        "\n",
        "\r\n",
        "```",
        "~~~",
        "`",
        "\n```",
        "```python\n",
    ),
    *("def ", "import a", "if ", "x=", "((", "[", ":", "a ", "long", "#", "@a", "    x\n", "   \n"),
    *(
        "</think>",
        "</think>\n",
        "<|im_end|>",
        "</s>",
        "<code>",
        "[PYTHON]",
        "\u00e4",
        '"""',
        "x.y(",
    ),
]


@pytest.mark.parametrize("unit", UNITS)
def test_any_text_is_searched_in_linear_time(unit):
    """Four completions of an eighth and of a quarter of a megabyte, each of one thing repeated."""

    def work(size: int) -> None:
        text = unit * (size // len(unit))
        for shape in (text, f"```python\n{text}", f"```{text}\n```", f"x = 1\n{text}\n y"):
            program_of(shape, "f")

    assert doubled(work, 2**17, little=0.15) < 1.0  # a megabyte in all


PROGRAMS = [
    'x = "</s>"\nprint("</think>", "<|im_end|>", "<eos>")\n',
    's = """\n</think>\n<|im_end|>\n"""\nprint(s)',
    'a = 1\r\nb = "\r"',
    'def f():\n\n    return """  \n   \n"""\n\n\n',
    "\n\nprint(1)   \n",
    "# [PYTHON] <code>\nx = '`` ~~'\n\tif_ = 1" + " " * 3,
    "",
]
WRAPPERS = [
    "```python\n{}\n```",
    "Sure:\n\n~~~py\n{}\n~~~\nDone.",
    "<think>a draft\n```python\nprint(2)\n```\n</think>\n```python\n{}\n```",
    "A draft\n```python\nprint(2)\n</think>\n```python\n{}\n```<|im_end|>",
    "````\n{}\n````</s>",
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_in_a_closed_fence_is_given_back_byte_for_byte(program, wrapper):
    assert program_of(wrapper.replace("{}", program)) == program


lines = st.text("abc =+#'\"\\()[]{}:\t <>/|_stheinkdmo.", max_size=30)


@given(st.lists(lines, max_size=8), st.sampled_from(WRAPPERS))
def test_any_text_that_is_not_indented_as_a_whole_is_given_back(parts, wrapper):
    program = "\n".join(["x = 1", *parts])
    assert program_of(wrapper.replace("{}", program)) == program


def test_no_pattern_repeats_the_same_characters_twice_in_a_row():
    """Such patterns take quadratic time or worse: all patterns of what reads a stranger's text."""
    from maxk.grade import dedup, extract, lines
    from maxk.verify import compare

    patterns = [
        value.pattern
        for module in (dedup, extract, lines, compare)
        for value in vars(module).values()
        if isinstance(value, re.Pattern)
    ]
    assert len(patterns) >= 3
    assert not [pattern for pattern in patterns if repeated_twice(pattern)]
    for bad in (r"\s*\s+x", r"\d+\.?\d*", r"(a+)+b", r"[ \t]*(x|\s*)y", r"\w*[a-z]*="):
        assert repeated_twice(bad), bad


def repeated_twice(pattern: str) -> bool:
    """Whether two unbounded, backtracking repetitions could share a run of one character."""
    found: list[set[str]] = []

    def walk(parts: Any, before: list[set[str]]) -> list[set[str]]:
        """Repetitions that may end where these parts end, given those that end where they begin."""
        for op, value in parts:
            name = str(op)
            if name in ("MAX_REPEAT", "MIN_REPEAT"):
                low, high, inner = value
                own = {char for char in SOME if any(fits(o, v, char) for o, v in inner)}
                many = high > 100
                if many and (any(own & other for other in before) or repeats(inner)):
                    found.append(own)
                ends = walk(inner, before) + ([own] if many else [])
                before = [*ends, *before] if low == 0 else ends
            elif name == "SUBPATTERN":
                before = walk(value[3], before)
            elif name == "BRANCH":
                before = [end for branch in value[1] for end in walk(branch, before)]
            elif name == "POSSESSIVE_REPEAT":
                before = []  # it gives nothing back
            elif name != "AT" and not name.startswith("ASSERT"):
                before = []
        return before

    walk(parser.parse(pattern), [])
    return bool(found)


def repeats(parts: Any) -> bool:
    return any(
        (str(op) in ("MAX_REPEAT", "MIN_REPEAT") and value[1] > 100)
        or (str(op) == "SUBPATTERN" and repeats(value[3]))
        for op, value in parts
    )


SOME = "a7_ \t.=-+#`e(\\'"
CATEGORIES = {
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_WORD": str.isalnum,
}


def fits(op: Any, value: Any, char: str) -> bool:
    """Whether a part of a pattern may match this character."""
    name = str(op)
    if name == "LITERAL":
        return chr(value) == char
    if name == "RANGE":
        return value[0] <= ord(char) <= value[1]
    if name == "CATEGORY":
        return CATEGORIES.get(str(value), lambda _: True)(char)
    if name == "IN":
        negated = str(value[0][0]) == "NEGATE"
        return negated != any(fits(o, v, char) for o, v in value if str(o) != "NEGATE")
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return any(fits(o, v, char) for o, v in value[2])
    if name == "SUBPATTERN":
        return any(fits(o, v, char) for o, v in value[3])
    if name == "BRANCH":
        return any(fits(o, v, char) for branch in value[1] for o, v in branch)
    return name in ("ANY", "NOT_LITERAL")
