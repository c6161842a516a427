"""Normal forms: what they ignore, what they keep, and that nothing can break them."""

import ast
import inspect
import json.decoder
import random
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk.evaluate import distinct, normalise, unique_share
from maxk.evaluate.diversity import MAX_CHARS, _shape
from tests.clock import cpu_seconds

MODULES = [ast, json.decoder, random, textwrap]

SAME = {
    "names": ("total = 0\nfor x in y:\n total += x", "s=0\nfor i in y:\n    s += i"),
    "functions": ("def f(a, b=1): return a + b\nf(2)", "def add(x, y=1): return x + y\nadd(2)"),
    "comments": ("x = 1  # one", "# first\n\nx = 1"),
    "docstrings": ('def f():\n "says so"\n return 1', "def f(): return 1"),
    "parentheses": ("x = (1 + 2)", "x = 1 + 2"),
    "quotes": ("x = 'a'", 'x = "a"'),
    "numbers": ("x = 0x10", "x = 16"),
    "elif": ("if a: b\nelif c: d", "if a: b\nelse:\n if c: d"),
    "lambda": ("f = lambda x: x", "g = lambda y: y"),
    "except": ("try: f()\nexcept E as e: print(e)", "try: f()\nexcept E as err: print(err)"),
    "global": (
        "def f():\n global n\n n = 1\nf()\nprint(n)",
        "def g():\n global m\n m = 1\ng()\nprint(m)",
    ),
    "nonlocal": (
        "def f():\n n = 1\n def g():\n  nonlocal n\n  n = 2\n g()\n return n",
        "def a():\n b = 1\n def c():\n  nonlocal b\n  b = 2\n c()\n return b",
    ),
    "scopes": (
        "def f(i): return i\ndef g(i): return i",
        "def f(a): return a\ndef g(b): return b",
    ),
    "default": ("def f(x=n): n = x\nn = 1", "def f(x=n): y = x\nn = 1"),
    "comprehension": ("y = [x for x in a]\nx = 1", "y = [z for z in a]\nx = 1"),
    "walrus": ("print([y := f(x) for x in a], y)", "print([b := f(x) for x in a], b)"),
    "match": ("match a:\n case [x, *r]: print(x, r)", "match a:\n case [p, *q]: print(p, q)"),
    "classes": ("class A:\n def m(self): return self.x", "class B:\n def m(me): return me.x"),
    "line ends": ("x = 1\r\ny = 2", "x = 1\ny = 2"),
    "broken": ("def f(:\n  x  =", "def f(:\n\n x ="),
}

DIFFERENT = {
    "builtins": ("sum(x)", "max(x)"),
    "attributes": ("a.x", "a.y"),
    "methods": ("class A:\n def m(self): pass", "class A:\n def n(self): pass"),
    "imports": ("import math\nmath.pi", "import cmath\ncmath.pi"),
    "aliases": ("from m import a\na()", "from m import b\nb()"),
    "keywords": ("f(key=1)", "f(sep=1)"),
    "constants": ("x = 1", "x = 1.0"),
    "swap": ("def f(a, b): return a - b", "def f(a, b): return b - a"),
    "shared": ("a = 1\nb = 2\nprint(a, a)", "a = 1\nb = 2\nprint(a, b)"),
    "slices": ("a[1:]", "a[:1]"),
    "nesting": ("if a:\n b\n c", "if a:\n b\nc"),
    "global": ("n = 1\ndef f():\n global n\n n = 2", "n = 1\ndef f():\n n = 2"),
    "text": ("x = 'a  b'", "x = 'a b'"),
    "broken": ("def f(: x", "def f(: y"),
}


@pytest.mark.parametrize("case", SAME)
def test_same_up_to_layout_and_own_names(case):
    first, second = SAME[case]
    assert normalise(first) == normalise(second)
    assert distinct([[first, second]]) == [1]


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_where_it_means_something(case):
    first, second = DIFFERENT[case]
    assert normalise(first) != normalise(second)
    assert distinct([[first, second]]) == [2]


