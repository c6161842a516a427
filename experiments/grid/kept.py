"""Cells that are made of the weights of others, without training.

NAME-kept-30   keeps a share of the base model's weights. That option of the trainer (`keep_start`)
               changes nothing but what is saved at the end, so where NAME is trained with the same
               settings and seed, its weights and those of the base model are all that is needed.
NAME-of-3      the mean of three trainings of NAME: with its seed and the next two.
"""

import shutil
from collections.abc import Sequence
from typing import Any

from maxk.config import TrainConfig
from maxk.merge import folder_of, soup
from maxk.pocket import resolve
from maxk.store.run import MODEL, Run

ROWS = ("per_device_train_batch_size", "gradient_accumulation_steps")
OWN = {"keep_start", *ROWS}  # of each of the cells that make another


def make(config: TrainConfig, others: Sequence[TrainConfig]) -> None:
    """Make the run that is configured from others that are finished.

    ValueError if they differ in more than where they are, what they keep, their seeds, and how
    many rows are in memory at a time.
    """
    for i, other in enumerate(others):
        if settings_of(config, i) != settings_of(other):
            raise ValueError(f"{config.run.out} is not trained as {other.run.out} is")
    run = Run.start(config.run.out, "train", config.model_dump(mode="json"))
    if len(others) == 1:  # the metrics of several are in their own results
        shutil.copy(others[0].run.out / "metrics.jsonl", run.folder)
    seen = [(other.run.out / "environment.jsonl").read_text() for other in others]
    (run.folder / "environment.jsonl").write_text("".join(seen))
    share = config.trl.get("keep_start", 0.0)
    shares = [(other.run.out / MODEL, (1 - share) / len(others)) for other in others]
    if share:
        shares.append((folder_of(resolve(config.model.name)), share))
    models, weights = zip(*shares, strict=True)
    soup(models, run.folder / MODEL, weights)


def settings_of(config: TrainConfig, later: int = 0) -> dict[str, Any]:
    """What training depends on; later: with a seed so much higher."""
    made = config.model_dump(mode="json")
    trl = {key: value for key, value in made["trl"].items() if key not in OWN}
    rows, times = (made["trl"][key] for key in ROWS)
    return made | {"run": None, "trl": trl, "batch": rows * times, "seed": trl.pop("seed") + later}
