"""maxk in verl: a plugin that `import verl` finds by itself once maxk is installed.

    algorithm.adv_estimator=maxk-bon-mean +algorithm.maxk.k=4                        on-policy
    algorithm.adv_estimator=maxk-off-policy-exact trainer.v1.trainer_mode=maxk ...   off-policy
    reward.custom_reward_function.path=pkg://maxk.integrations.verl.reward           the Verifier

verl swallows what a plugin raises, so what this one could not load is said in a warning.
docs/how-to/verl.md.
"""

import logging

from maxk.integrations.verl import advantage

__all__ = ["advantage"]

advantage.register()
try:
    from maxk.integrations.verl import trainer  # noqa: F401
except ImportError as error:  # verl without its trainer's needs: rollout and reward workers
    logging.getLogger(__name__).warning("verl's trainer cannot be loaded: %s", error)
