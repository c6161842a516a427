"""Methods that are not in maxk's registry: tried here, under names of their own."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from maxk.estimators.methods import METHODS, Method, bon_loo, grpo, on_policy, pass_at_k
from maxk.estimators.settings import FACTS


def levels(r: Tensor, k: int) -> Tensor:
    """max@k as pass@k of every level of reward, each standardised and weighted by its height.

    A reward is the sum of the levels it reaches, and so is the best of k. Standardised one by one,
    a level that few reach counts for more than in the sum.
    """
    sorted_J = r.sort(-1).values
    heights_J = torch.diff(sorted_J, dim=-1, prepend=sorted_J[..., :1])
    reached_JN = (r[..., None, :] >= sorted_J[..., :, None]).to(r.dtype)
    return (heights_J[..., None] * pass_at_k(reached_JN, k)).sum(-2)


def top(r: Tensor, k: int) -> Tensor:
    """pass@k, standardised, of being as good as the best of the group, however little that is."""
    return pass_at_k((r == r.amax(-1, keepdim=True)).to(r.dtype), k)


def all_k(r: Tensor, k: int) -> Tensor:
    """max@1 to max@k at once, each centred and divided by its k.

    So a group in which all but a few pass still says something. For binary rewards and k = n the
    sum of pass@k / k is that of max-rl.
    """
    parts = [on_policy(r, each, "loo") / each for each in range(1, k + 1)]
    return torch.stack(parts).sum(0) / sum(1 / each for each in range(1, k + 1))


def raised(r: Tensor, k: int, share: float) -> Tensor:
    """max@k against a baseline between that of bon-centered and 1, the best there is.

    No baseline that does not see the sample changes the gradient on average. A higher one says the
    same with more weight on what to do less of, which should narrow the policy less. By
    `advantages` a group of equal rewards gets 0 all the same, so that in training, problems that
    are next to never solved count for less than in the gradient of max@k.
    """
    n = r.shape[-1]
    w = on_policy(r, k)
    centered = on_policy(r, k, "loo")
    others = w - centered  # k/n times the max@k of the others
    return centered - share * (k / n - others)


def within_region(r: Tensor, k: int, log_ratios: Tensor | None, method: Callable) -> Tensor:
    """A method's weights as they are, whatever the ratios.

    Registered as off-policy, it has the masking of those methods in place of PPO's clip: what
    has moved too far as a whole is left out. So it tells the region from the ratios.
    """
    return method(r, k)


def of_power(r: Tensor, k: int, power: int, method: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A method for the reward to a power: what lacks a test is worth less."""
    return method(r**power, k)


def of_full(r: Tensor, k: int, method: Callable[[Tensor, int], Tensor]) -> Tensor:
    """A method for the mean of the continuous and the binary reward."""
    return method((r + (r >= 1)) / 2, k)


def register() -> None:
    """Give the registry of this process these methods too."""
    centered = partial(on_policy, baseline="loo")
    functions: dict[str, Callable[..., Tensor]] = {
        "baseline-none": partial(on_policy, baseline="none"),
        "baseline-mean": partial(on_policy, baseline="mean"),
        "all-k": all_k,
        "raised-25": partial(raised, share=0.25),
        "raised-50": partial(raised, share=0.5),
        "levels": levels,
        "top": top,
        "centered-power-2": partial(of_power, power=2, method=centered),
        "centered-power-4": partial(of_power, power=4, method=centered),
        "loo-power-4": partial(of_power, power=4, method=bon_loo),
        "centered-full": partial(of_full, method=centered),
        "levels-power-4": partial(of_power, power=4, method=levels),
    }
    for name, function in functions.items():
        FACTS[name] = METHODS[name] = Method(summary=name, function=function, uses_k=True)
    regions = {"grpo-region": lambda r, k: grpo(r), "centered-region": centered}
    for name, method in regions.items():
        function = partial(within_region, method=method)
        FACTS[name] = METHODS[name] = Method(
            summary=name,
            function=function,
            uses_k=True,
            off_policy=True,
            clamp_delta=FACTS["off-policy-exact"].clamp_delta,
            masking=FACTS["off-policy-exact"].masking,
        )
