"""Several engines on one GPU, each in a process of its own, that share the samples of a set.

What holds a small model back in vLLM is its scheduler, which is Python in one process: the GPU was
20 % busy while one engine sampled (docs/sampling.md). Training uses the engine of the main process;
these only measure, and start while the first cell is being trained.
"""

import contextlib
import multiprocessing
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from experiments.grid.engines import Kind, TransformersEngine, VllmEngine
from maxk.sample import Completion, Request, Settings

TOGETHER = 32  # completions in a message
_ENDED = "a side engine ended; what it said is above"


class Pool:
    """Side engines, seen from the process that asks them. Making it does not wait for them."""

    def __init__(self, kind: Kind, count: int, model: str, options: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.ends: list[Connection] = []
        self.processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, kind, model, options))
            process.start()
            theirs.close()  # so that its death is seen here
            self.ends.append(ours)
            self.processes.append(process)

    def ask(self, word: str, *more: Any) -> list[Any]:
        """The same of all of them, and their answers."""
        for end in self.ends:
            self._tell(end, (word, *more))
        return [self._answer(end) for end in self.ends]

    def sample(self, requests: Iterable[Request], settings: Settings) -> Iterator[Completion]:
        """Every sample of every request; a problem is sampled by one of them."""
        shares: list[list[Request]] = [[] for _ in self.ends]
        for i, request in enumerate(requests):
            shares[i % len(shares)].append(request)
        for end, share in zip(self.ends, shares, strict=True):
            self._tell(end, ("sample", share, settings))
        busy = set(self.ends)
        try:
            while busy:
                for end in wait(list(busy)):
                    assert isinstance(end, Connection)
                    told = self._answer(end)
                    if told is None:
                        busy.remove(end)
                    else:
                        yield from told
        finally:  # stopped in the middle: they hear it between two completions
            with contextlib.suppress(RuntimeError):  # of one that is gone, which was told of
                for end in busy:
                    self._tell(end, ("stop",))
                for end in busy:
                    while self._answer(end) is not None:
                        pass

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()

    def _tell(self, end: Connection, message: tuple[Any, ...]) -> None:
        try:
            end.send(message)
        except BrokenPipeError:
            raise RuntimeError(_ENDED) from None

    def _answer(self, end: Connection) -> Any:
        try:
            word, told = end.recv()
        except (EOFError, ConnectionResetError):
            raise RuntimeError(_ENDED) from None
        if word == "fault":
            raise RuntimeError(f"a side engine failed: {told}")
        return told


def work(end: Connection, kind: Kind, model: str, options: dict[str, Any]) -> None:
    """A side engine: it does what it is told."""
    try:
        engine = (
            TransformersEngine(options) if kind == "transformers" else VllmEngine(model, options)
        )
        sampler = None
        while True:
            try:
                word, *more = end.recv()
            except EOFError:
                return
            if word == "load":
                sampler = engine.sampler(*more)
                end.send(("loaded", True))
            elif word == "difference":
                assert isinstance(engine, VllmEngine)
                end.send(("difference", engine.difference(*more)))
            elif word == "sample":
                assert sampler is not None
                answer(end, sampler.sample(*more))
    except Exception as error:
        end.send(("fault", f"{type(error).__name__}: {error}"))
        raise


def answer(end: Connection, completions: Iterator[Completion]) -> None:
    """Send completions as they come, then None; end early if told to."""
    some: list[Completion] = []
    for completion in completions:
        some.append(replace(completion, ids=None))
        if len(some) >= TOGETHER:
            end.send(("some", some))
            some = []
        if end.poll():
            end.recv()  # only "stop" comes while it samples
            break
    else:
        end.send(("some", some))
        end.send(("end", None))
        return
    completions.close()  # type: ignore[attr-defined]
    end.send(("end", None))


class PooledEngine:
    """The main engine to train with, side engines to measure with."""

    def __init__(self, main: VllmEngine | TransformersEngine, pool: Pool) -> None:
        self.kind: Kind = main.kind
        self.vllm, self.pool = main.vllm, pool
        self.options = main.options if isinstance(main, TransformersEngine) else {}
        self.loaded: str | None = None

    def sampler(self, folder: str | Path) -> Pool:
        if self.loaded != str(folder):
            self.pool.ask("load", str(folder))
            self.loaded = str(folder)
        return self.pool

    def forget(self) -> None:
        """Side engines keep their weights while the main one trains."""

    def difference(self, folder: str | Path) -> float:
        return max(self.pool.ask("difference", str(folder)))
