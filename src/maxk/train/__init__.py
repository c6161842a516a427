"""Training for Best-of-N on TRL: `MaxKTrainer` and `MaxKConfig`.

No method body of TRL is copied. These are wrapped:

- ``_generate``: timed; reward functions with a ``start`` begin to judge early.
- ``_calculate_rewards``: the gathered rewards are kept.
- ``_generate_and_score_completions``: the method's advantages replace TRL's, and every completion
  gets its number in the batch.
- ``_prepare_inputs``: before each optimiser step the weights become those of the current policy.
- ``_compute_loss``: log-ratios are read from the forward pass of the loss.
- ``train``, ``_save_rng_state``, ``_load_optimizer_and_scheduler``: whole checkpoints, of the same
  settings.
- ``evaluation_loop``: no loss where there are no weights.

A weight is made in ``weighing``; ``stepping`` puts it where TRL reads it, ``plan`` says what a
training will do, ``recorder`` writes down what it did, and ``checkpoint`` keeps what it needs.

TRL 0.29 to 1.16 is supported. With 0.29 and transformers 4.57 a run of several CPU processes cannot
be resumed.
"""

from maxk.train.config import MaxKConfig
from maxk.train.trainer import MaxKTrainer

__all__ = ["MaxKConfig", "MaxKTrainer"]
