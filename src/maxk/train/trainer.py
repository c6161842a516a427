"""TRL's GRPO trainer with the advantages of max@k.

TRL computes advantages inside `_generate_and_score_completions`; here they are replaced after it.
The off-policy methods need the ratio of every sample of a group to the policy that sampled it, and
need it before each optimiser step. TRL spreads a group over micro-batches and processes. So one
pass without gradients is made then over all buffered micro-batches, the ratios are gathered, and
the weights are written back to where TRL reads its advantages. Where micro-batches can hold whole
groups they are made to, and the weights come from the forward pass of the loss itself. The ratio is
part of these weights, so TRL's own is made 1 by taking `old_per_token_logps` away: its gradient is
then weight times grad log pi. With trust_region="token" they are given back for the tokens that
have moved too far, which TRL then clips.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import trl.trainer.utils
from accelerate.utils import DistributedType, gather_object, send_to_device
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators import METHODS, advantages, trust_region
from maxk.grade import Graded
from maxk.grade.reward import text_of
from maxk.store.codec import dict_of_verdict
from maxk.store.run import Run
from maxk.train.arithmetic import arithmetic, whole_groups
from maxk.train.average import AverageWeights, KeepStart
from maxk.train.batches import (
    PER_COMPLETION,
    START,
    log_ratio,
    old_logps,
    put_back,
    regrouped,
    rows_of,
)
from maxk.train.config import MaxKConfig
from maxk.train.finite import refuse_infinite, without_cudnn
from maxk.train.metrics import effective_share, group_metrics, unique_share
from maxk.train.packing import shared_logps
from maxk.train.reference import CatchUp
from maxk.train.rewards import named, start_early
from maxk.train.rollouts import Batch

_KEPT = ("_step", "_weighed_at", "_weighed_with", "_sampled_at")  # in checkpoints

_SPREAD = (DistributedType.FSDP, DistributedType.DEEPSPEED)  # a weight over several processes

Columns = dict[str, Tensor]  # of prompts x samples


class MaxKTrainer(GRPOTrainer):
    """`trl.GRPOTrainer` for Best-of-N; takes a `MaxKConfig`.

    run: a `maxk.store.run.Run`, the same on all processes, into which every completion is written.
    """

    _name = "MaxK"
    args: MaxKConfig

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: MaxKConfig | None = None,
        train_dataset: Any = None,
        *rest: Any,
        run: Run | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(args, MaxKConfig):
            raise ValueError(f"args is a {type(args).__name__}; use a MaxKConfig")
        if args.share_prompts and not hasattr(trl.trainer.utils, "add_fused_lm_head"):
            raise ValueError(f"share_prompts=True needs a newer TRL than {trl.__version__}: 1.16")
        size = len(train_dataset) if hasattr(train_dataset, "__len__") else None
        numbers = arithmetic(args, size)
        if args.process_index == 0:
            print(numbers)
        given = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        without_cudnn()
        super().__init__(model, [named(f) for f in given], args, train_dataset, *rest, **kwargs)
        self._given_rewards, self._run = given, run
        self._method = METHODS[args.method]
        self._live = self._method.off_policy and whole_groups(args) and not args.use_liger_kernel
        self._regrouped = whole_groups(args) and (self._live or args.share_prompts)
        self._rewards_per_func: Tensor | None = None
        self._rewards_PN: Tensor | None = None  # of all processes, as they were generated
        self._sampled_at = -1  # the optimiser step at which the buffered completions were sampled
        self._weighed_at = -1  # the optimiser step that the weights in the buffer are for
        self._weighed_with: int | None = None  # and its k
        self._inputs: list[dict[str, Any]] = []  # the prompts being completed
        self._texts: list[dict[str, Any]] = []  # this process's completions, to be written down
        self._batch: Batch | None = None  # all processes' completions with their weights so far
        self._losing: dict[str, Any] | None = None  # the micro-batch whose loss is being computed
        self._used: list[dict[str, Any]] = []  # micro-batches trained on since the last collection
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._average: AverageWeights | None = None
        if args.average_from is not None:
            self._need_whole_weights("average_from")
            self._average = AverageWeights(args.average_from)
            self.add_callback(self._average)
        if args.keep_start:
            self._need_whole_weights("keep_start")
            if hasattr(self.model, "peft_config"):
                raise ValueError("keep_start is not for adapters; scale their lora_alpha instead")
            self.add_callback(KeepStart(self.model, args.keep_start))
        if args.sync_ref_model:
            self.add_callback(CatchUp(self.ref_model, numbers.updates_per_batch))

    def _need_whole_weights(self, name: str) -> None:
        if self.accelerator.distributed_type in _SPREAD:
            raise ValueError(f"{name} needs whole weights in each process; leave it out")

    # --- what TRL calls ----------------------------------------------------------------------

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        with self.timed("sampling"):
            generated = super()._generate(*args, **kwargs)
        start_early(self._given_rewards, self._inputs, generated)
        return generated

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Tensor:
        with self.timed("verifying"):
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._rewards_per_func = rewards
        if self._training():
            # Python hashes tuples of numbers the same way in every process.
            ids = torch.tensor([hash(tuple(ids)) for ids in completion_ids_list])
            every = self._gathered(ids.to(self.accelerator.device)).tolist()
            self._note("unique", unique_share(every, self.args.num_generations or 1))
            self._note_verdicts()
            if self._run is not None:
                self._texts = self._written(inputs, prompts, completions)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._inputs = inputs
        if self._training():
            self._collect()  # the batch before this one is done with
        output = super()._generate_and_score_completions(inputs)
        if not self._training():
            return output
        if self._method.off_policy and "pixel_values" in output:
            raise ValueError(
                f"method={self.args.method!r} is for prompts of text; use an on-policy method, "
                "such as 'bon-centered', for prompts with images"
            )
        self._rewards_PN = self._group_rewards()
        self._sampled_at = self._weighed_at = self.state.global_step
        self._weighed_with = self._k()
        weights = self._columns(None)["advantages"].flatten()
        count = len(output["advantages"])
        first = self.accelerator.process_index * count
        output["row"] = torch.arange(first, first + count, device=weights.device)
        output["advantages"] = weights[output["row"]].to(output["advantages"].dtype)
        output["log_ratio"] = torch.zeros(count, device=weights.device)
        if "old_per_token_logps" in output:
            take = output.pop if self._method.off_policy else output.get
            output[START] = take("old_per_token_logps")
        self._show_advantages(weights)
        grouped = weights.view_as(self._rewards_PN)
        for name, value in group_metrics(self._rewards_PN, grouped, self._k()).items():
            self._note(name, value)
        self._begin_batch()
        return output

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self._training():
            return inputs
        if self._regrouped and self._buffered_inputs is not before:
            self._buffered_inputs = regrouped(
                cast(list, self._buffered_inputs), cast(int, self.num_generations)
            )
        if self._weighed_at != self.state.global_step:
            self._weighed_at = self.state.global_step
            if self._method.off_policy and not self._live:
                with self.timed("pre-pass"):
                    self._weigh_again()
            elif not self._method.off_policy and self._weighed_with != self._k():
                self._write(self._columns(None))
            self._weighed_with = self._k()
        assert self._buffered_inputs is not None
        return self._buffered_inputs[self._step % cast(int, self.args.steps_per_generation)]

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        rows = self._telling(inputs) if self.args.skip_silent and self._training() else None
        self._losing = losing = inputs if rows is None else rows_of(inputs, rows)
        try:
            loss = super()._compute_loss(model, losing)
            if rows is not None:
                # The loss is a mean over rows, and those left out would have added nothing to it.
                loss = loss * (len(rows) / len(inputs["row"]))
                put_back(losing, inputs, rows)
            return loss
        finally:
            self._losing = None
            if self._training():
                if self._method.off_policy:
                    inputs.pop("old_per_token_logps", None)  # those of this step
                kept = {name: inputs[name] for name in PER_COMPLETION if name in inputs}
                self._used.append(kept)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if self.args.share_prompts:
            out = self._shared_logps(*args, **kwargs)
        else:
            out = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._losing is not None and START in self._losing and self._training():
            self._see_ratios(self._losing, out[0].detach())
        return out

    def _shared_logps(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **more: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        for name, value in more.items():
            if value is not None and value is not False:
                raise ValueError(f"share_prompts=True cannot be used with {name}")
        config: Any = self.accelerator.unwrap_model(model).config
        size = batch_size or len(input_ids)
        logps, entropies = [], []
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            with self.accelerator.autocast():
                some, of_them = shared_logps(model, config, ids, mask, logits_to_keep)
            logps.append(some)
            if compute_entropy:
                entropies.append(of_them)
        return torch.cat(logps), torch.cat(entropies) if compute_entropy else None, None

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        with self.timed("step"):
            loss = super().training_step(model, *args, **kwargs)
        if self.accelerator.sync_gradients:
            if not self.args.fp16:  # where such steps are a matter of course, and left out
                refuse_infinite(model, self.state.global_step + 1)
            self._collect()
            self._note_seconds()
            k = self._k()
            if k is not None:
                self._note("k", k)
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        torch.save(self._state(), folder / state_name(self.accelerator.process_index))

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._restore(Path(checkpoint) / state_name(self.accelerator.process_index))

    # --- weights -----------------------------------------------------------------------------

    def _telling(self, inputs: dict[str, Any]) -> Tensor | None:
        """The rows of a micro-batch that can change the policy; None if these are all.

        Off-policy the weights come with the loss, so there it is whole groups: those with unequal
        rewards. One group, or one row, is always kept: every process has a forward pass to make.
        """
        if self._method.off_policy:
            rewards_PN = cast(Tensor, self._rewards_PN)
            unequal_PN = (rewards_PN != rewards_PN[:, :1]).any(-1, keepdim=True)
            telling = unequal_PN.expand_as(rewards_PN).flatten()[inputs["row"]]
        else:
            telling = inputs["advantages"] != 0
        if not telling.any():
            telling[: cast(int, self.num_generations) if self._live else 1] = True
        if self.accelerator.num_processes > 1:  # TRL gathers by row, so all keep as many
            most = int(self._gathered(telling.sum().view(1)).max())
            silent = (~telling).nonzero()[:, 0]  # where groups must stay whole, they lie together
            telling[silent[: most - int(telling.sum())]] = True
        return None if telling.all() else telling.nonzero()[:, 0]

    def _k(self) -> int | None:
        return self.args.k_at(self.state.global_step, self.state.max_steps)

    def _group_rewards(self) -> Tensor:
        """The rewards of all processes, a row per prompt."""
        assert self._rewards_per_func is not None
        if torch.isnan(self._rewards_per_func).all(dim=1).any():
            raise ValueError(
                "a completion has no reward (None from every reward function); max@k compares all "
                "completions of a prompt, so give it a number, such as 0"
            )
        per_func = self._rewards_per_func * self.reward_weights.to(self._rewards_per_func.device)
        return per_func.nansum(dim=1).view(-1, cast(int, self.num_generations))

    def _columns(self, log_ratios_PN: Tensor | None, groups: Tensor | None = None) -> Columns:
        """The weights of all groups of the batch or of some, and what was done to get them."""
        assert self._rewards_PN is not None
        rewards_PN = self._rewards_PN if groups is None else self._rewards_PN[groups]
        if log_ratios_PN is None or not self._method.off_policy:
            return {"advantages": advantages(self.args.method, rewards_PN, self._k())}
        bound, k = self.args.clamp_delta, self._k()
        free = advantages(self.args.method, rewards_PN, k, log_ratios_PN, clamp_delta=bound)
        kept = free
        if self.args.trust_region == "completion":
            kept = trust_region(free, log_ratios_PN, self.args.epsilon)
        return {
            "advantages": kept,
            "clamped": (log_ratios_PN.expm1().abs() > cast(float, bound)).float(),
            "gated": ((kept == 0) & (free != 0)).float(),
            "effective": effective_share(log_ratios_PN, k or 1).expand_as(kept).float(),
        }

    @torch.no_grad()
    def _weigh_again(self) -> None:
        """Weights for the policy as it is now, written into every buffered micro-batch."""
        batches = self._buffered_inputs
        assert batches is not None
        assert self._rewards_PN is not None
        for batch in batches:
            now = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].size(1),
            )[0]
            batch["log_ratio"] = log_ratio(batch, now)
        rows = self._gathered(torch.cat([batch["row"] for batch in batches]))
        ratios = self._gathered(torch.cat([batch["log_ratio"] for batch in batches]))
        log_ratios = torch.empty_like(ratios)
        log_ratios[rows] = ratios
        self._write(self._columns(log_ratios.view_as(self._rewards_PN)))

    def _write(self, columns: Columns) -> None:
        """Put what belongs to each completion beside it."""
        for batch in cast(list, self._buffered_inputs):
            for name, values_PN in columns.items():
                batch[name] = values_PN.flatten()[batch["row"]].float()

    @torch.no_grad()
    def _see_ratios(self, batch: dict[str, Any], now: Tensor) -> None:
        """Note the ratios of a micro-batch whose forward pass, for the loss, was just made.

        Where it holds whole groups these are all that the weights need. TRL reads them after this.
        """
        batch["log_ratio"] = log_ratio(batch, now)
        if self._live and self._sampled_at != self.state.global_step:
            n = cast(int, self.num_generations)
            groups = batch["row"].view(-1, n)[:, 0] // n
            for name, values in self._columns(batch["log_ratio"].view(-1, n), groups).items():
                batch[name] = values.flatten().float()
        if self.args.trust_region == "token":
            args = self.args
            high = args.epsilon if args.epsilon_high is None else args.epsilon_high
            batch["old_per_token_logps"] = old_logps(batch, now, args.epsilon, high)

    # --- what is logged ----------------------------------------------------------------------

    def _collect(self) -> None:
        """Gather what the micro-batches since the last time were trained with, and note it."""
        used, self._used = self._used, []
        if not used:
            return
        names = [name for name in PER_COMPLETION if name in used[0]]
        local = torch.stack([torch.cat([b[name].double() for b in used]) for name in names], dim=1)
        columns = dict(zip(names, self._gathered(local).unbind(dim=1), strict=True))
        rows, weights, ratios = (columns[name] for name in ("row", "advantages", "log_ratio"))
        every = cast(int, self.args.steps_per_generation) * self.num_iterations
        iteration = (self._step - 1) % every // cast(int, self.args.steps_per_generation)
        if every != self.args.gradient_accumulation_steps:  # else there is nothing to drift
            seen = ratios[~ratios.isnan()].abs()
            self._note(f"drift/iteration_{iteration + 1}/mean", seen.mean())
            self._note(f"drift/iteration_{iteration + 1}/max", seen.max())
        if self.args.skip_silent:
            self._note("skipped", ratios.isnan().double().mean())
        for name in ("clamped", "gated", "effective"):
            if name in columns:
                self._note(f"ratio/{name}", columns[name].nanmean())
        if self._batch is not None:
            self._batch.add(rows.int().tolist(), weights.tolist(), ratios.tolist())

    def _note(self, name: str, value: float | Tensor) -> None:
        self._metrics["train"][name].append(float(value))

    def _note_verdicts(self) -> None:
        """Where TRL does not lend its loggers to reward functions (before 1.0), ask them here."""
        if hasattr(GRPOTrainer, "_log_metric"):
            return
        for function in self._given_rewards:
            for name, share in (function.shares() if hasattr(function, "shares") else {}).items():
                local = torch.tensor([share], device=self.accelerator.device)
                self._note(f"verdict/{name}", self._gathered(local).mean())

    def _note_seconds(self) -> None:
        seconds, self._seconds = self._seconds, defaultdict(float)
        parts = {name: seconds[name] for name in ("sampling", "verifying", "pre-pass")}
        if "loading" in seconds:  # of weights into another sampler, within the sampling
            parts["loading"] = seconds["loading"]
            parts["sampling"] -= parts["loading"]
        parts["update"] = seconds["step"] - sum(parts.values())
        for name, value in parts.items():
            self._note(f"seconds/{name}", value)

    def _show_advantages(self, weights: Tensor) -> None:
        """TRL has logged its own advantages; put ours in their place."""
        shown = self._logs.get("advantages")
        if shown is not None:
            count = min(len(weights), len(shown))
            for i, weight in enumerate(weights[len(weights) - count :].tolist()):
                shown[len(shown) - count + i] = weight

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time of this to a phase of the step, as `seconds/PHASE` in the metrics."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += time.perf_counter() - begun

    # --- the run's folder --------------------------------------------------------------------

    def _written(self, inputs: Any, prompts: Any, completions: Any) -> list[dict[str, Any]]:
        """This process's completions as they are written down, all but their weights."""
        graded = [Graded()] * len(completions)
        for function in self._given_rewards:
            graded = getattr(function, "graded", graded)
        return [
            {
                "problem": row.get("problem"),
                "prompt": prompt if isinstance(prompt, str) else json.dumps(prompt),
                "completion": text_of(completion),
                "program": each.program,
                "verdict": json.dumps(dict_of_verdict(each.verdict)) if each.verdict else None,
            }
            for row, prompt, completion, each in zip(
                inputs, prompts, completions, graded, strict=True
            )
        ]

    def _begin_batch(self) -> None:
        """Write the batch that is done with and begin the next."""
        if self._run is None:
            return
        number = 0
        if self._batch is not None:
            number = self._batch.number + 1 if self._batch.step == self._sampled_at else 0
            self.write_rollouts()
        texts = cast(list, gather_object(self._texts))
        rewards = cast(Tensor, self._rewards_PN).flatten().tolist()
        texts = [{**text, "reward": reward} for text, reward in zip(texts, rewards, strict=True)]
        self._batch = Batch(self._sampled_at, number, cast(int, self.num_generations), texts)

    def write_rollouts(self) -> None:
        """Write the completions that have been sampled last, with what is known of them so far."""
        if self._batch is not None and self._run is not None and self.is_world_process_zero():
            self._batch.write(self._run)

    # --- checkpoints -------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """What the rest of the PPO iterations on a batch needs, of this process."""
        return {
            **{name: getattr(self, name) for name in _KEPT},
            "buffer": self._buffered_inputs,
            "rewards": self._rewards_PN,
            "batch": None if self._batch is None else self._batch.state(),
            "average": None if self._average is None else self._average.kept(),
        }

    def _restore(self, path: Path) -> None:
        if not path.exists():
            raise ValueError(
                f"{path.parent} is not a checkpoint of this trainer with this many processes: it "
                f"has no {path.name}"
            )
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name in _KEPT:
            setattr(self, name, state[name])
        tensors = (state["buffer"], state["rewards"])
        self._buffered_inputs, self._rewards_PN = send_to_device(tensors, self.accelerator.device)
        self._batch = None if state["batch"] is None else Batch.of_state(state["batch"])
        if self._average is not None and state.get("average") is not None:
            self._average.restore(state["average"])

    def _training(self) -> bool:
        return self.model is not None and self.model.training

    def _gathered(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.accelerator.gather(values))


def state_name(process: int | str) -> str:
    """The file beside a checkpoint that holds what MaxKTrainer needs to go on from there."""
    return f"maxk-{process}.pt"
