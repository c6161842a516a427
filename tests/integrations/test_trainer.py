"""How maxk's trainer for verl reads its settings, and what it refuses before it starts."""

import math
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")

from hydra import compose, initialize_config_dir
from verl.trainer import config as verl_config

from maxk.estimators import MethodSettings
from maxk.integrations.verl.advantage import Options
from maxk.integrations.verl.trainer import OffPolicyTrainer, region_of


def composed(*overrides: str):
    """verl's configuration as its command line makes it."""
    with initialize_config_dir(str(Path(verl_config.__file__).parent), version_base=None):
        return compose("ppo_trainer", list(overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.adv_estimator=maxk-bon-mean"], "maxk-bon-mean does not need"),
        (["algorithm.adv_estimator=grpo"], "it is for maxk-off-policy, maxk-off-policy-exact"),
        (
            [
                "algorithm.adv_estimator=maxk-off-policy",
                "algorithm.rollout_correction.bypass_mode=true",
            ],
            "bypass_mode takes the sampler",
        ),
        (
            ["algorithm.adv_estimator=maxk-off-policy", "+algorithm.maxk.delta=1"],
            "algorithm.maxk.delta is unknown; use k, clamp_delta, masking",
        ),
        (
            ["algorithm.adv_estimator=maxk-off-policy", "+algorithm.maxk.trust_region=true"],
            "algorithm.maxk.trust_region is no more; use algorithm.maxk.masking",
        ),
        (
            ["algorithm.adv_estimator=maxk-off-policy", "+algorithm.maxk.masking=token"],
            "masking=token: verl's loss has no place for the tokens to drop; use masking=sequence",
        ),
        (
            ["algorithm.adv_estimator=maxk-off-policy", "+algorithm.maxk.clamp_delta=0.0"],
            r"clamp_delta=0\.0 must be above 0; use inf",
        ),
    ],
)
def test_settings_that_cannot_be(overrides, message):
    config = composed(*overrides)
    with pytest.raises(ValueError, match=message):
        OffPolicyTrainer(config)


def test_options_are_the_settings_of_the_method():
    bare = Options.of(composed().algorithm, "off-policy-exact")
    assert bare.method == MethodSettings("off-policy-exact")
    assert (bare.method.clamp_delta, bare.method.masking, bare.recomputed) == (
        0.5,
        "sequence",
        False,
    )
    given = (
        "+algorithm.maxk.k=3",
        "+algorithm.maxk.clamp_delta=inf",
        "+algorithm.maxk.masking=none",
    )
    asked = Options.of(composed(*given).algorithm, "off-policy")
    assert asked.method == MethodSettings("off-policy", 3, clamp_delta=math.inf, masking="none")


@pytest.mark.parametrize(
    ("overrides", "due"),
    [
        (["clip_ratio_low=0.1", "clip_ratio_high=0.3"], (0.1, 0.3)),
        (["clip_ratio=0.25", "clip_ratio_low=null", "clip_ratio_high=null"], (0.25, 0.25)),
    ],
)
def test_the_region_is_that_of_verl_s_own_loss(overrides, due):
    actor = composed(*(f"actor_rollout_ref.actor.{each}" for each in overrides))
    assert region_of(actor.actor_rollout_ref.actor) == due
