"""Run by test_two_processes.py under torch.distributed: train, and write down what was seen."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from tests.train.test_trainer import digits, train


def equal_on_the_first(completions, **_: Any) -> list[float]:
    """Groups that say nothing, but only on one of the processes."""
    return [0.5] * len(completions) if os.environ["RANK"] == "0" else digits(completions)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    settings = json.loads(sys.argv[2])
    reward = equal_on_the_first if settings.get("skip_zero_variance") else digits
    trainer = train(folder, reward, **settings)
    rank = trainer.accelerator.process_index
    kept = {"seen": trainer.seen, "batches": trainer.batches, "states": trainer.states}
    torch.save(kept, folder / f"rank{rank}.pt")
