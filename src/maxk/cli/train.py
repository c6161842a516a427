"""`maxk train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from maxk.cli.arguments import HIDDEN, POSITIONAL

STOPPED = 143  # as a shell reports a process ended by SIGTERM


@dataclass(frozen=True)
class Train:
    """Train a model for Best-of-N, as a TOML file says.

    Arguments override keys of the file: --trl.learning_rate 1e-5 --method.k 8. The same command
    continues a stopped run. On several GPUs: accelerate launch -m maxk train run.toml
    """

    file: Annotated[Path, POSITIONAL]
    """the configuration; configs/ has some"""
    overrides: Annotated[tuple[str, ...], HIDDEN] = ()

    def run(self) -> int:
        from maxk.cli.console import console
        from maxk.config import read_config

        config = read_config(self.file, self.overrides)
        from maxk.train.job import train  # after the configuration: torch and TRL take seconds

        outcome = train(config, lambda text: console.print(text, markup=False, soft_wrap=True))
        out = config.run.out
        if outcome.already:
            console.print(f"{out} was finished before, at step {outcome.step}", soft_wrap=True)
        elif outcome.finished:
            console.print(f"finished at step {outcome.step}: {out}/model", soft_wrap=True)
        else:
            console.print(f"stopped after step {outcome.step}; the same command goes on")
            return STOPPED
        return 0
