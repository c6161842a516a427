"""Pretrains the small model from scratch: `python -m experiments.pocket.pretrain --out FOLDER`.

The examples are new in every step, so the loss of training is the loss on fresh data. It counts the
program's tokens alone. Stopped and repeated with the same arguments, the command goes on from its
last checkpoint.
"""

import csv
import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from experiments.pocket.model import CHARACTERS, EOS, PAD, PROMPT, UNKNOWN, model, save
from maxk.pocket.world import examples

GROUP = 16  # batches that are made together and sorted by length: less padding
# Tokens by byte: 0 pads, 1 ends a program.
_IDS = np.full(128, UNKNOWN, np.int16)
_IDS[[0, 1]] = PAD, EOS
_IDS[[*CHARACTERS.encode()]] = range(3, 3 + len(CHARACTERS))


@dataclass(frozen=True)
class Pretrain:
    """Train the pocket model."""

    out: Path
    """folder for the model, its loss curve and the state to go on from"""
    steps: int = 6000
    batch: int = 512
    """examples in a step"""
    lr: float = 2e-3
    """highest learning rate, after the warm-up"""
    warmup: float = 0.03
    """share of the steps"""
    layers: int = 4
    width: int = 160
    seed: int = 0
    device: Literal["cpu", "cuda"] = "cpu"
    workers: int = 1
    """processes that make examples"""
    save_every: int = 1000

    def run(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(self.seed)
        net: Any = model(self.layers, self.width)
        net.to(self.device)
        optimizer = torch.optim.AdamW(
            net.parameters(), self.lr, (0.9, 0.98), weight_decay=0.01, fused=True
        )
        state, curve = self.out / "training.pt", self.out / "loss.csv"
        step, tokens, before = 0, 0, 0.0
        if state.exists():
            kept = torch.load(state, map_location=self.device, weights_only=True)
            net.load_state_dict(kept["model"])
            optimizer.load_state_dict(kept["optimizer"])
            step, tokens, before = kept["step"], kept["tokens"], kept["seconds"]
        else:
            curve.write_text("step,loss,tokens,seconds\n")
        print(f"{sum(p.numel() for p in net.parameters()):,} weights, from step {step}")
        start, losses = time.monotonic() - before, []
        for ids_BT, labels_BT in self.batches(step):
            rate = self.lr * schedule(step, self.steps, self.warmup)
            for group in optimizer.param_groups:
                group["lr"] = rate
            losses.append(self.update(net, optimizer, ids_BT, labels_BT))
            tokens += int((ids_BT != PAD).sum())
            step += 1
            if step % 50 == 0 or step == self.steps:
                loss, seconds = float(torch.stack(losses).mean()), time.monotonic() - start
                losses = []
                print(f"step {step} loss {loss:.4f} {tokens / seconds:,.0f} tokens/s", flush=True)
                with curve.open("a") as file:
                    csv.writer(file).writerow([step, f"{loss:.5f}", tokens, f"{seconds:.1f}"])
            if step % self.save_every == 0 or step == self.steps:
                save(net, self.out)
                kept = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
                kept |= {"step": step, "tokens": tokens, "seconds": time.monotonic() - start}
                torch.save(kept, state)

    def batches(self, first: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches from step `first` on, made in other processes."""
        make: Any = functools.partial(group_of_batches, self.seed, self.batch)
        groups: Any = range(first // GROUP, math.ceil(self.steps / GROUP))
        loader = DataLoader(groups, batch_size=None, collate_fn=make, num_workers=self.workers)
        every = (batch for group in loader for batch in group)
        yield from islice(every, first % GROUP, self.steps - first // GROUP * GROUP)

    def update(
        self,
        net: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        ids_BT: Tensor,
        labels_BT: Tensor,
    ) -> Tensor:
        """One step of the optimiser; returns the loss."""
        ids_BT = ids_BT.to(self.device, torch.long, non_blocking=True)
        labels_BT = labels_BT.to(self.device, torch.long, non_blocking=True)
        # Padding is on the right: what is causal never sees it, and needs no mask.
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            logits = net(input_ids=ids_BT[:, :-1]).logits
        loss = cross_entropy(logits.float().flatten(0, 1), labels_BT[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def schedule(step: int, steps: int, warmup: float) -> float:
    """The share of the highest learning rate: linear up, then a cosine down to a twentieth."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return (step + 1) / rising
    done = (step - rising) / max(1, steps - rising)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


def group_of_batches(seed: int, size: int, number: int) -> list[tuple[Tensor, Tensor]]:
    """GROUP batches of tokens and labels; labels are -100 where no loss is counted."""
    rows = []
    for statement, program in islice(examples(f"{seed} {number}"), GROUP * size):
        prompt = PROMPT.format(statement=statement)
        rows.append((len(prompt), f"{prompt}{program}\1".encode()))
    rows.sort(key=lambda row: len(row[1]))
    batches = [padded(rows[i : i + size]) for i in range(0, len(rows), size)]
    Random(f"order {seed} {number}").shuffle(batches)
    return batches


def padded(rows: list[tuple[int, bytes]]) -> tuple[Tensor, Tensor]:
    """The rows as tokens, all as long as the last, which is the longest."""
    longest = len(rows[-1][1])
    text = b"".join(row.ljust(longest, b"\0") for _, row in rows)
    ids_BT = torch.from_numpy(_IDS[np.frombuffer(text, np.uint8)].reshape(len(rows), longest))
    starts_B = torch.tensor([start for start, _ in rows])
    counted_BT = (torch.arange(longest) >= starts_B[:, None]) & (ids_BT != PAD)
    return ids_BT, ids_BT.masked_fill(~counted_BT, -100)


if __name__ == "__main__":
    tyro.cli(Pretrain).run()
