"""Run by test_job.py in each of two processes: `maxk train` from its file, or a part of it."""

import os
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from maxk.config import read_config
from maxk.train import MaxKTrainer
from maxk.train.job import train

UPDATE = MaxKTrainer.training_step


def scenario(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """sigterm_in: the update in which the second process, and it alone, is told to stop."""

    def update(self: MaxKTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        last = self.state.global_step + 1 == settings["sigterm_in"]
        if last and self.accelerator.process_index == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return UPDATE(self, *args, **kwargs)

    with mock.patch.object(MaxKTrainer, "training_step", update):
        outcome = train(read_config(folder / "run.toml", settings["overrides"]), print)
    return {"step": outcome.step, "finished": outcome.finished}
