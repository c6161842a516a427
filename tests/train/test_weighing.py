"""The weights of a batch, step by step, with plain tensors: no TRL, no model."""

import io
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk.estimators import METHODS, MethodSettings, weights
from maxk.train.weighing import Weighing

REWARDS_PN = torch.tensor([[0.0, 1.0, 0.5, 0.25], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
# Of the first group all have moved, of the last the best alone; ratios 1.65, 0.30, 1.35, 0.82.
LOG_RATIOS_PN = torch.tensor([[0.5, -1.2, 0.3, -0.2], [0.1, 0.0, 0.0, -0.1], [0.0, 0.0, 0.0, 0.25]])


def weighing(method: str = "off-policy-exact", *region: float, **more: Any) -> Weighing:
    k = 2 if METHODS[method].uses_k else None
    made = Weighing(MethodSettings(method, k=k, **more), *(region or (0.2,)))
    made.begin(REWARDS_PN, step=3, k=2)
    return made


def centred(log_ratios_PN: Tensor) -> Tensor:
    """Exact weights less their mean; 0 where all rewards are equal."""
    made = weights(REWARDS_PN, 2, log_ratios_PN, "exact", "mean")
    made[1] = 0
    return made


def test_without_ratios_the_weights_are_those_on_policy():
    for method in ("off-policy-exact", "bon-mean"):
        columns = weighing(method).columns()
        assert list(columns) == ["advantages"]
    torch.testing.assert_close(weighing().columns()["advantages"], centred(torch.zeros(3, 4)))


def test_an_on_policy_method_has_no_use_for_ratios():
    made = weighing("bon-centered")
    torch.testing.assert_close(made.columns(LOG_RATIOS_PN), made.columns())


def test_ratios_are_clamped_and_completions_masked_as_the_settings_say():
    clamped_PN = LOG_RATIOS_PN.clamp(math.log(0.5), math.log(1.5))
    free = weighing(masking="none").columns(LOG_RATIOS_PN)
    torch.testing.assert_close(free["advantages"], centred(clamped_PN))
    assert free["clamped"].tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert not free["masked"].any()
    plain = weighing(masking="none", clamp_delta=math.inf).columns(LOG_RATIOS_PN)
    torch.testing.assert_close(plain["advantages"], centred(LOG_RATIOS_PN))
    assert not plain["clamped"].any()


@pytest.mark.parametrize(
    ("region", "gone"),
    [((0.2,), {(2, 3)}), ((0.2, 0.3), set()), ((0.1, 0.28), {(2, 3), (0, 3)})],
)
def test_masking_has_bounds_of_its_own_above_and_below(region, gone):
    """Of the first group the second is pushed up, but has become less likely; the last is pushed
    down, to 0.82. Of the last group the best is pushed up, to 1.28."""
    made = weighing("off-policy-exact", *region).columns(LOG_RATIOS_PN)
    free = centred(LOG_RATIOS_PN.clamp(math.log(0.5), math.log(1.5)))
    assert free[0, 3] < 0 < free[2, 3]
    up, down = region[-1], region[0]
    ratios = LOG_RATIOS_PN.exp()
    due = ((free > 0) & (ratios > 1 + up)) | ((free < 0) & (ratios < 1 - down))
    assert gone == {(p, n) for p, n in due.nonzero().tolist() if (p, n) in {(2, 3), (0, 3)}}
    torch.testing.assert_close(made["advantages"], free.masked_fill(due, 0.0))
    assert torch.equal(made["masked"], due.float())


def test_some_groups_have_the_weights_that_they_have_among_all():
    made = weighing()
    whole = made.columns(LOG_RATIOS_PN)
    for name, values_PN in made.columns(LOG_RATIOS_PN[[2, 0]], torch.tensor([2, 0])).items():
        torch.testing.assert_close(values_PN, whole[name][[2, 0]])


def test_tokens_are_dropped_where_they_have_moved_the_way_they_are_pushed():
    made = weighing("off-policy-exact", 0.2, 0.4, masking="token")
    sampled_BT = torch.full((3, 4), -2.0)
    now_BT = sampled_BT + torch.tensor([[0.3, 0.35, -0.5, 0.0]] * 3)
    weights_B = torch.tensor([1.0, -1.0, 0.0])
    due = torch.tensor([[1.0, 0.0, 1.0, 1.0], [-1.0, -1.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(made.by_token(weights_B, now_BT, sampled_BT), due)
    for masking in ("sequence", "none"):
        whole = weighing(masking=masking).by_token(weights_B, now_BT, sampled_BT)
        assert torch.equal(whole, weights_B[:, None].expand(3, 4))


@pytest.mark.parametrize("method", ["bon-centered", "off-policy-exact", "grpo"])
def test_who_is_missing_is_in_no_group(method):
    """The others have the weights of the smaller group; too few of them have none."""
    nan = math.nan
    rewards_PN = torch.tensor([[0.0, 1.0, nan, 0.5], [1.0, 0.0, 0.5, 0.25], [nan, nan, nan, 1.0]])
    made = Weighing(MethodSettings(method, k=None if method == "grpo" else 2), 0.2)
    made.begin(rewards_PN, 0, made.settings.k)
    weights_PN = made.columns(LOG_RATIOS_PN)["advantages"]
    for group, members in ((0, [0, 1, 3]), (1, [0, 1, 2, 3])):
        alone = Weighing(made.settings, 0.2)
        alone.begin(rewards_PN[group, members][None], 0, made.settings.k)
        due = alone.columns(LOG_RATIOS_PN[group, members][None])["advantages"]
        assert due.abs().max() > 0
        torch.testing.assert_close(weights_PN[group, members], due[0])
    assert weights_PN[0, 2] == 0
    assert not weights_PN[2].any()
    if method == "off-policy-exact":
        assert made.has_gradient(torch.tensor([0, 11]), torch.ones(2)).tolist() == [True, False]


def test_off_policy_weights_change_with_every_step_and_others_with_k():
    off, on = weighing(), weighing("bon-centered")
    assert [off.go_on(step, 2) for step in (3, 4, 4, 5)] == [False, True, False, True]
    assert [on.go_on(*at) for at in ((3, 2), (4, 2), (5, 3), (5, 3))] == [False, False, True, False]
    due = weights(REWARDS_PN, 3, baseline="loo")
    due[1] = 0
    torch.testing.assert_close(on.columns()["advantages"], due)


def test_what_can_change_the_policy():
    rows_B = torch.tensor([11, 0, 5])
    assert weighing().has_gradient(rows_B, torch.zeros(3)).tolist() == [True, True, False]
    on = weighing("bon-max-mean")
    assert on.has_gradient(rows_B, torch.tensor([0.0, 0.1, -0.1])).tolist() == [False, True, True]


def test_a_batch_goes_on_from_what_a_checkpoint_has():
    made = weighing()
    made.go_on(4, 3)
    file = io.BytesIO()
    torch.save(made.state(), file)
    file.seek(0)
    other = Weighing(MethodSettings(k=2), 0.2)
    other.restore(torch.load(file, weights_only=True))
    assert (other.sampled_at, other.step, other.k) == (3, 4, 3)
    assert not other.go_on(4, 3)
    torch.testing.assert_close(other.columns(LOG_RATIOS_PN), made.columns(LOG_RATIOS_PN))
