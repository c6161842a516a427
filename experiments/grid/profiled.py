"""Where the time of one update goes, by torch's profiler: `run --profile STEP`.

It writes profile.json beside the cell's stages: seconds of the update, of them those in which the
GPU computed, and what was called, kernels and operators, most expensive first. With the profiler an
update is slower than without; `seconds/update` of the other steps says by how much.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import TrainerCallback

_MOST = 40  # lines


class Profiled(TrainerCallback):
    """Profiles one optimiser step of a training: the one after so many."""

    def __init__(self, after: int, file: Path) -> None:
        self.after, self.file = after, file
        self.running: profile | None = None
        self.begun = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.after:
            kinds = [ProfilerActivity.CPU]
            if torch.cuda.is_available():
                kinds.append(ProfilerActivity.CUDA)
                torch.cuda.synchronize()
            self.running = profile(activities=kinds)
            self.running.start()
            self.begun = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.running is None:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.begun
        self.running.stop()
        self.file.write_text(json.dumps(account(self.running, seconds), indent=1) + "\n")
        self.running = None


def account(seen: profile, seconds: float) -> dict[str, Any]:
    """What was called: the GPU's own time, and that of the operators themselves on the CPU."""
    events = seen.key_averages()
    kernels = [e for e in events if e.device_type.name != "CPU"]
    calls = [e for e in events if e.device_type.name == "CPU"]
    on_gpu = sum(e.self_device_time_total for e in kernels) / 1e6
    return {
        "seconds": round(seconds, 4),
        "gpu_seconds": round(on_gpu, 4),
        "kernels": sum(e.count for e in kernels),
        "calls": sum(e.count for e in calls),
        "by_gpu": lines(kernels, "self_device_time_total"),
        "by_cpu": lines(calls, "self_cpu_time_total"),
    }


def lines(events: list[Any], key: str) -> list[dict[str, Any]]:
    found = sorted(events, key=lambda e: -getattr(e, key))[:_MOST]
    return [
        {"name": e.key[:100], "count": e.count, "ms": round(getattr(e, key) / 1e3, 2)}
        for e in found
    ]
