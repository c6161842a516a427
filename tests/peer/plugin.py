"""A pytest plugin: TRL's own tests with local models, and with MaxKTrainer where METHOD says so.

PEER_HUB: the folder of `tests.peer.hub`. PEER_METHOD: of MaxKConfig, or empty for stock TRL.
"""

import dataclasses
import importlib
import os
from pathlib import Path
from typing import Any

import datasets
import pytest
import transformers
import trl

from tests.peer import hub

HUB = Path(os.environ["PEER_HUB"])


def absent(name: str) -> Any:
    """What the helpers of a checkout ask for that the installed TRL does not have: not there."""
    if name.startswith("is_"):
        return lambda: False
    raise AttributeError(name)


import_utils: Any = importlib.import_module("trl.import_utils")
import_utils.__getattr__ = absent


def local(name: Any) -> Any:
    """The folder of a model of TRL's test organisation."""
    found = HUB / str(name)
    return str(found) if str(name).startswith(hub.OWNER) and found.exists() else name


def from_here(kind: type) -> None:
    original = kind.from_pretrained.__func__  # pyright: ignore[reportAttributeAccessIssue]

    def from_pretrained(cls: type, name: Any, *args: Any, **kwargs: Any) -> Any:
        return original(cls, local(name), *args, **kwargs)

    kind.from_pretrained = classmethod(from_pretrained)  # pyright: ignore


for each in (
    transformers.AutoConfig,
    transformers.AutoTokenizer,
    transformers.AutoProcessor,
    transformers.AutoModelForCausalLM,
    transformers.AutoModelForSequenceClassification,
    transformers.GenerationConfig,
    transformers.PreTrainedModel,
):
    from_here(each)


def load_dataset(
    name: str, config: str | None = None, split: str | None = None, **more: Any
) -> Any:
    found = hub.data(name.split("/")[1], config)
    if more.get("streaming"):
        found = datasets.IterableDatasetDict(
            {key: value.to_iterable_dataset() for key, value in found.items()}
        )
    return found if split is None else found[split]


datasets.load_dataset = load_dataset

replaced: Any = trl
trainer_module: Any = importlib.import_module("trl.trainer.grpo_trainer")

if method := os.environ.get("PEER_METHOD"):
    from maxk.estimators import METHODS
    from maxk.train import MaxKConfig, MaxKTrainer

    ours: Any = importlib.import_module("maxk.train.trainer")

    @dataclasses.dataclass
    class Config(MaxKConfig):
        """On a CPU; TRL's tests have groups of three."""

        use_cpu: bool = True
        bf16: bool | None = False
        method: str = os.environ["PEER_METHOD"]
        k: int | None = 2 if METHODS[os.environ["PEER_METHOD"]].uses_k else None
        pack_prompts: bool = bool(os.environ.get("PEER_PACK"))

    replaced.GRPOConfig, replaced.GRPOTrainer = Config, MaxKTrainer
    ours.MaxKConfig = Config  # where a test gives no arguments
else:

    @dataclasses.dataclass
    class Stock(trainer_module.GRPOConfig):
        """On a CPU."""

        use_cpu: bool = True
        bf16: bool | None = False

    replaced.GRPOConfig = trainer_module.GRPOConfig = Stock


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """One line a test, for the comparison."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" or report.outcome != "passed":
        said = "" if call.excinfo is None else str(call.excinfo.value).strip().replace("\n", " ")
        with Path(os.environ["PEER_OUT"]).open("a") as file:
            file.write(f"{item.nodeid.split('::', 1)[1]}\t{report.outcome}\t{said[:300]}\n")
