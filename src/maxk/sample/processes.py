"""One back end in several processes, which divide the requests: on several GPUs, or on one.

vLLM is driven by Python in one process. For a small model that is slower than the GPU, and two or
three engines keep one GPU busier than one does; on a node with eight GPUs each engine has its own.
On a CPU each process gets its part of the cores.
"""

import atexit
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from maxk.records import Completion
from maxk.sample.base import Request, Sampler, Sampling

_MESSAGE = 32  # completions in a message
_GRACE = 10.0  # seconds for a process to end by itself
_MEMORY = 0.9  # of a GPU, for all engines on it: vLLM's own default for one


class ProcessSampler:
    """`count` processes with a sampler each; call `close` when done.

    The constructor starts them. Those on one GPU start one after another: vLLM measures how much
    memory is free, and fails if another engine starts meanwhile. With the option
    kv_cache_memory_bytes it does not measure, and they start at once.
    """

    def __init__(self, count: int, model: str, backend: str, options: dict[str, Any]) -> None:
        if count < 1:
            raise ValueError(f"processes={count} must be at least 1")
        if backend == "openai":
            raise ValueError("processes must be 1 with backend='openai': the server runs the model")
        self.ends: list[Connection] = []
        self.processes: list[Any] = []
        self.sampling = False
        atexit.register(self.close)
        gpus = visible_gpus()
        context = multiprocessing.get_context("spawn")
        one_by_one = bool(gpus) and "kv_cache_memory_bytes" not in options
        for i in range(count):
            if one_by_one and i >= len(gpus):
                self._answer(self.ends[i - len(gpus)], "ready")
            here = gpus[i % len(gpus)] if gpus else None
            given = with_memory(options, backend, -(-count // len(gpus)) if gpus else 1)
            near, far = context.Pipe()
            asked = (far, count, here, model, backend, given)
            process = context.Process(target=work, args=asked, name=f"maxk sampler {i + 1}")
            process.start()
            far.close()  # so that the end of the process is seen here
            self.ends.append(near)
            self.processes.append(process)
        for end in self.ends[-len(gpus) :] if one_by_one else self.ends:
            self._answer(end, "ready")

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        """Every sample of every request; one process draws all samples of a request."""
        parts: list[list[Request]] = [[] for _ in self.ends]
        for i, request in enumerate(requests):
            parts[i % len(parts)].append(request)
        for end, part in zip(self.ends, parts, strict=True):
            end.send((part, settings))
        busy = list(self.ends)
        self.sampling = True
        try:
            while busy:
                for end in wait(busy):
                    assert isinstance(end, Connection)
                    completions = self._answer(end, "completions")
                    if completions:
                        yield from completions
                    else:
                        busy.remove(end)
        finally:
            if busy:  # stopped in the middle: nobody will read the rest
                self.close()
            self.sampling = False

    def close(self) -> None:
        """End the processes. A second call does nothing."""
        atexit.unregister(self.close)
        for end in self.ends:
            end.close()  # a process that waits for requests then ends by itself
        for process in self.processes:
            process.join(0.0 if self.sampling else _GRACE)
            process.kill()
            process.join()
        self.processes = []

    def _answer(self, end: Connection, wanted: str) -> Any:
        try:
            kind, content = end.recv()
        except (EOFError, OSError):
            self.close()
            raise RuntimeError("a sampling process ended; its output is above") from None
        if kind != wanted:
            self.close()
            raise RuntimeError(f"a sampling process failed: {content}")
        return content


def work(
    end: Connection, count: int, gpu: str | None, model: str, backend: str, options: dict[str, Any]
) -> None:
    """A sampling process: answer requests until the pipe closes."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    from maxk.sample import make

    try:
        sampler = make(model, backend, **options)  # type: ignore[arg-type]
        if gpu is None:
            import torch

            torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
        end.send(("ready", None))
        while True:
            answer(end, sampler, *end.recv())
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        end.send(("fault", f"{type(error).__name__}: {error}"))


def answer(end: Connection, sampler: Sampler, requests: list[Request], settings: Sampling) -> None:
    """Send completions as they finish, and an empty list at the end."""
    some: list[Completion] = []
    for completion in sampler.sample(requests, settings):
        some.append(completion)
        if len(some) == _MESSAGE:
            end.send(("completions", some))
            some = []
    if some:
        end.send(("completions", some))
    end.send(("completions", []))


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES."""
    import torch

    count = torch.cuda.device_count()  # asks the driver and takes no GPU
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return named[:count] if named else [str(i) for i in range(count)]


def with_memory(options: dict[str, Any], backend: str, on_one_gpu: int) -> dict[str, Any]:
    """The options of an engine, with its part of the memory of a GPU that several share.

    >>> with_memory({"batch": 512}, "vllm", 2)
    {'gpu_memory_utilization': 0.45, 'batch': 512}
    """
    if backend != "vllm" or on_one_gpu == 1:
        return options
    return {"gpu_memory_utilization": _MEMORY / on_one_gpu, **options}
