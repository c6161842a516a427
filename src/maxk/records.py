"""The data of maxk: problems, tests, verdicts, completions.

Frozen dataclasses; their methods only compute from their fields.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

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


@dataclass(frozen=True)
class StdinTest:
    """Run the program with `input` on stdin; its stdout must be `output`.

    Compared token by token (runs of whitespace are equal); with `tolerance`, tokens that are
    decimal numbers may differ by that much, relative or absolute; with `exact`, character by
    character up to the line ends.
    """

    input: str
    output: str
    tolerance: float | None = None
    exact: bool = False


@dataclass(frozen=True)
class CallTest:
    """Call `function` with `args`; the result must be `expected`, in type and value.

    `function` is a name the program defines, or `Class().method`. Floats may differ by `tolerance`,
    relative or absolute; a list is not a tuple and True is not 1.
    """

    function: str
    args: tuple[Any, ...]
    expected: Any
    tolerance: float = 1e-6


@dataclass(frozen=True)
class AssertTest:
    """Run `code`, Python statements such as `assert f(2) == 4`, against the program.

    Names that the code does not define are Python's own first and the program's second, so that a
    program cannot replace `abs` in its test. Where the function under test has such a name itself,
    say so in `function`.
    """

    code: str
    function: str | None = None


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
