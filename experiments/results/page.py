"""Write the results page, its figure and the sentences of README.md from the stored results.

python -m experiments.results.page           # make results
python -m experiments.results.page --check   # exit status 1 if one is not what it would write
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from experiments.results.claims import (
    BASE,
    BOTH,
    EXACT,
    FIRST,
    GRPO,
    METHODS,
    POOLED,
    Claim,
    stored,
)
from experiments.results.inference import inference
from experiments.results.paper import paper
from experiments.results.tables import (
    differences_table,
    exactness,
    main_pairs,
    main_table,
    power,
    procedure,
    registered,
    sets_table,
)

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "results" / "index.md", ROOT / "README.md"
FIGURE = ROOT / "docs" / "images" / "curves.svg"


def page() -> str:
    _, runs = stored()
    main = main_pairs(runs)
    text = (Path(__file__).parent / "page.txt").read_text()
    end = "<!-- Made by `make results`; the words are in experiments/results/page.txt. -->\n"
    tables = {
        "main": main_table(runs, main),
        "sets": sets_table(runs),
        "differences": differences_table(runs),
        "exactness": exactness(runs),
        "inference": inference(runs),
        "paper": paper(runs, main),
        "power": power(runs),
        "procedure": procedure(),
        "registered": registered()[0].rstrip(),
        "findings": "\n".join(f"- {line}" for line in sentences("../../")),
    }
    filled = re.sub(r"\{\{(\w+)\}\}", lambda found: tables[found[1]], text)
    return f"{filled}\n{end}"


def sentences(to: str = "") -> list[str]:
    """What the evidence says, for README.md and the top of the page. to: the root, from there."""
    main = main_pairs(stored()[1])

    def gap(own: str, other: str, k: int) -> Claim:
        claim = main[own, other, k]
        assert claim is not None
        return claim

    grpo = [gap(GRPO, BASE, k) for k in (1, 128)]
    ours = [gap(BOTH, GRPO, k) for k in (1, 128)]
    counts = " and ".join(str(claim.found.runs[0]) for claim in ours)
    protocol = f"{to}experiments/registered/PROTOCOL.md"
    return [
        f"GRPO ({grpo[0].found.runs[0]} runs) is {grpo[0].phrase('its base model')}, and "
        f"{grpo[1].phrase('it')}.",
        f"Off-policy training for max@4 ({counts} runs) is {ours[0].phrase('GRPO')}, and "
        f"{ours[1].phrase('it')}.",
        f"Old samples and merged models are [registered experiments]({protocol}); runs measured "
        f"so far: {registered()[1]}.",
    ]


def with_sentences(text: str) -> str:
    """README.md with its section of evidence."""
    made = "\n".join(f"- {line}" for line in sentences())
    found = re.compile(r"(## What the evidence says\n\n).*?(\n\n)(?!- )", flags=re.DOTALL)
    assert found.search(text)
    text = found.sub(lambda match: f"{match[1]}{made}{match[2]}", text, count=1)
    caption = re.compile(r"^\*Qwen2.5-Coder-0.5B trained on LeetCode.*\*$", flags=re.MULTILINE)
    assert caption.search(text)
    return caption.sub(lambda _: said_of_figure(), text, count=1)


def said_of_figure() -> str:
    runs = stored()[1]
    grpo, first, exact = (
        len(runs.measured(METHODS[name], POOLED, 128)) for name in (GRPO, FIRST, EXACT)
    )
    return (
        "*Qwen2.5-Coder-0.5B trained on LeetCode, 763 test problems. Lines are means over runs, "
        f"bands go from the lowest to the highest run: {grpo} of GRPO, {first + exact} of max@4 "
        f"off-policy ({first} first-order, {exact} exact).*"
    )


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(given)
    from experiments.results.figure import drawn

    made = {PAGE: page(), README: with_sentences(README.read_text()), FIGURE: drawn(stored()[1])}
    stale = [path for path, text in made.items() if path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: {'differs' if asked.check else 'written'}")
        if not asked.check:
            path.write_text(made[path])
    return 1 if stale and asked.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
