"""Take the methods apart on the bandit of examples/bandit.py, one question per table.

    python examples/bandit_ablations.py      # a few minutes; writes out/bandit/ablations.md

Every run is exact max@1 and max@128 after training, mean and 95% interval over seeds. Unless a
table says otherwise: n = 8, k = 4, 3 updates a batch, 150 batches, Adam at 0.05.
"""

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch
from bandit import Rule, Run, entropy, interval, markdown, max_at, named, train
from torch import Tensor

from maxk.estimators import weights
from maxk.estimators.clipping import clamp
from maxk.estimators.combinations import Baseline, Correction

HEAD = ["max@1", "max@128", "entropy"]


def rule(k: int, order: Correction, baseline: Baseline, clamp_delta: float = math.inf) -> Rule:
    """Weights of a given order and baseline; groups without a preference are left out."""

    def advantage(r: Tensor, log_ratios: Tensor) -> Tensor:
        x = None if order == "none" else clamp(log_ratios, clamp_delta)
        dead = r.amax(-1, keepdim=True) == r.amin(-1, keepdim=True)
        return torch.where(dead, 0.0, weights(r, k, x, correction=order, baseline=baseline))

    return advantage


def outcome(run: Run) -> list[str]:
    logits, rewards = train(run)
    at = [interval(max_at(k, logits, rewards)) for k in (1, 128)]
    return [*at, f"{entropy(logits).mean():.2f}"]


def spread() -> tuple[list[str], list[list[str]]]:
    """Centring against dividing by the spread"""
    runs = {
        ("reward (k = 1)", "centred (dr-grpo)"): named("dr-grpo", 4),
        ("reward (k = 1)", "z-score (grpo)"): named("grpo", 4),
        **{
            ("max@k weights", baseline): Run(rule(4, "none", baseline))
            for baseline in ("none", "mean", "loo", "loo-1", "zscore")
        },
    }
    rows = []
    for (what, how), run in runs.items():
        cells = [c for u in (1, 3) for c in outcome(replace(run, updates=u))[:2]]
        rows.append([what, how, *cells])
    columns = [f"{m}, {u} update{'s' * (u > 1)}" for u in (1, 3) for m in HEAD[:2]]
    return ["weights of", "variance reduction", *columns], rows


def baselines() -> tuple[list[str], list[list[str]]]:
    """The baseline of the off-policy weights, without a trust region"""
    return ["order", "baseline", *HEAD], [
        [order, baseline, *outcome(Run(rule(4, order, baseline), ratio="inside"))]
        for order in ("first", "exact")
        for baseline in get_args(Baseline)
    ] + [["normalized", "", *outcome(Run(rule(4, "normalized", "none"), ratio="inside"))]]


def ratios() -> tuple[list[str], list[list[str]]]:
    """What the ratio is good for: mean-centred weights, 1 to 8 updates a batch"""
    ways = {
        "no ratio": Run(rule(4, "none", "mean"), ratio="none"),
        "PPO's clipped ratio": Run(rule(4, "none", "mean"), ratio="clip"),
        "first order": Run(rule(4, "first", "mean"), ratio="inside"),
        "exact": Run(rule(4, "exact", "mean"), ratio="inside"),
        "normalized": Run(rule(4, "normalized", "none"), ratio="inside"),
        "grpo (clipped), for comparison": named("grpo", 4),
    }
    return ["ratio", "updates", *HEAD], [
        [way, str(updates), *outcome(replace(run, updates=updates))]
        for way, run in ways.items()
        for updates in (1, 2, 3, 5, 8)
    ]


def trust() -> tuple[list[str], list[list[str]]]:
    """Trust regions for centred weights; on-policy: without ratios"""
    bounds = [math.inf, 2.0, 1.0, 0.5, 0.2]
    rows = []
    for updates in (3, 8):
        for order in ("none", "first", "exact", "normalized"):
            baseline = "none" if order == "normalized" else "mean"
            ways = {
                **{
                    "none" if c == math.inf else f"clamp delta to {c}": Run(
                        rule(4, order, baseline, c), ratio="inside"
                    )
                    for c in bounds
                },
                "drop beyond 0.2": Run(rule(4, order, baseline), ratio="drop"),
                "drop beyond 0.5": Run(rule(4, order, baseline), ratio="drop", epsilon=0.5),
                "drop beyond 0.2, clamp to 0.5": Run(rule(4, order, baseline, 0.5), ratio="drop"),
            }
            rows += [
                [str(updates), order, way, *outcome(replace(run, updates=updates))]
                for way, run in ways.items()
                if order != "none" or "clamp" not in way
            ]
    return ["updates", "order", "trust region", *HEAD], rows


