"""A training that was killed goes on from the last whole checkpoint, and from no other."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from maxk.train import checkpoint
from tests.train.snapshots import SAVED, scenario, snapshots
from tests.train.test_trainer import Watched, config, train

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours


def resumed(folder: Path, found: Any, **changes: Any) -> Watched:
    """A new trainer that goes on from a checkpoint."""
    from unittest import mock

    original = Watched.train

    def go_on(self: Watched, *_: Any, **__: Any) -> Any:
        return original(self, resume_from_checkpoint=found)

    with mock.patch.object(Watched, "train", go_on):
        return train(folder, **(SAVED | changes))


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> dict[str, Any]:
    """A whole run, and what a kill at every step of its writing would have left."""
    folder = tmp_path_factory.mktemp("killed")
    with snapshots(folder / "out", folder / "snapshots", "one"):
        trainer = train(folder / "out", **SAVED)
    left = sorted((folder / "snapshots").iterdir())
    return {"left": left, "out": folder / "out", "end": weights(trainer)}


def test_there_is_always_a_whole_checkpoint_after_the_first(world):
    found, partial = [], 0
    for left in world["left"]:
        said: list[str] = []
        last = checkpoint.last_whole(left, said.append)
        partial += bool(said)
        steps = sorted(int(each.name.split("-")[1]) for each in left.glob("checkpoint-*"))
        found.append(0 if last is None else int(last.name.split("-")[1]))
        assert found[-1] >= steps[-1] - 1, f"{left}: the one before was deleted too early"
        assert (found[-1] != steps[-1]) == bool(said), "passed over without a word"
    assert found == sorted(found)
    assert set(found) == {0, 1, 2, 3, 4, 5}
    assert partial > 20, "no kill fell into the writing of a checkpoint"


def test_from_whatever_a_kill_has_left_the_run_ends_as_if_it_had_not(world, tmp_path):
    """Those of one checkpoint, in the middle of the updates on a batch."""
    tried = 0
    for left in world["left"]:
        steps = sorted(int(each.name.split("-")[1]) for each in left.glob("checkpoint-*"))
        if steps[-1] != 4:
            continue
        whole = checkpoint.last_whole(left, lambda text: None)
        assert whole is not None
        key = (whole.name, tuple(sorted(path.name for path in left.rglob("*"))))
        if key in TRIED:
            continue
        TRIED.add(key)
        out = tmp_path / left.name
        shutil.copytree(left, out)
        tried += 1
        if whole.name == "checkpoint-4":
            trainer = resumed(out, True)
        else:
            with pytest.warns(UserWarning, match="checkpoint-4 is passed over: it has no"):
                trainer = resumed(out, True)
        for name, value in weights(trainer).items():
            assert torch.equal(value, world["end"][name])
    assert tried > 5


TRIED: set[Any] = set()


@pytest.mark.skipif(
    transformers.__version__.startswith("4."),
    reason="transformers 4 cannot load the state of an optimiser in several CPU processes",
)
def test_a_kill_between_the_writes_of_two_processes(two_processes, tmp_path):
    """Neither the older checkpoint is deleted, nor the half of a newer one taken for whole."""
    settings = {**SAVED, "per_device_train_batch_size": 2, "max_steps": 3}
    two_processes.run(scenario.__module__, tmp_path, settings)
    halves = 0
    left = sorted((tmp_path / "snapshots").iterdir())
    for each in left:
        folders = sorted(each.glob("checkpoint-*"))
        last = checkpoint.last_whole(each, lambda text: None)
        newest = int(folders[-1].name.split("-")[1])
        there = {path.name for path in folders[-1].glob("maxk-*.pt")}
        if len(there) == 1:
            halves += 1
            assert last is None or last != folders[-1]
        if newest > 1:
            assert last is not None, f"{each}: nothing to go on from"
    assert halves > 0, "no kill fell between the two"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "off-policy"}, "method: 'off-policy-exact' there, 'off-policy' now"),
        ({"k": 3}, "k: 2 there, 3 now"),
        ({"num_generations": 2, "k": 1}, "num_generations: 4 there, 2 now"),
        ({"per_device_train_batch_size": 8}, "per_device_train_batch_size: 4 there, 8 now"),
        ({"num_iterations": 3}, "num_iterations: 2 there, 3 now"),
        ({"learning_rate": 1.0}, "learning_rate: 0.0005 there, 1.0 now"),
    ],
)
def test_a_training_goes_on_with_the_settings_it_began_with(world, tmp_path, changes, said):
    found = world["out"] / "checkpoint-5"
    with pytest.raises(ValueError, match=said):
        resumed(tmp_path, found, **changes)


def test_what_has_no_bearing_on_the_result_may_change(world, tmp_path):
    args = config(tmp_path, **{**SAVED, "max_steps": 9, "logging_steps": 3, "run_name": "b"})
    checkpoint.refuse_other(world["out"] / "checkpoint-5", args)


def test_a_checkpoint_of_the_model_alone_is_no_checkpoint_of_the_training(world, tmp_path):
    train(tmp_path, **(SAVED | {"max_steps": 1, "save_only_model": True}))
    with pytest.raises(ValueError, match="save_only_model=True saves it; a training cannot go on"):
        resumed(tmp_path, tmp_path / "checkpoint-1")
    with (
        pytest.warns(UserWarning, match="passed over: it has a model and no more"),
        pytest.raises(ValueError, match="has no whole checkpoint"),
    ):
        resumed(tmp_path, True)


def copied(world: dict[str, Any], to: Path) -> Path:
    folder = to / "checkpoint-5"
    shutil.copytree(world["out"] / "checkpoint-5", folder)
    return folder


def test_files_that_are_cut_off_or_missing_are_noticed(world, tmp_path):
    folder = copied(world, tmp_path)
    assert checkpoint.missing(folder) is None
    for name, said in (("trainer_state.json", "no whole trainer_state"), ("maxk.json", "no whole")):
        text = (folder / name).read_text()
        (folder / name).write_text(text[: len(text) // 2])
        assert said in str(checkpoint.missing(folder))
        (folder / name).write_text(text)
    stored = json.loads((folder / "maxk.json").read_text())
    (folder / "maxk.json").write_text(json.dumps({**stored, "processes": 2}))
    assert checkpoint.missing(folder) == "no maxk-1.pt"
    (folder / "maxk-1.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="was written by 2 processes; go on with as many, not 1"):
        checkpoint.refuse_other(folder, config(tmp_path, **SAVED))
    folder.rename(tmp_path / "checkpoint-6")
    assert "of another step" in str(checkpoint.missing(tmp_path / "checkpoint-6"))


def test_no_secret_is_stored(world):
    stored = json.loads((world["out"] / "checkpoint-5" / "maxk.json").read_text())
    assert not {"hub_token", "push_to_hub_token"} & stored["settings"].keys()
