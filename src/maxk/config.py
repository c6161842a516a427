"""A training run as one TOML file: frozen models, and an error for every key that is not known.

    [run]     where it goes
    [model]   what is trained
    [data]    the problems
    [reward]  how a program is judged
    [method]  how rewards become advantages
    [lora]    peft's LoraConfig, if only an adapter is trained
    [trl]     everything else, as trl.GRPOConfig has it

Reading one needs no torch. configs/paper.toml has the paper's settings.
"""

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from maxk.estimators.settings import FACTS, MethodSettings
from maxk.records import RewardKind
from maxk.verify import Limits, VerifierSettings
from maxk.verify.settings import Isolate

RENAMED = {  # keys of earlier configurations, and what to write now
    **{
        f"reward.{name}": f"reward.limits.{name}"
        for name in ("cpu_seconds", "wall_seconds", "memory_bytes", "after_timeout")
    },
    "method.trust_region": 'method.masking ("completion" is "sequence" there)',
    "trl.skip_silent": "trl.skip_zero_variance",
    "trl.share_prompts": "trl.pack_prompts",
    "trl.keep_start": "`maxk merge` after the training",
    "trl.average_from": "`maxk merge` of several checkpoints or runs",
}


_LIST = "`maxk train --keys` lists the keys"


class ConfigError(ValueError):
    """A key or a value that a configuration cannot have."""


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=False, use_attribute_docstrings=True
    )


class RunTable(Table):
    """Where the run goes."""

    out: Path
    """folder of the run"""
    rollouts: bool = True
    """write every completion down"""


class ModelTable(Table):
    """What is trained."""

    name: str
    """a name on the hub, a folder, or pocket, the model that comes with maxk"""
    sampler: Literal["trl", "maxk", "vllm"] = "trl"
    """who samples: TRL (with trl.use_vllm its vLLM), maxk's own engine (faster on a CPU), or vLLM
    in this process on one GPU"""
    engine: dict[str, Any] = {}
    """more for the samplers maxk and vllm, as `maxk sample --engine` takes it; with dtype the
    sampler maxk has a copy of the weights"""


class DataTable(Table):
    """The problems."""

    name: str
    """data set, as `maxk data list` has it"""
    split: str | list[str] = "train"
    """one split, or several that are joined"""
    source: Path | None = None
    """file or folder with the published files; left out: the Hugging Face hub"""
    options: dict[str, Any] = {}
    """more for the loader, such as { shown = 1 } for mbpp"""
    max_difficulty: int | None = None
    """drop problems that are harder, for code-contests"""
    max_prompt_tokens: int | None = None
    """drop problems whose prompt is longer"""
    random_split: tuple[int, int] | None = None
    """sizes of a random train and test part; the train part is taken"""
    random_split_seed: int = 0
    """of the random split"""
    limit: int | None = Field(default=None, ge=1)
    """the first so many problems; left out: all"""


class LimitsTable(Table):
    """What a program may use: `maxk.verify.Limits`."""

    cpu_seconds: float = Field(default=Limits.cpu_seconds, gt=0)
    wall_seconds: float = Field(default=Limits.wall_seconds, gt=0)
    program_seconds: float = Field(default=Limits.program_seconds, gt=0)
    memory_bytes: int = Field(default=Limits.memory_bytes, gt=0)
    output_bytes: int = Field(default=Limits.output_bytes, gt=0)
    restarts: int = Field(default=Limits.restarts, ge=0)
    after_timeout: float = Field(default=Limits.after_timeout, gt=0)


class RewardTable(Table):
    """How a program is judged, and how a verdict becomes a reward."""

    kind: RewardKind = "continuous"
    """continuous: the fraction of tests passed; binary: 1 for all of them, else 0"""
    workers: int | None = Field(default=VerifierSettings.workers, ge=1)
    """programs judged at once by each process; left out: two per core"""
    limits: LimitsTable = LimitsTable()
    allow_unsafe: bool = VerifierSettings.allow_unsafe
    isolate: Isolate = VerifierSettings.isolate
    hash_seeds: int = Field(default=VerifierSettings.hash_seeds, ge=1)

    def verifier_settings(self) -> VerifierSettings:
        limits = Limits(**self.limits.model_dump())
        given = (self.workers, limits, self.allow_unsafe, self.isolate, self.hash_seeds)
        return VerifierSettings(*given)


