"""The cells as a table: `python -m experiments.grid.make_cells` writes base.toml and cells.txt.

A cell is a line of cells.txt: what to change in base.toml, as `maxk train` takes it. Its name
begins with its kind:

    mbpp, leetcode   every method with the settings for the small model, by what it is trained on
    paper            every method with the paper's settings, on MBPP
    table1           a binary reward (the continuous one is mbpp-grpo)
    table4           epochs x PPO iterations
    k                the k of training, with both leave-one-out baselines (k = 4 are cells of mbpp)
    drift            many updates on a batch and a higher learning rate
    try              what may be better, trained on MBPP train, measured on validation alone; some
                     are methods of experiments/pocket/tried.py
    lag16            sampled by a policy 16 updates old, on LeetCode
    choose           the same, trained on LeetCode, so that all of MBPP but test is to measure on
"""

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from maxk.estimators.settings import FACTS

HERE = Path(__file__).parent
METHODS = (
    *("grpo", "bon-max-mean", "bon-max-second", "bon-loo", "bon-mean", "bon-centered"),
    *("off-policy", "off-policy-exact", "off-policy-normalized"),
)
HEAD = "# Made by experiments/grid/make_cells.py; cells.txt has what each cell changes here.\n"

# The paper's, section 4.4; what it does not say is as in configs/paper.toml, but for the batch.
TRL: dict[str, Any] = {
    "num_generations": 8,
    "temperature": 1.0,
    "top_p": 1.0,
    "max_completion_length": 256,
    "optim": "adamw_torch",
    "weight_decay": 0.0,
    "learning_rate": 5e-6,
    "lr_scheduler_type": "constant",
    "beta": 0.01,
    "epsilon": 0.2,
    "num_iterations": 3,
    "num_train_epochs": 1,
    # Whole groups, so no extra pass for the ratios. Half as many rows took twice as long: a pass of
    # the model costs the CPU its time, whatever is in it.
    "per_device_train_batch_size": 64,
    "gradient_accumulation_steps": 4,  # 32 prompts, 256 completions
    "gradient_checkpointing": False,  # there is memory for half a billion weights
    "bf16": True,
    "pack_prompts": True,  # the same gradient; no prompt is read eight times
    # Masters in float32: a step of 5e-6 is less than half the distance of two bfloat16 numbers for
    # every weight above 0.002, and would be lost.
    "model_init_kwargs": {"dtype": "float32"},
    "save_strategy": "no",  # a run that is stopped saves; writing the optimiser takes seconds
    "disable_tqdm": True,
    "seed": 0,
}
MBPP = {
    "name": "mbpp",
    "split": ["train", "validation"],
    "source": "mbpp/mbpp.jsonl",
    "options": {"shown": 1},  # and not graded, or a model learns to repeat it
    "max_prompt_tokens": 512,
}
LEETCODE = {
    "name": "leetcode",
    "split": "train",
    "source": "leetcode/LeetCodeDataset-v0.2.0-train.jsonl.gz",
    "options": {"shown": 0},
    "max_prompt_tokens": 288,  # longer ones are for validation
}
LONGER = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 8}  # less memory
# The KL term to the policy that sampled, as eq. 4 has it, in place of the model of the start.
OLD = {"sync_ref_model": True, "ref_model_mixup_alpha": 1.0, "ref_model_sync_steps": 3}
FAST, SLOW, SLOWER = ({"learning_rate": rate} for rate in (5e-6, 2e-6, 1e-6))
# What the small model and the small set ask for, the same for every method. No KL term: it weighs
# differently against advantages of different scale (docs/explanation/decisions.md), and Adam makes
# the methods comparable without it. 2 epochs of 464 problems are 928 prompts, where the paper's
# epoch has 2,490; LeetCode has 1,401 in one. Completions that cannot change the policy are left out
# of the updates. The learning rate was chosen on validation, by GRPO
# (experiments/archive/tries.md).
SMALL = {"beta": 0.0, "skip_zero_variance": True} | SLOW
EPOCHS = {"num_train_epochs": 2}
KL = {"beta": 0.02, "skip_zero_variance": False}
SIXTEEN = {"num_generations": 16, "num_train_epochs": 1}  # as many completions as 2 epochs of 8
FRESH = {"num_iterations": 1, "num_train_epochs": 6}
THIRTY_TWO = {"num_generations": 32, "num_train_epochs": 0.5}
K1, K2, K7, K8, K16 = ({"k": k} for k in (1, 2, 7, 8, 16))  # 4 is what cells have
RISING = {"k": 1, "k_schedule": "linear", "k_end": 7}
TOKEN, FREE = ({"masking": masking} for masking in ("token", "none"))
OPEN: dict[str, Any] = {"clamp_delta": float("inf")}


TRIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # method, its options, TRL's
    "grpo": ("grpo", {}, {}),
    "bon-max-mean": ("bon-max-mean", {}, {}),
    "bon-loo-k2": ("bon-loo", K2, {}),
    "bon-centered": ("bon-centered", {}, {}),
    "bon-centered-k2": ("bon-centered", K2, {}),
    "off-policy-exact": ("off-policy-exact", {}, {}),
    "off-policy-exact-k2": ("off-policy-exact", K2, {}),
    "levels-k1": ("levels", K1, {}),
    "levels-k2": ("levels", K2, {}),
    "all-k": ("all-k", K7, {}),
    "max-rl": ("max-rl", {}, {}),
    "grpo-slow": ("grpo", {}, SLOW),
    "bon-centered-slow": ("bon-centered", {}, SLOW),
    "all-k-slow": ("all-k", K7, SLOW),
    # The second round. The first: at 5e-6 completions change their probability by e and more within
    # a batch, and what has only positive weights collapses.
    "grpo-slower": ("grpo", {}, SLOWER),
    "bon-centered-slower": ("bon-centered", {}, SLOWER),
    "bon-centered-once": ("bon-centered", {}, {"num_iterations": 1}),
    "bon-centered-slow-kl": ("bon-centered", {}, SLOW | KL | LONGER),
    "grpo-slow-n16": ("grpo", K8, SLOW | SIXTEEN),
    "bon-centered-slow-n16": ("bon-centered", K8, SLOW | SIXTEEN),
    "bon-mean-slow": ("bon-mean", {}, SLOW),
    "off-policy-slow": ("off-policy", {}, SLOW),
    "off-policy-exact-slow": ("off-policy-exact", {}, SLOW),
    "levels-k2-slow": ("levels", K2, SLOW),
    "raised-25-slow": ("raised-25", {}, SLOW),
    "raised-50-slow": ("raised-50", {}, SLOW),
    "raised-50-k2-slow": ("raised-50", K2, SLOW),
    "raised-50-k1-slow": ("raised-50", K1, SLOW),
    "raised-50-k1": ("raised-50", K1, {}),
    # The third round. The second: in the later updates of a batch the off-policy methods have
    # little left of what the samples said. Their trust region drops most completions, the long ones
    # first, and with the mean as baseline a fifth of the weights have turned their sign.
    "off-policy-token-slow": ("off-policy", TOKEN, SLOW),
    "off-policy-exact-token-slow": ("off-policy-exact", TOKEN, SLOW),
    "normalized-slow": ("off-policy-normalized", {}, SLOW),
    "normalized-token-slow": ("off-policy-normalized", TOKEN, SLOW),
    "normalized-token-open-slow": ("off-policy-normalized", TOKEN | OPEN, SLOW),
    "normalized-free-slow": ("off-policy-normalized", FREE | OPEN, SLOW),
    "normalized-token": ("off-policy-normalized", TOKEN, {}),
    "normalized-token-k2-slow": ("off-policy-normalized", TOKEN | K2, SLOW),
    "normalized-token-slow-n16": ("off-policy-normalized", TOKEN | K8, SLOW | SIXTEEN),
    # The fourth round. The third: every off-policy method is better at k = 128 with the region of
    # completions than with that of tokens. So: the region without the ratios, larger groups, and as
    # many updates as before with a batch for each, so that nothing is off-policy.
    "grpo-region-slow": ("grpo-region", {}, SLOW),
    "centered-region-slow": ("centered-region", {}, SLOW),
    "centered-region-slow-n16": ("centered-region", K8, SLOW | SIXTEEN),
    "normalized-slow-n16": ("off-policy-normalized", K8, SLOW | SIXTEEN),
    "bon-centered-slow-n32": ("bon-centered", K16, SLOW | THIRTY_TWO),
    "grpo-fresh": ("grpo", {}, SLOW | FRESH),
    "bon-centered-fresh": ("bon-centered", {}, SLOW | FRESH),
    "bon-mean-fresh": ("bon-mean", {}, SLOW | FRESH),
    # The fifth round was the mean of the weights after each step (`averaged` in results), an option
    # that the trainer no longer has: experiments/archive/tries.md.
    # The sixth round. With LOO-1 as the baseline k = 8 has 5 points more of max@128 than k = 4 and
    # 2 points less of max@1 (experiments/archive/results.md, "The k of training").
    "bon-centered-k7-slow": ("bon-centered", K7, SLOW),
    "off-policy-k7-slow": ("off-policy", K7, SLOW),
    "bon-centered-rising-slow": ("bon-centered", RISING, SLOW),
    "bon-centered-k14-slow-n16": ("bon-centered", {"k": 14}, SLOW | SIXTEEN),
}
# Trained on LeetCode, where methods differ by far more. There bon-centered has GRPO's max@1 and
# most of off-policy's max@128, off-policy-exact all of it and a little less of max@1: is there a
# k, a group or a region that has both? As many completions and updates for each.
HALF = {"num_generations": 16, "num_train_epochs": 0.5}
QUARTER = {"num_generations": 32, "num_train_epochs": 0.25}
FURTHER = {"learning_rate": 4e-6}
LINEAR = {"learning_rate": 4e-6, "lr_scheduler_type": "linear"}  # to 0; 2e-6 in the mean
CHOICES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "grpo": ("grpo", {}, {}),
    "off-policy": ("off-policy", {}, {}),
    "bon-centered": ("bon-centered", {}, {}),
    "bon-centered-k7": ("bon-centered", K7, {}),
    "bon-centered-n16": ("bon-centered", K8, HALF),
    "bon-centered-k14-n16": ("bon-centered", {"k": 14}, HALF),
    "bon-centered-n32": ("bon-centered", K16, QUARTER),
    "bon-centered-rising": ("bon-centered", RISING, {}),
    "centered-region": ("centered-region", {}, {}),
    "centered-region-k7": ("centered-region", K7, {}),
    "centered-region-n16": ("centered-region", K8, HALF),
    "off-policy-k7": ("off-policy", K7, {}),
    "off-policy-n16": ("off-policy", K8, HALF),
    "off-policy-exact": ("off-policy-exact", {}, {}),
    "off-policy-exact-k7": ("off-policy-exact", K7, {}),
    "off-policy-exact-n16": ("off-policy-exact", K8, HALF),
    # GRPO's best of eight in training is highest after a third of the updates. So: shorter steps,
    # and steps that get shorter.
    "grpo-slower": ("grpo", {}, SLOWER),
    "bon-centered-slower": ("bon-centered", {}, SLOWER),
    "grpo-linear": ("grpo", {}, LINEAR),
    "bon-centered-linear": ("bon-centered", {}, LINEAR),
    "off-policy-exact-linear": ("off-policy-exact", {}, LINEAR),
    # What training takes away (habits that nothing rewarded, max@128 on other sets) and what it
    # gives need not go at the same pace on the line back to the base model.
    "grpo-kept-30": ("grpo", {}, {}),
    "grpo-kept-50": ("grpo", {}, {}),
    "off-policy-kept-30": ("off-policy", {}, {}),
    "off-policy-exact-kept-30": ("off-policy-exact", {}, {}),
    "bon-centered-kept-15": ("bon-centered", {}, {}),
    "bon-centered-kept-30": ("bon-centered", {}, {}),
    "bon-centered-kept-50": ("bon-centered", {}, {}),
    "bon-mean": ("bon-mean", {}, {}),
    "bon-mean-kept-30": ("bon-mean", {}, {}),
    "bon-mean-kept-50": ("bon-mean", {}, {}),
    # What the way back costs at k = 1 may be won by going further first.
    "grpo-further": ("grpo", {}, FURTHER),
    "grpo-further-kept-30": ("grpo", {}, FURTHER),
    "grpo-further-kept-50": ("grpo", {}, FURTHER),
    # The same training twice is not the same model. What differs is chance, and there is less of
    # it in a mean of several, as there is on the way back, and no step back is made.
    "grpo-of-3": ("grpo", {}, {}),
    "grpo-of-3-kept-15": ("grpo", {}, {}),
    "grpo-of-3-kept-30": ("grpo", {}, {}),
    "grpo-of-3-kept-50": ("grpo", {}, {}),
    "off-policy-of-3": ("off-policy", {}, {}),
    "off-policy-of-3-kept-30": ("off-policy", {}, {}),
    "off-policy-exact-of-3": ("off-policy-exact", {}, {}),
}
LAST = (  # of these, for the last comparison
    *("grpo-kept-30", "bon-mean-kept-30", "bon-centered-kept-30", "off-policy-kept-30"),
    *("off-policy-exact-kept-30", "grpo-further", "grpo-further-kept-30", "grpo-further-kept-50"),
    *("grpo-of-3", "grpo-of-3-kept-15", "grpo-of-3-kept-30", "grpo-of-3-kept-50"),
    "off-policy-exact-of-3",
)
LAGGING: dict[str, tuple[str, dict[str, Any]]] = {  # experiments/registered/PROTOCOL.md
    "grpo": ("grpo", {}),
    "bon-centered": ("bon-centered", {}),
    "normalized": ("off-policy-normalized", TOKEN | OPEN),
    "normalized-mean": ("off-policy-normalized", TOKEN | OPEN | K1),
}
DRIFT = {"num_iterations": 8, **FAST}


