"""Advantages through verl's own compute path, on a DataProto, against maxk.estimators."""

from pathlib import Path

import numpy as np
import pytest
import torch

from maxk.estimators import METHODS, advantages

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")

from hydra import compose, initialize_config_dir
from verl import DataProto
from verl.trainer import config as verl_config
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.ray_trainer import compute_advantage

ON_POLICY = [name for name, method in METHODS.items() if not method.off_policy]
K, N, TOKENS = 2, 4, 5
ACTOR = "actor_rollout_ref.actor"


def settings(*overrides: str):
    """verl's configuration as its command line makes it."""
    with initialize_config_dir(str(Path(verl_config.__file__).parent), version_base=None):
        return compose("ppo_trainer", list(overrides)).algorithm


def of_k(method: str) -> list[str]:
    """The setting of k, for a method that has one."""
    return [f"+algorithm.maxk.k={K}"] if METHODS[method].uses_k else []


def batch(rewards: list[float], uids: list[str], lengths: list[int]) -> DataProto:
    """Rows as verl has them: the reward on the last token of the response."""
    mask = torch.tensor([[t < length for t in range(TOKENS)] for length in lengths]).long()
    scores = torch.zeros(len(rewards), TOKENS)
    for row, (reward, length) in enumerate(zip(rewards, lengths, strict=True)):
        scores[row, max(length, 1) - 1] = reward
    tensors = {"token_level_rewards": scores, "response_mask": mask}
    return DataProto.from_dict(tensors, non_tensors={"uid": np.array(uids, dtype=object)})


def through_verl(data: DataProto, method: str, *overrides: str) -> DataProto:
    config = settings(f"algorithm.adv_estimator=maxk-{method}", *overrides)
    return compute_advantage(data, config.adv_estimator, num_repeat=N, config=config)


