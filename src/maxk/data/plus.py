"""EvalPlus: MBPP+ and HumanEval+, with many more inputs than the originals.

The hub has them as test programs that hold the expected results. EvalPlus's own release, a .jsonl
file, has inputs only: the right result is what the reference returns. The reference is a
stranger's program, so it runs in the jails of `maxk.verify`: when the tests of a problem are first
used, or for many problems at once through `expected_values`. The contracts in the release say which
inputs are valid; all that are published are, so nothing is to be done about them.

A result is compared as EvalPlus does: equal to the expected one in Python, or else numpy's allclose
within `atol`; for a float or a flat list of floats 1e-6 where that is 0. Tasks for which EvalPlus
accepts more have their rules in `plus_rules`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from maxk.data.base import Account, LazyTests, Row
from maxk.data.functions import before, called_function, humaneval
from maxk.data.plus_rules import HUMANEVAL_RULES, MBPP_ANSWERS, MBPP_RULES, Rule, restored
from maxk.records import AssertTest, CallTest, Problem, Status, Test, TestResult, literal
from maxk.verify import Verifier


def mbpp_plus(row: Row, account: Account) -> Problem | None:
    """A row of evalplus/mbppplus or of the release MbppPlus.jsonl.

    Nothing is shown but what the prompt itself has: in the release an assert, on the hub none.
    """
    if row.has("base_input"):
        number = int(row.text("task_id").removeprefix("Mbpp/"))
        inputs = _Inputs.of(row, number, row.text("canonical_solution"), MBPP_RULES.get(number))
        answer = MBPP_ANSWERS.get(number, inputs.answer)
        inputs = replace(inputs, restore=partial(restored, number), answer=answer)
        return _problem(row, account, inputs)
    if not row.has("test"):
        return account.drop("no tests")
    reference = row.text("code")
    function = called_function(row, row.get("test_list", list), reference)
    imports = "".join(f"{line}\n" for line in row.get("test_imports", list, []))
    return Problem(
        id=row.id(row.get("task_id", int)),
        statement=row.text("prompt"),
        tests=(AssertTest(imports + row.text("test"), function),),
        entry_point=function,
        reference=reference,
    )


def humaneval_plus(row: Row, account: Account) -> Problem | None:
    """A row of evalplus/humanevalplus or of the release HumanEvalPlus.jsonl."""
    if not row.has("base_input"):
        return humaneval(row, account)
    number = int(row.text("task_id").removeprefix("HumanEval/"))
    program = row.text("prompt") + row.text("canonical_solution")
    inputs = _Inputs.of(row, number, program, HUMANEVAL_RULES.get(number))
    problem = _problem(row, account, inputs)
    granted = before(row.text("prompt"), row.text("entry_point"))
    return problem and replace(problem, starter=problem.statement, preamble=granted)


def expected_values(
    problems: Sequence[Problem], verifier: Verifier
) -> tuple[list[Problem], Account]:
    """Have the references answer for all problems, with the jails of one verifier.

    Problems with other tests stay as they are. An input on which the reference fails, because it
    takes more than the limits give, makes no test; this is noted. A problem left without any test
    is dropped; `Account.bad` names it.
    """
    kept, account = [], Account()
    for problem in problems:
        if isinstance(problem.tests, PlusTests):
            try:
                problem.tests.answered(verifier)
            except ReferenceFailed as error:
                account.drop("reference fails on all inputs")
                account.bad.append(str(error))
                continue
            for reason, count in problem.tests.left_out.items():
                account.noted[f"inputs left out, reference: {reason}"] += count
        kept.append(problem)
    account.kept = len(kept)
    return kept, account


class ReferenceFailed(ValueError):  # noqa: N818
    """A reference gave no plain result for any input of its own problem."""


@dataclass(frozen=True)
class _Inputs:
    """The inputs of a problem, and all it takes to make tests of them."""

    problem: str
    program: str
    function: str
    given: list[list[Any]]
    tolerance: float
    rule: Rule | None
    restore: Callable[[list[Any]], list[Any]] = list
    answer: str = "{}"  # what to keep of a result

    @staticmethod
    def of(row: Row, number: int, program: str, rule: Rule | None) -> "_Inputs":
        # One task has {} for the list of its further inputs.
        given = [*row.get("base_input", list), *row.get("plus_input", (list, dict), [])]
        tolerance = float(row.get("atol", (int, float), 0))
        return _Inputs(row.id(number), program, row.text("entry_point"), given, tolerance, rule)

    def tests(self, verifier: Verifier) -> tuple[list[Test], Counter[str]]:
        """The tests, and the inputs that the reference fails on, counted by how it does."""
        inputs = [tuple(self.restore(args)) for args in self.given]
        values, failures = self.returned_values(inputs, verifier)
        if not values:
            reasons = ", ".join(failures)
            raise ReferenceFailed(f"{self.problem}: the reference fails on all inputs: {reasons}")
        same = self.tolerance, "evalplus"
        plain = [CallTest(self.function, args, value, *same) for args, value in values]
        if self.rule is None:
            return list(plain), failures
        code = "inf, nan = float('inf'), float('nan')\ngot = {}(*{})\n{}\n"
        codes = [code.format(t.function, literal(t.args), self.rule(t)) for t in plain]
        return [AssertTest(code, self.function) for code in codes], failures

    def returned_values(
        self, inputs: Sequence[tuple[Any, ...]], verifier: Verifier
    ) -> tuple[list[tuple[tuple[Any, ...], Any]], Counter[str]]:
        """Inputs with what the reference returns, in order, and its failures."""
        call = self.answer.format(f"{self.function}(*args)")
        program = f"{self.program}\n\ndef _answer(*args):\n    return {call}\n"
        values, failures = [], Counter[str]()
        for args, value in zip(inputs, verifier.call(program, "_answer", inputs), strict=True):
            if isinstance(value, TestResult):
                odd = (
                    value.status is Status.WRONG_ANSWER
                )  # an answer, but none that can leave a jail
                failures["result too large or not plain" if odd else value.status.value] += 1
            else:
                values.append((args, value))
        return values, failures


class PlusTests(LazyTests):
    """Tests whose expected results are yet to be had from the reference."""

    def __init__(self, inputs: _Inputs) -> None:
        super().__init__(self._alone)
        self._inputs = inputs
        self.left_out: Counter[str] = Counter()  # inputs that the reference fails on, by how

    def answered(self, verifier: Verifier) -> tuple[Test, ...]:
        """The tests, with the jails of this verifier."""
        if not self.decoded:
            self._decode = partial(self._answered, verifier)
        return self.all()

    def _answered(self, verifier: Verifier) -> list[Test]:
        tests, self.left_out = self._inputs.tests(verifier)
        return tests

    def _alone(self) -> list[Test]:
        with Verifier(workers=1) as verifier:
            return self._answered(verifier)


def _problem(row: Row, account: Account, inputs: _Inputs) -> Problem | None:
    if not inputs.given:
        return account.drop("no tests")
    return Problem(
        id=inputs.problem,
        statement=row.text("prompt"),
        tests=PlusTests(inputs),
        entry_point=inputs.function,
        reference=inputs.program,
    )
