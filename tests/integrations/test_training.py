"""verl trains the pocket model on two processes; every update is computed again without verl."""

import itertools
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from maxk.estimators import advantages
from maxk.pocket import resolve
from tests import brute

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")
ROOT = Path(__file__).parents[2]
N, K, EPSILON, BOUND = 6, 3, 0.2, 0.5


def run(folder: Path, method: str, *more: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.integrations.train",
                str(folder),
                method,
            ),
            *("trainer.n_gpus_per_node=2", f"+algorithm.maxk.k={K}", *more),
        ],
        env={
            **os.environ,
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",  # the name under which verl has its FSDP engine
            "VERL_USE_EXTERNAL_MODULES": "tests.integrations.cpu",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    return torch.load(folder / "updates.pt", weights_only=True)


def model(state: dict[str, torch.Tensor]) -> torch.nn.Module:
    from transformers import AutoModelForCausalLM

    made = AutoModelForCausalLM.from_pretrained(resolve("pocket"), attn_implementation="eager")
    made.load_state_dict(state)
    return made.eval()


def logp(policy: torch.nn.Module, rows: dict[str, list], i: int) -> torch.Tensor:
    """log pi of a whole response, one sequence at a time, without padding."""
    ids = rows["input_ids"][i][None]
    picked = policy(input_ids=ids).logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    return (picked[0, -len(rows["responses"][i]) :, 0] * rows["response_mask"][i]).sum()


def samples(rows: dict[str, list]) -> dict[str, list[int]]:
    """The rows of every prompt; padding has no token to train on."""
    groups = defaultdict(list)
    for i, uid in enumerate(rows["uid"]):
        if rows["response_mask"][i].any():
            groups[uid].append(i)
    return groups


def off_policy(rewards: list[float], ratios: list[float]) -> list[float]:
    """By the definition: all subsets, clamped ratios, less the mean, sequences masked."""
    if len(set(rewards)) == 1:
        return [0.0] * len(rewards)
    bounded = [min(max(ratio, 1 - BOUND), 1 + BOUND) for ratio in ratios]
    weights = [w.value for w in brute.plain(rewards, bounded, K, "exact")]
    centred = [w - sum(weights) / len(weights) for w in weights]
    return [
        0.0 if (w > 0 and ratio > 1 + EPSILON) or (w < 0 and ratio < 1 - EPSILON) else w
        for w, ratio in zip(centred, ratios, strict=True)
    ]


def check_metrics(update: dict[str, Any]) -> None:
    """max@k of the groups, by the definition."""
    rows, due = update["rows"], defaultdict(list)
    for group in samples(rows).values():
        rewards = [float(rows["rm_scores"][i].sum()) for i in group]
        for k in (1, 2, K, 4):
            best = [max(subset) for subset in itertools.combinations(rewards, k)]
            due[f"maxk/max_at/{k}"].append(sum(best) / len(best))
    means = {name: sum(values) / len(values) for name, values in due.items()}
    assert update["metrics"] == pytest.approx({"maxk/small_groups": 0.0, **means})


def check_step(
    update: dict[str, Any], weights: dict[int, float], rate: float, over: int | None = None
) -> None:
    """The weights after are those before, less the rate times the gradient of -mean(w log pi).

    over: what the sum is divided by; None for how many rows there are.
    """
    rows, policy = update["rows"], model(update["before"])
    loss = -sum(w * logp(policy, rows, i) for i, w in weights.items()) / (over or len(rows["uid"]))
    loss.backward()
    moved = 0.0
    for name, parameter in policy.named_parameters():
        due = update["before"][name] - rate * parameter.grad
        torch.testing.assert_close(update["after"][name], due, atol=2e-6, rtol=1e-4)
        moved = max(moved, float((due - update["before"][name]).abs().max()))
    assert moved > 1e-4, "nothing was learned: any gradient would pass"


def test_off_policy_weights_are_those_of_the_policy_before_every_epoch(tmp_path):
    rate, epochs, steps = 0.1, 3, 2
    updates = run(
        tmp_path,
        "maxk-off-policy-exact",
        "trainer.v1.trainer_mode=maxk",
        f"trainer.total_training_steps={steps}",
        f"actor_rollout_ref.actor.ppo_epochs={epochs}",
        f"actor_rollout_ref.actor.optim.lr={rate}",
    )
    assert [update["step"] for update in updates] == [1, 1, 1, 2, 2, 2]
    assert updates[0]["lr_steps"] == steps * epochs
    drift, stale = 0.0, 0.0
    for number, update in enumerate(updates):
        rows = update["rows"]
        now, then = model(update["before"]), model(updates[number - number % epochs]["before"])
        groups, weights = samples(rows), {}
        assert sorted(len(group) for group in groups.values()) == [N - 1, N, N, N]
        for group in groups.values():
            rewards = [float(rows["rm_scores"][i].sum()) for i in group]
            with torch.no_grad():
                moved = [float(logp(now, rows, i) - logp(then, rows, i)) for i in group]
            drift = max(drift, *map(abs, moved))
            due = off_policy(rewards, [math.exp(x) for x in moved])
            fresh = off_policy(rewards, [1.0] * len(group))
            stale = max(stale, *(abs(a - b) for a, b in zip(due, fresh, strict=True)))
            weights |= dict(zip(group, due, strict=True))
        for i, used in enumerate(rows["advantages"]):
            mask = rows["response_mask"][i]
            torch.testing.assert_close(used, weights.get(i, 0.0) * mask, atol=1e-4, rtol=1e-3)
        check_step(update, weights, rate)
        check_metrics(update)
    assert drift > 0.05
    assert stale > 0.01, "weights with stale ratios would pass"


@pytest.mark.parametrize("ours", [False, True], ids=["verl's own trainer", "maxk's"])
def test_an_on_policy_method(tmp_path, ours):
    rate, mode = 0.1, "seq-mean-token-sum" if ours else "token-mean"
    [update] = run(
        tmp_path,
        "maxk-bon-mean",
        "trainer.total_training_steps=1",
        f"actor_rollout_ref.actor.loss_agg_mode={mode}",
        f"actor_rollout_ref.actor.optim.lr={rate}",
        *(["trainer.v1.trainer_mode=maxk"] if ours else []),
    )
    rows, weights = update["rows"], {}
    groups = samples(rows)
    assert sorted(len(group) for group in groups.values()) == [N - 1, N, N, N]
    assert len(rows["uid"]) == 4 * N, "verl has not padded the batch"
    for group in groups.values():
        rewards = torch.tensor([float(rows["rm_scores"][i].sum()) for i in group])
        due = advantages("bon-mean", rewards, K).tolist()
        weights |= dict(zip(group, due, strict=True))
    for i, used in enumerate(rows["advantages"]):
        torch.testing.assert_close(used, weights.get(i, 0.0) * rows["response_mask"][i])
    tokens = int(sum(mask.sum() for mask in rows["response_mask"]))
    check_step(update, weights, rate, None if ours else tokens)
    if ours:
        check_metrics(update)
