"""What a machine leaves of a cell: two files, without weights and without most texts.

    NAME.json      configuration, versions, hardware, seconds of every stage, metrics of every step,
                   and a few texts
    NAME.parquet   a row per problem and set, each with lists over the samples

      set          string         evaluation set
      problem      string         id
      difficulty   string
      reward       list<double>   the fraction of tests passed
      status       list<int8>     place in STATUSES
      tokens       list<int16>    of the completion, the end token counted
      stopped      list<bool>     it ended by itself
      entropy      list<float>    nats, mean over the tokens, to three digits, which makes half the
                                  file; NaN where it was not computed

NAME is that of the cell and its seed: mbpp-grpo-s0. `python -m experiments.results.add` puts them
into the stored results, in fewer bytes; `unpack` makes of those the folders that `maxk compare` and
`maxk evaluate` read.
"""

import functools
import json
import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.results.compact import STATUSES, Stock, read, samples_of
from maxk.grade.convert import converted_config
from maxk.records import Problem
from maxk.report.suspicious import flags, tells
from maxk.store.run import Run, write_whole
from maxk.store.tables import COMPLETIONS, VERDICTS, pairs_of, problems_of, write_problems

ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("set", "problem", "difficulty")),
        ("reward", pa.list_(pa.float64())),
        ("status", pa.list_(pa.int8())),
        ("tokens", pa.list_(pa.int16())),
        ("stopped", pa.list_(pa.bool_())),
        ("entropy", pa.list_(pa.float32())),
    ]
)
METRICS = {  # how names of metrics began in results that were made earlier, and begin now
    "drift/": "policy_lag/",
    "ratio/gated": "ratio/masked",
    "groups/no_signal": "groups/zero_variance",
    "groups/saturated": "groups/all_correct",
}
TEXTS = 20  # completions of each set that are kept
LOOKED_AT = 1000  # passes of each set
PLACE = re.compile(r"(?:^|(?<==))/(?:[^/\n]*/)*(?=[^/\n]*$)")  # but the last part
DIGITS = 6  # of a metric
ENOUGH = 2000  # completions, to tell the speed of sampling from


@dataclass(frozen=True)
class Result:
    """The first of the two files."""

    name: str
    about: dict[str, Any]

    @property
    def time(self) -> str:
        return self.about["time"]

    @property
    def sets(self) -> dict[str, Any]:
        return self.about["sets"]

    @property
    def gpus(self) -> list[str]:
        """Those of the last start."""
        return self.about["environment"].get("gpus", [])

    def has(self, sets: Iterable[str], n: int) -> bool:
        """Whether it is measured on these, with as many samples."""
        return all(self.sets.get(name, {"n": 0})["n"] >= n for name in sets)

    def per_step(self, data: str) -> tuple[float, float] | None:
        """Seconds of sampling and judging a batch, and of an update; None if that was not seen."""
        trained = self.about["train"]
        if trained is None or trained["config"]["data"]["name"] != data:
            return None
        spent = trained["seconds"]
        if not spent or not spent["batches"]:
            return None
        batch = sum(spent.get(part, 0.0) for part in ("sampling", "verifying", "loading"))
        return batch / spent["batches"], (spent["update"] + spent["pre-pass"]) / spent["steps"]

    def sampled(self, name: str) -> tuple[float, float] | None:
        """Tokens of a completion and tokens a second; None if too few were seen to say."""
        stages = [s for s in self.about["stages"] if s["stage"] == f"sample {name}"]
        tokens, new, seconds = (sum(s[key] for s in stages) for key in ("tokens", "new", "seconds"))
        if new < ENOUGH:  # the time of these is that of the start
            return None
        return tokens / new, tokens / max(seconds, 1e-9)


def read_results(*folders: Path) -> list[Result]:
    """All results in these folders; of the same name the one with more samples.

    A folder has result files, or the stored form of many (experiments/results).
    """
    found: dict[str, Result] = {}
    for folder in folders:
        for name, about in abouts_in(folder):
            result = Result(name, about)
            if name not in found or samples(result) > samples(found[name]):
                found[name] = result
    return list(found.values())


