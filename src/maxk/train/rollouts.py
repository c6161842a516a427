"""Every completion of a training run with its reward, verdict, weights and ratios, in parquet.

A part of the table `rollouts` is one batch of completions, named after the optimiser step at which
it was sampled. Weights and log-ratios are lists: one entry per time the completion was trained on.
Where it was left out of the loss (skip_zero_variance) its weight is 0 and there is no log-ratio.
"""

import math
from typing import Any

import pyarrow as pa

from maxk.store.run import Run
from maxk.store.schemas import schema_of

TABLE = "rollouts"
SCHEMA = schema_of(TABLE)


class Batch:
    """The completions of one batch, collected until the next one is sampled."""

    def __init__(self, step: int, number: int, n: int, texts: list[dict[str, Any]]) -> None:
        self.step, self.number, self.n = step, number, n
        self.texts = texts  # problem, prompt, completion, reward, verdict; in the order of `row`
        self.weights: list[list[float]] = [[] for _ in texts]
        self.log_ratios: list[list[float]] = [[] for _ in texts]

    def add(self, rows: list[int], weights: list[float], log_ratios: list[float]) -> None:
        """Note what completions were trained with."""
        for row, weight, ratio in zip(rows, weights, log_ratios, strict=True):
            self.weights[row].append(weight)
            if not math.isnan(ratio):
                self.log_ratios[row].append(ratio)

    def write(self, run: Run) -> None:
        rows = [
            {
                "step": self.step,
                "group": i // self.n,
                "sample": i % self.n,
                **text,
                "weights": self.weights[i],
                "log_ratios": self.log_ratios[i],
            }
            for i, text in enumerate(self.texts)
        ]
        part = f"step-{self.step:07d}" + f"-{self.number}" * bool(self.number)
        run.write(TABLE, part, pa.Table.from_pylist(rows, SCHEMA))

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return dict(vars(self))

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> "Batch":
        batch = cls(state["step"], state["number"], state["n"], state["texts"])
        batch.weights, batch.log_ratios = state["weights"], state["log_ratios"]
        return batch


def forget(run: Run, after: int) -> None:
    """Drop the batches of steps that will be made again."""
    for part in run.parts(TABLE):
        if int(part.split("-")[1]) >= after:
            run.remove(TABLE, part)
