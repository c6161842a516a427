"""`maxk train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from maxk.cli.arguments import HIDDEN, POSITIONAL, UsageError

STOPPED = 143  # as a shell reports a process ended by SIGTERM


@dataclass(frozen=True)
class Train:
    """Train a model for Best-of-N, as a TOML file says.

    Keys of the file can be given behind it, as --table.key value: --method.k 8 --model.name pocket
    --run.out runs/new. `maxk train --keys` lists them. The same command continues a stopped run. On
    several GPUs: accelerate launch -m maxk train FILE
    """

    file: Annotated[Path | None, POSITIONAL] = None
    """the configuration, in TOML; configs/pocket.toml is one"""
    keys: bool = False
    """list the keys of the file, with their defaults"""
    restart: bool = False
    """delete the run that is in run.out, and begin anew"""
    overrides: Annotated[tuple[str, ...], HIDDEN] = ()

    def run(self) -> int:
        from maxk.cli.console import console
        from maxk.config import read_config

        if self.keys:
            from maxk.cli.keys import keys_text

            print(keys_text())
            return 0
        if self.file is None:
            raise UsageError("FILE must be given; configs/pocket.toml is one")
        config = read_config(self.file, self.overrides)
        from maxk.train.job import train  # after the configuration: torch and TRL take seconds

        def say(text: str) -> None:
            console.print(text, markup=False, soft_wrap=True)

        outcome = train(config, say, restart=self.restart)
        out = config.run.out
        if outcome.already:
            console.print(
                f"{out} was finished before, at step {outcome.step}; --restart trains it anew, "
                "another --run.out leaves it as it is",
                soft_wrap=True,
            )
        elif outcome.finished:
            console.print(f"finished at step {outcome.step}: {out}/model", soft_wrap=True)
        else:
            console.print(f"stopped after step {outcome.step}; the same command goes on")
            return STOPPED
        return 0
