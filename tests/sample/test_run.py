"""`sample`: a run's folder filled, stopped, gone on with, judged, shared between machines."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from maxk.data import load
from maxk.grade.parallel import grade_run
from maxk.grade.run import grade_parts
from maxk.prompts import messages
from maxk.records import CallTest, Problem, Status, StdinTest, TestResult, Verdict
from maxk.sample import Completion, Request, Sampling, join, sample, shard_of
from maxk.sample.run import Progress
from maxk.store.run import Run, RunError
from maxk.store.tables import PROBLEMS, pairs_of, problems_of
from maxk.verify import Limits, Verifier, VerifierSettings
from tests.tiny import tiny_model

SETTINGS = Sampling(max_tokens=12, chat=False)
DOUBLE = "```python\nprint(int(input()) * 2)\n```"


def problems(count: int = 5) -> list[Problem]:
    tests = [StdinTest(str(i), str(2 * i)) for i in range(4)]
    return [Problem(f"p/{i}", f"Double it, {i}.", tests) for i in range(count)]


class Fixed:
    """A sampler whose completions say what they are of, or are given by sample number."""

    def __init__(self, texts: dict[int, str] | None = None, stop_after: int | None = None):
        self.texts, self.stop_after = texts or {}, stop_after
        self.asked: list[Request] = []

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        left = self.stop_after
        for request in requests:
            self.asked.append(request)
            for i in request.samples:
                if left == 0:
                    raise KeyboardInterrupt
                left = None if left is None else left - 1
                text = self.texts.get(i, f"{request.problem} {i} {settings.seed}")
                yield Completion(request.problem, i, text, len(text), "stop", -1.5, 0.25)


def start(folder: Path, **more) -> Run:
    settings = dataclasses.asdict(SETTINGS)
    return Run.start(folder, "sample", {"model": "m", "n": 8, "settings": settings, **more})


def rows(run: Run, table: str = "completions") -> list[dict]:
    found = run.read(table).to_pylist()
    return sorted(found, key=lambda row: (row["problem"], row["sample"]))


def test_a_run_has_every_sample_of_every_problem(tmp_path):
    run = start(tmp_path / "run")
    state = sample(problems(), Fixed(), run, 8, SETTINGS, part_rows=7)
    assert (state.total, state.done, state.new) == (40, 40, 40)
    assert pairs_of(run) == {(f"p/{i}", j) for i in range(5) for j in range(8)}
    assert rows(run)[9] == {
        "problem": "p/1",
        "sample": 1,
        "completion": "p/1 1 0",
        "tokens": 7,
        "finish": "stop",
        "logprob": -1.5,
        "entropy": 0.25,
    }
    assert run.parts("completions") == [f"{i:06d}" for i in range(6)]
    assert len((run.folder / "environment.jsonl").read_text().splitlines()) == 1


class Silent(Fixed):
    """A sampler that says of every other completion how many tokens it has."""

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        for each in super().sample(requests, settings):
            yield dataclasses.replace(each, tokens=None if each.sample % 2 else 7)


def test_unknown_numbers_of_tokens_stay_unknown(tmp_path):
    run = start(tmp_path / "run")
    state = sample(problems(2), Silent(), run, 4, SETTINGS)
    assert state.tokens is None
    assert state.rate.endswith(" completions/s")
    assert [row["tokens"] for row in rows(run)] == [7, None, 7, None] * 2
    whole = sample(problems(2), Fixed(), start(tmp_path / "whole"), 4, SETTINGS)
    assert whole.tokens == 2 * 4 * len("p/1 1 0")
    assert whole.rate.endswith(" tokens/s")


def test_columns_have_the_documented_types(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(1), Fixed(), run, 2, SETTINGS, grading=JUDGING)
    types = {field.name: str(field.type) for field in run.read("completions").schema}
    assert types == {
        "problem": "string",
        "sample": "int32",
        "completion": "string",
        "tokens": "int32",
        "finish": "string",
        "logprob": "double",
        "entropy": "float",
    }
    types = {field.name: str(field.type) for field in run.read("verdicts").schema}
    assert types == {
        "problem": "string",
        "sample": "int32",
        "reward": "double",
        "passed": "bool",
        "status": "string",
        "program": "string",
        "same_as": "int32",
        "tests": "string",
    }


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path):
    run = start(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        sample(problems(), Fixed(stop_after=19), run, 8, SETTINGS, part_rows=7)
    assert len(pairs_of(run)) == 19  # those of the part that was not full, too
    rest = Fixed()
    state = sample(problems(), rest, start(tmp_path / "run"), 8, SETTINGS, part_rows=7)
    assert (state.earlier, state.new) == (19, 21)
    assert [len(request.samples) for request in rest.asked] == [5, 8, 8]
    whole = start(tmp_path / "whole")
    sample(problems(), Fixed(), whole, 8, SETTINGS)
    assert rows(run) == rows(whole)
    done = Fixed()
    sample(problems(), done, run, 8, SETTINGS)
    assert done.asked == []


class Prompted(Fixed):
    """Completions that say which prompt they are of."""

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        requests = list(requests)
        asked = {(r.problem, i): cast(Any, r.prompt)[-1] for r in requests for i in r.samples}
        for one in super().sample(requests, settings):
            yield dataclasses.replace(one, text=asked[one.problem, one.sample]["content"])


VARIANTS = ["Use no library.", "", "Mind the edge cases."]


def variant_of(row: dict) -> str:
    """What the prompt of a completion ends with, after that of its problem."""
    (problem,) = [each for each in problems() if each.id == row["problem"]]
    return row["completion"].removeprefix(messages(problem)[0]["content"]).removeprefix("\n")


def test_each_sample_has_its_prompt_variant_by_its_number(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(), Prompted(), run, 8, SETTINGS, prompt_variants=VARIANTS)
    found = rows(run)
    assert [variant_of(row) for row in found] == [VARIANTS[row["sample"] % 3] for row in found]
    assert len(found) == 40
    plain = start(tmp_path / "plain")
    sample(problems(), Prompted(), plain, 8, SETTINGS)
    assert {variant_of(row) for row in rows(plain)} == {""}


def test_a_stopped_run_goes_on_with_the_same_prompt_variants(tmp_path):
    run, whole = start(tmp_path / "run"), start(tmp_path / "whole")
    for stop_after in (19, 4, None):  # in the middle of a problem and of a variant
        sampler = Prompted(stop_after=stop_after)
        with contextlib.suppress(KeyboardInterrupt):
            sample(problems(), sampler, run, 8, SETTINGS, prompt_variants=VARIANTS, part_rows=7)
    sample(problems(), Prompted(), whole, 8, SETTINGS, prompt_variants=VARIANTS)
    assert rows(run) == rows(whole)
    # More samples later: the numbers go on, and so do the variants.
    sample(problems(), Prompted(), run, 11, SETTINGS, prompt_variants=VARIANTS)
    assert [variant_of(row) for row in rows(run)] == [VARIANTS[i % 3] for i in range(11)] * 5


def test_an_interrupt_at_any_moment_loses_and_doubles_nothing(tmp_path, monkeypatch):
    """Ctrl-C before and after the renaming of a part, and before the next is begun."""
    write = Run.write
    for moment in ("before", "after"):
        run = start(tmp_path / moment)
        hit = False

        def interrupted(self, table, part, rows, moment=moment):
            nonlocal hit
            if moment == "after" or hit or table == "problems":
                write(self, table, part, rows)
            if not hit and table == "completions":
                hit = True
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Run, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                sample(problems(), Fixed(), run, 8, SETTINGS, part_rows=7)
        assert len(pairs_of(run)) == 7
        sample(problems(), Fixed(), run, 8, SETTINGS, part_rows=7)
        assert len(pairs_of(run)) == 40


KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
from maxk.sample.native.engine import TransformersSampler
from tests.sample.test_run import SETTINGS, problems, roomy, sample, start
run = start(sys.argv[1])
write = type(run).write
def killed(self, table, part, rows):
    if len(self.parts("completions")) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, table, part, rows)
type(run).write = killed
sample(problems(), TransformersSampler(*roomy(), batch=4), run, 8, SETTINGS, part_rows=3)
"""


