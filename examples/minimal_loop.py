"""The whole algorithm on one screen of plain torch: sample, reward, weigh, update. No TRL.

    python examples/minimal_loop.py

A random character model learns to write digits, the best of 4 samples counting. `MaxKTrainer` makes
the same updates on any model, batching and number of processes (tests/train/test_minimal_loop.py).
"""

from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from maxk import max_at_k
from maxk.estimators import advantages, mask_sequences

N, K, LENGTH, EOS = 8, 4, 12, 0  # samples a prompt, the k of max@k, tokens, the end's token


def sample(model: Any, prompts_PT: Tensor) -> tuple[Tensor, Tensor]:
    """N completions of every prompt, and which of their tokens are before or at the end."""
    repeated = prompts_PT.repeat_interleave(N, 0)
    ids = model.generate(
        repeated, attention_mask=torch.ones_like(repeated), do_sample=True, max_new_tokens=LENGTH,
        eos_token_id=EOS, pad_token_id=EOS,
    )  # fmt: skip
    completions = ids[:, prompts_PT.shape[1] :]
    ended_before = (completions == EOS).cumsum(1) - (completions == EOS).int()
    return ids, ended_before == 0


def logps(model: LlamaForCausalLM, ids_BT: Tensor, mask_BC: Tensor) -> Tensor:
    """log pi(y|x) of whole completions: the sum over their tokens."""
    logits = model(ids_BT).logits[:, :-1].float()
    tokens = logits.log_softmax(-1).gather(-1, ids_BT[:, 1:, None]).squeeze(-1)
    return (tokens[:, -mask_BC.shape[1] :] * mask_BC).sum(-1)


def update(
    model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, ids_BT: Tensor, mask_BC: Tensor,
    rewards_PN: Tensor, k: int, updates: int = 3, epsilon: float = 0.2,
) -> None:  # fmt: skip
    """Several steps on one batch; the weights follow the policy away from the one that sampled."""
    start = None
    for _ in range(updates):
        now = logps(model, ids_BT, mask_BC)
        start = now.detach() if start is None else start
        log_ratios_PN = (now.detach() - start).view_as(rewards_PN)
        weights = advantages("off-policy-exact", rewards_PN, k, log_ratios_PN)
        weights = mask_sequences(weights, log_ratios_PN, epsilon)
        loss = -(weights.flatten() * now).sum() / mask_BC.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(batches: int = 60) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in range(batches):
        prompts = torch.randint(97, 123, (16, 3))  # lower-case letters
        ids, mask = sample(model, prompts)
        digits = (ids[:, 3:] >= 48) & (ids[:, 3:] < 58) & mask
        rewards = digits.float().mean(-1).view(-1, N)
        update(model, optimizer, ids, mask, rewards, K)
        if batch % 10 == 0 or batch == batches - 1:
            one, best = max_at_k(rewards, [1, K]).mean(0).tolist()
            print(f"batch {batch:3d}   max@1 {one:.3f}   max@{K} {best:.3f}")


if __name__ == "__main__":
    main()
