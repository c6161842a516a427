"""Put the result files of new runs into the stored results.

    python -m experiments.results.add FOLDER [--study grid] [--into experiments/results]

FOLDER has what `experiments.grid.run` (NAME.json and NAME.parquet), `experiments.grid.arms` or
`experiments.pocket.full` (rewards.parquet) leave. Of a run that is stored already the one with more
samples stays. Every run is named with what became of it.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from experiments.grid.results import today, with_names_of_today
from experiments.results.compact import (
    GRID,
    RESULTS,
    Kept,
    Row,
    Stock,
    kept_metrics,
    read,
    row_of,
    write,
)

UNTOLD = ("time", "command", "commit")  # of a machine: its packages and hardware matter
SEEN = ("stage", "seconds", "new", "tokens", "waited_for_judges")


def fold(folder: Path, study: str = GRID) -> list[Kept]:
    """The runs of a folder of result files, as they are stored."""
    if (folder / "rewards.parquet").exists():
        return of_pocket(folder, study)
    return [
        of_file(file, study)
        for file in sorted(folder.glob("*.json"))
        if file.with_suffix(".parquet").exists()
    ]


def of_file(file: Path, study: str) -> Kept:
    """Of a run of the grid, or of a model in several sampling configurations."""
    about = with_names_of_today(json.loads(file.read_text()))
    trained = about.get("train") or {}
    metrics = kept_metrics(trained.get("metrics", {}))
    return Kept(study, file.stem, trimmed(about), rows_of(file.with_suffix(".parquet")), metrics)


def rows_of(file: Path) -> list[Row]:
    table = pq.read_table(file)
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if hasattr(column, "offsets"):  # a list for each problem: far faster than to_pylist
            values, ends = column.values.to_numpy(False), column.offsets.to_numpy()
            columns[name] = [values[a:b] for a, b in itertools.pairwise(ends)]
        else:
            columns[name] = column.to_pylist()
    if "phase" in columns:
        pairs = zip(columns.pop("phase"), columns.pop("way"), strict=True)
        columns["configuration"] = [f"{phase} {way}" for phase, way in pairs]
    rows = (
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    )
    return [
        row_of(
            *(row.get("configuration", ""), row["set"], row["problem"], row["reward"]),
            *(row["tokens"], row["stopped"], row.get("status"), row.get("entropy", ())),
            row.get("difficulty"),
        )
        for row in rows
    ]


def trimmed(about: dict[str, Any]) -> dict[str, Any]:
    """Without texts, single steps, and where and when a command ran."""
    made = {key: value for key, value in about.items() if key != "texts"}
    if isinstance(made.get("environment"), dict):
        made["environment"] = machine(made["environment"])
    elif "environment" in made:
        made["environment"] = machines(made["environment"])
    if trained := made.get("train"):
        made["train"] = {
            "config": trained["config"],
            "environment": machines(trained["environment"]),
            "seconds": trained["seconds"],
        }
    if "stages" in made:
        made["stages"] = [
            {key: stage[key] for key in SEEN if key in stage}
            | {"gpu": stage.get("gpu") and {"busy_percent": stage["gpu"]["busy_percent"]}}
            for stage in made["stages"]
        ]
    return made


def machine(environment: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environment.items() if key not in UNTOLD}


def machines(environments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once."""
    different = {json.dumps(machine(each)): machine(each) for each in environments}
    return list(different.values())


def of_pocket(folder: Path, study: str) -> list[Kept]:
    """rewards.parquet of experiments/pocket: tests passed, of eight, by each sample."""
    rows: dict[tuple[str, int], list[Row]] = {}
    for row in pq.read_table(folder / "rewards.parquet").to_pylist():
        name = "-".join(row["problem"].split("/")[:2])
        rewards = np.asarray(row["passed"]) / 8
        made = row_of("", name, row["problem"], rewards)
        made |= dict.fromkeys(("tokens", "ended", "entropies", "entropy"))
        rows.setdefault((row["cell"], row["seed"]), []).append(made)
    lag = policy_lags(folder / "steps.parquet")
    return [
        Kept(
            study, f"{cell}-s{seed}", {"cell": cell, "seed": seed} | lag.get((cell, seed), {}), each
        )
        for (cell, seed), each in rows.items()
    ]


def policy_lags(file: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Of each run, by pass over a batch: nats of a completion, the mean over all steps."""
    if not file.exists():
        return {}
    table = pq.read_table(file)
    names = {name: today(name) for name in table.column_names}
    named = {
        name: new.split("_")[-1].removesuffix("/mean")
        for name, new in names.items()
        if new.startswith("policy_lag/") and new.endswith("/mean")
    }
    values: dict[tuple[str, int], dict[str, list[float]]] = {}
    for row in table.select(["cell", "seed", *named]).to_pylist():
        of_run = values.setdefault((row["cell"], row["seed"]), {})
        for name, iteration in named.items():
            if row[name] is not None:
                of_run.setdefault(iteration, []).append(row[name])
    return {
        key: {"policy_lag": {i: float(f"{np.mean(x):.4g}") for i, x in sorted(found.items())}}
        for key, found in values.items()
    }


def stock_of(folder: Path) -> Stock:
    """What lies in a folder: the stored form, or result files of runs.

    Of files, those of other studies lie in folders of their names.
    """
    if (folder / "runs.jsonl").exists():
        return read(folder)
    found = fold(folder)
    for inside in sorted(path for path in folder.glob("*") if path.is_dir()):
        if inside.name != "smoke":
            found += fold(inside, inside.name)
    return Stock({(each.study, each.run): each.about for each in found}, given=found)


def add(found: Sequence[Kept], into: Path) -> list[str]:
    """Put runs into a folder of stored results; a line about each."""
    if (into / "runs.jsonl").exists():
        there, base = {(each.study, each.run): each for each in read(into).all()}, None
    elif found:  # the first run tells what the others differ from
        there, base = {}, max((each.about for each in found), key=lambda about: len(str(about)))
    else:
        return []
    said = []
    for each in found:
        key, size = (each.study, each.run), f"{each.samples:,} samples"
        stored = there.get(key)
        if stored is not None and stored.samples >= each.samples:
            same = " the same run" if stored.about.get("id") == each.about.get("id") else ""
            said.append(
                f"{each.run}: passed over; stored is{same or ' another run'} "
                f"with {stored.samples:,} samples, this has {size}"
            )
            continue
        there[key] = each
        said.append(f"{each.run}: {'added' if stored is None else 'replaced'}, {size}")
    write(into, there.values(), base)
    return said


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="put the result files of new runs into the stored results"
    )
    parser.add_argument("folder", type=Path, help="with NAME.json and NAME.parquet of each run")
    parser.add_argument("--study", default=GRID, help="default: grid")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the stored results")
    asked = parser.parse_args(given)
    if not (found := fold(asked.folder, asked.study)):
        parser.error(
            f"{asked.folder} has no results; give the folder that was --results of the runs"
        )
    print(*add(found, asked.into), sep="\n")
    sizes = {file.name: file.stat().st_size for file in sorted(asked.into.glob("*.*"))}
    total = sum(sizes[name] for name in sizes if name.endswith((".parquet", ".jsonl", ".json")))
    print(f"{asked.into}: {total / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
