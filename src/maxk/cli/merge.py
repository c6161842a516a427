"""`maxk merge`: weight interpolation towards the base model, and model soups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from maxk.cli.arguments import POSITIONAL, UsageError
from maxk.cli.console import console
from maxk.pocket import resolve
from maxk.store.run import MODEL, Run


@dataclass(frozen=True)
class Merge:
    """Merge models: interpolate towards the base model, or make a soup.

    `maxk merge BASE TUNED --alpha 0.3 --out DIR` interpolates weights (WiSE-FT): the result has
    30 % of BASE and 70 % of TUNED. It gets back some of the coverage at large k that tuning lost.

    `maxk merge A B C --out DIR` makes a model soup: the mean of the weights of models that were
    tuned from the same base model.
    """

    models: Annotated[tuple[str, ...], POSITIONAL]
    """folders of `maxk train` runs or of models; BASE may also be `pocket` or a name on the hub"""
    out: Path
    """new folder for the merged model; tokenizer and settings come from TUNED or A"""
    alpha: float | None = None
    """the share of BASE's weights to keep, between 0 (all TUNED) and 1 (all BASE)"""
    weights: tuple[float, ...] = ()
    """without --alpha: the share of each model, which sum to 1; default: equal shares"""

    def run(self) -> int:
        if self.alpha is None:
            self.soup()
        else:
            self.interpolate(self.alpha)
        return 0

    def interpolate(self, alpha: float) -> None:
        if self.weights:
            raise UsageError("--alpha and --weights exclude each other; leave one out")
        if len(self.models) != 2:
            given = " ".join(self.models) or "none"
            raise UsageError(f"--alpha takes exactly two models, BASE TUNED; given: {given}")
        base, tuned = self.models
        refuse_swapped(base, tuned)
        tuned_folder = model_folder(tuned)
        base_place = resolve(base)
        if Path(base_place).is_dir():
            base_place = str(model_folder(base_place))
        from maxk.merge import folder_of, interpolate  # torch takes seconds to load

        interpolate(folder_of(base_place), tuned_folder, alpha, self.out)
        say(f"{self.out}: {alpha:.4g} of {base}, {1 - alpha:.4g} of {tuned}")

    def soup(self) -> None:
        if len(self.models) < 2:
            given = " ".join(self.models) or "none"
            raise UsageError(f"a soup needs two models or more; given: {given}")
        if self.weights and len(self.weights) != len(self.models):
            n, models = len(self.weights), len(self.models)
            raise UsageError(f"--weights has {n} number(s) for {models} models; give one for each")
        weights = self.weights or (1 / len(self.models),) * len(self.models)
        folders = [model_folder(model) for model in self.models]
        from maxk.merge import soup  # torch takes seconds to load

        soup(folders, self.out, weights)
        parts = zip(weights, self.models, strict=True)
        say(f"{self.out}: {', '.join(f'{share:.4g} of {model}' for share, model in parts)}")


def refuse_swapped(base: str, tuned: str) -> None:
    """ValueError if the run given as BASE says that its base model is the one given as TUNED."""
    if not is_run(Path(base)):
        return
    name = str(Run.open(base).config.get("model", {}).get("name"))
    if name == tuned or location(name) == location(tuned):
        raise ValueError(
            f"BASE={base} is a run that was tuned from TUNED={tuned}: swap the two "
            f"(maxk merge {tuned} {base} --alpha ...)"
        )


def location(model: str) -> Path:
    folder = Path(resolve(model))
    return (folder / MODEL if is_run(folder) else folder).resolve()


def model_folder(given: str) -> Path:
    """The folder of a model's weights, given that folder or the folder of a finished run."""
    folder = Path(given)
    if not folder.is_dir():
        raise ValueError(
            f"{given} is not a folder; give the folder of a `maxk train` run or of a model "
            "(only BASE may be a name on the hub)"
        )
    if not is_run(folder):
        return folder
    run = Run.open(folder)
    if run.kind != "train":
        raise ValueError(f"{folder} is a run of `maxk {run.kind}`; give a run of `maxk train`")
    if not (folder / MODEL).exists():
        raise ValueError(
            f"{folder} is not finished: it has no {MODEL}; repeat its `maxk train` first"
        )
    return folder / MODEL


def is_run(folder: Path) -> bool:
    return (folder / "config.toml").exists()


def say(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
