"""A back end in several processes gives what one gives, and no process outlives its use."""

import os
import signal
from pathlib import Path

import pytest
import torch

from maxk.pocket import folder
from maxk.sample import Request, Sampling, make
from maxk.sample import processes as module
from maxk.sample.processes import ProcessSampler, visible_gpus

SETTINGS = Sampling(max_tokens=40, seed=5)
REQUESTS = [
    Request(f"p{i}", f"Print the sum of the numbers and {i}.", tuple(range(3 + i)))
    for i in range(5)
]


@pytest.fixture(scope="module")
def two():
    made = ProcessSampler(2, str(folder()), "transformers", {"device": "cpu"})
    yield made
    made.close()


def alive(processes: list[int]) -> list[int]:
    return [pid for pid in processes if Path(f"/proc/{pid}").exists()]


def test_the_samples_are_those_of_one_process(two):
    expected = {
        (one.problem, one.sample): (one.text, one.tokens)
        for one in make(str(folder()), "transformers", device="cpu").sample(REQUESTS, SETTINGS)
    }
    for _ in range(2):  # it can be asked again
        found = list(two.sample(REQUESTS, SETTINGS))
        assert len(found) == sum(len(request.samples) for request in REQUESTS)
        assert {(one.problem, one.sample): (one.text, one.tokens) for one in found} == expected


def test_without_requests_there_is_nothing_to_wait_for(two):
    assert list(two.sample([], SETTINGS)) == []


def test_a_process_that_is_killed_ends_the_sampling_and_the_others(two):
    pids = [process.pid for process in two.processes]
    asked = [Request(str(i), "Print the number.", tuple(range(200))) for i in range(4)]
    drawn = two.sample(asked, SETTINGS)
    next(drawn)
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="a sampling process ended"):
        list(drawn)
    assert alive(pids) == []


def test_what_goes_wrong_in_a_process_is_told_here():
    """A mistake that needs no torch to be one, which takes longer to import than all the rest."""
    with pytest.raises(RuntimeError, match=r"failed: TypeError.*multiple values.*'model'"):
        ProcessSampler(1, str(folder()), "transformers", {"model": 1})


@pytest.mark.parametrize(
    ("given", "found"), [("", ["0", "1", "2"]), ("4,GPU-a,6", ["4", "GPU-a", "6"])]
)
def test_every_process_has_a_gpu_by_the_name_that_is_in_force(monkeypatch, given, found):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert visible_gpus() == found


def test_processes_are_dealt_over_the_gpus_and_wait_for_each_other_on_one(monkeypatch):
    """Without a GPU: what is started, in which order, and what it is told."""
    happened: list[tuple[str, int]] = []
    told: list[tuple[str | None, dict]] = []

    class Process:
        def __init__(self, args, **_):
            told.append((args[2], args[5]))

        def start(self):
            happened.append(("start", len(told) - 1))

        def kill(self): ...
        def join(self, _=None): ...

    class End:
        def __init__(self, number):
            self.number = number

        def recv(self):
            happened.append(("ready", self.number))
            return "ready", None

        def close(self): ...

    class Context:
        def Pipe(self):  # noqa: N802
            return End(len(told)), End(-1)

        def Process(self, target, args, name):  # noqa: N802
            return Process(args)

    monkeypatch.setattr(module.multiprocessing, "get_context", lambda _: Context())
    monkeypatch.setattr(module, "visible_gpus", lambda: ["0", "7"])
    ProcessSampler(3, "m", "vllm", {"batch": 8}).close()
    assert [gpu for gpu, _ in told] == ["0", "7", "0"]
    assert told[0][1] == {"gpu_memory_utilization": 0.45, "batch": 8}
    start, ready = "start", "ready"
    assert happened == [(start, 0), (start, 1), (ready, 0), (start, 2), (ready, 1), (ready, 2)]
    happened.clear()
    told.clear()
    ProcessSampler(
        3, "m", "vllm", {"kv_cache_memory_bytes": 10**9}
    ).close()  # nothing to be measured
    assert happened == [*((start, i) for i in range(3)), *((ready, i) for i in range(3))]


@pytest.mark.parametrize(
    ("count", "backend", "why"), [(0, "vllm", "at least 1"), (2, "openai", "server")]
)
def test_what_cannot_be_is_refused(count, backend, why):
    with pytest.raises(ValueError, match=why):
        ProcessSampler(count, "m", backend, {})