def cell(
    name: str, method: str, data: dict, trl: dict, kind: str = "continuous", **more: Any
) -> dict[str, Any]:
    """One configuration; more: of the method."""
    grid = tomllib.loads((HERE / "grid.toml").read_text())
    own = {"k": 4, **more}
    if method in FACTS and not FACTS[method].uses_k:  # others are registered by arms.py
        del own["k"]
    return {
        "run": {"out": f"runs/grid/{name}"},
        "model": {"name": grid["model"], "sampler": "maxk", "engine": grid["own"]},
        "data": data,
        "reward": {"kind": kind, "limits": grid["limits"]},
        "method": {"name": method, **own},
        "trl": {**TRL, **trl},
    }


def cells() -> dict[str, dict[str, Any]]:
    """Every cell by its name."""
    asked: list[tuple[Any, ...]] = []
    made: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        # Chosen before it was trained: a bound on completions would take away what it is for.
        own = TOKEN if method == "off-policy-normalized" else {}
        for kind, data, trl in (
            ("mbpp", MBPP, SMALL | EPOCHS),
            ("leetcode", LEETCODE, SMALL | LONGER),
            ("paper", MBPP, LONGER),
            ("paper-old", MBPP, LONGER | OLD),
        ):
            made[f"{kind}-{method}"] = cell(f"{kind}-{method}", method, data, trl, **own)
    for name in LAST:
        method, _, trl = CHOICES[name]
        asked.append((f"leetcode-{name}", method, LEETCODE, SMALL | LONGER | trl))
    for epochs, iterations in ((1, 1), (1, 3), (4, 1), (4, 3)):
        trl = SMALL | {"num_train_epochs": epochs, "num_iterations": iterations}
        asked.append((f"table4-{epochs}x{iterations}", "grpo", MBPP, trl))
    asked.append(("table1-binary", "grpo", MBPP, SMALL | EPOCHS, "binary"))
    made |= {name: cell(name, *rest) for name, *rest in asked}
    for k in (2, 6, 8):
        made[f"k-loo-{k}"] = cell(f"k-loo-{k}", "bon-loo", MBPP, SMALL | EPOCHS, k=k)
    for k in (2, 6):  # its baseline needs k < n
        name = f"k-centered-{k}"
        made[name] = cell(name, "bon-centered", MBPP, SMALL | EPOCHS, k=k)
    for which, (method, more, trl) in TRIES.items():
        name, data = f"try-{which}", MBPP | {"split": "train"}
        made[name] = cell(name, method, data, SMALL | EPOCHS | FAST | trl, **more)
    for which, (method, more, trl) in CHOICES.items():
        name = f"choose-{which}"
        made[name] = cell(name, method, LEETCODE, SMALL | LONGER | trl, **more)
    for which, (method, more) in LAGGING.items():
        name = f"lag16-{which}"
        made[name] = cell(name, method, LEETCODE, SMALL | LONGER, **more)
    off_policy = ("off-policy", "off-policy-exact", "off-policy-normalized")
    for method in ("grpo", "bon-centered", *off_policy):
        name = f"drift-{method}"
        made[name] = cell(name, method, MBPP, SMALL | DRIFT)
    for method in off_policy:  # no bound on the ratios: the plain formulas
        name = f"drift-{method}-open"
        made[name] = cell(name, method, MBPP, SMALL | DRIFT, **OPEN)
    return made


def base() -> dict[str, Any]:
    """What every cell is a change of: GRPO with the paper's settings."""
    return cell("paper-grpo", "grpo", MBPP, {})


def line_of(made: dict[str, Any]) -> str:
    """The keys of a cell that are not as in the base, as a command line."""
    pairs = changed("", base(), made)
    return shlex.join(word for key, value in pairs for word in (f"--{key}", written(value)))


def changed(place: str, base: dict[str, Any], made: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    assert base.keys() <= made.keys(), f"a cell may not leave out keys of {place or 'base.toml'}"
    for key, value in made.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            yield from changed(f"{place}{key}.", base[key], value)
        elif key not in base or base[key] != value:
            yield f"{place}{key}", value


def written(value: Any) -> str:
    """As TOML has it; a string without quotes."""
    return value if isinstance(value, str) else tomli_w.dumps({"x": value}).strip()[4:]


def main() -> None:
    (HERE / "base.toml").write_text(f"{HEAD}{tomli_w.dumps(base())}")
    lines = [f"{name} {line_of(made)}\n" for name, made in cells().items()]
    (HERE / "cells.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
