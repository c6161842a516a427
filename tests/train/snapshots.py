"""Copies of a folder as a kill would leave it, at every step of the writing of checkpoints."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import Trainer
from transformers.trainer_callback import TrainerState

from maxk.train import checkpoint
from tests.train.test_trainer import train

SAVED: dict[str, Any] = {
    "method": "off-policy-exact",
    "num_iterations": 2,
    "max_steps": 5,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 1,
}


@contextmanager
def snapshots(folder: Path, into: Path, name: str) -> Iterator[None]:
    """Before and after every write that a checkpoint consists of, and every deletion."""
    into.mkdir(exist_ok=True)
    copying, number = [], [0]
    copytree, rmtree = shutil.copytree, shutil.rmtree

    def copy() -> None:
        if copying or not any(folder.glob("checkpoint-*")):
            return
        copying.append(1)
        to = into / f"{name}-{number[0]:03}"
        number[0] += 1
        try:
            copytree(folder, to, dirs_exist_ok=True)
        except (shutil.Error, OSError):  # another process has renamed a file meanwhile
            rmtree(to, ignore_errors=True)
        copying.clear()

    def around(owner: Any, attribute: str) -> Any:
        original = getattr(owner, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            copy()
            out = original(*args, **kwargs)
            copy()
            return out

        return mock.patch.object(owner, attribute, call)

    places = [(torch, "save"), (os, "replace"), (checkpoint, "save"), (shutil, "rmtree")]
    places += [
        (TrainerState, "save_to_json"),
        (Trainer, "save_model"),
        (Trainer, "_save_rng_state"),
    ]
    with ExitStack() as stack:
        for owner, attribute in places:
            stack.enter_context(around(owner, attribute))
        yield


def scenario(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Run by test_checkpoint.py in each of two processes."""
    rank = os.environ["RANK"]
    with snapshots(folder / "out", folder / "snapshots", rank):
        trainer = train(folder / "out", **settings)
    return {"processes": trainer.accelerator.num_processes}
