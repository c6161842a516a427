"""No replaced word is left: names, settings, commands and terms.

If this fails, write the word after the arrow in the file that it names. A word is added here when
it is replaced, if it means nothing else: a term that is also plain English stays out.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXEMPT = (
    # What was, told as such.
    *("CHANGELOG.md", "experiments/archive/"),
    # How the published numbers were made. Cells, results and figures have the names of that time.
    *("experiments/grid/", "tests/experiments/", "experiments/results/runs.jsonl"),
    *("experiments/results/base.json", "experiments/results/claims.py"),
    "experiments/results/inference.py",
    # Tables from old names to new ones.
    *("src/maxk/config.py", "src/maxk/grade/convert.py", "tests/test_words.py"),
    *("tests/grade/test_convert.py", "tests/grade/format1/", "tests/test_config.py"),
    "tests/integrations/test_trainer.py",
)

OLD = {  # what was written, as a regular expression: what is written now
    # settings and logged names
    r"skip_silent": "skip_zero_variance",
    r"share_prompts": "pack_prompts",
    r"trust_region\s*[:=]": "masking",
    r"keep_start": "maxk merge --alpha",
    r"average_from": "maxk merge",
    r"groups/no_signal": "groups/zero_variance",
    r"groups/saturated": "groups/all_correct",
    r"\bdrift/(iteration|mean|max)": "policy_lag/...",
    r"ratio/gated": "ratio/masked",
    # commands and their options
    r"maxk (keep|mix)\b": "maxk merge",
    r"maxk plan\b": "maxk allocate",
    r"maxk curve\b": "maxk forecast",
    r"compare\b[^\n]* --shared\b": "maxk compare --ensemble",
    r"runs merge\b": "maxk runs join",
    r"(?<!-)--hints\b": "--prompt-variants",
    # functions and modules
    r"planned_elsewhere": "cross_validated",
    r"\bas_many_of\b": "scaled_to",
    r"\bway_of\b": "configuration_of",
    r"from maxk\.evaluate import [^\n]*\b(plan|planned|predict|spread)\b": "allocate, forecast ...",
    r"maxk\.evaluate\.(plan|predict|spread|stored)\b": "allocate, forecast, ensemble, read",
    r"maxk\.verify\.(alike|extract|reward|stored)\b": "maxk.grade",
    r"maxk\.sample\.(tables|judging|background|verifying|transformers_|several)\b": "store, grade",
    r"maxk\.report\.(look|words)\b": "maxk.report.theme, maxk.report.text",
    r"maxk\.(keeping|schema|rows|runs|engines)\b": "merge, store, integrations",
    r"\bSettings\(max_tokens": "Sampling",
    r"class (Keep|Mix|Foresee)\b": "Merge, Forecast",
    r"\bhints=": "prompt_variants=",
    r"\bshared=True\b": "ensemble=True",
    r"\b(worn|hurried)\b": "what it holds",
    # terms
    r"\bkept-\d+\b": "WiSE-FT, alpha = 0.3",
    r"\bof-3\b": "uniform model soup",
    r"\bby heart\b": "reward hacking: hard-coded tests",
    r"\bhabits\b": "truncated completions, repetition, ...",
    r"\btrainings\b": "runs",
    r"\bjudged meanwhile\b": "streaming verification",
    r"\bno_signal\b": "zero_variance",
    r"\bsaturated\b": "all-correct",
    r"\bmoved back\b": "weight interpolation towards the base model",
    r"\bhints\b(?!=)": "prompt variants",
    r"\bgated\b": "masked",
    r"\btrust regions? of (completions|tokens)\b": "sequence or token masking",
    r"\bsilent groups?\b|\bgroups? without signal\b|\bdead groups?\b": "zero-variance group",
    r"\bways to sample\b|\bway to sample\b": "sampling configuration",
    r"\bhinted\b": "with_variant",
    r"\bclamp of the ratios is open\b|\bopen clamp\b": "no clamp",
    r"\bglances\b": "settings",
    r"\btelling\(": "settings",
    r"\bfates\b": "verdict counts, results",
    r"\blast comparison\b": "main comparison",
}


def tracked() -> list[str]:
    """Every file under version control that is text and not exempt."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "grep", "-I", "--name-only", "-e", ""],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [name for name in listed if not name.startswith(EXEMPT)]


def found_in(text: str) -> Counter[str]:
    """How often each old word stands in a text."""
    return Counter(
        f"{match[0].strip()!r} -> {new}"
        for old, new in OLD.items()
        for match in re.finditer(old, text)
    )


def test_no_file_has_an_old_word():
    files = {name: found_in((ROOT / name).read_text("utf-8", "replace")) for name in tracked()}
    assert len(files) > 300  # or the list of files is wrong
    lines = [
        f"{name}: {', '.join(f'{word} ({n})' for word, n in words.items())}"
        for name, words in files.items()
        if words
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("maxk compare a b --shared", "maxk compare --ensemble"),
        ("the soup of-3 of GRPO", "uniform model soup"),
        ("it knows them by heart", "reward hacking: hard-coded tests"),
        ("trust_region = 'token'", "masking"),
    ],
)
def test_an_old_word_is_found_and_its_replacement_named(text, word):
    (found,) = found_in(text)
    assert found.endswith(f"-> {word}")


def test_words_that_only_look_old_are_not_found():
    assert not found_in(
        "runs join, maxk merge, the number of-30, three training runs, maxk keeps it"
    )
