"""The findings in sentences, two for each comparison or run."""

from maxk.evaluate import Evaluation
from maxk.report.changes import Change, Effect
from maxk.report.gather import RunData
from maxk.report.progress import Part, group_size, training_parts


def comparison(found: Effect) -> str:
    """The answer in two sentences."""
    one, large = found.changes[0], found.changes[-1]
    first = f"Against {found.base}, {found.other} {_verb(one)} on {found.problems} problems."
    if len(found.changes) == 1:
        return f"{first[:-1]}; {_unit(found)}."
    name = f"max@{large.k}"
    if large.direction > 0:
        second = f"With the best of {large.k} samples it gains {_amount(large, name)}"
    elif large.direction < 0:
        second = f"With the best of {large.k} samples it loses {_amount(large, name)}"
    else:
        second = (
            f"With the best of {large.k} samples no clear difference is left: {name} goes from "
            f"{large.base:.3f} to {large.other:.3f} ({_signed(large)})"
        )
    return f"{first} {second}{_crossing_clause(found)}; {_unit(found)}."


def _unit(found: Effect) -> str:
    """What the intervals cover."""
    base, other = found.runs
    if found.by_run:
        first = f"{base} of {found.base}, " if base > 1 else ""
        return f"intervals cover other runs ({first}{other} of {found.other}), problems and samples"
    if base == other == 1:
        return "one run each says nothing about another run of the same method"
    single = found.base if base == 1 else found.other
    return f"one run of {single} says nothing about another run of it"


def _verb(change: Change) -> str:
    name = f"max@{change.k}"
    if change.direction:
        verb = "raises" if change.direction > 0 else "lowers"
        return (
            f"{verb} {name} by {abs(change.value):.3f} (95 % interval {_interval(change)}), "
            f"from {change.base:.3f} to {change.other:.3f},"
        )
    return (
        f"leaves {name} about unchanged, from {change.base:.3f} to {change.other:.3f} "
        f"({_signed(change)}),"
    )


def _amount(change: Change, name: str) -> str:
    return (
        f"{abs(change.value):.3f} ({_interval(change)}), {name} going from {change.base:.3f} "
        f"to {change.other:.3f}"
    )


def _interval(change: Change) -> str:
    """Of the size of the change, so that both ends are positive."""
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{low:.3f} to {high:.3f}"


def _signed(change: Change) -> str:
    return f"{signed(change.value)}, 95 % interval {signed(change.low)} to {signed(change.high)}"


def signed(x: float) -> str:
    """With a minus that is as wide as the plus, and nothing below zero that prints as zero.

    >>> signed(0.25), signed(-0.0001)
    ('+0.250', '+0.000')
    """
    return f"{round(x, 3) + 0.0:+.3f}".replace("-", "\N{MINUS SIGN}")


def _crossing_clause(found: Effect) -> str:
    at, one, large = found.crossing, found.changes[0], found.changes[-1]
    if at is None:
        return "; the curves do not cross" if one.value * large.value > 0 else ""
    better = found.base if large.value < 0 else found.other
    often = "cross and cross back, the last time" if at.back else "cross"
    text = f"; the curves {often} at k = {at.k:.0f}"
    if at.high is not None:
        return (
            f"{text}, and from k = {at.high} on {better} is the one to sample from (95 % band of "
            "all k together)"
        )
    return f"{text}, but at no k beyond it can the two be told apart"


def sampling_run(name: str, found: Evaluation) -> str:
    """Two sentences on a run that is compared with nothing."""
    one, most = found.max.points[0], found.max.points[-1]
    first = (
        f"{name} has max@1 = {one.value:.3f} (95 % interval {one.low:.3f} to {one.high:.3f}) on "
        f"{found.max.problems} problems."
    )
    if most.k == 1:
        return first
    return (
        f"{first} The best of {most.k} samples reaches {most.value:.3f} ({most.low:.3f} to "
        f"{most.high:.3f}), and {found.coverage:.0%} of the problems are solved at least once."
    )


def training_run(run: RunData) -> str:
    """Two sentences on a training run by itself."""
    parts = training_parts(run)
    if parts is None:
        logged = [line for line in run.metrics if "reward" in line]
        if not logged:
            return f"{run.name} has no completions yet."
        first, last = logged[0], logged[-1]
        return (
            f"In {run.name} the mean reward of a sample went from {first['reward']:.3f} in step "
            f"{first['step']} to {last['reward']:.3f} in step {last['step']}. Its completions were "
            "not stored, so there is no interval."
        )
    (first, last), n = parts, group_size(run)
    done = "" if run.finished else " so far"
    return (
        f"In {run.name} the mean reward of a sample went{done} from {_ends(first.one)} in "
        f"{_steps(first)} to {_ends(last.one)} in {_steps(last)}. The best of {n} samples went "
        f"from {_ends(first.best)} to {_ends(last.best)}, on the problems of those steps, which "
        "are not the same ones."
    )


def _steps(part: Part) -> str:
    first, last = part.steps
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _ends(figure: tuple[float, float, float]) -> str:
    value, low, high = figure
    return f"{value:.3f} ({low:.3f} to {high:.3f})"
