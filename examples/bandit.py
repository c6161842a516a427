"""Does it optimise what it says? Softmax policies over a few dozen answers, where max@k is known.

Every prompt is a bandit: one logit per answer, a reward per answer, good answers rare at first.
max@k of such a policy has a closed form, so nothing below is an estimate but the spread over
seeds. Each method trains on groups of n = 8 samples, with 1 and with 3 updates per batch, and is
judged at max@1 and max@128: the paper's Tables 3 and 2, and its Figure 1, on a bandit.

    python examples/bandit.py                # writes out/bandit/
    python examples/bandit_ablations.py      # takes the methods apart
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from maxk.estimators import METHODS, advantages, mask_sequences

PROMPTS, ANSWERS, N = 128, 64, 8
KS = [1, 2, 4, 8, 16, 32, 64, 128]

Rule = Callable[[Tensor, Tensor], Tensor]  # rewards, log-ratios -> advantages; all [..., n]


@dataclass(frozen=True)
class Run:
    """One way to train. Defaults are what the table of methods shares."""

    rule: Rule
    # "clip": PPO's clipped ratio times the advantage; "none": no ratio; "inside": the advantage
    # contains the ratio; "drop": the same, with sequence masking
    ratio: str = "clip"
    updates: int = 3
    batches: int = 150
    optimizer: str = "adam"
    learning_rate: float = 0.05
    epsilon: float = 0.2
    seeds: int = 16


def world(seeds: int) -> tuple[Tensor, Tensor]:
    """Logits and rewards per seed, prompt and answer; the better an answer, the rarer it starts."""
    generator = torch.Generator().manual_seed(2510)
    shape = (seeds, PROMPTS, ANSWERS)
    rewards_SPA = (5 * torch.rand(shape, generator=generator) ** 4).round() / 5
    logits_SPA = 1.5 * torch.randn(shape, generator=generator) - 2.5 * rewards_SPA
    return logits_SPA, rewards_SPA


def max_at(k: int, logits_SPA: Tensor, rewards_SPA: Tensor) -> Tensor:
    """Exact max@k per seed: the best of k is at most answer j with probability F(j)^k."""
    ordered, position = rewards_SPA.sort(-1)
    cdf = logits_SPA.double().softmax(-1).gather(-1, position).cumsum(-1).clamp(max=1.0)
    steps = torch.diff(cdf**k, dim=-1, prepend=torch.zeros_like(cdf[..., :1]))
    return (steps * ordered).sum(-1).mean(-1)


def entropy(logits_SPA: Tensor) -> Tensor:
    """Mean entropy of the policies per seed, in nats."""
    return torch.distributions.Categorical(logits=logits_SPA).entropy().mean(-1)


def train(run: Run) -> tuple[Tensor, Tensor]:
    """Logits after training, and the rewards; all seeds at once, which never interact."""
    start_SPA, rewards_SPA = world(run.seeds)
    logits_SPA = start_SPA.clone().requires_grad_()
    optimizers = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    optimizer = optimizers[run.optimizer]([logits_SPA], lr=run.learning_rate)
    torch.manual_seed(0)
    for _ in range(run.batches):
        with torch.no_grad():
            policy_SPA = logits_SPA.log_softmax(-1)
            drawn = policy_SPA.exp().flatten(0, 1).multinomial(N, replacement=True)
            drawn_SPN = drawn.view(run.seeds, PROMPTS, N)
            old_logps_SPN = policy_SPA.gather(-1, drawn_SPN)
            rewards_SPN = rewards_SPA.gather(-1, drawn_SPN)
        for _ in range(run.updates):
            logps_SPN = logits_SPA.log_softmax(-1).gather(-1, drawn_SPN)
            loss = surrogate(run, rewards_SPN, logps_SPN, logps_SPN - old_logps_SPN)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return logits_SPA.detach(), rewards_SPA


def surrogate(run: Run, rewards_SPN: Tensor, logps_SPN: Tensor, log_ratios_SPN: Tensor) -> Tensor:
    """A loss whose gradient is the policy gradient of the run, summed over prompts."""
    a_SPN = run.rule(rewards_SPN, log_ratios_SPN.detach())
    if run.ratio == "clip":
        ratio_SPN = log_ratios_SPN.exp()
        bounded_SPN = ratio_SPN.clamp(1 - run.epsilon, 1 + run.epsilon)
        return -torch.minimum(a_SPN * ratio_SPN, a_SPN * bounded_SPN).sum()
    if run.ratio == "drop":
        a_SPN = mask_sequences(a_SPN, log_ratios_SPN, run.epsilon)
    return -(a_SPN * logps_SPN).sum()


def named(method: str, k: int) -> Run:
    """A method of the registry. The exact formulas without a clamp: here they need none."""
    if METHODS[method].off_policy:
        clamp = METHODS[method].clamp_delta if method == "off-policy" else math.inf
        return Run(lambda r, x: advantages(method, r, k, x, clamp_delta=clamp), ratio="inside")
    if method == "pass-at-k":
        return Run(lambda r, x: advantages(method, (r >= 1).float(), k))
    return Run(lambda r, x: advantages(method, r, k))


def interval(per_seed: Tensor) -> str:
    """Mean and half-width of the 95% interval over seeds (Student's t)."""
    from scipy.stats import t

    n = len(per_seed)
    half = t.ppf(0.975, n - 1) * per_seed.std() / n**0.5
    return f"{per_seed.mean():.3f} ±{half:.3f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Train bandits with every method of maxk.")
    arguments.add_argument("--seeds", type=int, default=16, help="bandit worlds per method")
    arguments.add_argument("--k", type=int, default=4, help="the k of max@k in training")
    arguments.add_argument("--out", type=Path, default=Path("out/bandit"))
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()

    logits, rewards = world(options.seeds)
    print(f"{PROMPTS} prompts x {ANSWERS} answers, n = {N}, k = {options.k}, {options.seeds} seeds")
    curves = {("base", 0): [max_at(k, logits, rewards) for k in KS]}
    cells = [interval(max_at(k, logits, rewards)) for k in (1, 128)]
    rows = [["base", *cells, *cells, f"{entropy(logits).mean():.2f}"]]
    for method in METHODS:
        row = [method]
        for updates in (1, 3):
            run = replace(named(method, options.k), updates=updates, seeds=options.seeds)
            logits, rewards = train(run)
            curves[method, updates] = [max_at(k, logits, rewards) for k in KS]
            row += [interval(max_at(k, logits, rewards)) for k in (1, 128)]
        rows.append([*row, f"{entropy(logits).mean():.2f}"])
        print(f"  {method:22s} max@1 {row[3]}   max@128 {row[4]}   (3 updates a batch)", flush=True)

    head = ["method", "max@1, 1 update", "max@128, 1 update", "max@1, 3 updates"]
    table = markdown([*head, "max@128, 3 updates", "entropy, 3 updates"], rows)
    (options.out / "table.md").write_text(table)
    picture = options.out / "curves.png"
    draw(curves, picture)
    print(f"\n{table}\nmean and 95% interval over seeds; {time.perf_counter() - started:.0f} s")
    print(f"table:   {options.out / 'table.md'}\npicture: {picture}")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table that also reads well as plain text."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    padded = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def draw(curves: dict[tuple[str, int], list[Tensor]], path: Path) -> None:
    """max@k over k before and after training, with the interval over seeds as a band."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    styles = {  # Okabe and Ito's colours, which stay apart for colour-blind readers
        "grpo": "#d55e00",
        "bon-mean": "#e69f00",
        "bon-loo": "#cc79a7",
        "bon-centered": "#56b4e9",
        "off-policy": "#009e73",
        "off-policy-exact": "#0072b2",
        "off-policy-normalized": "#7f3c8d",
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, updates in zip(axes, (1, 3), strict=True):
        shown = [("base", 0, "black"), *((m, updates, c) for m, c in styles.items())]
        for method, key, colour in shown:
            values = torch.stack(curves[method, key])
            mean, error = values.mean(-1), 2 * values.std(-1) / values.shape[-1] ** 0.5
            dash = "--" if method in ("base", "off-policy") else "-"
            axis.plot(KS, mean, dash, color=colour, label=method, linewidth=1.8)
            axis.fill_between(KS, mean - error, mean + error, color=colour, alpha=0.15)
        axis.set_xscale("log", base=2)
        axis.set_xticks(KS, [str(k) for k in KS])
        axis.set_xlabel("k")
        axis.set_title(f"{updates} update{'s' * (updates > 1)} per batch")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("max@k")
    axes[1].legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
