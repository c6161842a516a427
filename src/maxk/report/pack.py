"""Samples in little room: what the page holds of each problem, compressed, to be opened on demand.

All verdicts are kept. Of the programs, which are most of the bytes, those that fit are kept: up to
`most` different ones of each problem and run, in an order that puts first what a reader looks for.
The texts of a problem lie in one stream, where deflate finds what they share.
"""

import base64
import json
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from maxk.records import AssertTest, CallTest, Problem, Status, StdinTest, Test
from maxk.report.gather import LETTERS, Gathered, RunData, Sample, Task, collector_paused
from maxk.report.suspicious import Tells, flags, tells, worth_parsing

_LETTER_OF = LETTERS | {"no program": "N"}
SHOWN_TESTS = 8  # of a problem, with input and expected output
TEXT = 240  # characters of an input, an output, or a value got
STATEMENT = 6_000  # characters of a statement
PROGRAM = 8_000  # characters of a program


@dataclass(frozen=True)
class Packed:
    """The problems of the page, and what of them was left out."""

    index: list[dict[str, Any]]  # a row of the table each
    payloads: list[str]  # base64 of deflated JSON
    most: int | None  # programs of each problem and run that were kept; None: all
    samples: int
    with_text: int
    programs: int  # different ones; 0 if the runs have none
    kept: int

    @property
    def size(self) -> int:
        return sum(map(len, self.payloads)) + len(json.dumps(self.index))


