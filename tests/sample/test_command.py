"""`maxk sample` and `maxk runs join`, as far as they are more than `maxk.sample.sample`."""

import json
import os
import signal
import tomllib
from typing import Any

import pytest

from maxk.cli import parsed
from maxk.cli.arguments import filled
from maxk.cli.sample import Sample, judges_beside
from maxk.records import Problem
from maxk.store.run import Run, RunError
from maxk.store.tables import pairs_of, problems_of
from tests.command import maxk
from tests.data.published import mbpp, write_jsonl
from tests.sample.test_run import roomy, rows


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    loaded, tokenizer = roomy()
    loaded.config.max_position_embeddings = 4096
    loaded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def arguments(model: str, out, *more: str) -> list[str]:
    given = {"--model": model, "--data": "starter", "--out": out, "-n": 3, "--limit": 5}
    given |= {"--max-tokens": 8, "--backend": "transformers"}
    return [str(word) for pair in given.items() for word in pair] + ["--no-chat", *more]


def maxk_sample(model: str, out, *more: str) -> Run:
    assert filled(Sample, arguments(model, out, *more)).run() == 0
    return Run.open(out)


def runs(words: list[str]) -> None:
    command = parsed("runs", words)
    assert command.run() == 0


def test_the_command_samples_and_judges_and_says_so(model, tmp_path, capsys):
    run = maxk_sample(model, tmp_path / "run", "--workers", "2")
    assert len(pairs_of(run)) == len(pairs_of(run, "verdicts")) == 15
    assert all(isinstance(problem, Problem) for problem in problems_of(run))
    said = " ".join(capsys.readouterr().out.split())
    assert "15 completions in" in said
    assert "tokens/s, 15 graded, mean reward 0.000" in said
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config == {
        "maxk": {"format": 2, "kind": "sample"},
        "model": model,
        "backend": "transformers",
        "n": 3,
        "data": {"name": "starter", "split": "all", "limit": 5},
        "settings": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 8, "seed": 0, "chat": False},
    }


def test_options_of_the_loader_are_part_of_the_run(model, tmp_path):
    source = write_jsonl(tmp_path / "mbpp.jsonl", [mbpp()])
    asked = ("--data", "mbpp", "--split", "train", "--source", str(source), "--no-verify")
    run = maxk_sample(model, tmp_path / "run", *asked, "--data-options", "shown=1")
    assert run.config["data"]["options"] == {"shown": 1}
    [problem] = problems_of(run)
    assert (len(problem.examples), len(problem.tests)) == (1, 3)
    with pytest.raises(RunError, match=r"data.options"):
        maxk_sample(model, tmp_path / "run", *asked)
    with pytest.raises(ValueError, match="--data-options: mbpp has no option 'hidden'"):
        maxk_sample(model, tmp_path / "other", *asked, "--data-options", "hidden=1")
    with pytest.raises(ValueError, match=r"'shown' is not name=value; use one such as"):
        maxk_sample(model, tmp_path / "other", *asked, "--data-options", "shown")


def test_batch_size_workers_and_verifying_do_not_make_another_run(model, tmp_path):
    maxk_sample(model, tmp_path / "run", "--no-verify")
    run = maxk_sample(model, tmp_path / "run", "--batch", "2", "--workers", "1")
    assert len(pairs_of(run, "verdicts")) == 15
    with pytest.raises(RunError, match=r"settings.seed: 0 there, 1 asked"):
        maxk_sample(model, tmp_path / "run", "--seed", "1")


def test_prompt_variants_are_part_of_the_run_if_there_are_any(model, tmp_path):
    """A run of before there were prompt variants goes on, and is not taken for one with them."""
    plain = maxk_sample(model, tmp_path / "plain", "--no-verify")
    assert "prompt_variants" not in plain.config
    variants = ["--prompt-variants", "Use no library.", ""]
    run = maxk_sample(model, tmp_path / "run", "--no-verify", *variants)
    assert run.config["prompt_variants"] == variants[1:]
    for one, two in zip(rows(plain), rows(run), strict=True):
        assert (one["logprob"] == two["logprob"]) == (one["sample"] == 1)  # the empty variant's
    with pytest.raises(
        RunError, match=r"prompt_variants: \['Use no library.', ''\] there, nothing asked"
    ):
        maxk_sample(model, tmp_path / "run", "--no-verify")
    with pytest.raises(RunError, match="prompt_variants: nothing there"):
        maxk_sample(model, tmp_path / "plain", "--no-verify", *variants)


def test_the_back_end_gets_what_engine_says_and_the_run_notes_it(model, tmp_path):
    run = maxk_sample(model, tmp_path / "run", "--no-verify", "--engine", "dtype=bfloat16")
    text = (run.folder / "environment.jsonl").read_text()
    assert json.loads(text)["engine"] == {"dtype": "bfloat16"}
    with pytest.raises(ValueError, match=r"--engine: .*'no_such'"):
        maxk_sample(model, tmp_path / "other", "--no-verify", "--engine", "no_such=1")
    with pytest.raises(ValueError, match="--engine 'fast' is not name=value"):
        maxk_sample(model, tmp_path / "third", "--no-verify", "--engine", "fast")


def test_shards_are_joined_by_the_command(model, tmp_path, capsys):
    whole = maxk_sample(model, tmp_path / "whole", "--no-verify")
    for i in (1, 2):
        maxk_sample(model, tmp_path / f"s{i}", "--no-verify", "--shard", f"{i}/2")
    folders = [str(tmp_path / name) for name in ("merged", "s1", "s2")]
    runs(["join", *folders])
    capsys.readouterr()
    runs(["show", folders[1]])
    assert capsys.readouterr().out == "9 of 9 completions\n0 of 9 verdicts\n"
    merged = Run.open(tmp_path / "merged")
    assert merged.config == whole.config
    for one, two in zip(rows(merged), rows(whole), strict=True):
        assert (one["problem"], one["completion"]) == (two["problem"], two["completion"])


def test_a_terminated_command_keeps_what_it_has(model, tmp_path, monkeypatch):
    """SIGTERM comes when the first part has been written."""
    out, write, sent = tmp_path / "run", Run.write, []

    def terminated(self: Run, table: str, part: str, rows: Any) -> None:
        write(self, table, part, rows)
        if table == "completions" and not sent:
            sent.append(part)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Run, "write", terminated)
    given = arguments(model, out, "--no-verify", "--n", "4000", "--max-tokens", "2")
    assert maxk("sample", *given).returncode == 130
    assert sent
    assert 0 < len(pairs_of(Run.open(out))) < 20_000


def test_beside_a_gpu_fewer_programs_are_judged_at_once(monkeypatch):
    assert judges_beside("transformers") is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    assert (judges_beside("vllm"), judges_beside("openai")) == (12, None)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert judges_beside("vllm") == 1
