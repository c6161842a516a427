"""Run by test_two_processes.py under torch.distributed: train, and write down what was seen."""

import json
import sys
from pathlib import Path

import torch

from tests.train.test_trainer import train

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    trainer = train(folder, **json.loads(sys.argv[2]))
    rank = trainer.accelerator.process_index
    kept = {"seen": trainer.seen, "batches": trainer.batches, "states": trainer.states}
    torch.save(kept, folder / f"rank{rank}.pt")
