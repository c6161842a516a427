"""How many different programs there are among samples, up to layout, comments and names.

Two programs count as the same if they differ only in whitespace, comments, docstrings, redundant
parentheses and the names of their own variables, arguments, functions and classes. Names that mean
something outside stay: builtins, imports, attributes, methods and keyword arguments.

Programs come from models, so nothing about them can be trusted. They are parsed, never run. Text
over MAX_CHARS, or that Python cannot parse, is compared as text with its whitespace evened out.
CPython 3.11 to 3.13 answer the nastiest nesting with an exception, in a thread with a stack of 1 MB
or more (the default is larger); below 256 KB its parser overflows the stack.
"""

import ast
import keyword
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from maxk.evaluate.canonical import canonical

MAX_CHARS = 20_000  # no text that is parsed takes longer than a tenth of a second


def normalise(program: str) -> str:
    """A canonical form: equal for programs that differ only in layout, comments and own names.

    It is made for comparing, not for reading. Never raises, whatever the text.

    >>> a = "def f(xs):  # sum\\n    return sum(x for x in xs)"
    >>> b = "def total(values): return (sum(v for v in values))"
    >>> normalise(a) == normalise(b)
    True
    >>> normalise(a) == normalise(a.replace("sum(", "max("))
    False
    """
    if len(program) <= MAX_CHARS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # odd escapes in a program are not our news
                tree = ast.parse(program)
            return canonical(tree)
        # ValueError: null bytes, lone surrogates, integers too long to print. MemoryError and
        # RecursionError: nesting beyond what the parser takes.
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            pass
    lines = (" ".join(line.split()) for line in re.split(r"[\r\n]+", program))
    return "text:" + "\n".join(line for line in lines if line)


def distinct(programs: Iterable[Sequence[str]]) -> list[int]:
    """How many different programs each problem has.

    Equal to counting the normal forms, but only programs of a problem that share their `_shape` are
    parsed: most of those a model writes differ there already, and parsing is ten times the work.

    >>> distinct([["x = 1", "y = 1", "y = 2"], ["print()"]])
    [2, 1]
    """
    counts = []
    for group in programs:
        texts = set(group)
        if max(map(len, texts), default=0) > MAX_CHARS:
            counts.append(len({normalise(text) for text in texts}))
            continue
        shapes = {text: _shape(text) for text in texts}
        shared = Counter(shapes.values())
        alone = sum(number == 1 for number in shared.values())
        crowd = {normalise(text) for text, shape in shapes.items() if shared[shape] > 1}
        counts.append(alone + len(crowd))
    return counts


def unique_share(programs: Sequence[str]) -> float:
    """Different programs among all of them, from 1/n (all the same) to 1.

    >>> unique_share(["x = 1", "y = 1", "y = 2", "y=2"])
    0.5
    """
    if not programs:
        raise ValueError("programs is empty; pass at least one program")
    return distinct([programs])[0] / len(programs)


_HIDDEN = re.compile(
    r"""
    "(?: ""(?: [^"\\] | \\. | "(?!"") )*+\"{3} | (?: [^"\\\r\n] | \\. )*+" )
    | '(?: ''(?: [^'\\] | \\. | '(?!'') )*+'{3} | (?: [^'\\\r\n] | \\. )*+' )
    | \#[^\r\n]*+
    | [0-9](?<!\w.)(?: [xXoObB][\da-fA-F_]++ | [\d_]*+\.?[\d_]*+(?:[eE][-+]?\d[\d_]*+)? )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = "-+*/%@&|^~<>=![{"
_SPACES = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
_KEYWORDS = {word: word for word in keyword.kwlist if word != "else"} | {"elif": "if"}


def _shape(program: str) -> Hashable:
    """How often each operator, opening bracket and keyword occurs: the same for equal programs.

    Left out is what programs with the same normal form may write differently: names, numbers,
    strings, comments, parentheses, commas, colons, and `else`, as `elif` is an `if` inside `else`.
    From Python 3.12 on, an f-string may hold its own quotes; what stands between them counts, so
    programs that differ only in such quotes may be taken for different ones.
    """
    bare = _HIDDEN.sub(" ", program)
    words = filter(None, map(_KEYWORDS.get, bare.translate(_SPACES).split()))
    return tuple(map(bare.count, _OPERATORS)), " ".join(sorted(words))
