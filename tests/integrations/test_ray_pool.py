"""Many processes, one pool of jails, on a real Ray."""

import asyncio
import json
import os
import signal
import time

import pytest

from maxk.records import Problem, StdinTest

ray = pytest.importorskip("ray", reason="Ray comes with verl: make test-verl")

from maxk.integrations.ray_pool import Pool, asked_of, forget, front, grade_on_node  # noqa: E402
from maxk.prompts import messages  # noqa: E402
from maxk.verify import Limits  # noqa: E402

ASKED = asked_of(Problem("double", "", [StdinTest("3", "6"), StdinTest("4", "8")]))
RIGHT = "print(int(input()) * 2)"
HALF = "x = int(input()); print(6 if x == 3 else 0)"
SLOW = f"import time; time.sleep(0.3); {RIGHT}"


@pytest.fixture(autouse=True)
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote(num_cpus=0)
class Caller:
    """A reward worker."""

    async def grade(self, programs: list[str], pool: Pool) -> list[float]:
        texts = [f"```python\n{program}\n```" for program in programs]
        graded = await asyncio.gather(*(grade_on_node(ASKED, text, pool) for text in texts))
        return [each.reward() for each in graded]


def test_settings_of_a_configuration_have_their_limits_in_a_table():
    given = {"workers": 3, "limits": {"cpu_seconds": 2.0}, "queue": 5}
    assert Pool.of(given) == Pool(workers=3, limits=Limits(cpu_seconds=2.0), queue=5)
    assert Pool.of({}) == Pool()
    for wrong, said in (
        ({"cpu_seconds": 2.0}, "cpu_seconds of the verifier is unknown; use limits.cpu_seconds"),
        ({"limits": {"cpu": 2.0}}, r"limits\.cpu of the verifier is unknown; use limits\.cpu_sec"),
        ({"judges": 2}, "judges of the verifier is unknown; use workers, limits, allow_unsafe"),
    ):
        with pytest.raises(ValueError, match=said):
            Pool.of(wrong)


def figures(pool: Pool) -> dict[str, int]:
    return ray.get(front(pool).figures.remote())


def test_callers_in_several_processes_share_one_pool():
    pool = Pool(workers=2)
    callers = [Caller.remote() for _ in range(3)]
    programs = [RIGHT, HALF, "print(0)", "syntax error("] * 5
    got = ray.get([caller.grade.remote(programs, pool) for caller in callers])
    assert got == [[1.0, 0.5, 0.0, 0.0] * 5] * 3
    assert figures(pool)["graded"] == 60


def test_the_actor_never_holds_more_than_its_queue_and_all_get_their_verdicts():
    pool = Pool(workers=1, queue=3)
    callers = [Caller.remote() for _ in range(2)]
    got = ray.get([caller.grade.remote([RIGHT, HALF] * 15, pool) for caller in callers])
    assert got == [[1.0, 0.5] * 15] * 2
    seen = figures(pool)
    assert seen["most_held"] == 3
    assert seen["refused"] > 0
    assert seen["graded"] == 60


@pytest.mark.parametrize("way", ["ray.kill", "SIGKILL"])
def test_killing_the_actor_loses_no_verdict(way):
    pool = Pool(workers=2, queue=4)
    callers = [Caller.remote() for _ in range(2)]
    programs = [SLOW, HALF] * 8
    running = [caller.grade.remote(programs, pool) for caller in callers]
    killed = set()
    while len(killed) < 2:
        time.sleep(0.5)
        try:
            actor = front(pool)
            if ray.get(actor.figures.remote())["held"] == 0:
                continue
            process = ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))
        except ray.exceptions.RayActorError:
            forget(actor)
            continue
        if way == "ray.kill":
            ray.kill(actor)
        else:
            os.kill(process, signal.SIGKILL)
        forget(actor)
        killed.add(process)
    assert ray.get(running) == [[1.0, 0.5] * 8] * 2
    assert figures(pool)["graded"] < 32, "nothing was under way when the actor was killed"


def test_an_actor_that_cannot_be_made_is_an_error_and_no_verdict():
    with pytest.raises(ray.exceptions.RayError, match="workers=0"):
        ray.get(Caller.remote().grade.remote([RIGHT], Pool(workers=0)))


def test_the_reward_function_as_verl_calls_it():
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    from maxk.data import load
    from maxk.integrations.verl.reward import row

    problem = next(p for p in load("starter", "all") if p.entry_point and p.reference)
    given = row(problem)
    kwargs = {"workers": 1, "kind": "binary"}
    where = {"path": "pkg://maxk.integrations.verl.reward", "name": "compute_score"}
    config = {"reward": {"custom_reward_function": {**where, "reward_kwargs": kwargs}}}
    score = get_custom_reward_fn(OmegaConf.create(config))

    def of(text: str) -> dict[str, float]:
        truth = given["reward_model"]["ground_truth"]
        return asyncio.run(
            score(data_source="", solution_str=text, ground_truth=truth, extra_info={})
        )

    assert of(f"Like so:\n```python\n{problem.reference}\n```") == {"score": 1.0, "acc": 1.0}
    assert of("```python\ndef nothing(): pass\n```") == {"score": 0.0, "acc": 0.0}
    assert of("") == {"score": 0.0, "acc": 0.0}
    assert given["prompt"] == messages(problem)
    assert json.loads(given["reward_model"]["ground_truth"])["entry_point"] == problem.entry_point