def pack(gathered: Gathered, budget: int, most: int | None = None) -> Packed:
    """The samples of all runs in about `budget` bytes, or with `most` programs if that is given."""
    if most is not None and most < 0:
        raise ValueError(f"samples={most} must be 0 or more")
    with collector_paused():
        prepared = [_Prepared(task, gathered.runs) for task in gathered.tasks.values()]
        if most is not None:
            return _pack(prepared, most)
        most = _that_fit(prepared, budget)
        packed = _pack(prepared, most)
        while packed.size > budget and most > 1:
            most -= max(1, most // 20)
            packed = _pack(prepared, most)
        return packed


def _that_fit(prepared: Sequence["_Prepared"], budget: int) -> int:
    """How many programs of each problem and run fit, by trying some of the problems."""
    some = prepared[:: max(1, len(prepared) // 20)]
    share = budget * len(some) / max(len(prepared), 1)
    fits, too_many = 1, max((each.different for each in prepared), default=1) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _pack(some, middle).size <= share:
            fits = middle
        else:
            too_many = middle
    return fits


def _pack(prepared: Sequence["_Prepared"], most: int | None) -> Packed:
    payloads = [each.payload(most) for each in prepared]
    return Packed(
        index=[each.row() for each in prepared],
        payloads=[deflated(payload) for payload in payloads],
        most=None if most is None or all(each.different <= most for each in prepared) else most,
        samples=sum(len(samples) for each in prepared for samples in each.samples.values()),
        with_text=sum(
            text >= 0 for each in payloads for run in each["runs"] for text in run["text"]
        ),
        programs=sum(each.programs for each in prepared),
        kept=sum(len(payload["texts"]) for payload in payloads),
    )


def deflated(payload: Any) -> str:
    """JSON, deflated without a header, in base64. Half a surrogate pair becomes an escape."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packer.compress(text.encode("utf-8", "backslashreplace")) + packer.flush()
    return base64.b64encode(data).decode()


class _Prepared:
    """One problem with its samples, ready to be packed with more or fewer programs."""

    def __init__(self, task: Task, runs: Sequence[RunData]) -> None:
        self.task = task
        self.samples = {i: run.samples.get(task.id, []) for i, run in enumerate(runs)}
        self.samples = {i: samples for i, samples in self.samples.items() if samples}
        self.flags = self._flags(tells(task.tests))
        self.orders = {i: self._order(samples) for i, samples in self.samples.items()}
        self.different = max((len(order) for order in self.orders.values()), default=0)
        self.programs = len({text for order in self.orders.values() for text in order if text})
        self.tests = self._chosen_tests()

    def _flags(self, given: Tells) -> dict[str, list[str]]:
        """Reasons to look at programs that pass, by their text."""
        texts = {s.text for samples in self.samples.values() for s in samples if s.passed}
        found = {text: flags(text, given) for text in texts if worth_parsing(text, given)}
        return {text: reasons for text, reasons in found.items() if reasons}

    def _order(self, samples: Sequence[Sample]) -> list[str]:
        """Different programs: flagged ones, then in turn the commonest of each status."""
        counts = Counter(sample.text for sample in samples)
        outcomes: dict[str, dict[str, None]] = {Status.PASSED.value: {}}
        for sample in sorted(samples, key=lambda s: (-s.reward, -counts[s.text])):
            outcomes.setdefault(sample.status, {}).setdefault(sample.text)
        queues = [list(texts) for texts in outcomes.values()]
        longest = max(map(len, queues))
        turns = [queue[i] for i in range(longest) for queue in queues if i < len(queue)]
        return list(dict.fromkeys([*(text for text in turns if text in self.flags), *turns]))

    def _chosen_tests(self) -> list[int]:
        """The tests at which most samples fail first, and the first ones, in order."""
        first: Counter[int] = Counter()
        for samples in self.samples.values():
            for sample in samples:
                first[len(sample.outcomes) - len(sample.outcomes.lstrip("P"))] += 1
        ranked = [i for i, _ in first.most_common() if i < len(self.task.tests)]
        chosen = dict.fromkeys([*ranked[: SHOWN_TESTS - 2], *range(len(self.task.tests))])
        return sorted(list(chosen)[:SHOWN_TESTS])

    def row(self) -> dict[str, Any]:
        """What the table shows."""
        return {
            "id": self.task.id,
            "text": cut(" ".join(self.task.statement.split()), 90),
            "difficulty": self.task.difficulty,
            "runs": {
                i: [
                    sum(s.passed for s in samples),
                    len(samples),
                    _round(max(s.reward for s in samples)),
                ]
                for i, samples in self.samples.items()
            },
            "flagged": sum(s.text in self.flags for each in self.samples.values() for s in each),
        }

    def payload(self, most: int | None) -> dict[str, Any]:
        """All that the viewer shows, as columns: their values compress well."""
        kept = dict.fromkeys(text for order in self.orders.values() for text in order[:most])
        place = {text: i for i, text in enumerate(sorted(kept))}  # neighbours are alike
        outcomes: dict[str, int] = {}
        return {
            "statement": cut(self.task.statement, STATEMENT),
            "tests": [[i, *_test(self.task.tests[i])] for i in self.tests],
            "test_count": self.task.test_count,
            "first_line": self._first_line(),
            "texts": [cut(text, PROGRAM) for text in place],
            "runs": [
                self._columns(i, samples, place, outcomes) for i, samples in self.samples.items()
            ],
            "outcomes": list(outcomes),
        }

    def _first_line(self) -> int:
        """Of a program as it was judged, behind the preamble: errors name lines of that."""
        judged = Problem("", "", (), preamble=self.task.preamble).complete("x")
        return judged.count("\n") + 1

    def _columns(
        self, run: int, samples: Sequence[Sample], place: dict[str, int], outcomes: dict[str, int]
    ) -> dict[str, Any]:
        """The samples of a run. What follows from the outcomes of tests is not written again."""
        text = [place.get(sample.text, -1) for sample in samples]
        outcome = [outcomes.setdefault(run_lengths(s.outcomes), len(outcomes)) for s in samples]
        got = {
            f"{t}/{f}": reasons
            for sample, t, f in zip(samples, text, outcome, strict=True)
            if t >= 0 and any(reasons := self._got(sample))
        }
        columns: dict[str, Any] = {
            "run": run,
            "status": "".join(_LETTER_OF.get(sample.status, "N") for sample in samples),
            "text": text,
            "outcome": outcome,
            "got": got,
            "flags": {j: f for j, s in enumerate(samples) if (f := self.flags.get(s.text))},
        }
        if any(abs(sample.reward - passed_share(sample.outcomes)) > 1e-9 for sample in samples):
            columns["reward"] = [_round(sample.reward) for sample in samples]
        if any(sample.tokens is not None for sample in samples):
            kept = zip(samples, text, strict=True)
            columns["tokens"] = [sample.tokens if t >= 0 else None for sample, t in kept]
        if any(sample.step is not None for sample in samples):
            columns["step"] = [sample.step for sample in samples]
            columns["weights"] = [[_round(x) for x in sample.weights] for sample in samples]
            columns["ratios"] = [[_round(x) for x in sample.log_ratios] for sample in samples]
        return columns

    def _got(self, sample: Sample) -> list[str]:
        """What was got instead, or the error, in the tests that are shown; or in the first."""
        wanted = self.tests or range(min(SHOWN_TESTS, len(sample.outcomes)))
        return [cut(sample.reasons.get(i, "").removeprefix("got "), TEXT) for i in wanted]


def passed_share(outcomes: str) -> float:
    """Of the tests; the reward, unless training made it all or nothing."""
    return outcomes.count("P") / len(outcomes) if outcomes else 0.0


@cache
def run_lengths(outcomes: str) -> str:
    """The outcomes of tests in short.

    >>> run_lengths("PPT")
    '2P1T'
    """
    return "".join(f"{len(list(same))}{letter}" for letter, same in groupby(outcomes))


def cut(text: str, most: int) -> str:
    """The beginning of a text, which says how much is missing.

    >>> cut("abcdef", 4)
    'abcd… (2 more characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _test(test: Test) -> tuple[str, str]:
    """What goes in and what should come out."""
    if isinstance(test, StdinTest):
        return cut(test.input, TEXT), cut(test.output, TEXT)
    if isinstance(test, CallTest):
        arguments = ", ".join(map(repr, test.args))
        return cut(f"{test.function}({arguments})", TEXT), cut(repr(test.expected), TEXT)
    assert isinstance(test, AssertTest)
    return cut(test.code, TEXT), ""


def _round(x: float) -> float | int | None:
    """Four digits are enough to look at; whole numbers without a point; JSON has no infinity."""
    if not math.isfinite(x):
        return None
    short = float(f"{x:.4g}")
    return int(short) if short.is_integer() else short
