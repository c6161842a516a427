"""`maxk keep`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from maxk.cli.console import console
from maxk.pocket import resolve
from maxk.runs import Run


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
        from maxk.keeping import folder_of, keep_start  # torch takes seconds to load

        begun = folder_of(resolve(start))
        for share in self.shares:
            made = out / f"kept-{100 * share:g}"
            keep_start(model, begun, share, made)
            console.print(f"{made}: {share:.4g} of {start}", markup=False, soft_wrap=True)
        return 0

    def places(self) -> tuple[Path, str, Path]:
        """The trained model, what it began as, and where to write."""
        if not (self.trained / "config.toml").exists():
            if self.start is None or self.out is None:
                raise ValueError(f"{self.trained} is no run, so --start and --out are needed")
            return self.trained, self.start, self.out
        run = Run.open(self.trained)
        if run.kind != "train":
            raise ValueError(f"{self.trained} is a run of `maxk {run.kind}`, not of `maxk train`")
        if share := run.config["trl"].get("keep_start"):
            raise ValueError(f"{self.trained} has kept {share:g} of its start already")
        if not (model := run.folder / "model").exists():
            raise ValueError(f"{self.trained} is not finished: it has no {model.name}")
        return model, self.start or run.config["model"]["name"], self.out or run.folder