def roomy():
    """The tiny model with room for a whole prompt, letter by letter."""
    model, tokenizer = tiny_model()
    model.config.max_position_embeddings = 512
    return model, tokenizer


def test_a_run_that_is_killed_ends_as_one_that_was_not(tmp_path):
    from maxk.sample.native.engine import TransformersSampler

    killed, whole = tmp_path / "killed", start(tmp_path / "whole")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(killed)], check=False)
    assert ended.returncode == -signal.SIGKILL
    there = len(pairs_of(Run.open(killed)))
    assert 0 < there < 40
    model = TransformersSampler(*roomy(), batch=4)
    run = start(killed)
    assert sample(problems(), model, run, 8, SETTINGS).new == 40 - there
    sample(problems(), TransformersSampler(*roomy()), whole, 8, SETTINGS)
    for one, two in zip(rows(run), rows(whole), strict=True):
        assert one["logprob"] == pytest.approx(two["logprob"], abs=1e-4)
        assert one["entropy"] == pytest.approx(two["entropy"], abs=1e-5)
        one["logprob"] = one["entropy"] = two["logprob"] = two["entropy"] = None
        assert one == two


def test_a_run_of_other_problems_is_refused(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(), Fixed(), run, 2, SETTINGS)
    changed = problems()
    changed[3] = dataclasses.replace(changed[3], tests=[StdinTest("1", "3")])
    with pytest.raises(RunError, match="another problem 'p/3'"):
        sample(changed, Fixed(), run, 2, SETTINGS)
    with pytest.raises(RunError, match="has 5 problems; 4 are asked for"):
        sample(problems(4), Fixed(), run, 2, SETTINGS)
    with pytest.raises(ValueError, match="two have the same id"):
        sample([*problems(2), *problems(1)], Fixed(), start(tmp_path / "b"), 2, SETTINGS)


