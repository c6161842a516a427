"""Every objective with every correction and baseline, against enumeration of all subsets."""

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.estimators import objectives as made
from maxk.estimators import weights
from maxk.estimators.combinations import BASELINES, CORRECTIONS
from maxk.estimators.objectives import Objective
from maxk.estimators.places import places

N = 5
OBJECTIVES = [
    made.mean(),
    made.max_at_k(2),
    made.max_at_k(4),
    made.min_at_k(3),
    made.pass_at_k(3, threshold=0.5),
    made.mixture({1: 0.5, 3: 2.0, 4: -1.0}),
    made.uniform(4),
    made.max_rl(4),
    made.l_statistic([0.0, 1.0, 0.0]),
    made.l_statistic([-1.0, 0.0, 0.5, 1.0]),
    made.cvar(0.5, 3),
    made.cvar(-0.4, 4),
    made.quantile(0.7, 4),
]


def worth(ranks, rewards) -> float:
    """f of a subset: each rank's weight times the reward of this rank."""
    return sum(weight * reward for weight, reward in zip(ranks, sorted(rewards), strict=True))


def enumerated(objective: Objective, r, ratios, correction: str, baseline: str) -> list[float]:
    """The weights as the definitions read, in rational arithmetic."""
    n = len(r)
    r = [Fraction(x) for x in r]
    if objective.threshold is not None:
        r = [Fraction(x >= objective.threshold) for x in r]
    rho = [Fraction(1)] * n if correction == "none" else [Fraction(x) for x in ratios]

    def factor(subset) -> Any:
        if correction == "first":
            return 1 + sum(rho[i] - 1 for i in subset)
        return math.prod(rho[i] for i in subset)

    w: list[Any] = [Fraction(0)] * n
    for part in objective.of(n):
        ranks = [Fraction(x) for x in part.ranks]
        subsets = list(itertools.combinations(range(n), part.k))
        whole = sum(factor(s) for s in subsets)
        mean = sum(factor(s) * worth(ranks, [r[i] for i in s]) for s in subsets) / (whole or 1)
        for s in subsets:
            f, here = factor(s), worth(ranks, [r[i] for i in s])
            for i in range(n):
                if correction == "normalized":
                    term = (i in s) * f / whole * (here - mean)
                elif baseline == "loo-1":
                    # One rank less: the best of k is the last, the worst the first.
                    fewer = ranks[1:] if ranks[-1] == 1 else ranks[:-1]
                    rest = worth(fewer, [r[j] for j in s if j != i]) if i in s else 0
                    term = (i in s) * f * (here - rest) / len(subsets)
                elif baseline == "loo" and i not in s:
                    term = -rho[i] * Fraction(part.k, n - part.k) * f * here / len(subsets)
                else:
                    term = (i in s) * f * here / len(subsets)
                w[i] += Fraction(part.weight) * term
    if baseline == "ratio-mean":
        w = [x - rho_i / sum(rho) * sum(w) for x, rho_i in zip(w, rho, strict=True)]
    if baseline in ("mean", "zscore"):
        w = [x - sum(w) / n for x in w]
    out = [float(x) for x in w]
    if baseline == "zscore":
        spread = math.sqrt(sum(x * x for x in out) / (n - 1))
        out = [x / spread if spread > 1e-9 else 0.0 for x in out]
    return out


def makes_sense(objective: Objective, correction: str, baseline: str) -> bool:
    if correction == "normalized":
        return baseline == "none"
    ends = all(part.k > 1 and (part.is_best or part.is_worst) for part in objective.parts)
    return ends if baseline == "loo-1" else True


COMBINATIONS = [
    (objective, correction, baseline)
    for objective in OBJECTIVES
    for correction in CORRECTIONS
    for baseline in BASELINES
    if makes_sense(objective, correction, baseline)
]
ids = [f"{o}-{c}-{b}" for o, c, b in COMBINATIONS]
REWARDS = torch.tensor([[0.0, 1.0, 0.25, 0.75, 0.5], [1, 0.0, 1, 1, 0.25]], dtype=torch.float64)
LOGS = torch.tensor([[0.3, -1.2, 0.0, 2.0, 0.5], [0, -0.1, 0.2, 0.1, -9]], dtype=torch.float64)


@pytest.mark.parametrize(("objective", "correction", "baseline"), COMBINATIONS, ids=ids)
def test_weights_are_the_enumerated_sums(objective, correction, baseline):
    at = None if correction == "none" else LOGS
    found = weights(REWARDS, objective, at, correction, baseline)
    for got, r, x in zip(found, REWARDS, LOGS, strict=True):
        want = enumerated(objective, r.tolist(), x.exp().tolist(), correction, baseline)
        assert got.tolist() == pytest.approx(want, abs=1e-11)


ranks = st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0]), min_size=1, max_size=4).filter(any)
reward = st.sampled_from([0.0, 0.2, 0.2, 0.5, 1.0]) | st.floats(-10, 10)


