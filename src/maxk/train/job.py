"""The whole job of `maxk train`: from a configuration to a folder with a trained model in it.

The same command goes on where it was stopped. SIGTERM, as machines that are taken back send it,
ends the run after the optimiser step at hand with a checkpoint.
"""

import dataclasses
import difflib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoTokenizer
from transformers.trainer_utils import set_seed

from maxk.config import RENAMED, ConfigError, DataTable, ModelTable, TrainConfig
from maxk.data import Account, load_with_account
from maxk.data.prepare import at_most_difficulty, at_most_tokens, random_split, token_counter
from maxk.estimators import MethodSettings
from maxk.grade import UnitTestReward
from maxk.prompts import messages
from maxk.records import Problem
from maxk.sample.generate import replace_generate
from maxk.sample.models import found
from maxk.sample.native.engine import TransformersSampler
from maxk.sample.vllm_ import VllmSampler
from maxk.store.run import MODEL, Run, RunError, write_whole
from maxk.store.tables import write_problems
from maxk.train.arithmetic import arithmetic
from maxk.train.callbacks import StopOnSignal, WriteMetrics
from maxk.train.checkpoint import last_whole, processes_of
from maxk.train.config import MaxKConfig
from maxk.train.fields import NEUTRAL
from maxk.train.memory import explained
from maxk.train.rollouts import forget
from maxk.train.trainer import MaxKTrainer
from maxk.train.typed import typed

DEFAULTS: dict[str, Any] = {  # of this command, where [trl] says nothing
    "logging_steps": 1,
    "save_steps": 50,
    "save_total_limit": 2,
    "report_to": "none",
}
OWNED = {field.name for field in dataclasses.fields(MethodSettings)}  # set by other tables
OWNED |= {"output_dir", "logging_dir", "resume_from_checkpoint"}


# Of trl.generation_kwargs: what the samplers of maxk take, and values that change nothing.
TAKEN = ("temperature", "top_p", "max_new_tokens", "do_sample")
NEUTRAL_HERE = {name: (None, *values) for name, values in NEUTRAL.items()}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    step: int
    finished: bool  # False: stopped by SIGTERM, to be gone on with
    already: bool = False  # it had been finished before


def train(
    config: TrainConfig,
    say: Callable[[str], None] = print,
    engine: VllmSampler | TransformersSampler | None = None,
    prepare: Callable[[MaxKTrainer], None] | None = None,
    *,
    restart: bool = False,
) -> Outcome:
    """Train as configured, from the start or from the last checkpoint.

    engine: for model.sampler = "vllm", one that is there already; starting vLLM takes a minute, and
    it can serve many runs. prepare: called with the trainer before it begins. restart: delete the
    run that is there first.
    """
    args = trl_config(config)
    if config.model.sampler == "vllm" and args.world_size > 1:
        raise ConfigError('model.sampler = "vllm" is for one process; use trl.use_vllm')
    if engine is None:
        refuse_missing_vllm(config)
    main = args.process_index == 0
    run, there = lying_there(config, restart)
    if there and (run.folder / MODEL).exists():
        return Outcome(max((line["step"] for line in run.metrics()), default=0), True, True)
    set_seed(args.seed)
    with found(config.model.name) as model:
        tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    problems, account = problems_of(config.data, tokenizer)
    arithmetic(args, len(problems))
    if main:
        say(f"{config.data.name}: {account}")
    rows = [
        {"prompt": prompt_of(problem, tokenizer), "problem": problem.id} for problem in problems
    ]
    with (
        without_empty_folders(run.folder),
        explained(args, config.trl),
        config.reward.verifier_settings().verifier() as verifier,
    ):
        if engine is None:  # before the model takes its memory
            engine = engine_of(config.model, model)
        trainer = MaxKTrainer(
            model,
            UnitTestReward(verifier, {p.id: p for p in problems}, config.reward.kind),
            args,
            Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=None if config.lora is None else LoraConfig(**config.lora),
            run=run if config.run.rollouts else None,
        )
        if engine is not None:
            sample_with(engine, trainer, tokenizer)
        elif config.model.sampler == "maxk":
            trained: Any = trainer.accelerator.unwrap_model(trainer.model)
            sampler = TransformersSampler(trained, tokenizer, **config.model.engine)
            replace_generate(trained, tokenizer, sampler)
        if prepare is not None:
            prepare(trainer)
        PartialState().wait_for_everyone()
        if main:  # all is known to be good: only now is anything written
            begin(run, config, restart)
        PartialState().wait_for_everyone()
        with run.locked() if main else nullcontext():
            if main:
                write_problems(run, problems)
            return carry_out(trainer, run, main, say)


