"""The findings of the report, as numbers and as sentences."""

from functools import cached_property

from maxk.evaluate import Curve, Evaluation, evaluate, mean_curve
from maxk.report.changes import Effect, Moved, effect, moved
from maxk.report.gather import Gathered
from maxk.report.sentences import comparison, sampling_run, training_run


class Findings:
    """Numbers of all runs. What takes long is computed when first asked for."""

    def __init__(self, gathered: Gathered, untrained: bool = False) -> None:
        self.gathered = gathered
        self.untrained = untrained  # whether the first method is a base model, made by no seed

    @cached_property
    def evaluations(self) -> dict[str, Evaluation]:
        """By name of the run; for k = 1, 2, 4 ... n."""
        return {
            run.name: evaluate(run.stored.rows, groups=run.stored.difficulties)
            for run in self.gathered.sampled
            if run.stored is not None
        }

    @cached_property
    def effects(self) -> list[Effect]:
        """Every later method against the first, the base model."""
        stored = {
            name: [run.stored for run in runs if run.stored is not None]
            for name, runs in self.gathered.methods.items()
        }
        base = next(iter(stored), "")
        return [
            effect(stored[base], runs, (base, other), self.untrained)
            for other, runs in stored.items()
            if other != base
        ]

    @cached_property
    def over_runs(self) -> dict[str, dict[str, Curve]]:
        """Of methods with several runs, the mean over runs by metric; k = 1, 2, 4 ... n.

        The interval is over these runs' like, on the same problems: a band over runs.
        """
        return {
            name: {
                metric: mean_curve([run.stored.rows for run in runs if run.stored], metric)
                for metric in ("max", "pass")
            }
            for name, runs in self.gathered.methods.items()
            if len(runs) > 1
        }

    def moves(self, other: str) -> list[Moved]:
        """How each problem moved from the base model to another method, all its runs together."""
        first = self.gathered.pooled(next(iter(self.gathered.methods)))
        compared = self.gathered.pooled(other)
        return [moved(problem, first, compared) for problem in first.samples]

    @cached_property
    def headline(self) -> list[str]:
        """Two sentences per comparison; about the one run where there is nothing to compare."""
        if self.effects:
            return [comparison(each) for each in self.effects]
        if self.gathered.sampled:
            run = self.gathered.sampled[0]
            return [sampling_run(run.name, self.evaluations[run.name])]
        return [training_run(run) for run in self.gathered.trained]
