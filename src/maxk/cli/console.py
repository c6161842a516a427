"""Where commands write, how they show progress, and how SIGTERM stops them."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

    from maxk.grade.file import Summary

console = Console(highlight=False)
_LISTED = 5
State = TypeVar("State")


def show(table: "Table") -> None:
    """Print a table at its full width: a narrow terminal wraps its lines; rich would cut cells."""
    from rich.measure import Measurement

    room = console.options.update(width=10_000)
    width = max(console.width, Measurement.get(console, room, table).maximum)
    Console(highlight=False, width=width).print(table)


class Shown(Generic[State]):
    """Progress: a bar on a terminal, a line every ten seconds elsewhere.

    count and text read from a state how much is done and what else to say; unit is what is counted.
    """

    def __init__(
        self, total: int, unit: str, count: Callable[[State], int], text: Callable[[State], str]
    ) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.total, self.unit, self.count, self.text = total, unit, count, text
        self.last = time.monotonic()
        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=console) if console.is_terminal else None
        self.task = self.bar.add_task(unit, total=total) if self.bar else None

    def __enter__(self) -> "Shown[State]":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, state: State) -> None:
        done, text = self.count(state), self.text(state)
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=done, description=f"{self.unit}, {text}")
        elif time.monotonic() - self.last >= 10:
            self.last = time.monotonic()
            console.print(f"{done} of {self.total} {self.unit}, {text}")


def progress_of_grading(total: int) -> "Shown[Summary]":
    """Progress of grading."""

    def text(summary: "Summary") -> str:
        return f"mean reward {summary.reward / max(summary.rows, 1):.3f}"

    return Shown(total, "graded", lambda summary: summary.rows, text)


def say_left_out(what: Sequence[str], unit: str = "problems") -> None:
    """Name what was left out, the first few of it, and count it."""
    for each in what[:_LISTED]:
        console.print(f"left out: {each}", markup=False, soft_wrap=True)
    if len(what) > _LISTED:
        console.print(f"left out: {len(what)} {unit} in all, these are the first {_LISTED}")


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends the command as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
