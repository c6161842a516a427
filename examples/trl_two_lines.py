"""Train for Best-of-N with TRL: two names change, GRPOConfig and GRPOTrainer.

    python examples/trl_two_lines.py MODEL [STEPS]

MODEL is a chat model from the hub or a folder. The problems are the bundled ones, the reward is the
share of unit tests that a completion's program passes, judged in a sandbox.
"""

import sys

import torch
from datasets import Dataset

from maxk.data import load
from maxk.grade import UnitTestReward
from maxk.prompts import messages
from maxk.train import MaxKConfig, MaxKTrainer
from maxk.verify import Verifier


def main(model: str, steps: int = 100) -> None:
    problems = {problem.id: problem for problem in load("starter", "all")}
    rows = [{"prompt": messages(problem), "problem": name} for name, problem in problems.items()]
    config = MaxKConfig(
        output_dir="out/trl_two_lines",
        method="off-policy-exact",
        k=4,
        num_generations=8,
        per_device_train_batch_size=8,
        num_iterations=3,
        max_completion_length=256,
        max_steps=steps,
        learning_rate=5e-6,
        beta=0.0,
        logging_steps=1,
        report_to=[],
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
    )
    with Verifier() as verifier:
        MaxKTrainer(
            model=model,
            reward_funcs=UnitTestReward(verifier, problems),
            args=config,
            train_dataset=Dataset.from_list(rows),
        ).train()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
