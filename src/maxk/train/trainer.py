"""TRL's GRPO trainer with the advantages of max@k: what TRL calls, and nothing else.

TRL computes advantages inside `_generate_and_score_completions`; here they are replaced after it by
the weights of `maxk.train.weighing`, and before each optimiser step by those of the policy as it is
then (`maxk.train.stepping`). The weights of an off-policy method hold the ratio of the completion,
so TRL's own ratio does not reach them, and it clips nothing: `maxk.train.logps`.
"""

from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils import send_to_device
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.estimators.groups import fewest
from maxk.store.run import Run
from maxk.train import checkpoint as checkpoints
from maxk.train.arithmetic import arithmetic, iteration_of
from maxk.train.batches import put_back, regrouped, replace_last, rows_of
from maxk.train.config import MaxKConfig
from maxk.train.finite import refuse_infinite, without_cudnn
from maxk.train.logps import START
from maxk.train.metrics import drop, evaluation_means
from maxk.train.packing import all_packed_logps
from maxk.train.plan import has_images, plan_of, refuse_images
from maxk.train.recorder import Recorder
from maxk.train.reference import CatchUp
from maxk.train.rewards import full_reward, named, start_early, total_rewards
from maxk.train.stepping import Batch, Stepping
from maxk.train.weighing import Weighing, group_weights


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
        if args is None:
            name = model if isinstance(model, str) else model.config._name_or_path
            args = MaxKConfig(f"{name.rstrip('/').split('/')[-1]}-MaxK")
        if not isinstance(args, MaxKConfig):
            raise ValueError(f"args is a {type(args).__name__}; use a MaxKConfig")
        refuse_images(args.method_settings, has_images(train_dataset))
        size = len(train_dataset) if hasattr(train_dataset, "__len__") else None
        numbers = arithmetic(args, size)
        if args.process_index == 0:
            print(numbers)
        one = reward_funcs is not None and not isinstance(reward_funcs, list)
        self._given_rewards = [reward_funcs] if one else reward_funcs or []
        without_cudnn()
        given = [named(function) for function in self._given_rewards]
        super().__init__(model, given, args, train_dataset, *rest, **kwargs)
        self.plan = plan_of(
            args,
            self.model,
            self.processing_class,
            router_loss=getattr(self, "aux_loss_enabled", False),
            full_reward=full_reward(self._given_rewards, self.reward_weights.tolist()),
        )
        self.weighing = Weighing(self.plan.method, args.epsilon, args.epsilon_high)
        if self.weighing.off_policy:  # its weights hold the ratio, and masking is in them too
            self.epsilon_low = self.epsilon_high = torch.inf
        main = self.is_world_process_zero()
        self.recorder = Recorder(self._note, self._gathered, self._training, run, main)
        self.stepping = Stepping(self.plan, self.weighing, self.recorder, self._gathered)
        self._rewards_per_func: Tensor | None = None
        self._inputs: list[dict[str, Any]] = []  # the prompts being completed
        self._loss_batch: Batch | None = None  # the micro-batch whose loss is computed
        if args.sync_ref_model:
            self.add_callback(CatchUp(self.ref_model, numbers.updates_per_batch))

    # --- a batch is sampled ------------------------------------------------------------------

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
            self.recorder.note_completions(completion_ids_list, self.plan.n, device)
            self.recorder.note_verdicts(self._given_rewards, device)
            self.recorder.keep_texts(self._given_rewards, inputs, prompts, completions)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._inputs = inputs
        training = self._training()
        if training:
            self._collect()  # the batch before this one is done with
        output = super()._generate_and_score_completions(inputs)
        advantages, rewards = output["advantages"], self._rewards_per_func
        assert rewards is not None
        first = self.accelerator.process_index * len(advantages)
        rows = torch.arange(first, first + len(advantages), device=advantages.device)
        n = self.plan.n if training else self.plan.n_eval
        rewards_PN = total_rewards(rewards, self.reward_weights).view(-1, n)
        if training:
            step = self.state.global_step
            weights_PN = self.stepping.begin(output, rows, rewards_PN, step, self._k())
        else:
            self.recorder.note_evaluation(rewards_PN, self._k(), self.plan.full_reward)
            weights_PN = torch.zeros_like(rewards_PN)
            if self._weighs_evaluation():
                weights_PN = group_weights(self.args.method, rewards_PN, self._k())
        output["advantages"] = weights_PN.flatten()[rows].to(advantages.dtype)
        if "advantages" in self._logs:  # TRL has logged its own
            replace_last(self._logs["advantages"], weights_PN.flatten().tolist())
        return output

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self._training():
            return inputs
        if self.plan.regroups and self._buffered_inputs is not before:
            self._buffered_inputs = regrouped(cast(list, self._buffered_inputs), self.plan.n)
        batches = cast(list, self._buffered_inputs)
        self.stepping.before_update(batches, self.state.global_step, self._k(), self._logps)
        return batches[self._step % cast(int, self.args.steps_per_generation)]

    # --- an update is made on it -------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        training, rows = self._training(), None
        if self.plan.skips and training:
            rows = self.stepping.rows_with_gradient(inputs)
        self._loss_batch = part = dict(inputs) if rows is None else rows_of(inputs, rows)
        try:
            loss = super()._compute_loss(model, part)
        finally:
            self._loss_batch = None
        if rows is not None:
            # The loss is a mean over rows, and those left out would have added nothing to it.
            loss = loss * (len(rows) / len(inputs["row"]))
        if training:
            put_back(part, inputs, rows)
            self.recorder.use(inputs)
        if not self.plan.clips:  # what TRL logs of it can only be 0
            drop(self._metrics["train" if training else "eval"], "clip_ratio/")
        return loss

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        if self.plan.packs:
            out = all_packed_logps(self.accelerator, *args, **kwargs)
        else:
            out = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._loss_batch is not None and START in self._loss_batch and self._training():
            self.stepping.set_weights(self._loss_batch, out[0].detach(), self.state.global_step)
        return out

    def _logps(self, batch: Batch) -> Tensor:
        """Log-probabilities of the tokens of a micro-batch, as the loss computes them."""
        return self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
        )[0]

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

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        output = super().evaluation_loop(*args, **kwargs)
        metrics, prefix = cast(dict, output.metrics), kwargs.get("metric_key_prefix", "eval")
        if not self._weighs_evaluation():  # without weights there is no loss
            metrics.pop(f"{prefix}_loss", None)
        metrics.update(evaluation_means(self._metrics["eval"], prefix))  # older TRL only logs them
        return output

    # --- the beginning, checkpoints and the end ----------------------------------------------

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = checkpoints.to_go_on_from(resume_from_checkpoint, self.args)
        try:
            return super().train(found, *args, **kwargs)
        finally:
            self.recorder.write_rollouts()  # also where a callback or an error ends it

    def _save_rng_state(self, output_dir: str) -> None:
        """The last that all processes write, before TRL deletes older checkpoints."""
        super()._save_rng_state(output_dir)
        state = {
            "micro_step": self._step,
            "buffer": self._buffered_inputs,
            "weighing": self.weighing.state(),
            "rollouts": self.recorder.state(),
        }
        checkpoints.save(Path(output_dir), self.accelerator.process_index, state, self.args)
        self.accelerator.wait_for_everyone()

    def _load_optimizer_and_scheduler(self, checkpoint: Any) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        state = checkpoints.load(Path(checkpoint), self.accelerator.process_index)
        self._step = state["micro_step"]
        tensors = (state["buffer"], state["weighing"])
        self._buffered_inputs, weighing = send_to_device(tensors, self.accelerator.device)
        self.weighing.restore(weighing)
        self.recorder.restore(state["rollouts"])

    # --- small parts -------------------------------------------------------------------------

    def _k(self) -> int | None:
        return self.weighing.settings.k_at(self.state.global_step, self.state.max_steps)

    def _weighs_evaluation(self) -> bool:
        return self.plan.n_eval >= fewest(self.args.method, self._k())

    def _collect(self) -> None:
        """Gather what the micro-batches since the last time were trained with, and note it."""
        self.recorder.collect(iteration_of(self.args, self._step - 1), self.plan.skips)

    def _note(self, name: str, value: float) -> None:
        self._metrics["train" if self._training() else "eval"][name].append(value)

    def _training(self) -> bool:
        return self.model is not None and self.model.training

    def _gathered(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.accelerator.gather(values))
