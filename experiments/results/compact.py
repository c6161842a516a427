"""The stored results: counts, problems, steps and runs. README.md has their columns.

What decides every max@k, pass@k, interval, test, ensemble and allocation is how often each reward
came, for each run and problem. So that is kept, and no single sample.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent
GRID = "grid"  # the study of the runs of experiments/grid
STATUSES = (
    *("passed", "wrong answer", "runtime error", "timeout", "did not compile", "memory"),
    *("output limit", "no program", "no tests"),
)
KEY = ("study", "run", "configuration", "set", "problem")
_STRINGS = [(name, pa.string()) for name in KEY]
COUNTS = pa.schema([*_STRINGS, ("reward", pa.list_(pa.float64())), ("count", pa.list_(pa.int16()))])
PROBLEMS = pa.schema(
    [
        *_STRINGS,
        ("difficulty", pa.string()),
        ("tokens", pa.int32()),
        ("ended", pa.int16()),
        ("unfinished", pa.int16()),
        ("status", pa.list_(pa.int16())),
        ("entropies", pa.int16()),
        ("entropy", pa.int32()),
    ]
)
LOGGED = re.compile(
    r"reward|max_at/8|entropy|kl|completions/mean_length|policy_lag/iteration_\d+/mean"
    r"|ratio/(effective|masked|clamped)|clip_ratio/region_mean"
)  # metrics of a step that are kept
BITS = 14  # of a metric's mantissa: 3e-5 of its value
REMOVED = "-"  # in a difference: the keys that the base has and this one has not

Row = dict[str, Any]
Metrics = dict[str, list[float | None]]


@dataclass(frozen=True)
class Kept:
    """One run of a study: its protocol, its rows, and what it logged."""

    study: str
    run: str
    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)  # with `reward` and `count`, and sums
    metrics: Metrics = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return sum(int(np.sum(row["count"])) for row in self.rows)


def row_of(
    configuration: str,
    name: str,
    problem: str,
    rewards: Iterable[float],
    tokens: Iterable[int] = (),
    stopped: Iterable[bool] = (),
    status: Iterable[int] | None = None,
    entropy: Iterable[float] = (),
    difficulty: str | None = None,
) -> Row:
    """What is kept of the samples of a problem.

    >>> row = row_of("", "mbpp", "a", [1.0, 0.5, 1.0], [7, 8, 9], [True, False, True], [0, 1, 0])
    >>> row["reward"], row["count"], row["tokens"], row["ended"], row["status"][:2]
    ([0.5, 1.0], [1, 2], 24, 2, [2, 1])
    """
    values, counts = np.unique(np.asarray(list(rewards), float), return_counts=True)
    ended, kinds = np.array(list(stopped), bool), None
    unfinished = None
    if status is not None:
        numbers = np.array(list(status), int)
        kinds = np.bincount(numbers, minlength=len(STATUSES)).tolist()
        unfinished = int(((numbers == STATUSES.index("did not compile")) & ended).sum())
    known = np.array(list(entropy), float)
    known = known[~np.isnan(known)]
    return {
        "configuration": configuration,
        "set": name,
        "problem": problem,
        "reward": values.tolist(),
        "count": counts.tolist(),
        "difficulty": difficulty,
        "tokens": sum(map(int, tokens)),
        "ended": int(ended.sum()),
        "unfinished": unfinished,
        "status": kinds,
        "entropies": len(known),
        "entropy": round(1000 * float(known.sum())),
    }


@dataclass
class Stock:
    """All runs of a folder. Rows are read when they are first asked for."""

    abouts: dict[tuple[str, str], dict[str, Any]]  # by study and run
    folder: Path | None = None
    given: list[Kept] = field(default_factory=list)

    @cached_property
    def rows(self) -> dict[tuple[str, str], list[Row]]:
        if self.folder is None:
            return {(each.study, each.run): each.rows for each in self.given}
        found: dict[tuple[str, str], list[Row]] = {}
        for row in joined(self.folder):
            found.setdefault((row.pop("study"), row.pop("run")), []).append(row)
        return found

    @cached_property
    def metrics(self) -> dict[tuple[str, str], Metrics]:
        if self.folder is None:
            return {(each.study, each.run): each.metrics for each in self.given}
        columns = pq.read_table(self.folder / "steps.parquet").to_pydict()
        studies, runs = columns.pop("study"), columns.pop("run")
        place: dict[tuple[str, str], list[int]] = {}
        for i, key in enumerate(zip(studies, runs, strict=True)):
            place.setdefault(key, []).append(i)
        found = {}
        for key, where in place.items():
            lines = {name: [values[i] for i in where] for name, values in columns.items()}
            found[key] = {
                name: values
                for name, values in lines.items()
                if any(value is not None for value in values)
            }
        return found

    def runs(self, study: str) -> dict[str, dict[str, Any]]:
        """What is known of each run of a study."""
        return {run: about for (each, run), about in self.abouts.items() if each == study}

    def all(self) -> Iterator[Kept]:
        for key, about in self.abouts.items():
            yield Kept(*key, about, self.rows.get(key, []), self.metrics.get(key, {}))


def joined(folder: Path, **wanted: str) -> Iterator[Row]:
    """The rows of counts.parquet with those of problems.parquet, which are in the same order.

    wanted: columns with the value to have, such as run="base-s0".
    """
    filters = [(name, "=", value) for name, value in wanted.items()] or None
    counts, problems = (
        pq.read_table(folder / f"{name}.parquet", filters=filters)
        for name in ("counts", "problems")
    )
    for name in KEY:
        if counts[name].to_pylist() != problems[name].to_pylist():
            raise ValueError(f"{folder}: counts and problems differ in {name}; add the runs again")
    names = [*counts.column_names, *(x for x in problems.column_names if x not in KEY)]
    columns = [
        *(counts[name].to_pylist() for name in counts.column_names),
        *(problems[name].to_pylist() for name in problems.column_names if name not in KEY),
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def samples_of(row: Row) -> np.ndarray:
    """The rewards of a problem, one for each sample, lowest first."""
    return np.repeat(np.asarray(row["reward"], float), row["count"])


# --- files ---------------------------------------------------------------------------------------


def read(folder: Path = RESULTS) -> Stock:
    """The runs that are stored in a folder."""
    base = json.loads((folder / "base.json").read_text())
    abouts = {}
    for line in (folder / "runs.jsonl").read_text().splitlines():
        one = json.loads(line)
        abouts[one["study"], one["run"]] = merged(base, one["differs"])
    return Stock(abouts, folder)


def write(folder: Path, runs: Iterable[Kept], base: dict[str, Any] | None = None) -> None:
    """All files of a folder, in an order that does not depend on when a run was added.

    base: what lines of runs.jsonl are a difference to; by default base.json of the folder.
    """
    every = sorted(runs, key=lambda each: (each.study, each.run))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "base.json"
    if base is None:
        base = json.loads(file.read_text())
    else:
        file.write_text(json.dumps(base, indent=1) + "\n")
    lines = [
        {"study": each.study, "run": each.run, "differs": difference(base, each.about)}
        for each in every
    ]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (folder / "runs.jsonl").write_text(text)
    rows = [row | {"study": each.study, "run": each.run} for each in every for row in each.rows]
    # Runs of one problem beside each other: they are alike, and half as many bytes.
    rows.sort(
        key=lambda row: (row["set"], row["problem"], row["study"], row["run"], row["configuration"])
    )
    for name, schema in (("counts", COUNTS), ("problems", PROBLEMS)):
        save(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")
    names = sorted({name for each in every for name in each.metrics} - {"step"})
    kinds = [("study", pa.string()), ("run", pa.string()), ("step", pa.int32())]
    kinds += [(name, pa.float32()) for name in names]
    columns: dict[str, list[Any]] = {name: [] for name, _ in kinds}
    for each in every:
        count = len(each.metrics.get("step", []))
        for name, column in columns.items():
            column += {"study": [each.study] * count, "run": [each.run] * count}.get(
                name, each.metrics.get(name, [None] * count)
            )
    save(pa.table(columns, pa.schema(kinds)), folder / "steps.parquet")


def save(table: pa.Table, file: Path) -> None:
    unfinished = file.with_name(f".{file.name}")
    pq.write_table(
        *(table, unfinished), compression="zstd", compression_level=19, row_group_size=2**22
    )
    unfinished.replace(file)


def kept_metrics(metrics: dict[str, list[Any]]) -> Metrics:
    """Those of LOGGED, with fewer digits."""
    found: Metrics = {"step": metrics["step"]} if "step" in metrics else {}
    for name, values in metrics.items():
        if LOGGED.fullmatch(name):
            found[name] = [None if value is None else shorter(value) for value in values]
    return found


def shorter(value: float) -> float:
    """
    >>> shorter(1.0), shorter(1 / 3)
    (1.0, 0.333343505859375)
    """
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.round(mantissa * 2**BITS) / 2**BITS, exponent))


# --- differences ---------------------------------------------------------------------------------


def difference(base: Any, value: dict[str, Any]) -> dict[str, Any]:
    """What to change in a base to have a value.

    >>> difference({"a": 1, "b": {"c": 2, "d": 3}, "e": 4}, {"a": 1, "b": {"c": 5, "d": 3}})
    {'b': {'c': 5}, '-': ['e']}
    """
    made: dict[str, Any] = {}
    for key, own in value.items():
        if key in base and base[key] == own and type(base[key]) is type(own):
            continue
        nested = isinstance(own, dict) and isinstance(base.get(key), dict)
        made[key] = difference(base[key], own) if nested else own
    if gone := [key for key in base if key not in value]:
        made[REMOVED] = gone
    return made


def merged(base: Any, changed: dict[str, Any]) -> dict[str, Any]:
    """
    >>> merged({"a": 1, "b": {"c": 2, "d": 3}, "e": 4}, {"b": {"c": 5}, "-": ["e"]})
    {'a': 1, 'b': {'c': 5, 'd': 3}}
    """
    made = {key: value for key, value in base.items() if key not in changed.get(REMOVED, ())}
    for key, own in changed.items():
        if key != REMOVED:
            nested = isinstance(own, dict) and isinstance(base.get(key), dict)
            made[key] = merged(base[key], own) if nested else own
    return made
