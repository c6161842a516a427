"""solve: waves, early stop, ties, and what it is judged by."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest

import maxk
from maxk.best_of_n import solve
from maxk.cli.arguments import filled
from maxk.cli.solve import Solve
from maxk.prompts import messages
from maxk.records import Problem, StdinTest
from maxk.sample import Completion, Request, Sampling
from maxk.verify import Verifier

TESTS = tuple(StdinTest(str(i), str(2 * i)) for i in range(4))
RIGHT = "print(int(input()) * 2)"
HALF = "n = int(input()); print(n * 2 if n < 2 else 0)"


class Scripted:
    """A sampler that says what it is told, by the number of the sample."""

    def __init__(self, texts: list[str], tokens: int | None = 10) -> None:
        self.texts, self.asked = texts, list[tuple[int, ...]]()
        self.tokens = tokens

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        for request in requests:
            self.asked.append(request.samples)
            for i in request.samples:
                yield Completion(request.problem, i, self.texts[i], self.tokens, "stop")


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2) as made:
        yield made


def problem(**changes) -> Problem:
    return Problem(**{"id": "double", "statement": "Double it.", "tests": TESTS, **changes})


def test_it_stops_with_the_wave_in_which_one_passes_everything(verifier):
    sampler = Scripted([HALF] * 9 + [RIGHT] + [HALF] * 90)
    seen: list[tuple[int, float]] = []
    solution = solve(
        problem(), sampler, 64, None, verifier, lambda n, v: seen.append((n, v.fraction))
    )
    assert (solution.program, solution.solved) == (RIGHT, True)
    assert (solution.samples, solution.tokens) == (16, 160)
    assert sampler.asked == [tuple(range(8)), tuple(range(8, 16))]
    assert seen == [(8, 0.5), (16, 1.0)]
    assert solution.judged_by == "tests"


def test_without_a_program_that_passes_all_the_best_is_given(verifier):
    sampler = Scripted(["no idea", "print(0)", HALF, "", "print("])
    solution = solve(problem(), sampler, 5, None, verifier)
    assert solution.program == HALF
    assert (solution.samples, solution.solved, solution.verdict.fraction) == (5, False, 0.5)


def test_ties_go_to_the_answer_most_samples_agree_with(verifier):
    """Two programs pass tests 0 and 1, three pass tests 2 and 3, two of them but for names."""
    other = ["n = int(input()); print(n * 2 if n > 1 else 9)"] * 2
    other += ["number = int(input())  # doubled\nprint(number * 2 if number > 1 else 9)"]
    sampler = Scripted([HALF, HALF, other[0], "x = int(input())\nprint(4 if x == 2 else x * 2 if "
                        "x == 3 else 7)", *other[1:]])  # fmt: skip
    solution = solve(problem(), sampler, 6, None, verifier)
    assert solution.program == other[0]
    assert solution.agreeing == 3


def test_with_nothing_but_examples_it_uses_them_and_says_so(verifier):
    for each in (problem(examples=TESTS), problem(tests=(), examples=TESTS)):
        solution = solve(each, Scripted([RIGHT] * 8), 8, None, verifier)
        assert (solution.judged_by, solution.solved) == ("examples", True)
    with pytest.raises(ValueError, match="double has neither tests nor examples"):
        solve(problem(tests=()), Scripted([RIGHT]), 1, None, verifier)


class Prompted(Scripted):
    """One that keeps the end of the prompt of every sample."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(texts)
        self.ends: dict[int, str] = {}

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        for request in (requests := list(requests)):
            (message,) = cast(Any, request.prompt)
            end: str = message["content"].removeprefix(messages(problem())[0]["content"])
            self.ends |= dict.fromkeys(request.samples, end)
        return super().sample(requests, settings)


def test_samples_take_the_prompt_variants_in_turn_over_all_waves(verifier):
    variants = ["Use no library.", "", "Mind the edge cases."]
    sampler = Prompted([HALF] * 20)
    assert solve(problem(), sampler, 20, None, verifier, prompt_variants=variants).samples == 20
    ends = ["\nUse no library.", "", "\nMind the edge cases."]
    assert sampler.ends == {i: ends[i % 3] for i in range(20)}


def test_the_command_passes_prompt_variants_on(tmp_path, monkeypatch, capsys):
    tests = [{"input": test.input, "output": test.output} for test in TESTS]
    row = {"id": "double", "statement": "Double it.", "tests": tests}
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(row) + "\n")
    sampler = Prompted([RIGHT] * 8)
    monkeypatch.setattr("maxk.cli.solve.make_with", lambda *_: sampler)
    given = ["--problem", str(file), "--model", "m", "--base-url", "http://x"]
    given += ["--prompt-variants", "Be brief.", "Be plain."]
    assert filled(Solve, given).run() == 0
    assert capsys.readouterr().out.endswith(f"{RIGHT}\n")
    assert sampler.ends == {i: ["\nBe brief.", "\nBe plain."][i % 2] for i in range(8)}


def test_an_unknown_number_of_tokens_is_left_out_and_not_counted_as_0(
    tmp_path, monkeypatch, capsys
):
    tests = [{"input": test.input, "output": test.output} for test in TESTS]
    row = {"id": "double", "statement": "Double it.", "tests": tests}
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(row) + "\n")
    given = ["--problem", str(file), "--model", "m", "--base-url", "http://x"]
    for tokens, said in ((10, "8 samples, 80 tokens, "), (None, "8 samples, ")):
        sampler = Scripted([RIGHT] * 8, tokens)
        monkeypatch.setattr("maxk.cli.solve.make_with", lambda *_, made=sampler: made)
        assert filled(Solve, given).run() == 0
        (line,) = [each for each in capsys.readouterr().out.splitlines() if "samples, " in each]
        assert line.startswith(f"passes all the tests; {said}")
        assert ("tokens" in line) == (tokens is not None)


def test_errors_say_what_was_wrong(verifier):
    with pytest.raises(ValueError, match="n=0 must be at least 1"):
        solve(problem(), Scripted([]), 0, None, verifier)
    with pytest.raises(ValueError, match="none of 2 completions for double holds a program"):
        solve(problem(), Scripted(["", " "]), 2, None, verifier)


def test_it_is_part_of_the_public_api():
    assert maxk.solve is solve
