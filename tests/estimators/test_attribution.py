"""Methods beside the formulas that others published, written out here as they define them.

Everything is enumerated over subsets, so nothing of maxk is used on the other side.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk.estimators import advantages, objectives, weights

GROUPS = st.lists(st.integers(-4, 4).map(lambda x: x / 4), min_size=3, max_size=6)


def others(n: int, *out: int) -> list[int]:
    return [i for i in range(n) if i not in out]


def maxpo(r: list[float], k: int) -> list[float]:
    """MaxPO (2606.06080): a sample's best of k, less its leave-two-out baseline.

    The first is the mean best reward of i and k-1 of the others. The baseline of i is the mean,
    over every other j, of the same for j with k-1 that are neither i nor j.
    """
    n = len(r)

    def best_with(j: int, rest: list[int]) -> float:
        return fmean(max([r[j], *(r[i] for i in chosen)]) for chosen in combinations(rest, k - 1))

    return [
        best_with(i, others(n, i)) - fmean(best_with(j, others(n, i, j)) for j in others(n, i))
        for i in range(n)
    ]


def ordergrad(r: list[float], k: int, ranks: Sequence[float] = ()) -> list[float]:
    """OrderGrad (2606.06096), leave-one-out, for an L-statistic of k samples.

    The mean of the statistic over the k-subsets that have i, less that over those without it. The
    best of k is the L-statistic whose rank weights are 0 but for the largest.
    """
    n, ranks = len(r), ranks or [0.0] * (k - 1) + [1.0]

    def statistic(chosen: tuple[int, ...]) -> float:
        ordered = sorted(r[i] for i in chosen)
        return sum(weight * value for weight, value in zip(ranks, ordered, strict=True))

    return [
        fmean(statistic((i, *chosen)) for chosen in combinations(others(n, i), k - 1))
        - fmean(statistic(chosen) for chosen in combinations(others(n, i), k))
        for i in range(n)
    ]


def sloo_as_listed(r: list[float], k: int) -> list[float]:
    """PKPO's sloo, as the listing of 2505.15201 has it: k / (n-1) of max@k of the others."""
    n, subsets = len(r), list(combinations(range(len(r)), k))
    sums = [sum(max(r[j] for j in chosen) for chosen in subsets if i in chosen) for i in range(n)]
    return [
        sums[i] / len(subsets)
        - k / (n - 1) * fmean(max(r[j] for j in chosen) for chosen in combinations(others(n, i), k))
        for i in range(n)
    ]


def grpo_passk(r: list[float], normalise: bool) -> list[float]:
    """verl's: the best sample gets its lead over the second of the sorted rewards, others 0."""
    ordered, first = sorted(r, reverse=True), r.index(max(r))
    found = [ordered[0] - ordered[1] if i == first else 0.0 for i in range(len(r))]
    spread = torch.tensor(r, dtype=torch.float64).std().item() + 1e-6
    return [x / spread for x in found] if normalise else found


def ours(method: str, r: list[float], k: int | None = None) -> torch.Tensor:
    return advantages(method, torch.tensor([r], dtype=torch.float64), k)[0]


def cosine(a: torch.Tensor, b: list[float]) -> float:
    return torch.cosine_similarity(a, torch.tensor(b, dtype=torch.float64), dim=0).item()


@pytest.mark.parametrize("published", [maxpo, ordergrad])
@given(r=GROUPS, data=st.data())
def test_bon_centered_is_k_over_n_times_the_leave_one_out_estimators(published, r, data):
    k = data.draw(st.integers(1, len(r) - 1))
    expected = [k / len(r) * x for x in published(r, k)]
    assert ours("bon-centered", r, k).tolist() == pytest.approx(expected, abs=1e-12)


@given(r=GROUPS, data=st.data())
def test_any_statistic_of_ranks_is_k_over_n_times_ordergrads(r, data):
    k = data.draw(st.integers(1, len(r) - 1))
    ranks = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=k, max_size=k))
    ranks[data.draw(st.integers(0, k - 1))] = 1.0
    found = advantages(objectives.l_statistic(ranks), torch.tensor([r], dtype=torch.float64))[0]
    expected = [k / len(r) * x for x in ordergrad(r, k, ranks)]
    assert found.tolist() == pytest.approx(
        [0.0] * len(r) if len({*r}) == 1 else expected, abs=1e-12
    )


