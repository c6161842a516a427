"""Cells that keep a share of the base model's weights, made from those that keep nothing."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.grid.kept import keep_start
from experiments.grid.plan import cell_names
from experiments.grid.results import read_results
from maxk.config import read_config
from tests.experiments.small import write_data, write_grid
from tests.experiments.test_run import KEYS, Place

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


def weights_of(place: Place, name: str) -> dict[str, torch.Tensor]:
    return load_file(place.out / "work" / name / "train" / "model" / "model.safetensors")


def test_a_cell_made_from_another_is_what_its_own_training_makes(tmp_path):
    data = write_data(tmp_path / "data")
    write_grid(data / "grid.toml")
    keys = (
        *KEYS,
        *("--trl.learning_rate", "1e-2", "--trl.weight_decay", "1.0", "--trl.skip_silent", "false"),
        *("--data.name", "mbpp", "--data.options", "{shown = 1}"),
        *("--data.source", str(data / "mbpp" / "mbpp.jsonl")),
    )
    made, alone = Place(data, tmp_path / "made"), Place(data, tmp_path / "alone")
    sets = ("--sets", "humaneval")
    assert made.run("choose-grpo", *sets, keys=keys) == 0
    assert made.run("choose-grpo-kept-30", *sets, keys=keys) == 0
    assert alone.run("choose-grpo-kept-30", *sets, keys=keys) == 0
    name, whole = "choose-grpo-kept-30-t-s0", "choose-grpo-t-s0"
    assert made.stages(name)[0] == "keep"
    assert "train" not in made.stages(name)
    assert alone.stages(name)[0] == "train"
    trained, kept = weights_of(made, whole), weights_of(made, name)
    far = 0.0
    for key, expected in weights_of(alone, name).items():
        torch.testing.assert_close(kept[key], expected, rtol=1e-5, atol=1e-6)
        far = max(far, float((trained[key] - expected).abs().max()))
    assert far > 1e-4, "the trained weights would have passed too"
    found = {result.name: result.about for result in read_results(made.out / "results")}
    assert found[name]["train"]["config"]["trl"]["keep_start"] == 0.3
    assert found[name]["train"]["metrics"] == found[whole]["train"]["metrics"]
    assert found[name]["stages"][0]["of"] == whole


def test_a_cell_that_is_trained_otherwise_is_refused(tmp_path):
    cells = Path("experiments/grid/cells")
    kept = read_config(cells / "choose-grpo-kept-30.toml", ["--run.out", str(tmp_path / "a")])
    other = read_config(cells / "choose-off-policy.toml")
    with pytest.raises(ValueError, match="is not trained as"):
        keep_start(kept, other)
    assert not (tmp_path / "a").exists()


def test_every_such_cell_has_one_that_is_trained_alike():
    names = [name for name in cell_names() if "-kept-" in name]
    assert names
    assert {name.rpartition("-kept-")[0] for name in names} <= set(cell_names())
