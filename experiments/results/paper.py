"""The table of the paper's claims: what was reproduced, what was not, what was not tried."""

from experiments.grid.data import pipes
from experiments.results.claims import (
    BASE,
    GRPO,
    Claim,
    Runs,
    claims,
    stored,
)
from experiments.results.tables import SMALL


def paper(runs: Runs, main: dict[tuple[str, str, int], Claim | None]) -> str:
    data, small = stored()[0], runs.study("pocket")

    def of(name: str, k: int):
        return runs.method(small[name], SMALL, k, trained=name != "base")

    asked = [
        *(("grpo-binary", "grpo", k) for k in (1, 128)),
        *(("off-policy", f"bon-{x}", 128) for x in ("max-second", "max-mean", "loo", "mean")),
        ("bon-mean", "bon-loo", 128),
        *(("off-policy", f"bon-{x}", 1) for x in ("max-second", "max-mean", "loo", "mean")),
        ("grpo-4epochs-1update", "grpo-1epoch-1update", 1),
        ("grpo-1epoch-3updates", "grpo-1epoch-1update", 1),
        ("grpo-4epochs-3updates", "base", 128),
    ]
    found = claims([(of(a, k), of(b, k), k) for a, b, k in asked])
    by = dict(zip(asked, found, strict=True))

    def said(*keys: tuple[str, str, int]) -> str:
        return "pocket: " + "; ".join(
            f"`{a}` against `{b}`, max@{k}: {by[a, b, k].shown}"
            for a, b, k in keys  # type: ignore[union-attr]
        )

    def holds(direction: str, *keys: tuple[str, str, int]) -> str:
        verdicts = [by[key].verdict for key in keys]  # type: ignore[union-attr]
        if all(verdict == direction for verdict in verdicts):
            return "reproduced"
        return "in part" if direction in verdicts else "not reproduced"

    first, last = main[GRPO, BASE, 1], main[GRPO, BASE, 128]
    assert first is not None
    assert last is not None
    entropy = [
        float(sum(row["entropy"] for row in data.by_id(each, "leetcode")))
        / sum(row["entropies"] for row in data.by_id(each, "leetcode"))
        / 1000
        for each in (*data.cells["base-final"], *data.cells["leetcode-grpo-final"])
    ]
    base, *trained = entropy
    curve = "reproduced" if (first.verdict, last.verdict) == ("above", "below") else "in part"
    rivals = ("bon-max-second", "bon-max-mean", "bon-loo", "bon-mean")
    wide = [("off-policy", rival, 128) for rival in rivals]
    narrow = [("off-policy", rival, 1) for rival in rivals]
    longer = ("grpo-4epochs-1update", "grpo-1epoch-1update", 1)
    more = ("grpo-1epoch-3updates", "grpo-1epoch-1update", 1)
    low, high = min(trained), max(trained)
    nats = f"{len(trained)} runs: {low:.2f} to {high:.2f} nats a token; base model {base:.2f}"
    rows = [
        [
            "Figure 1: GRPO raises max@k at small k, lowers it at large k",
            *(curve, f"0.5B: max@1 {first.shown}; max@128 {last.shown}"),
        ],
        [
            "Figure 2: GRPO lowers the entropy of completions",
            "reproduced" if high < base else "not reproduced",
            f"0.5B, LeetCode, {nats}",
        ],
    ]
    for claim, direction, keys in (
        ("Table 1: a binary reward harms GRPO", "below", asked[:2]),
        ("Table 2: `off-policy` has the highest max@128", "above", wide),
        ("Section 4.5: `bon-mean` above `bon-loo`", "above", asked[6:7]),
        ("Table 3: `off-policy` is first or second at max@1", "above", narrow),
        ("Table 4: more epochs, or more PPO iterations, raise max@1", "above", (longer, more)),
        ("Table 4: max@128 stays below the base model", "below", asked[-1:]),
    ):
        rows.append([claim, holds(direction, *keys), said(*keys)])
    for claim in (
        "The 7B model; training on CodeContests",
        "LiveCodeBench, LiveBench, Codeforces",
    ):
        rows.append([claim, "not tried", ""])
    return pipes(["claim of the paper", "here", "runs: 3 a side on the pocket model"], rows)
