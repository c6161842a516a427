"""Methods that were tried on the small model: what they say they are."""

import pytest
import torch

from experiments.pocket.tried import all_k, levels, raised, register, top
from maxk.estimators import FACTS, weights
from maxk.estimators.methods import METHODS, Method, advantages, pass_at_k
from tests.estimators.test_unbiased import (
    DRAWS,
    DRIFT,
    REWARDS,
    close,
    expected_gradient,
    true_gradient,
)


def test_levels_of_a_binary_reward_are_pass_at_k():
    rewards = (torch.rand(50, 8, generator=torch.manual_seed(0)) < 0.4).double()
    for k in (1, 4, 7):
        assert torch.allclose(levels(rewards, k), pass_at_k(rewards, k))


def test_levels_are_a_sum_over_the_tests_that_are_passed():
    passed = torch.randint(0, 9, (50, 8), generator=torch.manual_seed(1))
    wanted = sum(pass_at_k((passed >= level).double(), 4) / 8 for level in range(1, 9))
    assert torch.allclose(levels(passed / 8.0, 4).double(), torch.as_tensor(wanted), atol=1e-6)


def test_the_top_is_pushed_up_and_the_rest_down():
    found = top(torch.tensor([[0.0, 0.1, 0.1, 0.05]]), 2)
    assert (found[0, 1:3] > 0).all()
    assert (found[0, [0, 3]] < 0).all()


def test_all_k_is_the_mean_of_all_gradients_weighted_by_one_over_k():
    rewards = torch.rand(20, 8, generator=torch.manual_seed(2)).double()
    wanted = sum(weights(rewards, k, correction="none", baseline="loo") / k for k in (1, 2, 3))
    assert torch.allclose(all_k(rewards, 3), torch.as_tensor(wanted) / (1 + 1 / 2 + 1 / 3))
    assert all_k(rewards, 7).sum(-1).abs().max() < 1e-9


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_raised_baseline_leaves_the_gradient_as_it_is(k, share):
    w = raised(REWARDS[DRAWS], k, share)
    assert close(expected_gradient(w, 0 * DRIFT), true_gradient(k))


def test_a_raised_baseline_pushes_down_what_is_not_the_best():
    rewards = torch.rand(20, 8, generator=torch.manual_seed(3)).double()
    assert (raised(rewards, 4, 1.0) <= 0).all()
    assert torch.allclose(raised(rewards, 4, 0.0), weights(rewards, 4, baseline="loo"))
    passed = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).double()
    # In two of four: a pass is the best there is, a failure has the pass beside it once in three.
    wanted = torch.tensor([[0.0, -1 / 3, -1 / 3, -1 / 3]]).double()
    assert torch.allclose(raised(passed, 2, 1.0), wanted)


@pytest.fixture
def registered(monkeypatch) -> dict[str, Method]:
    """The registry with them in it, for one test."""
    made = METHODS.copy()
    for place in ("maxk.estimators.methods", "experiments.pocket.tried"):
        monkeypatch.setattr(f"{place}.METHODS", made)
    monkeypatch.setattr("experiments.pocket.tried.FACTS", FACTS.copy())
    register()
    return made


def test_they_can_be_trained_with_by_name(registered, monkeypatch):
    rewards = torch.tensor([[0.0, 0.25, 0.5, 1.0]])
    for name in registered.keys() - METHODS.keys():
        given = advantages(name, rewards, 2, 0)
        assert given[0, 3] > given[0, 0], name
    monkeypatch.undo()
    with pytest.raises(ValueError, match="unknown"):
        advantages("levels", rewards, 2, 0)


@pytest.mark.parametrize(
    ("region", "of"), [("grpo-region", "grpo"), ("centered-region", "bon-centered")]
)
def test_a_region_without_ratios_has_the_weights_of_its_method(registered, region, of):
    rewards = torch.rand(20, 8, generator=torch.manual_seed(4))
    moved = torch.randn(20, 8, generator=torch.manual_seed(5))
    found = advantages(region, rewards, 4, moved)
    assert torch.allclose(found, advantages(of, rewards, 4, 0))
    assert registered[region].off_policy  # by which the trainer gives it the region
    assert not registered[of].off_policy
