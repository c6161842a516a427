"""A KL term to the policy that sampled: TRL's reference, made the policy before every batch."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset

from maxk.estimators import METHODS, advantages
from maxk.train.arithmetic import ZSCORES, arithmetic, gradient_over_mean
from tests.tiny import tiny_model
from tests.train.test_trainer import Watched, config, digits, logged, train

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

UPDATES = 3
FOLLOWING: dict[str, Any] = {"sync_ref_model": True, "ref_model_mixup_alpha": 1.0}
FOLLOWING |= {"ref_model_sync_steps": UPDATES, "num_iterations": UPDATES, "beta": 0.01}
FOLLOWING |= {"learning_rate": 5e-3, "max_steps": 9}
OF_FOLLOWING = ("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps")
STANDING = {name: value for name, value in FOLLOWING.items() if name not in OF_FOLLOWING}


@pytest.fixture
def start(tmp_path: Path) -> str:
    """From where TRL takes the reference."""
    tiny_model()[0].save_pretrained(tmp_path / "start")
    return str(tmp_path / "start")


def divergences(trainer: Watched) -> list[float]:
    return [line["kl"] for line in logged(trainer, "kl")]


@pytest.mark.parametrize("method", ["off-policy", "grpo"])
def test_the_term_is_to_the_policy_that_sampled(tmp_path, start, method):
    trainer = train(tmp_path, start=start, method=method, **FOLLOWING)
    kl = divergences(trainer)
    assert len(kl) == FOLLOWING["max_steps"]
    for step, value in enumerate(kl):
        if step % UPDATES == 0:  # the first on a batch
            assert abs(value) < 1e-6, (step, kl)
        else:
            assert value > 1e-5, (step, kl)
    fixed = train(tmp_path, start=start, method=method, **STANDING)
    assert divergences(fixed)[UPDATES] > 1e-4  # to the start: what the settings are for


def gone_on(folder: Path, start: str, after: int, **changes: Any) -> Watched:
    """A training that was stopped after so many steps."""
    settings = {**FOLLOWING, "save_strategy": "steps", "save_steps": after, **changes}
    settings["output_dir"] = str(folder / "out")
    train(folder, start=start, method="off-policy", **{**settings, "max_steps": after})
    model, tokenizer = tiny_model()
    model.config._name_or_path = start
    trainer = Watched(
        model=model,
        reward_funcs=digits,
        args=config(folder, method="off-policy", **{**settings, "save_strategy": "no"}),
        train_dataset=Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=True)
    return trainer


@pytest.mark.parametrize(
    ("after", "every"),
    [(3, 3), (4, 3), (6, 6)],
    ids=["after a batch", "after a part of one", "two batches, one reference"],
)
def test_a_checkpoint_goes_on_with_the_same_reference(tmp_path, start, after, every):
    settings = {**FOLLOWING, "ref_model_sync_steps": every}
    unbroken = train(tmp_path / "unbroken", start=start, method="off-policy", **settings)
    here = divergences(gone_on(tmp_path, start, after, ref_model_sync_steps=every))
    left = settings["max_steps"] - after
    assert here[-left:] == pytest.approx(divergences(unbroken)[-left:], rel=1e-3, abs=1e-6)
    assert max(here[-left:]) > 1e-5


@pytest.mark.parametrize(
    ("after", "changes"),
    [(3, {"ref_model_mixup_alpha": 0.5}), (3, {"ref_model_sync_steps": 6})],
    ids=["a mixed one", "an earlier policy"],
)
def test_a_reference_that_is_lost_is_said_to_be(tmp_path, start, after, changes):
    with pytest.warns(UserWarning, match="step 3 does not have the reference model"):
        gone_on(tmp_path, start, after, **changes)


FOLLOWED = "0.01, to a model that follows the policy; for max@k - b KL it is b / 8"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"beta": 0.0}, ""),
        ({"method": "grpo"}, "0.01, to the policy that sampled"),
        ({"method": "bon-mean", "stands": True}, "0.01, to the base model"),
        ({"ref_model_sync_steps": 6}, FOLLOWED),
        ({"ref_model_mixup_alpha": 0.5}, FOLLOWED),
        ({}, "0.01, to the policy that sampled; for max@k - b KL it is b / 8"),
        ({"method": "bon-loo"}, "0.01, to the policy that sampled; for max@k - b KL it is b / 4"),
    ],
)
def test_it_is_said_to_whom_the_term_is(tmp_path, changes, said):
    given = STANDING if changes.get("stands") or changes.get("beta") == 0 else FOLLOWING
    asked = {name: value for name, value in changes.items() if name != "stands"}
    args = config(tmp_path, **{**given, "method": "off-policy", **asked})
    shown = str(arithmetic(args, prompts=16))
    line = next((line for line in shown.splitlines() if "KL term" in line), "")
    assert line.removeprefix("  KL term").strip() == said


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].uses_k and m not in ZSCORES])
def test_the_strength_that_is_said_is_that_of_max_at_k_itself(tmp_path, method, k):
    """Over all groups of samples that pass with probability p."""
    p = torch.tensor(0.3, dtype=torch.float64)
    due = k * (1 - p) ** (k - 1)  # d/dp of pass@k
    groups = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4)), dtype=torch.float64)
    chance = torch.where(groups == 1, p, 1 - p).prod(-1)
    score = torch.where(groups == 1, 1 / p, -1 / (1 - p))
    averaged = (chance * (advantages(method, groups, k, 0) * score).mean(-1)).sum()
    times = gradient_over_mean(config(tmp_path, method=method, k=k))
    assert times * averaged.item() == pytest.approx(due.item(), rel=1e-9)
