"""`maxk keep` and `maxk mix`: models on the way back to their start, and means of several."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxk.cli.merge import Keep, Mix
from maxk.merge import folder_of, keep_start, mix
from maxk.store.run import Run
from tests.command import maxk
from tests.tiny import tiny_model

TOKENS = torch.tensor([[5, 9, 3, 7]])


def saved(folder: Path, seed: int, size: str = "1GB") -> Path:
    model, tokenizer = tiny_model(seed)
    model.save_pretrained(folder, max_shard_size=size)
    tokenizer.save_pretrained(folder)
    return folder


def a_run(folder: Path, kind: str = "train", **trl: float) -> Path:
    """As `maxk train` leaves it, as far as it matters here."""
    config = {"model": {"name": str(saved(folder.parent / "start", 0))}, "trl": trl}
    run = Run.start(folder, kind, config)
    saved(run.folder / "model", 1)
    return folder


@pytest.mark.parametrize("share", [0.1, 0.75])
def test_what_is_made_is_the_model_on_the_line_between_the_two(tmp_path, share):
    trained, start = saved(tmp_path / "trained", 1, "8KB"), saved(tmp_path / "start", 0)
    assert len(list(trained.glob("*.safetensors"))) > 1  # and the other has one file
    keep_start(trained, start, share, tmp_path / "made" / "kept")
    made = AutoModelForCausalLM.from_pretrained(tmp_path / "made" / "kept")
    expected = tiny_model(1)[0].double()
    begun = tiny_model(0)[0].double().state_dict()
    for name, weight in expected.state_dict().items():
        weight.copy_((1 - share) * weight + share * begun[name])
    with torch.no_grad():
        logits = made(TOKENS).logits.double()
        torch.testing.assert_close(logits, expected(TOKENS).logits, rtol=1e-5, atol=1e-5)
        assert (logits - tiny_model(1)[0](TOKENS).logits).abs().max() > 1e-3
    assert AutoTokenizer.from_pretrained(tmp_path / "made" / "kept").pad_token == "<pad>"
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == ["kept"]


def test_a_mean_is_as_far_from_each_of_its_models(tmp_path):
    models = [saved(tmp_path / f"{seed}", seed, "8KB" if seed else "1GB") for seed in range(3)]
    mix([(model, 1 / 3) for model in models], tmp_path / "mean")
    expected = [tiny_model(seed)[0].double().state_dict() for seed in range(3)]
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "mean").double().state_dict()
    for name, weight in found.items():
        mean = torch.stack([each[name] for each in expected]).mean(0)
        torch.testing.assert_close(weight, mean, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="do not sum to 1"):
        mix([(model, 0.5) for model in models], tmp_path / "other")
    with pytest.raises(ValueError, match="mean is there already"):
        mix([(model, 1 / 3) for model in models], tmp_path / "mean")


def test_weights_keep_their_type_and_what_is_not_a_number_with_a_point_stays(tmp_path):
    for name in ("trained", "start"):
        (tmp_path / name).mkdir()
    weights = {"a": torch.tensor([1.0, 2.0]), "steps": torch.tensor([7])}
    save_file(weights, tmp_path / "trained" / "model.safetensors", {"format": "pt"})
    (tmp_path / "trained" / "config.json").write_text("{}")
    (tmp_path / "trained" / "logs").mkdir()
    begun = {
        "a": torch.tensor([3.0, -2.0], dtype=torch.bfloat16),
        "steps": torch.tensor([1]),
        "tied": torch.zeros(1),
    }
    save_file(begun, tmp_path / "start" / "model.safetensors")
    keep_start(tmp_path / "trained", tmp_path / "start", 0.25, tmp_path / "made")
    made = load_file(tmp_path / "made" / "model.safetensors")
    assert made["a"].tolist() == [1.5, 1.0]
    assert made["a"].dtype == torch.float32
    assert made["steps"].tolist() == [7]
    assert sorted(f.name for f in (tmp_path / "made").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_models_that_are_not_the_same_are_refused_and_nothing_is_left(tmp_path):
    trained, start = saved(tmp_path / "trained", 1), saved(tmp_path / "start", 0)
    weights = load_file(start / "model.safetensors")
    narrow = {name: weight[..., :4].clone() for name, weight in weights.items()}
    fewer = {name: weight for name, weight in weights.items() if "norm" not in name}
    for wrong, message in ((narrow, r"of .*/start is"), (fewer, "/start has no model.")):
        save_file(wrong, start / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            keep_start(trained, start, 0.5, tmp_path / "made")
    (start / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"start has no \*.safetensors"):
        keep_start(trained, start, 0.5, tmp_path / "made")
    (trained / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match="adapters"):
        keep_start(trained, start, 0.5, tmp_path / "made")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["start", "trained"]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_is_between_none_and_all(tmp_path, share):
    with pytest.raises(ValueError, match="is not between 0 and 1"):
        keep_start(tmp_path, tmp_path, share, tmp_path / "made")


def test_a_model_of_the_hub_is_taken_from_its_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    there = tmp_path / "models--some--model"
    (there / "refs").mkdir(parents=True)
    (there / "refs" / "main").write_text("c0ffee")
    made = saved(there / "snapshots" / "c0ffee", 0)
    assert folder_of("some/model") == made
    assert folder_of(str(made)) == made


def test_the_command_tries_several_shares_of_a_run(tmp_path):
    run = a_run(tmp_path / "run")
    done = maxk("keep", run, "0.3", "0.125")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert f"{run}/kept-30: 0.3 of {tmp_path}/start" in said
    first, last = (load_file(tmp_path / at / "model.safetensors") for at in ("start", "run/model"))
    for share, name in ((0.3, "kept-30"), (0.125, "kept-12.5")):
        for key, weight in load_file(run / name / "model.safetensors").items():
            torch.testing.assert_close(weight, share * first[key] + (1 - share) * last[key])
    with pytest.raises(ValueError, match="kept-30 is there already"):
        Keep(run, (0.3,)).run()


def test_the_command_takes_any_two_models(tmp_path):
    trained, start = saved(tmp_path / "trained", 1), saved(tmp_path / "start", 0)
    with pytest.raises(ValueError, match="so --start and --out are needed"):
        Keep(trained, (0.3,)).run()
    assert Keep(trained, (0.3,), str(start), tmp_path / "made").run() == 0
    assert (tmp_path / "made" / "kept-30" / "model.safetensors").exists()


def test_runs_that_it_cannot_be_for_are_told_apart(tmp_path):
    unfinished = a_run(tmp_path / "run")
    (unfinished / "model").rename(unfinished / ".model")
    for run, shares, message in (
        (tmp_path, (), "how much is to be kept"),
        (a_run(tmp_path / "kept", keep_start=0.3), (0.5,), "has kept 0.3 of its start already"),
        (a_run(tmp_path / "other", "sample"), (0.5,), "is a run of `maxk sample`"),
        (unfinished, (0.5,), "is not finished"),
    ):
        with pytest.raises(ValueError, match=message):
            Keep(run, shares).run()


def test_the_command_makes_the_mean_of_runs_and_models(tmp_path):
    run, model = a_run(tmp_path / "run"), saved(tmp_path / "other", 2)
    done = maxk("mix", run, model, "--out", tmp_path / "mean")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/mean: 0.5 of {run}, 0.5 of {model}" in " ".join(done.stdout.split())
    Mix((run, model), tmp_path / "more", (0.9, 0.1)).run()
    one, two = (load_file(tmp_path / at / "model.safetensors") for at in ("run/model", "other"))
    for name, share in (("mean", 0.5), ("more", 0.9)):
        for key, weight in load_file(tmp_path / name / "model.safetensors").items():
            torch.testing.assert_close(weight, share * one[key] + (1 - share) * two[key])
    assert AutoTokenizer.from_pretrained(tmp_path / "mean").pad_token == "<pad>"


def test_what_has_no_mean_is_refused(tmp_path):
    model = saved(tmp_path / "model", 1)
    unfinished = a_run(tmp_path / "run")
    (unfinished / "model").rename(unfinished / ".model")
    for models, shares, message in (
        ((model,), (), "of two models or more"),
        ((model, model), (1.0,), "1 shares for 2 models"),
        ((model, model), (0.5, 0.6), "do not sum to 1"),
        ((model, unfinished), (), "is not finished"),
        ((model, a_run(tmp_path / "sampled", "sample")), (), "is a run of `maxk sample`"),
    ):
        with pytest.raises(ValueError, match=message):
            Mix(models, tmp_path / "mean", shares).run()
    assert not (tmp_path / "mean").exists()
