"""Which objective, correction and baseline fit each other. No torch."""

from typing import Literal, get_args

from maxk.estimators.objectives import Objective

Correction = Literal["none", "first", "exact", "normalized"]
Baseline = Literal["none", "mean", "zscore", "loo", "loo-1", "ratio-mean"]

CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
BASELINES: tuple[Baseline, ...] = get_args(Baseline)


def check_combination(objective: Objective, correction: str, baseline: str, n: int) -> None:
    """ValueError where objective, correction and baseline do not fit each other, or n samples."""
    if correction not in CORRECTIONS:
        known = ", ".join(CORRECTIONS)
        raise ValueError(f"correction={correction!r} is unknown; use one of {known}")
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r} is unknown; use one of {', '.join(BASELINES)}")
    parts = objective.of(n)
    if correction == "normalized" and baseline != "none":
        raise ValueError(
            f'baseline={baseline!r} with correction="normalized": its weights are centred without '
            'one; leave it out, or use correction="exact"'
        )
    if objective.k == n and correction == "normalized":
        raise ValueError(
            f'correction="normalized" with k={n} equal to n={n}: there is one subset, and no '
            f'sample makes it better than it is; use k < n (k <= {n - 1}) or correction="exact"'
        )
    if objective.k == n and baseline in ("mean", "zscore", "loo", "ratio-mean"):
        raise ValueError(
            f"baseline={baseline!r} with k={n} equal to n={n}: there is one subset, every sample "
            "has the same weight, and centring leaves nothing to train on; use k < n "
            f'(k <= {n - 1}) or baseline="loo-1"'
        )
    if baseline != "loo-1":
        return
    if any(part.k == 1 for part in parts):
        raise ValueError(
            f'baseline="loo-1" with {objective}: for k=1 it asks for the best of no samples; use '
            'k >= 2 or baseline="loo"'
        )
    if not all(part.is_best or part.is_worst for part in parts):
        raise ValueError(
            f'baseline="loo-1" with {objective}: only the best and the worst of k samples have a '
            'value for k - 1 of them; use baseline="loo"'
        )
