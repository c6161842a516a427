"""`maxk merge`: weight interpolation towards the base model, and model soups."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxk.cli.merge import Merge
from maxk.merge import folder_of, interpolate, soup
from maxk.store.run import Run
from tests.command import maxk
from tests.tiny import tiny_model

TOKENS = torch.tensor([[5, 9, 3, 7]])


def saved(folder: Path, seed: int, size: str = "1GB", dtype: torch.dtype = torch.float32) -> Path:
    model, tokenizer = tiny_model(seed)
    model.to(dtype).save_pretrained(folder, max_shard_size=size)  # pyright: ignore[reportArgumentType]
    tokenizer.save_pretrained(folder)
    return folder


def a_run(folder: Path, base: str = "base", kind: str = "train") -> Path:
    """As `maxk train` leaves it, as far as it matters here."""
    run = Run.start(folder, kind, {"model": {"name": base}})
    saved(run.folder / "model", 1)
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("alpha", [0.1, 0.75])
def test_interpolation_keeps_alpha_of_the_base_model(tmp_path, alpha):
    tuned, base = saved(tmp_path / "tuned", 1, "8KB"), saved(tmp_path / "base", 0)
    assert len(list(tuned.glob("*.safetensors"))) > 1  # and the other has one file
    interpolate(base, tuned, alpha, tmp_path / "made" / "merged")
    made = AutoModelForCausalLM.from_pretrained(tmp_path / "made" / "merged")
    expected = tiny_model(1)[0].double()
    of_base = tiny_model(0)[0].double().state_dict()
    for name, weight in expected.state_dict().items():
        weight.copy_((1 - alpha) * weight + alpha * of_base[name])
    with torch.no_grad():
        logits = made(TOKENS).logits.double()
        torch.testing.assert_close(logits, expected(TOKENS).logits, rtol=1e-5, atol=1e-5)
        assert (logits - tiny_model(1)[0](TOKENS).logits).abs().max() > 1e-3
    assert AutoTokenizer.from_pretrained(tmp_path / "made" / "merged").pad_token == "<pad>"
    assert names_in(tmp_path / "made") == ["merged"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.9])
def test_merging_afterwards_gives_what_the_trainer_gave_at_the_end_of_a_run(tmp_path, alpha, dtype):
    """A setting of earlier trainers wrote tuned.lerp(base, alpha), in float32, as dtype."""
    tuned, base = (saved(tmp_path / f"{seed}", seed, dtype=dtype) for seed in (1, 0))
    interpolate(base, tuned, alpha, tmp_path / "merged")
    begun, ended = (tiny_model(seed)[0].to(dtype).state_dict() for seed in (0, 1))  # pyright: ignore[reportArgumentType]
    found = load_file(tmp_path / "merged" / "model.safetensors")
    assert found.keys() == ended.keys()
    moved = 0
    for name, weight in found.items():
        expected = ended[name].float().lerp(begun[name].float(), alpha).to(dtype)
        assert weight.dtype == dtype
        assert torch.equal(weight, expected)
        moved += not torch.equal(weight, ended[name])
    assert moved > 10  # but for the norms, which are 1 in both


def test_a_uniform_soup_is_the_mean(tmp_path):
    models = [saved(tmp_path / f"{seed}", seed, "8KB" if seed else "1GB") for seed in range(3)]
    soup(models, tmp_path / "mean")
    expected = [tiny_model(seed)[0].double().state_dict() for seed in range(3)]
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "mean").double().state_dict()
    for name, weight in found.items():
        mean = torch.stack([each[name] for each in expected]).mean(0)
        torch.testing.assert_close(weight, mean, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"out=.*/mean exists; give a new folder"):
        soup(models, tmp_path / "mean")


def test_a_soup_of_equal_models_is_that_model(tmp_path):
    model = saved(tmp_path / "model", 1)
    soup([model] * 3, tmp_path / "mean")
    same = load_file(model / "model.safetensors")
    for name, weight in load_file(tmp_path / "mean" / "model.safetensors").items():
        assert torch.equal(weight, same[name])


def test_weights_keep_the_type_of_the_tuned_model_and_counters_stay(tmp_path):
    for name in ("tuned", "base"):
        (tmp_path / name).mkdir()
    weights = {"a": torch.tensor([1.0, 2.0]), "steps": torch.tensor([7])}
    save_file(weights, tmp_path / "tuned" / "model.safetensors", {"format": "pt"})
    (tmp_path / "tuned" / "config.json").write_text("{}")
    (tmp_path / "tuned" / "logs").mkdir()
    of_base = {
        "a": torch.tensor([3.0, -2.0], dtype=torch.bfloat16),
        "steps": torch.tensor([1]),
        "tied": torch.zeros(1),
    }
    save_file(of_base, tmp_path / "base" / "model.safetensors")
    interpolate(tmp_path / "base", tmp_path / "tuned", 0.25, tmp_path / "made")
    made = load_file(tmp_path / "made" / "model.safetensors")
    assert made["a"].tolist() == [1.5, 1.0]
    assert made["a"].dtype == torch.float32
    assert made["steps"].tolist() == [7]
    assert names_in(tmp_path / "made") == ["config.json", "model.safetensors"]


def test_models_that_do_not_match_are_refused_and_nothing_is_left(tmp_path):
    tuned, base = saved(tmp_path / "tuned", 1), saved(tmp_path / "base", 0)
    weights = load_file(base / "model.safetensors")
    narrow = {name: weight[..., :4].clone() for name, weight in weights.items()}
    fewer = {name: weight for name, weight in weights.items() if "norm" not in name}
    for wrong, message in (
        (narrow, r"the weight \S+ is \[.*4\] in .*/base and \[.*\] in .*/tuned"),
        (fewer, r"/base has no weight model\.\S*norm\.weight, which .*/tuned has"),
    ):
        save_file(wrong, base / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            interpolate(base, tuned, 0.5, tmp_path / "made")
    (base / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"base has no \*.safetensors"):
        interpolate(base, tuned, 0.5, tmp_path / "made")
    for adapters, models in ((tuned, (base, tuned)), (base, (base, tuned))):
        (adapters / "adapter_config.json").write_text("{}")
        with pytest.raises(ValueError, match=f"{adapters} holds LoRA adapters"):
            interpolate(*models, 0.5, tmp_path / "made")
        (adapters / "adapter_config.json").unlink()
    assert names_in(tmp_path) == ["base", "tuned"]


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_alpha_lies_between_0_and_1(tmp_path, alpha):
    with pytest.raises(ValueError, match=f"alpha={alpha:g} is not between 0 and 1"):
        interpolate(tmp_path, tmp_path, alpha, tmp_path / "made")


def test_a_model_of_the_hub_is_taken_from_its_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    there = tmp_path / "models--some--model"
    (there / "refs").mkdir(parents=True)
    (there / "refs" / "main").write_text("c0ffee")
    made = saved(there / "snapshots" / "c0ffee", 0)
    assert folder_of("some/model") == made
    assert folder_of(str(made)) == made
    tuned, out = saved(tmp_path / "tuned", 1), tmp_path / "out"
    assert Merge(("some/model", str(tuned)), out, 0.25).run() == 0
    is_interpolated(out, 0.25, made, tuned)


def is_interpolated(out: Path, alpha: float, base: Path, tuned: Path) -> None:
    ends = [load_file(folder / "model.safetensors") for folder in (base, tuned)]
    for key, weight in load_file(out / "model.safetensors").items():
        torch.testing.assert_close(weight, alpha * ends[0][key] + (1 - alpha) * ends[1][key])


def test_the_command_interpolates_towards_the_first_model(tmp_path):
    base = saved(tmp_path / "base", 0)
    run, out = a_run(tmp_path / "run", str(base)), tmp_path / "merged"
    done = maxk("merge", base, run, "--alpha", "0.3", "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"{out}: 0.3 of {base}, 0.7 of {run}" in " ".join(done.stdout.split())
    is_interpolated(out, 0.3, base, run / "model")
    assert AutoTokenizer.from_pretrained(out).pad_token == "<pad>"


def test_the_embedded_model_is_a_base_model(tmp_path):
    tuned = saved(tmp_path / "tuned", 1)
    with pytest.raises(ValueError, match=r"pocket/weights"):  # found, and of another size
        Merge(("pocket", str(tuned)), tmp_path / "made", 0.3).run()


def test_the_command_makes_a_soup_of_runs_and_models(tmp_path, capsys):
    run, model = a_run(tmp_path / "run"), saved(tmp_path / "other", 2)
    models = (str(run), str(model))
    assert Merge(models, tmp_path / "mean").run() == 0
    assert f"{tmp_path}/mean: 0.5 of {run}, 0.5 of {model}" in capsys.readouterr().out
    assert Merge(models, tmp_path / "more", weights=(0.9, 0.1)).run() == 0
    for name, share in (("mean", 0.5), ("more", 0.9)):
        is_interpolated(tmp_path / name, share, run / "model", model)
    assert AutoTokenizer.from_pretrained(tmp_path / "mean").pad_token == "<pad>"


@pytest.mark.parametrize("written", ["run", "model"])
def test_a_base_model_in_the_place_of_the_tuned_one_is_refused(tmp_path, written):
    """Whether the second run says that it began from the first run, or from its model."""
    first = a_run(tmp_path / "first", "some/model")
    second = a_run(tmp_path / "second", str({"run": first, "model": first / "model"}[written]))
    for models in ((first, "some/model"), (second, first), (second, first / "model")):
        swapped = tuple(map(str, models))
        with pytest.raises(ValueError, match="swap the two") as error:
            Merge(swapped, tmp_path / "made", 0.3).run()
        assert f"maxk merge {swapped[1]} {swapped[0]} --alpha" in str(error.value)
    assert Merge((str(first), str(second)), tmp_path / "made", 0.3).run() == 0


def test_what_cannot_be_merged_is_refused_with_the_way_out(tmp_path):
    model, run = str(saved(tmp_path / "model", 1)), a_run(tmp_path / "run")
    unfinished = a_run(tmp_path / "unfinished")
    (unfinished / "model").rename(unfinished / ".model")
    sampled = str(a_run(tmp_path / "sampled", kind="sample"))
    before = names_in(tmp_path)
    cases: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        ((), {}, "a soup needs two models or more; given: none"),
        ((model,), {}, f"a soup needs two models or more; given: {model}"),
        ((model, model), {"weights": (1.0,)}, r"--weights has 1 number\(s\) for 2 models"),
        ((model, model), {"weights": (0.5, 0.6)}, r"weights=\[0.5, 0.6\] sum to 1.1"),
        ((model, str(unfinished)), {}, "is not finished"),
        ((model, str(unfinished)), {"alpha": 0.3}, "is not finished"),
        ((model, sampled), {}, "is a run of `maxk sample`; give a run of `maxk train`"),
        ((sampled, model), {"alpha": 0.3}, "is a run of `maxk sample`"),
        ((model, "some/model"), {"alpha": 0.3}, "some/model is not a folder"),
        ((str(run), "some/model"), {}, "some/model is not a folder"),
        ((model,), {"alpha": 0.3}, f"exactly two models, BASE TUNED; given: {model}"),
        ((model, model, model), {"alpha": 0.3}, "exactly two models, BASE TUNED"),
        ((model, model), {"alpha": 1.5}, "alpha=1.5 is not between 0 and 1"),
        ((model, model), {"alpha": 0.3, "weights": (0.5, 0.5)}, "exclude each other"),
    ]
    for models, options, message in cases:
        with pytest.raises(ValueError, match=message):
            Merge(models, tmp_path / "made", **options).run()
    assert names_in(tmp_path) == before
