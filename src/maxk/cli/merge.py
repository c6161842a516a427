"""`maxk keep` and `maxk mix`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from maxk.cli.console import console
from maxk.pocket import resolve
from maxk.store.run import MODEL, Run


@dataclass(frozen=True)
class Keep:
    """Put a share of the weights that a training began with back into its model.

    As trl.keep_start does when training ends, but for any number of shares. What narrow training
    lost at large k returns sooner than what it won is gone (docs/trainer.md). `maxk sample` takes
    the folders as models.
    """

    trained: Annotated[Path, tyro.conf.Positional]
    """folder of `maxk train`, or of a model"""
    shares: Annotated[tuple[float, ...], tyro.conf.Positional]
    """such as 0.3, which makes the model kept-30"""
    start: str | None = None
    """the model it began as; default: what the run says"""
    out: Path | None = None
    """where the models go; default: into the folder of the run"""

    def run(self) -> int:
        if not self.shares:
            raise ValueError("how much is to be kept? A share such as 0.3")
        model, start, out = self.places()
        from maxk.merge import folder_of, keep_start  # torch takes seconds to load

        begun = folder_of(resolve(start))
        for share in self.shares:
            made = out / f"kept-{100 * share:g}"
            keep_start(model, begun, share, made)
            console.print(f"{made}: {share:.4g} of {start}", markup=False, soft_wrap=True)
        return 0

    def places(self) -> tuple[Path, str, Path]:
        """The trained model, what it began as, and where to write."""
        if not is_run(self.trained):
            if self.start is None or self.out is None:
                raise ValueError(f"{self.trained} is no run, so --start and --out are needed")
            return self.trained, self.start, self.out
        run = finished(self.trained)
        if share := run.config["trl"].get("keep_start"):
            raise ValueError(f"{self.trained} has kept {share:g} of its start already")
        return run.folder / MODEL, self.start or run.config["model"]["name"], self.out or run.folder


@dataclass(frozen=True)
class Mix:
    """Make one model of several that began as the same: the mean of their weights.

    Such as trainings with several seeds, whose mean may be better than any (docs/trainer.md).
    Tokenizer and configuration are those of the first.
    """

    models: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """folders of `maxk train`, or of models"""
    out: Path
    """where the model goes"""
    shares: tuple[float, ...] = ()
    """of each, which sum to 1; default: equal"""

    def run(self) -> int:
        if len(self.models) < 2:
            raise ValueError("a mean is one of two models or more")
        if self.shares and len(self.shares) != len(self.models):
            raise ValueError(f"{len(self.shares)} shares for {len(self.models)} models")
        shares = self.shares or (1 / len(self.models),) * len(self.models)
        folders = [finished(each).folder / MODEL if is_run(each) else each for each in self.models]
        from maxk.merge import mix  # torch takes seconds to load

        mix(list(zip(folders, shares, strict=True)), self.out)
        parts = ", ".join(f"{s:.4g} of {m}" for m, s in zip(self.models, shares, strict=True))
        console.print(f"{self.out}: {parts}", markup=False, soft_wrap=True)
        return 0


def is_run(folder: Path) -> bool:
    return (folder / "config.toml").exists()


def finished(folder: Path) -> Run:
    """A training that has its model."""
    run = Run.open(folder)
    if run.kind != "train":
        raise ValueError(f"{folder} is a run of `maxk {run.kind}`, not of `maxk train`")
    if not (run.folder / MODEL).exists():
        raise ValueError(f"{folder} is not finished: it has no {MODEL}")
    return run
