"""Experimental. CUDA graphs: steps of a model, recorded once per shape and replayed.

A small model on a GPU spends its time in Python, which starts its kernels one by one. A recorded
step, with the draw of the tokens, starts as a whole. Its shapes and its memory are fixed, so steps
are recorded for a few numbers of rows, some of them unused, and for a few numbers of places. With
Triton's kernels the number of places does not matter.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk.sample.base import Sampling
from maxk.sample.native.draw import draw, draw_by_blocks
from maxk.sample.native.slots import Slots, next_logits

_FACTOR = 2  # between the recorded numbers of rows
_FEWEST = 64  # rows; a smaller step takes as long, and recording it costs time
_PLACES = 256  # between the recorded numbers of places

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]


class Steps:
    """One more token for every row of the slots, which hold whole prompts and do not grow.

    record: turns a call into one that repeats it on the same memory. kernels: the module
    `maxk.sample.native.kernels`, or None.
    """

    def __init__(
        self,
        model: Any,
        slots: Slots,
        settings: Sampling,
        record: Record | None = None,
        kernels: Any = None,
    ) -> None:
        self.model, self.slots, self.settings, self.kernels = model, slots, settings, kernels
        slots.attend = None if kernels is None else kernels.attend
        self.record = _Recorder() if record is None else record
        self.known: dict[tuple[int, int], tuple[Tensor, Tensor, Callable[[], Tensor]]] = {}

    def __call__(self, last_3B: np.ndarray, uniforms_B: np.ndarray) -> Tensor:
        """Tokens, log-probabilities and entropies [3, rows], from each row's last token, its
        position and its place."""
        count = last_3B.shape[1]
        rows = rows_for(count, self.slots.slots)
        used = self.slots.room
        if self.kernels is None:
            used = min(-(-int(last_3B[2].max() + 1) // _PLACES) * _PLACES, used)
        last = torch.zeros(3, rows, dtype=torch.int64)
        last[:, :count] = torch.from_numpy(last_3B)
        uniforms = torch.zeros(rows, dtype=torch.float64)
        uniforms[:count] = torch.from_numpy(uniforms_B)
        if (rows, used) not in self.known:
            return self._first(last, uniforms, used)[:, :count]
        last_there, uniforms_there, repeat = self.known[rows, used]
        last_there.copy_(last)
        uniforms_there.copy_(uniforms)
        return repeat()[:, :count]

    def _first(self, last: Tensor, uniforms: Tensor, used: int) -> Tensor:
        """A step of a shape that is not recorded yet."""
        device = self.model.device
        last_3R, uniforms_R = last.to(device), uniforms.to(device)

        def step() -> Tensor:
            mask = self.slots.at(last_3R[2], used)
            logits_RV = next_logits(self.model, self.slots, last_3R[0], last_3R[1], mask)
            temperature, top_p = self.settings.temperature, self.settings.top_p
            if self.kernels is not None and temperature > 0 and top_p == 1:
                drawn = draw_by_blocks(logits_RV, uniforms_R, temperature, self.kernels.sums)
            else:
                drawn = draw(logits_RV, uniforms_R, temperature, top_p, dynamic=False)
            return torch.stack([each.double() for each in drawn])

        found = (
            step()
        )  # before recording, so that one-time work of libraries stays out of the graph
        self.known[last.shape[1], used] = last_3R, uniforms_R, self.record(step)
        return found


def kernels_there() -> Any:
    """The Triton kernels; None without Triton, which comes with CUDA builds of torch."""
    try:
        return importlib.import_module("maxk.sample.native.kernels")
    except ImportError:
        return None


def rows_for(count: int, most: int) -> int:
    """The recorded number of rows that serves `count` rows."""
    rows = most
    while rows // _FACTOR >= max(count, _FEWEST):
        rows //= _FACTOR
    return rows


class _Recorder:
    """Records on its own stream; all graphs use one memory pool, since one runs at a time."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        # Not torch.cuda.graph: it frees cached memory that a trainer is about to use again.
        with torch.cuda.stream(self.stream):
            graph.capture_begin(self.pool, capture_error_mode="thread_local")
            try:
                out = step()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self.stream)

        def repeat() -> Tensor:
            graph.replay()
            return out

        return repeat
