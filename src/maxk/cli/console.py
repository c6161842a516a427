"""Where the command writes, and how it shows that it is getting on."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from maxk.verify.stored import Summary

console = Console(highlight=False)


class Shown:
    """Progress: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.last = total, time.monotonic()
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console) if console.is_terminal else None
        self.task = self.bar.add_task("judging", total=total) if self.bar else None

    def __enter__(self) -> "Shown":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, summary: Summary) -> None:
        mean = summary.reward / max(summary.rows, 1)
        if self.bar and self.task is not None:
            text = f"judging, mean reward {mean:.3f}"
            self.bar.update(self.task, completed=summary.rows, description=text)
        elif time.monotonic() - self.last >= 10:
            self.last = time.monotonic()
            console.print(f"{summary.rows} of {self.total} judged, mean reward {mean:.3f}")
