"""The reference model of a KL term that follows the policy: TRL's `sync_ref_model`."""

import warnings
from typing import Any

from transformers import TrainerCallback
from trl.trainer.callbacks import SyncRefModelCallback

from maxk.train.arithmetic import to_sampler


class CatchUp(TrainerCallback):
    """Brings the reference to where it was when a training goes on from a checkpoint.

    No checkpoint has it: TRL would take the model that the training began with until the next
    time the two are made the same. At such a step the reference is the policy as it is now. At
    others it is an earlier one, which is gone, unless there is such a step before the next batch:
    what is left of this one has the reference's log-probabilities already.
    """

    def __init__(self, reference: Any, updates: float) -> None:
        """updates: on a batch."""
        self.reference, self.updates = reference, updates

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.global_step:
            return
        every, alpha = args.ref_model_sync_steps, args.ref_model_mixup_alpha
        here = alpha == 1 and state.global_step % every == 0
        if here or to_sampler(args, self.updates):
            SyncRefModelCallback.sync_target_model(kwargs["model"], self.reference, 1.0)
            return
        warnings.warn(
            f"ref_model_mixup_alpha={alpha:g}, ref_model_sync_steps={every}: the checkpoint of "
            f"step {state.global_step} does not have the reference model, so the KL term begins "
            "with the base model again; it can go on with ref_model_mixup_alpha=1 at "
            "every step that is a multiple of ref_model_sync_steps",
            stacklevel=2,
        )
