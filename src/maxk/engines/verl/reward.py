"""The Verifier as a reward function of verl: one pool of jails per node, shared by all workers.

    reward.custom_reward_function.path=pkg://maxk.engines.verl.reward
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.workers=64

verl runs many reward workers on a node, and each of them many coroutines. They all ask one actor of
Ray, which has the jails. It holds at most `queue` programs; a caller that finds it full waits and
asks again. A caller whose actor is killed makes a new one and asks again, so that a verdict is
late and never lost. A fault of the machinery is an error, never a reward of 0.
"""

import asyncio
import functools
import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from maxk.records import Problem, RewardKind, Test, Verdict
from maxk.schema import tests_from_json, tests_to_json
from maxk.verify import Limits, Verifier, program_for

ATTEMPTS = 20  # to get a verdict out of actors that die; each has a new actor
PATIENCE = (0.02, 1.0)  # seconds to wait for an actor that is full, at first and at most


@dataclass(frozen=True)
class Pool:
    """The jails of one node. The first caller's settings count."""

    workers: int | None = None  # None: two per core
    queue: int | None = None  # programs that the actor holds at most; None: four per worker
    cpu_seconds: float = 4.0
    wall_seconds: float = 20.0
    memory_bytes: int = 512 * 2**20
    allow_unsafe: bool = False


def row(problem: Problem, index: int = 0) -> dict[str, Any]:
    """A problem as a row of verl's data sets."""
    asked = {"entry_point": problem.entry_point, "preamble": problem.preamble}
    truth = {"tests": tests_to_json(problem.tests), **asked}
    return {
        "data_source": problem.origin or "maxk",
        "prompt": problem.prompt,
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
    """What verl calls for each completion; `settings` are those of `Pool`."""
    problem = problem_of(ground_truth)
    program = program_for(problem, solution_str)
    if not program.strip():
        return {"score": 0.0, "acc": 0.0}
    tests, pool = json.loads(ground_truth)["tests"], Pool(**settings)
    verdict = await judge(program, tests, pool)
    return {"score": verdict.reward(kind), "acc": float(verdict.passed)}


@functools.lru_cache(maxsize=1024)
def problem_of(ground_truth: str) -> Problem:
    """What extraction needs to know of a problem."""
    truth = json.loads(ground_truth)
    return Problem("", "", (), entry_point=truth["entry_point"], preamble=truth["preamble"])


async def judge(program: str, tests: str, pool: Pool = Pool()) -> Verdict:  # noqa: B008
    """A verdict of this node's jails, whatever becomes of the actor that has them."""
    wait, most = PATIENCE
    deaths = 0
    while True:
        try:
            verdict = await front(pool).judge.remote(program, tests)
        except RayActorError as error:
            deaths += 1
            if deaths == ATTEMPTS:
                raise
            if not isinstance(error, ActorUnavailableError):
                await asyncio.sleep(PATIENCE[0])
            continue
        if verdict is not None:
            return verdict
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(2 * wait, most)


def front(pool: Pool) -> Any:
    """The actor of this node, made if it is not there."""
    node = ray.get_runtime_context().get_node_id()
    return Front.options(
        name=f"maxk-verifier-{node}",
        get_if_exists=True,
        num_cpus=0,  # verl has given out the cores already
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    ).remote(asdict(pool))


@ray.remote
class Front:
    """The jails of a node behind a queue of bounded length."""

    def __init__(self, settings: dict[str, Any]) -> None:
        pool = Pool(**settings)
        limits = Limits(pool.cpu_seconds, pool.wall_seconds, pool.memory_bytes)
        self.verifier = Verifier(pool.workers, limits, pool.allow_unsafe)
        count = len(self.verifier.workers)
        self.threads = ThreadPoolExecutor(count)
        self.room = pool.queue or 4 * count
        self.held = self.most_held = self.judged = self.refused = 0
        self.read = functools.lru_cache(maxsize=1024)(tests_from_json)

    async def judge(self, program: str, tests: str) -> Verdict | None:
        """The verdict, or None if the queue is full."""
        if self.held >= self.room:
            self.refused += 1
            return None
        self.held += 1
        self.most_held = max(self.held, self.most_held)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.threads, self._judge, program, tests)
        finally:
            self.held -= 1
            self.judged += 1

    def _judge(self, program: str, tests: str) -> Verdict:
        asked: Sequence[Test] = self.read(tests)
        [verdict] = self.verifier.judge([(program, asked)])
        return verdict

    async def figures(self) -> dict[str, int]:
        """What has happened since this actor was made."""
        names = ("held", "most_held", "judged", "refused", "room")
        return {name: getattr(self, name) for name in names}
