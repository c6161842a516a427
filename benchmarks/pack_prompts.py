"""The forward and backward pass of a group: pack_prompts beside TRL's layout, on the CPU.

    .venv/bin/python benchmarks/pack_prompts.py

Random tokens through a Llama of 1.2 million weights: the small model of maxk. A batch has 8 prompts
with n completions each, of random lengths around a mean. Ways take turns; a ratio is the median
over the rounds of two times of the same round. Seconds are the process's own, on one thread.
"""

import statistics
import time
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from maxk.pocket import folder
from maxk.train.packing import pack, packed_logps

ROUNDS = 5
SHAPES = [(8, 60, 50), (8, 200, 50), (32, 60, 50), (8, 60, 200)]  # n, prompt, completion


def batch(n: int, prompt: int, completion: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Tokens and their mask as TRL has them, and the width of the completions."""
    generator = torch.Generator().manual_seed(0)

    def lengths(mean: int, count: int) -> list[int]:
        low, high = mean // 2, mean + mean // 2 + 1
        return torch.randint(low, high, (count,), generator=generator).tolist()

    rows = []
    for length in lengths(prompt, 8):
        text = torch.randint(5, 60, (length,), generator=generator).tolist()
        for own in lengths(completion, n):
            rows.append((text, torch.randint(5, 60, (own,), generator=generator).tolist()))
    left, width = (max(len(row[i]) for row in rows) for i in (0, 1))
    ids = [[0] * (left - len(p)) + p + c + [0] * (width - len(c)) for p, c in rows]
    mask = [
        [0] * (left - len(p)) + [1] * (len(p) + len(c)) + [0] * (width - len(c)) for p, c in rows
    ]
    return torch.tensor(ids), torch.tensor(mask), width


def seconds(way: Callable[[], torch.Tensor]) -> float:
    began = time.process_time()
    way().sum().backward()
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder())
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    print(f"torch {torch.__version__}, one thread; 8 prompts, n completions each")
    for n, prompt, completion in SHAPES:
        ids, mask, width = batch(n, prompt, completion)
        labels = ids.masked_fill(mask == 0, -100)
        labels[:, :-width] = -100

        def plain(ids=ids, mask=mask, labels=labels) -> torch.Tensor:
            return model(
                input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True
            ).log_probs

        def shared(ids=ids, mask=mask, width=width) -> torch.Tensor:
            return packed_logps(model, model.config, ids, mask, width)[0]

        for way in (plain, shared):  # the first call of anything is slow
            way()
        times = [(seconds(plain), seconds(shared)) for _ in range(ROUNDS)]
        ratio = statistics.median(theirs / ours for theirs, ours in times)
        there = pack(ids, mask, width, model.config.hidden_size).ids.numel()
        print(
            f"n = {n:<3} prompts of {prompt:<4} completions of {completion:<4} "
            f"{ids.numel():7} and {there:6} places, {ratio:.1f} times as fast",
            flush=True,
        )


if __name__ == "__main__":
    main()
