"""One pool of jails per node, shared by all processes of a Ray job that are on it.

A trainer on Ray runs many reward workers on a node, each with many coroutines. They all ask one
actor, which has the jails. It holds at most `queue` programs; a caller that finds it full waits and
asks again, so programs wait where they are and not in the actor. A caller whose actor is killed
makes a new one and asks again: a verdict may be late, and none is lost. A fault of the machinery is
an error, never a verdict.
"""

import asyncio
import functools
import json
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from maxk.grade import Graded, grade
from maxk.records import Problem
from maxk.store.codec import tests_from_json, tests_to_json
from maxk.verify import Limits, VerifierSettings

DEATHS = 20  # of actors that a caller lives through for one verdict
PATIENCE = (0.01, 1.0)  # seconds to wait for an actor that is full or dead, at first and at most


@dataclass(frozen=True)
class Pool(VerifierSettings):
    """The jails of one node. The settings of the caller that makes the actor count."""

    queue: int | None = None  # programs that the actor holds at most; None: four per worker

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Pool":
        """From the settings of a configuration, where limits are a table of their own."""
        limits = given.get("limits") or {}
        for name, table, kind in (("", given, cls), ("limits.", limits, Limits)):
            known = [field.name for field in fields(kind)]
            for key in table:
                if key not in known:
                    hint = f"; use limits.{key}" if key in Limits.__dataclass_fields__ else ""
                    hint = hint or f"; use {', '.join(name + each for each in known)}"
                    raise ValueError(f"the setting {name}{key} of the verifier is unknown{hint}")
        return cls(**{**given, "limits": Limits(**limits)})


def asked_of(problem: Problem) -> str:
    """What a completion for this problem is graded by, as JSON."""
    asked = {"entry_point": problem.entry_point, "preamble": problem.preamble}
    return json.dumps({**asked, "tests": tests_to_json(problem.tests)})


def problem_of(asked: str) -> Problem:
    """The problem that `asked_of` wrote, as far as grading needs it."""
    given = json.loads(asked)
    return Problem("", "", tests_from_json(given.pop("tests")), **given)


async def grade_on_node(asked: str, completion: str, pool: Pool = Pool()) -> Graded:  # noqa: B008
    """A completion graded by this node's jails, whatever becomes of the actor that has them.

    asked: as `asked_of` writes it.
    """
    shortest, longest = PATIENCE
    deaths = refusals = 0
    while True:
        actor = front(pool)
        try:
            graded = await actor.grade.remote(asked, completion)
        except RayActorError as error:
            forget(actor)
            deaths += 1
            if error.actor_init_failed or deaths == DEATHS:
                raise
        else:
            if graded is not None:
                return graded
            refusals += 1
        # Ray may name the dead actor for some seconds yet; a full one empties at its own pace.
        wait = min(shortest * 2 ** min(max(deaths, refusals), 10), longest)
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))


_known: dict[str, Any] = {}  # Ray ends an actor when its maker drops the handle


def front(pool: Pool) -> Any:
    """The actor of this node, made if it is not there. It lives as long as the process that did."""
    node = ray.get_runtime_context().get_node_id()
    if node not in _known:
        _known[node] = Front.options(
            name=f"maxk-verifier-{node}",
            get_if_exists=True,
            num_cpus=0,  # the trainer has given out the cores already
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(pool)
    return _known[node]


def forget(actor: Any) -> None:
    """Look for another actor next time, unless that has been done."""
    for node, known in list(_known.items()):
        if known is actor:
            del _known[node]


@ray.remote
class Front:
    """The jails of a node behind a queue of bounded length."""

    def __init__(self, pool: Pool) -> None:
        self.verifier = pool.verifier()
        count = self.verifier.count
        self.threads = ThreadPoolExecutor(count)
        self.room = pool.queue or 4 * count
        self.held = self.most_held = self.graded = self.refused = 0
        self.read = functools.lru_cache(maxsize=1024)(problem_of)

    async def grade(self, asked: str, completion: str) -> Graded | None:
        """The completion with its verdict, or None if the queue is full."""
        if self.held >= self.room:
            self.refused += 1
            return None
        self.held += 1
        self.most_held = max(self.held, self.most_held)
        try:
            loop = asyncio.get_running_loop()
            graded = await loop.run_in_executor(self.threads, self._grade, asked, completion)
        finally:
            self.held -= 1
        self.graded += 1
        return graded

    def _grade(self, asked: str, completion: str) -> Graded:
        [graded] = grade([(self.read(asked), completion)], self.verifier)
        return graded

    async def figures(self) -> dict[str, int]:
        """What has happened since this actor was made."""
        names = ("held", "most_held", "graded", "refused")
        return {name: getattr(self, name) for name in names}
