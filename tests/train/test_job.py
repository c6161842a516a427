"""`maxk train` from its file to its folder: what is written, stopped, resumed and refused."""

import gc
import json
import os
import re
import shutil
import signal
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from maxk.config import ConfigError, DataTable, TrainConfig, read_config
from maxk.records import StdinTest, Verdict
from maxk.sample.native.engine import TransformersSampler
from maxk.sample.vllm_ import VllmSampler
from maxk.store.run import Run, RunError
from maxk.store.tables import problems_of
from maxk.train import MaxKConfig, MaxKTrainer, job
from maxk.train.job import train
from maxk.train.memory import advice, halved
from maxk.verify import Verifier
from tests.command import maxk
from tests.data.published import mbpp, write_jsonl
from tests.tiny import tiny_model
from tests.train import job_in_two

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours

# A program of one or two characters passes if it is valid and prints nothing: a few of the random
# model's completions do, so there is something to learn.
PROBLEM = {"statement": "do nothing", "tests": [{"input": "", "output": ""}]}
STEPS = 9


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A folder with a model, problems and a configuration."""
    folder = tmp_path_factory.mktemp("world")
    model, tokenizer = tiny_model()
    model.config.max_position_embeddings = 256  # its prompts are longer than 128
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    with (folder / "problems.jsonl").open("w") as file:
        for i in range(16):
            file.write(json.dumps({"id": f"p{i}", **PROBLEM}) + "\n")
    (folder / "run.toml").write_text(f"""
