"""The snippets of docs/how-to/other-trainers.md run, each at the place its trainer gives it.

TRL's is a tutorial; verl's is run where verl is: tests/integrations/test_snippet.py.
"""

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from maxk.estimators import advantages, mask_sequences
from maxk.estimators.groups import group_advantages

TEXT = (Path(__file__).parents[1] / "docs" / "how-to" / "other-trainers.md").read_text()
FIRST, SECTIONS = TEXT.split("\n## ", 1)
BLOCKS = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", "## " + SECTIONS, re.M | re.S))
REWARDS = torch.tensor([[1.0, 0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 0.0]])
DUE = advantages("bon-centered", REWARDS, 4)
N = REWARDS.shape[1]


def run(name: str, **names: Any) -> dict[str, Any]:
    given = {"torch": torch, "advantages": advantages, "group_advantages": group_advantages}
    scope = {**given, "mask_sequences": mask_sequences, **names}
    exec(BLOCKS[name], scope)
    return scope


@pytest.fixture
def modules(monkeypatch):
    """A module under the name that a framework has it under."""

    def put(name: str, **names: Any) -> None:
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(".".join(parts[:i])))
        vars(sys.modules[name]).update(names)

    return put


def test_all_snippets_are_short():
    assert list(BLOCKS) == ["TRL's GRPOTrainer", "prime-rl", "OpenRLHF", "SkyRL", "Your own loop"]
    for code in BLOCKS.values():
        assert len([line for line in code.splitlines() if line]) <= 11


def test_the_two_functions_give_what_the_page_says():
    (code,) = re.findall(r"```python\n(.*?)```", FIRST, re.S)
    scope: dict[str, Any] = {}
    exec(code, scope)
    torch.testing.assert_close(scope["in_any_order"].view(4, 2).T, scope["by_row"])
    assert scope["by_row"].abs().max() > 0


def test_prime_rl(modules):
    known: dict[str, Any] = {}
    modules("prime_rl.orchestrator.algo", ALGORITHM_CLASSES=known, Algorithm=object)
    run("prime-rl")

    class Rollout:
        def __init__(self, reward: float) -> None:
            self.reward = reward

        def assign_advantages(self, advantage: float) -> None:
            self.advantage = advantage

    for rewards, due in zip(REWARDS, DUE, strict=True):
        group = [Rollout(reward) for reward in rewards.tolist()]
        asyncio.run(known["max_rl"]().score_group(group))
        assert [rollout.advantage for rollout in group] == pytest.approx(due.tolist())


def test_openrlhf(modules):
    class Maker:
        """With dr_grpo: what is left of the reward after the group's mean, for every sample."""

        strategy = SimpleNamespace(
            args=SimpleNamespace(rollout=SimpleNamespace(n_samples_per_prompt=N))
        )

        def compute_advantages_and_returns(self, experiences):
            index = torch.tensor([i for e in experiences for i in e.index])
            ordered = torch.empty(2 * N)
            ordered[index] = torch.cat([e.rewards for e in experiences])
            table = ordered.view(-1, N)
            flat = (table - table.mean(-1, keepdim=True)).flatten()[index]
            for e, part in zip(
                experiences, flat.split([len(e.index) for e in experiences]), strict=True
            ):
                e.advantages = part
            return experiences

    modules("openrlhf.trainer.ppo_utils.experience_maker", RemoteExperienceMaker=Maker)
    maker = run("OpenRLHF")["MaxAtK"]()
    order = [7, 0, 3, 9, 1, 5, 8, 2, 6, 4]
    flat = REWARDS.flatten()
    made = [
        SimpleNamespace(index=part, rewards=flat[part].to(torch.bfloat16))
        for part in (order[:4], order[4:])
    ]
    done = maker.compute_advantages_and_returns(made)
    got = torch.cat([e.advantages for e in done])
    torch.testing.assert_close(got, DUE.flatten()[order])


def test_skyrl(modules):
    registry: dict[str, Any] = {}

    def register(name: str):
        return lambda function: registry.setdefault(name, function)

    where = "skyrl.backends.skyrl_train.utils.ppo_utils"
    modules(where, register_advantage_estimator=register)
    run("SkyRL")
    order = [7, 0, 3, 9, 1, 5, 8, 2, 6, 4]
    rewards = torch.zeros(11, 3)
    rewards[:10, 1] = REWARDS.flatten()[order]
    mask = torch.ones(11, 3)
    mask[:, 2] = 0
    mask[10] = 0  # padding
    index = np.array([str(i // N) for i in order] + ["1"])
    unused = {"values": None, "grpo_norm_by_std": True, "gamma": 1.0, "lambd": 1.0, "config": None}
    got, returns = registry["bon-centered"](
        token_level_rewards=rewards, response_mask=mask, index=index, **unused
    )
    due = torch.cat([DUE.flatten()[order], torch.zeros(1)])[:, None] * mask
    torch.testing.assert_close(got, due)
    torch.testing.assert_close(returns, due)


def test_your_own_loop():
    torch.manual_seed(0)
    logits = torch.nn.Parameter(torch.randn(2, 3))
    drawn = torch.tensor([[0, 1, 2], [0, 1, 2]])

    def sequence_logps(model) -> torch.Tensor:
        return model.log_softmax(-1).gather(-1, drawn).flatten()

    optimizer = torch.optim.SGD([logits], lr=0.5)
    before = sequence_logps(logits).detach()
    run("Your own loop", model=logits, optimizer=optimizer, sequence_logps=sequence_logps)
    moved = sequence_logps(logits).detach() - before
    assert moved.view(2, 3).argmax(-1).tolist() == [0, 1]  # the best of each group gained most
