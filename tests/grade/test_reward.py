"""The reward function: called as TRL calls it, and by TRL itself."""

import json
from typing import Any

import pytest

from maxk.grade import Graded, UnitTestReward, program_for
from maxk.records import CallTest, Problem, StdinTest
from maxk.store.codec import tests_to_json
from maxk.verify import Limits, Verifier

TESTS = [StdinTest(str(i), str(2 * i)) for i in range(4)]
COLUMN = tests_to_json(TESTS)
DOUBLE = "```python\nprint(int(input()) * 2)\n```"
HALF = "```python\nn = int(input()); print(n * 2 if n < 2 else 0)\n```"


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2, limits=Limits(cpu_seconds=1, wall_seconds=5)) as running:
        yield running


def test_kinds_of_reward_as_in_table_1_of_the_paper(verifier):
    given: dict = {"prompts": ["p"] * 2, "completions": [DOUBLE, HALF], "tests": [COLUMN] * 2}
    assert UnitTestReward(verifier)(**given, completion_ids=[[1], [2]]) == [1.0, 0.5]
    assert UnitTestReward(verifier, kind="binary")(**given) == [1.0, 0.0]
    with pytest.raises(ValueError, match="kind='mean' is unknown"):
        UnitTestReward(verifier, kind="mean")  # pyright: ignore[reportArgumentType]


def test_empty_completions_score_0_and_are_not_run(verifier):
    # A program that prints nothing would pass this test; no program is not such a program.
    silent = tests_to_json([StdinTest("", "")])
    reward = UnitTestReward(verifier)
    assert reward(completions=["", "  \n", "```python\n```", "x = 1"], tests=[silent] * 4) == [
        *(0.0, 0.0, 0.0),
        1.0,
    ]
    assert reward.graded[:3] == [Graded()] * 3


def test_of_equal_programs_for_the_same_tests_one_is_run(verifier, monkeypatch):
    given: list[Any] = []
    judge = verifier.judge
    monkeypatch.setattr(
        verifier, "judge", lambda jobs, done: given.extend(jobs) or judge(jobs, done)
    )
    other = tests_to_json([StdinTest("1", "3")])
    completions = [DOUBLE, HALF, DOUBLE, "", DOUBLE]
    rewards = UnitTestReward(verifier)(completions, tests=[COLUMN] * 4 + [other])
    assert rewards == [1.0, 0.5, 1.0, 0.0, 0.0]
    assert len(given) == 3  # the last one has other tests


def test_chat_messages_are_read_from_the_last_one(verifier):
    chats = [
        [{"role": "assistant", "content": DOUBLE}],
        [{"role": "assistant", "content": [{"type": "text", "text": HALF}]}],
        [{"role": "assistant", "content": None}],
        [],
    ]
    assert UnitTestReward(verifier)(completions=chats, tests=[COLUMN] * 4) == [1.0, 0.5, 0.0, 0.0]


def test_tests_may_come_by_the_id_of_the_problem_with_its_preamble(verifier):
    problems = {
        "a": Problem("a", "", TESTS),
        "b": Problem("b", "", [StdinTest("1", "3")]),
        "c": Problem("c", "", [StdinTest("", "3.0")], preamble="from math import *\n"),
    }
    reward = UnitTestReward(verifier, problems=problems)
    completions = [DOUBLE, DOUBLE, "```python\nprint(sqrt(9))\n```", ""]
    assert reward(completions=completions, problem=["a", "b", "c", "c"]) == [1.0, 0.0, 1.0, 0.0]
    assert reward.graded[3] == Graded()


def test_the_block_with_the_function_is_judged_as_in_evaluation(verifier):
    """Of two blocks the one that defines the problem's function counts, in training too."""
    problem = Problem("p", "s", [CallTest("double", (3,), 6)], entry_point="double")
    text = (
        "```python\ndef double(x):\n    return 2 * x\n```\nFor example:\n"
        "```python\ndef show(values):\n    for value in values:\n        print(value)\n```\n"
    )
    reward = UnitTestReward(verifier, {"p": problem})
    assert reward([text], problem=["p"]) == [1.0]
    [verdict] = verifier.judge([(program_for(problem, text), problem.tests)])
    assert verdict.fraction == 1.0


def test_verdicts_are_kept_and_logged(verifier):
    metrics, columns = {}, {}
    reward = UnitTestReward(verifier)
    reward(
        completions=[DOUBLE, HALF, "", "x = ="],
        tests=[COLUMN] * 4,
        log_metric=metrics.__setitem__,
        log_extra=columns.__setitem__,
    )
    verdicts = [each.verdict for each in reward.graded]
    assert [v and v.fraction for v in verdicts] == [1.0, 0.5, None, 0.0]
    assert columns == {
        "verdict": [
            "4/4 passed",
            "2/4 passed, 2 wrong answer",
            "no program",
            "0/4 passed, 4 did not compile",
        ]
    }
    assert metrics["verdict/passed"] == pytest.approx(6 / 12)
    assert metrics["verdict/did_not_compile"] == pytest.approx(4 / 12)
    assert metrics["verdict/no_program"] == 0.25


def test_what_was_started_early_is_waited_for_and_nothing_else_is_taken(verifier, monkeypatch):
    tests = ['[{"input": "", "output": "1"}]'] * 2
    given: dict[str, Any] = {"completions": ["print(1)", ""], "tests": tests}
    reward, judged = UnitTestReward(verifier), []
    judge = verifier.judge

    def watched(jobs, done):
        judged.append([program for program, _ in jobs])
        return judge(jobs, done)

    monkeypatch.setattr(verifier, "judge", watched)
    reward.start(**given, prompts=["", ""])
    assert reward(**given) == [1.0, 0.0]
    assert judged == [["print(1)"]], "judged once, and not again"
    reward.start(**given)
    assert reward(["print(2)", ""], tests=tests) == [0.0, 0.0]
    assert reward(**given) == [1.0, 0.0]
    reward.start(completions=["print(1)"], tests=["no JSON"])
    with pytest.raises(ValueError, match="tests is not JSON"):
        reward(["print(1)"], tests=["no JSON"])


def test_a_data_set_without_tests_is_refused_with_the_way_out(verifier):
    with pytest.raises(ValueError, match=r"no column `tests` .*maxk.store.codec.tests_to_json"):
        UnitTestReward(verifier)(completions=[DOUBLE])
    with pytest.raises(ValueError, match="2 completions and tests for 1"):
        UnitTestReward(verifier)(completions=[DOUBLE, HALF], tests=[COLUMN])


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
def test_trl_trains_with_it(verifier, tmp_path):
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from tests.tiny import tiny_model

    model, tokenizer = tiny_model()
    rows = [{"prompt": f"{i}", "tests": COLUMN} for i in range(4)]
    args = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=4,
        max_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
    )
    reward = UnitTestReward(verifier)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    logged = [
        line for line in trainer.state.log_history if "rewards/unit_tests_continuous/mean" in line
    ]
    assert len(logged) == 2
    assert {"verdict/passed", "verdict/no_program"} <= {
        key.split("train/")[-1] for key in logged[-1]
    }
    assert len(reward.graded) == 4
    assert json.dumps(logged)  # plain numbers
