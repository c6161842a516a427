"""The demo's bandit: its closed form is right, and training shows the effect it is there for."""

from dataclasses import replace

import pytest
import torch

from examples.bandit import max_at, named, train, world
from maxk import max_at_k

SEEDS = 2


@pytest.mark.parametrize("k", [1, 4, 128])
def test_closed_form_of_max_at_k_agrees_with_the_estimator_on_samples(k):
    """Within 5 standard errors, from 2 x 128 prompts with 4096 samples each; the seed is fixed."""
    logits_SPA, rewards_SPA = world(SEEDS)
    torch.manual_seed(0)
    drawn = torch.multinomial(logits_SPA.softmax(-1).flatten(0, 1), 4096, replacement=True)
    sampled = max_at_k(rewards_SPA.gather(-1, drawn.view(SEEDS, 128, 4096)).double(), k)
    exact = torch.stack(
        [max_at(k, logits_SPA[:, p : p + 1], rewards_SPA[:, p : p + 1]) for p in range(128)], -1
    )
    error = (sampled - exact).flatten()
    assert abs(error.mean()) < 5 * error.std() / len(error) ** 0.5
    assert error.std() < 0.05


def test_grpo_narrows_and_max_at_k_does_not():
    """The margins are 0.05 around effects of 0.1 and more, on fixed seeds."""

    def after(method: str) -> tuple[float, float]:
        logits, rewards = train(replace(named(method, 4), seeds=SEEDS))
        return max_at(1, logits, rewards).mean().item(), max_at(128, logits, rewards).mean().item()

    base = [max_at(k, *world(SEEDS)).mean().item() for k in (1, 128)]
    grpo, exact = after("grpo"), after("off-policy-exact")
    normalized = after("off-policy-normalized")
    assert grpo[0] > base[0] + 0.3
    assert grpo[1] < base[1] - 0.05
    assert exact[0] > grpo[0] + 0.05
    assert exact[1] > base[1] + 0.05
    assert normalized[0] > grpo[0] + 0.05
    assert normalized[1] > base[1] + 0.05


def test_many_updates_on_a_batch_narrow_the_exact_weights_and_not_the_normalized():
    """Eight updates: 0.75 and 0.86 at k = 128, of which half the distance is asked for."""

    def at_128(method: str) -> float:
        logits, rewards = train(replace(named(method, 4), updates=8, seeds=2, batches=60))
        return max_at(128, logits, rewards).mean().item()

    assert at_128("off-policy-normalized") > at_128("off-policy-exact") + 0.05
