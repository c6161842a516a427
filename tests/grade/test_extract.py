"""The program in a completion: one shape per case, as models write them."""

import time

import pytest

from maxk.grade.extract import program_of

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


@pytest.mark.parametrize(
    "hostile",
    [
        "`" * 100_000,
        "a " * 100_000,
        "((" * 100_000,
        "x=" * 50_000,
        "\n```" * 20_000,
        "if " * 50_000 + "\n",
    ],
)
def test_hostile_text_takes_no_time(hostile):
    """Each is 100 kB or more; a quadratic pattern would take minutes."""
    started = time.process_time()
    program_of(hostile)
    assert time.process_time() - started < 2.0
