"""The Verifier as verl's reward function, one pool of jails a node (`maxk.integrations.ray_pool`).

reward.custom_reward_function.path=pkg://maxk.integrations.verl.reward
+reward.custom_reward_function.reward_kwargs.workers=64
+reward.custom_reward_function.reward_kwargs.limits.cpu_seconds=2
"""

import functools
import json
from typing import Any

from maxk.grade import program_for
from maxk.integrations.ray_pool import Pool, judge
from maxk.prompts import messages
from maxk.records import Problem, RewardKind
from maxk.store.codec import tests_to_json


def row(problem: Problem, index: int = 0) -> dict[str, Any]:
    """A problem as a row of verl's data sets."""
    asked = {"entry_point": problem.entry_point, "preamble": problem.preamble}
    truth = {**asked, "tests": tests_to_json(problem.tests)}
    return {
        "data_source": problem.origin or "maxk",
        "prompt": messages(problem),
        "reward_model": {"style": "rule", "ground_truth": json.dumps(truth)},
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
    problem, tests = asked(ground_truth)
    program = program_for(problem, solution_str)
    if not program.strip():
        return {"score": 0.0, "acc": 0.0}
    verdict = await judge(program, tests, Pool.of(settings))
    return {"score": verdict.reward(kind), "acc": float(verdict.passed)}


@functools.lru_cache(maxsize=1024)
def asked(ground_truth: str) -> tuple[Problem, str]:
    """What a row asks for: enough of the problem to find the program, and its tests as JSON."""
    truth = json.loads(ground_truth)
    form = {name: truth[name] for name in ("entry_point", "preamble")}
    return Problem("", "", (), **form), truth["tests"]
