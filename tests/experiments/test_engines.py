"""Weights into engines, entropies, what the GPU did: what a GPU is for, without one."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from experiments.grid import engines
from experiments.grid.engines import TransformersEngine, VllmEngine, largest_difference, weights_of
from experiments.grid.entropy import mean_entropies
from experiments.grid.gpu import GpuWatch
from maxk.sample import Request, Sampling
from maxk.sample.native.engine import TransformersSampler
from tests.tiny import tiny_model

# --- weights -------------------------------------------------------------------------------------

NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")


def saved_model(folder: Path, shift: float = 0.0) -> Path:
    """A layer as transformers names its weights, in float32."""
    torch.manual_seed(0)
    rows = dict(zip(NAMES, (8, 4, 4, 8), strict=True))
    layer = "model.layers.0"
    weights = {f"{layer}.self_attn.{n}.weight": torch.randn(r, 8) for n, r in rows.items()}
    weights |= {f"{layer}.self_attn.{n}.bias": torch.randn(rows[n]) for n in NAMES[:3]}
    weights |= {f"{layer}.mlp.{n}.weight": torch.randn(6, 8) for n in ("up_proj", "gate_proj")}
    weights["model.embed_tokens.weight"] = torch.randn(10, 8)
    folder.mkdir()
    moved = {name: each + shift for name, each in weights.items()}
    save_file(dict(list(moved.items())[::2]), folder / "model-1.safetensors")
    save_file(dict(list(moved.items())[1::2]), folder / "model-2.safetensors")
    return folder


def in_engine(folder: Path) -> dict[str, torch.Tensor]:
    """The same as vLLM keeps them: some in one, in bfloat16, the embedding padded."""
    saved = dict(weights_of(folder))
    attention, mlp = "model.layers.0.self_attn", "model.layers.0.mlp"
    there = {
        f"{attention}.o_proj.weight": saved[f"{attention}.o_proj.weight"],
        f"{mlp}.gate_up_proj.weight": torch.cat(
            [saved[f"{mlp}.{n}.weight"] for n in ("gate_proj", "up_proj")]
        ),
        "model.embed_tokens.weight": torch.cat(
            [saved["model.embed_tokens.weight"], torch.zeros(6, 8)]
        ),
    }
    for kind in ("weight", "bias"):
        parts = [saved[f"{attention}.{n}.{kind}"] for n in NAMES[:3]]
        there[f"{attention}.qkv_proj.{kind}"] = torch.cat(parts)
    return {name: each.bfloat16() for name, each in there.items()}


def test_weights_in_an_engine_are_compared_with_saved_ones_as_they_round(tmp_path):
    folder = saved_model(tmp_path / "a")
    there = in_engine(folder)
    assert largest_difference(there, weights_of(folder)) == 0
    assert largest_difference(there, weights_of(saved_model(tmp_path / "b", 0.5))) > 0.4


@pytest.mark.parametrize("name", ["qkv_proj.weight", "qkv_proj.bias", "gate_up_proj", "embed"])
def test_one_wrong_row_of_an_engine_is_seen(tmp_path, name):
    folder = saved_model(tmp_path / "a")
    there = in_engine(folder)
    (found,) = [each for each in there if name in each]
    there[found][9] += 1.0
    assert largest_difference(there, weights_of(folder)) > 0.9


def test_an_engine_with_more_rows_than_were_saved_is_an_error(tmp_path):
    folder = saved_model(tmp_path / "a")
    there = in_engine(folder)
    there["model.layers.0.self_attn.o_proj.weight"] = torch.zeros(9, 8)
    with pytest.raises(ValueError, match="9 rows in the engine, 8 saved"):
        largest_difference(there, weights_of(folder))


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no model"):
        list(weights_of(tmp_path))


def test_an_engine_loads_a_model_once_and_again_after_a_training(tmp_path, monkeypatch):
    loaded: list[int] = []

    class Fake:
        def __init__(self, model: str, **options: Any) -> None:
            self.options = options

        def load(self, weights: Any) -> None:
            loaded.append(len(list(weights)))

    monkeypatch.setattr(engines, "VllmSampler", Fake)
    engine: Any = VllmEngine("m", {"batch": 8})
    one, two = saved_model(tmp_path / "one"), saved_model(tmp_path / "two")
    for folder in (one, one, two, one):
        assert engine.sampler(folder) is engine.vllm
    assert loaded == [10, 10, 10]
    engine.loaded = None
    engine.sampler(one)
    assert len(loaded) == 4


def test_own_sampling_keeps_a_model_until_another_is_asked_for(tmp_path):
    model, tokenizer = tiny_model()
    for name in ("one", "two"):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    engine = TransformersEngine({"batch": 8})
    one: Any = engine.sampler(tmp_path / "one")
    assert one.batch == 8
    assert engine.sampler(tmp_path / "one") is one
    assert engine.sampler(tmp_path / "two") is not one
    two = engine.sampler(tmp_path / "two")
    engine.forget()
    assert engine.made is None
    assert engine.sampler(tmp_path / "two") is not two


# --- entropies and the GPU -----------------------------------------------------------------------


def test_entropies_are_those_that_sampling_would_have_noted():
    model, tokenizer = tiny_model()
    asked = [Request("a", "abc", tuple(range(20))), Request("b", "print(1)", tuple(range(20)))]
    sampler = TransformersSampler(model, tokenizer)
    found = list(sampler.sample(asked, Sampling(max_tokens=9, chat=False)))
    prompts = {"a": tokenizer("abc").input_ids, "b": tokenizer("print(1)").input_ids}
    pairs = [(prompts[c.problem], list(c.ids or ())) for c in found]
    wanted = [c.entropy for c in found]
    assert mean_entropies(model, pairs) == pytest.approx(wanted, abs=1e-4)
    assert mean_entropies(model, [([3, 4], [])]) == [0.0]


def test_what_the_gpu_did_is_counted_since_a_mark():
    watch = GpuWatch(("echo", "90, 1000, 300.5\n10, 2000, 100.5\nnot said, 1, 1\n"))
    assert watch.process is not None
    watch.process.wait()
    for _ in range(100):
        if watch.mark() == 2:
            break
        threading.Event().wait(0.01)
    said = watch.since(0)
    assert (said["seconds"], said["busy_percent"], said["memory_mib"]) == (2, 50.0, 2000.0)
    assert watch.since(2) == {}
    watch.stop()


def test_without_a_gpu_nothing_is_said():
    watch = GpuWatch(("no-such-command",))
    assert watch.since(watch.mark()) == {}
    watch.stop()


def test_vllm_takes_the_options_that_the_grid_gives_it(monkeypatch):
    from experiments.grid.plan import read_grid

    given: list[dict[str, Any]] = []
    monkeypatch.setattr(
        engines, "VllmSampler", lambda model, **options: given.append(options) or SimpleNamespace()
    )
    grid = read_grid()
    VllmEngine("m", grid.engine)
    assert given[0]["max_model_len"] >= 3758 + grid.settings.max_tokens
    assert given[0]["batch"] == 2048
