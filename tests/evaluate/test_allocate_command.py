"""`maxk allocate`: what is chosen, on which problems it is measured, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from maxk.cli.allocate import Allocate
from maxk.cli.arguments import filled
from maxk.cli.console import console
from maxk.evaluate import allocate, allocated, cross_validated, scores
from tests.evaluate.test_commands import maxk, rewards, run_of

SETTINGS = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256, "seed": 0, "chat": True}
WARM = {**SETTINGS, "temperature": 1.2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Three ways on problems to choose on and on others: a good one, a worse one, a short one."""
    folder = tmp_path_factory.mktemp("runs")
    for data, seed in (("mbpp", 0), ("humaneval", 10)):
        run_of(folder / data / "plain", rewards(seed), data)
        run_of(folder / data / "warm", rewards(seed + 1, 0.02), data, settings=WARM)
        short = np.maximum(rewards(seed), rewards(seed + 5))[:, :6]
        run_of(folder / data / "short", short, data, prompt_variants=["Be brief."])
    return folder


NAMES = ("plain", "warm", "short")


def table(data: str = "mbpp") -> list[np.ndarray]:
    seed = {"mbpp": 0, "humaneval": 10}[data]
    short = np.maximum(rewards(seed), rewards(seed + 5))[:, :6]
    return [rewards(seed), rewards(seed + 1, 0.02), short]


def named(runs: Path, data: str = "mbpp") -> list[str]:
    return [f"{name}={runs / data / name}" for name in NAMES]


def run(*given: str) -> int:
    return filled(Allocate, list(given)).run()


def row(said: str, name: str) -> list[str]:
    """The last line that begins with a name, in words."""
    return [line.split() for line in said.splitlines() if line.split()[:1] == [name]][-1][1:]


def test_it_says_how_many_of_each_way_come_first_and_what_they_are_worth(runs, tmp_path):
    out = tmp_path / "plan.json"
    done = maxk("allocate", *named(runs), "-k", "20", "--out", out)
    assert done.returncode == 0, done.stderr
    order = allocate(table(), 20)
    made = json.loads(out.read_text())
    assert made["order"] == [NAMES[way] for way in order]
    assert made["runs"] == named(runs)
    ks = [1, 2, 4, 8, 16, 20]
    counts, values = done.stdout.split("60 problems")
    for way, name in enumerate(NAMES):
        expected = [str(order[:k].count(way) or "-") for k in ks]
        assert row(counts, name) == expected
        alone = scores(table()[way], [k for k in ks if k <= table()[way].shape[1]])
        shown = [f"{value:.3f}" for value in alone.mean(0)]
        assert row(values, name) == shown + ["-"] * (6 - len(shown))
    whole = allocated(table(), order, ks).mean(0)
    assert row(values, "allocation") == [f"{value:.3f}" for value in whole]
    elsewhere = cross_validated(table(), 20, ks).mean(0)
    assert row(values, "allocation,") == [
        "cross-validated",
        *(f"{value:.3f}" for value in elsewhere),
    ]
    assert "'allocation' is measured on the problems that it was chosen on" in done.stdout
    assert "'allocation, cross-validated' measures each fold with the" in done.stdout
    assert "p =" not in done.stdout
    assert order.count(2) == 6
    assert order.count(0) < 16
    assert "all samples of short are used; sample more to allocate more" in done.stdout