@settings(max_examples=40, deadline=None)
@given(ranks, st.lists(st.tuples(reward, st.floats(-4, 4)), min_size=5, max_size=6))
def test_any_statistic_of_ranks_has_the_enumerated_weights(given_ranks, group):
    objective = made.l_statistic(given_ranks)
    r, x = (torch.tensor(column, dtype=torch.float64) for column in zip(*group, strict=True))
    ways: Any = (("exact", "loo"), ("normalized", "none"), ("first", "loo"))
    for correction, baseline in ways:
        want = enumerated(objective, r.tolist(), x.exp().tolist(), correction, baseline)
        got = weights(r, objective, x, correction, baseline)
        scale = max(1.0, float(r.abs().max())) * float(x.exp().max()) ** 4 * 10
        assert got.tolist() == pytest.approx(want, abs=1e-13 * scale)


def test_places_are_the_enumerated_shares():
    for n, k in ((1, 1), (6, 1), (6, 3), (7, 7), (8, 5)):
        subsets = list(itertools.combinations(range(n), k))
        for m in range(1, k + 1):
            want = [sum(s[m - 1] == j for s in subsets) / len(subsets) for j in range(n)]
            assert places(n, k, m).tolist() == pytest.approx(want, abs=1e-15)


# --- unbiased: every draw of a small policy is visited -------------------------------------------

ANSWERS = 3
VALUES = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
LOGITS = torch.tensor([0.7, 0.2, -0.6], dtype=torch.float64)
DRIFT = torch.tensor([-0.4, 0.5, 0.6], dtype=torch.float64)
DRAWS = torch.tensor(list(itertools.product(range(ANSWERS), repeat=N)))


def true_gradient(objective: Objective, values: torch.Tensor) -> torch.Tensor:
    """Of the sum over parts of the expected worth of k draws."""

    def value(logits: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for part in objective.parts:
            draws = torch.tensor(list(itertools.product(range(ANSWERS), repeat=part.k)))
            r = values[draws]
            if objective.threshold is not None:
                r = (r >= objective.threshold).double()
            weight = torch.tensor(part.ranks, dtype=torch.float64)
            chance = logits.softmax(-1)[draws].prod(-1)
            total = total + part.weight * (chance * (r.sort(-1).values @ weight)).sum()
        return total

    return torch.func.grad(value)(LOGITS)


def expected_gradient(w: torch.Tensor, chance: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    scores = torch.eye(ANSWERS, dtype=torch.float64) - LOGITS.softmax(-1)  # grad log pi(y), row y
    return torch.einsum("d,dn,dna->a", chance, w, scores[draws])


UNBIASED = [
    (objective, correction, baseline)
    for objective, correction, baseline in COMBINATIONS
    if correction in ("none", "exact") and baseline in ("none", "loo", "loo-1")
]


@pytest.mark.parametrize(("objective", "correction", "baseline"), UNBIASED)
def test_the_expected_step_is_the_gradient(objective, correction, baseline):
    """Off-policy each sample has a policy of its own: the i-th of a group is i updates old."""
    drift = torch.zeros(N, ANSWERS, dtype=torch.float64)
    if correction == "exact":
        drift = torch.arange(N, dtype=torch.float64)[:, None] / 2 * DRIFT
    sampler = (LOGITS - drift).log_softmax(-1)  # of each place in the group
    ratios = LOGITS.log_softmax(-1) - sampler
    chance = sampler[torch.arange(N), DRAWS].sum(-1).exp()
    at = None if correction == "none" else ratios[torch.arange(N), DRAWS]
    w = weights(VALUES[DRAWS], objective, at, correction, baseline)
    assert torch.allclose(
        expected_gradient(w, chance, DRAWS), true_gradient(objective, VALUES), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    "objective", [made.max_at_k(2), made.uniform(3), made.min_at_k(3)], ids=str
)
@pytest.mark.parametrize("baseline", ["none", "loo"])
def test_a_noisy_verifier_is_seen_through(objective, baseline):
    """Every draw of the policy and of the verifier's errors is visited."""
    n, passes = 4, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    draws = torch.tensor(list(itertools.product(range(ANSWERS), [False, True], repeat=n)))
    answer, error = draws[:, 0::2], draws[:, 1::2].bool()
    right = passes[answer]
    rate = 0.2 - 0.1 * right  # 0.1 false negatives, 0.2 false positives
    chance = LOGITS.softmax(-1)[answer].prod(-1) * torch.where(error, rate, 1 - rate).prod(-1)
    seen = torch.where(error, 1 - right, right)
    got = {
        name: expected_gradient(weights(seen, each, baseline=baseline), chance, answer)
        for name, each in {"plain": objective, "mended": made.denoised(objective, 0.2, 0.1)}.items()
    }
    due = true_gradient(objective, passes)
    assert torch.allclose(got["mended"], due, rtol=0, atol=1e-12)
    assert not torch.allclose(got["plain"], due, rtol=0, atol=1e-3)
