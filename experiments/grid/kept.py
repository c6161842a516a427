"""Cells that are made of the weights of others, without training.

NAME-kept-30   has 30 % of the base model's weights and 70 % of those of NAME, trained with the same
               settings and seed: `maxk merge` of the two.
NAME-of-3      the mean of three trainings of NAME: with its seed and the next two.
"""

import shutil
from collections.abc import Sequence
from typing import Any

from maxk.config import TrainConfig
from maxk.merge import folder_of, mix
from maxk.pocket import resolve
from maxk.store.run import MODEL, Run

ROWS = ("per_device_train_batch_size", "gradient_accumulation_steps")


def make(config: TrainConfig, others: Sequence[TrainConfig], base_share: float = 0.0) -> None:
    """Make the run that is configured from others that are finished.

    base_share: of the base model's weights in it. ValueError if they differ in more than where they
    are, their seeds, and how many rows are in memory at a time.
    """
    for i, other in enumerate(others):
        if settings_of(config, i) != settings_of(other):
            raise ValueError(f"{config.run.out} is not trained as {other.run.out} is")
    run = Run.start(config.run.out, "train", config.model_dump(mode="json"))
    if len(others) == 1:  # the metrics of several are in their own results
        shutil.copy(others[0].run.out / "metrics.jsonl", run.folder)
    seen = [(other.run.out / "environment.jsonl").read_text() for other in others]
    (run.folder / "environment.jsonl").write_text("".join(seen))
    each = (1 - base_share) / len(others)
    shares = [(other.run.out / MODEL, each) for other in others]
    if base_share:
        shares.append((folder_of(resolve(config.model.name)), base_share))
    mix(shares, run.folder / MODEL)


def settings_of(config: TrainConfig, later: int = 0) -> dict[str, Any]:
    """What training depends on; later: with a seed so much higher."""
    made = config.model_dump(mode="json")
    trl = {key: value for key, value in made["trl"].items() if key not in ROWS}
    rows, times = (made["trl"][key] for key in ROWS)
    return made | {"run": None, "trl": trl, "batch": rows * times, "seed": trl.pop("seed") + later}
