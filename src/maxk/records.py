"""The data of maxk: problems, tests, verdicts, completions.

Frozen dataclasses; their methods only compute from their fields.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

RewardKind = Literal["continuous", "binary"]
Finish = Literal["stop", "length"]  # "length": truncated at the limit of tokens


_DIGITS = 10_000  # bits of a number from which on Python refuses to write it in decimal


def literal(value: Any) -> str:
    """A plain value as Python source; integers of thousands of digits in hexadecimal.

    Python refuses to write or read more than 4,300 decimal digits.

    >>> literal([1, {"a": (2,)}]), literal(10**5000)[:6]
    ("[1, {'a': (2,)}]", '0x31e2')
    """
    try:
        return repr(value)
    except ValueError:
        pass
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    inside = ", ".join(map(literal, value))
    if isinstance(value, tuple):
        return f"({inside},)"
    if isinstance(value, frozenset):
        return f"frozenset({{{inside}}})"
    return f"[{inside}]" if isinstance(value, list) else f"{{{inside}}}"


def is_long(value: int) -> bool:
    """Whether an integer has too many digits for Python to write it in decimal."""
    return value.bit_length() > _DIGITS


Equality = Literal["strict", "python", "evalplus", "livecodebench"]
OutputEquality = Literal["tokens", "livecodebench"]


def _checked(test: object, **fields: tuple[object, type]) -> None:
    """ValueError that names the first field of a test that has a wrong type."""
    for name, (value, kind) in fields.items():
        if not isinstance(value, kind):
            raise ValueError(
                f"{name}={value!r:.80} of a {type(test).__name__} is a {type(value).__name__}; "
                f"use a {kind.__name__}"
            )


def _checked_tolerance(test: object, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value >= 0):
        raise ValueError(
            f"tolerance={value!r:.80} of a {type(test).__name__} must be a finite number >= 0"
        )


def _checked_equality(test: object, value: Any, known: Any) -> None:
    if value not in get_args(known):
        raise ValueError(
            f"equality={value!r:.80} of a {type(test).__name__} is unknown; "
            f"use one of {', '.join(get_args(known))}"
        )


@dataclass(frozen=True)
class StdinTest:
    """Run the program with `input` on stdin; its stdout must be `output`.

    Compared token by token (runs of blanks are equal); with `tolerance`, tokens for which a number
    with a decimal point or an exponent is expected may differ by that much, relative or absolute;
    with `exact`, character by character up to the line ends. With `equality` "livecodebench" as
    that benchmark does: line by line without the blanks at its ends, and where all tokens of a line
    are numbers, by their values.
    """

    input: str
    output: str
    tolerance: float | None = None
    exact: bool = False
    equality: OutputEquality = "tokens"

    def __post_init__(self) -> None:
        _checked(self, input=(self.input, str), output=(self.output, str), exact=(self.exact, bool))
        if self.tolerance is not None:
            _checked_tolerance(self, self.tolerance)
        _checked_equality(self, self.equality, OutputEquality)
        if self.equality != "tokens" and (self.exact or self.tolerance is not None):
            raise ValueError(
                f"equality={self.equality!r} of a StdinTest goes without tolerance and exact"
            )


@dataclass(frozen=True)
class CallTest:
    """Call `function` with `args`; the result must be `expected`.

    `function` is a name the program defines, or `Class().method`. `equality` says what counts as
    the same: "strict", types and values, where a list is not a tuple and True is not 1; "python",
    what == says; "evalplus" and "livecodebench", what these benchmarks accept. Where a float is
    expected, strict and evalplus let it differ by `tolerance`, relative or absolute.
    """

    function: str
    args: tuple[Any, ...]
    expected: Any
    tolerance: float = 1e-6
    equality: Equality = "strict"

    def __post_init__(self) -> None:
        _checked(self, function=(self.function, str))
        if not isinstance(self.args, list | tuple):
            raise ValueError(f"args={self.args!r:.80} of a CallTest is no tuple; use (value, ...)")
        _checked_tolerance(self, self.tolerance)
        _checked_equality(self, self.equality, Equality)


@dataclass(frozen=True)
class AssertTest:
    """Run `code`, Python statements such as `assert f(2) == 4`, against the program.

    The program provides `function` and the `classes` named, and nothing else: all other names are
    the code's own or Python's. Without `function` it is the one name that the code uses and does
    not define. What the function returns arrives as a plain value; instances of `classes` stay with
    the program, and the code may call their methods and look at their attributes.

    `nodes` is the source of classes whose instances are data, such as nodes of a list or a tree:
    both sides have them, and their instances cross field by field.
    """

    code: str
    function: str | None = None
    classes: tuple[str, ...] = ()
    nodes: str = ""

    def __post_init__(self) -> None:
        _checked(self, code=(self.code, str), nodes=(self.nodes, str))
        if self.function is not None:
            _checked(self, function=(self.function, str))
        if not isinstance(self.classes, tuple) or not all(isinstance(n, str) for n in self.classes):
            raise ValueError(f"classes={self.classes!r:.80} of an AssertTest: use a tuple of names")


Test = StdinTest | CallTest | AssertTest


class Status(StrEnum):
    """The result of one test."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong answer"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output limit"
    RUNTIME_ERROR = "runtime error"
    DID_NOT_COMPILE = "did not compile"


