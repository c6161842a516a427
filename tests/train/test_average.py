"""Other weights than the last as the trained model: their mean, and a way back to the first."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.utils import DistributedType
from datasets import Dataset

from maxk.train import trainer as trainer_module
from tests.tiny import tiny_model
from tests.train.test_trainer import WITH_LORA, Watched, config, digits, train

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

SETTINGS: dict[str, Any] = {"max_steps": 6, "learning_rate": 5e-3, "num_iterations": 3}


def weights_of(trainer: Watched) -> dict[str, torch.Tensor]:
    model: Any = trainer.model
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def gone_on_with(folder: Path, **more: Any) -> Watched:
    """A training whose first half was without these settings."""
    saving = {"save_strategy": "steps", "save_steps": 3, "output_dir": str(folder / "out")}
    train(folder, **{**SETTINGS, **saving, "max_steps": 3})
    model, tokenizer = tiny_model()
    trainer = Watched(
        model=model,
        reward_funcs=digits,
        args=config(folder, **{**SETTINGS, **saving, **more}),
        train_dataset=Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=True)
    return trainer


@pytest.mark.parametrize(("share", "first"), [(0.0, 1), (0.5, 4), (0.51, 4), (0.7, 5), (0.99, 6)])
def test_the_trained_model_is_the_mean_of_the_weights_after_the_later_steps(tmp_path, share, first):
    plain = train(tmp_path / "plain", **SETTINGS)
    averaged = train(tmp_path / "averaged", **SETTINGS, average_from=share)
    last = weights_of(plain)
    after = {**{step: plain.states[step] for step in range(6)}, 6: last}
    for step in range(6):  # the training itself is the same
        for name, weight in averaged.states[step].items():
            assert torch.equal(weight, after[step][name])
    moved = 0.0
    for name, weight in weights_of(averaged).items():
        mean = torch.stack([after[step][name].double() for step in range(first, 7)]).mean(0)
        torch.testing.assert_close(weight.double(), mean, rtol=1e-6, atol=1e-7)
        moved = max(moved, float((weight - last[name]).abs().max()))
    assert moved > 1e-3 or first == 6, "the last weights would have passed too"


def test_of_adapters_it_is_their_factors_that_are_averaged(tmp_path):
    more: dict[str, Any] = {**SETTINGS, **WITH_LORA}
    plain = train(tmp_path / "plain", **more)
    averaged = train(tmp_path / "averaged", **more, average_from=0.5)
    after = [plain.states[4], plain.states[5], weights_of(plain)]
    changed = 0
    for name, weight in weights_of(averaged).items():
        if "lora_" not in name:
            assert torch.equal(weight, plain.states[0][name])
            continue
        mean = torch.stack([each[name].double() for each in after]).mean(0)
        torch.testing.assert_close(weight.double(), mean, rtol=1e-6, atol=1e-7)
        changed += not torch.equal(weight, after[-1][name])
    assert changed


def test_a_checkpoint_from_before_there_was_a_mean_begins_one(tmp_path):
    trainer = gone_on_with(tmp_path, average_from=0.0)
    assert trainer._average is not None
    assert trainer._average.count == 3


@pytest.mark.parametrize("share", [0.1, 0.75])
def test_the_trained_model_is_on_the_line_to_the_one_it_began_as(tmp_path, share):
    plain = train(tmp_path / "plain", **SETTINGS)
    kept = train(tmp_path / "kept", **SETTINGS, keep_start=share)
    begun, last = plain.states[0], weights_of(plain)
    for step in range(6):  # the training itself is the same
        for name, weight in kept.states[step].items():
            assert torch.equal(weight, plain.states[step][name])
    far = 0.0
    for name, weight in weights_of(kept).items():
        expected = (1 - share) * last[name].double() + share * begun[name].double()
        torch.testing.assert_close(weight.double(), expected, rtol=1e-6, atol=1e-7)
        far = max(far, float((last[name] - begun[name]).abs().max()))
    assert far > 1e-2, "either end of the line would have passed too"


def test_it_is_the_mean_that_is_moved_if_there_is_one(tmp_path):
    more: dict[str, Any] = {**SETTINGS, "average_from": 0.5}
    averaged = train(tmp_path / "averaged", **more)
    kept = train(tmp_path / "kept", **more, keep_start=0.5)
    mean, begun = weights_of(averaged), averaged.states[0]
    for name, weight in weights_of(kept).items():
        torch.testing.assert_close(weight, (mean[name] + begun[name]) / 2, rtol=1e-6, atol=1e-7)


def test_a_training_that_goes_on_keeps_what_it_first_began_with(tmp_path):
    plain = train(tmp_path / "plain", **SETTINGS)
    trainer = gone_on_with(tmp_path, keep_start=0.5)
    begun, last = plain.states[0], weights_of(plain)
    for name, weight in weights_of(trainer).items():
        torch.testing.assert_close(weight, (last[name] + begun[name]) / 2, rtol=1e-4, atol=1e-5)


def test_adapters_keep_nothing_of_their_start(tmp_path):
    with pytest.raises(ValueError, match="keep_start is not for adapters"):
        train(tmp_path, **WITH_LORA, keep_start=0.5)


def test_weights_that_are_spread_over_processes_are_refused(tmp_path, monkeypatch):
    """FSDP itself needs GPUs; here a single process is called spread."""
    assert trainer_module._SPREAD == (DistributedType.FSDP, DistributedType.DEEPSPEED)
    monkeypatch.setattr(trainer_module, "_SPREAD", (DistributedType.NO,))
    with pytest.raises(ValueError, match="average_from needs whole weights in each process"):
        train(tmp_path, average_from=0.5)
    with pytest.raises(ValueError, match="keep_start needs whole weights in each process"):
        train(tmp_path, keep_start=0.5)