[run]
out = "{folder}/unused"
[model]
name = "{folder}/tiny"
[data]
name = "jsonl"
source = "{folder}/problems.jsonl"
[reward]
workers = 2
[method]
k = 2
[trl]
num_generations = 8
per_device_train_batch_size = 16
num_iterations = 3
max_completion_length = 2
max_steps = {STEPS}
learning_rate = 5e-3
lr_scheduler_type = "constant"
beta = 0.0
save_steps = 2
disable_tqdm = true
""")
    return folder


def config(world: Path, out: Path, *more: str) -> TrainConfig:
    return read_config(world / "run.toml", ["--run.out", str(out), *more])


def curve(out: Path, *names: str) -> list[list[Any]]:
    return [
        [line.get(name) for name in names] for line in Run.open(out).metrics() if "loss" in line
    ]


KEPT = ("step", "loss", "grad_norm", "reward", "max_at/4", "policy_lag/iteration_3/mean", "entropy")


@pytest.fixture(scope="module")
def unbroken(world, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "unbroken"
    outcome = train(config(world, out), print)
    assert (outcome.step, outcome.finished) == (STEPS, True)
    return out


def test_the_folder_holds_all_there_is_to_know(unbroken):
    run = Run.open(unbroken)
    assert run.config["method"] == {
        "name": "off-policy-exact", "k": 2, "k_schedule": "constant",
    }  # fmt: skip
    (start,) = [json.loads(x) for x in (unbroken / "environment.jsonl").read_text().splitlines()]
    assert start["versions"]["trl"]
    assert start["seed"] == 42
    trl = json.loads((unbroken / "trl.json").read_text())
    assert (trl["learning_rate"], trl["clamp_delta"], trl["masking"]) == (5e-3, 0.5, "sequence")
    assert [step for (step,) in curve(unbroken, "step")] == list(range(1, STEPS + 1))
    assert (unbroken / "model" / "model.safetensors").exists()
    kept = {problem.id: problem for problem in problems_of(run)}
    assert list(kept["p7"].tests) == [StdinTest("", "")]
    rows = run.read("rollouts").to_pylist()
    assert {row["problem"] for row in rows} <= kept.keys()
    assert len(rows) == 3 * 16
    assert run.parts("rollouts") == ["step-0000000", "step-0000003", "step-0000006"]
    assert {row["step"] for row in rows} == {0, 3, 6}
    assert all(len(row["weights"]) == len(row["log_ratios"]) == 3 for row in rows)
    assert any(row["reward"] > 0 for row in rows), "nothing to learn: the tests below are empty"
    for row in rows:
        tests = json.loads(row["verdict"])["tests"] if row["verdict"] else []
        assert row["reward"] == (sum(t[0] == "passed" for t in tests) / len(tests) if tests else 0)
        assert row["log_ratios"][0] == 0
    assert any(abs(x) > 1e-3 for row in rows for x in row["log_ratios"])
    assert any(x != 0 for row in rows for x in row["weights"])


def test_a_prompt_with_all_the_tests_in_it_is_told(tmp_path):
    bare = mbpp(602, challenge_test_list=[])
    source = write_jsonl(tmp_path / "mbpp.jsonl", [mbpp(601), bare])
    table = DataTable(name="mbpp", source=source)
    _, account = job.problems_of(table, None)
    remark = "the prompt shows all tests that grade it"
    assert str(account) == f"kept 2\nnoted 1: {remark}"
    _, account = job.problems_of(table.model_copy(update={"options": {"shown": 1}}), None)
    assert str(account) == "kept 2"


@pytest.mark.parametrize("calls", [2, 3])
def test_a_run_that_broke_in_the_middle_of_ppo_iterations_goes_on_as_if_it_had_not(
    world, unbroken, tmp_path, monkeypatch, calls
):
    """The judge fails after 3 or 6 steps; checkpoints are after 2 and 4 or 6."""
    out, judge, seen = tmp_path / "broken", Verifier.judge, []

    def fails(self: Verifier, *args: Any, **kwargs: Any) -> list[Verdict]:
        seen.append(1)
        if len(seen) == calls:
            raise OSError("no space left")
        return judge(self, *args, **kwargs)

    monkeypatch.setattr(Verifier, "judge", fails)
    with pytest.raises(RuntimeError, match="'unit_tests_continuous' raised OSError: no space left"):
        train(config(world, out), print)
    assert (out / "checkpoints" / f"checkpoint-{2 if calls == 2 else 6}").exists()
    monkeypatch.undo()
    said: list[str] = []
    assert train(config(world, out), said.append).finished
    assert any("going on after step" in text for text in said)
    assert curve(out, *KEPT) == curve(unbroken, *KEPT)  # which two whole runs then also are
    names = ("step", "group", "sample", "completion", "reward", "weights", "log_ratios")
    one, two = (Run.open(x).read("rollouts", names).to_pylist() for x in (out, unbroken))
    assert one == two
    starts = (out / "environment.jsonl").read_text().splitlines()
    assert [json.loads(line)["from_step"] for line in starts] == [0, 2 if calls == 2 else 6]


SAMPLED = ("--trl.num_iterations", "1", "--trl.max_steps", "6")
OWN = ("--model.sampler", "maxk", *SAMPLED)


@pytest.fixture(scope="module")
def own(world, tmp_path_factory) -> Path:
    """A whole run with the package's own sampler."""
    out = tmp_path_factory.mktemp("runs") / "own"
    assert train(config(world, out, *OWN), print).finished
    return out


def test_with_maxk_s_sampling_a_broken_run_goes_on_as_if_it_had_not(
    world, own, tmp_path, monkeypatch
):
    """Its random numbers come with the checkpoint, as those of `generate` do."""
    judge, seen = Verifier.judge, []

    def fails(self: Verifier, *args: Any, **kwargs: Any) -> list[Verdict]:
        seen.append(1)
        if len(seen) == 4:
            raise OSError("no space left")
        return judge(self, *args, **kwargs)

    monkeypatch.setattr(Verifier, "judge", fails)
    with pytest.raises(RuntimeError, match="no space left"):
        train(config(world, tmp_path / "broken", *OWN), print)
    monkeypatch.undo()
    assert train(config(world, tmp_path / "broken", *OWN), print).finished
    assert curve(tmp_path / "broken", *KEPT) == curve(own, *KEPT)
    texts = Run.open(own).read("rollouts", ["completion"])["completion"].to_pylist()
    assert len(set(texts)) > 20
    with pytest.raises(ConfigError, match=r'use_vllm goes with model\.sampler = "trl"'):
        train(config(world, tmp_path / "no", *OWN, "--trl.use_vllm", "true"), print)


