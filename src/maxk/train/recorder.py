"""What is written down of a training: the metrics of each step, and every completion.

Metrics go to TRL, which logs their mean at each of its logging steps (`maxk.train.metrics`). The
completions go into the run's folder (`maxk.train.rollouts`).
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.grade import Graded
from maxk.grade.reward import text_of
from maxk.store.codec import dict_of_verdict
from maxk.store.run import Run
from maxk.train.batches import NOTED, PER_COMPLETION
from maxk.train.logps import vllm_factor
from maxk.train.metrics import evaluation_metrics, group_metrics, unique_share
from maxk.train.rollouts import Batch


class Recorder:
    """Notes of one process of a training.

    note: takes the name and value of a metric. gathered: a tensor of this process to that of all.
    training: whether the model is in training, and not in evaluation, whose time is no step's.
    run: where completions are written by the main process, if they are.
    """

    def __init__(
        self,
        note: Callable[[str, float], None],
        gathered: Callable[[Tensor], Tensor],
        training: Callable[[], bool],
        run: Run | None,
        main: bool,
    ) -> None:
        self._note, self._gathered, self._run, self._main = note, gathered, run, main
        self._training = training
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._texts: list[dict[str, Any]] = []  # this process's completions of the batch
        self._batch: Batch | None = None  # all processes' completions with their weights so far
        self._used: list[dict[str, Any]] = []  # micro-batches trained on since the last collection

    def note(self, name: str, value: float | Tensor) -> None:
        self._note(name, float(value))

    # --- time --------------------------------------------------------------------------------

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time of this to a phase of the step, as `seconds/PHASE` in the metrics."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            if self._training():  # a step after an evaluation begins in its mode
                self._seconds[phase] += time.perf_counter() - begun

    def note_seconds(self) -> None:
        """The phases of a step that is over."""
        seconds, self._seconds = self._seconds, defaultdict(float)
        parts = {name: seconds[name] for name in ("sampling", "verifying", "pre-pass")}
        if "loading" in seconds:  # of weights into another sampler, within the sampling
            parts["loading"] = seconds["loading"]
            parts["sampling"] -= parts["loading"]
        parts["update"] = seconds["step"] - sum(parts.values())
        for name, value in parts.items():
            self.note(f"seconds/{name}", value)

    # --- a batch that was sampled ------------------------------------------------------------

    def note_completions(self, ids: Sequence[Sequence[int]], n: int, device: torch.device) -> None:
        """How many completions of a group are different."""
        # Python hashes tuples of numbers the same way in every process.
        local = torch.tensor([hash(tuple(each)) for each in ids])
        self.note("unique", unique_share(self._gathered(local.to(device)).tolist(), n))

    def note_verdicts(self, functions: Sequence[Any], device: torch.device) -> None:
        """Where TRL does not lend its loggers to reward functions (before 1.0), ask them here."""
        if hasattr(GRPOTrainer, "_log_metric"):
            return
        for function in functions:
            for name, share in (function.shares() if hasattr(function, "shares") else {}).items():
                local = torch.tensor([share], device=device)
                self.note(f"verdict/{name}", self._gathered(local).mean())

    def keep_texts(
        self, functions: Sequence[Any], inputs: Any, prompts: Any, completions: Any
    ) -> None:
        """This process's completions as they are written down, all but rewards and weights."""
        if self._run is None:
            return
        graded = [Graded()] * len(completions)
        for function in functions:
            graded = getattr(function, "graded", graded)
        self._texts = [
            {
                "problem": row.get("problem"),
                "prompt": prompt if isinstance(prompt, str) else as_json(prompt),
                "completion": text_of(completion),
                "conversation": conversation(completion),
                "program": each.program,
                "verdict": json.dumps(dict_of_verdict(each.verdict)) if each.verdict else None,
            }
            for row, prompt, completion, each in zip(
                inputs, prompts, completions, graded, strict=True
            )
        ]

    def note_evaluation(self, rewards_PN: Tensor, k: int | None, full: float | None) -> None:
        """Note the groups that were sampled for evaluation, one by one: TRL logs their mean."""
        for name, values in evaluation_metrics(rewards_PN, k, full).items():
            for value in values:
                self.note(name, value)

    def begin_batch(
        self,
        rewards_PN: Tensor,
        weights_PN: Tensor,
        sampled_at: int,
        k: int | None,
        full: float | None = None,
    ) -> None:
        """Note the groups of a batch; write the one that is done with and begin this one."""
        for name, value in group_metrics(rewards_PN, weights_PN, k, full).items():
            self.note(name, value)
        if self._run is None:
            return
        number = 0
        if self._batch is not None:
            number = self._batch.number + 1 if self._batch.step == sampled_at else 0
            self.write_rollouts()
        texts = cast(list, gather_object(self._texts))
        rewards = [None if r != r else r for r in rewards_PN.flatten().tolist()]  # NaN is none
        texts = [{**text, "reward": reward} for text, reward in zip(texts, rewards, strict=True)]
        self._batch = Batch(sampled_at, number, rewards_PN.shape[-1], texts)

    def write_rollouts(self) -> None:
        """Write the completions that have been sampled last, with what is known of them so far."""
        if self._batch is not None and self._run is not None and self._main:
            self._batch.write(self._run)

    # --- what was trained with ---------------------------------------------------------------

    def use(self, inputs: dict[str, Any]) -> None:
        """A micro-batch was trained on."""
        used = {name: inputs[name] for name in PER_COMPLETION if name in inputs}
        if (factor := vllm_factor(inputs)) is not None:
            used["advantages"] = used["advantages"] * factor
        self._used.append(used)

    def collect(self, iteration: int | None, skipping: bool) -> None:
        """Gather what the micro-batches since the last time were trained with, and note it.

        iteration: of PPO on this batch, from 0; None where one step is made on a batch, so that
        there is no policy lag. skipping: completions without a gradient were left out.
        """
        used, self._used = self._used, []
        if not used:
            return
        names = [name for name in PER_COMPLETION if name in used[0]]
        local = torch.stack([torch.cat([b[name].double() for b in used]) for name in names], dim=1)
        columns = dict(zip(names, self._gathered(local).unbind(dim=1), strict=True))
        rows, weights, ratios = (columns[name] for name in ("row", "advantages", "log_ratio"))
        if iteration is not None:
            lag = ratios[~ratios.isnan()].abs()
            self.note(f"policy_lag/iteration_{iteration + 1}/mean", lag.mean())
            self.note(f"policy_lag/iteration_{iteration + 1}/max", lag.max())
        if skipping:
            self.note("skipped", ratios.isnan().double().mean())
        for name in NOTED:
            if name in columns:
                self.note(f"ratio/{name}", columns[name].nanmean())
        if self._batch is not None:
            self._batch.add(rows.int().tolist(), weights.tolist(), ratios.tolist())

    # --- checkpoints -------------------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        return None if self._batch is None else self._batch.state()

    def restore(self, state: dict[str, Any] | None) -> None:
        self._batch = None if state is None else Batch.of_state(state)


def as_json(messages: Any) -> str:
    """Chat messages; what JSON does not have, such as an image, is said by its kind."""
    return json.dumps(messages, default=lambda value: f"<{type(value).__name__}>")


def conversation(completion: Any) -> str | None:
    """All messages of a completion, if they are more than one text of the model."""
    if isinstance(completion, str):
        return None
    plain = len(completion) == 1 and completion[0].keys() <= {"role", "content"}
    if plain and isinstance(completion[0].get("content"), str):
        return None
    return as_json(completion)
