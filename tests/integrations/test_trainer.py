"""What maxk's trainer for verl refuses before anything is started."""

from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")

from hydra import compose, initialize_config_dir
from verl.trainer import config as verl_config

from maxk.integrations.verl.trainer import OffPolicyTrainer


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
            "algorithm.maxk.delta is unknown; use k, clamp_delta, trust_region",
        ),
    ],
)
def test_settings_that_cannot_be(overrides, message):
    with initialize_config_dir(str(Path(verl_config.__file__).parent), version_base=None):
        config = compose("ppo_trainer", overrides)
    with pytest.raises(ValueError, match=message):
        OffPolicyTrainer(config)