HOSTILE = {
    "parentheses": "(" * 100_000,
    "brackets": "[" * 190 + "1 1" + "]" * 190,
    "signs": "-" * 50_000 + "1",
    "sums": "1" + "+1" * 40_000,
    "attributes": "a" + ".b" * 40_000,
    "calls": "f" + "()" * 40_000,
    "elif": "if x:\n pass\n" + "elif x:\n pass\n" * 5_000,
    "lambdas": "lambda:" * 10_000 + "1",
    "indents": "".join(" " * i + "if x:\n" for i in range(400)),
    "statements": "a;" * 50_000,
    "null": "x = 1\0",
    "surrogate": "x = '\ud800'",
    "digits": "9" * 50_000,
    "hex digits": "x = 0x" + "f" * 50_000,
    "escape": "x = '\\d'",
    "quotes": '"""\\' * 2_400,
    "mixed quotes": "'\"" * 4_900,
    "one long line": "x = '" + "a" * 1_000_000 + "'",
    "a megabyte of spaces": " " * 1_000_000,
    "encoding": "# coding: nonsense\nx = 1",
    "empty": "",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_a_form_like_any_other(case):
    text = HOSTILE[case]
    assert normalise(text) == normalise(text + "\n\n")
    assert normalise(text) != normalise(text + "\n2")
    group = [text, text + "\n\n", text + "\n2", "print(1)"]
    assert distinct([group]) == [3]
    assert cpu_seconds(lambda: distinct([group])) < 1


@given(st.text(max_size=60))
def test_any_text_has_a_form(text):
    assert distinct([[text, text, text + "\nx"]]) == [2]


def functions() -> list[str]:
    """Real programs: every function and class of a few modules of the standard library."""
    found = []
    for module in MODULES:
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.append(ast.get_source_segment(source, node) or "")
    assert len(found) > 40
    return [program for program in found if len(program) < MAX_CHARS]


def test_rewriting_a_program_from_its_tree_changes_neither_form_nor_shape():
    """Two programs with one tree are written alike by `unparse`, so equal shapes for a program and
    its rewriting mean that the short cut of `distinct` never splits equal programs."""
    for program in functions():
        rewritten = ast.unparse(ast.parse(program))
        assert normalise(program) == normalise(rewritten)
        assert _shape(program) == _shape(rewritten)


def test_counts_are_those_of_the_forms():
    rng = random.Random(0)
    programs = functions() + [side for pair in SAME.values() for side in pair]
    programs += [side for pair in DIFFERENT.values() for side in pair] + ["x  = (1", "x = (1"]
    for _ in range(6):
        group = rng.choices(programs, k=40)
        group += [program.replace("\n", "\n\n") for program in group[:10]]
        assert distinct([group]) == [len({normalise(program) for program in group})]


def test_shares_and_empty_input():
    assert unique_share(["a = 1"] * 4) == 0.25
    assert distinct([[], ["x"]]) == [0, 1]
    with pytest.raises(ValueError, match="programs is empty"):
        unique_share([])


SOLUTION = """
from collections import deque

def solve(n, edges):
    near = [[] for _ in range(n)]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    seen, best = set(), 0
    for start in range(n):
        queue, size = deque([start]), 0
        while queue:
            node = queue.popleft()
            if node in seen:
                continue
            seen.add(node)
            size += 1
            queue.extend(near[node])
        best = max(best, size)
    return best
"""


def test_many_programs_are_counted_quickly():
    """20,000 programs, a quarter of them renamed, so that they must be parsed, and half different:
    3 s of one core."""
    rng = random.Random(0)

    def variant(i: int) -> str:
        if i % 4 == 0:
            return SOLUTION
        if i % 4 == 1:
            return SOLUTION.replace("near", f"graph{i}")
        return SOLUTION + "\nprint(" + " + ".join(["x"] * rng.randrange(2, 200)) + ")"

    groups = [[variant(i) for i in range(250)] for _ in range(80)]
    counts: list[int] = []
    assert cpu_seconds(lambda: counts.extend(distinct(groups))) < 8
    assert len(counts) == 80
    assert all(50 < count <= 126 for count in counts)