def abouts_in(folder: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    if (folder / "runs.jsonl").exists():
        yield from read(folder).runs("grid").items()
        return
    for file in sorted(folder.glob("*.json")):
        yield file.stem, with_names_of_today(json.loads(file.read_text()))


def with_names_of_today(about: dict[str, Any]) -> dict[str, Any]:
    """A result whose metrics may have been logged under the names that they had earlier.

    With what a training took, of all its steps.
    """
    if trained := about.get("train"):
        trained["metrics"] = {today(name): each for name, each in trained["metrics"].items()}
        trained["seconds"] = seconds_of(trained["metrics"])
    return about


def seconds_of(metrics: dict[str, list[Any]]) -> dict[str, float]:
    """Of each part of a training, all steps together, with how many of them sampled a batch.

    >>> seconds_of({"seconds/sampling": [2.0, 0.0], "seconds/update": [1.0, 1.5]})
    {'sampling': 2.0, 'update': 2.5, 'steps': 2, 'batches': 1}
    """
    seconds = {
        key.removeprefix("seconds/"): np.array([x or 0.0 for x in values])
        for key, values in metrics.items()
        if key.startswith("seconds/")
    }
    if not seconds:
        return {}
    spent = {part: round(float(values.sum()), 2) for part, values in seconds.items()}
    sampling = seconds.get("sampling", np.zeros(1))
    return spent | {"steps": len(sampling), "batches": int((sampling > 0.01).sum())}


def today(name: str) -> str:
    """
    >>> today("drift/iteration_3/mean"), today("groups/saturated"), today("reward")
    ('policy_lag/iteration_3/mean', 'groups/all_correct', 'reward')
    """
    for earlier, now in METRICS.items():
        if name.startswith(earlier):
            return now + name.removeprefix(earlier)
    return name


def samples(result: Result) -> int:
    return sum(each["n"] * each["problems"] for each in result.sets.values())


def keep_about(folder: Path, about: dict[str, Any], sets: Sequence[str]) -> None:
    """What `collect` needs to know, in the folder of a cell: for who judges it later."""
    write_whole(folder / "about.json", json.dumps({"about": about, "sets": list(sets)}).encode())


# --- from the folders of a cell ------------------------------------------------------------------


def collect(
    folder: Path, out: Path, about: dict[str, Any], sets: Sequence[str]
) -> dict[str, Any] | None:
    """Write both files of a cell, as far as it is.

    folder: of the cell, with train/, sets/ and stages.jsonl. Nothing is written over a result with
    more samples: that of a machine that is gone, whose weights cannot be had again.
    """
    rows: list[dict[str, Any]] = []
    measured: dict[str, Any] = {}
    texts: list[dict[str, Any]] = []
    profile = folder / "profile.json"  # of one update, if it was asked for
    for name in sets:
        path = folder / "sets" / name
        if not (path / "config.toml").exists() or not whole(run := Run.open(path)):
            continue
        found = rows_of(run, name)
        rows += found
        measured[name] = {
            "config": without_places(run.config),
            "n": run.config["n"],
            "problems": len(found),
            "tokens": sum(sum(row["tokens"]) for row in found),
            "max_at_1": float(np.mean([np.mean(row["reward"]) for row in found])),
            "by_heart": by_heart(path, run.config["n"]),
        }
        texts += texts_of(run, name)
    made: dict[str, Any] = {
        **without_places(about),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "train": without_places(training_of(folder / "train")),
        "stages": lines(folder / "stages.jsonl"),
        **({"profile": json.loads(profile.read_text())} if profile.exists() else {}),
        "sets": measured,
        "texts": texts,
    }
    name, out = folder.name, Path(out)
    out.mkdir(parents=True, exist_ok=True)
    there = [result for result in read_results(out) if result.name == name]
    if there and samples(there[0]) > samples(Result(name, made)):
        return None
    table = pa.Table.from_pylist(rows, ROWS)
    parquet = out / f"{name}.parquet"
    unfinished = out / f".{name}.parquet"
    pq.write_table(table, unfinished, compression="zstd", compression_level=19)
    unfinished.replace(parquet)
    write_whole(out / f"{name}.json", (json.dumps(made) + "\n").encode())
    return made


def whole(run: Run) -> bool:
    """Whether every sample is there and judged."""
    wanted = samples_due(run)
    return wanted > 0 and len(pairs_of(run)) == wanted == len(pairs_of(run, "verdicts"))


def all_sampled(run: Run) -> bool:
    wanted = samples_due(run)
    return wanted > 0 and len(pairs_of(run)) == wanted


def samples_due(run: Run) -> int:
    """Of all problems; 0 if these are not there yet."""
    if not run.parts("problems"):
        return 0
    return run.config["n"] * run.read("problems", ["id"]).num_rows


def rows_of(run: Run, name: str) -> list[dict[str, Any]]:
    """The rows of a set, problems in their order, samples in theirs."""
    problems = run.read("problems", ["id", "difficulty"]).to_pylist()
    place = {problem["id"]: i for i, problem in enumerate(problems)}
    n = run.config["n"]
    shape = (len(problems), n)
    reward, entropy = np.zeros(shape), np.full(shape, np.nan, np.float32)
    status, tokens = np.zeros(shape, np.int8), np.zeros(shape, np.int16)
    stopped = np.zeros(shape, bool)
    for row in run.read("verdicts", ["problem", "sample", "reward", "status"]).to_pylist():
        at = place[row["problem"]], row["sample"]
        reward[at], status[at] = row["reward"], STATUSES.index(row["status"])
    columns = ["problem", "sample", "tokens", "finish", "entropy"]
    for row in run.read("completions", columns).to_pylist():
        at = place[row["problem"]], row["sample"]
        tokens[at], stopped[at] = row["tokens"], row["finish"] == "stop"
        if row["entropy"] is not None:
            entropy[at] = row["entropy"]
    if run.parts("entropies"):
        for row in run.read("entropies").to_pylist():
            entropy[place[row["problem"]], row["sample"]] = row["entropy"]
    return [
        {
            "set": name,
            "problem": problem["id"],
            "difficulty": problem["difficulty"],
            "reward": reward[i].tolist(),
            "status": status[i].tolist(),
            "tokens": tokens[i].tolist(),
            "stopped": stopped[i].tolist(),
            "entropy": entropy[i].round(3).tolist(),
        }
        for i, problem in enumerate(problems)
    ]


def texts_of(run: Run, name: str) -> list[dict[str, Any]]:
    """The first sample of problems spread over the set."""
    ids = run.read("problems", ["id"])["id"].to_pylist()
    wanted = set(ids[:: max(1, len(ids) // TEXTS)][:TEXTS])
    found = run.read("completions", ["problem", "sample", "completion"]).to_pylist()
    return [
        {"set": name, "problem": row["problem"], "completion": row["completion"]}
        for row in found
        if row["sample"] == 0 and row["problem"] in wanted
    ]


@functools.cache  # results are collected after every stage; a set that is judged stays as it is
def by_heart(folder: Path, n: int) -> float | None:
    """The share of passes that have their tests by heart, in up to LOOKED_AT of them.

    n: the samples of a problem that the set has.
    """
    run = Run.open(folder)
    verdicts = run.read("verdicts", ["problem", "passed", "program"]).to_pylist()
    passed = [(row["problem"], row["program"]) for row in verdicts if row["passed"]]
    told = {problem.id: tells(problem.tests) for problem in problems_of(run)}
    some = passed[:: -(-len(passed) // LOOKED_AT) or 1]
    found = [flags(program, told[problem]) for problem, program in some]
    known = [any("hard-coded" in reason for reason in each) for each in found]
    return float(np.mean(known)) if known else None


def training_of(folder: Path) -> dict[str, Any] | None:
    if not (folder / "config.toml").exists():
        return None
    run = Run.open(folder)
    logged = [line for line in run.metrics() if "loss" in line]
    keys = dict.fromkeys(key for line in logged for key in line)
    return {
        "config": run.config,
        "environment": lines(folder / "environment.jsonl"),
        "metrics": {key: [short(line.get(key)) for line in logged] for key in keys},
    }


def without_places(value: Any) -> Any:
    """Where files lay on a machine is no result: of absolute paths the name alone.

    >>> without_places({"source": "/data/mbpp/mbpp.jsonl", "split": ["test"], "n": 4})
    {'source': 'mbpp.jsonl', 'split': ['test'], 'n': 4}
    >>> without_places(["--work=/data/out/grid", "--n=8"])
    ['--work=grid', '--n=8']
    """
    if isinstance(value, dict):
        return {key: without_places(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(each) for each in value]
    return PLACE.sub("", value) if isinstance(value, str) else value


def short(value: Any) -> Any:
    """A metric with the digits that mean something."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def lines(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines() if line]


# --- there and back ------------------------------------------------------------------------------


def pack(folder: Path, file: Path) -> None:
    """All results of a folder in one file."""
    unfinished = file.with_name(f".{file.name}")
    with tarfile.open(unfinished, "w:gz") as tar:
        for path in sorted(folder.glob("*")):
            if path.suffix in (".json", ".parquet") and not path.name.startswith("."):
                tar.add(path, path.name)
    unfinished.replace(file)


def unpack(stock: Stock, out: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Results as the folders that `maxk compare` reads: OUT/NAME/SET.

    Rewards, statuses and numbers of tokens are those there were; which of them came together in a
    sample is not known any more. Texts are not there. names: of these alone; LookupError for one
    that is not there.
    """
    there = stock.runs("grid")
    wanted = set(there if names is None else names)
    if unknown := wanted - there.keys():
        raise LookupError(f"no result {', '.join(sorted(unknown))} in {stock.folder or 'it'}")
    made = []
    for run in sorted(wanted):
        for name, about in there[run]["sets"].items():
            folder = out / run / name
            if not (folder / "config.toml").exists():
                rows = [row for row in stock.rows["grid", run] if row["set"] == name]
                unpack_set(rows, about["config"], folder)
            made.append(folder)
    return made


def unpack_set(rows: list[dict[str, Any]], config: dict[str, Any], folder: Path) -> None:
    run = Run.start(folder, "sample", converted_config("sample", config))
    write_problems(
        run, [Problem(row["problem"], "", (), difficulty=row["difficulty"]) for row in rows]
    )
    completions, verdicts = [], []
    for row in rows:
        rewards = samples_of(row)[::-1]  # passes first, as the kinds of verdicts have them
        kinds = np.repeat(np.arange(len(row["status"])), row["status"])
        n, mean = len(rewards), None
        if row["entropies"]:
            mean = row["entropy"] / 1000 / row["entropies"]
        for i, reward in enumerate(rewards.tolist()):
            one = {"problem": row["problem"], "sample": i}
            completions.append(
                {
                    **one,
                    "completion": "",
                    "tokens": row["tokens"] // n + (i < row["tokens"] % n),
                    "finish": "stop" if i < row["ended"] else "length",
                    "entropy": mean if i < row["entropies"] else None,
                }
            )
            status = STATUSES[kinds[i]]
            verdict = {"reward": reward, "passed": reward >= 1, "status": status}
            verdicts.append({**one, **verdict, "tests": json.dumps({"tests": []})})
    run.write("completions", "000000", pa.Table.from_pylist(completions, COMPLETIONS))
    run.write("verdicts", "000000", pa.Table.from_pylist(verdicts, VERDICTS))


def of_hardware(results: Iterable[Result], gpus: list[str] | None = None) -> list[Result]:
    """Those made on such a machine; without one to compare with, those made on any GPU."""
    if gpus is None:
        return [result for result in results if result.gpus]
    return [result for result in results if result.gpus == gpus]
