"""Ratios that have gone too far: bounded, or their samples dropped."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def clamp(log_ratios: Tensor, clamp_delta: float) -> Tensor:
    """Log-ratios with |rho - 1| <= clamp_delta (Listing 3 of the paper clamps delta so).

    clamp_delta=math.inf changes nothing.
    """
    if not clamp_delta > 0:
        raise ValueError(f"clamp_delta={clamp_delta} must be above 0; use math.inf for no clamp")
    low = math.log1p(-clamp_delta) if clamp_delta < 1 else -math.inf
    return log_ratios.clamp(low, math.log1p(clamp_delta))


def mask_sequences(
    advantages: Float[Tensor, "*batch n"],
    log_ratios: Float[Tensor, "*batch n"],
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
) -> Float[Tensor, "*batch n"]:
    r"""Advantages, but 0 for samples that have already moved enough the way they are pushed.

    .. math:: A_i \, 1\bigl[1 - \epsilon \le \rho_i \text{ or } A_i > 0\bigr] \,
              1\bigl[\rho_i \le 1 + \epsilon_{high} \text{ or } A_i < 0\bigr]

    A sample is dropped if rho > 1 + epsilon_high (default: epsilon) and its advantage is positive,
    or rho < 1 - epsilon and it is negative: where PPO's clipped objective is flat. For advantages
    that contain rho already (the off-policy methods), which clipping rho again would distort.

    >>> mask_sequences(torch.tensor([1.0, 1.0, -1.0]), torch.tensor([0.5, -0.5, -0.5]))
    tensor([0., 1., 0.])
    """
    high = epsilon if epsilon_high is None else epsilon_high
    for name, value in (("epsilon", epsilon), ("epsilon_high", high)):
        if not value > 0:
            raise ValueError(f"{name}={value} must be above 0")
    return torch.where(moved(advantages, log_ratios.detach(), epsilon, high), 0.0, advantages)


def moved(advantages: Tensor, log_ratios: Tensor, low: float, high: float) -> Tensor:
    """Where rho is above 1 + high and pushed up, or below 1 - low and pushed down."""
    change = log_ratios.expm1()
    return ((advantages > 0) & (change > high)) | ((advantages < 0) & (change < -low))