# Times n where the second entry says so: a method of the mean reward has no 1/n in it.
COMBINATIONS: dict[str, tuple[objectives.Objective, bool, Any, Any]] = {
    "grpo": (objectives.mean(), False, "none", "zscore"),
    "dr-grpo": (objectives.mean(), True, "none", "mean"),
    "rloo": (objectives.mean(), True, "none", "loo"),
    "bon-loo": (objectives.max_at_k(3), False, "none", "loo-1"),
    "bon-mean": (objectives.max_at_k(3), False, "none", "zscore"),
    "bon-centered": (objectives.max_at_k(3), False, "none", "loo"),
    "off-policy": (objectives.max_at_k(3), False, "first", "mean"),
    "off-policy-exact": (objectives.max_at_k(3), False, "exact", "mean"),
    "off-policy-normalized": (objectives.max_at_k(3), False, "normalized", "none"),
}


@pytest.mark.parametrize("method", COMBINATIONS)
def test_named_methods_are_combinations(method):
    objective, times_n, correction, baseline = COMBINATIONS[method]
    r, x = torch.rand(2, 20, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    r = (r * 4).round() / 4
    given: dict[str, Any] = {} if correction == "none" else {"log_ratios": x - 0.5}
    clamp: dict[str, Any] = {"clamp_delta": math.inf} if given else {}
    k = 3 if objective.k == 3 else None
    found = advantages(method, r, k, **given, **clamp)
    combined = advantages(objective, r, **given, correction=correction, baseline=baseline)
    torch.testing.assert_close(found, combined * (6 if times_n else 1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [2, 4, 7])
def test_max_rl_by_mixture_tells_a_pass_from_a_failure_by_one_over_c_plus_1(n):
    """MaxRL's own estimator, r / mean(r) over n, by 1/c. Both are unbiased for one objective."""
    for c in range(1, n):
        r = torch.tensor([1.0] * c + [0.0] * (n - c), dtype=torch.float64)
        w = weights(r, objectives.max_rl(n))
        assert (w[0] - w[-1]).item() == pytest.approx(1 / (c + 1))
        theirs = advantages("max-rl", r[None])[0] / n
        assert (theirs[0] - theirs[-1]).item() == pytest.approx(1 / c)


@given(r=st.lists(st.booleans(), min_size=3, max_size=7), data=st.data())
def test_chens_analytic_pass_at_k_is_the_standardised_combination(r, data):
    """2508.10751: the advantage of a pass, (1 - p) / s, of a failure (1 - p - share) / s."""
    n, c = len(r), sum(r)
    k = data.draw(st.integers(1, n - 1))
    failures = n - c
    if c == 0 or failures < k:
        expected = [0.0] * n
    else:
        p = 1 - math.comb(failures, k) / math.comb(n, k)
        s = math.sqrt(p * (1 - p))
        share = math.comb(failures - 1, k - 1) / math.comb(n - 1, k - 1)
        expected = [(1 - p - (0 if passed else share)) / s for passed in r]
    found = ours("pass-at-k", [float(x) for x in r], k)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@given(r=GROUPS, data=st.data())
def test_bon_centered_does_not_change_when_all_rewards_do_alike_and_listed_sloo_does(r, data):
    k = data.draw(st.integers(1, len(r) - 1))
    more = [x + 1 for x in r]
    assert ours("bon-centered", more, k).tolist() == pytest.approx(
        ours("bon-centered", r, k).tolist(), abs=1e-12
    )
    moved = [a - b for a, b in zip(sloo_as_listed(more, k), sloo_as_listed(r, k), strict=True)]
    n = len(r)
    assert moved == pytest.approx([k / n - k / (n - 1)] * n)  # below 0, whatever the rewards


@pytest.mark.parametrize(("n", "k", "angle"), [(4, 2, 0.775), (8, 4, 0.627)])
def test_listed_sloo_points_elsewhere_than_bon_centered(n, k, angle):
    """For evenly spaced rewards from 0 to 1. It depends on them, and on a constant added to all."""
    r = [i / (n - 1) for i in range(n)]
    assert cosine(ours("bon-centered", r, k), sloo_as_listed(r, k)) == pytest.approx(
        angle, abs=1e-3
    )
    far = [x + 10 for x in r]
    assert cosine(ours("bon-centered", far, k), sloo_as_listed(far, k)) < 0.2


@given(r=GROUPS)
def test_bon_max_second_is_grpo_passk_where_one_sample_is_best(r):
    r = [*r, max(r) + 0.5]
    assert ours("bon-max-second", r).tolist() == pytest.approx(grpo_passk(r, False))
    assert cosine(ours("bon-max-second", r), grpo_passk(r, True)) == pytest.approx(1)


def test_ties_for_the_best_are_rewarded_by_bon_max_second_and_not_by_grpo_passk():
    r = [0.25, 1.0, 1.0, 0.0]
    assert ours("bon-max-second", r).tolist() == [0.0, 0.75, 0.75, 0.0]
    assert grpo_passk(r, False) == grpo_passk(r, True) == [0.0] * 4
