"""TRL's GRPO trainer with the advantages of max@k.

TRL computes advantages inside `_generate_and_score_completions`; here they are replaced after it by
the weights of `maxk.train.weighing`. The off-policy methods need the ratio of every sample of a
group to the policy that sampled it, and need it before each optimiser step. TRL spreads a group
over micro-batches and processes. So one pass without gradients (the pre-pass) is made then over all
buffered micro-batches, the ratios are gathered, and the weights are written back to where TRL reads
its advantages. Where micro-batches can hold whole groups they are made to, and the weights come
from the forward pass of the loss itself. The ratio is part of these weights, so TRL's own is made 1
by taking `old_per_token_logps` away: its gradient is then weight times grad log pi. With
masking="token" they are given back for the tokens that have moved too far, which TRL then clips.
"""

from pathlib import Path
from typing import Any, cast

import torch
import trl.trainer.utils
from accelerate.utils import send_to_device
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.store.run import Run
from maxk.train.arithmetic import arithmetic, whole_groups
from maxk.train.batches import START, log_ratio, put_back, regrouped, rows_of
from maxk.train.config import MaxKConfig
from maxk.train.finite import refuse_infinite, without_cudnn
from maxk.train.packing import packed_logps
from maxk.train.recorder import Recorder
from maxk.train.reference import CatchUp
from maxk.train.rewards import named, start_early
from maxk.train.weighing import Columns, Weighing


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
        if args.pack_prompts and not hasattr(trl.trainer.utils, "add_fused_lm_head"):
            raise ValueError(f"pack_prompts=True needs a newer TRL than {trl.__version__}: 1.16")
        size = len(train_dataset) if hasattr(train_dataset, "__len__") else None
        numbers = arithmetic(args, size)
        if args.process_index == 0:
            print(numbers)
        given = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        without_cudnn()
        super().__init__(model, [named(f) for f in given], args, train_dataset, *rest, **kwargs)
        self._given_rewards = given
        self.weighing = Weighing(args.method_settings, args.epsilon, args.epsilon_high)
        self.recorder = Recorder(
            lambda name, value: self._metrics["train"][name].append(value),
            self._gathered,
            run,
            self.is_world_process_zero(),
        )
        off_policy = self.weighing.off_policy
        # Micro-batches have whole groups, so the pass of the loss has all ratios that weights need.
        self._weighs_in_loss = off_policy and whole_groups(args) and not args.use_liger_kernel
        self._regroups = whole_groups(args) and (self._weighs_in_loss or args.pack_prompts)
        self._rewards_per_func: Tensor | None = None
        self._inputs: list[dict[str, Any]] = []  # the prompts being completed
        self._loss_batch: dict[str, Any] | None = None  # the micro-batch whose loss is computed
        if args.sync_ref_model:
            self.add_callback(CatchUp(self.ref_model, numbers.updates_per_batch))

    # --- what TRL calls ----------------------------------------------------------------------

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        with self.recorder.timed("sampling"):
            generated = super()._generate(*args, **kwargs)
        start_early(self._given_rewards, self._inputs, generated)
        return generated

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Tensor:
        with self.recorder.timed("verifying"):
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._rewards_per_func = rewards
        if self._training():
            device = self.accelerator.device
            n = self.args.num_generations or 1
            self.recorder.note_completions(completion_ids_list, n, device)
            self.recorder.note_verdicts(self._given_rewards, device)
            self.recorder.keep_texts(self._given_rewards, inputs, prompts, completions)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._inputs = inputs
        if self._training():
            self._collect()  # the batch before this one is done with
        output = super()._generate_and_score_completions(inputs)
        if not self._training():
            return output
        if self.weighing.off_policy and "pixel_values" in output:
            raise ValueError(
                f"method={self.args.method!r} is for prompts of text; use an on-policy method, "
                "such as 'bon-centered', for prompts with images"
            )
        rewards_PN = self._group_rewards()
        self.weighing.begin(rewards_PN, self.state.global_step, self._k())
        weights_PN = self.weighing.columns()["advantages"]
        weights = weights_PN.flatten()
        count = len(output["advantages"])
        first = self.accelerator.process_index * count
        output["row"] = torch.arange(first, first + count, device=weights.device)
        output["advantages"] = weights[output["row"]].to(output["advantages"].dtype)
        output["log_ratio"] = torch.zeros(count, device=weights.device)
        if "old_per_token_logps" in output:
            take = output.pop if self.weighing.off_policy else output.get
            output[START] = take("old_per_token_logps")
        self._show_advantages(weights)
        self.recorder.begin_batch(rewards_PN, weights_PN, self.state.global_step, self._k())
        return output

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self._training():
            return inputs
        if self._regroups and self._buffered_inputs is not before:
            self._buffered_inputs = regrouped(
                cast(list, self._buffered_inputs), cast(int, self.num_generations)
            )
        if self.weighing.go_on(self.state.global_step, self._k()):
            if not self.weighing.off_policy:
                self._write(self.weighing.columns())
            elif not self._weighs_in_loss:
                with self.recorder.timed("pre-pass"):
                    self._prepass()
        assert self._buffered_inputs is not None
        return self._buffered_inputs[self._step % cast(int, self.args.steps_per_generation)]

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        rows = None
        if self.args.skip_zero_variance and self._training():
            rows = self._rows_with_gradient(inputs)
        self._loss_batch = part = inputs if rows is None else rows_of(inputs, rows)
        try:
            loss = super()._compute_loss(model, part)
            if rows is not None:
                # The loss is a mean over rows, and those left out would have added nothing to it.
                loss = loss * (len(rows) / len(inputs["row"]))
                put_back(part, inputs, rows)
            return loss
        finally:
            self._loss_batch = None
            if self._training():
                if self.weighing.off_policy:
                    inputs.pop("old_per_token_logps", None)  # those of this step
                self.recorder.use(inputs)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if self.args.pack_prompts:
            out = self._packed_logps(*args, **kwargs)
        else:
            out = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._loss_batch is not None and START in self._loss_batch and self._training():
            self._note_ratios(self._loss_batch, out[0].detach())
        return out

    def _packed_logps(
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
                raise ValueError(f"pack_prompts=True cannot be used with {name}")
        config: Any = self.accelerator.unwrap_model(model).config
        size = batch_size or len(input_ids)
        parts = []
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            with self.accelerator.autocast():
                parts.append(packed_logps(model, config, ids, mask, logits_to_keep))
        logps, entropies = zip(*parts, strict=True)
        return torch.cat(logps), torch.cat(entropies) if compute_entropy else None, None

    def training_step(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        with self.recorder.timed("step"):
            loss = super().training_step(model, *args, **kwargs)
        if self.accelerator.sync_gradients:
            if not self.args.fp16:  # where such steps are a matter of course, and left out
                refuse_infinite(model, self.state.global_step + 1)
            self._collect()
            self.recorder.note_seconds()
            k = self._k()
            if k is not None:
                self.recorder.note("k", k)
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

    def _rows_with_gradient(self, inputs: dict[str, Any]) -> Tensor | None:
        """The rows of a micro-batch that can change the policy; None if these are all.

        One group, or one row, is always kept: every process has a forward pass to make.
        """
        keep = self.weighing.has_gradient(inputs["row"], inputs["advantages"])
        if not keep.any():
            keep[: cast(int, self.num_generations) if self._weighs_in_loss else 1] = True
        if self.accelerator.num_processes > 1:  # TRL gathers by row, so all keep as many
            most = int(self._gathered(keep.sum().view(1)).max())
            dropped = (~keep).nonzero()[:, 0]  # where groups must stay whole, they lie together
            keep[dropped[: most - int(keep.sum())]] = True
        return None if keep.all() else keep.nonzero()[:, 0]

    def _k(self) -> int | None:
        return self.weighing.settings.k_at(self.state.global_step, self.state.max_steps)

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

    @torch.no_grad()
    def _prepass(self) -> None:
        """Weights for the policy as it is now, written into every buffered micro-batch."""
        batches = self._buffered_inputs
        rewards_PN = self.weighing.rewards_PN
        assert batches is not None
        assert rewards_PN is not None
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
        self._write(self.weighing.columns(log_ratios.view_as(rewards_PN)))

    def _write(self, columns: Columns) -> None:
        """Put what belongs to each completion beside it."""
        for batch in cast(list, self._buffered_inputs):
            for name, values_PN in columns.items():
                batch[name] = values_PN.flatten()[batch["row"]].float()

    @torch.no_grad()
    def _note_ratios(self, batch: dict[str, Any], now: Tensor) -> None:
        """Note the ratios of a micro-batch whose forward pass, for the loss, was just made.

        Where it holds whole groups these are all that the weights need. TRL reads them after this.
        """
        batch["log_ratio"] = log_ratio(batch, now)
        if self._weighs_in_loss and self.weighing.sampled_at != self.state.global_step:
            n = cast(int, self.num_generations)
            groups = batch["row"].view(-1, n)[:, 0] // n
            columns = self.weighing.columns(batch["log_ratio"].view(-1, n), groups)
            for name, values in columns.items():
                batch[name] = values.flatten().float()
        old = self.weighing.old_logps(batch["advantages"], now, batch[START])
        if old is not None:
            batch["old_per_token_logps"] = old

    # --- what is logged ----------------------------------------------------------------------

    def _collect(self) -> None:
        """Gather what the micro-batches since the last time were trained with, and note it."""
        per_batch = cast(int, self.args.steps_per_generation)
        every = per_batch * self.num_iterations
        iteration = (self._step - 1) % every // per_batch
        one_step = every == self.args.gradient_accumulation_steps
        self.recorder.collect(None if one_step else iteration, self.args.skip_zero_variance)

    def _show_advantages(self, weights: Tensor) -> None:
        """TRL has logged its own advantages; put ours in their place."""
        shown = self._logs.get("advantages")
        if shown is not None:
            count = min(len(weights), len(shown))
            for i, weight in enumerate(weights[len(weights) - count :].tolist()):
                shown[len(shown) - count + i] = weight

    # --- checkpoints -------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """What the rest of the PPO iterations on a batch needs, of this process."""
        return {
            "micro_step": self._step,
            "buffer": self._buffered_inputs,
            "weighing": self.weighing.state(),
            "rollouts": self.recorder.state(),
        }

    def _restore(self, path: Path) -> None:
        if not path.exists():
            raise ValueError(
                f"{path.parent} is not a checkpoint of this trainer with this many processes: it "
                f"has no {path.name}"
            )
        state = torch.load(path, map_location="cpu", weights_only=True)
        self._step = state["micro_step"]
        tensors = (state["buffer"], state["weighing"])
        self._buffered_inputs, weighing = send_to_device(tensors, self.accelerator.device)
        self.weighing.restore(weighing)
        self.recorder.restore(state["rollouts"])

    def _training(self) -> bool:
        return self.model is not None and self.model.training

    def _gathered(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.accelerator.gather(values))


def state_name(process: int | str) -> str:
    """The file beside a checkpoint that holds what MaxKTrainer needs to go on from there."""
    return f"maxk-{process}.pt"