def test_problems_come_back_as_they_were(tmp_path):
    odd = Problem(
        *("odd/1", "Uml\u00e4ut \U0001f600", [CallTest("f", ((1, {2}), "\ud800"), {1: (2,)})]),
        entry_point="f",
        reference="def f(): ...",
        difficulty="hard",
        origin="x",
        examples=(CallTest("f", (1,), 2),),
        starter="def f",
        preamble="import re",
        time_limit=1.5,
        tags=("a", "b"),
    )
    given = [*load("starter", "all"), odd]
    run = start(tmp_path / "run")
    sample(given, Fixed(), run, 1, SETTINGS)
    found = problems_of(run)
    assert found == [dataclasses.replace(p, tests=list(p.tests)) for p in given]
    stored = run.read("problems").to_pylist()
    assert [json.loads(row["prompt"]) for row in stored] == [messages(p) for p in given]
    assert set(PROBLEMS.names) - {"prompt"} == {f.name for f in dataclasses.fields(Problem)}


# --- judging -------------------------------------------------------------------------------------

TEXTS = {
    0: DOUBLE,
    1: "```python\nn = int(input())\nprint(n * 2 if n < 2 else 0)\n```",
    2: "```python\nx = = 1\n```",
    3: "",
    4: "```python\nraise KeyError\n```",
}


JUDGING = VerifierSettings(workers=2, limits=Limits(cpu_seconds=1.0, wall_seconds=5.0))


def test_completions_are_judged_while_others_are_sampled(tmp_path):
    run = start(tmp_path / "run")
    first_verdict = threading.Event()

    class Waiting(Fixed):
        def sample(self, requests, settings):
            for i, completion in enumerate(super().sample(requests, settings)):
                if i == 12:
                    assert first_verdict.wait(30)
                yield completion

    def watch():
        while not run.parts("verdicts"):
            time.sleep(0.01)
        first_verdict.set()

    threading.Thread(target=watch, daemon=True).start()
    seen: list[Progress] = []
    state = sample(
        *(problems(4), Waiting(TEXTS), run, 5, SETTINGS),
        grading=JUDGING,
        part_rows=3,
        progress=seen.append,
    )
    assert (state.graded, state.reward) == (20, 4 * 1.5)
    assert seen
    found = rows(run, "verdicts")
    assert [row["reward"] for row in found] == [1.0, 0.5, 0.0, 0.0, 0.0] * 4
    assert [row["passed"] for row in found] == [True, False, False, False, False] * 4
    wanted = ["passed", "wrong answer", "did not compile", "no program", "runtime error"]
    assert [row["status"] for row in found] == wanted * 4
    assert json.loads(found[1]["tests"])["tests"][3][0] == "wrong answer"
    assert run.parts("verdicts") == run.parts("completions")


def test_verdicts_that_are_missing_are_made_when_the_run_goes_on(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(3), Fixed(TEXTS), run, 5, SETTINGS, part_rows=4)
    assert not run.parts("verdicts")
    state = sample(problems(3), Fixed(TEXTS), run, 5, SETTINGS, grading=JUDGING)
    assert (state.new, state.graded) == (0, 15)
    assert pairs_of(run, "verdicts") == pairs_of(run)


