"""The Verifier as verl's reward function, one pool of jails a node (`maxk.integrations.ray_pool`).

In the configuration of verl:

    reward.custom_reward_function.path=pkg://maxk.integrations.verl.reward
    +reward.custom_reward_function.reward_kwargs.workers=64
    +reward.custom_reward_function.reward_kwargs.limits.cpu_seconds=2
"""

from typing import Any

from maxk.integrations.ray_pool import Pool, asked_of, grade_on_node
from maxk.prompts import messages
from maxk.records import Problem, RewardKind


def row(problem: Problem, index: int = 0) -> dict[str, Any]:
    """A problem as a row of verl's data sets."""
    return {
        "data_source": problem.origin or "maxk",
        "prompt": messages(problem),
        "reward_model": {"style": "rule", "ground_truth": asked_of(problem)},
        "extra_info": {"index": index, "problem": problem.id},
    }


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,
    kind: RewardKind = "continuous",
    **settings: Any,
) -> dict[str, float]:
    """What verl calls for each completion; `settings` are those of `Pool.of`.

    score is the share of tests passed (kind="binary": 1 for all of them, else 0), acc whether all
    were. A completion without a program scores 0.
    """
    graded = await grade_on_node(ground_truth, solution_str, Pool.of(settings))
    return {"score": graded.reward(kind), "acc": graded.reward("binary")}