def test_it_is_chosen_on_some_problems_and_reported_on_others(runs, capsys):
    assert run(*named(runs), "-k", "16", "--on", *named(runs, "humaneval")[::-1]) == 0
    said = capsys.readouterr().out
    order = allocate(table(), 16)
    found = allocated(table("humaneval"), order, [1, 2, 4, 8, 16]).mean(0)
    assert row(said.split("differences to")[0], "allocation") == [f"{value:.3f}" for value in found]
    pairs = re.findall(r"allocation - (\w+)  max@(\d+)  ([+-]0\.\d+) \(.* to .*\)", said)
    expected = [(name, k) for name in NAMES for k in (1, 2, 4, 8, 16) if name != "short" or k < 6]
    assert [(name, int(k)) for name, k, _ in pairs] == expected
    assert "chosen on" not in said
    assert "cross-validated" not in said
    assert order.count(2) == 6
    assert "all samples of short are used" in said  # of what was chosen on
    # At k = n nothing is left to choose: the first samples, as many of each as the plan has.
    counts = [order.count(way) for way in range(3)]
    parts = [each[:, :count] for each, count in zip(table("humaneval"), counts, strict=True)]
    best = np.hstack(parts).max(1).mean() - table("humaneval")[0].max(1).mean()
    (gap,) = [gap for name, k, gap in pairs if (name, k) == ("plain", "16")]
    assert float(gap) == pytest.approx(best, abs=5e-4)


def test_intervals_are_those_of_maxk_evaluate(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(console, "width", 30)  # which cuts nothing
    assert run(*named(runs)[:2], "-k", "2", "--metric", "pass", "--intervals") == 0
    said = capsys.readouterr().out
    out = tmp_path / "out.json"
    assert maxk("evaluate", runs / "mbpp" / "plain", "--json", out).returncode == 0
    point = json.loads(out.read_text())["curves"]["pass"]["points"][0]
    expected = "{value:.3f} [{low:.3f}, {high:.3f}]".format(**point)
    assert expected in said
    assert "pass@2" in said
    assert row(said, "plain")[0] == "{value:.3f}".format(**point)


def test_what_was_chosen_on_is_noticed_among_what_is_reported(runs, capsys):
    assert run(*named(runs), "-k", "2", "--on", *named(runs)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the allocation was chosen on 60 of these problems" in said


def test_runs_on_other_problems_or_judged_otherwise_are_refused(runs, tmp_path):
    plain = f"plain={runs / 'mbpp' / 'plain'}"
    other = run_of(tmp_path / "data", rewards(1), "humaneval")
    with pytest.raises(ValueError, match=r"data.name: 'mbpp' there, 'humaneval' asked"):
        run(plain, str(other), "-k", "2")
    other = run_of(tmp_path / "judged", rewards(1), cpu_seconds=1.0)
    with pytest.raises(ValueError, match=r"judged.limits.cpu_seconds: 4.0 there, 1.0 asked"):
        run(plain, str(other), "-k", "2")
    fewer = run_of(tmp_path / "fewer", rewards(1)[:50])
    with pytest.raises(ValueError, match="only 'plain' has 10"):
        run(plain, str(fewer), "-k", "2")


def test_on_takes_the_same_ways_with_as_many_samples_as_are_asked_for(runs, tmp_path):
    both, other = named(runs)[:2], named(runs, "humaneval")
    with pytest.raises(ValueError, match="--on has runs plain, short and the allocation is of"):
        run(*both, "-k", "2", "--on", other[0], other[2])
    swapped = [f"plain={runs}/humaneval/warm", f"warm={runs}/humaneval/plain"]
    with pytest.raises(
        ValueError,
        match=r"another sampling configuration:\n  settings.temperature: 1",
    ):
        run(*both, "-k", "8", "--on", *swapped)
    few = run_of(tmp_path / "few", rewards(11)[:, :2], "humaneval", settings=WARM)
    with pytest.raises(ValueError, match=r"warm of --on has 2 samples .* needs 16; sample more"):
        run(*both, "-k", "32", "--on", other[0], f"warm={few}")


def test_mistakes_are_said_with_the_way_out(runs):
    plain, warm, _ = named(runs)
    with pytest.raises(ValueError, match="1 runs are given; an allocation needs two"):
        run(plain)
    with pytest.raises(ValueError, match="'plain' is taken; give this run another name"):
        run(plain, plain)
    with pytest.raises(ValueError, match="'allocation' is taken"):
        run(plain, f"allocation={runs}/mbpp/warm")
    done = maxk("allocate", plain, warm)
    assert done.returncode == 1
    assert done.stderr.startswith("maxk allocate: k=128 is larger than n=32")
    assert "Traceback" not in done.stderr
