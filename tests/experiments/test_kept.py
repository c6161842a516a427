"""Cells that are made of the weights of others."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.grid.kept import make
from experiments.grid.plan import cell_names, config_of, made_of
from experiments.grid.results import read_results
from experiments.grid.run import FAILED
from maxk.config import TrainConfig
from maxk.pocket import resolve
from maxk.store.run import Run
from tests.experiments.small import write_data, write_grid
from tests.experiments.test_run import KEYS, Place
from tests.tiny import tiny_model

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


def weights_of(place: Place, name: str) -> dict[str, torch.Tensor]:
    return load_file(place.out / "work" / name / "train" / "model" / "model.safetensors")


def test_a_cell_made_from_another_is_on_the_line_to_the_base_model(tmp_path):
    data = write_data(tmp_path / "data")
    write_grid(data / "grid.toml")
    keys = (
        *KEYS,
        *("--trl.learning_rate", "1e-2", "--trl.weight_decay", "1.0"),
        *("--trl.skip_zero_variance", "false"),
        *("--data.name", "mbpp", "--data.options", "{shown = 1}"),
        *("--data.source", str(data / "mbpp" / "mbpp.jsonl")),
    )
    made = Place(data, tmp_path / "made")
    sets = ("--sets", "humaneval")
    assert made.run("choose-grpo", *sets, keys=keys) == 0
    assert made.run("choose-grpo-kept-30", *sets, keys=keys) == 0
    name, whole = "choose-grpo-kept-30-t-s0", "choose-grpo-t-s0"
    assert made.stages(name)[0] == "make"
    assert "train" not in made.stages(name)
    trained, kept = weights_of(made, whole), weights_of(made, name)
    begun = load_file(Path(resolve("pocket")) / "model.safetensors")
    far = 0.0
    for key, weight in trained.items():
        expected = 0.7 * weight + 0.3 * begun[key].float()
        torch.testing.assert_close(kept[key], expected, rtol=1e-5, atol=1e-6)
        far = max(far, float((weight - expected).abs().max()))
    assert far > 1e-4, "the trained weights would have passed too"
    found = {result.name: result.about for result in read_results(made.out / "results")}
    assert found[name]["stages"][0]["base_share"] == 0.3
    assert found[name]["train"]["metrics"] == found[whole]["train"]["metrics"]
    assert found[name]["stages"][0]["of"] == [whole]
    for seed in (1, 2):
        work = made.out / "work"
        shutil.copytree(work / whole, work / f"choose-grpo-t-s{seed}")
    assert made.run("choose-grpo-of-3-kept-30", *sets, keys=keys) == 0
    mean = "choose-grpo-of-3-kept-30-t-s0"
    for key, expected in weights_of(made, name).items():
        torch.testing.assert_close(weights_of(made, mean)[key], expected)
    assert made.stages(mean)[0] == "make"
    (about,) = [
        result.about for result in read_results(made.out / "results") if result.name == mean
    ]
    assert about["stages"][0]["of"] == [f"choose-grpo-t-s{seed}" for seed in range(3)]
    assert about["train"]["metrics"] == {}
    assert about["sets"]["humaneval"]["n"] > 0


def test_a_cell_that_is_trained_otherwise_is_refused(tmp_path):
    kept = config_of("choose-grpo-kept-30", ["--run.out", str(tmp_path / "a")])
    other = config_of("choose-off-policy")
    with pytest.raises(ValueError, match="is not trained as"):
        make(kept, [other])
    assert not (tmp_path / "a").exists()


def trained(cell: str, out: Path, start: Path, seed: int, weights: int) -> TrainConfig:
    """The configuration of a cell, and what its training leaves, as far as it matters here."""
    places = ["--run.out", str(out), "--model.name", str(start), "--trl.seed", str(seed)]
    if weights == 1:  # this one needed more memory than there was
        places += ["--trl.per_device_train_batch_size", "16"]
        places += ["--trl.gradient_accumulation_steps", "16"]
    config = config_of(cell, places)
    run = Run.start(out, "train", config.model_dump(mode="json"))
    tiny_model(weights)[0].save_pretrained(run.folder / "model")
    (run.folder / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    (run.folder / "environment.jsonl").write_text(f'{{"seed": {seed}}}\n')
    return config


@pytest.mark.parametrize(("cell", "share"), [("grpo-of-3", 0.0), ("grpo-of-3-kept-30", 0.3)])
def test_a_mean_is_one_of_trainings_with_seeds_that_follow(tmp_path, cell, share):
    tiny_model(9)[0].save_pretrained(tmp_path / "start")
    parts = [
        trained("choose-grpo", tmp_path / f"{i}", tmp_path / "start", 4 + i, i) for i in range(3)
    ]
    places = ["--run.out", str(tmp_path / "mean"), "--model.name", str(tmp_path / "start")]
    made = f"choose-{cell}"
    make(config := config_of(made, [*places, "--trl.seed", "4"]), parts, share)
    found = load_file(tmp_path / "mean" / "model" / "model.safetensors")
    seeds = [tiny_model(i)[0].state_dict() for i in range(3)]
    begun = tiny_model(9)[0].state_dict()
    for name, weight in found.items():
        mean = torch.stack([each[name] for each in seeds]).mean(0)
        torch.testing.assert_close(weight, (1 - share) * mean + share * begun[name])
    run = Run.open(tmp_path / "mean")
    assert run.metrics() == []
    noted = (tmp_path / "mean" / "environment.jsonl").read_text().splitlines()
    assert noted == ['{"seed": 4}', '{"seed": 5}', '{"seed": 6}']
    with pytest.raises(ValueError, match="is not trained as"):
        make(config, [parts[0], parts[2], parts[1]])
    smaller = config_of(made, [*places, "--trl.gradient_accumulation_steps", "4"])
    with pytest.raises(ValueError, match="is not trained as"):
        make(smaller, parts)


def test_a_mean_of_what_is_not_trained_is_not_trained_itself(tmp_path, capsys):
    data = write_data(tmp_path / "data")
    write_grid(data / "grid.toml")
    place = Place(data, tmp_path / "out")
    for cell in ("choose-grpo-of-3-s1", "choose-grpo-of-3-kept-30-s1"):
        assert place.run(cell, "--sets", "humaneval", "--list") == 0
        assert place.run(cell, "--sets", "humaneval") == FAILED
        names = ", ".join(f"choose-grpo-t-s{seed}" for seed in (1, 2, 3))
        assert f"is made of {names}: not trained" in capsys.readouterr().err
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_every_such_cell_has_one_that_is_trained_alike():
    made = {name: made_of(name)[0] for name in cell_names() if made_of(name)[0] != name}
    assert any("-kept-" in name for name in made)
    assert any("-of-" in name for name in made)
    assert set(made.values()) <= set(cell_names()) - set(made)
