"""The committed cells: made from their table, valid for `maxk train`, alike but in one thing."""

import doctest
import importlib
import os
import shutil
from pathlib import Path

import pytest

from experiments.grid import make_cells, plan
from experiments.grid.make_cells import METHODS, cells
from experiments.grid.plan import (
    BASE,
    HERE,
    asked,
    cell_names,
    config_of,
    matching,
    read_grid,
    steps_of,
)
from experiments.pocket.tried import register
from maxk.config import TrainConfig, read_config
from maxk.data import load
from maxk.estimators import FACTS
from maxk.train.job import trl_config

FOLDER = os.environ.get("MAXK_REAL_DATA")


def test_the_files_are_what_the_table_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(make_cells, "HERE", tmp_path)
    shutil.copy(HERE / "grid.toml", tmp_path)
    make_cells.main()
    for name in ("base.toml", "cells.txt"):
        assert (tmp_path / name).read_text() == (HERE / name).read_text()


@pytest.mark.parametrize("name", sorted(cells()))
def test_a_line_and_the_base_are_the_whole_configuration(name):
    register()
    assert config_of(name) == TrainConfig.model_validate(cells()[name])


@pytest.mark.parametrize("name", sorted(cells()))
def test_a_cell_is_a_configuration_that_trl_takes(name):
    register()
    config = config_of(name, ["--trl.bf16", "false"])
    args = trl_config(config)
    assert (args.method, args.k) == (config.method.name, config.method.k)
    assert args.generation_batch_size == 256
    assert args.steps_per_generation == args.gradient_accumulation_steps


def test_the_methods_of_a_kind_differ_in_nothing_of_trl_and_the_data():
    made = cells()
    for kind in ("mbpp", "leetcode", "paper", "paper-old"):
        of_kind = [made[f"{kind}-{method}"] for method in METHODS]
        own = {"off-policy-normalized": {"masking": "token"}}  # the one that differs in more
        k = {method: {"k": 4} if FACTS[method].uses_k else {} for method in METHODS}
        due = [{"name": method} | k[method] | own.get(method, {}) for method in METHODS]
        assert [cell["method"] for cell in of_kind] == due
        assert all(cell["trl"] == of_kind[0]["trl"] for cell in of_kind)
        assert all(cell["data"] == of_kind[0]["data"] for cell in of_kind)


def test_the_papers_cells_have_the_papers_settings():
    paper = read_config(Path("configs/paper.toml"))
    for method in METHODS:
        trl = cells()[f"paper-old-{method}"]["trl"]
        own = {"per_device_train_batch_size", "gradient_accumulation_steps", "save_steps"}
        own |= {"gradient_checkpointing", "use_vllm", "vllm_mode"}
        own |= {"vllm_gpu_memory_utilization"}  # of the machine
        same = {key for key in paper.trl if key not in own}
        assert {key: trl[key] for key in same} == {key: paper.trl[key] for key in same}
        # An iteration is one update: a batch is what an update takes.
        assert paper.trl["ref_model_sync_steps"] == paper.trl["num_iterations"]
        fixed = cells()[f"paper-{method}"]["trl"]  # the KL to the start, all else the same
        assert trl == fixed | {key: trl[key] for key in trl if "ref_model" in key}
        assert not any("ref_model" in key for key in fixed)


def test_every_cell_has_its_place_in_the_order_and_its_sets():
    grid = read_grid()
    order = (plan.HERE / "order.txt").read_text().split()
    assert sorted(order) == sorted({BASE, *cells()})
    assert cell_names() == order
    for name in cell_names():
        sets = grid.sets_of(name)
        for each in sets:  # whose samples are judged comes before who judges them
            if each.judged_on:
                assert sets.index(grid.sets[each.judged_on]) < sets.index(each)


def test_a_cell_without_a_place_comes_last_and_a_place_without_a_cell_is_passed_over(
    tmp_path, monkeypatch
):
    """A file that was left behind must not cost the others a slot on a GPU."""
    (tmp_path / "cells.txt").write_text("known\nnew --method.k 2\n")
    (tmp_path / "order.txt").write_text("lost\nknown\nbase\n")
    monkeypatch.setattr(plan, "HERE", tmp_path)
    assert cell_names() == ["known", "base", "new"]


def test_patterns_choose_cells_in_the_order_of_their_worth():
    assert matching(["table1-*", "base"]) == ["base", "table1-binary"]
    with pytest.raises(ValueError, match="'mbp' means no cell"):
        matching(["mbp"])


def test_a_pattern_may_name_its_seed_and_then_comes_first():
    one = asked(["base", "table1-*", "mbpp-grpo-s1", "mbpp-bon-mean-s0"], [0, 2])
    first = [("mbpp-grpo", 1), ("mbpp-bon-mean", 0)]
    assert one == [*first, ("base", 0), ("table1-binary", 0), ("table1-binary", 2)]
    assert asked(["mbpp-grpo-s0", "mbpp-grpo"], [0, 1]) == [("mbpp-grpo", 0), ("mbpp-grpo", 1)]
    with pytest.raises(ValueError, match="'mbp' means no cell"):
        asked(["mbp-s1"], [0])


def test_the_steps_of_a_training_are_counted_as_the_trainer_counts_them():
    from maxk.train.arithmetic import arithmetic

    for name, prompts in (("mbpp-grpo", 464), ("leetcode-grpo", 1401), ("drift-grpo", 464)):
        config = config_of(name, ["--trl.bf16", "false"])
        counted = arithmetic(trl_config(config), prompts)
        assert steps_of(config, prompts) == (counted.steps, counted.updates_per_batch)


@pytest.mark.parametrize("module", ["engines", "plan", "results", "run", "sets", "shared"])
def test_the_examples_in_docstrings_are_true(module):
    found = doctest.testmod(importlib.import_module(f"experiments.grid.{module}"))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("file", ["leetcode-test.txt", "code-contests.txt", "validation.txt"])
def test_a_list_of_problems_has_a_hundred_different_ones(file):
    ids = (HERE / "ids" / file).read_text().split()
    assert len(ids) == len(set(ids)) == 100


@pytest.mark.skipif(FOLDER is None, reason="MAXK_REAL_DATA is not set")
def test_the_sets_have_the_sizes_that_the_plan_counts_with():
    from experiments.grid.sets import judged_set, load_set

    data, grid = Path(FOLDER or "."), read_grid()
    for each in grid.sets.values():
        if each.judged_on is None:
            found = load_set(each, data)
        else:
            found = judged_set(each, load_set(grid.sets[each.judged_on], data), data)
        assert len(found) == each.problems, each.name


@pytest.mark.skipif(FOLDER is None, reason="MAXK_REAL_DATA is not set")
def test_nothing_is_measured_that_was_trained_on():
    data, grid = Path(FOLDER or "."), read_grid()
    from experiments.grid.sets import load_set

    ids = {s.name: {p.id for p in load_set(s, data)} for s in grid.sets.values() if not s.judged_on}
    validation = ids["validation"]  # its prompts are too long to be trained on
    trained: dict[str, set[str]] = {}
    for name, cell in cells().items():
        splits = cell["data"]["split"]
        for split in [splits] if isinstance(splits, str) else splits:
            key = f"{cell['data']['name']} {split}"
            if key not in trained:
                found = load(cell["data"]["name"], split, data / cell["data"]["source"])
                trained[key] = {problem.id for problem in found}
            for each in grid.sets_of(name):
                assert not (ids.get(each.name, set()) - validation) & trained[key], (name, each)
    assert validation <= trained["leetcode train"]
