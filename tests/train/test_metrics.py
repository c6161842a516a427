"""What is logged of a batch, on groups that are worked out by hand."""

import math

import pytest
import torch

from maxk.train.metrics import (
    effective_share,
    evaluation_metrics,
    group_metrics,
    unique_share,
)

REWARDS = torch.tensor(
    [
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5],  # 7 of 8 have the full reward
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5],  # 6
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5],
    ]
)
WEIGHTS = torch.zeros(4, 8)
WEIGHTS[0, 7] = -3.0
WEIGHTS[3, 7] = 1.0


def test_max_at_k_is_the_mean_over_groups_for_each_power_of_two():
    found = group_metrics(REWARDS, WEIGHTS, 2)
    # The mean of each group, the share of pairs with a better one, ...; of all eight the best.
    assert found["max_at/1"] == pytest.approx((7.5 + 7 + 0 + 0.5) / 8 / 4)
    assert found["max_at/2"] == pytest.approx((1 + (27 + 0.5) / 28 + 0 + 0.5 * 7 / 28) / 4)
    assert found["max_at/4"] == pytest.approx((1 + 1 + 0 + 0.5 * 4 / 8) / 4)
    assert found["max_at/8"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert "max_at/8" not in group_metrics(REWARDS[:, :7], WEIGHTS[:, :7], 2)
    assert [name for name in group_metrics(REWARDS, WEIGHTS, 3) if name.startswith("max_at")] == [
        f"max_at/{k}" for k in (1, 2, 3, 4, 8)
    ]


@pytest.mark.parametrize(("k", "share"), [(None, 0.0), (1, 0.0), (2, 0.25), (3, 0.5), (8, 0.5)])
def test_a_group_is_all_correct_if_any_k_of_it_have_the_full_reward_among_them(k, share):
    assert group_metrics(REWARDS, WEIGHTS, k, 1.0)["groups/all_correct"] == share


def test_a_reward_above_the_full_one_is_full_and_one_below_is_not():
    rewards = torch.tensor([[1.0, 1.5], [1.0, 0.999]])
    assert group_metrics(rewards, torch.ones(2, 2), 1, 1.0)["groups/all_correct"] == 0.5
    assert group_metrics(rewards, torch.ones(2, 2), 1, 1.2)["groups/all_correct"] == 0.0
    assert "groups/all_correct" not in group_metrics(rewards, torch.ones(2, 2), 1)


def test_zero_variance_and_the_size_of_the_weights():
    found = group_metrics(REWARDS, WEIGHTS, 2)
    assert found["groups/zero_variance"] == 0.5
    assert found["weights/rms"] == pytest.approx(math.sqrt((9 + 1) / 32))


def test_the_share_of_different_completions_is_a_mean_over_groups():
    assert unique_share([1, 1, 1, 1, 5, 6, 5, 7], 4) == (1 + 3) / 8
    assert unique_share([], 4) == 0


def test_the_effective_share_is_that_of_the_subsets_products():
    """Ratios 1, 1, 3 have the pairs 1, 3, 3: 7^2 / (3 (1 + 9 + 9))."""
    log_ratios = torch.tensor([[0.0, 0.0, math.log(3)], [5.0, 5.0, 5.0]])
    shares = effective_share(log_ratios, 2).flatten().tolist()
    assert shares == pytest.approx([49 / 57, 1.0])


def test_one_subset_with_all_the_weight_is_one_of_all():
    log_ratios = torch.tensor([[0.0, 0.0, -800.0, -900.0]])
    assert effective_share(log_ratios, 2).item() == pytest.approx(1 / 6)


def test_a_completion_without_a_reward_is_counted_and_left_out():
    rewards = torch.tensor([[math.nan, 1.0, 0.0], [0.5, 0.0, 0.0], [math.nan] * 3])
    found = group_metrics(rewards, torch.zeros(3, 3), 2, 1.0)
    assert found["groups/unscored"] == pytest.approx(2 / 3)
    assert found["max_at/1"] == pytest.approx((1 / 2 + 1 / 6) / 2)
    assert found["max_at/2"] == pytest.approx((1 + 1 / 3) / 2)
    assert found["groups/all_correct"] == pytest.approx(1 / 3)  # of 1 and 0, every pair has a 1
    assert group_metrics(torch.full((1, 4), math.nan), torch.zeros(1, 4), 2)["groups/unscored"] == 1


def test_evaluation_has_a_figure_for_each_group():
    """Means over groups of different batches are then those over all groups."""
    found = evaluation_metrics(REWARDS[:2, :3], 3, 1.0)
    names = [f"{kind}_at/{k}" for kind in ("max", "pass") for k in (1, 2, 3)]
    assert found == {name: [1.0, 1.0] for name in names}
    found = evaluation_metrics(REWARDS[3:, 4:], 2, 0.5)
    assert found["max_at/2"] == [0.5 * 3 / 6]
    assert found["pass_at/2"] == [3 / 6]
    assert "pass_at/1" not in evaluation_metrics(REWARDS, 2, None)
