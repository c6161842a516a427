"""Run by test_accelerate.py: a run in which every sample has its own random numbers.

The completion of row g of batch b is the same on any number of processes, so one process and
two processes have to make the same updates.
"""

from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.train import test_trainer

LENGTH = 6


class Deterministic(test_trainer.Watched):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generated = 0
        self.accelerator.unwrap_model(self.model).generate = self.generate

    @torch.no_grad()
    def generate(self, input_ids: Any, attention_mask: Any, **_: Any) -> torch.Tensor:
        model: Any = self.accelerator.unwrap_model(self.model)
        first = self.accelerator.process_index * len(input_ids)
        seeds = [1000 * self.generated + first + i for i in range(len(input_ids))]
        draws = [torch.rand(LENGTH, generator=torch.Generator().manual_seed(s)) for s in seeds]
        self.generated += 1
        for t in range(LENGTH):
            logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -1]
            below = logits.double().softmax(-1).cumsum(-1)
            drawn = torch.stack([draw[t] for draw in draws]).double().unsqueeze(-1)
            token = torch.searchsorted(below, drawn).clamp(max=logits.shape[-1] - 1)
            input_ids = torch.cat([input_ids, token], dim=1)
            attention_mask = torch.cat([attention_mask, torch.ones_like(token)], dim=1)
        return input_ids


def scenario(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    with mock.patch.object(test_trainer, "Watched", Deterministic):
        trainer = test_trainer.train(folder, **settings)
    last = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    return {
        "batches": trainer.batches,
        "states": trainer.states,
        "processes": trainer.accelerator.num_processes,
        "last": {name: value.clone() for name, value in last.items()},
    }
