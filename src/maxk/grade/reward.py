"""The verdict as a reward: a function with the signature TRL's trainers call.

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

from maxk.grade.extract import program_for, program_of
from maxk.records import Problem, RewardKind, Status, Test, Verdict
from maxk.store.codec import tests_from_json
from maxk.verify.judge import Verifier


class UnitTestReward:
    """The share of a problem's unit tests that a completion's program passes.

    kind: "continuous" is that share; "binary" is 1 for all of them and 0 otherwise. A completion
    without a program scores 0; of equal programs for the same tests one is run. `verdicts` holds
    those of the last call, in order, None for a completion without a program; where TRL lends its
    loggers, the share of each status and the verdict of each completion are logged.
    """

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
        self.verdicts: list[Verdict | None] = []
        self.__name__ = f"unit_tests_{kind}"  # the name under which TRL logs it
        self._started: tuple[Any, Future[list[Verdict | None]]] | None = None

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
            self.verdicts = started[1].result()
        else:
            self.verdicts = self._judge(*asked)
        if log_metric is not None:
            for name, share in self.shares().items():
                log_metric(f"verdict/{name}", share)
        if log_extra is not None:
            log_extra("verdict", [summary(verdict) for verdict in self.verdicts])
        return [0.0 if v is None else v.reward(self.kind) for v in self.verdicts]

    def start(
        self,
        completions: Sequence[Any],
        tests: Sequence[Any] | None = None,
        problem: Sequence[str] | None = None,
        **_: Any,
    ) -> None:
        """Begin to judge in another thread; a call with the same arguments waits for the result.

        For a trainer that has other things to do between sampling and scoring.
        """
        asked = (list(completions), tests, problem)
        pool = ThreadPoolExecutor(1)
        self._started = (asked, pool.submit(self._judge, *asked))
        pool.shutdown(wait=False)

    def _judge(
        self, completions: list[Any], tests: Sequence[Any] | None, problem: Sequence[str] | None
    ) -> list[Verdict | None]:
        texts = [text_of(completion) for completion in completions]
        if self.problems is not None and problem is not None:
            asked = [self.problems[name] for name in problem]
            programs = [program_for(p, text) for p, text in zip(asked, texts, strict=True)]
            wanted = [p.tests for p in asked]
        else:
            programs = [program_of(text) for text in texts]
            wanted = self._read(tests)
        if len(wanted) != len(completions):
            raise ValueError(f"{len(completions)} completions and tests for {len(wanted)}")
        alike: dict[tuple[str, int], list[int]] = {}  # equal programs for the same tests
        for i, (program, own) in enumerate(zip(programs, wanted, strict=True)):
            if program.strip():
                alike.setdefault((program, id(own)), []).append(i)
        firsts = [places[0] for places in alike.values()]
        judged = self.verifier.judge([(programs[i], wanted[i]) for i in firsts])
        verdicts: list[Verdict | None] = [None] * len(programs)
        for places, verdict in zip(alike.values(), judged, strict=True):
            for i in places:
                verdicts[i] = verdict
        return verdicts

    def shares(self) -> dict[str, float]:
        """Of the last call: how many of all tests met each fate, and completions without code."""
        fates = Counter(test.status for v in self.verdicts if v is not None for test in v.tests)
        total = max(fates.total(), 1)
        shares = {status.value.replace(" ", "_"): fates[status] / total for status in Status}
        shares["no_program"] = self.verdicts.count(None) / max(len(self.verdicts), 1)
        return shares

    @staticmethod
    def _read(tests: Sequence[Any] | None) -> list[Sequence[Test]]:
        if tests is None:
            raise ValueError(
                "no column `tests` in the data set; add one (maxk.store.codec.tests_to_json), or a "
                "column `problem` and UnitTestReward(verifier, problems={id: problem})"
            )
        read = functools.cache(tests_from_json)  # the completions of a prompt share their tests
        return [read(x) if isinstance(x, str) else tests_from_json(x) for x in tests]


def text_of(completion: Any) -> str:
    """The text of a completion: a string, or chat messages, of which the last one counts."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, list):  # parts, as multimodal templates have them
        content = "".join(part.get("text", "") for part in content)
    return content or ""


def summary(verdict: Verdict | None) -> str:
    """`7/10 passed, 2 wrong answer, 1 timeout`, for a table."""
    if verdict is None:
        return "no program"
    fates = Counter(test.status for test in verdict.tests)
    rest = [f"{n} {status.value}" for status, n in fates.items() if status is not Status.PASSED]
    return ", ".join([f"{fates[Status.PASSED]}/{len(verdict.tests)} passed", *rest])
