"""How maxk's trainer for verl reads its settings, and what it refuses before it starts."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")

from hydra import compose, initialize_config_dir
from verl.trainer import config as verl_config

from maxk.estimators import MethodSettings
from maxk.integrations.verl.advantage import too_small
from maxk.integrations.verl.settings import refuse_off_policy, region_of, settings_of
from maxk.integrations.verl.trainer import BestOfNTrainer, group_metrics


def composed(*overrides: str):
    """verl's configuration as its command line makes it."""
    with initialize_config_dir(str(Path(verl_config.__file__).parent), version_base=None):
        return compose("ppo_trainer", list(overrides))


LOSS = "actor_rollout_ref.actor.loss_agg_mode"
SUM = f"{LOSS}=seq-mean-token-sum"
EPOCHS = "actor_rollout_ref.actor.ppo_epochs=2"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.adv_estimator=grpo"], "adv_estimator=grpo is not of .*; use one of maxk-grpo"),
        (
            ["algorithm.adv_estimator=maxk-bon-mean", f"{LOSS}=seq-mean-token-mean"],
            "loss_agg_mode=seq-mean-token-mean with adv_estimator=maxk-bon-mean",
        ),
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
        *(
            (["algorithm.adv_estimator=maxk-off-policy", *overrides], said)
            for overrides, said in (
                (["+algorithm.maxk.recomputed=true"], "algorithm.maxk.recomputed is unknown"),
                (["+algorithm.maxk.k='4'"], "algorithm.maxk.k='4' is not a whole number"),
                (["+algorithm.maxk.k=true"], "algorithm.maxk.k=True is not a whole number"),
                (["+algorithm.maxk.clamp_delta=wide"], "clamp_delta='wide' is not a number"),
                (["+algorithm.maxk.masking=true"], "masking=True is not text"),
                (["+algorithm.maxk.clamp_delta=0.2"], "clamp_delta=0.2 would do nothing: ppo_ep"),
                (["+algorithm.maxk.masking=sequence"], "masking=sequence would do nothing: ppo_ep"),
                ([], "loss_agg_mode=token-mean: the weight of a whole completion needs a sum"),
                ([f"{LOSS}=seq-mean-token-mean"], "loss_agg_mode=seq-mean-token-mean: the weight"),
                (
                    [SUM, "actor_rollout_ref.actor.policy_loss.loss_mode=gspo"],
                    "policy_loss.loss_mode=gspo: the ratio of a whole completion is in the weight",
                ),
                ([SUM, EPOCHS, "actor_rollout_ref.rollout.top_p=0.9"], "rollout.top_p=0.9: the"),
                ([SUM, EPOCHS, "actor_rollout_ref.rollout.top_k=20"], "rollout.top_k=20: the sam"),
            )
        ),
    ],
)
def test_settings_that_cannot_be(overrides, message):
    config = composed(*overrides)
    with pytest.raises(ValueError, match=message):
        BestOfNTrainer(config)


def test_options_are_the_settings_of_the_method():
    bare = settings_of(composed().algorithm, "off-policy-exact")
    assert bare == MethodSettings("off-policy-exact")
    assert (bare.clamp_delta, bare.masking) == (0.5, "sequence")
    given = (
        "+algorithm.maxk.k=3",
        "+algorithm.maxk.clamp_delta=inf",
        "+algorithm.maxk.masking=none",
    )
    asked = settings_of(composed(*given).algorithm, "off-policy")
    assert asked == MethodSettings("off-policy", 3, clamp_delta=math.inf, masking="none")


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


def test_a_model_with_dropout_has_no_ratios(tmp_path):
    """verl computes old log-probabilities without dropout, and the loss with it."""
    LlamaConfig(attention_dropout=0.1).save_pretrained(tmp_path)
    given = [SUM, f"actor_rollout_ref.model.path={tmp_path}"]
    settings = MethodSettings("off-policy-exact")
    refuse_off_policy(composed(*given), settings)  # one epoch has no ratios
    with pytest.raises(ValueError, match=r"the model has attention_dropout=0\.1"):
        refuse_off_policy(composed(*given, EPOCHS), settings)
    over = "+actor_rollout_ref.model.override_config.attention_dropout=0.0"
    refuse_off_policy(composed(*given, EPOCHS, over), settings)


def test_groups_that_are_too_small_are_counted():
    settings = settings_of(composed().algorithm, "off-policy-exact")  # k = 4 needs 5
    groups = ["a"] * 5 + ["b"] * 4 + ["c"] * 6
    there = torch.tensor([True] * 9 + [True] * 4 + [False] * 2)
    assert too_small(settings, groups, there) == 2


def test_the_log_has_max_at_k_of_every_group_that_is_large_enough():
    settings = settings_of(composed("+algorithm.maxk.k=3").algorithm, "bon-mean")  # needs 4
    rewards = {"a": [0.0, 1.0, 0.5, 0.25], "b": [0.75, 0.0, 0.0]}
    groups = ["a", "b", "b", "a", "a", "b", "a", "pad"]
    given = {name: iter(values) for name, values in {**rewards, "pad": [9.0]}.items()}
    flat = torch.tensor([next(given[name]) for name in groups])
    there = torch.tensor([name != "pad" for name in groups])
    found = group_metrics(settings, flat, groups, there)
    due = {"maxk/small_groups": 1.0}
    for k in (1, 2, 3, 4):
        means = []
        for values in rewards.values():
            best = [max(subset) for subset in itertools.combinations(values, k)]
            means += [sum(best) / len(best)] if best else []
        due[f"maxk/max_at/{k}"] = sum(means) / len(means)
    assert found == pytest.approx(due)
