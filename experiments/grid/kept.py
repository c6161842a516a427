"""Cells that keep a share of the base model's weights, `NAME-kept-30`, from the weights of `NAME`.

That option of the trainer (`keep_start`) changes nothing but what is saved at the end. So where
NAME is trained with the same settings and seed, its weights and those of the base model are all
that is needed.
"""

import shutil
from typing import Any

from maxk import keeping
from maxk.config import TrainConfig
from maxk.pocket import resolve
from maxk.runs import Run
from maxk.train.job import MODEL

_KEPT = "-kept-"
_NOTED = ("metrics.jsonl", "environment.jsonl")  # of the training that there was


def trained_alike(name: str) -> str | None:
    """The cell that is trained as this one is and keeps nothing of its start.

    >>> trained_alike("choose-grpo-kept-30"), trained_alike("choose-grpo")
    ('choose-grpo', None)
    """
    whole, kept, _ = name.rpartition(_KEPT)
    return whole if kept else None


def keep_start(config: TrainConfig, other: TrainConfig) -> None:
    """Make the run that training as configured would make, from another that is finished.

    ValueError if the two differ in more than where they are and what they keep.
    """
    if settings_of(config) != settings_of(other):
        raise ValueError(f"{config.run.out} is not trained as {other.run.out} is")
    run = Run.start(config.run.out, "train", config.model_dump(mode="json"))
    for name in _NOTED:
        shutil.copy(other.run.out / name, run.folder / name)
    start = keeping.folder_of(resolve(config.model.name))
    keeping.keep_start(other.run.out / MODEL, start, config.trl["keep_start"], run.folder / MODEL)


def settings_of(config: TrainConfig) -> dict[str, Any]:
    made = config.model_dump(mode="json")
    made["trl"] = {key: value for key, value in made["trl"].items() if key != "keep_start"}
    return made | {"run": None}