def test_a_run_is_judged_again_without_model_and_data(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(3), Fixed(TEXTS), run, 5, SETTINGS, part_rows=4)
    assert grade_run(run, JUDGING) == 15
    assert grade_run(run, JUDGING) == 0
    os.unlink(run.folder / "verdicts" / "000001.parquet")
    assert grade_run(run, JUDGING) == 4
    other = VerifierSettings(workers=1, limits=Limits(cpu_seconds=2.0, wall_seconds=5.0))
    with pytest.raises(RunError, match=r"limits.cpu_seconds: 1.0 there, 2.0 asked"):
        grade_run(run, other)
    assert grade_run(run, other, "verdicts-slow") == 15
    rewards = [[row["reward"] for row in rows(run, f"verdicts{x}")] for x in ("", "-slow")]
    assert rewards[0] == rewards[1]


def test_an_interrupt_ends_the_judging_soon_and_writes_no_half_of_a_part(tmp_path):
    run = start(tmp_path / "run")
    slow = dict.fromkeys(range(8), "```python\nimport time\ntime.sleep(0.4)\n```")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sample(
            *(problems(5), Fixed(slow, stop_after=30), run, 8, SETTINGS),
            grading=JUDGING,
            part_rows=16,
        )
    assert time.monotonic() - began < 15  # all of them would take 30 * 4 * 0.4 / 2 = 24 s
    assert len(pairs_of(run)) == 30
    assert len(pairs_of(run, "verdicts")) in (0, 16)


def test_a_judge_that_cannot_start_says_so_before_anything_is_sampled(tmp_path):
    run = start(tmp_path / "run")
    with pytest.raises(ValueError, match="workers=0 must be at least 1"):
        sample(problems(), Fixed(), run, 8, SETTINGS, grading=VerifierSettings(workers=0))
    assert not run.parts("completions")


def test_a_judge_that_dies_ends_the_run_and_the_next_start_makes_up_for_it(tmp_path, graders):
    run = start(tmp_path / "run")

    class Killing(Fixed):
        def sample(self, requests, settings):
            for i, completion in enumerate(super().sample(requests, settings)):
                if i == 15:
                    (judge,) = graders
                    judge.kill()
                    judge.wait()
                yield completion

    with pytest.raises(RuntimeError, match="the process that grades ended before"):
        sample(problems(), Killing(TEXTS), run, 5, SETTINGS, grading=JUDGING, part_rows=3)
    assert 15 < len(pairs_of(run)) < 25
    sample(problems(), Fixed(TEXTS), run, 5, SETTINGS, grading=JUDGING, part_rows=3)
    assert len(pairs_of(run)) == 25
    assert pairs_of(run, "verdicts") == pairs_of(run)


def test_equal_programs_for_a_problem_run_once(tmp_path):
    run = start(tmp_path / "run")
    texts = {0: TEXTS[0], 1: f"Another way to say it:\n{TEXTS[0]}", 2: TEXTS[1], 3: TEXTS[0]}
    texts[4] = texts[0].replace("```python\n", "```python\n\n# the same once more\n")
    assert "# the same" in texts[4]
    sample(problems(2), Fixed(texts), run, 5, SETTINGS)
    judged = []

    class Counting(Verifier):
        def judge(self, jobs, done=None):
            judged.extend(program for program, _ in jobs)
            return super().judge(jobs, done)

    with Counting(workers=1) as verifier:
        grade_parts(run, run.parts("completions"), verifier, "verdicts", lambda *_: None)
    assert len(judged) == 4  # two for each problem
    found = rows(run, "verdicts")
    assert [row["reward"] for row in found] == [1.0, 1.0, 0.5, 1.0, 1.0] * 2
    assert [row["same_as"] for row in found] == [None, 0, None, 0, 0] * 2
    assert "# the same once more" in found[4]["program"]


def test_a_slow_program_does_not_keep_other_parts_waiting(tmp_path):
    run = start(tmp_path / "run")
    slow = "```python\nimport time\ntime.sleep(1)\nprint(input())\n```"
    sample(problems(1), Fixed({0: slow, 1: TEXTS[0]}), run, 2, SETTINGS, part_rows=1)
    with Verifier(workers=2) as verifier:
        grade_parts(run, ["000000", "000001"], verifier, "verdicts", lambda *_: None)
    first, second = ((run.folder / "verdicts" / f"00000{i}.parquet").stat() for i in (0, 1))
    assert first.st_mtime > second.st_mtime + 1


