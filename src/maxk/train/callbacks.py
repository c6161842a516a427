"""What `maxk train` adds to a trainer: metrics in the run's folder, and an end on SIGTERM."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from transformers import TrainerCallback

from maxk.store.run import Run
from maxk.train.trainer import MaxKTrainer


class WriteMetrics(TrainerCallback):
    """What is logged goes into the run's metrics, whatever trackers there are."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.run.log({"step": state.global_step, **kwargs["logs"]})


class StopOnSignal(TrainerCallback):
    """On SIGTERM: finish the optimiser step, save, stop. A second one ends at once."""

    def __init__(self, trainer: MaxKTrainer) -> None:
        self.trainer, self.received, self.asked = trainer, False, False

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = signal.signal(signal.SIGTERM, self.receive)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def receive(self, number: int, frame: Any) -> None:
        self.received = True
        signal.signal(number, signal.SIG_DFL)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.asked = self.received
        if args.world_size > 1:  # the signal may have reached one process before another
            accelerator = self.trainer.accelerator
            local = torch.tensor([self.received], device=accelerator.device)
            self.asked = bool(cast(torch.Tensor, accelerator.gather(local)).any())
        if self.asked:
            control.should_save = control.should_training_stop = True
