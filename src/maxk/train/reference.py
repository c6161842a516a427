"""The reference model of a KL term that follows the policy: TRL's `sync_ref_model`."""

import warnings
from typing import Any

from transformers import TrainerCallback
from trl.trainer.callbacks import SyncRefModelCallback


class CatchUp(TrainerCallback):
    """Brings the reference to where it was when a training goes on from a checkpoint.

    No checkpoint has it: TRL would take the model that the training began with until the next
    time the two are made the same. What is left of a batch has its log-probabilities already, so
    the policy as it is now is the reference that the next batch needs.
    """

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.global_step:
            return
        if args.ref_model_mixup_alpha != 1:
            warnings.warn(
                f"ref_model_mixup_alpha={args.ref_model_mixup_alpha:g}: a checkpoint does not have "
                "the mixed reference model, so the KL term begins with the model of the start "
                "again; ref_model_mixup_alpha=1 can go on",
                stacklevel=2,
            )
            return
        SyncRefModelCallback.sync_target_model(kwargs["model"], self.reference, 1.0)