def test_the_status_of_a_verdict_is_the_most_telling():
    def verdict(*statuses: Status) -> Verdict:
        return Verdict(tuple(TestResult(status) for status in statuses), "A")

    assert verdict(Status.PASSED, Status.PASSED).status == "passed"
    assert verdict(Status.PASSED, Status.WRONG_ANSWER).status == "wrong answer"
    assert verdict(Status.WRONG_ANSWER, Status.TIMEOUT).status == "timeout"
    assert {verdict(status).status for status in Status} == {s.value for s in Status}
    assert verdict().status == "no tests"


# --- shards --------------------------------------------------------------------------------------


def shard(
    folder: Path,
    which: str,
    n: int = 4,
    grading: VerifierSettings | None = None,
    count: int = 5,
    **more,
) -> Run:
    run = start(folder / which.replace("/", "of"), **{"shard": which, "n": n, **more})
    sample(
        *(shard_of(problems(count), which), Fixed(TEXTS), run, n, SETTINGS),
        grading=grading,
        part_rows=3,
    )
    return run


def test_merged_shards_are_the_whole_run(tmp_path):
    whole = start(tmp_path / "whole", n=4)
    sample(problems(), Fixed(TEXTS), whole, 4, SETTINGS, grading=JUDGING)
    shards = [shard(tmp_path, f"{i}/2", grading=JUDGING).folder for i in (2, 1)]
    merged = join(shards, tmp_path / "merged")
    assert merged.config == whole.config
    assert rows(merged) == rows(whole)
    assert problems_of(merged) == problems_of(whole) == problems()
    assert [r["status"] for r in rows(merged, "verdicts")] == [
        r["status"] for r in rows(whole, "verdicts")
    ]
    again = Fixed()
    sample(problems(), again, merged, 4, SETTINGS, grading=JUDGING)
    assert again.asked == []


def test_more_shards_than_problems_make_a_run_too(tmp_path):
    shards = [shard(tmp_path, f"{i}/3", grading=JUDGING, count=2) for i in (1, 2, 3)]
    assert [len(problems_of(each)) for each in shards] == [1, 1, 0]
    merged = join([each.folder for each in shards], tmp_path / "merged")
    assert problems_of(merged) == problems(2)
    assert len(pairs_of(merged)) == len(pairs_of(merged, "verdicts")) == 8


def test_shards_that_do_not_make_a_run_are_refused(tmp_path):
    one, two = shard(tmp_path, "1/2").folder, shard(tmp_path, "2/2").folder
    with pytest.raises(RunError, match="runs are the shards 1/2; give 1/2, 2/2"):
        join([one], tmp_path / "m")
    with pytest.raises(RunError, match="runs are the shards 1/2, 1/2; give"):
        join([one, one], tmp_path / "m")
    other = shard(tmp_path / "other", "2/2", model="another").folder
    with pytest.raises(RunError, match="model: 'm' there, 'another' asked"):
        join([one, other], tmp_path / "m")
    run = Run.open(two)
    run.remove("completions", run.parts("completions")[-1])
    with pytest.raises(RunError, match=r"2 of 20 completions are missing, of p/3; repeat"):
        join([one, two], tmp_path / "m")
    run.write("completions", "000009", Run.open(one).read("completions"))
    with pytest.raises(RunError, match="has completions that another shard has too: p/0, p/2, p/4"):
        join([one, two], tmp_path / "m")
    with pytest.raises(RunError, match="is not a shard of a sampling run"):
        join([start(tmp_path / "x").folder], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_shares_are_disjoint_and_all(tmp_path):
    shares = [shard_of(problems(), f"{i}/3") for i in (1, 2, 3)]
    assert sorted(p.id for each in shares for p in each) == [p.id for p in problems()]
    for wrong in ("0/2", "3/2", "1", "a/b", "-1/2"):
        with pytest.raises(ValueError, match="use 1/2 for the first of two"):
            shard_of(problems(), wrong)


def test_a_completion_that_is_there_twice_is_an_error(tmp_path):
    run = start(tmp_path / "run")
    sample(problems(1), Fixed(), run, 3, SETTINGS)
    run.write("completions", "000009", run.read("completions").slice(0, 2))
    assert isinstance(run.read("completions"), pa.Table)
    with pytest.raises(RunError, match="has 2 completions twice"):
        sample(problems(1), Fixed(), run, 3, SETTINGS)
