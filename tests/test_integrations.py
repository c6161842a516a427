"""The snippets of docs/integrations.md run, each at the place its trainer gives it.

verl's is run where verl is: tests/integrations/test_snippet.py.
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
from datasets import Dataset

from maxk.estimators import advantages, mask_sequences
from maxk.estimators.groups import group_advantages
from tests.tiny import tiny_model

TEXT = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text()
BLOCKS = dict(re.findall(r"^## (.+?)\n.*?```(?:python|sh)\n(.*?)```", TEXT, re.M | re.S))
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
    assert list(BLOCKS) == ["TRL", "verl", "prime-rl", "OpenRLHF", "SkyRL", "Your own loop"]
    for code in BLOCKS.values():
        assert len([line for line in code.splitlines() if line]) <= 10


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
def test_trl(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from maxk.train import MaxKConfig

    small = {"max_completion_length": 4, "use_cpu": True, "bf16": False, "report_to": []}

    def config(**given: Any) -> MaxKConfig:
        return MaxKConfig(**given, **small, save_strategy="no", learning_rate=1e-2)

    model, tokenizer = tiny_model()
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    monkeypatch.setattr("maxk.train.MaxKConfig", config)
    scope = run(
        "TRL",
        model=str(tmp_path / "tiny"),
        data=Dataset.from_list([{"prompt": f"{i} "} for i in range(8)]),
        reward=lambda completions, **_: [float(len(set(text))) for text in completions],
    )
    trainer = scope["trainer"]
    assert trainer.state.global_step == 2
    assert scope["settings"].method == "off-policy-exact"
    assert not torch.equal(trainer.model.lm_head.weight, model.lm_head.weight)


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
