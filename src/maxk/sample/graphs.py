"""Steps of a model, recorded once per shape and repeated: CUDA graphs.

A small model on a GPU spends its time in Python, which starts its kernels one by one. A recorded
step is started as a whole. Its shapes and the memory it reads are fixed, so it is made for a few
numbers of rows, those in use and some that are not, and for all the places that the slots have.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from maxk.sample.slots import Slots

_FEWER = 4  # each number of rows that is recorded is so many times the next

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]


class Steps:
    """One more token for every row of the slots, which must hold whole prompts.

    record: gives what repeats a call on the same memory.
    """

    def __init__(self, model: Any, slots: Slots, record: Record | None = None) -> None:
        self.model, self.slots = model, slots
        self.record = _Recorder() if record is None else record
        self.known: dict[tuple[int, int], tuple[Tensor, Callable[[], Tensor]]] = {}

    def __call__(self, last: Sequence[Sequence[int]]) -> Tensor:
        """The next logits, from each row's last token and its position."""
        self.slots.reserve(max(position for _, position in last) + 1)
        rows = rows_for(len(last), self.slots.slots)
        shape = (rows, self.slots.room)
        there = torch.tensor([*last, *[[0, 0]] * (rows - len(last))])
        if shape in self.known:
            inputs, repeat = self.known[shape]
            inputs.copy_(there)
            return repeat()[: len(last)]
        inputs = there.to(self.model.device)

        def step() -> Tensor:
            mask = self.slots.at(inputs[:, 1], self.slots.room)
            return self.model(
                input_ids=inputs[:, :1],
                position_ids=inputs[:, 1:],
                attention_mask=mask,
                past_key_values=self.slots,
                maxk_slots=self.slots,
            ).logits[:, -1]

        logits = step()  # as it is: what is made at the first call is not to be recorded
        # Graphs for fewer places are of no more use: the slots have moved.
        self.known = {at: found for at, found in self.known.items() if at[1] == self.slots.room}
        self.known[shape] = inputs, self.record(step)
        return logits[: len(last)]


def rows_for(count: int, most: int) -> int:
    """The number of rows that is recorded for so many."""
    rows = most
    while rows // _FEWER >= count:
        rows //= _FEWER
    return rows


class _Recorder:
    """Records on a stream of its own; all graphs share their memory, since one runs at a time."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        # Not torch.cuda.graph, which gives back all memory that a trainer is about to use again.
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
