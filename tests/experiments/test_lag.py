"""A sampler that is some updates old: what samples, and what the ratios are to."""

from typing import Any

import pytest
import torch
from datasets import Dataset

from experiments.grid.lag import LaggedTrainer, lagging
from maxk.estimators import advantages
from tests.tiny import tiny_model
from tests.train.test_trainer import Watched, config, digits, logps

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
LAG, UPDATES = 4, 2


def trained(folder, lag: int, **changes: Any) -> Any:
    model, tokenizer = tiny_model()
    given: dict[str, Any] = {"num_iterations": UPDATES, "max_steps": 8, "learning_rate": 2e-3}
    trainer = Watched(
        model=model,
        reward_funcs=digits,
        args=config(folder, **(given | changes)),
        train_dataset=Dataset.from_list([{"prompt": f"{i} "} for i in range(16)]),
        processing_class=tokenizer,
    )
    if lag:

        class Both(Watched, LaggedTrainer):
            """What the tests watch, with a lag."""

        lagging(trainer, lag)
        trainer.__class__ = Both
    trainer.train()
    return trainer


def test_without_a_lag_it_is_the_trainer_itself(tmp_path):
    plain = trained(tmp_path / "a", 0, method="off-policy-exact")
    never = trained(tmp_path / "b", 0, method="off-policy-exact", k=3)
    with_lag = trained(tmp_path / "c", LAG, method="off-policy-exact")
    # The first batch is sampled by the base model either way.
    torch.testing.assert_close(
        plain.batches[0]["completion_ids"], with_lag.batches[0]["completion_ids"]
    )
    for step in (1, 2):
        assert_same(plain.states[step], with_lag.states[step])
    assert not same(plain.states[1], never.states[1])


@pytest.mark.parametrize("method", ["off-policy-normalized", "grpo"])
def test_ratios_are_to_the_policy_that_sampled(tmp_path, method):
    open_ended: dict[str, Any] = {"k": 2, "clamp_delta": float("inf"), "masking": "none"}
    trainer = trained(tmp_path, LAG, method=method, **(open_ended if method != "grpo" else {}))
    checked = 0
    for seen in trainer.seen:
        batch, step = seen["batch"], seen["step"]
        sampler = max(batch["step"] - LAG, 0)
        ratios = logps(trainer.states[step], batch) - logps(trainer.states[sampler], batch)
        if method == "grpo":
            want = advantages(method, batch["rewards"])
        else:
            given = ratios.view_as(batch["rewards"])
            want = advantages(method, batch["rewards"], 2, given, clamp_delta=float("inf"))
        torch.testing.assert_close(
            seen["weights"], want.flatten()[seen["row"]].float(), atol=2e-5, rtol=1e-4
        )
        checked += bool(sampler and ratios.abs().max() > 1e-3)
    assert checked >= 2


def test_tokens_of_grpo_are_clipped_by_their_ratio_to_the_sampler(tmp_path):
    """The old log-probabilities that TRL compares with are those of the lagging weights."""
    trainer = trained(tmp_path, LAG, method="grpo")
    [micro] = trainer._buffered_inputs
    batch = trainer.batches[-1]
    sampler = batch["step"] - LAG
    assert sampler > 0
    found = (micro["old_per_token_logps"] * micro["completion_mask"]).sum(1)
    want = logps(trainer.states[sampler], batch)[micro["row"]]
    torch.testing.assert_close(found, want, atol=2e-5, rtol=1e-4)
    assert not torch.allclose(found, logps(trainer.states[batch["step"]], batch)[micro["row"]])


def test_it_keeps_no_more_weights_than_it_will_use(tmp_path):
    trainer = trained(tmp_path, LAG, method="grpo", max_steps=10)
    assert set(trainer.kept) == {6, 8, 10}  # batches come every second update


@pytest.mark.parametrize(("setting", "value"), [("num_iterations", 1), ("beta", 0.1)])
def test_what_is_not_tried_is_refused(tmp_path, setting, value):
    trainer = trained(tmp_path, 0, method="grpo", max_steps=1)
    setattr(trainer.args, setting, value)
    with pytest.raises(ValueError, match=setting):
        lagging(trainer, LAG)


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, two[name]) for name, value in one.items())


def assert_same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert same(one, two)
