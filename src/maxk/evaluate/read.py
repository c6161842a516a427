"""What a sampling run holds, as evaluation takes it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxk.evaluate.diversity import distinct
from maxk.store.run import Run, RunError, differences


@dataclass(frozen=True)
class Stored:
    """The judged completions of a run. Rows of rewards are in the order of the samples."""

    name: str
    config: dict[str, Any]
    rewards: dict[str, np.ndarray]  # by problem
    difficulties: list[str]  # of the problems, "unknown" where the data set does not say
    statuses: Counter[str]  # of completions
    entropies: np.ndarray  # mean token entropy of completions; empty where not known
    tokens: int
    judged: dict[str, Any]  # how; empty where the verdicts do not say

    @property
    def rows(self) -> list[np.ndarray]:
        return list(self.rewards.values())

    @property
    def samples(self) -> int:
        return sum(map(len, self.rows))


def read_run(folder: str | Path, verdicts: str = "verdicts", name: str | None = None) -> Stored:
    """A run with its verdicts; verdicts names their table, where there are several.

    RunError if completions are missing or not judged: half a run would measure another thing.
    """
    run = Run.open(folder)
    if run.kind != "sample":
        raise RunError(f"{folder} is a run of kind {run.kind!r}; evaluate one of `maxk sample`")
    missing = sorted(set(run.parts("completions")) - set(run.parts(verdicts)))
    if missing:
        raise RunError(f"{folder} has completions without {verdicts}; run: maxk verify {folder}")
    problems = run.read("problems", ["id", "difficulty"]).to_pydict()
    table = run.read(verdicts, ["problem", "sample", "reward", "status"])
    place = {problem: i for i, problem in enumerate(problems["id"])}
    owner = np.array([place[problem] for problem in table["problem"].to_pylist()])
    order = np.lexsort((table["sample"].to_numpy(), owner))
    counts = np.bincount(owner, minlength=len(place))
    wanted = run.config["n"]
    if (counts < wanted).any():
        lacking = int((counts < wanted).sum())
        raise RunError(
            f"{folder} has fewer than {wanted} completions of {lacking} of {len(place)} problems; "
            "repeat its `maxk sample`"
        )
    rewards = np.split(table["reward"].to_numpy()[order], np.cumsum(counts)[:-1])
    extra = run.read("completions", ["entropy", "tokens"])
    entropies = np.array([x for x in extra["entropy"].to_pylist() if x is not None])
    return Stored(
        name=name or Path(folder).name,
        config=run.config,
        rewards=dict(zip(problems["id"], rewards, strict=True)),
        difficulties=[each or "unknown" for each in problems["difficulty"]],
        statuses=Counter(table["status"].to_pylist()),
        entropies=entropies,
        tokens=sum(x or 0 for x in extra["tokens"].to_pylist()),
        judged=json.loads((table.schema.metadata or {}).get(b"maxk", b"{}")),
    )


def unique_programs(folder: str | Path, verdicts: str = "verdicts") -> float:
    """The share of different programs among the samples of a problem, over all problems.

    Programs that differ in layout, comments or names are the same (`maxk.evaluate.normalise`).
    """
    table = Run.open(folder).read(verdicts, ["problem", "program"]).to_pydict()
    programs: dict[str, list[str]] = {}
    for problem, program in zip(table["problem"], table["program"], strict=True):
        programs.setdefault(problem, []).append(program or "")
    return sum(distinct(list(programs.values()))) / len(table["problem"])


def refuse_other_settings(runs: Sequence[Stored]) -> None:
    """ValueError with the difference, unless runs were sampled and judged alike on one data set."""
    _refuse(runs, lambda run: {**_data(run), **configuration_of(run)})


def refuse_other_problems(runs: Sequence[Stored]) -> None:
    """ValueError with the difference, unless runs are on the same problems and judged alike."""
    _refuse(runs, _data)


def configuration_of(run: Stored) -> dict[str, Any]:
    """How a run was sampled: its sampling configuration without the model and the seed."""
    settings = {key: value for key, value in run.config["settings"].items() if key != "seed"}
    variants = run.config.get("prompt_variants")
    return {"settings": settings, **({"prompt_variants": variants} if variants else {})}


def settings_of(run: Stored) -> dict[str, str]:
    """The configuration behind a run, flat, without its seed and the names of folders.

    Of the training run that made its model, where the model is a folder of `maxk train`; of the
    sampling run itself otherwise.
    """
    folder = Path(str(run.config.get("model", "")))
    for each in (folder, folder.parent):
        if (each / "config.toml").is_file():
            config = _flat(Run.open(each).config)
            return {key: value for key, value in config.items() if key not in _NO_SETTINGS}
    sampled = _flat({key: run.config[key] for key in ("model", "settings") if key in run.config})
    return {key: value for key, value in sampled.items() if key not in _NO_SETTINGS}


_NO_SETTINGS = (
    "run.out",
    "run.seed",
    "trl.seed",
    "trl.data_seed",
    "trl.output_dir",
    "settings.seed",
)


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            out |= _flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = str(value)
    return out


def _data(run: Stored) -> dict[str, Any]:
    """Of what, and how it was judged; where the files lay does not matter, nor who worked."""
    data = {key: value for key, value in run.config["data"].items() if key != "source"}
    return {"data": data, "judged": run.judged}


def _refuse(runs: Sequence[Stored], asked: Callable[[Stored], dict[str, Any]]) -> None:
    first = asked(runs[0])
    for run in runs[1:]:
        rows = differences(first, asked(run))
        if rows:
            shown = "\n  ".join(rows)
            raise ValueError(
                f"{runs[0].name} and {run.name} are not comparable:\n  {shown}\n"
                "sample and judge them alike; `maxk allocate` compares sampling configurations"
            )
