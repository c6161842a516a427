"""Which problems can be sampled, known before a model is loaded and anything is written."""

from collections.abc import Sequence

from maxk.cli.console import console, say_left_out
from maxk.data import expected_values
from maxk.data.plus import PlusTests
from maxk.pocket import NAME as POCKET
from maxk.records import Problem
from maxk.sample import Backend
from maxk.store.codec import tests_to_json
from maxk.verify import Verifier

_NAMED = 3


def usable(
    problems: Sequence[Problem],
    model: str,
    backend: Backend,
    variants: Sequence[str] = (),
    *,
    skip: bool = False,
    allow_unsafe: bool = False,
) -> list[Problem]:
    """The problems that have tests and whose prompts fit the model.

    The others are left out and named if `skip` says so, and are an error otherwise.
    """
    fits = list(problems) if backend == "openai" else fitting(problems, model, variants, skip)
    kept, bad = with_tests(fits, allow_unsafe)
    if bad and not skip:
        raise ValueError("\n  ".join([f"{len(bad)} problems have no usable tests:", *bad]) + _SKIP)
    say_left_out(bad)
    return kept


_SKIP = "\nleave them out with --skip"


def fitting(
    problems: Sequence[Problem], model: str, variants: Sequence[str], skip: bool
) -> list[Problem]:
    """The problems whose prompts fit the model."""
    from maxk.sample.models import found, too_long

    with found(model):
        pass
    positions, long = too_long(model, problems, variants)
    fits = [problem for problem in problems if problem.id not in long]
    if long and not (skip and fits):
        raise ValueError(refusal(model, positions, long, bool(fits)))
    say_left_out(
        [f"{name}: its prompt has {n} tokens, {model} {positions}" for name, n in long.items()]
    )
    return fits


def with_tests(
    problems: Sequence[Problem], allow_unsafe: bool = False
) -> tuple[list[Problem], list[str]]:
    """Problems whose tests are there, with what was left out and why.

    The tests of EvalPlus's release have to be made: its references say what is right.
    """
    waiting = sum(isinstance(p.tests, PlusTests) and not p.tests.decoded for p in problems)
    if not waiting:
        return list(problems), []
    console.print(f"running the references of {waiting} problems for what is right")
    with Verifier(allow_unsafe=allow_unsafe) as verifier:
        answered, account = expected_values(problems, verifier)
    kept, bad = [], account.bad
    for problem in answered:
        try:
            tests_to_json(problem.tests)
            kept.append(problem)
        except ValueError as error:  # a run and a file could not hold them
            bad.append(f"{problem.id}: {error}")
    return kept, bad


def refusal(model: str, positions: int, long: dict[str, int], some_fit: bool) -> str:
    """What is said of prompts that do not fit, and what to do."""
    name, tokens = next(iter(long.items()))
    what = f"the prompt of {name} has {tokens} tokens"
    if len(long) > 1:
        named = ", ".join(f"{name} ({n} tokens)" for name, n in list(long.items())[:_NAMED])
        more = f" and {len(long) - _NAMED} more" if len(long) > _NAMED else ""
        what = f"{len(long)} prompts are too long, {named}{more}"
    fix = "leave them out with --skip, or use another model" if some_fit else "use another model"
    if model == POCKET:
        fix += "; pocket is for --data pocket, and for starter/133 to starter/140"
    return f"{what}, and {model} has {positions} positions; {fix}"