class MethodTable(Table):
    """How rewards become advantages: `maxk.estimators.MethodSettings`; `name` is its method."""

    name: str = MethodSettings.method
    k: int | None = MethodSettings.k
    k_schedule: str = MethodSettings.k_schedule
    k_end: int | None = MethodSettings.k_end
    k_switch: float | None = MethodSettings.k_switch
    clamp_delta: float | None = MethodSettings.clamp_delta
    masking: str | None = MethodSettings.masking

    def settings(self) -> MethodSettings:
        given = self.model_dump()
        return MethodSettings(given.pop("name"), **given)

    @model_validator(mode="after")
    def _check(self) -> "MethodTable":
        if self.name in FACTS:  # else it is unknown, or registered after the file is read
            self.settings()
        return self


class TrainConfig(Table):
    """Everything `maxk train` needs."""

    run: RunTable
    model: ModelTable
    data: DataTable
    reward: RewardTable = RewardTable()
    method: MethodTable = MethodTable()
    lora: dict[str, Any] | None = None
    """peft's LoraConfig, to train an adapter; left out: all parameters"""
    trl: dict[str, Any] = {}
    """everything else, as `maxk.train.MaxKConfig` and so trl.GRPOConfig have it"""


def read_config(file: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """The file, with `--section.key value` pairs in the place of what it says."""
    if not file.exists():
        raise ConfigError(f"{file} is missing; give a TOML file, such as configs/pocket.toml")
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; give a TOML file, such as configs/pocket.toml")
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}; mend that line") from None
    for path, value in _pairs(overrides):
        table = given
        *sections, key = path.split(".")
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--{path}: {section} is no table of keys; {_LIST}")
        table[key] = value
    try:
        return TrainConfig.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"{file}: {_told(error)}\n{_LIST}") from None


def _pairs(overrides: Sequence[str]) -> list[tuple[str, Any]]:
    """
    >>> _pairs(["--trl.learning_rate", "1e-5", "--data.name=mbpp", "--method.k", "8"])
    [('trl.learning_rate', 1e-05), ('data.name', 'mbpp'), ('method.k', 8)]
    """
    out, rest = [], list(overrides)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or "." not in name:
            raise ConfigError(f"{name!r} is not --table.key; use one such as --trl.learning_rate")
        if not equals:
            if not rest:
                raise ConfigError(f"{name} has no value; write one behind it")
            value = rest.pop(0)
        out.append((name[2:].replace("-", "_"), _value(value)))
    return out


def _value(text: str) -> Any:
    """A value as TOML reads it; what it cannot read is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _told(error: ValidationError) -> str:
    """Every fault in words."""
    said = []
    for fault in error.errors():
        place = ".".join(str(part) for part in fault["loc"])
        if place in RENAMED:
            said.append(f"{place} is no more; use {RENAMED[place]}")
        elif fault["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(fault["loc"][-1]), _known(fault["loc"][:-1]), 1)
            said.append(f"{place} is unknown" + (f"; did you mean {close[0]}?" if close else ""))
        elif fault["type"] == "missing":
            said.append(f"{place} is missing")
        elif fault["type"] == "value_error":  # of a whole table, which names what it is about
            said.append(f"{place}: {fault.get('ctx', {}).get('error')}")
        else:
            said.append(f"{place}={fault['input']!r}: {fault['msg'].lower()}")
    return "; ".join(said)


def _known(section: Sequence[Any]) -> list[str]:
    if not section:
        return list(TrainConfig.model_fields)
    table: Any = TrainConfig
    for name in section:
        table = table.model_fields[str(name)].annotation
    return list(getattr(table, "model_fields", {}))
