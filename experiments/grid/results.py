"""What is kept of a cell: two small files, without weights and without most texts.

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

NAME is that of the cell and its seed: mbpp-grpo-s0. `unpack` makes of them the folders that
`maxk compare` and `maxk evaluate` read.
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

from maxk.grade.convert import converted_config
from maxk.records import Problem
from maxk.report.suspicious import flags, tells
from maxk.store.run import Run, write_whole
from maxk.store.tables import COMPLETIONS, VERDICTS, pairs_of, problems_of, write_problems

STATUSES = (
    *("passed", "wrong answer", "runtime error", "timeout", "did not compile", "memory"),
    *("output limit", "no program", "no tests"),
)
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
        seconds = {
            key.removeprefix("seconds/"): np.array([x or 0.0 for x in values])
            for key, values in trained["metrics"].items()
            if key.startswith("seconds/")
        }
        if not seconds or not (batches := int((seconds["sampling"] > 0.01).sum())):
            return None
        parts = ("sampling", "verifying", "loading")
        batch = sum(float(seconds[part].sum()) for part in parts if part in seconds) / batches
        update = float((seconds["update"] + seconds["pre-pass"]).mean())
        return batch, update

    def sampled(self, name: str) -> tuple[float, float] | None:
        """Tokens of a completion and tokens a second; None if too few were seen to say."""
        stages = [s for s in self.about["stages"] if s["stage"] == f"sample {name}"]
        tokens, new, seconds = (sum(s[key] for s in stages) for key in ("tokens", "new", "seconds"))
        if new < ENOUGH:  # the time of these is that of the start
            return None
        return tokens / new, tokens / max(seconds, 1e-9)


def read_results(*folders: Path) -> list[Result]:
    """All results in these folders; of the same name the one with more samples."""
    found: dict[str, Result] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            result = Result(file.stem, with_names_of_today(json.loads(file.read_text())))
            if file.stem not in found or samples(result) > samples(found[file.stem]):
                found[file.stem] = result
    return list(found.values())


def with_names_of_today(about: dict[str, Any]) -> dict[str, Any]:
    """A result whose metrics may have been logged under the names that they had earlier."""
    if about.get("train"):
        metrics = about["train"]["metrics"]
        about["train"]["metrics"] = {today(name): values for name, values in metrics.items()}
    return about


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


def unpack(results: Path, out: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Results as the folders that `maxk compare` reads: OUT/NAME/SET. Texts are not among them.

    names: of these alone; LookupError for one that is not there.
    """
    there = {result.name: result for result in read_results(results)}
    wanted = set(there if names is None else names)
    if unknown := wanted - there.keys():
        raise LookupError(f"no result {', '.join(sorted(unknown))} in {results}")
    made = []
    for result in there.values():
        if result.name not in wanted:
            continue
        table = pq.read_table(results / f"{result.name}.parquet").to_pylist()
        for name, about in result.sets.items():
            folder = out / result.name / name
            if not (folder / "config.toml").exists():
                unpack_set([row for row in table if row["set"] == name], about["config"], folder)
            made.append(folder)
    return made


def unpack_set(rows: list[dict[str, Any]], config: dict[str, Any], folder: Path) -> None:
    run = Run.start(folder, "sample", converted_config("sample", config))
    write_problems(
        run, [Problem(row["problem"], "", (), difficulty=row["difficulty"]) for row in rows]
    )
    completions, verdicts = [], []
    for row in rows:
        of = {"problem": row["problem"]}
        for i, reward in enumerate(row["reward"]):
            one = {**of, "sample": i}
            entropy = row["entropy"][i]
            completions.append(
                {
                    **one,
                    "completion": "",
                    "tokens": row["tokens"][i],
                    "finish": "stop" if row["stopped"][i] else "length",
                    "entropy": None if np.isnan(entropy) else entropy,
                }
            )
            status = STATUSES[row["status"][i]]
            verdict = {"reward": reward, "passed": reward >= 1, "status": status}
            verdicts.append({**one, **verdict, "tests": json.dumps({"tests": []})})
    run.write("completions", "000000", pa.Table.from_pylist(completions, COMPLETIONS))
    run.write("verdicts", "000000", pa.Table.from_pylist(verdicts, VERDICTS))


def of_hardware(results: Iterable[Result], gpus: list[str] | None = None) -> list[Result]:
    """Those made on such a machine; without one to compare with, those made on any GPU."""
    if gpus is None:
        return [result for result in results if result.gpus]
    return [result for result in results if result.gpus == gpus]
