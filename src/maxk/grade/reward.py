"""The verdict as a reward: a function with the signature that TRL's trainers call.

    with Verifier() as verifier:
        reward = UnitTestReward(verifier)
        GRPOTrainer(model, reward_funcs=reward, train_dataset=dataset, ...)

The data set has a column `tests` (JSON text, `maxk.store.codec.tests_to_json`); or a column
`problem` with ids, and the reward is given the problems by id.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from maxk.grade.grading import NO_PROGRAM, Graded, grade, verdict_counts
from maxk.records import Problem, RewardKind, Status, Verdict
from maxk.store.codec import tests_from_json
from maxk.verify import Verifier


class UnitTestReward:
    """The share of a problem's unit tests that a completion's program passes.

    kind: "continuous" is that share; "binary" is 1 for all of them and 0 otherwise. A completion
    without a program scores 0. `graded` holds the last call's completions with program and verdict,
    in order; where TRL lends its loggers, the share of each status and the verdict of each
    completion are logged. `full_reward` is what a completion gets that passes all tests.
    """

    full_reward = 1.0

    def __init__(
        self,
        verifier: Verifier,
        problems: Mapping[str, Problem] | None = None,
        kind: RewardKind = "continuous",
    ) -> None:
        if kind not in ("continuous", "binary"):
            raise ValueError(f"kind={kind!r} is unknown; use 'continuous' or 'binary'")
        self.verifier, self.problems = verifier, problems
        self.kind: RewardKind = kind
        self.graded: list[Graded] = []
        self.__name__ = f"unit_tests_{kind}"  # the name under which TRL logs it
        self._started: tuple[Any, Future[list[Graded]]] | None = None

    def __call__(
        self,
        completions: Sequence[Any],
        tests: Sequence[Any] | None = None,
        problem: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> list[float | None]:  # never None; the type is TRL's
        """A reward for every completion. The other columns and arguments of TRL are not used."""
        asked = (list(completions), tests, problem)
        started, self._started = self._started, None
        if started is not None and started[0] == asked:
            self.graded = started[1].result()
        else:
            self.graded = self._grade(*asked)
        if log_metric is not None:
            for name, share in self.shares().items():
                log_metric(f"verdict/{name}", share)
        if log_extra is not None:
            log_extra("verdict", [summary(each.verdict) for each in self.graded])
        return [each.reward(self.kind) for each in self.graded]

    def start(
        self,
        completions: Sequence[Any],
        tests: Sequence[Any] | None = None,
        problem: Sequence[str] | None = None,
        **_: Any,
    ) -> None:
        """Begin to grade in another thread; a call with the same arguments waits for the result.

        For a trainer that has other things to do between sampling and scoring.
        """
        asked = (list(completions), tests, problem)
        pool = ThreadPoolExecutor(1)
        self._started = (asked, pool.submit(self._grade, *asked))
        pool.shutdown(wait=False)

    def shares(self) -> dict[str, float]:
        """Of the last call: the share of tests with each status, and completions without code."""
        return verdict_counts(self.graded)

    def _grade(
        self, completions: list[Any], tests: Sequence[Any] | None, problem: Sequence[str] | None
    ) -> list[Graded]:
        if self.problems is not None and problem is not None:
            asked = [self.problems[name] for name in problem]
        else:
            asked = _problems_with(tests)
        if len(asked) != len(completions):
            raise ValueError(f"{len(completions)} completions and tests for {len(asked)}")
        texts = map(text_of, completions)
        return grade(list(zip(asked, texts, strict=True)), self.verifier)


def _problems_with(tests: Sequence[Any] | None) -> list[Problem]:
    """A problem for each entry of the column `tests`; equal texts are read once."""
    if tests is None:
        raise ValueError(
            "no column `tests` in the data set; add one (maxk.store.codec.tests_to_json), or a "
            "column `problem` and UnitTestReward(verifier, problems={id: problem})"
        )

    def problem(given: Any) -> Problem:
        return Problem("", "", tests_from_json(given))

    read = functools.cache(problem)  # the completions of a prompt share their tests
    return [read(given) if isinstance(given, str) else problem(given) for given in tests]


def text_of(completion: Any) -> str:
    """The text of a completion: a string, or of chat messages the model's last that has text.

    >>> text_of([{"role": "assistant", "content": "2"}, {"role": "tool", "content": "ok"}])
    '2'
    """
    if isinstance(completion, str):
        return completion
    said = (message for message in reversed(completion) if message.get("role") == "assistant")
    return next(filter(None, map(content_of, said)), "")


def content_of(message: Mapping[str, Any]) -> str:
    """The text of a message, which is None beside tool calls and a list in multimodal templates."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def summary(verdict: Verdict | None) -> str:
    """`7/10 passed, 2 wrong answer, 1 timeout`, for a table."""
    if verdict is None:
        return NO_PROGRAM
    counts = Counter(test.status for test in verdict.tests)
    rest = [f"{n} {status.value}" for status, n in counts.items() if status is not Status.PASSED]
    return ", ".join([f"{counts[Status.PASSED]}/{len(verdict.tests)} passed", *rest])