def unsampled() -> tuple[list[str], list[list[str]]]:
    """Weights that sum to zero leave answers that were not drawn alone (SGD at 3)"""

    def with_ratio(r: Tensor, x: Tensor) -> Tensor:
        return x.exp() * rule(4, "none", "mean")(r, x)

    def recentred(inner: Rule) -> Rule:
        def outer(r: Tensor, x: Tensor) -> Tensor:
            a = inner(r, x)
            return a - a.mean(-1, keepdim=True)

        return outer

    ways = {
        "ratio x (w - mean w)": with_ratio,
        "exact, loo": rule(4, "exact", "loo"),
        "exact, loo-1": rule(4, "exact", "loo-1"),
        "exact, mean": rule(4, "exact", "mean"),
    }
    rows = []
    for optimizer, rate in (("adam", 0.05), ("sgd", 3.0)):
        for way, inner in ways.items():
            for centre in (False, True):
                if centre and way == "exact, mean":
                    continue
                chosen = recentred(inner) if centre else inner
                run = Run(chosen, ratio="inside", optimizer=optimizer, learning_rate=rate)
                zero = "yes" if centre or way == "exact, mean" else "no"
                rows.append([optimizer, way, zero, *outcome(run)])
    return ["optimizer", "weights", "made to sum to 0", *HEAD], rows


def ks() -> tuple[list[str], list[list[str]]]:
    """The k of training, 2 to 8 (k = n only with loo-1)"""
    ways = {
        "bon-mean (z-score)": lambda k: named("bon-mean", k),
        "bon-centered, no ratio": lambda k: replace(named("bon-centered", k), ratio="none"),
        "bon-loo (loo-1)": lambda k: named("bon-loo", k),
        "off-policy": lambda k: named("off-policy", k),
        "off-policy-exact": lambda k: named("off-policy-exact", k),
        "off-policy-normalized": lambda k: named("off-policy-normalized", k),
    }
    return ["method", "k", *HEAD], [
        [way, str(k), *outcome(make(k))]
        for way, make in ways.items()
        for k in range(2, 9 if "loo-1" in way else 8)
    ]


def optimizers() -> tuple[list[str], list[list[str]]]:
    """Adam and SGD: each at the learning rate of a grid with the highest max@1 + max@128"""
    grid = {"adam": [0.02, 0.05, 0.1, 0.2], "sgd": [0.1, 0.3, 1.0, 3.0, 10.0]}
    rows = []
    methods = ("grpo", "bon-mean", "bon-loo", "bon-centered")
    methods += ("off-policy", "off-policy-exact", "off-policy-normalized")
    for method in methods:
        for optimizer, rates in grid.items():
            best: tuple[float, list[str]] = (-1.0, [])
            for rate in rates:
                run = replace(named(method, 4), optimizer=optimizer, learning_rate=rate)
                logits, rewards = train(run)
                at = [max_at(k, logits, rewards) for k in (1, 128)]
                score = (at[0].mean() + at[1].mean()).item()
                cells = [f"{rate:g}", *map(interval, at), f"{entropy(logits).mean():.2f}"]
                best = max(best, (score, cells))
            rows.append([method, optimizer, *best[1]])
    return ["method", "optimizer", "learning rate", *HEAD], rows


def lengths() -> tuple[list[str], list[list[str]]]:
    """Longer training: does the lead last, or is it speed?"""
    ways = ("grpo", "bon-mean", "bon-centered", "off-policy-exact", "off-policy-normalized")
    return ["method", "batches", *HEAD], [
        [method, str(batches), *outcome(replace(named(method, 4), batches=batches))]
        for method in ways
        for batches in (50, 150, 450)
    ]


QUESTIONS = [spread, baselines, ratios, unsampled, trust, ks, optimizers, lengths]


def main() -> None:
    arguments = argparse.ArgumentParser(description="Ablations on the bandit.")
    arguments.add_argument("--out", type=Path, default=Path("out/bandit/ablations.md"))
    out: Path = arguments.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    for question in QUESTIONS:
        started = time.perf_counter()
        text = f"### {question.__doc__}\n\n{markdown(*question())}\n"
        with out.open("a") as file:
            file.write(text)
        print(f"{text}({time.perf_counter() - started:.0f} s)\n", flush=True)
    print(f"tables: {out}")


if __name__ == "__main__":
    main()
