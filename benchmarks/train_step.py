"""Step time of MaxKTrainer beside TRL's GRPOTrainer: same model, same batches, same run.

    python benchmarks/train_step.py [--size tiny|100m] [--groups whole|split] [--rounds 5]

Both train on completions of fixed tokens, so that neither gains by sampling shorter ones; what is
timed is `training_step`, from the rewards to the gradients: CPU time on a CPU, which others on the
machine disturb less, and wall time on a GPU. Rounds of both alternate; of each the fastest batch
of all rounds counts, which is the one that was disturbed least.
"""

import argparse
import contextlib
import io
import logging
import tempfile
import time
import warnings
from typing import Any, cast

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from maxk.train import MaxKConfig, MaxKTrainer

N, PROMPTS = 8, 2
LENGTH = {"tiny": 64, "100m": 16}  # tokens of a completion
SIZES: dict[str, Any] = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "vocab_size": 128,
    },
    "100m": {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "vocab_size": 16_000,
    },
}


def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: i for i, word in enumerate(["<pad>", "<eos>", *map(chr, range(32, 127))])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        eos_token="<eos>",
        model_input_names=["input_ids", "attention_mask"],
    )


def reward(completions: list[Any], **_: Any) -> list[float | None]:
    """Many values, so that no group is without signal."""
    return [sum(map(ord, text)) % 97 / 97 for text in completions]


def clock() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def timed(trainer_class: type[GRPOTrainer]) -> type[GRPOTrainer]:
    """The trainer with fixed completions and the time of every step kept."""

    class Timed(trainer_class):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.seconds: list[float] = []

        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            generator = torch.Generator().manual_seed(self.state.global_step)
            length: int = cast(Any, self.args).max_completion_length
            ids = torch.randint(2, 90, (len(prompt_ids), length), generator=generator)
            return ids.tolist(), None

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            begun = clock()
            loss = super().training_step(*args, **kwargs)
            self.seconds.append(clock() - begun)
            return loss

    return Timed


def round_of(which: str, size: str, micro: int, steps: int) -> float:
    """Seconds an optimiser step in the fastest batch, the first left out."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(num_attention_heads=8, **SIZES[size]))
    accumulation = N * PROMPTS // micro
    common: dict[str, Any] = {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulation,
        "num_generations": N,
        "num_iterations": 3,
        "max_completion_length": LENGTH[size],
        "max_steps": steps + 3,
        "learning_rate": 1e-5,
        "beta": 0.0,
        "loss_type": "dr_grpo",
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "bf16": torch.cuda.is_available(),
        "use_cpu": not torch.cuda.is_available(),
        "gradient_checkpointing": False,
        "logging_steps": 10**6,
    }
    quiet = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, quiet:
        if which == "trl":
            args = GRPOConfig(folder, **common)
        else:
            args = MaxKConfig(folder, method=which, **common)
        trainer: Any = timed(GRPOTrainer if which == "trl" else MaxKTrainer)(
            model=model,
            reward_funcs=reward,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": f"{i:4d}"} for i in range(64)]),
            processing_class=tokenizer(),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    every = 3 * accumulation  # a batch: sampled once, trained on three times
    sums = [sum(trainer.seconds[i : i + every]) for i in range(0, len(trainer.seconds), every)]
    return min(sums[1:]) / 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--groups", choices=("whole", "split"), help="default: both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=24)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.INFO)
    length = LENGTH[given.size]
    print(f"{given.size} model, {N * PROMPTS} completions of {length} tokens, 3 updates a batch")
    print(f"{'':<46}seconds a step   ratio to TRL")
    for micro, groups in ((N, "whole groups in a micro-batch"), (N // 2, "groups split")):
        if given.groups and not groups.count(given.groups):
            continue
        best: dict[str, float] = {}
        for _ in range(given.rounds):
            for which in ("trl", "bon-centered", "off-policy-exact"):
                seconds = round_of(which, given.size, micro, given.steps)
                best[which] = min(seconds, best.get(which, seconds))
        for which, seconds in best.items():
            line = f"{which}, {groups}"
            print(f"{line:<46}{seconds:>14.4f}   {seconds / best['trl']:.3f}", flush=True)


if __name__ == "__main__":
    main()
