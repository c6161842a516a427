"""Run by test_two_processes.py in each of two processes: train, and keep what was seen."""

import os
from pathlib import Path
from typing import Any

from tests.train.test_trainer import digits, train


def equal_on_the_first(completions, **_: Any) -> list[float]:
    """Groups that say nothing, but only on one of the processes."""
    return [0.5] * len(completions) if os.environ["RANK"] == "0" else digits(completions)


def scenario(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    reward = equal_on_the_first if settings.get("skip_zero_variance") else digits
    trainer = train(folder, reward, **settings)
    return {"seen": trainer.seen, "batches": trainer.batches, "states": trainer.states}