def refuse_missing_vllm(config: TrainConfig) -> None:
    """An error before anything is loaded where vLLM is asked for and is not installed."""
    asked = config.model.sampler == "vllm" and 'model.sampler = "vllm"'
    asked = asked or (config.trl.get("use_vllm") and "trl.use_vllm")
    if asked and importlib.util.find_spec("vllm") is None:
        raise ConfigError(
            f"{asked} needs vLLM, which is not installed; pip install 'maxk[vllm]', or use "
            'model.sampler = "maxk"'
        )


def lying_there(config: TrainConfig, restart: bool) -> tuple[Run, bool]:
    """The run to be made, and whether it was begun before and goes on. Nothing is written.

    A run that made no step may be asked for with other settings. RunError for all else.
    """
    folder, asked = config.run.out, config.model_dump(mode="json")
    new = Run(folder, "train", asked)
    if (folder / "config.toml").exists():
        run = Run.open(folder, older=restart)
        with run.locked():  # an error at once if another process works on it
            pass
        if run.kind == "train" and restart:
            return new, False
        made = (*folder.glob("checkpoints/checkpoint-*"), *folder.glob(MODEL), *run.metrics())
        if run.kind == "train" and not made:
            return new, True
    found = Run.there(folder, "train", asked)
    return (new, False) if found is None else (found, True)


def begin(run: Run, config: TrainConfig, restart: bool) -> None:
    """Write down what is asked for; delete the run that is there if that is asked for too."""
    if restart:
        Run.delete(run.folder, "train")
    run.folder.mkdir(parents=True, exist_ok=True)
    run.change(config.model_dump(mode="json"))


@contextmanager
def without_empty_folders(folder: Path) -> Iterator[None]:
    """The folders that TRL makes for checkpoints before it knows the model are gone on an error."""
    made = [each for each in (folder / "checkpoints", folder) if not each.exists()]
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):  # there is something in it
                each.rmdir()
        raise


def engine_of(asked: ModelTable, model: str) -> VllmSampler | TransformersSampler | None:
    """What samples with weights of its own, which are those of the model before every batch."""
    if asked.sampler == "vllm":
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights change hands
        return VllmSampler(model, **asked.engine)
    if asked.sampler == "maxk" and "dtype" in asked.engine:
        return TransformersSampler(model, **asked.engine)
    return None


def sample_with(
    engine: VllmSampler | TransformersSampler, trainer: MaxKTrainer, tokenizer: Any
) -> None:
    """Have another model generate, every time with the weights as they are then."""
    model = trainer.accelerator.unwrap_model(trainer.model)

    def load() -> None:
        with trainer.recorder.timed("loading"):
            engine.load((name, weights.detach()) for name, weights in model.named_parameters())

    replace_generate(model, tokenizer, engine, load)


def carry_out(trainer: MaxKTrainer, run: Run, main: bool, say: Callable[[str], None]) -> Outcome:
    """Train with the folder kept up to date."""
    checkpoint = last_checkpoint(run, trainer.args.world_size, say if main else lambda text: None)
    begun = 0 if checkpoint is None else int(checkpoint.name.split("-")[1])
    if main:
        run.note_environment(seed=trainer.args.seed, from_step=begun)
        write_whole(run.folder / "trl.json", trainer.args.to_json_string().encode())
        run.forget_metrics(after=begun)
        forget(run, begun)
        if begun:
            say(f"going on after step {begun}")
    stop = StopOnSignal(trainer)
    trainer.add_callback(stop)
    trainer.add_callback(WriteMetrics(run))
    with stop.listening():
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    if stop.asked:
        return Outcome(trainer.state.global_step, finished=False)
    trainer.save_model(str(run.folder / f".{MODEL}"))
    trainer.accelerator.wait_for_everyone()
    if main:
        (run.folder / f".{MODEL}").rename(run.folder / MODEL)
    return Outcome(trainer.state.global_step, finished=True)