class Mirror(VllmSampler):
    """In the place of vLLM: a second copy of the model, which has the weights it is given."""

    def __init__(self, folder: Path) -> None:
        self.within = TransformersSampler(str(folder))
        self.given: list[float] = []

    def load(self, weights: Any) -> None:
        given = dict(weights)
        for name, there in self.within.model.named_parameters():
            there.data.copy_(given.pop(name))
            if name == "lm_head.weight":
                self.given.append(float(there.abs().sum()))
        assert not given

    def sample(self, requests: Any, settings: Any) -> Any:
        return self.within.sample(requests, settings)


def test_another_engine_samples_from_the_weights_of_each_step(world, own, tmp_path):
    """The engine draws the same numbers, so the run is the one with the model's own sampling."""
    more = (*SAMPLED, "--trl.save_steps", "100")
    engine, seen = Mirror(world / "tiny"), []
    asked = config(world, tmp_path / "other", "--model.sampler", "vllm", *more)
    assert train(asked, print, engine, seen.append).finished
    assert curve(tmp_path / "other", *KEPT) == curve(own, *KEPT)
    assert len(engine.given) == 6
    assert len(set(engine.given)) > 3  # a batch without rewards changes nothing
    assert [type(trainer).__name__ for trainer in seen] == ["MaxKTrainer"]
    # And so is a copy of the model, which a dtype asks for.
    copied = ("--model.sampler", "maxk", "--model.engine", '{dtype = "float32"}', *more)
    assert train(config(world, tmp_path / "copy", *copied), print).finished
    assert curve(tmp_path / "copy", *KEPT) == curve(own, *KEPT)
    assert Run.open(tmp_path / "copy").metrics()[0]["seconds/loading"] > 0
    for line in Run.open(tmp_path / "other").metrics()[:6]:
        assert line["seconds/loading"] > 0
        assert line["seconds/sampling"] > 0


def test_a_run_that_is_over_holds_no_memory(world, tmp_path):
    """So that one process can make many, one after the other."""
    alive = []
    more = ("--trl.max_steps", "2", "--model.sampler", "vllm")

    def remember(trainer: Any) -> None:
        alive.extend(map(weakref.ref, (trainer, trainer.model)))

    train(config(world, tmp_path / "run", *more), print, Mirror(world / "tiny"), remember)
    gc.collect()
    assert [each() for each in alive] == [None, None]


def test_an_engine_that_cannot_be_is_refused(world, tmp_path):
    lora, engine = ("--lora.r", "2"), ("--model.engine", "{batch = 8}")
    with pytest.raises(ConfigError, match="of its own has no adapters"):
        train(config(world, tmp_path / "no", "--model.sampler", "vllm", *lora), print)
    with pytest.raises(ConfigError, match=r'model\.engine goes with model\.sampler = "maxk"'):
        train(config(world, tmp_path / "no", *engine), print)


def test_a_finished_run_is_not_made_again_and_another_one_does_not_go_into_its_folder(
    world, unbroken
):
    before = (unbroken / "metrics.jsonl").read_bytes()
    assert train(config(world, unbroken), print).already
    assert (unbroken / "metrics.jsonl").read_bytes() == before
    with pytest.raises(RunError, match=r"method.k: 2 there, 3 asked"):
        train(config(world, unbroken, "--method.k", "3"), print)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (("--trl.use_vllm", "true"), r"trl\.use_vllm needs vLLM, which is not installed; pip"),
        (("--model.sampler", "vllm"), r'model\.sampler = "vllm" needs vLLM'),
        (("--model.sampler", "maxk", "--model.engine.dtyp", "float32"), "dtyp"),
        (("--model.name", "BROKEN"), "weights|header|safetensors|Header"),
    ],
)
def test_nothing_is_written_before_model_data_and_settings_are_good(world, tmp_path, more, match):
    broken = tmp_path / "broken"
    shutil.copytree(world / "tiny", broken)
    (broken / "model.safetensors").write_bytes(b"weights cut short")
    out = tmp_path / "runs" / "one"
    more = tuple(str(broken) if each == "BROKEN" else each for each in more)
    with pytest.raises(Exception, match=match):
        train(config(world, out, *more), print)
    assert not out.exists()


