"""`maxk evaluate`, `compare`, `forecast` on runs as `maxk sample` leaves them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from maxk import max_at_k, pass_at_k
from maxk.evaluate.read import read_run
from maxk.store.run import Run, RunError
from tests.command import maxk


def run_of(
    folder: Path,
    rewards_PN: np.ndarray,
    data: str = "mbpp",
    cpu_seconds: float = 4.0,
    unknown_tokens: bool = False,
    **changes: Any,
) -> Path:
    """A run with these rewards; completions are numbers, samples come in no order."""
    problems, n = rewards_PN.shape
    config: dict[str, Any] = {
        "model": folder.name,
        "backend": "transformers",
        "n": n,
        "data": {"name": data, "split": "test", "source": str(folder)},
        "settings": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 256, "seed": 0, "chat": True},
    }
    run = Run.start(folder, "sample", {**config, **changes})
    ids = [f"{data}/{i}" for i in range(problems)]
    levels = [("easy", "hard")[i % 2] for i in range(problems)]
    run.write(
        "problems",
        "0000",
        pa.table({"id": ids, "difficulty": levels, "entry_point": [""] * problems}),
    )
    order = np.random.default_rng(0).permutation(problems * n)
    for part, places in enumerate(np.array_split(order, 3)):
        owner = {"problem": [ids[i // n] for i in places], "sample": [int(i % n) for i in places]}
        values = [float(rewards_PN.flat[i]) for i in places]
        run.write(
            "completions",
            f"{part:05d}",
            pa.table(
                {
                    **owner,
                    "completion": [f"print({value})" for value in values],
                    "tokens": [None if unknown_tokens and i == 0 else 10 for i in places],
                    "entropy": [0.25] * len(places),
                }
            ),
        )
        status = ["passed" if value == 1 else "wrong answer" for value in values]
        programs = [f"print({value})" for value in values]
        columns = {**owner, "reward": values, "status": status, "program": programs}
        verdicts = pa.table(columns)
        about = {"maxk": json.dumps({"limits": {"cpu_seconds": cpu_seconds}})}
        run.write("verdicts", f"{part:05d}", verdicts.replace_schema_metadata(about))
    return folder


def rewards(seed: int, lift: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    rate_P = random.beta(0.6, 2.0, size=60) * (1 - lift) + lift
    return (random.random((60, 16, 4)) < rate_P[:, None, None] ** 0.5).mean(-1)


def test_evaluate_prints_both_curves_and_writes_them_down(tmp_path):
    given = rewards(0)
    folder = run_of(tmp_path / "base", given)
    done = maxk("evaluate", folder, "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    for word in (
        "60 problems",
        "pass@k",
        "max@k",
        "easy",
        "hard",
        "coverage",
        "different programs",
    ):
        assert word in done.stdout, word
    written = json.loads((tmp_path / "out.json").read_text())
    for metric, function in (("max", max_at_k), ("pass", pass_at_k)):
        points = written["curves"][metric]["points"]
        assert [point["k"] for point in points] == [1, 2, 4, 8, 16]
        for point in points:
            assert point["value"] == pytest.approx(function(given, point["k"]).mean(), abs=1e-12)
            assert point["low"] < point["value"] < point["high"]
    assert written["coverage"] == (given == 1).any(1).mean()
    assert written["statuses"]["passed"] == pytest.approx((given == 1).mean())
    assert written["entropy"]["mean"] == pytest.approx(0.25)
    # the programs are print(0.0), print(0.25), ...: as many as there are different rewards
    different = sum(len(set(row)) for row in given.tolist()) / given.size
    assert written["different programs"] == pytest.approx(different)


def test_one_completion_of_unknown_length_makes_the_number_of_tokens_unknown(tmp_path):
    for name, unknown in (("known", False), ("unknown", True)):
        folder = run_of(tmp_path / name, rewards(0)[:4], unknown_tokens=unknown)
        done = maxk("evaluate", folder, "--json", tmp_path / "out.json")
        assert done.returncode == 0, done.stderr
        written = json.loads((tmp_path / "out.json").read_text())
        assert written.get("tokens") == (None if unknown else 4 * 16 * 10)
        assert ("tokens" in written) == ("tokens" in done.stdout) == (not unknown)
        assert written["completions"] == 4 * 16


def test_a_k_beyond_n_is_an_error_and_not_a_number(tmp_path):
    done = maxk("evaluate", run_of(tmp_path / "base", rewards(0)), "--k", "32")
    assert done.returncode == 1
    assert "32" in done.stderr
    assert "16" in done.stderr


def test_the_rows_are_those_of_each_problem_in_the_order_of_samples(tmp_path):
    given = rewards(1)
    found = read_run(run_of(tmp_path / "base", given))
    assert list(found.rewards) == [f"mbpp/{i}" for i in range(60)]
    np.testing.assert_array_equal(np.stack(found.rows), given)


def test_half_a_run_is_not_measured(tmp_path):
    folder = run_of(tmp_path / "base", rewards(0))
    Run.open(folder).remove("verdicts", "00001")
    with pytest.raises(RunError, match="completions without verdicts; run: maxk verify"):
        read_run(folder)
    Run.open(folder).remove("completions", "00001")
    with pytest.raises(RunError, match=r"fewer than 16 completions of .* repeat its `maxk sample`"):
        read_run(folder)
    with pytest.raises(RunError, match=r"has no config.toml"):
        read_run(tmp_path)


def test_the_problems_that_lack_completions_are_counted(tmp_path):
    run = Run.open(run_of(tmp_path / "base", rewards(0)))
    for table in ("completions", "verdicts"):
        rows = run.read(table)
        kept = [each not in ("mbpp/3", "mbpp/4") for each in rows["problem"].to_pylist()]
        for part in run.parts(table):
            run.remove(table, part)
        run.write(table, "00000", rows.filter(pa.array(kept)))
    with pytest.raises(RunError, match=r"fewer than 16 completions of 2 of 60 problems"):
        read_run(run.folder)


def test_compare_marks_the_best_and_lists_paired_differences(tmp_path):
    one, two = rewards(0), np.maximum(rewards(0), rewards(5))
    folders = [run_of(tmp_path / "base", one), run_of(tmp_path / "ours", two)]
    done = maxk("compare", *folders, "--k", "1", "16", "--form", "markdown")
    assert done.returncode == 0, done.stderr
    assert "| Method | max@1 | max@16 |" in done.stdout
    best = f"{max_at_k(two, 1).mean():.3f}"
    assert f"**{best}**" in done.stdout  # bold; one run gets no star
    assert "base - ours  max@1" in done.stdout
    assert "one run each: says nothing about another run of the same method" in done.stdout
    assert "not told apart" not in done.stdout
    for form, word in (("latex", r"\toprule"), ("csv", "base"), ("terminal", "Method")):
        assert word in maxk("compare", *folders, "--form", form).stdout


def seeds(folder: Path, rates: float, count: int, seed: int, **changes: Any) -> list[Path]:
    """Runs of one method that differ in their samples alone."""
    rng = np.random.default_rng(seed)
    return [
        run_of(
            folder.with_name(f"{folder.name}-s{i}"), (rng.random((40, 8)) < rates) * 1.0, **changes
        )
        for i in range(count)
    ]


def test_runs_that_share_a_name_are_a_method(tmp_path):
    seeds(tmp_path / "base", 0.2, 3, 0)
    seeds(tmp_path / "ours", 0.6, 3, 1)
    given = [f"base={tmp_path}/base-s*", f"ours={tmp_path}/ours-s0", f"ours={tmp_path}/ours-s[12]"]
    done = maxk("compare", *given, "--k", "1", "--form", "markdown")
    assert done.returncode == 0, done.stderr
    assert r"\***" in done.stdout
    assert "95 % intervals over runs, problems and samples" in done.stdout
    assert re.search(r"base - ours  max@1  -0\.\d+ .* Holm .* different", done.stdout)
    assert "Welch's t on run means" in done.stdout
    assert "standard deviation between runs: base 0.0" in done.stdout
    stricter = maxk("compare", *given, "--k", "1", "--form", "markdown", "--minimum-runs", "4")
    assert r"\***" not in stricter.stdout
    assert "fewer than 4 runs of a method: no star" in stricter.stdout
    one = maxk("compare", given[1], given[0], "--k", "1", "--untrained", "ours")
    assert "says nothing" not in one.stdout
    assert "over runs, problems and samples" in one.stdout
    twice = maxk("compare", given[1], given[1], given[0])
    assert twice.returncode == 2
    assert "is given twice for 'ours'" in twice.stderr
    assert "no folder is like" in maxk("compare", f"{tmp_path}/nothing-*").stderr


def test_runs_are_grouped_by_the_configuration_of_their_training(tmp_path):
    given = []
    for name, k, rate in (("a", 4, 0.2), ("b", 8, 0.6)):
        for i in range(2):
            train = tmp_path / f"train-{name}{i}"
            about = {"method": {"name": "grpo", "k": k}, "trl": {"seed": i}, "run": {"out": name}}
            Run.start(train, "train", about)
            (folder,) = seeds(
                tmp_path / f"{name}{i}", rate, 1, 2 * k + i, model=str(train / "model")
            )
            given.append(folder)
    done = maxk("compare", *given, "--group", "method.k", "--k", "1")
    assert done.returncode == 0, done.stderr
    assert "4 is a0-s0, a1-s0" in done.stdout
    assert "4 - 8: differences, 95 % intervals over runs" in done.stdout
    whole = maxk("compare", *given, "--group", "config", "--k", "1")
    assert "a0-s0 is a0-s0, a1-s0\n" in whole.stdout
    assert "b0-s0 is b0-s0, b1-s0\n" in whole.stdout
    (base,) = seeds(tmp_path / "base", 0.1, 1, 0)
    mixed = maxk("compare", base, *given, "--group", "method.name", "--k", "1")
    assert "base-s0 is base-s0\n" in mixed.stdout
    assert "they also differ in method.k: 4, 8" in mixed.stdout
    unknown = maxk("compare", *given, "--group", "nothing")
    assert unknown.returncode == 2
    assert "--group nothing is no field" in unknown.stderr


def test_power_from_numbers_and_from_stored_runs(tmp_path):
    done = maxk("power", "--between-sd", "0.025", "--within", "0.2", "--delta", "0.02")
    assert done.returncode == 0, done.stderr
    assert "100 problems: 42 runs a side" in done.stdout
    seeds(tmp_path / "base", 0.2, 3, 0)
    stored = maxk("power", f"{tmp_path}/base-s*", "--k", "2", "--delta", "0.05")
    assert stored.returncode == 0, stored.stderr
    assert "max@2 of 3 runs, 8 samples of 40 problems" in stored.stdout
    assert "40 problems, 32 samples" in stored.stdout
    assert "--within is missing" in maxk("power", "--between-sd", "0.1").stderr
    assert "two or more" in maxk("power", tmp_path / "base-s0").stderr


def test_of_runs_with_other_numbers_of_samples_as_many_are_compared(tmp_path):
    few, many = rewards(0)[:, :8], rewards(5)
    folders = [run_of(tmp_path / "few", few), run_of(tmp_path / "many", many)]
    done = maxk("compare", *folders, "--k", "8", "--form", "markdown")
    assert done.returncode == 0, done.stderr
    assert f"{many[:, :8].max(1).mean():.3f}" in done.stdout
    said = "samples of a problem: few 8, many 16; the first 8 of each are compared"
    assert said in done.stdout
    assert said not in maxk("compare", folders[0], f"same={folders[0]}").stdout


def test_samples_that_all_runs_share_are_a_row_more(tmp_path):
    one, two = rewards(0), rewards(5)
    folders = [run_of(tmp_path / "one", one), run_of(tmp_path / "two", two)]
    done = maxk("compare", *folders, "--k", "16", "--ensemble", "--form", "markdown")
    assert done.returncode == 0, done.stderr
    best = np.hstack([one[:, :8], two[:, :8]]).max(1).mean()  # k = n: all of them
    assert re.search(rf"\| ensemble \| \**{best:.3f}", done.stdout)
    assert "one - ensemble  max@16" in done.stdout
    more = [f"one={run_of(tmp_path / 'one-he', one, 'humaneval')}"]
    more += [f"two={run_of(tmp_path / 'two-he', two, 'humaneval')}"]
    named = [f"one={folders[0]}", f"two={folders[1]}"]
    both = maxk("compare", *named, *more, "--ensemble", "--form", "markdown")
    assert both.returncode == 0, both.stderr
    (row,) = [line for line in both.stdout.splitlines() if line.startswith("| ensemble")]
    assert row.count(f"{best:.3f}") == 2


def test_other_problems_or_settings_are_refused_with_the_difference(tmp_path):
    settings = {"temperature": 0.8, "top_p": 1.0, "max_tokens": 256, "seed": 0, "chat": True}
    base = run_of(tmp_path / "base", rewards(0))
    done = maxk("compare", base, run_of(tmp_path / "cold", rewards(1), settings=settings))
    assert done.returncode == 1
    assert "settings.temperature: 1.0 there, 0.8 asked" in done.stderr
    done = maxk("compare", base, run_of(tmp_path / "fewer", rewards(1)[:50]))
    assert done.returncode == 1
    assert "only 'base' has 10 (mbpp/50, mbpp/51, mbpp/52, ...)" in done.stderr
    assert "RUNS must be given" in maxk("compare").stderr


def test_other_prompt_variants_are_other_settings(tmp_path):
    base = run_of(tmp_path / "base", rewards(0))
    asked = run_of(tmp_path / "prompt_variants", rewards(1), prompt_variants=["Be brief."])
    done = maxk("compare", base, asked)
    assert done.returncode == 1
    assert "prompt_variants: nothing there, ['Be brief.'] asked" in done.stderr
    assert maxk("compare", asked, f"again={asked}", "--k", "1").returncode == 0


def test_verdicts_under_other_limits_are_no_comparison(tmp_path):
    base = run_of(tmp_path / "base", rewards(0))
    done = maxk("compare", base, run_of(tmp_path / "hasty", rewards(1), cpu_seconds=1.0))
    assert done.returncode == 1
    assert "judged.limits.cpu_seconds: 4.0 there, 1.0 asked" in done.stderr


def test_several_data_sets_are_columns(tmp_path):
    given = []
    for data in ("mbpp", "humaneval"):
        for name, seed in (("base", 0), ("ours", 3)):
            folder = run_of(tmp_path / f"{data}-{name}", rewards(seed), data)
            given.append(f"{name}={folder}")
    done = maxk("compare", *given, "--k", "1", "--form", "markdown")
    assert done.returncode == 0, done.stderr
    assert "| Method | mbpp | humaneval |" in done.stdout


def test_forecast_goes_on_beyond_the_samples(tmp_path):
    done = maxk("forecast", run_of(tmp_path / "base", rewards(0)), "--k", "16", "160")
    assert done.returncode == 0, done.stderr
    assert "forecast from 16 samples" in done.stdout
    assert "160" in done.stdout
    assert "guess" in done.stdout