_MOST_TELLING = (  # first
    *(Status.DID_NOT_COMPILE, Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT),
    *(Status.RUNTIME_ERROR, Status.WRONG_ANSWER, Status.PASSED),
)


@dataclass(frozen=True)
class TestResult:
    """One test of one program: its status, a short reason, and the CPU seconds it took."""

    __test__ = False  # not a test class, whatever pytest makes of its name

    status: Status
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The results of one program: its tests in order, and the isolation tier it ran under."""

    tests: tuple[TestResult, ...]
    tier: str

    @property
    def fraction(self) -> float:
        """Share of the tests passed; 0 without tests."""
        passed = sum(test.status is Status.PASSED for test in self.tests)
        return passed / len(self.tests) if self.tests else 0.0

    @property
    def passed(self) -> bool:
        """Whether all tests passed, and there was one."""
        return bool(self.tests) and all(t.status is Status.PASSED for t in self.tests)

    @property
    def status(self) -> str:
        """One word for the verdict: the most telling status among its tests."""
        met = {test.status for test in self.tests}
        return next((status.value for status in _MOST_TELLING if status in met), "no tests")

    def reward(self, kind: RewardKind = "continuous") -> float:
        """The fraction of tests passed, or 1 for all and 0 otherwise (paper, Table 1)."""
        if kind not in ("continuous", "binary"):
            raise ValueError(f"kind={kind!r} is unknown; use 'continuous' or 'binary'")
        return self.fraction if kind == "continuous" else float(self.passed)


@dataclass(frozen=True)
class Problem:
    """One programming problem.

    `tests` are what a program is graded by; they may be a sequence that is decoded when it is first
    used. `examples` are the tests that the prompt shows, graded or not; nothing else of the tests
    may reach the prompt. `entry_point` is the function to write, or None for a program that reads
    stdin. `reference` is a correct program, or None where there is none.
    """

    id: str
    statement: str
    tests: Sequence[Test]
    entry_point: str | None = None
    reference: str | None = None
    difficulty: str | None = None
    origin: str | None = None
    examples: tuple[Test, ...] = ()
    starter: str | None = None  # code the solution has to begin with: a signature, a class
    preamble: str | None = None  # imports that the data set grants every solution
    time_limit: float | None = None  # seconds a test, as the data set says
    tags: tuple[str, ...] = ()
    verbatim: bool = False  # the prompt is the statement and nothing else

    def complete(self, program: str) -> str:
        """The program that is judged: this one, after the preamble if there is one."""
        return (
            f"{self.preamble.rstrip()}\n\n{program}"
            if self.preamble and program.strip()
            else program
        )


@dataclass(frozen=True)
class Completion:
    """One completion of a problem.

    tokens counts the end token too. logprob, of the whole completion, and entropy, the mean per
    token, are in nats, at temperature 1 and without top-p whatever the sampling settings, so that
    runs can be compared. ids are the tokens, with the end token. None: the back end does not say.
    """

    problem: str
    sample: int
    text: str
    tokens: int | None
    finish: Finish
    logprob: float | None = None
    entropy: float | None = None
    ids: tuple[int, ...] | None = field(default=None, repr=False)


def total_tokens(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one of them is unknown.

    >>> total_tokens([3, 4]), total_tokens([3, None])
    (7, None)
    """
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)