def test_a_restart_that_fails_leaves_the_run_that_is_there(world, unbroken, tmp_path):
    out = tmp_path / "again"
    shutil.copytree(unbroken, out)
    with pytest.raises(ConfigError, match="needs vLLM"):
        train(config(world, out, "--trl.use_vllm", "true"), print, restart=True)
    unknown = config(world, out, "--model.sampler", "maxk", "--model.engine.dtyp", "float32")
    with pytest.raises(TypeError, match="dtyp"):
        train(unknown, print, restart=True)
    assert (out / "model").exists()
    assert (out / "metrics.jsonl").read_bytes() == (unbroken / "metrics.jsonl").read_bytes()


def test_sigterm_saves_and_the_same_command_goes_on(world, unbroken, tmp_path, monkeypatch):
    """As on a machine that is taken back, in the middle of the updates on a batch."""
    out, update = tmp_path / "preempted", MaxKTrainer.training_step

    def taken_back(self: MaxKTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.state.global_step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(MaxKTrainer, "training_step", taken_back)
        stopped = maxk("train", world / "run.toml", f"--run.out={out}")
    assert stopped.returncode == 143, stopped.stderr
    assert "stopped after step 5; the same command goes on" in stopped.stdout
    assert len(curve(out, "step")) == 5
    assert (out / "checkpoints" / "checkpoint-5").exists()
    done = maxk("train", world / "run.toml", f"--run.out={out}")
    assert done.returncode == 0, done.stderr
    assert f"finished at step {STEPS}" in done.stdout
    assert curve(out, *KEPT) == curve(unbroken, *KEPT)


@pytest.mark.skipif(
    transformers.__version__.startswith("4."),
    reason="transformers 4 cannot load the state of an optimiser in several CPU processes",
)
def test_two_processes_write_one_folder_and_go_on_together(world, two_processes, tmp_path):
    """SIGTERM reaches one of them only; both stop after the same step."""
    out, scenario = tmp_path / "two", job_in_two.__name__
    settings = [f"--run.out={out}", "--trl.per_device_train_batch_size=8"]
    asked = {"overrides": settings, "sigterm_in": 5}
    stopped = two_processes.run(scenario, world, asked)
    assert stopped == [{"step": 5, "finished": False}] * 2
    folder = out / "checkpoints" / "checkpoint-5"
    assert {path.name for path in folder.glob("maxk-*")} == {"maxk-0.pt", "maxk-1.pt"}
    with pytest.raises(RunError, match="was written by 2 processes; go on with as many"):
        train(config(world, out, *settings), print)
    done = two_processes.run(scenario, world, asked | {"sigterm_in": None})
    assert done == [{"step": STEPS, "finished": True}] * 2
    assert [step for (step,) in curve(out, "step")] == list(range(1, STEPS + 1))
    rows = Run.open(out).read("rollouts").to_pylist()
    assert len(rows) == STEPS // 3 * 16
    assert all(len(row["weights"]) == 3 for row in rows)
    assert {(row["group"], row["sample"]) for row in rows} == {
        (group, sample) for group in range(2) for sample in range(8)
    }


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "--trl.lerning_rate=1",
            "trl.lerning_rate is unknown to this version of TRL; did you mean",
        ),
        ("--trl.output_dir=x", r"trl.output_dir is set by the tables \[run\] and \[method\]"),
        ("--trl.generation_batch_size=160", "the data set has 16 prompts and a batch takes 20"),
        ("--trl.per_device_train_batch_size=12", "must be divisible by num_generations"),
        ("--method.k=8", "k=8 equal to num_generations=8 leaves"),
        ("--method.k_end=4", "k_end=4 with k_schedule='constant'"),
    ],
)
def test_impossible_settings_are_refused_before_the_model_is_loaded(
    world, tmp_path, override, message, monkeypatch
):
    def loads(*_: Any, **__: Any) -> None:
        raise AssertionError("a model is being loaded")

    monkeypatch.setattr("maxk.train.trainer.GRPOTrainer.__init__", loads)
    with pytest.raises(ValueError, match=message):
        train(config(world, tmp_path / "no", override), print)


def fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first update needs more memory than there is."""
    step, failed = MaxKTrainer.training_step, []

    def training_step(self: MaxKTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(self, *args, **kwargs)

    monkeypatch.setattr(MaxKTrainer, "training_step", training_step)


def test_what_ran_out_of_memory_says_what_to_do_and_doing_it_is_the_same_training(
    world, unbroken, tmp_path, monkeypatch
):
    fails_once(monkeypatch)
    with pytest.raises(torch.OutOfMemoryError) as raised:
        train(config(world, tmp_path / "run"), print)
    (note,) = raised.value.__notes__
    found = re.search(r"--trl\.per_device\S+ \d+ --trl\.gradient_acc\S+ \d+", note)
    assert found is not None
    assert "gradient_checkpointing" not in note  # it is TRL's default
    done = config(world, tmp_path / "run", *found[0].split())
    assert train(done, print).finished
    assert done.trl["per_device_train_batch_size"] == 8  # of 16
    one, other = curve(tmp_path / "run", "loss"), curve(unbroken, "loss")
    assert len(one) == STEPS
    torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-4, atol=1e-5)


def test_a_run_that_made_a_step_keeps_its_settings(world, tmp_path, monkeypatch):
    fails_once(monkeypatch)
    out = tmp_path / "run"
    with pytest.raises(torch.OutOfMemoryError):
        train(config(world, out), print)
    with (
        Run.open(out).locked(),
        pytest.raises(RunError, match="worked on by another process"),
    ):
        train(config(world, out, "--method.k", "3"), print)
    assert Run.open(out).config["method"]["k"] == 2
    Run.open(out).log({"step": 1, "loss": 0.0})
    with pytest.raises(RunError, match=r"method.k: 2 there, 3 asked"):
        train(config(world, out, "--method.k", "3"), print)


def settings(out: Path, **given: Any) -> MaxKConfig:
    return MaxKConfig(output_dir=str(out), use_cpu=True, bf16=False, num_generations=8, **given)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"steps_per_generation": 4},
        {"steps_per_generation": 8},
        {"generation_batch_size": 64 * 8},
        {"loss_type": "grpo", "method": "grpo"},
    ],
)
def test_half_the_rows_are_as_many_completions_of_a_batch_and_of_a_step(more, tmp_path):
    given = {"per_device_train_batch_size": 64, "gradient_accumulation_steps": 4, **more}
    before = settings(tmp_path, **given)
    after = settings(tmp_path, **{**given, **halved(before, given)})
    assert after.per_device_train_batch_size == 32
    assert after.gradient_accumulation_steps == 8
    assert after.generation_batch_size == before.generation_batch_size
    assert "--trl.per_device_train_batch_size 32" in advice(before, given)


@pytest.mark.parametrize(
    ("rows", "more", "possible"),
    [
        (8, {}, False),  # would take groups apart
        (4, {}, True),  # they are apart
        (3, {"gradient_accumulation_steps": 8}, False),
        (64, {"loss_type": "bnpo", "method": "grpo"}, False),
    ],
)
def test_what_would_not_be_the_same_training_is_not_advised(rows, more, possible, tmp_path):
    given = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 4, **more}
    args = settings(tmp_path, gradient_checkpointing=rows == 8, **given)
    assert bool(halved(args, given)) == possible
    assert ("--trl.per_device_train_batch_size" in advice(args, given)) == possible
    assert ("--trl.gradient_checkpointing true" in advice(args, given)) == (rows != 8)
