"""What trainings and measurements cost, and how far policies move: tables of every cell."""

import numpy as np

from experiments.grid.data import Data, metric_mean, pipes


def profile(data: Data) -> str:
    """Where the seconds of training went, and how busy the GPU was."""
    lines = []
    parts = ("sampling", "loading", "verifying", "pre-pass", "update")
    for cell in sorted(data.cells):
        for result in data.cells[cell]:
            trained = result.about["train"]
            stages = [s for s in result.about["stages"] if s["stage"] == "train"]
            if trained is None or not stages:
                continue
            spent = [trained["seconds"].get(part, 0.0) for part in parts]
            whole = sum(spent) or 1.0
            busy = [s["gpu"]["busy_percent"] for s in stages if s["gpu"]]
            wall = sum(s["seconds"] for s in stages)
            steps = len(data.logged(result).get("step", []))
            shares = [f"{100 * each / whole:.1f} %" for each in spent]
            gpu = f"{np.mean(busy):.0f} %" if busy else None
            lines.append([result.name, steps, f"{wall:.0f}", *shares, gpu])
    head = ["cell", "steps", "seconds", *parts, "GPU busy"]
    return pipes(head, lines) if lines else ""


def sampling_profile(data: Data) -> str:
    """Tokens a second in evaluation, what was waited for judging, and how busy the GPU was."""
    lines = []
    for cell in sorted(data.cells):
        for result in data.cells[cell]:
            for stage in result.about["stages"]:
                name = stage["stage"]
                if not name.startswith("sample ") or not stage.get("tokens"):
                    continue
                waited = stage.get("waited_for_judges")
                lines.append(
                    [
                        *(result.name, name.removeprefix("sample "), stage["new"]),
                        f"{stage['tokens'] / 1e6:.2f} M",
                        f"{stage['seconds']:.0f}",
                        f"{stage['tokens'] / max(stage['seconds'], 1e-9):,.0f}",
                        None if waited is None else f"{waited:.1f}",
                        f"{stage['gpu']['busy_percent']:.0f} %" if stage["gpu"] else None,
                    ]
                )
    head = ["cell", "set", "completions", "tokens", "seconds", "tokens/s", "waited for judges"]
    return pipes([*head, "GPU busy"], lines) if lines else ""


def drift_by_iteration(data: Data) -> str:
    """How far completions are from the policy that sampled them, by PPO iteration."""
    kinds = [name for name in data.cells if data.cells[name][0].about["train"] is not None]
    lines = []
    for cell in sorted(kinds):
        logged = [data.logged(result) for result in data.cells[cell]]
        iterations = sum(f"policy_lag/iteration_{i}/mean" in logged[0] for i in range(1, 20))
        if not iterations:
            continue
        cells = [
            metric_mean(logged, f"policy_lag/iteration_{i + 1}/mean") for i in range(iterations)
        ]
        extra = [
            metric_mean(logged, f"ratio/{name}") for name in ("effective", "masked", "clamped")
        ]
        lines.append([cell, *(cells + [None] * 8)[:8], *extra])
    if not lines:
        return ""
    head = ["cell", *(f"iteration {i}" for i in range(1, 9)), "effective", "masked", "clamped"]
    return pipes(head, lines)