@pytest.mark.parametrize("method", ON_POLICY)
def test_they_are_those_of_maxk_s_estimators_on_the_same_rewards(method):
    rewards = torch.tensor([[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    order = [4, 0, 9, 5, 1, 8, 2, 10, 6, 3, 7, 11]
    flat = rewards.flatten()[order].tolist()
    lengths = [1 + i % TOKENS for i in range(12)]
    data = batch(flat, [f"prompt {i // N}" for i in order], lengths)
    out = through_verl(data, method, *of_k(method))
    due = advantages(method, rewards, K).flatten()[order]
    assert due.abs().sum() > 0
    for row, length in enumerate(lengths):
        want = [due[row].item()] * length + [0.0] * (TOKENS - length)
        assert out.batch["advantages"][row].tolist() == pytest.approx(want)
    torch.testing.assert_close(out.batch["returns"], out.batch["advantages"])


@pytest.mark.parametrize("method", ON_POLICY)
def test_missing_members_and_padding_rows(method):
    rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    uids = ["whole"] * 4 + ["three"] * 3 + ["pad0"]
    lengths = [2, 3, 1, 5, 4, 1, 2, 0]
    out = through_verl(batch(rewards, uids, lengths), method, *of_k(method))
    got = out.batch["advantages"][:, 0].tolist()
    whole = advantages(method, torch.tensor(rewards[:4]), K).tolist()
    three = advantages(method, torch.tensor(rewards[4:7]), K).tolist()
    assert got == pytest.approx([*whole, *three, 0.0])


def test_a_row_that_verl_rejected_leaves_its_group():
    rewards, uids = [1.0, 0.0, 0.0, 0.0, 1.0], ["a"] * 5
    out = through_verl(batch(rewards, uids, [2, 3, 1, 5, 0]), "bon-mean", "+algorithm.maxk.k=2")
    without = advantages("bon-mean", torch.tensor(rewards[:4]), 2).tolist()
    assert out.batch["advantages"][:, 0].tolist() == pytest.approx([*without, 0.0])


def test_the_scores_of_all_tokens_count():
    data = batch([1.0, 0.0, 0.0], ["a"] * 3, [5, 5, 5])
    data.batch["token_level_rewards"][1, :3] = 0.5
    out = through_verl(data, "dr-grpo")
    due = advantages("dr-grpo", torch.tensor([1.0, 1.5, 0.0])).tolist()
    assert out.batch["advantages"][:, 0].tolist() == pytest.approx(due)


@pytest.mark.parametrize(
    ("overrides", "method", "message"),
    [
        (
            ["+algorithm.maxk.k=2", "+algorithm.maxk.clip=1"],
            "bon-mean",
            "algorithm.maxk.clip is unknown",
        ),
        (["+algorithm.maxk.k=4"], "bon-mean", "largest group has 4 samples"),
        ([], "bon-mean", "method='bon-mean' with k=4 needs 5"),  # the default k
        (
            ["+algorithm.maxk.masking=sequence"],
            "bon-mean",
            "masking='sequence' is for the off-policy",
        ),
        (["+algorithm.maxk.k=2"], "off-policy-exact", "trainer.v1.trainer_mode=maxk"),
        (["+algorithm.maxk.k=2"], "grpo", "method='grpo' has no k; leave k out"),
        (["algorithm.gamma=0.9"], "grpo", "algorithm.gamma=0.9 would do nothing with"),
        (["algorithm.lam=0.9"], "rloo", "algorithm.lam=0.9 would do nothing with"),
        (
            ["algorithm.norm_adv_by_std_in_grpo=false"],
            "grpo",
            "norm_adv_by_std_in_grpo=False would do nothing .* maxk-dr-grpo for none",
        ),
        (["algorithm.use_pf_ppo=true"], "grpo", "algorithm.use_pf_ppo=True would do nothing"),
        (
            ["+algorithm.maxk.k=2", f"{ACTOR}.loss_agg_mode=seq-mean-token-mean"],
            "bon-mean",
            "loss_agg_mode=seq-mean-token-mean with adv_estimator=maxk-bon-mean: the mean over",
        ),
    ],
)
def test_impossible_settings_are_named(overrides, method, message):
    data = batch([1.0, 0.0, 0.0, 0.0], ["a"] * 4, [1] * 4)
    with pytest.raises(ValueError, match=message):
        through_verl(data, method, *overrides)


def test_rows_without_uid_are_refused():
    data = batch([1.0, 0.0], ["a"] * 2, [1, 1])
    del data.non_tensor_batch["uid"]
    with pytest.raises(ValueError, match="no uid"):
        through_verl(data, "grpo")


@pytest.mark.parametrize("mode", ["seq-mean-token-sum", "token-mean", "token-sum"])
def test_verl_s_mean_over_all_tokens_is_their_sum_in_steps_of_another_size(mode):
    """Two micro-batches of a mini-batch, as verl's workers aggregate their losses."""
    weights = torch.tensor([2.0, -1.0, 0.5, 0.0])
    mask = torch.tensor([[t < length for t in range(TOKENS)] for length in (1, 5, 3, 2)])
    logps = torch.zeros(4, TOKENS, requires_grad=True)
    for part in (slice(0, 2), slice(2, 4)):
        agg_loss(
            -weights[part, None] * logps[part], mask[part].float(), mode,
            batch_num_tokens=int(mask.sum()), global_batch_size=4,
        ).backward()  # fmt: skip
    assert logps.grad is not None
    per_unit = {"seq-mean-token-sum": 4, "token-mean": int(mask.sum()), "token-sum": 1}[mode]
    torch.testing.assert_close(logps.grad * per_unit, -weights[:, None] * mask)


def test_ratios_that_would_be_wrong_are_said_once(caplog):
    data = batch([1.0, 0.0, 0.0, 0.0], ["a"] * 4, [1] * 4)
    top_p = "actor_rollout_ref.rollout.top_p=0.9"
    one = [f"{ACTOR}.ppo_mini_batch_size=8", "data.train_batch_size=8"]
    through_verl(data, "grpo", top_p, *one)  # one update on a batch has no ratio
    assert "top_p" not in caplog.text
    config = settings("algorithm.adv_estimator=maxk-grpo", top_p, *one, f"{ACTOR}.ppo_epochs=2")
    for _ in range(2):
        compute_advantage(data, config.adv_estimator, num_repeat=N, config=config)
    assert caplog.text.count("rollout.top_p=0.9: the samples are then of another") == 1
