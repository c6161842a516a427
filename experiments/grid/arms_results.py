"""What arms.py leaves, two files of each model:

CELL.json      the training's id, machines, settings, hints, ways; the plan, with what it is
               worth on the problems it was chosen by, for 1, 2, 4 ... samples, and the plan of
               several models; seconds and tokens of each way's last start
CELL.parquet   a row per phase, way, set and problem, with lists over the samples

  phase        string         "validation", "test" or "alone"
  way          string         name in arms.toml
  set          string
  problem      string         id
  reward       list<double>   the fraction of tests passed
  tokens       list<int16>    of the completion, the end token counted
  stopped      list<bool>     it ended by itself
"""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.grid.arms_site import PHASES, Site, sampled
from experiments.grid.results import lines, rows_of, whole, without_places
from maxk.store.run import Run, write_whole

ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("phase", "way", "set", "problem")),
        ("reward", pa.list_(pa.float64())),
        ("tokens", pa.list_(pa.int16())),
        ("stopped", pa.list_(pa.bool_())),
    ]
)


def collect(site: Site, cell: str, results: Path) -> None:
    """Write both files of a cell, as far as it is; not over one with more rows."""
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {}
    machines: dict[str, Any] = {}  # each once
    ways = [(phase, way.name) for phase in PHASES for way in site.arms.of(cell)]
    for phase, way in ways:
        folder = site.folder(cell, phase, way)
        if not sampled(folder):
            continue
        notes[f"{phase} {way}"] = json.loads((folder / "sampled.json").read_text())
        for line in lines(folder / "environment.jsonl"):
            machines.setdefault(json.dumps(line | {"time": None}), line)
        for path in (folder, *(folder / name for name in site.arms.test["judged_too"])):
            if (path / "config.toml").exists() and whole(run := Run.open(path)):
                rows += [{"phase": phase, "way": way} | row for row in rows_by_set(run)]
    identity, order = site.work / cell / "id", site.plan_of(cell)
    about = {
        "cell": cell,
        "id": identity.read_text() if identity.exists() else None,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": without_places(list(machines.values())),
        "settings": asdict(replace(site.grid.settings, max_tokens=site.arms.max_tokens)),
        "limits": asdict(site.grid.limits),
        "hints": site.arms.hints,
        "ways": {way.name: asdict(way) for way in site.arms.of(cell)},
        "plan": json.loads(order.read_text()) if order.exists() else None,
        "together": json.loads(site.together.read_text()) if site.together.exists() else None,
        "sampled": notes,
    }
    results.mkdir(parents=True, exist_ok=True)
    file, unfinished = results / f"{cell}.parquet", results / f".{cell}.parquet"
    if file.exists() and pq.read_metadata(file).num_rows > len(rows):
        print(f"{cell}: {file} has more than the {len(rows)} rows there are", flush=True)
        return
    table = pa.Table.from_pylist(rows, ROWS)
    pq.write_table(table, unfinished, compression="zstd", compression_level=19)
    unfinished.replace(file)
    write_whole(results / f"{cell}.json", (json.dumps(about) + "\n").encode())
    print(f"{cell}: {len(rows)} rows", flush=True)


def rows_by_set(run: Run) -> list[dict[str, Any]]:
    """The rows of a run that has several sets, one after the other."""
    sets = [name for name, size in run.config["data"]["sets"].items() for _ in range(size)]
    keys = ("problem", "reward", "tokens", "stopped")
    return [
        {"set": name, **{key: row[key] for key in keys}}
        for name, row in zip(sets, rows_of(run, ""), strict=True)
    ]