def trl_config(config: TrainConfig) -> MaxKConfig:
    """TRL's arguments, with what the other tables say put in."""
    known = {field.name for field in dataclasses.fields(MaxKConfig)}
    for key in config.trl:
        if key in OWNED:
            raise ConfigError(f"trl.{key} is set by the tables [run] and [method]; leave it out")
        if (old := f"trl.{key}") in RENAMED:
            raise ConfigError(f"{old} is no more; use {RENAMED[old]}")
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"trl.{key} is unknown to this version of TRL{hint}")
    if config.model.sampler != "trl" and config.trl.get("use_vllm"):
        raise ConfigError('trl.use_vllm goes with model.sampler = "trl"')
    copied = config.model.sampler == "vllm" or "dtype" in config.model.engine
    if copied and config.lora is not None:
        raise ConfigError("a sampler with weights of its own has no adapters; use trl.use_vllm")
    if config.model.engine and config.model.sampler == "trl":
        raise ConfigError('model.engine goes with model.sampler = "maxk" or "vllm"')
    given: dict[str, Any] = DEFAULTS | typed(config.trl, MaxKConfig)
    if given.get("save_only_model"):
        raise ConfigError(
            "trl.save_only_model=True: a stopped run goes on from its checkpoints, which need the "
            "optimiser's state; leave it out"
        )
    if config.model.sampler != "trl":
        refuse_for_sampler(config.model.sampler, given)
    if not torch.accelerator.is_available():
        given = {"bf16": False, "use_cpu": True} | given
    method = config.method.model_dump()
    method["method"] = method.pop("name")
    given.setdefault("full_reward", UnitTestReward.full_reward)
    return MaxKConfig(output_dir=str(config.run.out / "checkpoints"), **method, **given)


def refuse_for_sampler(sampler: str, given: dict[str, Any]) -> None:
    """ConfigError for settings of TRL's own sampling, which another sampler does not have."""
    for name in ("cache_implementation", "use_transformers_continuous_batching"):
        if given.get(name):
            raise ConfigError(
                f'trl.{name}={given[name]!r} is of TRL\'s sampling, and model.sampler="{sampler}" '
                'takes its place; leave it out, or use model.sampler="trl"'
            )
    asked = {name: given.get(name) for name in ("top_k", "min_p", "repetition_penalty")}
    options = given.get("generation_kwargs") or {}
    asked |= json.loads(options) if isinstance(options, str) else options
    for name, value in asked.items():
        if name in TAKEN or value in NEUTRAL_HERE.get(name, (None,)):
            continue
        raise ConfigError(
            f'trl.{name}={value!r} is of TRL\'s sampling, which model.sampler="{sampler}" does '
            'not have; leave it out, or use model.sampler="trl"'
        )


def problems_of(table: DataTable, tokenizer: Any) -> tuple[list[Problem], Account]:
    """The problems to train on, and what was dropped on the way."""
    problems, account = [], Account()
    for split in [table.split] if isinstance(table.split, str) else table.split:
        found, dropped = load_with_account(table.name, split, table.source, **table.options)
        problems += found
        account.dropped += dropped.dropped
        account.noted += dropped.noted
    if table.max_difficulty is not None:
        problems = at_most_difficulty(problems, table.max_difficulty, account)
    if table.max_prompt_tokens is not None:
        count = token_counter(tokenizer)
        problems = at_most_tokens(problems, table.max_prompt_tokens, count, account)
    if table.random_split is not None:
        problems, _ = random_split(problems, table.random_split, table.random_split_seed)
    problems = problems[: table.limit]
    account.kept = len(problems)
    for problem in problems:
        if all(test in problem.examples for test in problem.tests):
            account.note("the prompt shows all tests that grade it")
    return problems, account


def prompt_of(problem: Problem, tokenizer: Any) -> Any:
    """Chat messages, or their text for a model without a chat template."""
    return messages(problem) if tokenizer.chat_template else messages(problem)[0]["content"]


def last_checkpoint(run: Run, processes: int, say: Callable[[str], None]) -> Path | None:
    """The newest checkpoint that was written to its end, by as many processes."""
    folder = last_whole(run.folder / "checkpoints", say)
    if folder is not None and (written := processes_of(folder)) != processes:
        raise RunError(f"{folder} was written by {written} processes; go on with as many")
    return folder
