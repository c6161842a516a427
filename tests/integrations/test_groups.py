"""Samples in any order get what their groups would get in order."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.estimators import METHODS, advantages
from maxk.estimators.groups import group_advantages

K = 2


@st.composite
def batches(draw):
    """Group sizes, rewards of each group, and an order of all rows."""
    sizes = draw(st.lists(st.integers(K + 1, 6), min_size=1, max_size=5))
    reward = st.sampled_from([0.0, 1.0])
    groups = [draw(st.lists(reward, min_size=n, max_size=n)) for n in sizes]
    order = draw(st.permutations(range(sum(sizes))))
    return groups, list(order)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(batch=batches())
def test_every_group_gets_its_own_advantages_whatever_the_order(method, batch):
    groups, order = batch
    rewards = torch.tensor([r for group in groups for r in group])
    names = [str(g) for g, group in enumerate(groups) for _ in group]
    due = torch.cat([advantages(method, torch.tensor(group), K, 0) for group in groups])
    got = group_advantages(method, rewards[order], [names[i] for i in order], K, 0)
    torch.testing.assert_close(got, due[order])


@pytest.mark.parametrize("method", ["off-policy", "off-policy-exact"])
@settings(max_examples=50)
@given(batch=batches(), seed=st.integers(0, 9))
def test_ratios_stay_with_their_samples(method, batch, seed):
    groups, order = batch
    rewards = torch.tensor([r for group in groups for r in group])
    ratios = torch.randn(len(rewards), generator=torch.Generator().manual_seed(seed))
    names = [str(g) for g, group in enumerate(groups) for _ in group]
    start, due = 0, []
    for group in groups:
        own = ratios[start : start + len(group)]
        due.append(advantages(method, torch.tensor(group), K, own, clamp_delta=0.3))
        start += len(group)
    got = group_advantages(
        method, rewards[order], [names[i] for i in order], K, ratios[order], clamp_delta=0.3
    )
    torch.testing.assert_close(got, torch.cat(due)[order])


def test_rows_that_are_no_samples_count_in_no_group():
    rewards = torch.tensor([1.0, 9.0, 0.0, 0.0, 9.0])
    there = torch.tensor([True, False, True, True, False])
    got = group_advantages("bon-centered", rewards, ["a", "a", "a", "a", "pad"], 2, member_B=there)
    alone = advantages("bon-centered", torch.tensor([1.0, 0.0, 0.0]), 2)
    assert got.tolist() == [alone[0], 0.0, alone[1], alone[2], 0.0]


@pytest.mark.parametrize(
    ("method", "k", "size"), [("bon-mean", 2, 2), ("bon-loo", 3, 2), ("grpo", None, 1)]
)
def test_a_group_too_small_for_the_method_trains_nothing(method, k, size):
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.5, *[1.0, 0.0][:size]])
    got = group_advantages(method, rewards, ["whole"] * 4 + ["rest"] * size, k)
    assert got[:4].abs().sum() > 0
    assert got[4:].tolist() == [0.0] * size


def test_bon_loo_works_on_a_group_of_k():
    got = group_advantages("bon-loo", torch.tensor([1.0, 0.0]), ["a", "a"], 2)
    assert got[0] > 0


def test_if_no_group_is_large_enough_the_settings_are_wrong():
    with pytest.raises(ValueError, match=r"largest group has 2 samples.*needs 3"):
        group_advantages("bon-mean", torch.tensor([1.0, 0.0]), ["a", "a"], 2)


def test_an_empty_batch_is_nothing_to_complain_about():
    none = torch.tensor([False, False])
    got = group_advantages("grpo", torch.zeros(2), ["a", "a"], member_B=none)
    assert got.tolist() == [0.0, 0.0]
